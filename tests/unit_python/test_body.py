# SPDX-License-Identifier: MIT
"""Body, Content-Length, close(), clients that leave (wsgi checklist G, H, I)."""
import errno
import threading
import weakref

import driver
from support import Case, Closing, hello, main


def answer(result, headers=(), status="200 OK"):
    def app(environ, start_response):
        start_response(status, list(headers))
        return result() if callable(result) else result

    return app


def written(chunks, result=(), headers=(), status="200 OK"):
    def app(environ, start_response):
        write = start_response(status, list(headers))
        for chunk in chunks:
            write(chunk)
        return list(result)

    return app


class Body(Case):
    def test_G1_write_comes_first(self):
        response = self.run_app(written([b"a", b"b"], [b"c", b"d"]))
        self.assertEqual(response.body, b"abcd")
        self.assertEqual(response.lasts, 1)
        response = self.run_app(written([b"a"], []))
        self.assertEqual(response.body, b"a")
        self.assertTrue(response.complete)

    def test_G2_empty_write(self):
        def app(environ, start_response):
            write = start_response("200 OK", [])
            write(b"")
            self.assertEqual(driver.sent(), 0)
            start_response("201 Created", [], (None, None, None))
            return [b"x"]

        self.assertEqual(self.run_app(app).status, 201)

    def test_G3_write_types(self):
        def app(environ, start_response):
            write = start_response("200 OK", [])
            for bad in ("x", bytearray(b"x"), memoryview(b"x"), None, 1, [b"x"]):
                with self.assertRaises(TypeError):
                    write(bad)
            with self.assertRaises(TypeError):
                write()
            with self.assertRaises(TypeError):
                write(b"a", b"b")
            with self.assertRaises(TypeError):
                write(data=b"a")

            class Bytes(bytes):
                pass

            write(Bytes(b"sub"))
            return [Bytes(b"class")]

        self.assertEqual(self.run_app(app).body, b"subclass")

    def test_G4_chunk_types(self):
        for bad in ("str", bytearray(b"x"), memoryview(b"x"), None, 5, [b"x"]):
            name = type(bad).__name__
            for result in ([bad], [b"ok", bad], (bad,), Closing([bad]),
                           iter([bad]), {1: bad}.values()):
                response = self.run_app(answer(result))
                self.assert_500(response)
                self.assert_logged(name, "TypeError", "GET /x")
                if isinstance(result, Closing):
                    self.assertEqual(result.closed, 1)
            late = Closing([b"sent", bad, b"never"])
            response = self.run_app(answer(late))
            self.assertEqual(response.body, b"sent")
            self.assertTrue(response.broken)
            self.assertFalse(response.complete)
            self.assertEqual(response.lasts, 0)
            self.assertEqual(late.closed, 1)
            self.assert_logged(name, "TypeError")

    def test_G5_empty_chunks(self):
        for chunks in ([b"", b"Test"], [b"a", b"", b"b"], [b""] * 10000,
                       [b""] * 3 + [b"x"] + [b""] * 3):
            for result in (chunks, tuple(chunks), Closing(chunks)):
                response = self.run_app(answer(result))
                self.assertEqual(response.body, b"".join(chunks))
                self.assertTrue(response.complete)

    def test_G5_many_and_large(self):
        for n, size in ((10000, 10), (3, 1 << 20), (1, 100 << 20), (300, 500),
                        (255, 200), (256, 200), (257, 200), (513, 100)):
            for kind in (list, tuple, Closing):
                items = kind([b"x" * size] * n)
                response = self.run_app(answer(items), keep=size * n < 1 << 23)
                self.assertEqual(response.body_bytes, n * size)
                self.assertTrue(response.complete)
                if response.raw:
                    self.assertEqual(response.body, b"x" * size * n)

    def test_G6_each_chunk_leaves_before_the_next(self):
        seen = []

        def app(environ, start_response):
            start_response("200 OK", [])
            for i in range(4):
                seen.append(driver.sent())
                yield b"chunk"
                self.assertGreaterEqual(driver.sent(), seen[-1] + 5)

        response = self.run_app(app)
        self.assertEqual(response.body, b"chunk" * 4, self.log_text())
        self.assertEqual(len(response.writes), 5)
        self.assertEqual(response.writes[-1], b"")

    def test_G6_write_sends_at_once(self):
        def app(environ, start_response):
            write = start_response("200 OK", [])
            write(b"now")
            sent = driver.sent()
            self.assertGreater(sent, 3)
            write(b"again")
            self.assertEqual(driver.sent(), sent + 5)
            return []

        self.assertEqual(self.run_app(app).body, b"nowagain")

    def test_G6_a_list_leaves_in_one_write(self):
        response = self.run_app(answer([b"a"] * 100))
        self.assertEqual(response.write_calls, 1)
        response = self.run_app(answer([b"a" * 1000] * 100))
        self.assertEqual(response.write_calls, 1)

    def test_G7_any_bytes(self):
        body = bytes(range(256)) + b"\r\n\r\n\0\xff"
        for result in ([body], iter([body]), [body] * 500):
            self.assertEqual(self.run_app(answer(result)).body[:len(body)],
                             body)

    def test_G8_bytes_instead_of_a_list(self):
        response = self.run_app(answer(b"text"))
        self.assertEqual(response.body, b"text")
        self.assertEqual(response.get("Content-Length"), "4")
        text = self.log_text()
        self.assertEqual(self.run_app(answer(b"")).body, b"")
        self.run_app(answer(b"x" * 100000))
        self.assertLessEqual((text + self.log_text()).count("returns bytes"),
                             1)

    def test_G9_reason(self):
        response = self.run_app(answer([b""], status="404 Gone fishing"))
        self.assertEqual(response.status_line, "404 Gone fishing")

    def test_G10_no_body(self):
        head = {"REQUEST_METHOD": "HEAD"}
        for status, params in (("200 OK", head), ("204 No Content", None),
                               ("304 Not Modified", None)):
            for make in (lambda: [b"body"], lambda: (b"body", b"more"),
                         lambda: [], lambda: b"body",
                         lambda: Closing([b"", b"body", b"more"]),
                         lambda: Closing([]), lambda: [b"x" * 100000]):
                result = make()
                response = self.run_app(answer(result, status=status),
                                        params=params)
                self.assertEqual(response.body, b"")
                self.assertEqual(response.separator, b"\r\n\r\n")
                self.assertTrue(response.complete)
                self.assertEqual(response.body_bytes, 0)
                self.assertIsNone(response.get("Content-Length"))
                self.assertEqual(response.lasts, 1)
                if isinstance(result, Closing):
                    self.assertEqual(result.closed, 1)
            response = self.run_app(
                written([b"w", b"x"], [b"i"], status=status), params=params)
            self.assertEqual(response.body, b"")
            self.assertTrue(response.complete)
        self.log_text()

    def test_G10_H7_content_length_is_kept(self):
        for status, params, expected in (
                ("200 OK", {"REQUEST_METHOD": "HEAD"}, "1234"),
                ("304 Not Modified", None, "1234"),
                ("204 No Content", None, None)):
            for result in ([], [b"x"], iter([]), iter([b"x" * 5000])):
                response = self.run_app(
                    answer(result, [("Content-Length", "1234")], status),
                    params=params)
                self.assertEqual(response.get("Content-Length"), expected)
                self.assertEqual(response.body, b"")
                self.assertTrue(response.complete)
        self.assert_quiet()

    def test_G11_error_statuses(self):
        for status in ("404 Not Found", "500 Mine", "503 Busy"):
            response = self.run_app(answer([b"own body"], status=status))
            self.assertEqual(response.status_line, status)
            self.assertEqual(response.body, b"own body")
            self.assertFalse(response.failed)

    def test_the_list_changes_while_it_is_sent(self):
        """Another thread of the application empties it meanwhile."""
        for _ in range(20):
            items = [b"x" * 1000 for _ in range(300)]
            stop = threading.Event()

            def vandal():
                while not stop.is_set():
                    items[:] = [b"y" * 1000 for _ in range(300)]

            thread = threading.Thread(target=vandal)
            thread.start()
            try:
                response = self.run_app(answer(items))
            finally:
                stop.set()
                thread.join()
            self.assertEqual(len(response.body), 300000)


