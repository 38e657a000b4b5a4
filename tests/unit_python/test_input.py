# SPDX-License-Identifier: MIT
"""wsgi.input (wsgi checklist C): the methods of io.BytesIO on the body."""
import errno
import io
import os
import random
import signal
import threading

import driver
from support import DEFAULTS, Case, Response, main, pairs

BODY = b"first line\nsecond\r\n\nlast \x00\x0b\x0c\x85\xff without newline"


class Input(Case):
    def read_with(self, function, body=BODY, ready=None, pieces=None,
                  length=True, **options):
        """Call function(input) in a request with this body; its result. The
        body comes in one ready piece, or as ready and pieces say."""
        result = []

        def app(environ, start_response):
            result.append(function(environ["wsgi.input"]))
            start_response("200 OK", [])
            return [b"ok"]

        params = {"REQUEST_METHOD": "POST",
                  "CONTENT_LENGTH": str(len(body)) if length else None}
        if ready is None and pieces is None:
            ready = body
        self.response = self._run(app, params, ready or b"", pieces or (),
                                  **options)
        if not result:
            self.fail(self.log_text())
        self.assertEqual(self.response.body, b"ok")
        return result[0]

    def _run(self, app, params, ready, pieces, **options):
        merged = dict(DEFAULTS)
        merged.update(params)
        merged = {k: v for k, v in merged.items() if v is not None}
        return Response(driver.run(self.thread(app), pairs(merged), ready,
                                   pieces, **options))

    def ways(self, body):
        """The body in every manner of arrival: (ready, pieces, length)."""
        bytewise = [body[i:i + 1] for i in range(len(body))]
        middle = max(1, len(body) // 2)
        for length in (True, False):
            yield body, (), length
            yield b"", (body,), length
            yield b"", bytewise, length
            yield body[:middle], (body[middle:],), length
            yield body[:1], (body[1:middle], body[middle:]), length

    def compare(self, function, body=BODY):
        """function gives the same as on a BytesIO, however the body comes."""
        expected = function(io.BytesIO(body))
        for ready, pieces, length in self.ways(body):
            pieces = [p for p in pieces if p]
            self.assertEqual(
                self.read_with(function, body, ready, pieces, length),
                expected, (ready, pieces, length))

    def test_C1_C11_as_io(self):
        for function in (
                lambda f: f.read(), lambda f: f.read(5), lambda f: f.readline(),
                lambda f: f.readlines(), lambda f: list(f),
                lambda f: [f.read(3), f.readline(), f.read(2), f.readlines()],
                lambda f: [f.readline(4), f.readline(4), f.readline(),
                           f.read(), f.read()],
                lambda f: [next(f, 0), f.read(1), next(f, 0), list(f), list(f)],
                lambda f: [f.readline() for _ in range(9)],
                lambda f: [f.read(7) for _ in range(12)]):
            self.compare(function)
            self.compare(function, b"")
            self.compare(function, b"\n")
            self.compare(function, b"\n\n")
            self.compare(function, b"x")

    def test_C1_types(self):
        def function(f):
            return [type(f.read(1)), type(f.readline()), type(f.readlines(1)),
                    type(next(iter(f))), type(f.read())]

        self.assertEqual(self.read_with(function, b"a\n" * 9),
                         [bytes, bytes, list, bytes, bytes])

    def test_C2_end(self):
        self.assertEqual(
            self.read_with(lambda f: [f.read(), f.read(), f.read(5),
                                      f.readline(), f.readlines(), list(f)]),
            [BODY, b"", b"", b"", [], []])

    def test_C3_exactly_n(self):
        body = bytes(range(256)) * 100
        pieces = [body[i:i + 777] for i in range(0, len(body), 777)]
        self.assertEqual(
            self.read_with(lambda f: [f.read(10000), f.read(10 ** 9)], body,
                           None, pieces), [body[:10000], body[10000:]])
        self.assertEqual(
            self.read_with(lambda f: [f.read(10000), f.read(10 ** 30)], body,
                           None, pieces, False), [body[:10000], body[10000:]])

    def test_C3_never_past_content_length(self):
        # What follows belongs to nobody; the server may even have it.
        def app(environ, start_response):
            start_response("200 OK", [])
            return [environ["wsgi.input"].read() + b"|" +
                    environ["wsgi.input"].read(5)]

        response = self._run(app, {"CONTENT_LENGTH": "4"}, b"123456789", ())
        self.assertEqual(response.body, b"1234|")
        response = self._run(app, {"CONTENT_LENGTH": "4"}, b"12",
                             (b"34", ("error", errno.EIO)))
        self.assertEqual(response.body, b"1234|")

    def test_C4_C7_zero_and_none(self):
        for function in (
                lambda f: [f.read(0), f.read(-1)],
                lambda f: [f.read(0), f.read(None)],
                lambda f: [f.read(-7)],
                lambda f: [f.readline(0), f.readline(-1), f.readline(None)],
                lambda f: [f.readlines(0)], lambda f: [f.readlines(None)],
                lambda f: [f.readlines(-1)]):
            self.compare(function)

    def test_C6_readline_limits(self):
        for limit in (1, 2, 10, 11, 12, 10 ** 9, 10 ** 30):
            self.assertEqual(
                self.read_with(lambda f: [f.readline(limit)
                                          for _ in range(20)]),
                [*map(io.BytesIO(BODY).readline, [min(limit, 999)] * 20)])

    def test_C8_only_newline(self):
        body = b"a\rb\x0bc\x0cd\x85e\x00f\x1cg\nh"
        self.compare(lambda f: f.readlines(), body)

    def test_C9_hint(self):
        body = b"12345\n" * 50
        for hint in (1, 5, 6, 7, 12, 13, 299, 300, 301, 10 ** 9):
            self.compare(lambda f: [f.readlines(hint), f.read(3),
                                    f.readlines(hint), f.read()], body)

    def test_C10_iter(self):
        def function(f):
            self.assertIs(iter(f), f)
            lines = list(f)
            for _ in range(3):
                with self.assertRaises(StopIteration):
                    next(f)
            return lines

        self.assertEqual(self.read_with(function),
                         io.BytesIO(BODY).readlines())

    def test_C12_no_body(self):
        for length in ("0", "", None):
            response = self._run(
                lambda e, s: s("200 OK", []) and [
                    e["wsgi.input"].read() + e["wsgi.input"].readline() +
                    e["wsgi.input"].read(9)],
                {"CONTENT_LENGTH": length}, b"", ())
            self.assertEqual((response.status, response.body), (200, b""))

    def test_C13_large(self):
        body = os.urandom(10 * 1024 * 1024)
        pieces = [body[i:i + 65536] for i in range(0, len(body), 65536)]
        self.assertTrue(self.read_with(lambda f: f.read() == body, body, None,
                                       pieces))
        self.assertTrue(self.read_with(lambda f: f.read() == body, body, None,
                                       pieces, False))
        line = b"x" * (1 << 20)
        self.assertTrue(self.read_with(lambda f: f.readline() == line, line,
                                       None, [line]))
        lines = b"".join(b"line %d\n" % i for i in range(100000))
        self.assertEqual(
            self.read_with(lambda f: sum(1 for _ in f), lines, None,
                           [lines[:300000], lines[300000:]]), 100000)

    def test_C13_one_allocation(self):
        """read() of a known length goes straight into its object."""
        body = b"z" * 1000000
        self.read_with(lambda f: f.read(), body, None, [body])
        self.assertEqual(self.response.reads, 1)
        self.read_with(lambda f: f.read(), body)
        self.assertEqual(self.response.reads, 0)

    def test_C14_unread(self):
        for n in (0, 1, 5):
            self.read_with(lambda f: f.read(n), BODY, BODY[:7], [BODY[7:]])
            self.assertTrue(self.response.complete)

    def test_C15_after_output(self):
        def app(environ, start_response):
            start_response("200 OK", [])
            yield b"out "
            self.assertGreater(driver.sent(), 0)
            yield environ["wsgi.input"].read(3)
            yield environ["wsgi.input"].read()

        response = self._run(app, {"CONTENT_LENGTH": "6"}, b"abc", (b"def",))
        self.assertEqual(response.body, b"out abcdef")

    def test_C16_without_content_length(self):
        def function(f):
            return f.read()

        body = b"chunk" * 100000
        self.assertEqual(self.read_with(function, body, b"", [body], False),
                         body)

    def expect_error(self, kind, code, error, length="100", ready=b"12345",
                     functions=None):
        for function in functions or (
                lambda f: f.read(), lambda f: f.read(50),
                lambda f: f.readline(), lambda f: f.readlines(),
                lambda f: list(f), lambda f: [f.read(5), f.read(5)]):
            caught = []

            def app(environ, start_response):
                try:
                    function(environ["wsgi.input"])
                except OSError as e:
                    caught.append(e)
                for _ in range(2):
                    with self.assertRaises(kind):
                        environ["wsgi.input"].read(1)
                start_response("200 OK", [])
                return [b"caught"]

            response = self._run(app, {"CONTENT_LENGTH": length}, ready, error)
            self.assertEqual(response.body, b"caught", self.log_text())
            self.assertIs(type(caught[0]), kind)
            self.assertEqual(caught[0].errno, code)
            self.assertTrue(str(caught[0]))

    def test_C17_cut_short(self):
        self.expect_error(ConnectionResetError, errno.ECONNRESET,
                          [("error", errno.ECONNRESET)])
        self.expect_error(ConnectionResetError, errno.ECONNRESET, [])
        self.expect_error(ConnectionResetError, errno.ECONNRESET, [b"more"])
        self.expect_error(ConnectionResetError, errno.ECONNRESET,
                          [("error", errno.ECONNRESET)], None)

    def test_C18_deadline(self):
        self.expect_error(TimeoutError, errno.ETIMEDOUT,
                          [("error", errno.ETIMEDOUT)])

    def test_too_large(self):
        self.expect_error(OSError, errno.EFBIG, [("error", errno.EFBIG)],
                          None)

    def uncaught(self, number, **options):
        def app(environ, start_response):
            start_response("200 OK", [])
            return [environ["wsgi.input"].read()]

        return self._run(app, {"CONTENT_LENGTH": "100"}, b"12345",
                         [("error", number)], **options)

    def test_C18_uncaught_is_408(self):
        response = self.uncaught(errno.ETIMEDOUT)
        self.assertEqual(response.status_line, "408 Request Timeout")
        self.assertTrue(response.complete)
        self.assertFalse(response.failed)
        text = self.log_text()
        self.assertIn("body_timeout", text)
        self.assertNotIn("Traceback", text)

    def test_uncaught_too_large_is_413(self):
        response = self.uncaught(errno.EFBIG)
        self.assertEqual(response.status, 413)
        self.assertNotIn("Traceback", self.log_text())

    def test_I8_uncaught_reset(self):
        response = self.uncaught(errno.ECONNRESET, connected_calls=0)
        self.assertEqual(response.raw, b"")
        self.assertTrue(response.peer_gone)
        self.assertFalse(response.failed)
        items = driver.log()
        self.assertEqual([i[0] for i in items], ["D"])
        # The front end ended the body early, but it is there.
        response = self.uncaught(errno.ECONNRESET)
        self.assertEqual(response.status, 400)
        self.assertTrue(response.complete)

    def test_uncaught_wrapped(self):
        """Frameworks raise their own exception from ours."""
        def app(environ, start_response):
            try:
                environ["wsgi.input"].read()
            except OSError as e:
                raise RuntimeError("upload failed") from e

        response = self._run(app, {"CONTENT_LENGTH": "9"}, b"",
                             [("error", errno.ETIMEDOUT)])
        self.assertEqual(response.status, 408)
        self.assertNotIn("Traceback", self.log_text())

    def test_uncaught_other_error_in_the_handler(self):
        def app(environ, start_response):
            try:
                environ["wsgi.input"].read()
            except OSError:
                undefined_name

        response = self._run(app, {"CONTENT_LENGTH": "9"}, b"",
                             [("error", errno.ETIMEDOUT)])
        self.assert_500(response)
        self.assert_logged("NameError")

    def test_C19_after_the_request(self):
        kept = []

        def app(environ, start_response):
            f = environ["wsgi.input"]
            for old in kept:
                for use in (lambda: old.read(), lambda: old.read(0),
                            lambda: old.readline(), lambda: old.readlines(),
                            lambda: next(old), lambda: iter(old)):
                    with self.assertRaises(ValueError):
                        use()
                self.assertIsNone(old.close())
            kept.append(f)
            start_response("200 OK", [])
            return [f.read(3)]

        thread = self.thread(app)
        for i in range(3):
            response = self.run_on(thread, b"body%d" % i)
            self.assertEqual(response.body, b"bod", self.log_text())
        self.assertEqual(len(set(map(id, kept))), 3)
        with self.assertRaises(ValueError):
            kept[0].read()

    def test_C20_from_another_thread(self):
        read_end, write_end = os.pipe()
        result = []

        def app(environ, start_response):
            f = environ["wsgi.input"]

            def reader():
                result.append(f.read())

            def writer():
                # Runs only if read() has given up the GIL.
                os.write(write_end, b"from the pipe")
                os.close(write_end)

            threads = [threading.Thread(target=reader),
                       threading.Thread(target=writer)]
            for t in threads:
                t.start()
            for t in threads:
                t.join()
            start_response("200 OK", [])
            return result

        response = self._run(app, {"CONTENT_LENGTH": "13"}, b"",
                             [("fd", read_end)])
        os.close(read_end)
        self.assertEqual(response.body, b"from the pipe")

    def test_C20_one_reader_at_a_time(self):
        lines = [b"%05d\n" % i for i in range(2000)]
        body = b"".join(lines)
        got = []

        def app(environ, start_response):
            f = environ["wsgi.input"]

            def reader():
                for line in f:
                    got.append(line)

            threads = [threading.Thread(target=reader) for _ in range(4)]
            for t in threads:
                t.start()
            for t in threads:
                t.join()
            start_response("200 OK", [])
            return [b"done"]

        pieces = [body[i:i + 7] for i in range(0, len(body), 7)]
        response = self._run(app, {"CONTENT_LENGTH": str(len(body))}, b"",
                             pieces)
        self.assertEqual(response.body, b"done", self.log_text())
        self.assertEqual(sorted(got), lines)

    def test_C20_reader_when_the_request_ends(self):
        """The end waits for a read of another thread; then it is cut off."""
        read_end, write_end = os.pipe()
        reading = threading.Event()
        results = []

        def app(environ, start_response):
            f = environ["wsgi.input"]

            def reader():
                reading.set()
                results.append(f.read(4))
                try:
                    results.append(f.read(4))
                except ValueError:
                    results.append("cut")

            def second():
                reading.wait()
                try:
                    results.append(f.readline())
                except ValueError:
                    results.append("cut")

            def writer():
                reading.wait()
                os.write(write_end, b"1234")

            self.helpers = [threading.Thread(target=t)
                            for t in (reader, second, writer)]
            for t in self.helpers:
                t.start()
            reading.wait()
            start_response("200 OK", [])
            return [b"early"]

        response = self._run(app, {"CONTENT_LENGTH": "4"}, b"",
                             [("fd", read_end)])
        self.assertEqual(response.body, b"early")
        for t in self.helpers:
            t.join()
        os.close(read_end)
        os.close(write_end)
        self.assertEqual(len(results), 3, results)
        for item in results:
            self.assertIn(item, (b"1234", b"", "cut"))

    def test_C21_not_a_file(self):
        def function(f):
            return [hasattr(f, n) for n in ("readinto", "seek", "tell",
                                            "fileno", "write")]

        self.assertEqual(self.read_with(function), [False] * 5)

    def test_C22_close(self):
        self.assertEqual(
            self.read_with(lambda f: [f.close(), f.read(5), f.close(),
                                      f.read(1)]),
            [None, BODY[:5], None, BODY[5:6]])

    def test_C23_arguments(self):
        def function(f):
            for bad in ("1", 1.5, b"1", [], object()):
                for method in (f.read, f.readline, f.readlines):
                    with self.assertRaises(TypeError):
                        method(bad)
            for method in (f.read, f.readline, f.readlines):
                with self.assertRaises(TypeError):
                    method(1, 2)
                with self.assertRaises(TypeError):
                    method(nonsense=1)
            with self.assertRaises(TypeError):
                f.read(1, size=1)
            return [f.read(size=2), f.readline(size=3), f.readlines(hint=1),
                    f.read(True)]

        expected = io.BytesIO(BODY)
        self.assertEqual(
            self.read_with(function),
            [expected.read(2), expected.readline(3), expected.readlines(1),
             expected.read(1)])

    def test_signal_handler_runs(self):
        seen = []
        before = signal.signal(signal.SIGUSR1, lambda *a: seen.append(1))
        try:
            body = self.read_with(
                lambda f: f.read(), b"abcdef", b"",
                [b"abc", ("signal", signal.SIGUSR1), b"def"])
        finally:
            signal.signal(signal.SIGUSR1, before)
        self.assertEqual(body, b"abcdef")
        self.assertEqual(seen, [1])

    def test_signal_handler_raises(self):
        """What was read before stays readable."""
        class Stop(Exception):
            pass

        def handler(*args):
            raise Stop

        before = signal.signal(signal.SIGUSR1, handler)
        try:
            for length in (True, False):
                for first in ("read", "readline"):

                    def function(f):
                        with self.assertRaises(Stop):
                            getattr(f, first)()
                        return f.read(2) + b"|" + f.readline() + f.read()

                    self.assertEqual(
                        self.read_with(
                            function, b"abcdefgh\nij", b"",
                            [b"abc", ("signal", signal.SIGUSR1), b"def",
                             b"gh\nij"], length), b"ab|cdefgh\nij")
        finally:
            signal.signal(signal.SIGUSR1, before)

    def test_signal_handler_reads(self):
        errors = []
        holder = []

        def handler(*args):
            try:
                holder[0].read()
            except RuntimeError as e:
                errors.append(e)

        def function(f):
            holder.append(f)
            return f.read()

        before = signal.signal(signal.SIGUSR1, handler)
        try:
            self.assertEqual(
                self.read_with(function, b"abcdef", b"",
                               [b"abc", ("signal", signal.SIGUSR1), b"def"]),
                b"abcdef")
        finally:
            signal.signal(signal.SIGUSR1, before)
        self.assertEqual(len(errors), 1)

    def test_random_use_is_as_io(self):
        rng = random.Random(5)
        for _ in range(300):
            body = bytes(rng.choices(b"ab\n", k=rng.randrange(60)))
            steps = [(rng.choice(["read", "readline", "readlines"]),
                      rng.choice([-1, None, 0, 1, 2, 3, 5, 8, 50]))
                     for _ in range(rng.randrange(1, 8))]

            def function(f):
                return [getattr(f, name)(size) for name, size in steps]

            cuts = sorted(rng.choices(range(len(body) + 1), k=4))
            parts = [body[i:j] for i, j in zip([0] + cuts,
                                               cuts + [len(body)])]
            self.assertEqual(
                self.read_with(function, body, parts[0],
                               [p for p in parts[1:] if p],
                               rng.random() < 0.5),
                function(io.BytesIO(body)), (body, steps))

    def test_authorizer_has_no_body(self):
        def app(environ, start_response):
            start_response("200 OK", [])
            return [environ["wsgi.input"].read()]

        response = self._run(app, {"CONTENT_LENGTH": "5"}, b"", (), role=2)
        self.assertEqual((response.status, response.body), (200, b""))
