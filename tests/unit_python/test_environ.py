# SPDX-License-Identifier: MIT
"""The environ (wsgi checklist B)."""
import itertools
import os
import random
import warnings
from wsgiref.validate import validator

import driver
from support import DEFAULTS, NGINX, Case, main, pairs


class Environ(Case):
    def test_B1_a_new_dict_each_time(self):
        seen = []

        def app(environ, start_response):
            self.assertIs(type(environ), dict)
            self.assertNotIn("mine", environ)
            self.assertEqual(environ["PATH_INFO"], "/x")
            self.assertEqual(environ["wsgi.version"], (1, 0))
            seen.append(environ)
            environ["mine"] = 1
            environ["PATH_INFO"] = "/changed"
            del environ["wsgi.version"], environ["SERVER_NAME"]
            environ["wsgi.errors"] = None
            start_response("200 OK", [])
            return [b"ok"]

        thread = self.thread(app)
        for _ in range(5):
            self.assertEqual(self.run_on(thread).status, 200)
        self.assertEqual(len({id(e) for e in seen}), 5)
        self.assertTrue(all(e["mine"] == 1 for e in seen))

    def test_B2_latin1(self):
        every = "".join(map(chr, range(1, 256)))
        environ = self.environ_of({"REMOTE_USER": every, "HTTP_X": every})
        self.assertEqual(environ["REMOTE_USER"], every)
        self.assertEqual(environ["HTTP_X"], every)
        for key, value in environ.items():
            if "." not in key:
                self.assertIs(type(value), str, key)
                self.assertTrue(all(ord(c) <= 255 for c in value))

    def test_B3_method(self):
        for method in ("GET", "PROPFIND", "get", "X-STRANGE"):
            environ = self.environ_of({"REQUEST_METHOD": method})
            self.assertEqual(environ["REQUEST_METHOD"], method)

    def test_B3_no_method(self):
        for value in (None, ""):
            called = []
            response = self.run_app(lambda e, s: called.append(1),
                                    params={"REQUEST_METHOD": value})
            self.assertEqual(response.status, 500)
            self.assertTrue(response.complete)
            self.assertEqual(called, [])
            self.assert_logged("REQUEST_METHOD", "fastcgi_params")

    def test_B4_script_name_and_path_info(self):
        for script, info, expected in [
                ("", "/x", ("", "/x")), ("/x", None, ("", "/x")),
                ("/", None, ("", "/")), ("/a", "/b", ("", "/a/b")),
                (None, None, ("", "/uri")), ("/", "/b", ("", "/b"))]:
            environ = self.environ_of({"SCRIPT_NAME": script,
                                       "PATH_INFO": info,
                                       "REQUEST_URI": "/uri"})
            self.assertEqual((environ["SCRIPT_NAME"], environ["PATH_INFO"]),
                             expected)

    def test_B4_mount(self):
        driver.setup(mount="/app")
        for script, info, uri, expected in [
                ("/app/y", None, "/app/y", ("/app", "/y")),
                ("/app", "/y/z", "/app/y/z", ("/app", "/y/z")),
                ("", "/app", "/app", ("/app", "")),
                ("", "/y", "/app/y", ("/app", "/y"))]:
            environ = self.environ_of({"SCRIPT_NAME": script,
                                       "PATH_INFO": info, "REQUEST_URI": uri})
            self.assertEqual((environ["SCRIPT_NAME"], environ["PATH_INFO"]),
                             expected)
        driver.log()
        response = self.run_app(None, params={"PATH_INFO": "/application",
                                              "REQUEST_URI": "/application"})
        self.assertEqual(response.status, 404)
        self.assertTrue(response.complete)
        self.assert_logged("mount", "/application")

    def test_B4_nul_in_the_path(self):
        response = self.run_app(None, params={"PATH_INFO": "/a\0b"})
        self.assertEqual((response.status, response.complete), (400, True))
        self.assert_logged("NUL")

    def test_B4_path_from_uri(self):
        driver.setup(path_from_uri=True)
        environ = self.environ_of({"SCRIPT_NAME": "/index.php",
                                   "PATH_INFO": "",
                                   "REQUEST_URI": "/a%20b?q"})
        self.assertEqual(environ["PATH_INFO"], "/a b")

    def test_B5_decoded_once(self):
        # The front end has decoded PATH_INFO already.
        environ = self.environ_of({"PATH_INFO": b"/caf\xc3\xa9%41\xff"})
        self.assertEqual(environ["PATH_INFO"], "/caf\xc3\xa9%41\xff")
        environ = self.environ_of({"PATH_INFO": None, "SCRIPT_NAME": None,
                                   "REQUEST_URI": "/caf%C3%A9%2541%FF"})
        self.assertEqual(environ["PATH_INFO"], "/caf\xc3\xa9%41\xff")

    def test_B6_query_string(self):
        for query, uri, expected in [
                ("a=%20b&c", "/x?a=%20b&c", "a=%20b&c"), ("", "/x?", ""),
                (None, "/x", ""), (None, "/x?a=%41?b", ""),
                (None, None, ""), (None, "/x?", "")]:
            environ = self.environ_of({"QUERY_STRING": query,
                                       "REQUEST_URI": uri})
            self.assertEqual(environ["QUERY_STRING"], expected)

    def test_B7_content_length_and_type(self):
        for sent, expected in [("0", "0"), ("12", "12"), ("", None),
                               ("-1", None), ("abc", None), (None, None)]:
            environ = self.environ_of({"CONTENT_LENGTH": sent})
            self.assertEqual(environ.get("CONTENT_LENGTH"), expected)
        environ = self.environ_of({"CONTENT_TYPE": "text/x; a=b"})
        self.assertEqual(environ["CONTENT_TYPE"], "text/x; a=b")
        self.assertNotIn("CONTENT_TYPE", self.environ_of({"CONTENT_TYPE": ""}))

    def test_B7_no_body_is_that_long(self):
        response = self.run_app(None, params={"CONTENT_LENGTH": "1" * 40})
        self.assertEqual((response.status, response.complete), (413, True))
        self.assert_logged("CONTENT_LENGTH", "GET /x")

    def test_B7_length_changes_on_one_thread(self):
        seen = []

        def app(environ, start_response):
            seen.append(environ.get("CONTENT_LENGTH"))
            start_response("200 OK", [])
            return []

        thread = self.thread(app)
        for value in ("5", "7", "abc", "9", "", "3", "xyz"):
            self.run_on(thread, params={"CONTENT_LENGTH": value})
        self.assertEqual(seen, ["5", "7", None, "9", None, "3", None])

    def test_B8_no_http_content(self):
        environ = self.environ_of({"HTTP_CONTENT_TYPE": "a",
                                   "HTTP_CONTENT_LENGTH": "3",
                                   "HTTP_TRANSFER_ENCODING": "chunked"})
        for key in environ:
            self.assertFalse(key.startswith("HTTP_"), key)

    def test_B9_server(self):
        environ = self.environ_of(only={"REQUEST_METHOD": "GET"})
        self.assertEqual(environ["SERVER_NAME"], "localhost")
        self.assertEqual(environ["SERVER_PORT"], "80")
        self.assertTrue(environ["SERVER_PROTOCOL"])
        driver.setup(server_name="www.example", server_port="8443")
        environ = self.environ_of({"SERVER_NAME": "", "SERVER_PORT": "",
                                   "SERVER_PROTOCOL": ""})
        self.assertEqual(environ["SERVER_NAME"], "www.example")
        self.assertEqual(environ["SERVER_PORT"], "8443")
        self.assertTrue(environ["SERVER_PROTOCOL"])
        environ = self.environ_of()
        self.assertEqual(environ["SERVER_NAME"], DEFAULTS["SERVER_NAME"])
        self.assertEqual(environ["SERVER_PORT"], DEFAULTS["SERVER_PORT"])

    def test_B10_headers(self):
        environ = self.environ_of({"HTTP_X_ONE": "1", "HTTP_EMPTY": "",
                                   "HTTP_X.DOT": "no", "HTTP_low": "no",
                                   "HTTP_": "no"})
        self.assertEqual(environ["HTTP_X_ONE"], "1")
        self.assertEqual(environ["HTTP_EMPTY"], "")
        self.assertEqual(sorted(k for k in environ if k[:5] == "HTTP_"),
                         ["HTTP_EMPTY", "HTTP_X_ONE"])

    def test_B11_repeated(self):
        base = list(DEFAULTS.items())
        seen = []

        def app(environ, start_response):
            seen.append(environ)
            start_response("200 OK", [])
            return []

        thread = self.thread(app)
        for _ in range(3):
            self.run_on(thread, only=base + [
                ("HTTP_X", "1"), ("HTTP_COOKIE", "a=1"), ("HTTP_X", "2"),
                ("REMOTE_USER", "first"), ("HTTP_COOKIE", "b=2"),
                ("HTTP_X", "3"), ("REMOTE_USER", "last"),
                ("SERVER_NAME", "last.example"), ("MY_VAR", "1"),
                ("MY_VAR", "2"), ("PATH_INFO", "/last")])
            environ = seen.pop()
            self.assertEqual(environ["HTTP_X"], "1, 2, 3")
            self.assertEqual(environ["HTTP_COOKIE"], "a=1; b=2")
            self.assertEqual(environ["REMOTE_USER"], "last")
            self.assertEqual(environ["SERVER_NAME"], "last.example")
            self.assertEqual(environ["MY_VAR"], "2")
            self.assertEqual(environ["PATH_INFO"], "/last")
            self.run_on(thread, only=base + [("HTTP_X", "9")])
            self.assertEqual(seen.pop()["HTTP_X"], "9")

    def test_B11_last_one_empty(self):
        base = list(DEFAULTS.items())
        environ = self.environ_of(only=base + [
            ("CONTENT_TYPE", "text/x"), ("CONTENT_TYPE", ""),
            ("CONTENT_LENGTH", "5"), ("CONTENT_LENGTH", ""),
            ("SERVER_NAME", "")])
        self.assertNotIn("CONTENT_TYPE", environ)
        self.assertNotIn("CONTENT_LENGTH", environ)
        self.assertEqual(environ["SERVER_NAME"], "localhost")

    def test_B11_beyond_the_learned_names(self):
        driver.setup(learned_names=0)
        base = list(DEFAULTS.items())
        for _ in range(2):
            environ = self.environ_of(only=base + [
                ("HTTP_X_UNKNOWN", "1"), ("HTTP_X_UNKNOWN", "2"),
                ("OTHER_UNKNOWN", "1"), ("OTHER_UNKNOWN", "2"),
                ("HTTP_X_UNKNOWN", "3")])
            self.assertEqual(environ["HTTP_X_UNKNOWN"], "1, 2, 3")
            self.assertEqual(environ["OTHER_UNKNOWN"], "2")

    def test_B12_authorization(self):
        environ = self.environ_of({"HTTP_AUTHORIZATION": "Basic eA=="})
        self.assertEqual(environ["HTTP_AUTHORIZATION"], "Basic eA==")

    def test_R065_redirected_authorization(self):
        sent = {"REDIRECT_HTTP_AUTHORIZATION": "Basic one"}
        self.assertNotIn("HTTP_AUTHORIZATION", self.environ_of(sent))
        driver.setup(redirect_authorization=True)
        for value in ("Basic one", "Basic two", "Basic three and longer"):
            environ = self.environ_of({"REDIRECT_HTTP_AUTHORIZATION": value})
            self.assertEqual(environ["HTTP_AUTHORIZATION"], value)
            self.assertEqual(environ["REDIRECT_HTTP_AUTHORIZATION"], value)
        environ = self.environ_of(dict(sent, HTTP_AUTHORIZATION="Bearer x"))
        self.assertEqual(environ["HTTP_AUTHORIZATION"], "Bearer x")
        for nothing in ({}, {"REDIRECT_HTTP_AUTHORIZATION": ""}):
            self.assertNotIn("HTTP_AUTHORIZATION", self.environ_of(nothing))

    def test_B13_proxy(self):
        self.assertNotIn("HTTP_PROXY",
                         self.environ_of({"HTTP_PROXY": "http://evil"}))
        driver.setup(pass_http_proxy=True)
        self.assertEqual(
            self.environ_of({"HTTP_PROXY": "http://p"})["HTTP_PROXY"],
            "http://p")

    def test_B14_B16_B17_wsgi_keys(self):
        for threads, processes in itertools.product((False, True), repeat=2):
            driver.setup(multithread=threads, multiprocess=processes)
            environ = self.environ_of()
            self.assertEqual(environ["wsgi.version"], (1, 0))
            self.assertIs(type(environ["wsgi.version"]), tuple)
            self.assertIs(environ["wsgi.multithread"], threads)
            self.assertIs(environ["wsgi.multiprocess"], processes)
            self.assertIs(environ["wsgi.run_once"], False)
            self.assertIs(environ["wsgi.input_terminated"], True)
            self.assertTrue(callable(environ["wsgi.file_wrapper"]))

    def test_B15_url_scheme(self):
        for params, expected in [
                ({}, "http"), ({"HTTPS": "on"}, "https"), ({"HTTPS": "1"},
                                                           "https"),
                ({"HTTPS": "off"}, "http"), ({"HTTPS": ""}, "http"),
                ({"REQUEST_SCHEME": "https"}, "https"),
                ({"REQUEST_SCHEME": "http"}, "http")]:
            environ = self.environ_of(params)
            self.assertEqual(environ["wsgi.url_scheme"], expected)
        driver.setup(url_scheme="https")
        self.assertEqual(self.environ_of()["wsgi.url_scheme"], "https")
        driver.setup(url_scheme="http")
        self.assertEqual(self.environ_of({"HTTPS": "on"})["wsgi.url_scheme"],
                         "http")

    def test_B15_scheme_changes_on_one_thread(self):
        seen = []

        def app(environ, start_response):
            seen.append(environ["wsgi.url_scheme"])
            start_response("200 OK", [])
            return []

        thread = self.thread(app)
        for scheme in ("http", "https", "http", "https"):
            self.run_on(thread, params={"REQUEST_SCHEME": scheme})
        self.assertEqual(seen, ["http", "https", "http", "https"])

    def test_B18_nothing_is_none(self):
        self.assertNotIn(None, self.environ_of().values())

    def test_B19_own_keys(self):
        environ = self.environ_of()
        known = {"wsgi." + k for k in (
            "version", "input", "errors", "multithread", "multiprocess",
            "run_once", "file_wrapper", "url_scheme", "input_terminated")}
        self.assertEqual({k for k in environ if "." in k}, known)
        self.assertEqual(self.environ_of(role=2)["forebay.role"],
                         "authorizer")
        self.assertEqual(self.environ_of(role=3)["forebay.role"], "filter")

    def test_B19_the_servers_keys_cannot_be_sent(self):
        environ = self.environ_of({"wsgi.url_scheme": "evil",
                                   "wsgi.input": "evil",
                                   "forebay.role": "evil"})
        self.assertNotIn("evil", environ.values())

    def test_B20_everything_else_is_passed(self):
        sent = {"REMOTE_ADDR": "1.2.3.4", "REMOTE_USER": "me",
                "DOCUMENT_ROOT": "/srv", "SSL_CIPHER": "x", "HTTPS": "on",
                "MY_OWN": "value", "lower-case": "x", "EMPTY": ""}
        environ = self.environ_of(sent)
        for key, value in sent.items():
            self.assertEqual(environ[key], value)
        self.assertEqual(environ["REQUEST_URI"], "/x")

    def test_B21_os_environ(self):
        before = dict(os.environ)
        os.environ["FOREBAY_TEST_MARK"] = "1"
        try:
            environ = self.environ_of({"MY_OWN": "value"})
            self.assertNotIn("FOREBAY_TEST_MARK", environ)
        finally:
            del os.environ["FOREBAY_TEST_MARK"]
        self.assertEqual(dict(os.environ), before)

    def test_B22_many_parameters(self):
        sent = {"HTTP_X_%d" % i: "v" * 64 for i in range(1000)}
        for _ in range(2):
            environ = self.environ_of(sent)
            for key, value in sent.items():
                self.assertEqual(environ[key], value)
        environ = self.environ_of({"HTTP_COOKIE": "c" * 70000})
        self.assertEqual(len(environ["HTTP_COOKIE"]), 70000)

    def test_B23_any_bytes(self):
        rng = random.Random(4)
        base = list(DEFAULTS.items())
        for _ in range(300):
            extra = [(bytes(rng.choices(range(256), k=rng.randrange(6))),
                      bytes(rng.choices(range(256), k=rng.randrange(9))))
                     for _ in range(rng.randrange(8))]
            environ = self.environ_of(only=base + extra)
            for name, value in extra:
                name = name.decode("latin-1")
                if not name or "=" in name or "\0" in name:
                    self.assertNotIn(name, environ)
        driver.log()
        self.environ_of(only=base + [("A=B", "x"), ("C\0", "y"), ("", "z")])
        self.assert_logged("A=B", "C\\x00", level="W")

    def test_B23_value_with_nul(self):
        self.assertEqual(self.environ_of({"HTTP_X": "a\0b"})["HTTP_X"],
                         "a\0b")

    def test_B24_validator(self):
        def inner(environ, start_response):
            start_response("200 OK", [("Content-Type", "text/plain")])
            body = environ["wsgi.input"]
            return [body.read(2) + body.readline() + body.read(1),
                    b"".join(body)]

        with warnings.catch_warnings():
            warnings.simplefilter("error")
            app = validator(inner)
            self.assertEqual(self.run_app(app).status, 200)
            response = self.run_app(app, b"some\nbody\nx", params={
                "CONTENT_TYPE": "text/plain", "HTTP_CONTENT_TYPE": "x",
                "HTTP_CONTENT_LENGTH": "10"})
            self.assertEqual(response.body, b"some\nbody\nx")
            response = self.run_app(app, params={"REQUEST_METHOD": "HEAD"})
            self.assertEqual((response.status, response.body), (200, b""))
            response = self.run_app(app, only=NGINX)
            self.assertEqual(response.status, 200)
        self.assert_quiet()

    def test_keys_are_interned(self):
        import sys
        environ = self.environ_of(only=NGINX)
        for key in environ:
            self.assertIs(key, sys.intern(key))

    def test_mixed_requests_on_one_thread(self):
        """Whatever came before: each environ is that of its own request."""
        rng = random.Random(11)
        names = ["HTTP_A", "HTTP_B", "HTTP_COOKIE", "REMOTE_USER", "HTTPS",
                 "CONTENT_TYPE", "CONTENT_LENGTH", "QUERY_STRING", "OWN",
                 "SERVER_NAME", "REQUEST_SCHEME", "SCRIPT_NAME", "PATH_INFO",
                 "DOCUMENT_URI", "HTTP_PROXY"]
        values = ["", "", "1", "22", "/x", "/x/y", "on", "https", "x" * 70]
        results = []

        def app(environ, start_response):
            del environ["wsgi.input"], environ["wsgi.errors"]
            results.append(environ)
            start_response("200 OK", [])
            return []

        shared = self.thread(app)
        for _ in range(3000):
            chosen = [(n, rng.choice(values)) for n in names
                      if rng.random() < 0.6]
            if rng.random() < 0.2:
                rng.shuffle(chosen)
            if rng.random() < 0.1 and chosen:
                chosen.append(rng.choice(chosen))
            params = [("REQUEST_METHOD", "GET"),
                      ("REQUEST_URI", "/x?q")] + chosen
            scgi = rng.random() < 0.5
            self.run_on(shared, only=params, scgi=scgi)
            self.run_on(self.thread(app), only=params)
            self.threads.clear()
            self.assertEqual(results.pop(), results.pop(), params)
        self.assert_quiet()