class Length(Case):
    def test_H1_added(self):
        for result, length in (([b"four"], "4"), ((b"four",), "4"), ([], "0"),
                               ((), "0"), ([b""], "0"), ([b"a", b"bc"], "3"),
                               ([b"x" * 100000], "100000"), (b"bytes", "5"),
                               (iter([]), "0")):
            response = self.run_app(answer(result))
            self.assertEqual(response.all("Content-Length"), [length], result)

    def test_H1_not_added(self):
        for app in (answer(iter([b"a"])), written([b"a"], [b"b"]),
                    written([b"a"], []), answer(Closing([b"a", b"b"]))):
            response = self.run_app(app)
            self.assertIsNone(response.get("Content-Length"))
            self.assertTrue(response.complete)

    def test_H2_len_of_others(self):
        class Sized(Closing):
            def __init__(self, items, length):
                super().__init__(items)
                self.length = length

            def __len__(self):
                if isinstance(self.length, BaseException):
                    raise self.length
                return self.length

        response = self.run_app(answer(Sized([b"one"], 1)))
        self.assertEqual(response.get("Content-Length"), "3")
        self.assertEqual(response.body, b"one")
        for length in (0, 2, 99, ValueError(), -1):
            sized = Sized([b"a", b"b", b"c"], length)
            response = self.run_app(answer(sized))
            self.assertIsNone(response.get("Content-Length"), length)
            self.assertEqual(response.body, b"abc")
            self.assertEqual(sized.closed, 1)
        response = self.run_app(answer({b"key": b"value"}))
        self.assertEqual(response.body, b"key")
        self.assertIsNone(response.get("Content-Length"))

        class List(list):
            pass

        self.assertEqual(self.run_app(answer(List([b"a"]))).body, b"a")
        self.assertEqual(self.run_app(answer(List([b"a", b"b"]))).body, b"ab")

    def test_H2_one_item_fails(self):
        class One(Closing):
            def __len__(self):
                return 1

        for items in ([KeyError("x")], ["str"]):
            result = One(items)
            self.assert_500(self.run_app(answer(result)))
            self.assertEqual(result.closed, 1)
        result = One([])
        response = self.run_app(answer(result))
        self.assertEqual(response.get("Content-Length"), "0")

    def test_H3_surplus(self):
        headers = [("Content-Length", "3")]
        for result in ([b"abcdef"], [b"ab", b"cd", b"ef"], (b"abcd",),
                       iter([b"ab", b"cd"]), [b"abc", b"d" * 100000],
                       iter([b"abcdef"])):
            response = self.run_app(answer(result, headers))
            self.assertEqual(response.body, b"abc")
            self.assertTrue(response.complete)
            self.assert_logged("Content-Length of 3", "dropped", level="W")

    def test_H4_stops_at_the_length(self):
        result = Closing([b"ab", b"cd", b"never"])
        response = self.run_app(answer(result, [("Content-Length", "4")]))
        self.assertEqual(response.body, b"abcd")
        self.assertEqual((result.asked, result.closed), (2, 1))
        self.assertEqual(len(response.writes), 2)
        self.assertEqual(response.lasts, 1)
        self.assert_quiet()

    def test_H5_write_past_the_length(self):
        errors = []

        def app(environ, start_response):
            write = start_response("200 OK", [("Content-Length", "5")])
            write(b"abc")
            for data in (b"defg", b"h"):
                try:
                    write(data)
                except ValueError as e:
                    errors.append(e)
            return [b"x"]

        response = self.run_app(app)
        self.assertEqual(response.body, b"abcde")
        self.assertEqual(len(errors), 2)
        self.assertTrue(response.complete)
        self.assertEqual(response.lasts, 1)

        def zero(environ, start_response):
            write = start_response("200 OK", [("Content-Length", "0")])
            with self.assertRaises(ValueError):
                write(b"x")
            return []

        response = self.run_app(zero)
        self.assertEqual((response.status, response.body), (200, b""))
        self.assertTrue(response.complete)

    def test_H5_write_reaches_the_length(self):
        result = Closing([b"", b"never"])

        def app(environ, start_response):
            start_response("200 OK", [("Content-Length", "3")])(b"abc")
            return result

        response = self.run_app(app)
        self.assertEqual(response.body, b"abc")
        self.assertTrue(response.complete)
        self.assertEqual(result.closed, 1)

    def test_H6_too_short(self):
        headers = [("Content-Length", "10")]
        for app in (answer([b"abc"], headers), answer(iter([b"abc"]), headers),
                    answer((b"ab", b"c"), headers),
                    written([b"abc"], [], headers),
                    answer(Closing([b"abc"]), headers)):
            response = self.run_app(app)
            self.assertEqual(response.body, b"abc")
            self.assertTrue(response.broken)
            self.assertFalse(response.complete)
            self.assertEqual(response.lasts, 0)
            self.assert_logged("fewer than its Content-Length of 10",
                               "GET /x", level="E")

    def test_H6_nothing_at_all(self):
        for result in ([], [b""], iter([]), iter([b""]), b"", Closing([])):
            response = self.run_app(answer(result, [("Content-Length", "10")]))
            self.assert_500(response)
            self.assert_logged("Content-Length is 10")


