# SPDX-License-Identifier: MIT
"""The module forebay, and hooks (wsgi checklist I9, I10)."""
import importlib
import sys
import threading

import driver
import forebay
from support import Case, Closing, hello, main


class Module(Case):
    def test_outside_a_request(self):
        for call in (lambda: forebay.after_response(print),
                     forebay.client_connected, forebay.deadline):
            with self.assertRaises(RuntimeError):
                call()
        self.assertEqual(forebay.pool(), "testpool")
        self.assertEqual(forebay.worker_id(), 7)
        self.assertTrue(forebay.__version__)

    def test_in_another_thread(self):
        errors = []

        def app(environ, start_response):
            def use():
                try:
                    forebay.after_response(print)
                except RuntimeError as e:
                    errors.append(e)

            thread = threading.Thread(target=use)
            thread.start()
            thread.join()
            return hello(environ, start_response)

        self.run_app(app)
        self.assertEqual(len(errors), 1)

    def test_I9_client_connected(self):
        seen = []

        def app(environ, start_response):
            for _ in range(4):
                seen.append(forebay.client_connected())
            self.assertIsNone(forebay.deadline())
            return hello(environ, start_response)

        self.run_app(app, connected_calls=2)
        self.assertEqual(seen, [True, True, False, False])
        seen.clear()
        self.run_app(app)
        self.assertEqual(seen, [True] * 4)

    def test_I10_after_response(self):
        order = []

        def work(*args, **kwargs):
            order.append((args, kwargs, driver.sent(), driver.over()))

        class Result(Closing):
            def close(self):
                order.append("close")

        for make in (lambda: [b"body"], lambda: Result([b"a", b"b"]),
                     lambda: b"x", lambda: [b"x" * 100000]):

            def app(environ, start_response):
                start_response("200 OK", [])
                self.assertIs(forebay.after_response(work, 1, 2, three=3),
                              work)
                forebay.after_response(work)
                self.assertEqual(order, [])
                return make()

            response = self.run_app(app)
            self.assertTrue(response.complete)
            self.assertTrue(response.had_after_work)
            if order[0] == "close":
                del order[0]
            sent = len(response.raw)
            self.assertEqual(order, [((1, 2), {"three": 3}, sent, 1),
                                     ((), {}, sent, 1)])
            order.clear()
        self.assertFalse(self.run_app(hello).had_after_work)

    def test_I10_whatever_happened(self):
        done = []

        def failing(environ, start_response):
            forebay.after_response(done.append, "failed")
            raise ValueError

        self.assert_500(self.run_app(failing))

        def streaming(environ, start_response):
            forebay.after_response(done.append, "gone")
            start_response("200 OK", [])
            return Closing([b"x" * 100] * 100)

        response = self.run_app(streaming, fail_after=500)
        self.assertTrue(response.peer_gone)
        self.run_app(lambda e, s: forebay.after_response(
            done.append, "small") and hello(e, s), fail_after=0)
        self.assertEqual(done, ["failed", "gone", "small"])
        self.log_text()

    def test_I10_errors_are_logged(self):
        done = []

        def app(environ, start_response):
            def bad():
                raise KeyError("in the work")

            forebay.after_response(bad)
            forebay.after_response(sys.exit, 3)
            forebay.after_response(done.append, 1)
            return hello(environ, start_response)

        response = self.run_app(app)
        self.assertTrue(response.complete)
        self.assertEqual(done, [1])
        self.assert_logged("after_response", "KeyError", "SystemExit",
                           "GET /x")
        self.assertFalse(response.exit_worker)
        driver.setup(exit_on_system_exit=True)
        self.assertTrue(self.run_app(app).exit_worker)

    def test_I10_one_adds_another(self):
        done = []

        def app(environ, start_response):
            def first():
                forebay.after_response(done.append, "second")
                done.append("first")

            forebay.after_response(first)
            return hello(environ, start_response)

        self.run_app(app)
        self.assertEqual(done, ["first", "second"])

    def test_I10_the_request_is_cut_off(self):
        errors = []

        def app(environ, start_response):
            write = start_response("200 OK", [])

            def work():
                for use in (lambda: write(b"x"),
                            lambda: start_response("200 OK", []),
                            lambda: environ["wsgi.input"].read()):
                    try:
                        use()
                    except (RuntimeError, ValueError) as e:
                        errors.append(type(e))

            forebay.after_response(work)
            return [b"ok"]

        response = self.run_app(app)
        self.assertEqual(response.body, b"ok")
        self.assertEqual(errors, [RuntimeError, RuntimeError, ValueError])

    def test_after_response_arguments(self):
        def app(environ, start_response):
            for call in (lambda: forebay.after_response(),
                         lambda: forebay.after_response(5),
                         lambda: forebay.after_response(callable=print)):
                with self.assertRaises(TypeError):
                    call()
            return hello(environ, start_response)

        response = self.run_app(app)
        self.assertEqual(response.body, b"hello")
        self.assertFalse(response.had_after_work)

    def test_imported_again(self):
        before = sys.modules.pop("forebay")
        try:
            again = importlib.import_module("forebay")
            self.assertEqual(again.pool(), "testpool")
            self.assertEqual(again.worker_id(), 7)
        finally:
            sys.modules["forebay"] = before

    def test_hooks(self):
        called = []

        @forebay.worker_start
        def one():
            called.append("one")

        @forebay.worker_start
        def two():
            called.append("two")
            raise ValueError("hook")

        @forebay.worker_start
        def three():
            called.append("three")

        @forebay.worker_exit
        def four():
            called.append("four")
            raise SystemExit

        @forebay.worker_exit
        def five():
            called.append("five")

        self.assertTrue(callable(five))
        for bad in (None, 5):
            with self.assertRaises(TypeError):
                forebay.worker_start(bad)
        self.assertEqual(driver.hooks(True), -1)
        self.assert_logged("worker_start", "ValueError: hook")
        driver.hooks(False)
        self.assert_logged("worker_exit", "SystemExit")
        self.assertEqual([c for c in called if c != "hello"],
                         ["one", "two", "four", "five"])
