# SPDX-License-Identifier: MIT
"""Failures of the application, and the log (wsgi checklist D and J)."""
import os
import sys
import tempfile
import threading
import traceback

import driver
from support import Case, Closing, hello, main


class Failures(Case):
    def failing(self, error, where):
        def raise_it():
            raise error

        def app(environ, start_response):
            if where == "call":
                raise_it()
            start_response("200 OK", [("X-Secret", "1")])
            if where == "after start_response":
                raise_it()
            if where == "iter":
                class Result(Closing):
                    def __iter__(self):
                        raise_it()
                return Result([])
            if where == "first next":
                return Closing([error])
            if where == "empty chunk":
                return Closing([b"", error])
            if where == "after a chunk":
                return Closing([b"sent", error])
            if where == "after write":
                start_response.__class__
                raise AssertionError("not reached")

        return app

    def test_J1_before_anything_was_sent(self):
        for where in ("call", "after start_response", "iter", "first next",
                      "empty chunk"):
            response = self.run_app(self.failing(ValueError("why"), where))
            self.assert_500(response)
            self.assertIsNone(response.get("X-Secret"))
            self.assertNotIn(b"why", response.raw)
            self.assert_logged("ValueError: why", "Traceback", "testpool",
                               "GET /x", level="E")

    def test_J1_head(self):
        response = self.run_app(self.failing(ValueError(), "call"),
                                params={"REQUEST_METHOD": "HEAD"})
        self.assertEqual((response.status, response.body), (500, b""))
        self.assertTrue(response.complete)

    def test_J2_after_something_was_sent(self):
        response = self.run_app(self.failing(ValueError("w"), "after a chunk"))
        self.assertEqual(response.body, b"sent")
        self.assertEqual(response.status, 200)
        self.assertTrue(response.broken)
        self.assertFalse(response.complete)
        self.assertEqual(response.lasts, 0)
        self.assertTrue(response.failed)
        self.assert_logged("ValueError: w")

        def app(environ, start_response):
            start_response("200 OK", [])(b"written")
            raise KeyError("after write")

        response = self.run_app(app)
        self.assertEqual(response.body, b"written")
        self.assertTrue(response.broken)

    def test_J2_after_the_declared_length(self):
        """The client has all of it: nothing to break off."""
        def app(environ, start_response):
            start_response("200 OK", [("Content-Length", "3")])(b"abc")
            raise KeyError("late")

        response = self.run_app(app)
        self.assertTrue(response.complete)
        self.assertTrue(response.failed)
        self.assert_logged("KeyError")

    def test_J3_base_exceptions(self):
        class Own(BaseException):
            pass

        for error in (SystemExit(3), SystemExit(), KeyboardInterrupt(),
                      GeneratorExit(), Own("x")):
            for where in ("call", "first next", "after a chunk"):
                response = self.run_app(self.failing(error, where))
                self.assertEqual(response.complete, where != "after a chunk")
                self.assertTrue(response.failed)
                self.assertFalse(response.exit_worker)
                self.assert_logged(type(error).__name__, "Traceback")
        self.assertEqual(self.run_app(hello).status, 200)

    def test_J3_exit_on_system_exit(self):
        driver.setup(exit_on_system_exit=True)
        for where in ("call", "first next", "after a chunk"):
            response = self.run_app(self.failing(SystemExit(1), where))
            self.assertTrue(response.exit_worker)
        self.assertTrue(self.run_app(
            lambda e, s: s("200 OK", []) and Closing([b"x"], SystemExit(1)))
            .exit_worker)
        response = self.run_app(self.failing(KeyboardInterrupt(), "call"))
        self.assertFalse(response.exit_worker)

    def test_J4_memory_and_recursion(self):
        def recursion(environ, start_response):
            def deeper():
                deeper()
            deeper()

        def memory(environ, start_response):
            start_response("200 OK", [])
            return [bytes(1 << 62)]

        self.assert_500(self.run_app(recursion))
        self.assert_logged("RecursionError")
        self.assert_500(self.run_app(memory))
        self.assert_logged("MemoryError")
        self.assertEqual(self.run_app(hello).status, 200)

    def test_J6_not_iterable(self):
        for bad in (None, 5, object(), 1.5, len, Ellipsis, type):
            response = self.run_app(lambda e, s: s("200 OK", []) and bad)
            self.assert_500(response)
            self.assert_logged(type(bad).__name__)
        for bad in ("str", bytearray(b"x"), memoryview(b"x")):
            self.assert_500(self.run_app(lambda e, s: s("200 OK", []) and bad))
            self.log_text()

    def test_J7_strange_exceptions(self):
        class BrokenStr(Exception):
            def __str__(self):
                raise KeyError("in str")
            __repr__ = __str__

        class BrokenEverything(Exception):
            def __getattribute__(self, name):
                raise KeyError("in getattribute")

        cyclic = ValueError("cycle")
        other = KeyError("other")
        cyclic.__cause__ = other
        other.__cause__ = cyclic
        cyclic.__context__ = other
        lone = ValueError("surrogate \ud800 and emoji \U0001f600")
        for error, text in ((BrokenStr(), "BrokenStr"),
                            (BrokenEverything(), "BrokenEverything"),
                            (cyclic, "cycle"), (lone, "\\ud800")):
            self.assert_500(self.run_app(self.failing(error, "call")))
            self.assert_logged(text, "GET /x", "testpool")

    def test_J7_source_in_another_encoding(self):
        with tempfile.NamedTemporaryFile(suffix=".py") as f:
            f.write(b"# no declaration: \xff\xfe\nraise ValueError('here')\n")
            f.flush()
            code = compile("\nraise ValueError('here')", f.name, "exec")

            def app(environ, start_response):
                exec(code)

            self.assert_500(self.run_app(app))
            self.assert_logged("ValueError: here")

    def test_J7_the_traceback_module_is_broken(self):
        class Broken(traceback.TracebackException):
            def format(self, **options):
                raise KeyError("broken formatter")

        before = traceback.TracebackException
        for broken in (Broken, None, 5):
            traceback.TracebackException = broken
            try:
                response = self.run_app(self.failing(ValueError("v"), "call"))
            finally:
                traceback.TracebackException = before
            self.assert_500(response)
            self.assert_logged("ValueError: v", "test_failures.py",
                               "raise_it")

    def test_J9_no_excepthook(self):
        called = []
        before = sys.excepthook, sys.stderr
        sys.excepthook = lambda *a: called.append(a)
        sys.stderr = None
        try:
            self.assert_500(self.run_app(self.failing(ValueError(), "call")))
        finally:
            sys.excepthook, sys.stderr = before
        self.assertEqual(called, [])

    def test_D5_logged_once_with_everything(self):
        self.run_app(self.failing(ValueError("once"), "call"),
                     params={"REQUEST_URI": "/a?b\n\x1b[31m\xe4",
                             "REQUEST_METHOD": "POST"})
        items = driver.log()
        self.assertEqual(len(items), 1)
        level, text = items[0]
        self.assertEqual(level, "E")
        self.assertIn("pool testpool: POST /a?b\\x0a\\x1b[31m\\xe4: the "
                      "application raised\nTraceback", text)
        self.assertIn("raise_it", text)
        self.assertTrue(text.endswith("ValueError: once"))

    def test_D5_chained(self):
        def app(environ, start_response):
            try:
                raise KeyError("first")
            except KeyError:
                raise ValueError("second")

        self.run_app(app)
        text = self.assert_logged("KeyError: 'first'", "ValueError: second",
                                  "During handling")
        self.assertEqual(text.count("pool testpool"), 1)

    def test_describe(self):
        self.assertEqual(driver.log_exception(KeyError("k")), "KeyError: 'k'")
        self.assertEqual(driver.log_exception(ValueError("a\nb")),
                         "ValueError: a b")
        self.assertEqual(driver.log_exception(ValueError()), "ValueError")


