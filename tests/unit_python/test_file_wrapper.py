# SPDX-License-Identifier: MIT
"""wsgi.file_wrapper (wsgi checklist K)."""
import gzip
import io
import os
import socket
import tempfile

import driver
from support import Case, main

CONTENT = b"0123456789" * 5000


class Counting:
    """Wraps a file; counts close()."""

    def __init__(self, file):
        self.file = file
        self.closed = 0

    def read(self, n=-1):
        return self.file.read(n)

    def close(self):
        self.closed += 1
        self.file.close()


class FileWrapper(Case):
    def setUp(self):
        super().setUp()
        self.file = tempfile.NamedTemporaryFile()
        self.file.write(CONTENT)
        self.file.flush()
        self.path = self.file.name

    def tearDown(self):
        self.file.close()

    def send(self, file, headers=(), write=(), block=None, method="GET",
             **options):
        def app(environ, start_response):
            writer = start_response("200 OK", list(headers))
            for data in write:
                writer(data)
            wrap = environ["wsgi.file_wrapper"]
            return wrap(file) if block is None else wrap(file, block)

        return self.run_app(app, params={"REQUEST_METHOD": method}, **options)

    def test_K1_an_iterable_of_blocks(self):
        def app(environ, start_response):
            start_response("200 OK", [])
            wrap = environ["wsgi.file_wrapper"]
            self.assertEqual(list(wrap(io.BytesIO(b"abcde"), 2)),
                             [b"ab", b"cd", b"e"])
            self.assertEqual(list(wrap(io.BytesIO(b"x" * 9000))),
                             [b"x" * 8192, b"x" * 808])
            self.assertEqual(list(wrap(io.BytesIO(b"ab"), 0)), [b"ab"])
            self.assertEqual(list(wrap(filelike=io.BytesIO(b"ab"),
                                       blksize=1)), [b"a", b"b"])
            wrapper = wrap(io.BytesIO(b"abc"), 2)
            self.assertIs(iter(wrapper), wrapper)

            class OnlyRead:
                def read(self, n):
                    return b""

            self.assertFalse(hasattr(wrap(OnlyRead()), "close"))
            counting = Counting(io.BytesIO(b""))
            self.assertTrue(hasattr(wrap(counting), "close"))
            wrap(counting).close()
            self.assertEqual(counting.closed, 1)
            for bad in ((), (1, 2, 3), (io.BytesIO(), "x")):
                with self.assertRaises(TypeError):
                    wrap(*bad)
            with self.assertRaises(AttributeError):
                wrap(object())
            return [b"ok"]

        self.assertEqual(self.run_app(app).body, b"ok")

    def test_K1_inside_middleware(self):
        def app(environ, start_response):
            start_response("200 OK", [])
            file = Counting(open(self.path, "rb"))
            wrapper = environ["wsgi.file_wrapper"](file, 1000)
            chunks = [c.upper() for c in wrapper]
            wrapper.close()
            self.assertEqual(file.closed, 1)
            return chunks

        response = self.run_app(app)
        self.assertEqual(response.body, CONTENT)
        self.assertEqual(response.sendfiles, 0)

    def test_K2_nothing_before_it_is_returned(self):
        reads = []

        class File:
            def read(self, n):
                reads.append(n)
                return b""

        def app(environ, start_response):
            start_response("200 OK", [])
            environ["wsgi.file_wrapper"](File())
            self.assertEqual(driver.sent(), 0)
            return [b"other"]

        self.assertEqual(self.run_app(app).body, b"other")
        self.assertEqual(reads, [])

    def test_K3_position(self):
        for buffering in (-1, 0):
            f = open(self.path, "rb", buffering=buffering)
            f.seek(5)
            response = self.send(f)
            self.assertEqual(response.body, CONTENT[5:])
            self.assertEqual(response.sendfiles, 1)
            self.assertTrue(f.closed)
        f = open(self.path, "rb")
        f.read(3)
        self.assertGreater(os.lseek(f.fileno(), 0, os.SEEK_CUR), 3)
        self.assertEqual(self.send(f).body, CONTENT[3:])
        f = open(self.path, "rb")
        f.readline(7)
        f.peek(10)
        self.assertEqual(self.send(f).body, CONTENT[7:])

    def test_K4_other_files(self):
        read_end, write_end = os.pipe()
        os.write(write_end, b"through the pipe")
        os.close(write_end)
        self.assertEqual(self.send(open(read_end, "rb")).body,
                         b"through the pipe")
        read_end, write_end = os.pipe()
        os.write(write_end, b"raw pipe")
        os.close(write_end)
        self.assertEqual(self.send(open(read_end, "rb", buffering=0)).body,
                         b"raw pipe")
        left, right = socket.socketpair()
        right.sendall(b"from a socket")
        right.close()
        with left:
            self.assertEqual(self.send(left.makefile("rb")).body,
                             b"from a socket")
        stream = io.BytesIO(b"in memory")
        stream.seek(3)
        response = self.send(stream)
        self.assertEqual(response.body, b"memory")
        self.assertEqual(response.get("Content-Length"), "6")
        self.assertTrue(stream.closed)
        self.assertEqual(self.send(Counting(io.BytesIO(b"any"))).body, b"any")
        with open("/proc/self/stat", "rb") as f:
            expected = f.read().split(b" ")[0]
        self.assertEqual(self.send(open("/proc/self/stat", "rb"))
                         .body.split(b" ")[0], expected)

    def test_K4_files_for_update(self):
        with tempfile.TemporaryFile() as f:
            f.write(b"abcdef")
            f.seek(2)
            f.write(b"XX")
            f.seek(1)
            response = self.send(f)
            self.assertEqual(response.body, b"bXXef")
            self.assertEqual(response.sendfiles, 1)
        with tempfile.TemporaryFile() as f:
            f.write(b"abc")
            f.seek(0)
            f.read(1)
            f.write(b"Y")
            self.assertEqual(self.send(f).body, b"c")
        with tempfile.NamedTemporaryFile() as f:
            f.write(b"named")
            f.seek(0)
            response = self.send(f)
            self.assertEqual(response.body, b"named")
            self.assertEqual(response.sendfiles, 1)
        with tempfile.SpooledTemporaryFile(max_size=3) as f:
            f.write(b"spooled")
            f.seek(0)
            self.assertEqual(self.send(f).body, b"spooled")

    def test_K5_what_is_no_real_file(self):
        path = self.path + ".gz"
        with gzip.open(path, "wb") as f:
            f.write(b"inside the archive")
        try:
            self.assertEqual(self.send(gzip.open(path)).body,
                             b"inside the archive")
            self.assertEqual(
                self.send(io.BufferedReader(gzip.open(path))).body,
                b"inside the archive")
        finally:
            os.unlink(path)

        class Upper(io.FileIO):
            def read(self, n=-1):
                return super().read(n).replace(b"0", b"X")

        response = self.send(Upper(self.path))
        self.assertEqual(response.body, CONTENT.replace(b"0", b"X"))
        self.assertEqual(response.sendfiles, 0)
        f = open(self.path, "rb")
        chunks = [b"own", b" read", b""]
        f.read = lambda n: chunks.pop(0)
        self.assertEqual(self.send(f).body, b"own read")
        stream = io.BytesIO(b"x")
        chunks = [b"own", b" read", b""]

        class Sub(io.BytesIO):
            def read(self, n=-1):
                return chunks.pop(0)

        self.assertEqual(self.send(Sub(b"x")).body, b"own read")

    def test_K6_content_length(self):
        response = self.send(open(self.path, "rb"))
        self.assertEqual(response.get("Content-Length"), str(len(CONTENT)))
        self.assertEqual(response.writes[0:0], [])
        self.assertTrue(response.complete)
        self.assertEqual(response.lasts, 1)
        for make in (lambda: open(self.path, "rb"),
                     lambda: Counting(open(self.path, "rb"))):
            f = make()
            f.read(10)
            response = self.send(f, [("Content-Length", "7")], block=100)
            self.assertEqual(response.body, CONTENT[10:17])
            self.assertTrue(response.complete)
            self.assertTrue(f.closed)
            response = self.send(make(), [("Content-Length", "60000")])
            self.assertEqual(response.body, CONTENT)
            self.assertTrue(response.broken)
            self.assertFalse(response.complete)
            self.assertEqual(response.lasts, 0)
        self.assertIn("fewer than", self.log_text())

    def test_K6_a_range_is_no_surplus(self):
        self.send(open(self.path, "rb"), [("Content-Length", "7")])
        self.assert_quiet()

    def test_K7_write_first(self):
        response = self.send(open(self.path, "rb"), write=[b"head ", b"er "])
        self.assertEqual(response.body, b"head er " + CONTENT)
        self.assertTrue(response.complete)
        self.assertEqual(response.lasts, 1)
        response = self.send(open(self.path, "rb"),
                             [("Content-Length", "10")], write=[b"12345"])
        self.assertEqual(response.body, b"12345" + CONTENT[:5])
        self.assertTrue(response.complete)

    def test_K8_empty(self):
        for make in (lambda: tempfile.TemporaryFile(),
                     lambda: io.BytesIO(), lambda: Counting(io.BytesIO())):
            response = self.send(make())
            self.assertEqual((response.status, response.body), (200, b""))
            self.assertEqual(response.get("Content-Length"), "0")
            self.assertTrue(response.complete)

    def test_K9_head(self):
        for make in (lambda: open(self.path, "rb"),
                     lambda: Counting(open(self.path, "rb")),
                     lambda: io.BytesIO(CONTENT)):
            f = make()
            response = self.send(f, method="HEAD")
            self.assertEqual(response.body, b"")
            self.assertTrue(response.complete)
            self.assertTrue(f.closed)
            self.assertEqual(response.file_bytes, 0)
            response = self.send(make(), [("Content-Length", "9")],
                                 method="HEAD")
            self.assertEqual(response.get("Content-Length"), "9")
            self.assertTrue(response.complete)

    def test_K10_closed_once(self):
        for options in ({}, {"fail_after": 0}, {"fail_after": 2000},
                        {"fail_after": 100}):
            f = Counting(open(self.path, "rb"))
            self.send(f, block=1000, **options)
            self.assertEqual(f.closed, 1, options)
            f = open(self.path, "rb")
            response = self.send(f, **options)
            self.assertTrue(f.closed)
            self.assertEqual(response.peer_gone, bool(options))
        self.log_text()

    def test_K10_closed_already(self):
        f = open(self.path, "rb")
        f.close()
        self.assert_500(self.send(f))
        self.assert_logged("ValueError")

    def test_K11_shrinks_and_grows(self):
        response = self.send(open(self.path, "rb"), resize=len(CONTENT) + 9)
        self.assertEqual(response.body, CONTENT)
        self.assertTrue(response.complete)
        os.truncate(self.path, len(CONTENT))
        response = self.send(open(self.path, "rb"), resize=100)
        self.assertEqual(response.body, CONTENT[:100])
        self.assertTrue(response.broken)
        self.assertFalse(response.complete)
        self.assertEqual(response.lasts, 0)
        self.assert_logged("became shorter", "GET /x", level="E")

    def test_K12_read_returns_something_else(self):
        class File:
            def __init__(self, *results):
                self.results = list(results)
                self.closed = 0

            def read(self, n):
                return self.results.pop(0)

            def close(self):
                self.closed += 1

        for bad in ("text", None, "", bytearray(b"x"), 5):
            f = File(bad)
            self.assert_500(self.send(f))
            self.assert_logged(type(bad).__name__)
            self.assertEqual(f.closed, 1)
            response = self.send(File(b"ok", bad))
            self.assertTrue(response.broken)
            self.log_text()
        self.assert_500(self.send(open(self.path)))
        self.assert_logged("str")

    def test_K13_large(self):
        with tempfile.TemporaryFile() as f:
            f.truncate(3 << 30)
            f.seek((3 << 30) - 1000)
            response = self.send(f)
            self.assertEqual(response.get("Content-Length"), "1000")
            self.assertEqual(response.body, b"\0" * 1000)
        with tempfile.TemporaryFile() as f:
            f.truncate(3 << 30)
            response = self.send(f, keep=False)
            self.assertEqual(response.file_bytes, 3 << 30)
            self.assertEqual(response.body_bytes, 3 << 30)
            self.assertTrue(response.complete)

    def test_not_readable(self):
        with tempfile.NamedTemporaryFile() as named:
            named.write(b"x" * 100)
            named.flush()
            f = io.FileIO(named.name, "r+")
            f.close()
            f = io.FileIO(os.open(named.name, os.O_WRONLY), "w")
            f.seek(0)
            self.assert_500(self.send(f))

    def test_start_response_was_not_called(self):
        f = open(self.path, "rb")

        def app(environ, start_response):
            return environ["wsgi.file_wrapper"](f)

        self.assert_500(self.run_app(app))
        self.assertTrue(f.closed)
        self.assert_500(self.run_app(
            lambda e, s: e["wsgi.file_wrapper"](io.BytesIO(b"x"))))
