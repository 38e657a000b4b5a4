# SPDX-License-Identifier: MIT
"""What is seen of one server while nothing else runs: how long its start
takes, its memory before, under and after load, its system calls per request,
and the gap that a reload makes."""
import contextlib
import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time

from . import proc
from .generators import Load
from .servers import Failed

SAMPLE_S = 0.05
RELOAD_MS = 4000
STRACE_REQUESTS = 200


def first_answer_ms(setup, server, address, protocol, app, generate,
                    seconds=60):
    """From its start to the first good answer."""
    deadline = time.monotonic() + seconds
    while True:
        found = generate(setup, Load(address, protocol, False, 1, None, 1,
                                     app))
        now = time.monotonic()
        if found["ok"] == 1:
            return (now - server.started_at) * 1000
        if server.process.poll() is not None:
            raise Failed("%s ended with %s:\n%s" % (
                server.name, server.process.returncode, server.log()))
        # Another status may be that of a server that is not ready yet.
        wrong = {"content", "length"} & set(found["failures"])
        if now > deadline or wrong:
            raise Failed("%s: %s" % (
                "it answers wrongly" if wrong else "no good answer within "
                "%d s" % seconds, found["example"].replace("\r\n", " | ")))
        time.sleep(0.005)


class MemorySampler:
    """The most that a server has in use at the same time."""

    def __init__(self, server):
        self.server = server
        self.most = (0, 0)
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.run)

    def look(self):
        pss, rss = self.server.memory_kb()
        self.most = max(self.most[0], pss), max(self.most[1], rss)

    def run(self):
        while not self.over.wait(SAMPLE_S):
            self.look()

    def __enter__(self):
        self.look()
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()
        self.look()


def memory(server, under_load):
    """{"pss_before_mb": ..., ...}; under_load() makes the load."""
    found = {}

    def note(when, kb):
        found["pss_%s_mb" % when] = kb[0] / 1024
        found["rss_%s_mb" % when] = kb[1] / 1024

    note("before", server.memory_kb())
    with MemorySampler(server) as sampler:
        under_load()
    note("under", sampler.most)
    note("after", server.memory_kb())
    return found


class Strace:
    """Counts the system calls of a server. why_not: it could not attach."""

    def __init__(self, server):
        self.why_not = None
        self.process = None
        self.pids = server.pids()
        if shutil.which("strace") is None:
            self.why_not = "strace is not installed (strace)"
            return
        handle, self.path = tempfile.mkstemp(dir=os.path.dirname(
            server.log_path))
        os.close(handle)
        argv = ["strace", "-f", "-c", "-qq", "-o", self.path]
        for pid in self.pids:
            argv += ["-p", str(pid)]
        self.process = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE)
        self.wait_attached()

    def wait_attached(self):
        deadline = time.monotonic() + 20
        while not all(proc.tracer(thread) == self.process.pid
                      for pid in self.pids for thread in proc.threads(pid)):
            if (self.process.poll() is not None or
                    time.monotonic() > deadline):
                self.stop()
                self.why_not = "strace cannot attach: " + \
                    self.process.stderr.read().decode().strip()[:200]
                return
            time.sleep(0.01)

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(20)

    def count(self):
        """All calls so far; ends it. None: why_not tells."""
        if self.process is None:
            return None
        if self.why_not is None:
            self.stop()
        self.process.stderr.close()
        with open(self.path) as f:
            text = f.read()
        os.unlink(self.path)
        return None if self.why_not else count_calls(text)


def count_calls(text):
    """The sum of the "calls" column of strace -c."""
    lines = re.findall(r"^ *[\d.]+ +[\d.]+ +\d+ +(\d+) .*?(\w+)$", text,
                       re.MULTILINE)
    return sum(int(n) for n, name in lines if name != "total")


def system_calls(setup, server, front, load, generate):
    """(per request of the server, of the front end); None: not counted."""
    counters = [Strace(s) if s else None for s in (server, front)]
    found = generate(setup, load._replace(requests=STRACE_REQUESTS,
                                          duration_ms=None), 30000)
    counts = [c.count() if c else None for c in counters]
    good = max(found["ok"], 1)
    why = next((c.why_not for c in counters if c and c.why_not), None)
    return [n / good if n is not None else None for n in counts], why


def reload_gap(setup, server, load, generate, number):
    """Send the reload signal under load. {"reload_gap_ms": longest time
    without a good answer, "reload_failed": ...}, and how it went otherwise
    without a reload."""
    load = load._replace(duration_ms=RELOAD_MS, requests=None)
    before = set(server.pids())
    timer = threading.Timer(0.3, os.kill, (server.process.pid, number))
    timer.start()
    try:
        found = generate(setup, load)
    finally:
        timer.join()
    gone = before - set(server.pids())
    return {"reload_gap_ms": found["longest_gap_us"] / 1000,
            "reload_failed": found["failed"],
            "reload_done": bool(gone)}
