"""Guest tests that need a boot of their own, each a function of the kernel's file.

A function returns None, or why the test failed. BOOTS names them in the order of their running.
"""
import os
import pty
import re
import select
import subprocess
import time

import guest

IMAGE = 'build/guest/boot-%d.cpio' % os.getpid()
BOOT_SECONDS = 40
STEP_SECONDS = 15


def make_image(task=None):
    """An image with this task, or one that starts a shell."""
    words = ['tools/make_image', IMAGE]
    if task:
        with open(IMAGE + '.task', 'w') as stream:
            stream.write('#!/bin/sh\n' + task)
        os.chmod(IMAGE + '.task', 0o755)
        words += ['--task', IMAGE + '.task']
    subprocess.run(words, check=True)


def tail(text):
    return '\n'.join('    ' + line for line in text.splitlines()[-40:])


# --------------------------------------------------------------------------------------- tty

# What is typed, and what must then come; a pattern is matched behind the last match.
TTY_STEPS = [
    ('the shell starts', None, r'# $'),
    ('a command', 'echo he""llo\r', r'\nhello\n.*# $'),
    ('canonical input with erase', 'cat\r', r'cat\n'),
    ('', 'abc\x7fd\r', r'abc\x08 \x08d\nabd\n'),
    ('kill a line', 'zzz\x15yes\r', r'yes\nyes\n'),
    ('erase a word', 'one two\x17three\r', r'\none three\n'),
    ('the next character as it is', 'a\x16\x03b\r', r'a\x03b\n'),
    ('end of file', '\x04', r'# $'),
    ('end of file behind text', 'cat\r', r'cat\n'),
    ('', 'text\x04', r'texttext'),
    ('', '\x04', r'# $'),
    ('interrupt', 'sleep 100\r', r'sleep 100\n'),
    ('', '\x03', r'\^C.*# $'),
    ('its status', 'echo status $?\r', r'\nstatus 130\n.*# $'),
    ('quit', 'sleep 100\r', r'sleep 100\n'),
    ('', '\x1c', r'\^\\.*# $'),
    ('its status', 'echo status $?\r', r'\nstatus 131\n.*# $'),
    ('stop', 'sleep 100\r', r'sleep 100\n'),
    ('', '\x1a', r'\^Z.*Stopped.*# $'),
    ('jobs', 'jobs\r', r'Stopped +sleep 100\n.*# $'),
    ('to the foreground', 'fg\r', r'fg\nsleep 100\n'),
    ('and interrupt', '\x03', r'\^C.*# $'),
    ('a background job that reads is stopped', 'cat & sleep 0.5; jobs\r',
     r'Stopped \(tty input\) +cat\n.*# $'),
    ('', 'kill %1; fg\r', r'# $'),
    ('a pipeline is one group', 'sleep 100 | sleep 100\r', r'100\n'),
    ('', '\x03', r'\^C.*# $'),
    ('raw input', 'stty raw -echo; dd bs=1 count=3 2>/dev/null | od -c; stty sane\r', r'sane\n'),
    ('', 'a\x03b', r'0000000   a 003   b'),
    ('', '\r', r'# $'),
    ('input with a time limit', 'stty -icanon min 0 time 2; dd bs=10 count=1 | wc -c; stty sane\r',
     r'\n0\n.*# $'),
    ('no echo', 'stty -echo; read line; stty echo; echo "got $line"\r', r'line"\n'),
    ('', 'secret\r', r'^(?:(?!secret).)*got secret\n.*# $'),
    ('window size', 'stty rows 30 cols 100; stty size\r', r'\n30 100\n.*# $'),
    ('its signal', 'sh -c \'trap "echo resized" WINCH; stty rows 40; sleep 0.2; echo over\'\r',
     r'resized\n.*over\n.*# $'),
    ('long line', 'wc -c\r', r'wc -c\n'),
    ('', 'x' * 1000 + '\r', r'x{1000}\n'),
    ('', '\x04', r'1001\n.*# $'),
    ('hang-up of a session', 'exit\r', r'# $'),
    ('and leave', 'poweroff -f\r', None),
]


