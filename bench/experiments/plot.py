"""Plots as SVG, by hand: lines over categories, one panel beside another. They are to be read on light and on dark pages."""
import math
from xml.sax.saxutils import escape

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#999999", "#882255")
WIDTH, EACH, HEIGHT, LEFT, TOP, BOTTOM, GAP = 330, 52, 230, 58, 44, 44, 18
LEGEND_LINE = 18


def ticks(top):
    """Round numbers from 0 to what is not below `top`."""
    if top <= 0:
        return [0, 1]
    step = 10 ** math.floor(math.log10(top / 4))
    step = next(step * factor for factor in (1, 2, 2.5, 5, 10) if step * factor * 5 >= top)
    return [step * number for number in range(math.ceil(top / step - 1e-9) + 1)]


def short(value):
    for limit, unit in ((1e6, "M"), (1e3, "k")):
        if value >= limit:
            return f"{value / limit:g}{unit}"
    return f"{value:g}"


def text(x, y, words, anchor="middle", size=11, weight="normal"):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" font-weight="{weight}">{escape(words)}</text>'


def panel(x, wide, title, unit, categories, lines, names, top):
    """One panel; `lines` has (values, lowest, highest) by name, a value for each category or None."""
    inner, high = wide - LEFT - GAP, HEIGHT - TOP - BOTTOM
    marks = ticks(top)
    place = lambda value: HEIGHT - BOTTOM - value / marks[-1] * high
    across = lambda at: x + LEFT + (at + 0.5) * inner / len(categories)
    out = [text(x + LEFT, 18, title, "start", 12, "bold"), text(x + LEFT, 34, unit, "start", 10)]
    for mark in marks:
        out.append(f'<line x1="{x + LEFT}" y1="{place(mark):.1f}" x2="{x + LEFT + inner}" y2="{place(mark):.1f}" stroke="#888" stroke-opacity="0.4" stroke-width="1"/>')
        out.append(text(x + LEFT - 6, place(mark) + 4, short(mark), "end", 10))
    for at, category in enumerate(categories):
        out.append(text(across(at), HEIGHT - BOTTOM + 16, str(category), size=10))
    for name, (values, low, high_) in lines.items():
        colour = COLOURS[names.index(name) % len(COLOURS)]
        points = [(across(at), place(value)) for at, value in enumerate(values) if value is not None]
        for at, value in enumerate(values):
            if value is not None and high_[at] > low[at]:
                out.append(f'<line x1="{across(at):.1f}" y1="{place(low[at]):.1f}" x2="{across(at):.1f}" y2="{place(high_[at]):.1f}" stroke="{colour}" stroke-width="1"/>')
        if len(points) > 1:
            path = " ".join(f"{a:.1f},{b:.1f}" for a, b in points)
            out.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        out += [f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3" fill="{colour}"/>' for a, b in points]
    return out


def svg(panels, axis=""):
    """`panels`: (title, unit, categories, {name: [figures of the rounds, or None, for each category]}). Points are medians, strokes reach from the lowest to the highest."""
    from statistics import median
    names = list(dict.fromkeys(name for *_, lines in panels for name in lines))
    wide = max(WIDTH, *(LEFT + GAP + EACH * len(categories) for _, _, categories, _ in panels))
    width, height = wide * len(panels), HEIGHT + LEGEND_LINE * math.ceil(len(names) / 4) + 6
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" font-family="sans-serif" fill="#777">']
    for number, (title, unit, categories, lines) in enumerate(panels):
        drawn = {}
        for name, figures in lines.items():
            some = lambda f: [f(values) if values else None for values in figures]
            drawn[name] = (some(median), some(min), some(max))
        top = max((value for _, _, highest in drawn.values() for value in highest if value is not None), default=1)
        out += panel(number * wide, wide, title, unit, categories, drawn, names, top)
        out.append(text(number * wide + LEFT + (wide - LEFT - GAP) / 2, HEIGHT - BOTTOM + 32, axis, size=10))
    for number, name in enumerate(names):
        x, y = LEFT + number % 4 * (width - LEFT) / 4, HEIGHT + 8 + number // 4 * LEGEND_LINE
        out.append(f'<circle cx="{x}" cy="{y - 4}" r="4" fill="{COLOURS[number % len(COLOURS)]}"/>')
        out.append(text(x + 10, y, name, "start", 11))
    return "\n".join(out + ["</svg>", ""])
