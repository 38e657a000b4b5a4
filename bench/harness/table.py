# SPDX-License-Identifier: MIT
"""The results as a table for a terminal."""

COLUMNS = (  # heading, metric, format, ratio
    ("CPU us", "cpu_us", "%.1f", True),
    ("+front us", "front_us", "%.1f", False),
    ("both x", "both_us", None, True),
    ("req/s", "rps", "%.0f", True),
    ("p50 us", "p50_us", "%.0f", False),
    ("p99 us", "p99_us", "%.0f", False),
    ("slow ms", "slow_ms", "%.1f", False),
    ("PSS MB", "pss_mb", "%.1f", True),
    ("used", "workers_used", "%d", False),
    ("failed", "failed", "%d", False),
)
LEAST = {"rps"}                    # a bar is a lower bound
ABSOLUTE = {"failed", "p99_us"}    # a bar is no ratio


def reference_of(rows):
    return next((row for row in rows if row["reference"]), None)


def ratio(row, reference, metric):
    if reference is None or not reference.get(metric):
        return None
    return row[metric] / reference[metric]


def verdict(row, reference):
    """What each bar says, in words."""
    words = []
    for metric, bars in row["bars"].items():
        value = (row[metric] if metric in ABSOLUTE
                 else ratio(row, reference, metric))
        for bar in dict.fromkeys(bars):
            if bar is None or value is None:
                continue
            good = value >= bar if metric in LEAST else value <= bar
            words.append("%s%s%g%s" % (
                "" if metric == "cpu_us" else metric.split("_")[0] + " ",
                ">=" if metric in LEAST else "<=", bar,
                " ok" if good else " NO"))
    return ", ".join(words)


def print_rows(title, rows, out):
    reference = reference_of(rows)
    head, lines = ["server"], []
    columns = [c for c in COLUMNS
               if any(row.get(c[1]) for row in rows) or c[1] == "failed"
               and "failed" in rows[0]]
    if not (reference and reference.get("front_us")):
        columns = [c for c in columns if c[1] != "both_us"]
    for heading, _, form, with_ratio in columns:
        if form:
            head.append(heading)
        if with_ratio:
            head.append("x" if form else heading)
    for row in rows:
        line = [row["label"]]
        for _, metric, form, with_ratio in columns:
            if form:
                line.append(form % row[metric])
            if with_ratio:
                x = ratio(row, reference, metric)
                line.append("" if x is None else "%.2f" % x)
        lines.append(line + [verdict(row, reference)])
    head.append("bars")
    widths = [max(len(line[i]) for line in [head] + lines)
              for i in range(len(head))]
    print("\n%s" % title, file=out)
    for line in [head] + lines:
        cells = [line[0].ljust(widths[0])]
        cells += [cell.rjust(w) for cell, w in zip(line[1:-1], widths[1:-1])]
        print("  " + "  ".join(cells + [line[-1]]).rstrip(), file=out)
    out.flush()
