"""Experiment 4 in the malloc face: Vellum's malloc beside four others, in one run.

The benchmark (bench/malloc/) is one program; each test is a process of its own, on pinned CPUs,
and the allocator comes by LD_PRELOAD. All allocators take their turn at a test before any gets its
next round (A B C D E, A B C D E ...), so that whatever else the machine does meets them alike.
A figure is the best of the rounds; "spread" is how far the round at the lower quartile is from it.
Then the same program linked statically with those that come as an archive.

A row holds its aim when ours is not above it (below, where more is better). It is "no slower" when
it is not behind the best other by more than that other's own spread.
"""
import glob
import os
import subprocess
import sys

import report
from measure import keep, lines_of, number, say

LIBRARIES = '/usr/lib/x86_64-linux-gnu/'
OURS = 'Vellum'
CALLS = 'calls alone'  # of a malloc that does nothing
EMPTY = 'build/bench-malloc/empty.so'
PRELOADS = {'glibc': None,
            'mimalloc': LIBRARIES + 'libmimalloc.so.2',
            'jemalloc': LIBRARIES + 'libjemalloc.so.2',
            'tcmalloc': LIBRARIES + 'libtcmalloc_minimal.so.4',
            OURS: 'build/libvellum-malloc.so'}
# The published design of kmalloc in the same place: tests 1 and 2 of experiment 4.
LOCAL = OURS + ', SLAB=local'
LOCAL_PRELOAD = 'build/malloc-flags-local/libvellum-malloc.so'
LOCAL_TESTS = ('order', 'pair')
STATICS = ['glibc', 'jemalloc', 'tcmalloc', OURS]
# Tests of speed and the seconds of one round; then those of memory, which repeat well.
SPEED = [('order', 0.3), ('pair', 0.12), ('order2', 0), ('stream', 0.45), ('larson', 0.3),
         ('churn1', 0.25), ('churn2', 0.25)]
MEMORY = ['resident', 'whole', 'overhead24', 'overhead520', 'overhead1040', 'free90', 'trim90']
FLOOR = [('raw', 0.2), ('floor', 0.2)]
LEAST = ('alloc', 'free', 'pair', 'object', 'cycles', 'ratio', 'percent', 'delayed', 'at_once',
         'trimmed', 'kept', 'shared')


