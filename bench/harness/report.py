# SPDX-License-Identifier: MIT
"""A document of results.py as one HTML file: plots, tables, the
recommendation. No script, nothing from a network."""
import os
from html import escape

from . import svg, terminal
from .advice import View, front_text
from .results import find_server
from .svg import Series

HERE = os.path.dirname(os.path.abspath(__file__))
COLOURS = 8


class Colours:
    """One class for each label, the same in all plots: forebay's first. What
    has no colour of its own is grey; the tables have everything."""

    def __init__(self, cells):
        shown = [c for _, _, rows in terminal.groups(cells)
                 for c in best_shapes(rows)]
        labels = list(dict.fromkeys(
            [c["label"] for c in shown if c["server"] == "forebay"] +
            [c["label"] for c in shown] + [c["label"] for c in cells]))
        self.css = {label: "s%d" % i if i < COLOURS else "other"
                    for i, label in enumerate(labels)}

    def __getitem__(self, label):
        return self.css[label]


def best_shapes(cells):
    """For plots of lines: all of forebay, and of each other server the shape
    that answers most at the highest concurrency, since more lines cannot be
    read. The front end alone would flatten all others."""
    cells = [c for c in cells if c["server"] != "front-alone"]
    best = {}
    for c in cells:
        if c["server"] != "forebay":
            key = (c["clients"], c["rps"])
            if key > best.get(c["server"], ((0, 0), None))[0]:
                best[c["server"]] = key, c["label"]
    keep = {label for _, label in best.values()}
    return [c for c in cells if c["server"] == "forebay" or
            c["label"] in keep]


def legend(names, extra=""):
    return '<div class="legend">%s%s</div>' % ("".join(
        '<span class="%s"><i class="%s"></i>%s</span>' % (
            css, box, escape(name)) for name, css, box in names), extra)


def series_legend(cells, colours):
    labels = list(dict.fromkeys(c["label"] for c in cells))
    labels.sort(key=lambda n: (colours[n] == "other", colours[n]))
    return legend([(n, colours[n], "") for n in labels])


def by_label(cells):
    found = {}
    for c in sorted(cells, key=lambda c: c["clients"]):
        found.setdefault(c["label"], []).append(c)
    return found.items()


def rate_series(cells, colours):
    return [Series(label, colours[label], [
        (c["clients"], c["rps"], "%s, c=%d: %.0f req/s (%.0f to %.0f)" % (
            label, c["clients"], c["rps"], c["rps_min"], c["rps_max"]),
         c["rps_min"], c["rps_max"]) for c in rows])
        for label, rows in by_label(cells)]


def latency_series(cells, colours):
    found = []
    for label, rows in by_label(cells):
        for name, dashed in (("p50", False), ("p99", True)):
            found.append(Series(label, colours[label], [
                (c["clients"], c[name + "_us"] / 1000,
                 "%s, c=%d: %s %s ms" % (
                     label, c["clients"], name,
                     terminal.milliseconds(c[name + "_us"])))
                for c in rows if c[name + "_us"] > 0], dashed))
    return found


PERCENTILE_TICKS = [(0, "0"), (50, "50"), (90, "90"), (99, "99"),
                    (99.9, "99.9")]


def curve_series(cells, colours):
    return [Series(c["label"], colours[c["label"]], [
        (p, us / 1000, "%s: %g %% within %s ms" % (
            c["label"], p, terminal.milliseconds(us)))
        for p, us in c["curve"] if us > 0 and p < 100]) for c in cells]


def figure(title, drawing):
    return ('<figure class="card"><h3>%s</h3>%s</figure>' % (
        escape(title), drawing) if drawing else "")


def small_multiples(doc, colours, make):
    """One plot for each front end and kind of client."""
    out = []
    for front, keep, cells in terminal.groups(doc["cells"]):
        shown = best_shapes(cells)
        if shown:
            out.append(figure(short_title(front, keep), make(
                shown, terminal.group_title(front, keep))))
    return '<div class="grid2">%s</div>' % "".join(out)


def short_title(front, keep):
    words = front_text(front)
    return "%s; clients %s" % (words[0].upper() + words[1:],
                               "keep theirs" if keep else "connect anew")


def rates(doc, colours):
    return small_multiples(doc, colours, lambda cells, title: svg.lines(
        rate_series(cells, colours), title, "connections at once",
        "requests per second"))


def latencies(doc, colours):
    return small_multiples(doc, colours, lambda cells, title: svg.lines(
        latency_series(cells, colours), title, "connections at once",
        "milliseconds (log)", log_y=True))