class Close(Case):
    def test_I1_exactly_once(self):
        class NoIter:
            closed = 0

            def __iter__(self):
                raise KeyError("iter")

            def close(self):
                self.closed += 1

        cases = [
            (Closing([b"a", b"b"]), {}, True), (Closing([]), {}, True),
            (Closing([KeyError("x")]), {}, True),
            (Closing([b"a", KeyError("x")]), {}, False),
            (NoIter(), {}, True), (Closing(["str"]), {}, True),
            (Closing([b"a", "str"]), {}, False),
            (Closing([b"a"] * 99), {"fail_after": 60}, False),
            (Closing([b"a"] * 99), {"fail_after": 0}, False),
            (Closing([b"a"] * 99), {"fail_after": 60,
                                    "fail_with": errno.ETIMEDOUT}, False),
            (Closing([b""] * 99), {"connected_calls": 5}, False),
        ]
        for result, options, complete in cases:
            response = self.run_app(answer(result), **options)
            self.assertEqual(result.closed, 1, (result, options))
            self.assertEqual(response.complete, complete)
        for headers, params in (([("Content-Length", "1")], None),
                                ([], {"REQUEST_METHOD": "HEAD"})):
            result = Closing([b"a", b"b"])
            self.run_app(answer(result, headers), params=params)
            self.assertEqual(result.closed, 1)

    def test_I1_an_attribute_of_the_instance(self):
        calls = []

        class Result:
            def __iter__(self):
                return iter([b"x", b"y"])

        def app(environ, start_response):
            start_response("200 OK", [])
            result = Result()
            result.close = lambda: calls.append(1)
            return result

        self.run_app(app)
        self.assertEqual(calls, [1])

    def test_I2_close_after_the_last_chunk(self):
        seen = []

        class Result(Closing):
            def close(self):
                seen.append(driver.sent())

        for items in ([b"a", b"b"], [b"one"], [], [KeyError()]):
            response = self.run_app(answer(Result(items)))
            self.assertEqual(seen.pop(), len(response.raw))

    def test_I3_close_raises(self):
        for error in (ValueError("in close"), SystemExit(3),
                      KeyboardInterrupt()):
            result = Closing([b"a", b"b"], error)
            response = self.run_app(answer(result))
            self.assertEqual(response.body, b"ab")
            self.assertTrue(response.complete)
            self.assertTrue(response.failed)
            self.assert_logged("close()", type(error).__name__, "GET /x")

    def test_I3_strange_close(self):
        class Result:
            close = 5

            def __iter__(self):
                return iter([b"x"])

        response = self.run_app(answer(Result()))
        self.assertEqual(response.body, b"x")
        self.assertTrue(response.complete)
        self.assert_logged("close()", "TypeError")

        class Strange:
            def __iter__(self):
                return iter([b"x"])

            def __getattr__(self, name):
                raise KeyError(name)

        response = self.run_app(answer(Strange()))
        self.assertTrue(response.complete)
        self.assert_logged("close()", "KeyError")

    def test_I4_generators_finally(self):
        threads = []

        def app(environ, start_response):
            start_response("200 OK", [])
            try:
                while True:
                    yield b"x" * 100
            finally:
                threads.append(threading.get_ident())

        response = self.run_app(app, fail_after=1000)
        self.assertEqual(threads, [threading.get_ident()])
        self.assertTrue(response.peer_gone)
        self.assertFalse(response.complete)

    def test_I5_I8_client_gone(self):
        result = Closing([b"x" * 100] * 1000)
        response = self.run_app(answer(result), fail_after=1000)
        self.assertTrue(response.peer_gone)
        self.assertFalse(response.failed)
        self.assertLess(result.asked, 12)
        self.assertEqual(result.closed, 1)
        items = driver.log()
        self.assertEqual([i[0] for i in items], ["D"], items)

    def test_I5_empty_chunks_notice_it(self):
        result = Closing([b""] * 1000)
        response = self.run_app(answer(result), connected_calls=10)
        self.assertEqual(result.asked, 11)
        self.assertTrue(response.peer_gone)
        self.assertEqual([i[0] for i in driver.log()], ["D"])

    def test_I6_write_raises(self):
        caught = []

        def app(environ, start_response):
            write = start_response("200 OK", [])
            for _ in range(2):
                try:
                    while True:
                        write(b"x" * 100)
                except OSError as e:
                    caught.append(e)
            return [b"ignored"]

        response = self.run_app(app, fail_after=1000)
        self.assertEqual([type(e) for e in caught], [BrokenPipeError] * 2)
        self.assertEqual(caught[0].errno, errno.EPIPE)
        self.assertTrue(response.peer_gone)
        self.assertFalse(response.failed)
        caught.clear()
        response = self.run_app(app, fail_after=1000,
                                fail_with=errno.ETIMEDOUT)
        self.assertIs(type(caught[0]), TimeoutError)
        self.assertTrue(response.peer_gone)
        self.assert_logged("write_timeout")

    def test_I8_uncaught_write_error(self):
        def app(environ, start_response):
            write = start_response("200 OK", [])
            while True:
                write(b"x" * 100)

        for fail_after in (0, 1000):
            response = self.run_app(app, fail_after=fail_after)
            self.assertTrue(response.peer_gone)
            self.assertFalse(response.failed)
            self.assertEqual(response.lasts, 0)
            items = driver.log()
            self.assertEqual([i[0] for i in items], ["D"], items)

    def test_I8_a_small_response_to_nobody(self):
        response = self.run_app(hello, fail_after=0)
        self.assertTrue(response.peer_gone)
        self.assertFalse(response.complete)
        self.assertEqual(response.body_bytes, 0)
        self.assertEqual([i[0] for i in driver.log()], ["D"])

    def test_write_deadline(self):
        response = self.run_app(answer(Closing([b"x" * 99] * 99)),
                                fail_after=500, fail_with=errno.ETIMEDOUT)
        self.assertTrue(response.peer_gone)
        self.assert_logged("write_timeout", level="I")

    def test_R21_everything_dies_with_the_request(self):
        class Mark:
            pass

        refs = []

        def app(environ, start_response):
            environ["mark"] = mark = Mark()
            refs.append(weakref.ref(mark))
            environ["self"] = start_response
            write = start_response("200 OK", [])
            if environ["PATH_INFO"] == "/fail":
                raise ValueError
            if environ["PATH_INFO"] == "/stream":
                return Closing([b"a", b"b"])
            if environ["PATH_INFO"] == "/broken":
                write(b"x" * 99)
            return [b"x"]

        import gc
        gc.collect()
        gc.disable()
        try:
            for path in ("/", "/fail", "/stream", "/broken"):
                self.run_app(app, params={"PATH_INFO": path}, fail_after=50
                             if path == "/broken" else -1)
                self.assertIsNone(refs.pop()(), path)
            self.log_text()
        finally:
            gc.enable()