def build():
    """Builds the benchmark, and our malloc where the tree has it."""
    has_ours = os.path.isdir('malloc')
    targets = [['malloc-benches'] + (['malloc'] if has_ours else [])]
    targets += [['malloc', 'SLAB=local']] if has_ours else []
    for words in targets:
        done = subprocess.run(['make', '-s', '-j%d' % (os.cpu_count() or 1)] + words,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode != 0:
            sys.stderr.write(done.stdout[-3000:]
                             + '\nbench: the malloc benchmark does not build\n')
            sys.exit(1)


def there(table):
    """The allocators of a table of libraries that are on this machine."""
    return [name for name, path in table.items() if path is None or os.path.exists(path)]


def columns():
    """The allocators of the tables that show all."""
    return there(PRELOADS) + ([LOCAL] if os.path.exists(LOCAL_PRELOAD) else [])


class Figures:
    """All rounds of all tests: by allocator, then (test, size or what, figure)."""

    def __init__(self):
        self.rounds = {}
        self.failed = set()

    def add(self, allocator, line):
        """Takes one line that the benchmark printed."""
        name = (line['test'], line.get('size') or line.get('what') or '')
        for key, value in line.items():
            if key not in ('test', 'size', 'what'):
                self.rounds.setdefault(allocator, {}).setdefault(name + (key,), []).append(
                    float(value))

    def best(self, allocator, test, size, key):
        values = self.rounds.get(allocator, {}).get((test, size, key))
        if not values:
            return None
        return min(values) if key in LEAST else max(values)

    def quartile(self, allocator, test, size, key):
        """The round that a quarter of the rounds are as good as."""
        values = self.rounds.get(allocator, {}).get((test, size, key))
        if not values:
            return None
        ordered = sorted(values, reverse=key not in LEAST)
        return ordered[(len(ordered) - 1 + 3) // 4]

    def sizes(self, test):
        found = {int(name[1]) for each in self.rounds.values() for name in each
                 if name[0] == test and name[1].isdigit()}
        return sorted(found)


def run_one(figures, allocator, program, test, seconds, preload):
    """Runs one test once; a failure is kept as such and ends nothing."""
    environment = dict(os.environ)
    if preload:
        environment['LD_PRELOAD'] = os.path.abspath(preload)
    try:
        done = subprocess.run([program, test, str(seconds)], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, timeout=30, env=environment)
    except subprocess.TimeoutExpired:
        figures.failed.add((allocator, test, 'did not end within 30 s'))
        return
    if done.returncode != 0:
        figures.failed.add((allocator, test, done.stderr.strip().split('\n')[-1]
                            or 'status %d' % done.returncode))
        return
    for line in lines_of(done.stdout, 'malloc'):
        figures.add(allocator, line)


def measure(rounds, memory_rounds):
    """The run: returns the figures under LD_PRELOAD and those of static programs."""
    dynamic, static = Figures(), Figures()
    allocators = there(PRELOADS)
    programs = {name: 'build/bench-malloc/malloc-static-' + name.lower() for name in STATICS}
    for number_of in range(rounds):
        say('  round %d of %d' % (number_of + 1, rounds))
        for test, seconds in FLOOR:
            run_one(dynamic, 'raw', 'build/bench-malloc/malloc', test, seconds, None)
        for test, seconds in SPEED[:3]:
            run_one(dynamic, CALLS, 'build/bench-malloc/malloc', test, seconds / 2, EMPTY)
        for test, seconds in SPEED:
            for name in allocators:
                run_one(dynamic, name, 'build/bench-malloc/malloc', test, seconds, PRELOADS[name])
            if test in LOCAL_TESTS and LOCAL in columns():
                run_one(dynamic, LOCAL, 'build/bench-malloc/malloc', test, seconds, LOCAL_PRELOAD)
        for test, seconds in SPEED[:2]:
            for name in there(programs):
                run_one(static, name, programs[name], test, seconds, None)
        if os.path.exists('build/bench-malloc/inlined'):
            run_one(dynamic, OURS, 'build/bench-malloc/inlined', 'pair', 0.1, None)
    say('  memory')
    for _ in range(memory_rounds):
        for test in MEMORY:
            for name in allocators:
                run_one(dynamic, name, 'build/bench-malloc/malloc', test, 0, PRELOADS[name])
        if os.path.exists('build/bench-malloc/inlined'):
            for size in (24, 520, 1040):
                run_one(dynamic, OURS, 'build/bench-malloc/inlined', 'overhead', size, None)
    return dynamic, static


# ------------------------------------------------------------------------------------ the rows

class Row:
    """One line of the table of aims: parts are added and compared as one figure."""

    def __init__(self, title, test, sizes, keys, aims, digits=1, static_aims=None, beside=None):
        self.title = title
        self.test = test
        self.sizes = sizes
        self.keys = keys
        self.aims = aims
        self.static_aims = static_aims
        self.digits = digits
        # The test that this one is relative to: an aim is then a ratio less one, in percent.
        self.beside = beside

    def parts(self, figures, allocator, pick='best'):
        """Each part at the worst of the sizes, or None."""
        found = []
        for key in self.keys:
            values = [getattr(figures, pick)(allocator, self.test, size, key)
                      for size in self.sizes]
            if None in values:
                return None
            found.append(max(values) if key in LEAST else min(values))
        return found

    def more(self):
        return self.keys[0] not in LEAST

    def aim_text(self, aims):
        if not aims:
            return '-'
        if self.beside:
            return '+%d%%' % aims[0]
        sign = '>=' if self.more() else '<='
        return sign + ' ' + '/'.join('%g' % aim for aim in aims)

    def text(self, parts):
        return '-' if parts is None else '/'.join(number(p, self.digits) for p in parts)

    def judged(self, figures, parts):
        """What stands against the aims: the parts, or the percentage beside another test."""
        if not self.beside or parts is None:
            return parts
        alone = Row('', self.beside, self.sizes, self.keys, ()).parts(figures, OURS)
        return None if alone is None else [(sum(parts) / sum(alone) - 1) * 100]

    def holds(self, figures, aims):
        """Whether ours meets the aims, as printed; None when it was not measured."""
        parts = self.judged(figures, self.parts(figures, OURS))
        if parts is None or not aims:
            return None
        if self.more():
            return all(round(p, self.digits) >= a for p, a in zip(parts, aims))
        return all(round(p, self.digits) <= a for p, a in zip(parts, aims))

    def verdict(self, figures):
        """Of the aims under LD_PRELOAD; NO* where calls that do nothing miss one of them, too."""
        held = self.holds(figures, self.aims)
        calls = self.parts(figures, CALLS)
        beyond = calls is not None and not self.beside and any(
            round(c, self.digits) > a for c, a in zip(calls, self.aims))
        return 'NO*' if held is False and beyond else SHORT[held]

    def others(self, figures):
        """(sum, allocator, parts, spread) of the best other, or None."""
        best = None
        for name in list(PRELOADS)[:-1]:
            parts = self.parts(figures, name)
            if parts is None:
                continue
            spread = abs(sum(self.parts(figures, name, 'quartile')) - sum(parts))
            value = sum(parts)
            if best is None or (value > best[0] if self.more() else value < best[0]):
                best = (value, name, parts, spread)
        return best

    def no_slower(self, figures):
        ours, best = self.parts(figures, OURS), self.others(figures)
        if ours is None or best is None:
            return None
        if self.more():
            return sum(ours) >= best[0] - best[3]
        return sum(ours) <= best[0] + best[3]


SMALL, MIDDLE = ['8', '16', '32', '64'], ['256', '512', '1024']
UP_TO_256 = SMALL + ['128', '256']
LARGE = ['2048', '4096', '8192', '16384']
ROWS = [
    Row('10,000 malloc / free, 8-64 B', 'order', SMALL, ['alloc', 'free'], (6.8, 6.3),
        static_aims=(4.5, 5.0)),
    Row('the same, 256 B - 1 KiB', 'order', MIDDLE, ['alloc', 'free'], (8, 6)),
    Row('the same, 2-16 KiB', 'order', LARGE, ['alloc', 'free'], (10, 8)),
    Row('pair, <= 256 B', 'pair', UP_TO_256, ['pair'], (12.5,), static_aims=(8.1,)),
    Row('pair, 1 KiB', 'pair', ['1024'], ['pair'], (13,)),
    Row('pair, 2-16 KiB', 'pair', LARGE, ['pair'], (14,)),
    Row('pair, inlined cache interface', 'cache', ['64'], ['pair'], (4,)),
    Row('2 threads, as the first', 'order2', SMALL, ['alloc', 'free'], (10,), beside='order'),
    Row('thread to thread, 64 B, an object', 'stream', ['64'], ['object'], (16,)),
    Row('thread to thread, 1 KiB', 'stream', ['1024'], ['object'], (27,)),
    Row('thread to thread, 8 KiB', 'stream', ['8192'], ['object'], (40,)),
    Row('larson, 2 threads, Mops', 'larson', [''], ['mops'], (165,)),
    Row('churn 8 B - 16 KiB, 1 thread, Mops', 'churn1', [''], ['mops'], (27,)),
    Row('churn, 2 threads, Mops', 'churn2', [''], ['mops'], (47,)),
    Row('resident over live, that churn', 'resident', [''], ['ratio'], (1.05,), 3),
    Row('the same, every byte written', 'whole', [''], ['ratio'], (), 3),
    Row('overhead at 24 B by malloc, %', 'overhead', ['24'], ['percent'], (13,)),
    Row('overhead at 520 B, %', 'overhead', ['520'], ['percent'], (13,)),
    Row('overhead at 1,040 B, %', 'overhead', ['1040'], ['percent'], (13,)),
    Row('overhead at 24 B, own cache, %', 'cache_overhead', ['24'], ['percent'], (1,)),
    Row('overhead at 520 B, own cache, %', 'cache_overhead', ['520'], ['percent'], (1,)),
    Row('overhead at 1,040 B, own cache, %', 'cache_overhead', ['1040'], ['percent'], (1,)),
    Row('90% freed, after a trim, over live', 'trim90', [''], ['trimmed'], (1.2,), 2),
    Row('90% freed, a purge delay later', 'free90', [''], ['delayed'], (1.2,), 2),
]
SHORT = {True: 'yes', False: 'NO', None: '-'}


def aims_table(figures):
    """Each row: the aim, ours, the best other of this run and its spread, and two verdicts."""
    table = report.Table(
        'malloc under LD_PRELOAD, native, interleaved: cycles of the time stamp counter',
        ['row', 'aim', OURS, 'best other', 'which', 'its spread', CALLS, 'aim held', 'no slower'],
        ['A row of several sizes shows the worst of them. Spread: the round at the lower quartile'
         ' less the best. No slower: within that spread of the best other.',
         'Resident over live: anonymous memory in RAM (smaps_rollup) beyond what was there before'
         ' the first malloc, over the bytes asked for; the mean of ten looks at the running churn,'
         ' which writes the first and the last byte of each object. With every byte written it is'
         ' another figure, for which no aim was set (docs/malloc.md says where it comes from).',
         'Calls alone: the same loop with a malloc and a free that do nothing, preloaded. NO*: the'
         ' aim is below that, on this machine, in this run.',
         'Where a loop stands in its cache line costs or saves up to two core cycles a call, whatever'
         ' it calls: tests 1 and 2 have each loop at 16 places, and the best counts, for all alike.'
         ' The median place is in the table of every allocator.'])
    for row in ROWS:
        ours, best = row.parts(figures, OURS), row.others(figures)
        text = row.text(ours)
        if row.beside and ours:
            text += ' (%+.0f%%)' % row.judged(figures, ours)[0]
        table.add(row.title, row.aim_text(row.aims), text, row.text(best[2]) if best else '-',
                  best[1] if best else '-',
                  number(best[3], max(row.digits, 1)) if best else '-',
                  row.text(row.parts(figures, CALLS)), row.verdict(figures), SHORT[row.no_slower(figures)])
        keep('malloc', row.title, {'ours': ours, 'best': best[2] if best else None,
                                   'which': best[1] if best else None, 'aim': row.aims,
                                   'calls': row.parts(figures, CALLS)})
    return table


def all_table(figures):
    """Each row of every allocator."""
    names = columns()
    table = report.Table('malloc under LD_PRELOAD: every allocator', ['row'] + names)
    table.notes.append('SLAB=local: the published design of experiment 4 in the same place, by'
                       ' restartable sequences; tests 1 and 2.')
    for row in ROWS:
        table.add(row.title, *[row.text(row.parts(figures, name)) for name in names])
    for title, test, sizes, keys in (('test 1, 8-64 B', 'order_median', SMALL, ['alloc', 'free']),
                                     ('pair, <= 256 B', 'pair_median', UP_TO_256, ['pair'])):
        row = Row(title + ', at the median place of the loop', test, sizes, keys, ())
        table.add(row.title, *[row.text(row.parts(figures, name)) for name in names])
    at_once = ['at_once']
    row = Row('90% freed, at once, over live', 'free90', [''], at_once, (), 2)
    table.add(row.title, *[row.text(row.parts(figures, name)) for name in names])
    for title, test, sizes in (('after test 1, 8-64 B', 'order', SMALL),
                               ('after test 1, 256 B - 1 KiB', 'order', MIDDLE),
                               ('after test 1, 2-16 KiB', 'order', LARGE),
                               ('churn', 'churn', ['0'])):
        row = Row('bytes in CPUs\' arrays / full arrays that wait, ' + title, test, sizes,
                  ['kept', 'shared'], (), 0)
        table.add(row.title, *[row.text(row.parts(figures, name)) if name == OURS else 'n/a'
                               for name in names])
    table.notes.append('Bytes in arrays: free objects, by vl_malloc_stats(); the others do not say.'
                       ' Full arrays that wait are for all CPUs, and go back to the slabs before'
                       ' the heap grows, and after a purge delay in which nobody wanted them.')
    for name, test, why in sorted(figures.failed):
        table.notes.append('%s failed at %s: %s.' % (name, test, why))
    return table


def static_table(figures):
    """The first tests, allocator and libc linked into the program."""
    names = [name for name in STATICS if name in figures.rounds]
    table = report.Table('malloc linked statically: cycles', ['row', 'aim'] + names,
                         ['Debian has no archive of mimalloc.'])
    for row in ROWS:
        if row.test in ('order', 'pair'):
            aims = row.static_aims
            table.add(row.title, row.aim_text(aims) if aims else '-',
                      *[row.text(row.parts(figures, name)) for name in names])
    return table


def floor_table(figures):
    """What the raw instructions cost in the same run."""
    table = report.Table('The floor, in the same run: cycles', ['what', 'cycles'],
                         ['A pair of malloc and free needs two of the compare-and-exchanges; of the'
                          ' others, one turn is a push and a pop.'])
    titles = [('raw', 'cas8', 'load, compare-and-exchange, 8 bytes'),
              ('raw', 'cas8_locked', 'the same with the lock prefix'),
              ('raw', 'cas16', 'load, compare-and-exchange, 16 bytes'),
              ('raw', 'cas16_locked', 'the same with the lock prefix'),
              ('raw', 'restart', 'restartable pop and push, as in a kernel'),
              ('raw', 'rseq', 'restartable pop and push, by rseq'),
              ('raw', 'local', 'pop and push on a list of the thread'),
              ('raw', 'call', 'call and return'),
              ('raw', 'plt', 'call through the PLT and return'),
              ('floor', 'stream', 'a pointer from thread to thread')]
    for test, what, title in titles:
        table.add(title, number(figures.best('raw', test, what, 'cycles'), 1))
    return table


def size_tables(figures):
    """Tests 1 and 2 by size, a column an allocator; a table and a plot of each."""
    names = columns()
    tables, charts = [], []
    for test, key, title in (('order', 'alloc', 'test 1, 10,000 mallocs in a row: cycles each'),
                             ('order', 'free', 'test 1, then 10,000 frees: cycles each'),
                             ('pair', 'pair', 'test 2, malloc and free: cycles a pair')):
        table = report.Table(title, ['size'] + names, steady=False)
        chart = report.Lines(title, 'bytes', 'cycles', names)
        for size in figures.sizes(test):
            values = [figures.best(name, test, str(size), key) for name in names]
            table.add(str(size), *[number(v, 1) for v in values])
            chart.add(size, values)
        tables.append(table)
        charts.append(chart)
    return tables, charts


def bench(options):
    """Returns the tables and the charts; short: within two minutes on two CPUs."""
    build()
    dynamic, static = measure(15 if options.full else 4, 3 if options.full else 1)
    tables, charts = size_tables(dynamic)
    return [aims_table(dynamic), all_table(dynamic), static_table(static),
            floor_table(dynamic)] + tables, charts
