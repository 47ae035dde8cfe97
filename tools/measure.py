"""What the measuring programs share: building, the lines that they print, figures that are kept."""
import json
import os
import re
import subprocess
import sys

REPORT = 'build/report'
CPUS = os.cpu_count() or 1


def say(text):
    print(text, flush=True)


def settings_name(settings):
    return ' '.join(settings) or 'default'


def config_of(settings):
    done = subprocess.run(['make', '-s', 'config'] + settings, stdout=subprocess.PIPE, text=True,
                          check=True)
    return 'build/' + done.stdout.strip()


def build(target, settings):
    """Builds one target in a configuration and returns its folder."""
    folder = config_of(settings)
    os.makedirs(folder, exist_ok=True)
    done = subprocess.run(['make', '-j%d' % CPUS, target] + settings, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        sys.stderr.write(done.stdout[-3000:] + '\nbench: %s does not build (%s)\n'
                         % (target, settings_name(settings)))
        sys.exit(1)
    return folder


def lines_of(text, kind):
    """The measuring lines of one kind, each a dictionary."""
    found = []
    for line in re.findall(r'^@%s (.*)$' % kind, text, re.M):
        found.append(dict(word.split('=', 1) for word in line.split() if '=' in word))
    return found


def number(value, digits=0):
    """A figure as text, with a comma at thousands."""
    return '-' if value is None else '{:,.{}f}'.format(value, digits)


def keep(name, row, figures):
    """Keeps figures by workload and row in build/report/figures.json, for tools/figures."""
    path = REPORT + '/figures.json'
    os.makedirs(REPORT, exist_ok=True)
    everything = {}
    if os.path.exists(path):
        with open(path) as stream:
            everything = json.load(stream)
    everything.setdefault(name, {})[row] = figures
    with open(path, 'w') as stream:
        json.dump(everything, stream, indent=1, sort_keys=True)
