# SPDX-License-Identifier: MIT
"""Plots as inline SVG. Colours are classes (s0 .. s7, other), so that the
page's style sheet decides them for light and dark. Pure: numbers in, text
out."""
import math
from html import escape

WIDTH, HEIGHT = 520, 300
LEFT, RIGHT, TOP, BOTTOM = 58, 16, 14, 46


class Series:
    """points: (x, y, text for the pointer[, low, high])."""

    def __init__(self, name, css, points, dashed=False):
        self.name, self.css = name, css
        self.points, self.dashed = points, dashed


def linear_ticks(top, count=5):
    """0 and round steps up to the first one that is not below top."""
    if top <= 0:
        return [0, 1]
    raw = top / count
    power = 10 ** math.floor(math.log10(raw))
    step = next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= raw)
    return [step * i for i in range(math.ceil(top / step - 1e-9) + 1)]


def log_ticks(low, high):
    """1, 2, 5 of each decade when there are few, else decades."""
    first = math.floor(math.log10(low))
    last = math.ceil(math.log10(high) - 1e-9)
    last = max(last, first + 1)
    if last - first <= 2:
        found = [m * 10.0 ** e for e in range(first, last) for m in (1, 2, 5)]
        found.append(10.0 ** last)
        below = [t for t in found if t <= low * 1.0001]
        above = [t for t in found if t >= high * 0.9999]
        return [t for t in found if max(below, default=found[0]) <= t <=
                min(above, default=found[-1])]
    return [10.0 ** e for e in range(first, last + 1)]


def short(value):
    """12000 -> 12k; no digit that says nothing."""
    if value >= 1e6:
        return "%gM" % round(value / 1e6, 2)
    if value >= 1e3:
        return "%gk" % round(value / 1e3, 2)
    return "%g" % round(value, 4)


class Axis:
    """Values to positions. kind: "linear", "log", or "nines" (percentiles:
    each further nine is as far as the one before)."""

    def __init__(self, kind, low, high, start, end):
        self.kind, self.start, self.end = kind, start, end
        self.low, self.high = self.scale(low), self.scale(high)

    def scale(self, v):
        if self.kind == "log":
            return math.log10(v)
        if self.kind == "nines":
            return -math.log10(1 - min(v, 99.95) / 100)
        return v

    def __call__(self, v):
        span = (self.high - self.low) or 1
        part = (self.scale(v) - self.low) / span
        return self.start + part * (self.end - self.start)


def text(x, y, words, css="", anchor="middle"):
    return '<text x="%.1f" y="%.1f" class="%s" text-anchor="%s">%s</text>' % (
        x, y, css, anchor, escape(words))


def frame(x, y, x_ticks, y_ticks, x_name, y_name, tick_text=short,
          x_tick_text=short):
    """Grid, ticks and names of the axes. x_ticks: values, or (value, text)."""
    bottom = HEIGHT - BOTTOM
    out = []
    for t in y_ticks:
        out.append('<line class="grid" x1="%d" x2="%d" y1="%.1f" '
                   'y2="%.1f"/>' % (LEFT, WIDTH - RIGHT, y(t), y(t)))
        out.append(text(LEFT - 8, y(t) + 4, tick_text(t), "tick", "end"))
    for t in x_ticks:
        value, words = t if isinstance(t, tuple) else (t, x_tick_text(t))
        out.append('<line class="axis" x1="%.1f" x2="%.1f" y1="%d" y2="%d"/>'
                   % (x(value), x(value), bottom, bottom + 4))
        out.append(text(x(value), bottom + 18, words, "tick"))
    out.append('<line class="axis" x1="%d" x2="%d" y1="%d" y2="%d"/>' % (
        LEFT, WIDTH - RIGHT, bottom, bottom))
    out.append(text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8, x_name, "name"))
    out.append('<text class="name" text-anchor="middle" transform='
               '"translate(13 %.1f) rotate(-90)">%s</text>' % (
                   (TOP + bottom) / 2, escape(y_name)))
    return out