class Errors(Case):
    def captured(self, function):
        """What function(errors) writes to descriptor 2."""
        read_end, write_end = os.pipe()
        saved = os.dup(2)
        chunks = []

        def collect():
            while True:
                chunk = os.read(read_end, 65536)
                if not chunk:
                    return
                chunks.append(chunk)

        reader = threading.Thread(target=collect)
        reader.start()

        def app(environ, start_response):
            start_response("200 OK", [])
            function(environ["wsgi.errors"])
            return [b"ok"]

        os.dup2(write_end, 2)
        os.close(write_end)
        try:
            response = self.run_app(app)
        finally:
            os.dup2(saved, 2)
            os.close(saved)
            reader.join()
            os.close(read_end)
        self.assertEqual(response.body, b"ok", self.log_text())
        return b"".join(chunks)

    def test_D1_methods(self):
        def use(errors):
            self.assertEqual(errors.write("one\n"), 4)
            errors.writelines(["two\n", "three\n"])
            errors.flush()
            print("four", file=errors)

        self.assertEqual(self.captured(use), b"one\ntwo\nthree\nfour\n")

    def test_D2_any_text(self):
        def use(errors):
            errors.write("\xe4 \U0001f600 \ud800 end")

        self.assertEqual(self.captured(use),
                         "\xe4 \U0001f600 \\ud800 end".encode())

    def test_D4_bytes_and_later(self):
        kept = []

        def use(errors):
            kept.append(errors)
            for bad in (b"x", None, 5):
                with self.assertRaises(TypeError):
                    errors.write(bad)

        self.captured(use)
        self.assertEqual(self.captured(lambda e: kept[0].write("later\n")),
                         b"later\n")

    def test_closing_it_closes_nothing(self):
        def use(errors):
            errors.close()
            with errors:
                pass
            self.assertFalse(errors.closed)

        self.captured(use)
        self.assertEqual(self.captured(lambda e: e.write("still\n")),
                         b"still\n")

    def test_R039_a_text_stream(self):
        def use(errors):
            self.assertEqual(errors.fileno(), 2)
            self.assertFalse(errors.isatty())
            self.assertTrue(errors.writable())
            self.assertEqual(errors.encoding, "utf-8")
            self.assertEqual(errors.errors, "backslashreplace")
            self.assertTrue(errors.name)
            errors.buffer.write(memoryview(b"raw\n"))

        self.assertEqual(self.captured(use), b"raw\n")

    def test_D6_standard_streams(self):
        def use(errors):
            print("error \ud800", file=sys.stderr)
            self.assertEqual(sys.stderr.fileno(), 2)
            self.assertEqual(sys.stderr.encoding, "utf-8")
            self.assertEqual(sys.stderr.errors, "backslashreplace")
            self.assertEqual(sys.stdout.fileno(), 1)
            self.assertEqual(sys.stdout.encoding, "utf-8")
            self.assertEqual(sys.stdout.errors, "backslashreplace")

        self.assertEqual(self.captured(use), b"error \\ud800\n")

    def test_R121_lines_of_threads_stay_whole(self):
        """As long as somebody reads the log; a file always takes them."""
        lines = {c: c * 200 for c in "abcdefgh"}

        def app(environ, start_response):
            start_response("200 OK", [])
            for stream in (environ["wsgi.errors"], sys.stderr):
                def work(line):
                    for _ in range(100):
                        print(line, file=stream)

                threads = [threading.Thread(target=work, args=(line,))
                           for line in lines.values()]
                for t in threads:
                    t.start()
                for t in threads:
                    t.join()
            return [b"ok"]

        saved = os.dup(2)
        with tempfile.TemporaryFile() as log:
            os.dup2(log.fileno(), 2)
            try:
                response = self.run_app(app)
            finally:
                os.dup2(saved, 2)
                os.close(saved)
            log.seek(0)
            found = log.read().decode().split("\n")
        self.assertEqual(response.body, b"ok")
        self.assertEqual(found.pop(), "")
        self.assertEqual(len(found), 1600)
        for line in found:
            self.assertEqual(line, lines[line[0]])

    def test_D8_large(self):
        text = "x" * (10 << 20)
        self.assertEqual(self.captured(lambda e: e.write(text + "\n")),
                         text.encode() + b"\n")

    def test_L3_unbuffered(self):
        def use(errors):
            sys.stderr.write("no newline")
            sys.stderr.buffer.write(b"!")
            os.write(2, b"|")
            errors.write("also none")
            os.write(2, b"|")

        self.assertEqual(self.captured(use), b"no newline!|also none|")

    def test_a_line_of_a_megabyte(self):
        def use(errors):
            errors.write("x" * (1 << 20))
            errors.write("y" * 5 + "\n")

        self.assertEqual(self.captured(use), b"x" * (1 << 20) + b"yyyyy\n")
