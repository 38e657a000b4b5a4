# SPDX-License-Identifier: MIT
"""Calling the application and start_response (wsgi checklist A and E)."""
import contextvars
import functools
import gc
import sys
import weakref

import driver
from support import Case, Closing, hello, main

START = ("200 OK", [("Content-Type", "text/plain")])


class Call(Case):
    def test_A1_two_positional_arguments(self):
        def app(environ, start_response, /):
            start_response(*START)
            return [b"ok"]

        self.assertEqual(self.run_app(app).body, b"ok")
        seen = []

        def spy(*args, **kwargs):
            seen.append((len(args), kwargs))
            return hello(*args)

        self.run_app(spy)
        self.assertEqual(seen, [(2, {})])

    def test_A2_any_callable(self):
        class Instance:
            def __call__(self, environ, start_response):
                return hello(environ, start_response)

            def method(self, environ, start_response):
                return hello(environ, start_response)

        class Class:
            def __init__(self, environ, start_response):
                self.start_response = start_response

            def __iter__(self):
                self.start_response(*START)
                yield b"hello"

        for app in (hello, Instance(), Instance().method, Class,
                    functools.partial(hello), lambda e, s: hello(e, s)):
            response = self.run_app(app)
            self.assertEqual(response.body, b"hello", app)
            self.assertTrue(response.complete)
        self.assert_quiet()

    def test_A3_start_response_in_the_first_iteration(self):
        def app(environ, start_response):
            start_response(*START)
            yield b"a"
            yield b"b"

        response = self.run_app(app)
        self.assertEqual(response.body, b"ab")
        self.assertEqual(response.lasts, 1)

    def test_A4_any_iterable(self):
        class Items:
            def __getitem__(self, i):
                return [b"x", b"y"][i]

        for result, body in [
                ([b"a", b"b"], b"ab"), ((b"a", b"b"), b"ab"),
                (iter([b"a", b"b"]), b"ab"), ((c for c in [b"a"]), b"a"),
                (Items(), b"xy"), ({b"s"}, b"s"), ({b"k": 1}, b"k"),
                ({b"k": 1}.keys(), b"k"), ({1: b"v"}.values(), b"v"),
                (map(bytes.upper, [b"m"]), b"M"), ([], b""), ((), b"")]:

            def app(environ, start_response):
                start_response(*START)
                return result

            response = self.run_app(app)
            self.assertEqual(response.body, body, result)
            self.assertTrue(response.complete, result)
        self.assert_quiet()

    def test_A5_no_other_attribute_of_the_result(self):
        asked = []

        class Result:
            def __getattribute__(self, name):
                asked.append(name)
                return object.__getattribute__(self, name)

            def __iter__(self):
                return iter([b"a", b"b"])

        def app(environ, start_response):
            start_response(*START)
            return Result()

        self.assertEqual(self.run_app(app).body, b"ab")
        self.assertLessEqual(set(asked), {"close"})

    def test_A8_fresh_context(self):
        var = contextvars.ContextVar("var", default="unset")
        seen = []

        def app(environ, start_response):
            seen.append(var.get())
            var.set("set")
            start_response(*START)

            def body():
                seen.append(var.get())
                yield b"a"
                seen.append(var.get())
                var.set("later")

            return body()

        thread = self.thread(app)
        self.run_on(thread)
        self.run_on(thread)
        self.assertEqual(seen, ["unset", "set", "set"] * 2)
        self.assertEqual(var.get(), "unset")

    def test_A8_context_after_failure(self):
        var = contextvars.ContextVar("var", default="unset")

        def app(environ, start_response):
            self.assertEqual(var.get(), "unset")
            var.set("set")
            raise ValueError

        thread = self.thread(app)
        for _ in range(2):
            self.assert_500(self.run_on(thread))
        self.assertNotIn("AssertionError", self.log_text())


