# SPDX-License-Identifier: MIT
"""`forebay ctl`, the manager's control socket itself, and what the status
says."""

import json
import socket
import subprocess

from . import server as srv
from .wait import TIMEOUT, wait_for


class Ctl:
    """Asks one server; path is its control socket."""

    def __init__(self, path):
        self.path = path

    def run(self, *words, **how):
        """The finished process; its output is text."""
        how.setdefault("timeout", 4 * TIMEOUT)
        return subprocess.run(
            [srv.program(), "ctl", "--control", self.path,
             *(str(w) for w in words)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, **how,
            encoding="utf-8")

    def start(self, *words):
        """One that waits for its answer."""
        return subprocess.Popen(
            [srv.program(), "ctl", "--control", self.path, *words],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8")

    def __call__(self, *words):
        """What it prints; it must not fail."""
        found = self.run(*words)
        assert (found.returncode, found.stderr) == (0, ""), found
        return found.stdout

    def fails(self, *words):
        """The sentence on standard error."""
        found = self.run(*words)
        assert (found.returncode, found.stdout) == (1, ""), found
        assert len(found.stderr.splitlines()) == 1, found.stderr
        return found.stderr

    def raw(self, data, end=False):
        """The answer to these bytes."""
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(self.path)  # waits for a place in the backlog
            s.settimeout(TIMEOUT)
            s.sendall(data)
            if end:
                s.shutdown(socket.SHUT_WR)
            return read_all(s)

    def status(self):
        return json.loads(self.raw(b"status json\n").partition(b"\n")[2])

    def pool(self, name="main"):
        found = [p for p in self.status()["pools"] if p["name"] == name]
        assert len(found) == 1, found
        return found[0]

    def wait_status(self, condition, what="the status"):
        """Wait until condition(status) is true; that status."""
        last = []

        def there():
            last[:] = [self.status()]
            return condition(last[0]) and last[0]
        return wait_for(there, lambda: "%s: %s" % (
            what, json.dumps(last, indent=1)[:6000]))

    def wait_pool(self, condition, what="the pool's status", name="main"):
        def there(status):
            return any(p["name"] == name and condition(p)
                       for p in status["pools"])
        found = self.wait_status(there, what)
        return [p for p in found["pools"] if p["name"] == name][0]


def read_all(s):
    out = b""
    while True:
        try:
            data = s.recv(65536)
        except ConnectionResetError:
            return out
        if not data:
            return out
        out += data


def count(counts):
    """The workers (or threads) of a totals object by state, without total."""
    return sum(n for state, n in counts.items() if state != "total")


def metrics(text):
    """{series: value}, and checks the format."""
    values, typed, helped, over, current = {}, {}, set(), set(), None
    assert text.endswith("\n")
    for line in text.splitlines():
        if line.startswith("# HELP "):
            name = line.split(" ", 3)[2]
            assert name not in helped
            over.add(current)
            helped.add(name)
            current = name
        elif line.startswith("# TYPE "):
            name, kind = line.split(" ", 3)[2:]
            assert name == current
            typed[name] = kind
        else:
            series, _, value = line.rpartition(" ")
            name = series.partition("{")[0]
            assert name.startswith(current) and current in typed, line
            assert name == current or (
                typed[current] == "histogram"
                and name[len(current):] in ("_bucket", "_sum", "_count"))
            assert current not in over
            assert series not in values, series
            values[series] = float(value)
    return values
