# SPDX-License-Identifier: MIT
"""scripts/compare --classic as one HTML file: figures of then and of now."""
from html import escape

from . import classic, svg
from .report import figure, page, reasons


def plain_table(rows):
    head = "".join("<th>%s</th>" % escape(h) for h in rows[0])
    lines = "".join("<tr>%s</tr>" % "".join(
        "<td>%s</td>" % escape(cell) for cell in row) for row in rows[1:])
    return ('<div class="scroll"><table><tr>%s</tr>%s</table></div>'
            % (head, lines))


def bars(document, index):
    """Requests per second of one load."""
    rows = []
    for row in document["rows"]:
        r = row["results"][index]
        if r is None:
            continue
        css = "s0" if "forebay" in row["label"] else "other"
        rate = r["rps"] or 0.0
        behind = "%.0f" % rate
        if r["failed"]:
            behind += ", %d failed" % r["failed"]
        rows.append((row["label"], [(rate, css, "%s: %.0f req/s" % (
            row["label"], rate))], behind))
    return svg.stacked_bars(rows, document["loads"][index],
                            "requests per second")


def comparison(document):
    out = ["<h2>%s</h2><p class=\"muted\">%s</p>" % (
        escape(document["title"]),
        escape(" ".join([document["about"], *document["notes"]]))),
        '<div class="stack">',
        '<div class="card"><h3>Published, %s</h3>%s</div>' % (
            escape(document["published"]["when"]),
            plain_table(document["published"]["table"]))]
    for index, load in enumerate(document["loads"]):
        out.append(figure("Now, " + load, (bars(document, index) or "") +
                          plain_table(classic.table(document, index)) +
                          percentiles(document, index)))
    return "".join([*out, "</div>"])


def percentiles(document, index):
    found = classic.percentile_table(document, index)
    if not found or not document["published"].get("percentiles"):
        return ""
    return "<h3></h3>" + plain_table(found)


def write(doc, path):
    m = doc["machine"]
    out = ["<h1>Five published comparisons, again</h1>",
           '<p class="facts">%s · %d × %s · Linux %s · load %.1f at the '
           "start<br>%d rounds, medians · load by ab%s</p>" % (
               escape(m["date"]), m["processors"], escape(m["model"]),
               escape(m["kernel"]), m["load_average"], doc["rounds"],
               " · one %dth of the requests" % doc["quick"]
               if doc["quick"] > 1 else "")]
    out += [comparison(d) for d in doc["comparisons"]]
    out += [reasons("Left out", doc["left_out"]),
            reasons("Did not work", doc["broken"])]
    with open(path, "w") as f:
        f.write(page("forebay: five published comparisons", "".join(out)))