class StartResponse(Case):
    def test_E1_arguments(self):
        for call in (lambda s: s("200 OK", []),
                     lambda s: s("200 OK", [], None),
                     lambda s: s("200 OK", [], exc_info=None),
                     lambda s: s(status="200 OK", headers=[]),
                     lambda s: s("200 OK", response_headers=[])):

            def app(environ, start_response):
                call(start_response)
                return [b"ok"]

            self.assertEqual(self.run_app(app).body, b"ok")
        for call in (lambda s: s(), lambda s: s("200 OK"),
                     lambda s: s("200 OK", [], None, 1),
                     lambda s: s("200 OK", [], status="200 OK"),
                     lambda s: s("200 OK", [], nonsense=1)):

            def bad(environ, start_response):
                with self.assertRaises(TypeError):
                    call(start_response)
                start_response("200 OK", [])
                return [b"ok"]

            self.assertEqual(self.run_app(bad).body, b"ok")

    def test_E2_returns_write(self):
        def app(environ, start_response):
            write = start_response(*START)
            self.assertTrue(callable(write))
            self.assertIsNone(write(b"one"))
            return [b"two"]

        response = self.run_app(app)
        self.assertEqual(response.body, b"onetwo")
        self.assertTrue(response.complete)

    def test_E3_sends_nothing(self):
        def app(environ, start_response):
            write = start_response("200 OK", [("X-A", "1"),
                                              ("Content-Length", "0")])
            self.assertEqual(driver.sent(), 0)
            write(b"")
            yield b""
            self.assertEqual(driver.sent(), 0)
            try:
                raise KeyError
            except KeyError:
                start_response("404 Not Found", [("X-B", "2")],
                               sys.exc_info())
            self.assertEqual(driver.sent(), 0)
            yield b""
            yield b"body"
            self.assertGreater(driver.sent(), 0)

        response = self.run_app(app)
        self.assertEqual(response.status_line, "404 Not Found")
        self.assertEqual(response.headers, [("X-B", "2")])
        self.assertEqual(response.body, b"body")
        self.assert_quiet()

    def test_E4_second_call(self):
        def app(environ, start_response):
            start_response(*START)
            with self.assertRaises(AssertionError):
                start_response(*START)
            with self.assertRaises(AssertionError):
                start_response("404 Not Found", [], None)
            return [b"ok"]

        response = self.run_app(app)
        self.assertEqual((response.status, response.body), (200, b"ok"))

        def failed_first(environ, start_response):
            with self.assertRaises(ValueError):
                start_response("nonsense", [])
            with self.assertRaises(AssertionError):
                start_response(*START)
            return [b"ok"]

        self.assert_500(self.run_app(failed_first))
        self.assert_logged("start_response failed")

    def test_E5_exc_info_replaces_everything(self):
        def app(environ, start_response):
            start_response("200 OK", [("X-Old", "1"),
                                      ("Content-Length", "99")])
            try:
                raise ValueError
            except ValueError:
                write = start_response("500 Oops", [("X-New", "2")],
                                       sys.exc_info())
            write(b"w")
            return [b"i"]

        response = self.run_app(app)
        self.assertEqual(response.status_line, "500 Oops")
        self.assertEqual(response.headers, [("X-New", "2")])
        self.assertEqual(response.body, b"wi")

    def test_E5_after_a_failed_call(self):
        def app(environ, start_response):
            try:
                start_response("200 OK", [("bad name", "x")])
            except ValueError:
                start_response("500 Oops", [("X-New", "2")], sys.exc_info())
            return [b"i"]

        response = self.run_app(app)
        self.assertEqual(response.status_line, "500 Oops")
        self.assertEqual(response.get("X-New"), "2")

    def test_E6_E7_exc_info_after_sending(self):
        error = KeyError("mine")
        caught = []

        def inner():
            raise error

        def app(environ, start_response):
            start_response(*START)
            yield b"sent"
            try:
                inner()
            except KeyError:
                try:
                    start_response("500 Oops", [], sys.exc_info())
                except KeyError as e:
                    caught.append(e)
                    names = []
                    tb = e.__traceback__
                    while tb:
                        names.append(tb.tb_frame.f_code.co_name)
                        tb = tb.tb_next
                    self.assertIn("inner", names)
            yield b"more"

        response = self.run_app(app)
        self.assertIs(caught[0], error)
        self.assertEqual(response.body, b"sentmore")
        self.assertEqual(response.status, 200)

    def test_E6_exc_info_without_exception(self):
        def app(environ, start_response):
            start_response(*START)
            yield b"sent"
            with self.assertRaises(RuntimeError):
                start_response("500 Oops", [], (None, None, None))
            with self.assertRaises(ZeroDivisionError):
                start_response("500 Oops", [],
                               (ZeroDivisionError, "text", None))

        response = self.run_app(app)
        self.assertTrue(response.complete, self.log_text())

    def test_E8_exc_info_is_not_kept(self):
        class Local:
            pass

        refs = []

        def fails():
            local = Local()
            refs.append(weakref.ref(local))
            raise ValueError

        def app(environ, start_response):
            gc.disable()
            try:
                start_response(*START)
                try:
                    fails()
                except ValueError:
                    start_response("500 Oops", [], sys.exc_info())
                self.assertIsNone(refs[0]())
            finally:
                gc.enable()
            return [b"ok"]

        self.assertEqual(self.run_app(app).body, b"ok")

    def test_E9_bad_exc_info(self):
        def app(environ, start_response):
            for bad in (1, "x", (), (None,), [None, None, None], True):
                with self.assertRaises(TypeError):
                    start_response("200 OK", [], bad)
            start_response(*START)
            return [b"ok"]

        self.assertEqual(self.run_app(app).body, b"ok")

    def test_E10_after_the_request(self):
        kept = []

        def app(environ, start_response):
            if kept:
                for start, write in kept:
                    with self.assertRaises(RuntimeError):
                        start("404 Not Found", [])
                    with self.assertRaises(RuntimeError):
                        write(b"intruder")
                    with self.assertRaises(RuntimeError):
                        write(b"")
            kept.append((start_response, start_response(*START)))
            return [b"mine"]

        thread = self.thread(app)
        for _ in range(3):
            response = self.run_on(thread)
            self.assertEqual((response.status, response.body), (200, b"mine"))
        with self.assertRaises(RuntimeError):
            kept[-1][0](*START)
        with self.assertRaises(RuntimeError):
            kept[-1][1](b"x")

    def test_E10_the_types_make_nothing(self):
        kept = []

        def app(environ, start_response):
            kept.extend([type(start_response), type(environ["wsgi.input"]),
                         type(start_response(*START))])
            return [b""]

        self.run_app(app)
        for kind in kept:
            try:
                made = kind()
            except TypeError:
                continue
            with self.assertRaises((TypeError, RuntimeError)):
                made(*START)
            with self.assertRaises((AttributeError, ValueError)):
                made.read()

    def test_E11_the_list_is_copied(self):
        def app(environ, start_response):
            headers = [("X-A", "1")]
            start_response("200 OK", headers)
            headers.append(("X-B", "2"))
            headers[0] = ("X-C", "3")
            return [b"ok"]

        self.assertEqual(self.run_app(app).headers,
                         [("X-A", "1"), ("Content-Length", "2")])

    def test_E12_never_called(self):
        def generator():
            yield b""
            yield b"x"

        for result in ([b"x"], [], (), [b""], iter([b"x"]), iter([]),
                       generator(), b"x", Closing([b"x"])):
            response = self.run_app(lambda e, s: result)
            self.assert_500(response)
            self.assert_logged("start_response was not called", "GET /x",
                               "testpool")
            if isinstance(result, Closing):
                self.assertEqual(result.closed, 1)

    def test_reentrant_call_of_an_odd_str(self):
        def app(environ, start_response):
            class Odd(str):
                def __str__(self):
                    start_response("200 OK", [], (None, None, None))
                    return self

            with self.assertRaises(RuntimeError):
                start_response("200 OK", [("X-A", Odd("x"))])
            start_response("200 OK", [("X-A", "1")], (None, None, None))
            return [b"ok"]

        response = self.run_app(app)
        self.assertEqual(response.all("X-A"), ["1"])
