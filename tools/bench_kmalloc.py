"""Experiment 4, kmalloc: the strategies of SLAB in the kernel and in the sim, and Linux."""
import os
import re
import statistics
import subprocess
import sys

import report
from measure import build, keep, lines_of, number, say

# Rows, in the order of their history.
SLABS = ['irq', 'locked', 'local1', 'local', 'sheaf']
TESTS = [('alloc', 'test 1, 10,000 kmallocs in a row, each'),
         ('free', 'test 1, then 10,000 kfrees, each'),
         ('pair', 'test 2, kmalloc and kfree, a pair')]
RAWS = [('cas8', 'compare-and-exchange, 8 bytes'), ('cas8_locked', 'the same, locked'),
        ('cas16', 'compare-and-exchange, 16 bytes'), ('cas16_locked', 'the same, locked'),
        ('restart', 'push and pop as a restartable range does them'),
        ('call', 'call and return'), ('irq', 'interrupts off and on (a flag in the sim)')]
# Raw costs within this much of each other are the same.
SAME = 1.08


def slabs_there():
    return [slab for slab in SLABS if os.path.isdir('core/slab/' + slab)]


# ------------------------------------------------------------------------------------- the sim

def run_program(program, repeats):
    done = subprocess.run([program, str(repeats)], stdout=subprocess.PIPE, text=True, timeout=300)
    if done.returncode != 0:
        sys.stderr.write('bench: %s ended with %d\n' % (program, done.returncode))
        sys.exit(1)
    return done.stdout


def sim_texts(slabs, rounds, repeats):
    """What each strategy's program prints, in turns: a busy minute falls on all of them."""
    programs = {slab: build('benches', ['SLAB=' + slab]) + '/bench/kmalloc' for slab in slabs}
    texts = {slab: '' for slab in slabs}
    for turn in range(rounds):
        say('  sim, round %d of %d' % (turn + 1, rounds))
        for slab in slabs:
            texts[slab] += run_program(programs[slab], repeats)
    return texts


def middle_and_least(values):
    return '%s (%s)' % (number(statistics.median(values), 1), number(min(values), 1))


def sim_figures(texts):
    """figures[slab][test][size]: cycles, all runs; raw[name]: the same, of all programs."""
    figures, raw = {}, {}
    for slab, text in texts.items():
        for line in lines_of(text, 'sim'):
            for test, _ in TESTS:
                figures.setdefault(slab, {}).setdefault(test, {}).setdefault(
                    int(line['size']), []).append(int(line[test]) / 100)
        for line in lines_of(text, 'raw'):
            for name, _ in RAWS:
                raw.setdefault(name, []).append(int(line[name]) / 100)
    return figures, raw


def about_locked(figures, raw):
    """What the lock prefix costs, alone and in place."""
    if not all(slab in figures for slab in ('local', 'locked')):
        return []
    least = {name: min(values) for name, values in raw.items()}
    pair = {slab: min(figures[slab]['pair'][64]) for slab in ('local', 'locked')}
    same = max(least['cas16'], least['cas16_locked']) <= SAME * min(least['cas16'],
                                                                   least['cas16_locked'])
    text = ('local and locked differ by the prefix alone. By itself the instruction costs %.1f'
            ' cycles without it and %.1f with it here' % (least['cas16'], least['cas16_locked']))
    if not same:
        return [text + ', which is the difference between the rows.']
    if pair['locked'] <= SAME * pair['local']:
        return [text + ': the rows are equal, as is to be expected.']
    return [text + ', which would make the rows equal; a pair of 64 bytes costs %.1f and %.1f (least)'
            ' since a locked one also waits for the stores before it, of which the raw loop has'
            ' none.' % (pair['local'], pair['locked'])]