def top_clients(cells):
    most = max(c["clients"] for c in cells)
    return [c for c in cells if c["clients"] == most]


def curves(doc, colours):
    return small_multiples(doc, colours, lambda cells, title: svg.lines(
        curve_series(top_clients(cells), colours), title,
        "percent of the requests", "milliseconds (log)", log_y=True,
        x_kind="nines", x_ticks=PERCENTILE_TICKS))


def costs(doc, colours):
    """Stacked bars, one for each path at the highest concurrency."""
    out = []
    for front, keep, cells in terminal.groups(doc["cells"]):
        rows = []
        for c in sorted(top_clients(cells), key=lambda c: c["both_us"]):
            parts = [(c["cpu_us"], colours[c["label"]],
                      "%s: %.1f us of the server" % (c["label"],
                                                     c["cpu_us"]))]
            if c["front_us"]:
                parts.append((c["front_us"], "front",
                              "%s: %.1f us of the front end" % (
                                  c["label"], c["front_us"])))
            rows.append((c["label"], [p for p in parts if p[0] > 0],
                         "%.1f" % c["both_us"]))
        out.append(figure(
            "%s, %d at once" % (short_title(front, keep),
                                top_clients(cells)[0]["clients"]),
            svg.stacked_bars(rows, terminal.group_title(front, keep),
                             "CPU microseconds for each request")))
    return '<div class="stack">%s</div>' % "".join(out)


def memory(doc, colours):
    """Over the number of workers when several were measured, else bars."""
    rows = [s for s in doc["servers"] if s["pss_under_mb"]]
    lines = {}
    for s in rows:
        name = "%s, %d thread%s" % (s["server"], s["threads"],
                                    "" if s["threads"] == 1 else "s")
        lines.setdefault(name, []).append(s)
    out = []
    if len({s["workers"] for s in rows}) > 1:
        names = list(lines)
        css = {n: "s%d" % i if i < COLOURS else "other"
               for i, n in enumerate(names)}
        series = [Series(n, css[n], [
            (s["workers"], s["pss_under_mb"], "%s: %.1f MB" % (
                s["label"], s["pss_under_mb"])) for s in sorted(
                    lines[n], key=lambda s: s["workers"])]) for n in names]
        out.append(legend([(n, css[n], "") for n in names]))
        out.append('<div class="grid2">%s</div>' % figure(
            "Under load", svg.lines(series, "Memory over workers",
                                    "workers", "PSS, MB")))
    bars = [(s["label"], [
        (s["pss_before_mb"], memory_colour(s, colours),
         "%s: %.1f MB before load" % (s["label"], s["pss_before_mb"])),
        (max(s["pss_under_mb"] - s["pss_before_mb"], 0), "front",
         "%s: %.1f MB under load" % (s["label"], s["pss_under_mb"]))],
        "%.1f" % s["pss_under_mb"])
        for s in sorted(rows, key=lambda s: s["pss_under_mb"])]
    out.append(figure("Before load, and what load adds (PSS)",
                      svg.stacked_bars(bars, "Memory of each server",
                                       "megabytes")))
    return '<div class="stack">%s</div>' % "".join(out)


def memory_colour(server, colours):
    """That of the first path that leads to it."""
    label = server["label"]
    return next((css for name, css in colours.css.items()
                 if name in (label, label + " FCGI")), "other")


def tile(number, what):
    return ('<div class="card tile"><div class="number">%s</div>'
            '<div class="what">%s</div></div>' % (escape(number),
                                                  escape(what)))


def tiles(doc):
    """The best cell of forebay in four numbers."""
    view = View(doc["cells"], doc["servers"])
    best = view.best() if view.front else None
    if best is None:
        return ""
    server = find_server(best, doc["servers"]) or {}
    where = "%s, %s, %d at once" % (best["label"], front_text(best["front"]),
                                    best["clients"])
    found = [tile(svg.short(round(best["rps"])), "requests per second: "
                  + where),
             tile(terminal.milliseconds(best["p99_us"]) + " ms",
                  "within that 99 of 100 requests are answered there"),
             tile("%.1f us" % best["both_us"],
                  "CPU time for each request, server and front end")]
    if server.get("pss_under_mb"):
        found.append(tile("%.1f MB" % server["pss_under_mb"],
                          "memory of the server under load (PSS)"))
    return '<div class="tiles">%s</div>' % "".join(found)


