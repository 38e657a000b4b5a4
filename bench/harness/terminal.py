# SPDX-License-Identifier: MIT
"""A document of results.py as tables for a terminal."""
import textwrap

FRONT_TITLES = {
    "none": "Without a front end",
    "nginx": "Behind nginx, a new connection to the server each time",
    "nginx-kept": "Behind nginx, connections to the server are kept",
    "lighttpd": "Behind lighttpd",
    "apache": "Behind Apache, a new connection to the server each time",
    "apache-kept": "Behind Apache, connections to the server are kept",
    "itself": "Servers that are their own front end",
}


def groups(cells):
    """[(front, keep, cells)], in the order in which they were measured."""
    found = {}
    for cell in cells:
        found.setdefault((cell["front"], cell["keep"]), []).append(cell)
    return [(front, keep, rows) for (front, keep), rows in found.items()]


def group_title(front, keep):
    return "%s; clients %s" % (
        FRONT_TITLES[front], "keep their connections" if keep
        else "connect anew for each request")


def milliseconds(us):
    """Three digits that matter."""
    ms = us / 1000
    return "%.0f" % ms if ms >= 100 else "%.1f" % ms if ms >= 10 else \
        "%.2f" % ms


def spread(low, middle, high):
    """How far the rounds are from their median, in percent."""
    if not middle:
        return 0.0
    return 100 * max(high - middle, middle - low) / middle


def number(value, form="%.0f"):
    return "" if value is None else form % value


def lines(table, left=1):
    """Columns as wide as they have to be; the first ones to the left."""
    widths = [max(len(row[i]) for row in table)
              for i in range(len(table[0]))]
    for row in table:
        yield "  " + "  ".join(
            cell.ljust(w) if i < left else cell.rjust(w)
            for i, (cell, w) in enumerate(zip(row, widths))).rstrip()


def cell_table(cells):
    table = [["", "c", "req/s", "+-%", "p50 ms", "p90 ms", "p99 ms",
              "max ms", "CPU us", "front us", "calls", "front", "failed"]]
    for row in cells:
        table.append([
            row["label"], "%d" % row["clients"], "%.0f" % row["rps"],
            "%.0f" % spread(row["rps_min"], row["rps"], row["rps_max"]),
            milliseconds(row["p50_us"]), milliseconds(row["p90_us"]),
            milliseconds(row["p99_us"]), milliseconds(row["max_us"]),
            "%.1f" % row["cpu_us"], "%.1f" % row["front_us"],
            number(row["syscalls"], "%.1f"),
            number(row["front_syscalls"], "%.1f"), "%d" % row["failed"]])
    return table


def server_table(servers):
    table = [["", "start ms", "processes", "PSS MB before", "under", "after",
              "RSS MB under", "reload gap ms", "failed in it"]]
    for row in servers:
        gap = number(row["reload_gap_ms"])
        if gap and not row["reload_done"]:
            gap = "not done in time"
        table.append([
            row["label"], number(row["startup_ms"]),
            number(row["processes"]), number(row["pss_before_mb"], "%.1f"),
            number(row["pss_under_mb"], "%.1f"),
            number(row["pss_after_mb"], "%.1f"),
            number(row["rss_under_mb"], "%.1f"), gap,
            number(row["reload_failed"])])
    return table


def write(doc, out):
    def say(text=""):
        print(text, file=out)

    for front, keep, cells in groups(doc["cells"]):
        say()
        say(group_title(front, keep))
        for line in lines(cell_table(cells)):
            say(line)
    if doc["servers"]:
        say()
        say("Each server by itself")
        for line in lines(server_table(doc["servers"])):
            say(line)
    if doc["recommendation"]:
        say()
        say("Recommendation")
        for sentence in doc["recommendation"]:
            for line in wrap(sentence):
                say(line)
    for title, pairs in (("Left out", doc["left_out"]),
                         ("Did not work", doc["broken"])):
        if pairs:
            say()
            say(title)
        for why, whats in by_reason(pairs):
            for line in wrap("%s: %s" % (", ".join(whats), why)):
                say(line)
    for note in doc["notes"]:
        say()
        say(note)
    out.flush()


def by_reason(pairs):
    """[(why, [what, ...])]"""
    found = {}
    for what, why in pairs:
        found.setdefault(why.strip(), []).append(what)
    return found.items()


def wrap(text, width=78):
    return textwrap.wrap(text, width, initial_indent="  - ",
                         subsequent_indent="    ")
