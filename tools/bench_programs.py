"""Real programs under LD_PRELOAD: Vellum's malloc beside the four others.

redis-server with redis-benchmark over the loopback, sqlite3 (a large import and queries), python3's
own tests, gcc compiling files of this project, perl, git on this repository, node. Each is checked
each time: by its own tests' verdict, by an output that is known or computed here, or by being the
same to the byte as under glibc. A program that fails is said so in its row, and ends nothing.

Time is the processor's (user and system) of the program and its children, the least of the rounds;
peak memory the most that one process of it had in RAM (ru_maxrss), the least of the rounds too. The
allocators take their turns: A B C D E, A B C D E.
"""
import glob
import hashlib
import os
import shutil
import socket
import subprocess
import time

import report
from bench_malloc import LIBRARIES, OURS, PRELOADS, build, there
from measure import keep, number, say

FOLDER = 'build/bench-programs'
LAUNCH = 'build/bench-malloc/launch'
SECONDS_MAX = 120


class Failed(Exception):
    """A program did not do what it should; the text says what."""


def preload_of(allocator):
    """What to preload; for glibc its own libc, since a program may be linked with another malloc."""
    path = PRELOADS[allocator]
    return os.path.abspath(path) if path else LIBRARIES + 'libc.so.6'


def read_result(path):
    """What launch wrote: (processor seconds, elapsed, peak KiB, status)."""
    with open(path) as stream:
        elapsed, user, system, peak, status = stream.read().split()
    return float(user) + float(system), float(elapsed), int(peak), int(status)


def run(allocator, command, environment=None, text_in=None):
    """Runs a command under an allocator; returns (seconds, elapsed, peak, output)."""
    result = FOLDER + '/result'
    try:
        done = subprocess.run([LAUNCH, result, preload_of(allocator)] + command,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, input=text_in,
                              timeout=SECONDS_MAX, env=dict(os.environ, **(environment or {})))
    except subprocess.TimeoutExpired:
        raise Failed('did not end within %d s' % SECONDS_MAX)
    seconds, elapsed, peak, status = read_result(result)
    if status != 0:
        last = done.stderr.decode(errors='replace').strip().split('\n')[-1]
        raise Failed('status %d: %s' % (status, last))
    return seconds, elapsed, peak, done.stdout


def expect(found, wanted, what):
    if found != wanted:
        raise Failed('%s: %r instead of %r' % (what, found[:200], wanted[:200]))


# ------------------------------------------------------------------------------- the programs

class Program:
    """One program: what it is called, what must be installed, how it is made ready and run."""

    title = ''
    needs = ''

    def there(self):
        return shutil.which(self.needs) is not None

    def prepare(self):
        """Once, before the first run."""

    def run(self, allocator):
        """Runs and checks; returns (seconds, elapsed, peak KiB); raises Failed."""
        raise NotImplementedError


def free_port():
    with socket.socket() as probe:
        probe.bind(('127.0.0.1', 0))
        return probe.getsockname()[1]


def redis_say(port, *words):
    """Sends one command to the server; returns the reply's first line."""
    with socket.create_connection(('127.0.0.1', port), timeout=20) as link:
        link.sendall((' '.join(words) + '\r\n').encode())
        return link.makefile().readline().strip()


