# SPDX-License-Identifier: MIT
"""The run of scripts/compare --classic: five comparisons that were published
from 2007 to 2009, measured again with today's programs, beside the figures of
then. What each consists of is in classic_set.py."""
import contextlib
import statistics

from . import terminal
from .application import Application
from .generators import Ab, ForebayLoad, Load
from .measure import difference_us
from .progress import Progress
from .servers import Failed, Missing

WARM = 64           # clients at once, before anything counts
GUESS_S = 3.0       # what a run may take; the bar learns


class Expected:
    """An answer, as generators want to know it. body_file: all of it."""

    method, body_bytes = "GET", 0

    def __init__(self, uri, length, body_file=None, status=200):
        self.uri, self.length, self.body_file = uri, length, body_file
        self.reference = {"status": status, "length": length}

    def request_options(self):
        return ["--uri", self.uri]

    def check_options(self):
        if self.body_file:
            return ["--check-file", self.body_file]
        return ["--check-length", self.length]


class AbLoad:
    """ab -n requests -c clients [-k]."""

    def __init__(self, requests, clients, keep=False):
        self.requests, self.clients, self.keep = requests, clients, keep

    def text(self):
        return "ab -n %d -c %d%s" % (self.requests, self.clients,
                                     " -k" if self.keep else "")

    def divided(self, by):
        """ab wants at least one request for each client."""
        return AbLoad(max(self.requests // by, self.clients), self.clients,
                      self.keep)


class Row:
    """Something that is measured. processes: servers whose CPU time and
    memory count; only: numbers of the loads, or all of them."""

    def __init__(self, label, address, expected, processes, only=None):
        self.label, self.address, self.expected = label, address, expected
        self.processes, self.only = processes, only
        self.results = {}       # number of the load: [result, ...]

    def takes(self, number):
        return self.only is None or number in self.only

    def run_ns(self):
        found = {}
        for server in self.processes:
            found.update(server.run_ns())
        return found

    def pss_mb(self):
        return sum(s.pss_kb() for s in self.processes) / 1024


class Stand:
    """What the definitions of classic_set.py build with: everything that is
    started ends with the comparison."""

    def __init__(self, setup, stack, left_out, name):
        self.setup, self.stack, self.left_out = setup, stack, left_out
        self.name, self.number = name, 0
        self.notes = []

    def own_name(self):
        self.number += 1
        return "%s-%d" % (self.name, self.number)

    def keep(self, server):
        self.stack.callback(server.stop)
        server.wait_ready()
        return server

    def application(self, spec, uri="/"):
        app = Application(spec, self.setup.folder, uri=uri,
                          python=self.setup.python)
        app.ask(self.setup)
        # One file each: several applications are there at the same time.
        path = self.setup.path(self.own_name() + ".expected")
        with open(app.body_file, "rb") as f, open(path, "wb") as to:
            to.write(f.read())
        app.body_file = path
        return app

    def server(self, kind, app, shape):
        """None when it is not installed."""
        try:
            kind.require(self.setup)
        except Missing as error:
            self.leave_out(kind.name, error)
            return None
        return self.keep(kind.start(self.own_name(), self.setup, app, shape))

    def front(self, make, backends):
        try:
            return self.keep(make(self.own_name(), self.setup, backends))
        except Missing as error:
            self.leave_out(make.__name__, error)
            return None

    def leave_out(self, what, why):
        pair = ("%s: %s" % (self.name, what), str(why))
        if pair not in self.left_out:
            self.left_out.append(pair)


def summary(results):
    """Medians of the rounds."""
    if not results:
        return None
    found = {"requests": sum(r["requests"] for r in results),
             "failed": sum(r["failed"] for r in results),
             "gave_up": next((r["gave_up"] for r in results
                              if r.get("gave_up")), None)}
    good = [r for r in results if r["ok"]]
    for name, value in (
            ("rps", lambda r: r["rps"]),
            ("mean_ms", lambda r: 1000 / r["rps"]),
            ("cpu_us", lambda r: r["cpu_us"]),
            ("pss_mb", lambda r: r["pss_mb"]),
            ("p50_ms", lambda r: r["latency_us"]["p50"] / 1000),
            ("p90_ms", lambda r: r["latency_us"]["p90"] / 1000),
            ("p99_ms", lambda r: r["latency_us"]["p99"] / 1000),
            ("max_ms", lambda r: r["latency_us"]["max"] / 1000)):
        found[name] = (statistics.median(value(r) for r in good) if good
                       else None)
    tables = [dict(map(tuple, r["percentiles_ms"])) for r in good]
    found["percentiles_ms"] = [
        [p, statistics.median(t[p] for t in tables)] for p in tables[0]
    ] if tables else None
    return found


class Classic:
    """definitions: of classic_set.py. documents: what was measured, one for
    each."""

    def __init__(self, setup, definitions, rounds, divisor, progress_out):
        self.setup, self.definitions = setup, definitions
        self.rounds, self.divisor = rounds, divisor
        self.left_out, self.documents, self.broken = [], [], []
        self.ab = Ab()
        self.check = ForebayLoad()
        runs = sum(len(d.loads) * d.row_count for d in definitions)
        self.progress = Progress(runs * rounds * GUESS_S, progress_out)

    def run(self):
        self.ab.require()
        try:
            for definition in self.definitions:
                try:
                    self.documents.append(self.one(definition))
                except Missing as error:
                    self.left_out.append((definition.name, str(error)))
                except Failed as error:
                    self.broken.append((definition.name, str(error)))
        finally:
            self.progress.close()

    def one(self, definition):
        with contextlib.ExitStack() as stack:
            self.progress.step("starting: " + definition.title)
            stand = Stand(self.setup, stack, self.left_out, definition.name)
            stack.callback(self.setup.env.update, dict(self.setup.env))
            rows = [r for r in definition.build(stand)
                    if self.answers(definition, r)]
            loads = [load.divided(self.divisor)
                     for load in definition.loads]
            for number in range(self.rounds):
                order = rows if number % 2 == 0 else rows[::-1]
                for index, load in enumerate(loads):
                    for row in order:
                        if row.takes(index):
                            self.measure(definition, row, index, load)
            return self.document(definition, loads, rows, stand.notes)

    def answers(self, definition, row):
        """One answer of a row has to be right before it is measured; the
        others wake up every process and its connection to a database."""
        load = Load(row.address, "http", False, 1, None, 2, row.expected)
        found = self.check(self.setup, load, 60000)
        if not found["failed"]:
            self.check(self.setup, load._replace(
                clients=WARM, requests=max(8 * WARM // self.divisor, WARM)),
                60000)
        else:
            self.broken.append(("%s: %s" % (definition.name, row.label),
                                found["example"]))
        return not found["failed"]

    def measure(self, definition, row, index, load):
        self.progress.step("%s: %s, %s" % (definition.title, row.label,
                                           load.text()))
        before = row.run_ns()
        try:
            found = self.ab(self.setup, Load(
                row.address, "http", load.keep, load.clients, None,
                load.requests, row.expected))
        except Failed as error:
            found = {"requests": load.requests, "ok": 0,
                     "failed": load.requests, "gave_up": str(error)[-300:]}
        found["cpu_us"] = difference_us(before, row.run_ns()) / max(
            found["ok"], 1)
        found["pss_mb"] = row.pss_mb()
        row.results.setdefault(index, []).append(found)
        self.progress.done(GUESS_S)

    @staticmethod
    def document(definition, loads, rows, notes):
        return {
            "name": definition.name, "title": definition.title,
            "about": definition.about, "published": definition.published,
            "notes": notes,
            "loads": [load.text() for load in loads],
            "rows": [{"label": row.label, "results": [
                summary(row.results.get(i)) for i in range(len(loads))]}
                for row in rows]}


HEAD = ["", "req/s", "mean ms", "p50 ms", "p90 ms", "p99 ms", "max ms",
        "CPU us", "PSS MB", "failed"]


def table(document, index):
    """Of one load, measured rows only."""
    found = [HEAD]
    for row in document["rows"]:
        r = row["results"][index]
        if r is None:
            continue
        if r["rps"] is None:
            found.append([row["label"], "none answered"] + [""] * 7 +
                         ["%d" % r["failed"]])
            continue
        found.append([
            row["label"], "%.0f" % r["rps"], "%.2f" % r["mean_ms"],
            *("%.1f" % r[n + "_ms"] for n in ("p50", "p90", "p99", "max")),
            "%.0f" % r["cpu_us"], "%.1f" % r["pss_mb"], "%d" % r["failed"]])
    return found


def percentile_table(document, index):
    """ab's own, when it is part of what was published; or None."""
    wanted = (50, 66, 75, 80, 90, 95, 98, 99, 100)
    rows = [(row["label"], dict(map(tuple, r["percentiles_ms"])))
            for row in document["rows"]
            for r in [row["results"][index]] if r and r["percentiles_ms"]]
    if not rows:
        return None
    return [["served within, ms"] + ["%d %%" % p for p in wanted]] + [
        [label] + ["%.1f" % at[p] if p in at else "" for p in wanted]
        for label, at in rows]


def write(documents, left_out, broken, out):
    """For a terminal."""
    def say(text=""):
        print(text, file=out)

    def show(rows):
        for line in terminal.lines(rows):
            say(line)

    for d in documents:
        say("\n%s\n%s" % (d["title"], "=" * len(d["title"])))
        for line in terminal.wrap(d["about"]):
            say(line)
        for note in d["notes"]:
            for line in terminal.wrap(note):
                say(line)
        say("\n  Published, %s" % d["published"]["when"])
        show(d["published"]["table"])
        for index, load in enumerate(d["loads"]):
            say("\n  Now, %s" % load)
            show(table(d, index))
            percentiles = percentile_table(d, index)
            if percentiles and d["published"].get("percentiles"):
                say()
                show(percentiles)
    for title, pairs in (("Left out", left_out), ("Did not work", broken)):
        if pairs:
            say("\n" + title)
        for why, whats in terminal.by_reason(pairs):
            for line in terminal.wrap("%s: %s" % (", ".join(whats), why)):
                say(line)
    out.flush()
