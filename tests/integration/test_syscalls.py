# SPDX-License-Identifier: MIT
"""The number of system calls of a request, counted by strace: what the design
promises for a new and for a kept connection, and not one more."""

import hashlib
import os
import re
import shutil
import signal
import subprocess

import pytest

from conftest import Shape
from lib import fcgi
from lib import server as srv
from lib.wait import holds_for, wait_for

CHECKLIST = os.path.join(srv.APPS, "checklist")
REQUESTS = 200
SLACK = 12      # for the whole run: set-up, timers, the last event

pytestmark = [
    pytest.mark.skipif(shutil.which("strace") is None, reason="no strace"),
    pytest.mark.skipif(bool(srv.sanitized()),
                       reason="a sanitizer makes calls of its own")]


class Strace:
    """strace -f of one worker, between enter and exit."""

    def __init__(self, pid, path):
        self.path = path
        self.process = subprocess.Popen(
            ["strace", "-f", "-qq", "-o", path, "-p", str(pid)],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE)
        self.pid = pid

    def wait_attached(self):
        def attached():
            if self.process.poll() is not None:
                text = self.process.stderr.read().decode()
                pytest.skip("strace cannot attach: " + text)
            with open("/proc/%d/status" % self.pid) as f:
                m = re.search(r"^TracerPid:\t(\d+)$", f.read(), re.MULTILINE)
            return m and int(m.group(1)) == self.process.pid
        wait_for(attached, "strace is attached")

    def size(self):
        return os.path.getsize(self.path)

    def counts(self):
        """System calls of the executor, which is the main thread. (The
        control thread is counted by test_an_idle_worker_makes_none.)"""
        self.process.send_signal(signal.SIGINT)
        self.process.wait()
        self.process.stderr.close()
        found = {}
        with open(self.path) as f:
            for line in f:
                m = re.match(r"(\d+)\s+(\w+)\(", line)
                if m and int(m.group(1)) == self.pid:
                    found[m.group(2)] = found.get(m.group(2), 0) + 1
        return found


def traced(serve, tmp_path, use, **options):
    shape = Shape("prefork", "epoll")
    server = serve("app:application", chdir=CHECKLIST,
                   **shape.options(**options))
    use(server, 20)
    worker, = server.workers()
    # It is stopped at every call: on a busy machine the manager sees it so.
    server.errors_expected = True
    strace = Strace(worker, str(tmp_path / "strace"))
    try:
        strace.wait_attached()
        use(server, REQUESTS)
    finally:
        counts = strace.counts()
    return counts


READS = ("read", "readv", "recvfrom", "recvmsg")
WRITES = ("write", "writev", "sendto", "sendmsg")


def per_request(counts, names):
    return sum(counts.get(n, 0) for n in names)


def check(counts, budget):
    """budget: (name or names, calls per request)."""
    left = dict(counts)
    for names, each in budget:
        names = (names,) if isinstance(names, str) else names
        made = per_request(counts, names)
        assert made <= each * REQUESTS + SLACK, (names, made, counts)
        assert made >= each * REQUESTS - SLACK or "epoll" in names[0], (
            names, made, counts)
        for n in names:
            left.pop(n, None)
    assert sum(left.values()) <= SLACK, "other calls: %r" % left


HELLO = fcgi.params_for("/", extra={"TEST_CASE": "hello"})


def waiting_connections(server, count, data, answer):
    """Connections whose request is already there when they are accepted: the
    only worker is busy until all of them have been sent."""
    peers = []
    with server.peer() as busy:
        busy.send(fcgi.begin() + fcgi.stream(fcgi.PARAMS, fcgi.pairs(
            fcgi.params_for("/", "POST", body=b"go",
                            extra={"TEST_CASE": "G6"}))))
        busy.until(b"first")
        for _ in range(count):
            peers.append(server.peer())
            peers[-1].send(data)
        busy.send(fcgi.stream(fcgi.STDIN, b"go"))
        busy.until(b"second")
        assert busy.answer().complete
        for peer in peers:
            assert answer(peer).text == "hello"
            peer.close()