def draw(series, x, y):
    """Lines, whiskers, and a dot for each point that the pointer can ask."""
    out = []
    for one in series:
        css = one.css + (" dashed" if one.dashed else "")
        at = [(x(p[0]), y(p[1]), p) for p in one.points]
        if len(at) > 1:
            out.append('<polyline class="line %s" points="%s"/>' % (
                css, " ".join("%.1f,%.1f" % a[:2] for a in at)))
        for px, py, p in at:
            if len(p) > 3 and p[4] > p[3]:
                out.append('<line class="whisker %s" x1="%.1f" x2="%.1f" '
                           'y1="%.1f" y2="%.1f"/>' % (
                               css, px, px, y(p[3]), y(p[4])))
    for one in series:
        for p in one.points:
            out.append('<circle class="dot %s" cx="%.1f" cy="%.1f" r="%s">'
                       "<title>%s</title></circle>" % (
                           one.css, x(p[0]), y(p[1]),
                           "2.5" if one.dashed else "3.5", escape(p[2])))
    return out


def svg(parts, title, height=HEIGHT, width=WIDTH):
    return ('<svg viewBox="0 0 %d %d" role="img" aria-label="%s">%s</svg>' % (
        width, height, escape(title, quote=True), "".join(parts)))


def lines(series, title, x_name, y_name, log_y=False, x_kind="log",
          x_ticks=None):
    """A line chart; None without points."""
    points = [p for s in series for p in s.points]
    if not points:
        return None
    xs = sorted({p[0] for p in points})
    tops = [p[4] if len(p) > 3 else p[1] for p in points]
    bottoms = [v for v in (p[3] if len(p) > 3 else p[1] for p in points)
               if v > 0]
    if log_y:
        y_ticks = log_ticks(max(min(bottoms, default=1e-3), 1e-6),
                            max(*tops, 1e-3))
    else:
        y_ticks = linear_ticks(max(tops))
    x_ticks = x_ticks or xs
    ends = [t[0] if isinstance(t, tuple) else t for t in (x_ticks[0],
                                                          x_ticks[-1])]
    margin = 14 if x_kind == "log" else 0
    x = Axis(x_kind, min(xs[0], ends[0]), max(xs[-1], ends[1]),
             LEFT + margin, WIDTH - RIGHT - margin)
    y = Axis("log" if log_y else "linear", y_ticks[0], y_ticks[-1],
             HEIGHT - BOTTOM, TOP)
    if x.low == x.high:     # one point in the middle
        x.start = x.end = (LEFT + WIDTH - RIGHT) / 2
    return svg(frame(x, y, x_ticks, y_ticks, x_name, y_name) +
               draw(series, x, y), title)


ROW, BAR = 30, 16
BARS_WIDTH = 1080
LETTER = 6.7        # how wide one is, on the average and a little more


def stacked_bars(rows, title, unit):
    """Horizontal bars. rows: (label, [(value, css, text for the pointer)],
    text behind the bar)."""
    if not rows:
        return None
    top = max(sum(part[0] for part in parts) for _, parts, _ in rows)
    ticks = linear_ticks(top)
    height = TOP + ROW * len(rows) + BOTTOM
    left = 24 + LETTER * max(18, *(len(label) for label, _, _ in rows))
    x = Axis("linear", 0, ticks[-1], left, BARS_WIDTH - 110)
    bottom = TOP + ROW * len(rows)
    out = []
    for t in ticks:
        out.append('<line class="grid" x1="%.1f" x2="%.1f" y1="%d" '
                   'y2="%d"/>' % (x(t), x(t), TOP, bottom))
        out.append(text(x(t), bottom + 18, short(t), "tick"))
    for number, (label, parts, behind) in enumerate(rows):
        y = TOP + ROW * number + (ROW - BAR) / 2
        out.append(text(left - 10, y + 12.5, label, "label", "end"))
        at = 0.0
        for value, css, words in parts:
            # Two pixels of the page between parts that touch.
            width = max(x(at + value) - x(at) - 2, 0.5)
            out.append('<rect class="bar %s" x="%.1f" y="%.1f" width="%.1f" '
                       'height="%d" rx="2"><title>%s</title></rect>' % (
                           css, x(at), y, width, BAR, escape(words)))
            at += value
        out.append(text(x(at) + 6, y + 12.5, behind, "value", "start"))
    out.append('<line class="axis" x1="%.1f" x2="%.1f" y1="%d" y2="%d"/>' % (
        x(0), x(0), TOP, bottom))
    out.append(text((left + BARS_WIDTH - 110) / 2, height - 8, unit, "name"))
    return svg(out, title, height, BARS_WIDTH)