def boot_tty(kernel):
    make_image()
    with guest.Guest(kernel, IMAGE, append='quiet') as machine:
        at, seconds = 0, BOOT_SECONDS
        for name, typed, wanted in TTY_STEPS:
            if typed:
                machine.send(typed)
            if wanted is None:
                continue
            # The shell's prompt asks the terminal where its cursor is.
            pattern = re.sub(r'# \$$', r'# (?:\\x1b\\[6n)?$', wanted)
            found = machine.wait_match(pattern, seconds, at)
            if found < 0:
                return 'tty, %s: typed %r, wanted %r, got %r' % (name, typed, wanted,
                                                                 machine.text[at:][-400:])
            at, seconds = found, STEP_SECONDS
            if not wanted.endswith('# $'):
                # A program starts: the shell has yet to give the tty its settings back.
                time.sleep(0.5)
        if not machine.wait_end(STEP_SECONDS):
            return 'no end after poweroff:\n' + tail(machine.text)
    return None


# ------------------------------------------------------------------------------ broken images

def corrupt(name, data):
    """The image's bytes, spoilt in the way that the name says."""
    data = bytearray(data)
    second = data.find(b'070701', 6)
    if name == 'no archive':
        return bytes(os.urandom(1)) * 4096
    if name == 'empty':
        return b'\0' * 512
    if name == 'cut in a file':
        return bytes(data[:len(data) // 3])
    if name == 'cut in a header':
        return bytes(data[:second + 50])
    if name == 'magic of the second':
        data[second] = ord('9')
    if name == 'length of a name':
        data[second + 94:second + 102] = b'FFFFFFFF'
    if name == 'length of a name is 0':
        data[second + 94:second + 102] = b'00000000'
    if name == 'length of a file':
        at = data.find(b'bin/busybox\0') - 110
        data[at + 54:at + 62] = b'FFFFFFFF'
    if name == 'no number':
        data[second + 54:second + 62] = b'xyzzyxyz'
    return bytes(data)


CORRUPTIONS = ['no archive', 'empty', 'cut in a file', 'cut in a header', 'magic of the second',
               'length of a name', 'length of a name is 0', 'length of a file', 'no number']


def boot_corrupt(kernel):
    """A broken image: the kernel says so and stops, or goes on with what was whole."""
    make_image('echo the task runs\n')
    with open(IMAGE, 'rb') as stream:
        whole = stream.read()
    for name in CORRUPTIONS:
        with open(IMAGE, 'wb') as stream:
            stream.write(corrupt(name, whole))
        with guest.Guest(kernel, IMAGE) as machine:
            good = machine.wait_end(BOOT_SECONDS)
            said = re.search(r'panic|initramfs|cpio|the task runs', machine.text, re.I)
            if not good or not said:
                return 'image with %s: %s\n%s' % (name, 'no word of it' if good else 'no end',
                                                  tail(machine.text))
    return None


# -------------------------------------------------------------------------- boot and its options

def boot_panic(kernel):
    """The first program ends: a panic with a back trace that names functions, then the end."""
    make_image('echo not reached\n')
    with guest.Guest(kernel, IMAGE, append='rdinit=/bin/true') as machine:
        if not machine.wait_end(BOOT_SECONDS):
            return 'no end after a panic:\n' + tail(machine.text)
        at = machine.text.lower().find('panic')
        if at < 0 or not re.search(r'\b[a-z_][a-z0-9_]+\+0x[0-9a-f]+', machine.text[at:]):
            return 'no panic with a symbolised back trace:\n' + tail(machine.text)
        if 'not reached' in machine.text:
            return 'rdinit= was passed over'
    return None


def boot_log(kernel):
    """The log of a boot: a screen or less; a call that is not there is named once a boot."""
    if guest.is_linux(kernel):
        return None
    make_image('echo ==begin\n/bin/busybox stty -F /dev/null >/dev/null 2>&1\n'
               'nocall 444 444 446\nnocall 444\necho ==end\n')
    with guest.Guest(kernel, IMAGE, append='unknown=option another.unknown=1 flag') as machine:
        if not machine.wait_end(BOOT_SECONDS):
            return 'no end:\n' + tail(machine.text)
        text = machine.text
    lines = text[:text.find('==begin')].splitlines()
    if '==end' not in text or len(lines) > 25:
        return 'the boot log has %d lines, 25 at most:\n%s' % (len(lines), tail(text))
    counts = [len(re.findall(r'^(?!==).*\b%d\b.*$' % n, text[text.find('==begin'):], re.M))
              for n in (444, 446)]
    if counts != [1, 1]:
        return 'calls that are not there are named %s times, not once:\n%s' % (counts, tail(text))
    return None


# What vellum.crash= does, and what must then be said.
CRASHES = [(1, r'Kernel panic: asked for.*crash\+0x.*first_thread\+0x'),
           (2, r'Kernel panic: page fault in the kernel: write at dead0000.*crash\+0x'),
           (3, r'Kernel panic: double fault.*overflow_stack\+0x'),
           (4, r'Kernel panic: page fault in the kernel: write at ffffffff8.*crash\+0x'),
           (5, r'Kernel panic: page fault in the kernel: execution at ffffffff8')]


def boot_crash(kernel):
    """A panic, a wild write, a stack overflow, a write to code, execution of data: each ends in a
    report that names functions, and QEMU ends by the restart."""
    if guest.is_linux(kernel):
        return None
    make_image('echo not reached\n')
    for number, wanted in CRASHES:
        with guest.Guest(kernel, IMAGE, append='quiet vellum.crash=%d' % number) as machine:
            good = machine.wait_end(BOOT_SECONDS)
            if not good or not re.search(wanted, machine.text, re.S) \
                    or 'not reached' in machine.text:
                return 'vellum.crash=%d:\n%s' % (number, tail(machine.text))
    return None


# CPUs, memory, model; and protections that the boot log must name.
MACHINES = [(1, '24M', 'qemu64', 'protections: nx wp;'),
            (2, '64M', 'max', 'protections: nx wp smep smap umip;'),
            (3, '5G', 'max,-erms,-fsrm', 'protections: nx wp smep smap umip;')]


def boot_machines(kernel):
    """Small and large memory, old and new CPUs; all kernel mappings are walked: none is writable
    and executable."""
    if guest.is_linux(kernel):
        return None
    make_image('echo the task runs\n')
    for smp, mem, model, wanted in MACHINES:
        with guest.Guest(kernel, IMAGE, smp=smp, mem=mem, cpu=model) as machine:
            good = machine.wait_end(BOOT_SECONDS)
            if not good or wanted not in machine.text or 'the task runs' not in machine.text \
                    or 'none writable and executable' not in machine.text:
                return '-smp %d -m %s -cpu %s:\n%s' % (smp, mem, model, tail(machine.text))
    return None


def boot_selftest(kernel):
    """The kernel's own test of threads, sleeping, timers, copies, at two and four CPUs."""
    if guest.is_linux(kernel):
        return None
    make_image('echo the task runs\n')
    for smp in (2, 4):
        with guest.Guest(kernel, IMAGE, smp=smp, append='quiet vellum.selftest=1') as machine:
            if not machine.wait_end(2 * BOOT_SECONDS) or 'selftest: passed' not in machine.text:
                return '-smp %d:\n%s' % (smp, tail(machine.text))
    with guest.Guest(kernel, IMAGE, smp=2, append='quiet vellum.selftest=no-restart') as machine:
        machine.wait_end(2 * BOOT_SECONDS)
        if 'selftest: stacks: token' not in machine.text:
            return 'ranges that no interrupt restarts, unnoticed:\n%s' % tail(machine.text)
    return None


def boot_reboot(kernel):
    """reboot ends QEMU under -no-reboot; init= after rdinit= and odd options do no harm."""
    make_image('echo the task runs\nsync\nreboot -f\n')
    with guest.Guest(kernel, IMAGE, append='quiet nonsense= =x ro', smp=1) as machine:
        if not machine.wait_end(BOOT_SECONDS) or 'the task runs' not in machine.text:
            return tail(machine.text)
    return None


def boot_many(kernel):
    """Nine CPUs, none of them idle: all come up and run programs. (A kernel for one: it does.)"""
    make_image('for n in 1 2 3 4 5 6 7 8 9; do (seq 1 2000 | md5sum) & done\nwait\n'
               'uname -v\nnproc\n')
    with guest.Guest(kernel, IMAGE, append='quiet', smp=9) as machine:
        if not machine.wait_end(2 * BOOT_SECONDS):
            return tail(machine.text)
        sums = re.findall(r'^[0-9a-f]{32}', machine.text, re.M)
        count = '\n9\n' if ' SMP ' in machine.text else '\n1\n'
        if len(sums) != 9 or len(set(sums)) != 1 or count not in machine.text:
            return tail(machine.text)
    return None


def boot_shell(kernel):
    """./vellum shell on a terminal: a prompt, a command, Ctrl-A X leaves; ./vellum run --image."""
    if guest.is_linux(kernel):
        return None
    leader, follower = pty.openpty()
    with subprocess.Popen(['./vellum', 'shell', '--mem', '128M'], stdin=follower, stdout=follower,
                          stderr=follower, start_new_session=True) as process:
        os.close(follower)
        text = read_until(leader, '# ', 120)
        os.write(leader, b'echo one$((1 + 1))three\r')
        text += read_until(leader, 'one2three', STEP_SECONDS)
        os.write(leader, b'\x01x')
        text += read_until(leader, None, STEP_SECONDS)
        os.close(leader)
        try:
            process.wait(STEP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            return 'Ctrl-A X does not leave:\n' + tail(text)
    if 'one2three' not in text or process.returncode != 0:
        return 'status %d:\n%s' % (process.returncode, tail(text))
    make_image('echo the task runs\n')
    done = subprocess.run(['./vellum', 'run', '--image', IMAGE, '--smp', '1', '--mem', '64M',
                           '--append', 'quiet'], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          stdin=subprocess.DEVNULL, text=True, timeout=120)
    if done.returncode != 0 or 'the task runs' not in done.stdout:
        return 'run --image: status %d:\n%s' % (done.returncode, tail(done.stdout))
    return None


def read_until(terminal, wanted, seconds):
    """What comes from a terminal until `wanted` does, or until its end."""
    text, deadline = '', time.monotonic() + seconds
    while time.monotonic() < deadline:
        if select.select([terminal], [], [], 0.5)[0]:
            try:
                text += os.read(terminal, 4096).decode(errors='replace')
            except OSError:
                return text
        if wanted and wanted in text:
            return text
    return text


NODES = [word for node in (0, 1) for word in
         ('-object', 'memory-backend-ram,id=m%d,size=128M' % node,
          '-numa', 'node,nodeid=%d,cpus=%d,memdev=m%d' % (node, node, node))]
NODES_TASK = """free() { echo "@free $1"; grep -E '^Node|pages free' /proc/zoneinfo; }
free 0
taskset 2 dd if=/dev/zero of=/near1 bs=1M count=16 2>/dev/null
free 1
taskset 1 dd if=/dev/zero of=/near0 bs=1M count=16 2>/dev/null
free 2
"""


def boot_nodes(kernel):
    """Two memory nodes with a CPU each: what a process writes into files in memory lies on the node
    of the CPU that it is bound to."""
    make_image(NODES_TASK)
    with guest.Guest(kernel, IMAGE, extra=NODES) as machine:
        ended = machine.wait_end(BOOT_SECONDS)
        text = machine.text.replace('\r', '')
    parts = re.split(r'@free \d\n', text)[1:]
    found = [{node: int(free) for node, free in
              re.findall(r'Node (\d), zone +\S+\n +pages free +(\d+)', part)} for part in parts]
    if not ended or 'memory: 2 nodes' not in text or [len(f) for f in found] != [2, 2, 2]:
        return 'not two nodes:\n' + tail(text)
    for step, near, far in ((1, '1', '0'), (2, '0', '1')):
        used = {node: found[step - 1][node] - found[step][node] for node in found[step]}
        if used[near] < 3500 or used[far] > 1000:
            return 'bound to CPU %s, %s frames of each node for 4096' % (near, used)
    return None


BOOTS = [('crash', boot_crash), ('machines', boot_machines), ('selftest', boot_selftest),
         ('tty', boot_tty), ('corrupt images', boot_corrupt), ('panic', boot_panic),
         ('boot log', boot_log), ('reboot', boot_reboot), ('nine CPUs', boot_many),
         ('nodes', boot_nodes), ('driver', boot_shell)]


def clean_up():
    """Removes this run's images."""
    for name in (IMAGE, IMAGE + '.task'):
        if os.path.exists(name):
            os.remove(name)
