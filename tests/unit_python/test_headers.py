# SPDX-License-Identifier: MIT
"""Checks on status and headers (wsgi checklist F)."""
import driver
from support import Case, main


class Headers(Case):
    def start(self, *args):
        """The exception that start_response(*args) raises, or None, and the
        response of an application that lets it pass."""
        caught = []

        def app(environ, start_response):
            try:
                start_response(*args)
            except Exception as e:
                caught.append(e)
                raise
            return [b"body"]

        response = self.run_app(app)
        return (caught or [None])[0], response

    def refused(self, kind, *args, names=()):
        error, response = self.start(*args)
        self.assertIs(type(error), kind, args)
        for name in names:
            self.assertIn(name, str(error))
        self.assert_500(response)
        self.assertEqual(response.headers,
                         [("Content-Type", "text/plain"),
                          ("Content-Length", str(len(response.body)))])
        self.assert_logged(type(error).__name__, "GET /x", level="E")

    def accepted(self, *args):
        error, response = self.start(*args)
        self.assertIsNone(error, args)
        self.assertEqual(response.body, b"body")
        return response

    def test_F1_status_is_str(self):
        for status in (b"200 OK", 200, None, ["200 OK"], object()):
            self.refused(TypeError, status, [])

    def test_F2_status(self):
        for status in ("", "20", "OK", "2000 OK", "200OK", " 200 OK", "099 x",
                       "200\tOK", "200 O\rK", "200 O\nK", "200 O\0K",
                       "-20 OK", "200 OK\r\nX: y", "200 \x7f", "²00 OK"):
            self.refused(ValueError, status, [])
        for status in ("200 OK", "299 Own", "999 Last", "404 ", "404"):
            self.assertEqual(self.accepted(status, []).status,
                             int(status[:3]))

    def test_F2_without_reason(self):
        response = self.accepted("404", [])
        self.assertEqual(response.status_line, "404 Not Found")
        text = self.log_text()
        for _ in range(3):
            self.accepted("200", [])
        text += self.log_text()
        self.assertLessEqual(text.count("without a reason"), 1)

    def test_F3_1xx(self):
        for status in ("100 Continue", "101 Switching Protocols", "199 x"):
            self.refused(ValueError, status, [])

    def test_F4_headers_are_a_list(self):
        for headers in ((("A", "b"),), iter([("A", "b")]), {"A": "b"}, None,
                        "A: b", {("A", "b")}):
            self.refused(TypeError, "200 OK", headers)

    def test_F5_items(self):
        class Odd(str):
            def __str__(self):
                return "something else"

        class Plain(str):
            pass

        class Safe(str):
            def __str__(self):
                return self

        for item in (["A", "b"], ("A", "b", "c"), ("A",), "Ab", None, 7,
                     ("A", 7), (7, "b"), (b"A", "b"), ("A", b"b"),
                     ("A", None), ("A", Odd("b")), (Odd("A"), "b"),
                     ("A", ["b"])):
            self.refused(TypeError, "200 OK", [item])
        response = self.accepted("200 OK", [(Plain("X-P"), Safe("1"))])
        self.assertEqual(response.get("X-P"), "1")

    def test_F5_broken_str_subclass(self):
        class Broken(str):
            def __str__(self):
                raise KeyError("broken")

        self.refused(KeyError, "200 OK", [("A", Broken("b"))])

    def test_F6_above_latin1(self):
        self.refused(ValueError, "200 \u2713", [])
        self.refused(ValueError, "200 OK", [("X-File", "\u65e5.txt")],
                     names=["X-File"])
        self.refused(ValueError, "200 OK", [("X-\u65e5", "x")],
                     names=["u65e5"])
        self.refused(ValueError, "200 OK", [("X-A", "\ud800")])

    def test_F7_latin1_bytes(self):
        response = self.accepted("200 \xd6K", [("X-A", "\xe4\xff\x80")])
        self.assertIn(b"Status: 200 \xd6K\r\n", response.raw)
        self.assertIn(b"X-A: \xe4\xff\x80\r\n", response.raw)

    def test_F8_control_characters(self):
        for c in [chr(i) for i in range(32) if i != 9] + ["\x7f"]:
            for value in ("a" + c + "b", c, "a" + c, c + "Set-Cookie: x=y"):
                self.refused(ValueError, "200 OK", [("X-Evil", value)],
                             names=["X-Evil"])
        self.assertEqual(self.accepted("200 OK", [("X-A", "a\tb")])
                         .get("X-A"), "a\tb")

    def test_F8_injection_reaches_nothing(self):
        error, response = self.start(
            "302 Found", [("Location", "/\r\nSet-Cookie: evil=1")])
        self.assertNotIn(b"evil", response.raw)

    def test_F9_names(self):
        for name in ("", " A", "A ", "A B", "A:", "A\r", "A\nB", "A\0", "Ä",
                     "A(", "A\x7f", "A\t", "A/B", '"A"'):
            self.refused(ValueError, "200 OK", [(name, "x")])
        response = self.accepted("200 OK", [("!#$%&'*+-.^_`|~09azAZ", "x")])
        self.assertEqual(response.headers[0], ("!#$%&'*+-.^_`|~09azAZ", "x"))

    def test_F10_hop_by_hop(self):
        names = ["Connection", "Keep-Alive", "Proxy-Authenticate",
                 "Proxy-Authorization", "TE", "Trailer", "Transfer-Encoding",
                 "Upgrade", "Proxy-Connection"]
        for name in names:
            self.refused(ValueError, "200 OK", [(name, "x")], names=[name])
            self.refused(ValueError, "200 OK", [(name.lower(), "x")])
        driver.setup(drop_hop_by_hop=True)
        text = ""
        for name in names:
            response = self.accepted("200 OK", [("X-A", "1"), (name, "x"),
                                                ("X-B", "2")])
            self.assertEqual([n for n, _ in response.headers],
                             ["X-A", "X-B", "Content-Length"])
            text += self.log_text()
        self.assertLessEqual(text.count("dropped"), 1)

    def test_F11_content_length(self):
        for value in ("", "-1", "+1", "4.0", "0x4", "4 ", " 4", "abc", "4,4",
                      "9223372036854775808", "99999999999999999999"):
            self.refused(ValueError, "200 OK", [("Content-Length", value)],
                         names=["Content-Length"])
        self.refused(ValueError, "200 OK", [("Content-Length", "4"),
                                            ("content-length", "5")])
        response = self.accepted("200 OK", [("Content-Length", "4"),
                                            ("Content-Length", "4")])
        self.assertEqual(response.all("Content-Length"), ["4"])

    def test_F12_status_header(self):
        for name in ("Status", "status", "STATUS"):
            self.refused(ValueError, "200 OK", [(name, "404 x")])

    def test_F13_size(self):
        driver.setup(max_response_headers=1000)
        self.refused(ValueError, "200 OK", [("X-A", "x" * 1000)],
                     names=["1000", "max_response_headers"])
        self.accepted("200 OK", [("X-A", "x" * 900)])
        self.refused(ValueError, "200 OK", [("X-A", "x" * 50)] * 50)
        driver.setup(max_response_headers=1 << 20)
        response = self.accepted("200 OK", [("Set-Cookie", "c" * 4000)] * 200)
        self.assertEqual(len(response.all("Set-Cookie")), 200)

    def test_F14_order_and_case(self):
        headers = [("Set-Cookie", "a=1"), ("X-lower-UPPER", "x"),
                   ("Set-Cookie", "b=2"), ("set-cookie", "c=3"),
                   ("Set-Cookie", "a=1")]
        response = self.accepted("200 OK", headers)
        self.assertEqual(response.headers[:5], headers)

    def test_F15_the_message_names_the_header(self):
        error, _ = self.start("200 OK", [("X-Good", "1"),
                                         ("X-Evil", "v\n" + "long" * 5000)])
        self.assertIn("X-Evil", str(error))
        self.assertIn("v\\n", str(error))
        self.assertNotIn("\n", str(error))
        self.assertLess(len(str(error)), 1000)
        error, _ = self.start("200 OK", [("X-Good", "1"), ("X-Type", 7)])
        self.assertIn("X-Type", str(error))
        self.assertIn("int", str(error))
        error, _ = self.start("200 OK", [("X-Good", "1"), ["X", "y"]])
        self.assertIn("headers[1]", str(error))

    def test_F16_passed_unchanged(self):
        headers = [("Location", "/a?b=c#d"), ("Content-Type", "x/y; z=ä"),
                   ("X-Sendfile", "/f"), ("X-Accel-Redirect", "/f"),
                   ("Empty", ""), ("Date", "x")]
        response = self.accepted("200 OK", headers)
        self.assertEqual(response.headers[:-1], headers)

    def test_the_list_changes_while_it_is_read(self):
        class Odd(str):
            def __str__(self):
                headers.clear()
                return self

        headers = [("X-A", Odd("1")), ("X-B", "2")]
        response = self.accepted("200 OK", headers)
        self.assertEqual(response.headers[0], ("X-A", "1"))
