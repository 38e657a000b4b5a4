# SPDX-License-Identifier: MIT
"""Nothing of a request stays behind (wsgi checklist R21, reports R046, R116).

Each kind of request runs FOREBAY_LEAK_COUNT times (1,000; 100,000 to be sure).
With a debug build of Python the number of references is compared, with others
the number of allocated blocks."""
import contextlib
import errno
import gc
import io
import os
import sys
import tempfile

import driver
import forebay
from support import NGINX, Case, Closing, main

COUNT = int(os.environ.get("FOREBAY_LEAK_COUNT", "1000"))
ROUNDS = 5


def references():
    count = getattr(sys, "gettotalrefcount", None) or sys.getallocatedblocks
    return count()


def app(environ, start_response):
    kind = environ["QUERY_STRING"]
    if kind == "raise":
        raise ValueError("x")
    if kind == "no start":
        return [b"x"]
    if kind == "bad header":
        start_response("200 OK", [("X", "a\n")])
    if kind == "timeout":
        raise RuntimeError("wrapped") from None
    write = start_response("200 OK", [("Content-Type", "text/plain"),
                                      ("X-Query", kind)])
    if kind == "hello":
        return [b"hello"]
    if kind == "large list":
        return [b"x" * 1000] * 100
    if kind == "generator":
        return (b"x" for _ in range(3))
    if kind == "generator fails":
        return (b"x" if i == 0 else 1 // 0 for i in range(3))
    if kind == "closing":
        return Closing([b"x", b"", b"y"])
    if kind == "write":
        write(b"a")
        write(b"")
        return [b"b"]
    if kind == "exc_info":
        try:
            raise KeyError
        except KeyError:
            start_response("500 Oops", [("X", "y")], sys.exc_info())
        return []
    if kind == "exc_info late":
        write(b"a")
        try:
            raise KeyError
        except KeyError:
            start_response("500 Oops", [("X", "y")], sys.exc_info())
    if kind == "second":
        start_response("200 OK", [])
    if kind == "body":
        f = environ["wsgi.input"]
        return [f.read(3), f.readline(), f.readline(2), *f.readlines(5),
                *f, f.read()]
    if kind == "read":
        return [environ["wsgi.input"].read()]
    if kind == "lines":
        return environ["wsgi.input"]
    if kind == "file":
        return environ["wsgi.file_wrapper"](open(__file__, "rb"))
    if kind == "bytesio":
        return environ["wsgi.file_wrapper"](io.BytesIO(b"x" * 999))
    if kind == "filelike":
        return environ["wsgi.file_wrapper"](Read(io.BytesIO(b"x" * 999)), 100)
    if kind == "kept":
        KEPT[:] = [environ, start_response, write, environ["wsgi.input"]]
        return [b"x"]
    if kind == "after":
        forebay.after_response(len, "x")
        forebay.after_response(sorted, [1], key=str)
        return [b"x"]
    if kind == "wrong type":
        return ["x"]
    if kind == "none":
        return None
    if kind == "bytes":
        return b"bytes"
    if kind == "long":
        return [b"x" * 99999]
    if kind == "errors":
        environ["wsgi.errors"].write("")
        return [b""]
    raise AssertionError(kind)


class Read:
    def __init__(self, file):
        self.read = file.read


KEPT = []


class Leaks(Case):
    def grows(self, run, what=None):
        """Run COUNT requests in rounds. Python's own free lists come and go, a
        leak is there in every round."""
        count = COUNT // ROUNDS
        growth = []
        for _ in range(ROUNDS):
            before = references()
            run(count)
            growth.append(references() - before)
        self.assertLess(min(growth), 10 + count // 50, (what, growth))

    def flat(self, kind, params=None, body=None, **options):
        thread = self.thread(app)
        merged = [(k, v) for k, v in NGINX if k != "QUERY_STRING"]
        merged += [("QUERY_STRING", kind)] + list(params or ())

        def run(count):
            for _ in range(count):
                self.run_on(thread, body, only=merged, **options)
                driver.log()

        run(50)
        KEPT.clear()
        gc.collect()
        gc.disable()
        try:
            self.grows(run, kind)
            KEPT.clear()
            # Nothing has waited for the collector.
            self.assertEqual(gc.collect(), 0, kind)
        finally:
            gc.enable()

    def test_responses(self):
        for kind in ("hello", "large list", "generator", "closing", "write",
                     "exc_info", "file", "bytesio", "filelike", "kept",
                     "after", "bytes", "long", "errors"):
            with self.subTest(kind):
                self.flat(kind)

    def test_failures(self):
        for kind in ("raise", "no start", "bad header", "generator fails",
                     "exc_info late", "second", "wrong type", "none"):
            with self.subTest(kind):
                self.flat(kind)

    def test_bodies(self):
        body = b"some\nlines\nof a body\nand more"
        length = [("CONTENT_LENGTH", str(len(body))),
                  ("REQUEST_METHOD", "POST")]
        for kind in ("body", "read", "lines", "hello"):
            with self.subTest(kind):
                self.flat(kind, length, body)
                self.flat(kind, length, pieces=[body[:7], body[7:9], body[9:]])
                self.flat(kind, [("REQUEST_METHOD", "POST")],
                          pieces=[body[:7], body[7:]])
                self.flat(kind, length, pieces=[
                    body[:7], ("error", errno.ETIMEDOUT)])
                self.flat(kind, length, pieces=[
                    body[:7], ("error", errno.ECONNRESET)])

    def test_clients_that_leave(self):
        for kind in ("hello", "large list", "generator", "write", "file",
                     "filelike"):
            for fail_after in (0, 120):
                with self.subTest(kind, fail_after=fail_after):
                    self.flat(kind, fail_after=fail_after)

    def test_environs(self):
        for params in ([("HTTP_COOKIE", "a"), ("HTTP_COOKIE", "b")],
                       [("A=B", "x")], [("HTTP_X_%d" % i, "y")
                                        for i in range(200)]):
            self.flat("hello", params)
        self.flat("hello", [("HTTP_PROXY", "x")])
        self.flat("hello", [("PATH_INFO", "/\0")])
        self.flat("hello", [("REQUEST_METHOD", "")])

    def test_changing_requests(self):
        thread = self.thread(app)

        def run(count):
            for i in range(count):
                params = [(k, v) for k, v in NGINX if k != "QUERY_STRING"]
                params += [("QUERY_STRING", "hello"),
                           ("HTTP_REFERER", "/%d" % i)]
                for name in range(i % 13):
                    params.append(("HTTP_X_%d" % name, str(i % 7) * (i % 3)))
                self.run_on(thread, only=params)

        run(500)
        gc.collect()
        self.grows(run)

    def test_threads_are_freed(self):
        def run(count):
            for _ in range(count):
                self.run_app(lambda e, s: s("200 OK", []) and [b"x"],
                             only=NGINX)
                self.threads.clear()

        run(10)
        gc.collect()
        self.grows(run)

    def test_memory_of_large_bodies(self):
        """Bounded memory: neither bodies nor files stay."""
        def rss():
            with open("/proc/self/statm") as f:
                return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

        thread = self.thread(lambda e, s: s("200 OK", []) and (
            b"x" * (1 << 20) for _ in range(200)))
        self.run_on(thread, keep=False)
        before = rss()
        for _ in range(3):
            self.run_on(thread, keep=False)
        self.assertLess(rss() - before, 96 << 20)
        with tempfile.TemporaryFile() as f, contextlib.suppress(OSError):
            f.truncate(1 << 30)
            self.run_app(lambda e, s: s("200 OK", []) and
                         e["wsgi.file_wrapper"](f), keep=False)
            self.assertLess(rss() - before, 96 << 20)