class Redis(Program):
    """redis-benchmark against a server with this allocator; what is measured is the server."""

    title = 'redis-server, redis-benchmark'
    needs = 'redis-benchmark'

    def run(self, allocator):
        port, result = free_port(), FOLDER + '/redis'
        if os.path.exists(result):
            os.unlink(result)
        server = subprocess.Popen(
            [LAUNCH, result, preload_of(allocator), 'redis-server', '--port', str(port), '--bind',
             '127.0.0.1', '--save', '', '--appendonly', 'no', '--dir', FOLDER,
             '--ignore-warnings', 'ARM64-COW-BUG'],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            self.wait_up(port, server)
            self.load(port)
            redis_say(port, 'SHUTDOWN', 'NOSAVE')
            server.wait(30)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise Failed(str(error))
        finally:
            server.terminate()
            server.wait(30)
        seconds, elapsed, peak, status = read_result(result)
        if status != 0:
            raise Failed('the server ended with %d' % status)
        return seconds, elapsed, peak

    def wait_up(self, port, server):
        for _ in range(100):
            if server.poll() is not None:
                raise Failed('the server did not start')
            try:
                expect(redis_say(port, 'PING'), '+PONG', 'PING')
                return
            except OSError:
                time.sleep(0.05)
        raise Failed('the server did not answer')

    def load(self, port):
        for size, count in (('64', '120000'), ('3000', '40000')):
            done = subprocess.run(
                ['redis-benchmark', '-h', '127.0.0.1', '-p', str(port), '-q', '-c', '20', '-P',
                 '16', '-r', '50000', '-n', count, '-d', size, '-t',
                 'set,get,incr,lpush,lpop,sadd,hset,zadd,lrange_100'
                 if size == '64' else 'set,get'],
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=SECONDS_MAX)
            if done.returncode != 0 or 'rror' in done.stdout:
                raise Failed('redis-benchmark: ' + done.stdout[-200:])
        expect(redis_say(port, 'SET', 'vellum', 'kept'), '+OK', 'SET')
        expect(redis_say(port, 'STRLEN', 'vellum'), ':4', 'STRLEN')
        if int(redis_say(port, 'DBSIZE')[1:]) < 30000:
            raise Failed('keys are missing')


class Sqlite(Program):
    """An import of 150,000 rows into memory, indexes, grouping, joining, updates."""

    title = 'sqlite3, import and queries'
    needs = 'sqlite3'
    rows = 150000

    def prepare(self):
        rows = [(i, 'word%d' % (i * 7919 % 20011), i * 104729 % 1000) for i in range(self.rows)]
        with open(FOLDER + '/rows.csv', 'w') as stream:
            stream.write('id,word,number\n')
            stream.writelines('%d,%s,%d\n' % row for row in rows)
        groups, pairs = {}, {}
        for i, word, value in rows:
            groups.setdefault(word, []).append(str(i))
            pairs[word, value] = pairs.get((word, value), 0) + 1
        joined = sum(n * pairs.get((word, value + 1), 0) for (word, value), n in pairs.items())
        words = {word + str(value) if i % 5 == 0 else word for i, word, value in rows}
        odd = [i for i, _, value in rows if value % 2]
        self.wanted = '%d|%d\n%d|%d\n%d\n%d\n%d|%d\nok\n' % (
            len(rows), sum(value for _, _, value in rows), len(groups),
            sum(len(','.join(each)) for each in groups.values()), joined, len(words), len(odd),
            sum(odd))

    def run(self, allocator):
        with open('bench/programs/work.sql', 'rb') as stream:
            seconds, elapsed, peak, out = run(allocator, ['sqlite3', '-batch', ':memory:'],
                                              text_in=stream.read())
        expect(out.decode(), self.wanted, 'the queries')
        return seconds, elapsed, peak


class Python(Program):
    """Tests of python3 that allocate much, each block by malloc and not by its own allocator."""

    title = 'python3, its own tests'
    needs = '/usr/bin/python3'
    tests = ['test_re', 'test_dict', 'test_list', 'test_collections',
             'test_struct', 'test_ordered_dict', 'test_deque', 'test_functools',
             'test_xml_etree']

    def there(self):
        done = subprocess.run(['/usr/bin/python3', '-c', 'import test.test_deque'],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return done.returncode == 0

    def run(self, allocator):
        seconds, elapsed, peak, out = run(allocator, ['/usr/bin/python3', '-m', 'test']
                                          + self.tests, {'PYTHONMALLOC': 'malloc'})
        if b'Result: SUCCESS' not in out and b'All %d tests OK' % len(self.tests) not in out:
            raise Failed('its tests: ' + out.decode(errors='replace')[-200:])
        return seconds, elapsed, peak


class Gcc(Program):
    """Compiles files of this project; the objects must be those that are made under glibc."""

    title = 'gcc, files of this project'
    needs = 'gcc'
    folders = ['core/space', 'core/frame', 'core/rmap/anon_vma']

    def prepare(self):
        self.files = sorted(path for folder in self.folders for path in glob.glob(folder + '/*.c'))
        self.wanted = None

    def run(self, allocator):
        out = FOLDER + '/objects'
        shutil.rmtree(out, ignore_errors=True)
        os.makedirs(out)
        seconds = elapsed = peak = 0
        digest = hashlib.sha256()
        for index, path in enumerate(self.files):
            name = '%s/%d.o' % (out, index)
            each = run(allocator, ['gcc', '-std=c11', '-O2', '-ffreestanding', '-DVL_SMP=1', '-I.',
                                   '-Iinclude', '-Iarch/x86_64', '-Icore/frame/flags',
                                   '-Icore/slab/sheaf', '-Icore/rmap/anon_vma',
                                   '-Icore/table/areas', '-c', path, '-o', name])
            seconds, elapsed, peak = seconds + each[0], elapsed + each[1], max(peak, each[2])
            with open(name, 'rb') as stream:
                digest.update(stream.read())
        self.wanted = self.wanted or digest.hexdigest()
        expect(digest.hexdigest(), self.wanted, 'the objects')
        return seconds, elapsed, peak


class Same(Program):
    """A command whose output must be the same under every allocator."""

    def __init__(self, title, needs, command):
        self.title = title
        self.needs = needs
        self.command = command
        self.wanted = None

    def run(self, allocator):
        seconds, elapsed, peak, out = run(allocator, self.command)
        if not out:
            raise Failed('it printed nothing')
        found = hashlib.sha256(out).hexdigest()
        self.wanted = self.wanted or found
        expect(found, self.wanted, 'the output')
        return seconds, elapsed, peak


class Git(Program):
    """gc, log, blame and fsck of a clone of this repository."""

    title = 'git on this repository'
    needs = 'git'

    def there(self):
        return super().there() and os.path.exists('.git')

    def prepare(self):
        self.wanted = None

    def run(self, allocator):
        clone = FOLDER + '/clone'
        shutil.rmtree(clone, ignore_errors=True)
        subprocess.run(['git', 'clone', '-q', '--bare', '--no-hardlinks', '.', clone], check=True)
        seconds = elapsed = peak = 0
        digest = hashlib.sha256()
        for words in (['gc', '-q', '--prune=now'], ['log', '-p', '--stat', 'HEAD'],
                      ['blame', '-M', '-C', 'HEAD', '--', 'Makefile'], ['fsck', '--full']):
            each = run(allocator, ['git', '-C', clone, '-c', 'pack.threads=2'] + words)
            seconds, elapsed, peak = seconds + each[0], elapsed + each[1], max(peak, each[2])
            digest.update(each[3])
        self.wanted = self.wanted or digest.hexdigest()
        expect(digest.hexdigest(), self.wanted, 'what git printed')
        return seconds, elapsed, peak


PROGRAMS = [Redis(), Sqlite(), Python(), Gcc(),
            Same('perl, hashes and strings', 'perl', ['perl', 'bench/programs/work.pl']), Git(),
            Same('node, buffers and zlib', 'node', ['node', 'bench/programs/work.js'])]


# ------------------------------------------------------------------------------------ the run

def measure(rounds):
    """Runs everything; returns {(program, allocator): (seconds, elapsed, peak) or why not}."""
    found, names = {}, there(PRELOADS)
    for program in PROGRAMS:
        if not program.there():
            say('  not installed: %s' % program.title)
            continue
        say('  %s' % program.title)
        program.prepare()
        for _ in range(rounds):
            for name in names:
                key = (program.title, name)
                if isinstance(found.get(key), str):
                    continue
                try:
                    now = program.run(name)
                    found[key] = tuple(map(min, zip(found.get(key, now), now)))
                except Failed as why:
                    say('    %s: %s' % (name, why))
                    found[key] = str(why)
    return found, names


def table_of(title, unit, found, names, pick, digits, steady=True):
    """One table and its plot; where a program failed its cell says so."""
    table = report.Table(title, ['program'] + names, steady=steady)
    chart = report.Chart(title, unit, names)
    for program in PROGRAMS:
        if not any(key[0] == program.title for key in found):
            continue
        cells, values = [], []
        for name in names:
            result = found.get((program.title, name))
            failed = result is None or isinstance(result, str)
            values.append(None if failed else pick(result))
            cells.append('failed' if failed else number(values[-1], digits))
            if failed:
                table.notes.append('%s, %s: %s.' % (program.title, name, result))
        table.add(program.title, *cells)
        chart.add(program.title.split(',')[0].split(' ')[0], values)
        keep('programs', '%s: %s' % (program.title, unit), dict(zip(names, values)))
    return table, chart


def bench(options):
    """Returns the tables and the charts."""
    build()
    os.makedirs(FOLDER, exist_ok=True)
    found, names = measure(5 if options.full else 2)
    time_table, time_chart = table_of('Real programs: processor seconds, user and system',
                                      'seconds', found, names, lambda r: r[0], 2)
    elapsed, _ = table_of('The same: elapsed seconds', 'elapsed seconds', found, names,
                          lambda r: r[1], 2, steady=False)
    peak, peak_chart = table_of('The same: peak memory, MiB (ru_maxrss)', 'MiB', found, names,
                                lambda r: r[2] / 1024, 1)
    time_table.notes.append('redis: what the server took for a fixed number of requests. %s is'
                            ' preloaded as the others are.' % OURS)
    return [time_table, elapsed, peak], [time_chart, peak_chart]
