"""Tables as text and HTML, and charts by gnuplot, for tools/bench."""
import html
import os
import shutil
import subprocess

STYLE = """body{font:15px/1.5 sans-serif;max-width:60em;margin:2em auto;padding:0 1em;color:#222}
table{border-collapse:collapse;margin:1em 0}td,th{border:1px solid #bbb;padding:.2em .6em;
text-align:right}td:first-child,th:first-child{text-align:left}pre{background:#f4f4f4;padding:1em}
figcaption,p.note{color:#555}svg{max-width:100%;height:auto}"""


class Table:
    """Rows of text under a title; the first column is aligned to the left, the others right."""

    def __init__(self, title, columns, notes=(), steady=True):
        self.title = title
        # Not steady: times that depend on what else the machine does; documents leave them out.
        self.steady = steady
        self.columns = columns
        self.notes = list(notes)
        self.rows = []

    def add(self, *cells):
        self.rows.append([str(c) for c in cells])

    def text(self):
        widths = [max(len(row[i]) for row in [self.columns] + self.rows)
                  for i in range(len(self.columns))]

        def line(row):
            first = row[0].ljust(widths[0])
            return '  '.join([first] + [c.rjust(w) for c, w in zip(row[1:], widths[1:])]).rstrip()
        parts = [self.title, '', line(self.columns), '  '.join('-' * w for w in widths)]
        parts += [line(row) for row in self.rows]
        if self.notes:
            parts += [''] + self.notes
        return '\n'.join(parts) + '\n'

    def html(self):
        def row(cells, tag):
            return '<tr>' + ''.join('<%s>%s</%s>' % (tag, html.escape(c), tag)
                                    for c in cells) + '</tr>'
        parts = ['<h2>%s</h2>' % html.escape(self.title), '<table>', row(self.columns, 'th')]
        parts += [row(r, 'td') for r in self.rows]
        parts.append('</table>')
        parts += ['<p class="note">%s</p>' % html.escape(n) for n in self.notes]
        return '\n'.join(parts)


class Chart:
    """Bars: one group a label, one bar a series; `limit` is drawn as a line."""

    def __init__(self, title, unit, series, limit=None):
        self.title = title
        self.unit = unit
        self.series = series
        self.limit = limit
        self.bars = []

    def add(self, label, values):
        self.bars.append((label, values))

    def svg(self, folder, name):
        """Draws it to folder/name.svg; returns the SVG's text, or '' where gnuplot is missing."""
        if not self.bars:
            return ''
        data, out = os.path.join(folder, name + '.dat'), os.path.join(folder, name + '.svg')
        with open(data, 'w') as stream:
            for label, values in self.bars:
                cells = ' '.join('NaN' if v is None else '%.3f' % v for v in values)
                stream.write('"%s" %s\n' % (label, cells))
        plots = ['"%s" using %d:xtic(1) title "%s"' % (data, i + 2, s)
                 for i, s in enumerate(self.series)]
        if self.limit:
            plots.append('%f with lines linetype 0 linewidth 2 title "limit: zeroing"' % self.limit)
        return draw(out, [
            'set terminal svg size 860,420 font "sans,12"', 'set output "%s"' % out,
            'set title "%s" noenhanced' % self.title, 'set ylabel "%s"' % self.unit,
            'set style data histograms', 'set style histogram clustered gap 1',
            'set style fill solid 0.8', 'set yrange [0:*]', 'set key outside top center horizontal',
            'set xtics noenhanced rotate by -15', 'set grid ytics', 'plot ' + ', '.join(plots)])


class Lines:
    """Points joined by lines: one line a series, both axes logarithmic."""

    def __init__(self, title, x_unit, y_unit, series):
        self.title = title
        self.x_unit = x_unit
        self.y_unit = y_unit
        self.series = series
        self.points = []

    def add(self, x, values):
        self.points.append((x, values))

    def svg(self, folder, name):
        """Draws it to folder/name.svg; returns the SVG's text, or '' where gnuplot is missing."""
        if not self.points:
            return ''
        data, out = os.path.join(folder, name + '.dat'), os.path.join(folder, name + '.svg')
        with open(data, 'w') as stream:
            for x, values in self.points:
                stream.write('%g %s\n' % (x, ' '.join('NaN' if v is None else '%.3f' % v
                                                      for v in values)))
        plots = ['"%s" using 1:%d with linespoints linewidth 2 title "%s"' % (data, i + 2, s)
                 for i, s in enumerate(self.series)]
        return draw(out, [
            'set terminal svg size 860,420 font "sans,12"', 'set output "%s"' % out,
            'set title "%s" noenhanced' % self.title, 'set xlabel "%s"' % self.x_unit,
            'set ylabel "%s"' % self.y_unit, 'set logscale x 2', 'set logscale y',
            'set key outside top center horizontal', 'set grid', 'plot ' + ', '.join(plots)])


def draw(out, script):
    """Has gnuplot draw a script to the file out; returns the SVG's text, or ''."""
    if not shutil.which('gnuplot'):
        return ''
    done = subprocess.run(['gnuplot'], input='\n'.join(script), text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT)
    if done.returncode != 0 or not os.path.exists(out):
        return ''
    with open(out) as stream:
        text = stream.read()
    return text[text.find('<svg'):]


def write(folder, name, tables, charts, head):
    """Writes folder/NAME.txt and NAME.steady; returns the HTML of these tables and charts."""
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, name + '.txt'), 'w') as stream:
        stream.write(head + '\n\n' + '\n'.join(t.text() for t in tables))
    with open(os.path.join(folder, name + '.steady'), 'w') as stream:
        stream.write(head + '\n\n' + '\n'.join(t.text() for t in tables if t.steady))
    parts = [t.html() for t in tables]
    for number, chart in enumerate(charts):
        drawn = chart.svg(folder, '%s-%d' % (name, number))
        if drawn:
            parts.append('<figure>%s<figcaption>%s</figcaption></figure>'
                         % (drawn, html.escape(chart.title)))
    with open(os.path.join(folder, name + '.part.html'), 'w') as stream:
        stream.write('\n'.join(parts))
    return '\n'.join(parts)


def write_page(folder, heads):
    """One HTML file of all parts that stand in the folder."""
    parts = []
    for name, head in heads:
        path = os.path.join(folder, name + '.part.html')
        if os.path.exists(path):
            with open(path) as stream:
                parts.append('<section><h1>%s</h1>%s</section>' % (html.escape(head),
                                                                   stream.read()))
    path = os.path.join(folder, 'index.html')
    with open(path, 'w') as stream:
        stream.write('<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
                     '<title>Vellum: measurements</title><style>%s</style></head><body>%s'
                     '</body></html>\n' % (STYLE, '\n'.join(parts)))
    return path
