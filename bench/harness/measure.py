# SPDX-License-Identifier: MIT
"""Interleaved rounds: in each, every contender answers the same load."""
import json
import os
import statistics
import subprocess
import time

from .servers import BENCH, WORKLOADS, Failed


PAUSE_MS = 7    # between two single requests


class Contender:
    """Something that answers: a server, alone or behind a front end."""

    def __init__(self, label, server, address, load, front=None,
                 reference=False, bars=None):
        self.label = label
        self.server = server
        self.address = address
        self.load = load            # options of forebay-load
        self.front = front          # its CPU is counted apart
        self.reference = reference  # what the others are compared with
        self.bars = bars or {}      # metric -> (bar of the first issue, goal)
        self.results = []

    def run(self, setup, requests, accept_failures):
        return run_once(setup, self, requests, accept_failures)


class Loop:
    """The application alone, called in a loop by the same Python: what no
    server can go below."""

    front = None
    reference = False

    def __init__(self, label, app):
        self.label, self.app, self.bars, self.results = label, app, {}, []

    def run(self, setup, requests, accept_failures):
        argv = ["/usr/bin/python3", os.path.join(BENCH, "peers", "loop.py"),
                self.app, str(requests)]
        done = subprocess.run(
            argv, stdout=subprocess.PIPE, text=True, cwd=WORKLOADS,
            env={**os.environ, **setup.env, "PYTHONPATH": WORKLOADS,
                 "PYTHONDONTWRITEBYTECODE": "1"})
        if done.returncode != 0:
            raise Failed(" ".join(argv))
        return {"cpu_us": float(done.stdout), "failed": 0,
                "requests": requests, "front_us": 0.0, "both_us": 0.0,
                "rps": 0.0, "p50_us": 0.0, "p99_us": 0.0}


def load(setup, address, options, accept_failures=False):
    """Run forebay-load once and return what it says."""
    argv = [setup.load, "--connect", address, *map(str, options)]
    done = subprocess.run(argv, capture_output=True, text=True)
    if done.returncode == 2 or (done.returncode == 1 and
                                not accept_failures):
        raise Failed("%s:\n%s%s" % (" ".join(argv), done.stdout,
                                    done.stderr))
    return json.loads(done.stdout)


class Beside(Contender):
    """Single requests with pauses between them, while one client asks for
    /slow all the time: their latency, and that of the others."""

    def run(self, setup, requests, accept_failures):
        argv = [setup.load, "--connect", self.address, "--keep", "--uri",
                "/slow", "--requests", "10000000", "--duration",
                str(requests * PAUSE_MS + 2000)]
        with subprocess.Popen(argv, stdout=subprocess.PIPE,
                              text=True) as slow:
            took = sorted(self.one(setup) for _ in range(requests))
            beside = json.loads(slow.communicate()[0])
        return {"cpu_us": 0.0, "front_us": 0.0, "both_us": 0.0, "rps": 0.0,
                "p50_us": took[len(took) // 2],
                "p99_us": took[len(took) * 99 // 100],
                "slow_ms": beside["latency_us"]["p50"] / 1000,
                "requests": requests, "failed": beside["failed"]}

    def one(self, setup):
        time.sleep(PAUSE_MS / 1000)
        return load(setup, self.address,
                    ["--requests", 1, *self.load])["latency_us"]["max"]


def difference_us(before, after):
    """Of all processes together: what one that has ended had run is in the
    time of its parent, which waited for it."""
    return max(sum(after.values()) - sum(before.values()), 0) / 1000


def run_once(setup, contender, requests, accept_failures):
    before = contender.server.run_ns()
    front = contender.front.run_ns() if contender.front else {}
    result = load(setup, contender.address,
                  ["--requests", requests, *contender.load], accept_failures)
    good = max(result["ok"], 1)
    after = contender.server.run_ns()
    result["cpu_us"] = difference_us(before, after) / good
    result["workers_used"] = sum(
        after[p] - before.get(p, 0) > 1000000 for p in after)
    if contender.front:
        result["front_us"] = difference_us(front,
                                           contender.front.run_ns()) / good
    else:
        result["front_us"] = 0.0
    result["both_us"] = result["cpu_us"] + result["front_us"]
    result["p99_us"] = result["latency_us"]["p99"]
    result["p50_us"] = result["latency_us"]["p50"]
    return result


def rounds(setup, contenders, requests, count, accept_failures=False):
    """A short run of each that does not count, then count rounds; every
    second one goes backwards."""
    for contender in contenders:
        contender.run(setup, max(requests // 10, 20), accept_failures)
    for number in range(count):
        order = contenders if number % 2 == 0 else contenders[::-1]
        for contender in order:
            contender.results.append(contender.run(setup, requests,
                                                   accept_failures))


METRICS = ("cpu_us", "front_us", "both_us", "rps", "p50_us", "p99_us",
           "slow_ms")


def summary(contender):
    """Medians, and how far the CPU time of the rounds is apart."""
    row = {name: statistics.median(r.get(name, 0) for r in contender.results)
           for name in METRICS}
    cpu = [r["cpu_us"] for r in contender.results]
    row["cpu_min"], row["cpu_max"] = min(cpu), max(cpu)
    row["failed"] = sum(r["failed"] for r in contender.results)
    row["requests"] = sum(r["requests"] for r in contender.results)
    row["label"] = contender.label
    row["reference"] = contender.reference
    row["bars"] = contender.bars
    return row