def html_table(table, rows):
    """table as terminal.cell_table() makes it; rows: what it was made of."""
    out = ["<tr>%s</tr>" % "".join("<th>%s</th>" % escape(h)
                                   for h in table[0])]
    for line, row in zip(table[1:], rows):
        ours = ' class="ours"' if row["server"] == "forebay" else ""
        cells = []
        for head, cell in zip(table[0], line):
            bad = head.startswith("failed") and cell not in ("", "0")
            cells.append("<td%s>%s</td>" % (' class="bad"' if bad else "",
                                            escape(cell)))
        out.append("<tr%s>%s</tr>" % (ours, "".join(cells)))
    return '<div class="scroll"><table>%s</table></div>' % "".join(out)


def tables(doc):
    out = []
    for front, keep, cells in terminal.groups(doc["cells"]):
        out.append("<h3>%s</h3>" % escape(terminal.group_title(front, keep)))
        out.append(html_table(terminal.cell_table(cells), cells))
    return '<details class="card"><summary>All numbers</summary>%s</details>' \
        % "".join(out)


def reasons(title, pairs):
    if not pairs:
        return ""
    return "<h2>%s</h2><ul class=\"reasons muted\">%s</ul>" % (
        title, "".join("<li>%s: %s</li>" % (
            escape(", ".join(whats)), escape(why))
            for why, whats in terminal.by_reason(pairs)))


def facts(doc):
    m, s = doc["machine"], doc["settings"]
    return ("%s · %d × %s · Linux %s · load %.1f at the start<br>"
            "%s %s · %d rounds of %g s, medians; whiskers are the lowest "
            "and the highest round · load by %s<br>every answer checked: %s"
            % tuple(escape(str(x)) if isinstance(x, str) else x for x in (
                m["date"], m["processors"], m["model"] or "processor",
                m["kernel"], m["load_average"], s["method"], s["uri"],
                s["rounds"], s["duration_s"], s["load"], s["checked"])))


def section(title, about, *parts):
    return "<h2>%s</h2><p class=\"muted\">%s</p>%s" % (title, about,
                                                       "".join(parts))


def body(doc):
    cells, colours = doc["cells"], Colours(doc["cells"])
    shown = [c for _, _, rows in terminal.groups(cells)
             for c in best_shapes(rows)]
    names = series_legend(shown, colours)
    out = ["<h1>%s, compared</h1>" % escape(doc["settings"]["application"]),
           '<p class="facts">%s</p>' % facts(doc)]
    if doc["recommendation"]:
        out.append('<div class="card advice"><ul>%s</ul></div>' % "".join(
            "<li>%s</li>" % escape(s) for s in doc["recommendation"]))
    out.append(tiles(doc))
    if cells:
        out += [
            section("Throughput", "Requests per second; higher is better. Of "
                    "each other server its best shape is shown; the table "
                    "below has all.", names,
                    rates(doc, colours)),
            section("Latency", "Solid: half of the requests are quicker "
                    "(p50). Dashed: 99 of 100 are (p99). Lower is better.",
                    names, latencies(doc, colours)),
            section("The whole distribution", "At the highest concurrency: "
                    "how many percent of the requests were answered within "
                    "which time.", names, curves(doc, colours)),
            section("What a request costs", "CPU time of all processes. "
                    "Coloured: the server. Grey: the front end.",
                    costs(doc, colours))]
    if any(s["pss_under_mb"] for s in doc["servers"]):
        out.append(section("Memory", "Each server by itself. PSS: what "
                           "several processes share is counted once.",
                           memory(doc, colours)))
    if doc["servers"]:
        out.append(section(
            "Start and reload", "From the start to the first good answer; "
            "the longest time without an answer during a reload under load.",
            '<div class="card">%s</div>' % html_table(
                terminal.server_table(doc["servers"]), doc["servers"])))
    out += ["<h2>Numbers</h2>", tables(doc),
            reasons("Left out", doc["left_out"]),
            reasons("Did not work", doc["broken"])]
    out += ['<p class="muted">%s</p>' % escape(n) for n in doc["notes"]]
    return "\n".join(out)


def page(title, content):
    """Around any report: the style sheet is in it, an icon is not asked for."""
    with open(os.path.join(HERE, "report.css")) as f:
        css = f.read()
    return ('<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width, '
            'initial-scale=1"><link rel="icon" href="data:,">'
            "<title>%s</title><style>\n%s</style></head>\n"
            "<body><main>%s</main></body></html>\n" % (escape(title), css,
                                                       content))


def write(doc, path):
    with open(path, "w") as f:
        f.write(page("forebay: %s, compared"
                     % doc["settings"]["application"], body(doc)))


