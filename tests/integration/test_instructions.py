# SPDX-License-Identifier: MIT
"""What a request costs, in instructions of the worker counted by callgrind.
They are the same on every machine and however busy it is, so that a bound on
them can be held; times cannot. Of the work in the kernel, which is most of it,
test_syscalls.py holds the number of calls."""

import os
import re
import shutil
import subprocess

import pytest

from lib import fcgi, proc
from lib import server as srv
from lib.wait import FACTOR, wait_for

WORKLOADS = os.path.join(srv.TOP, "bench", "workloads")
REQUESTS = 200
BODY = b"0123456789abcdef" * 64

# Instructions of one request, a tenth above what was measured with gcc 12 and
# the Python of Debian 12; another one has another interpreter and is not held
# to them.
BOUNDS = {"hello_new": 10100, "hello_kept": 10300, "post_kept": 14600}
PYTHON = (3, 11)


def cache_entry(name):
    with open(os.path.join(srv.build_dir(), "CMakeCache.txt")) as f:
        m = re.search(r"^%s:\w+=(.*)$" % name, f.read(), re.MULTILINE)
    return m.group(1) if m else ""


def tools():
    return all(map(shutil.which, ("valgrind", "callgrind_control")))


pytestmark = [
    pytest.mark.skipif(not tools(), reason="no valgrind"),
    pytest.mark.skipif(bool(srv.sanitized()), reason="a sanitizer's build"),
    pytest.mark.skipif(srv.python_version() != PYTHON,
                       reason="measured with Python %d.%d" % PYTHON),
    pytest.mark.skipif("Rel" not in cache_entry("CMAKE_BUILD_TYPE"),
                       reason="not an optimised build")]


class Counted:
    """A server whose worker is counted by callgrind while it is told to."""

    def __init__(self, app, **options):
        self.dir = srv.temp_dir()
        self.server = srv.start(
            app, wait=False, workers=1, pythonpath=WORKLOADS,
            preload="on", start_timeout="300s", graceful_timeout="60s",
            popen={"graceful": 60},
            prefix=["valgrind", "--tool=callgrind", "--trace-children=yes",
                    "--instr-atstart=no", "--quiet",
                    "--callgrind-out-file=%s/%%p" % self.dir], **options)
        try:
            self.server.wait_ready(300)
            template, = proc.children(self.server.pid)
            self.worker, = proc.children(template)
            self.control("-i", "off")
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
            self.close()
            pytest.skip("callgrind cannot be controlled here (ptrace?)")
        except BaseException:
            self.server.close()
            raise

    def control(self, *words):
        subprocess.run(["callgrind_control", *words, str(self.worker)],
                       check=True, stdout=subprocess.DEVNULL,
                       stderr=subprocess.STDOUT, timeout=60 * FACTOR)

    def dumps(self):
        return sorted(name for name in os.listdir(self.dir)
                      if re.fullmatch(r"%d\.\d+" % self.worker, name))

    def count(self, use):
        """What REQUESTS of them cost: callgrind's own words."""
        use(self.server, 20)
        before = self.dumps()
        self.control("-i", "on")
        use(self.server, REQUESTS)
        self.control("-i", "off")
        self.control("-d")

        def written():
            new = [name for name in self.dumps() if name not in before]
            text = "".join(self.read(name) for name in new)
            return text if re.search(r"^totals: [1-9]", text,
                                     re.MULTILINE) else None
        return wait_for(written, "callgrind has written")

    def read(self, name):
        with open(os.path.join(self.dir, name)) as f:
            return f.read()

    def close(self):
        """How servers end is other tests' business; under valgrind on a busy
        machine it takes longer than those allow."""
        self.server.terminate()
        try:
            self.server.wait_exit(120)
        finally:
            self.server.close()
        shutil.rmtree(self.dir, ignore_errors=True)


@pytest.fixture(scope="module")
def hello():
    counted = Counted("hello")
    yield counted
    counted.close()


@pytest.fixture(scope="module")
def echo():
    counted = Counted("echo")
    yield counted
    counted.close()


@pytest.fixture(scope="module")
def echo_threads():
    counted = Counted("echo", mode="threaded", threads=4)
    yield counted
    counted.close()


def new(request, expected):
    """The request waits when its connection is accepted."""
    def use(server, count):
        for _ in range(count):
            with server.peer() as peer:
                peer.send(request)
                assert peer.answer().body == expected
    return use


def kept(request, expected):
    def use(server, count):
        with server.peer() as peer:
            for _ in range(count):
                peer.send(request)
                assert peer.answer(keep=True).body == expected
    return use


HELLO = fcgi.params_for("/")
POST = fcgi.params_for("/", "POST", body=BODY)
hello_new = new(fcgi.encode(HELLO), b"Hello, world!\n")
hello_kept = kept(fcgi.encode(HELLO, flags=fcgi.KEEP_CONN),
                  b"Hello, world!\n")
post_new = new(fcgi.encode(POST, BODY), BODY)
post_kept = kept(fcgi.encode(POST, BODY, flags=fcgi.KEEP_CONN), BODY)


def instructions(text):
    totals = re.findall(r"^totals: (\d+)", text, re.MULTILINE)
    return sum(map(int, totals)) / REQUESTS


def calls(text, name):
    """How often a function was called for a request. callgrind gives a name
    once, behind its number."""
    number, = {m for m in re.findall(r"^c?fn=(\(\d+\)) %s$" % name, text,
                                     re.MULTILINE)}
    found = re.findall(r"^cfn=%s(?: \S+)?\ncalls=(\d+) "
                       % re.escape(number), text, re.MULTILINE)
    return sum(map(int, found)) / REQUESTS


def check(counted, name, use):
    found = instructions(counted.count(use))
    assert 0 < found <= BOUNDS[name], "%s: %.0f instructions a request" % (
        name, found)


def test_hello_on_a_new_connection(hello):
    check(hello, "hello_new", hello_new)


def test_hello_on_a_kept_connection(hello):
    check(hello, "hello_kept", hello_kept)


def test_a_small_upload_on_a_kept_connection(echo):
    check(echo, "post_kept", post_kept)


@pytest.mark.parametrize("use", [post_new, post_kept],
                         ids=["new", "kept"])
def test_threads_take_the_gil_once_a_request(echo_threads, use):
    """Nothing is read, decoded or written while it is held, and nothing takes
    it twice. (The main thread, which has no requests, may look in once.)"""
    text = echo_threads.count(use)
    assert calls(text, "wsgi_run_nogil") == 1
    for name in ("PyEval_RestoreThread", "PyEval_SaveThread"):
        assert 1 <= calls(text, name) < 1.05, name