def fcgi_connections(server, count):
    waiting_connections(server, count, fcgi.encode(HELLO), fcgi.Peer.answer)


def scgi_connections(server, count):
    waiting_connections(server, count, fcgi.scgi(HELLO),
                        fcgi.Peer.scgi_answer)


def kept_connection(server, count):
    request = fcgi.encode(HELLO, flags=fcgi.KEEP_CONN)
    with server.peer() as peer:
        for _ in range(count):
            peer.send(request)
            assert peer.answer(keep=True).text == "hello"


UPLOAD = bytes(range(256)) * 256
DIGEST = "65536 %s 65536" % hashlib.sha256(UPLOAD).hexdigest()


def kept_upload(size):
    """64 KB in records of size bytes, as front ends cut them."""
    params = fcgi.params_for("/", "POST", body=UPLOAD,
                             extra={"TEST_CASE": "digest"})
    request = fcgi.encode(params, UPLOAD, flags=fcgi.KEEP_CONN, size=size)

    def use(server, count):
        with server.peer() as peer:
            for _ in range(count):
                peer.send(request)
                assert peer.answer(keep=True).text == DIGEST
    return use


@pytest.mark.parametrize("use", [fcgi_connections, scgi_connections])
def test_new_connection(serve, tmp_path, use):
    counts = traced(serve, tmp_path, use)
    check(counts, [(("epoll_wait", "epoll_pwait"), 1),
                   (("accept4", "accept"), 1), (READS, 1), (WRITES, 1),
                   ("close", 1)])


def test_kept_connection(serve, tmp_path):
    counts = traced(serve, tmp_path, kept_connection)
    check(counts, [(("epoll_wait", "epoll_pwait"), 1), (READS, 1),
                   (WRITES, 1)])


@pytest.mark.parametrize("size", [32768, 65528])
def test_kept_upload(serve, tmp_path, size):
    """A read for the head, a look at how much waits behind it, and a read of
    the body where the application wants it, with the end of the stream: the
    answer and END_REQUEST are one write."""
    counts = traced(serve, tmp_path, kept_upload(size), body_buffer=None)
    check(counts, [(("epoll_wait", "epoll_pwait"), 1), (READS, 2),
                   ("ioctl", 1), (WRITES, 1)])


def kept_file(server, count):
    params = fcgi.params_for("/", query="plain", extra={"TEST_CASE": "wrap"})
    request = fcgi.encode(params, flags=fcgi.KEEP_CONN)
    with server.peer() as peer:
        for _ in range(count):
            peer.send(request)
            assert len(peer.answer(keep=True).body) == 256_000


def test_kept_file(serve, tmp_path):
    """No byte of a file comes into the worker: what it reads are requests."""
    counts = traced(serve, tmp_path, kept_file,
                    env={"FOREBAY_TEST_NOTES": str(tmp_path)})
    assert counts.get("sendfile", 0) >= REQUESTS, counts
    assert per_request(counts, ("recvfrom", "recvmsg", "readv", "read")) <= (
        2 * REQUESTS + SLACK), counts


def test_an_idle_worker_makes_none(serve, tmp_path):
    """No thread of it does anything, with connections open, once it has come
    to rest."""
    shape = Shape("prefork", "epoll")
    server = serve("app:application", chdir=CHECKLIST, **shape.options())
    with server.peer() as kept, server.peer() as silent:
        kept.send(fcgi.encode(HELLO, flags=fcgi.KEEP_CONN))
        assert kept.answer(keep=True).text == "hello"
        silent.send(b"\1")
        worker, = server.workers()
        strace = Strace(worker, str(tmp_path / "strace"))
        try:
            strace.wait_attached()

            def rests():
                size = strace.size()
                try:
                    holds_for(lambda: strace.size() == size, 0.5, "")
                except AssertionError:
                    return False
                return True
            wait_for(rests, "no system call in half a second")
        finally:
            strace.counts()