def sim_tables(slabs, texts):
    figures, raw = sim_figures(texts)
    columns = ['SLAB=' + slab for slab in slabs]
    tables, charts = [], []
    for test, title in TESTS:
        table = report.Table('kmalloc in the sim, native, %s: cycles, median (least)' % title,
                             ['size'] + columns, about_locked(figures, raw)
                             if test == 'pair' else [])
        chart = report.Chart('kmalloc in the sim: %s, cycles, median' % title, 'cycles', columns)
        for size in sorted(figures[slabs[0]][test]):
            runs = [figures[slab][test][size] for slab in slabs]
            table.add(size, *[middle_and_least(values) for values in runs])
            chart.add(str(size), [statistics.median(values) for values in runs])
        tables.append(table)
        charts.append(chart)
    floor = report.Table('the floor on this machine, in the same runs: cycles, median (least)',
                         ['what', 'cycles'],
                         ['A pair by compare-and-exchange needs two of them.'])
    for name, title in RAWS:
        floor.add(title, middle_and_least(raw[name]))
    count = report.Table('kmalloc in the sim: instructions of a pair, counted by single steps',
                         ['size at the call'] + columns,
                         ['The simulated machine\'s preemption and CPU look-up are in it.'])
    for key in ('constant', 'variable'):
        count.add(key, *[next(line[key] for line in lines_of(texts[slab], 'count')
                              if line['size'] == '256') for slab in slabs])
    keep('kmalloc', 'raw', {name: min(values) for name, values in raw.items()})
    return tables + [floor, count], charts


# ------------------------------------------------------------------------------- in the kernels

def kernel_figures(text):
    """Figures by test and size, of the lines that our kernel and the module for Linux print."""
    figures = {test: {} for test, _ in TESTS + [('first', '')]}
    for name, each in re.findall(r'@pair name=kmalloc-(\S+) each=(\d+)', text):
        figures['pair'][name] = int(each) / 100
    for line in lines_of(re.sub(r'^\[[ .\d]+\] ', '', text, flags=re.M), 'row'):
        for test in ('alloc', 'free', 'first'):
            figures[test][line['size']] = int(line[test]) / 100
    return figures


def linux_column(options, linux_name, boot, make_image):
    """Debian's kernel: a module measures there. None where it cannot be built."""
    if not options.linux:
        return None
    done = subprocess.run(['tools/linux_module'], stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        return None
    image = make_image('kmalloc-linux', ['insmod /kmalloc_linux.ko'],
                       ['%s=/kmalloc_linux.ko' % done.stdout.strip()])
    say('  kernel %s' % linux_name(options.linux))
    return kernel_figures(boot(options.linux, image, 200, append='quiet', icount=True,
                               mem='512M'))


def kernel_tables(options, linux_name, boot, make_image):
    image = make_image('kmalloc', [])
    rows = {}
    for slab in slabs_there():
        kernel = build('kernel', ['SLAB=' + slab]) + '/vellum.elf'
        say('  kernel SLAB=%s' % slab)
        rows['SLAB=' + slab] = kernel_figures(boot(kernel, image, 120, icount=True, mem='512M',
                                                   append='quiet vellum.bench=1'))
    theirs = linux_column(options, linux_name, boot, make_image)
    if theirs:
        rows[linux_name(options.linux)] = theirs
    tables, charts = [], []
    for test, title in TESTS:
        notes = []
        if test == 'alloc':
            notes = ['The least of six rounds; in the first one, with new slabs: %s.' % '; '.join(
                '%s %s (8 bytes), %s (1024)' % (row, number(f['first'].get('8'), 0),
                                                number(f['first'].get('1024'), 0))
                for row, f in rows.items())]
        table = report.Table('kmalloc in the kernel, %s: instructions, with the loop around'
                             ' (-icount)' % title, ['size'] + list(rows), notes)
        chart = report.Chart('kmalloc in the kernel: %s, instructions' % title, 'instructions',
                             list(rows))
        for size in next(iter(rows.values()))[test]:
            values = [figures[test].get(size) for figures in rows.values()]
            table.add(size, *[number(value, 0) for value in values])
            chart.add(size, values)
        tables.append(table)
        charts.append(chart)
    for row, figures in rows.items():
        keep('kmalloc', row, figures)
    return tables, charts


def bench(options, linux_name, boot, make_image):
    slabs = slabs_there()
    kernel, charts = kernel_tables(options, linux_name, boot, make_image)
    texts = sim_texts(slabs, 9 if options.full else 3, 7)
    sim, more = sim_tables(slabs, texts)
    return kernel + sim, charts + more
