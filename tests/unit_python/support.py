# SPDX-License-Identifier: MIT
"""What the tests of python/ share. Runs inside the driver, never as a program."""
import gc
import sys
import unittest

import driver

DEFAULTS = {
    "REQUEST_METHOD": "GET",
    "SCRIPT_NAME": "",
    "PATH_INFO": "/x",
    "QUERY_STRING": "",
    "REQUEST_URI": "/x",
    "SERVER_NAME": "example.org",
    "SERVER_PORT": "8000",
    "SERVER_PROTOCOL": "HTTP/1.1",
}

NGINX = [
    ("QUERY_STRING", ""), ("REQUEST_METHOD", "GET"), ("CONTENT_TYPE", ""),
    ("CONTENT_LENGTH", ""), ("SCRIPT_NAME", "/hello"),
    ("REQUEST_URI", "/hello"), ("DOCUMENT_URI", "/hello"),
    ("DOCUMENT_ROOT", "/usr/share/nginx/html"),
    ("SERVER_PROTOCOL", "HTTP/1.1"), ("REQUEST_SCHEME", "http"),
    ("GATEWAY_INTERFACE", "CGI/1.1"), ("SERVER_SOFTWARE", "nginx/1.22.1"),
    ("REMOTE_ADDR", "127.0.0.1"), ("SERVER_ADDR", "127.0.0.1"),
    ("SERVER_PORT", "8080"), ("SERVER_NAME", "localhost"),
    ("REDIRECT_STATUS", "200"), ("HTTP_HOST", "localhost:8080"),
    ("HTTP_USER_AGENT", "Mozilla/5.0 (X11; Linux x86_64; rv:109.0)"),
    ("HTTP_ACCEPT", "text/html,application/xhtml+xml;q=0.9,*/*;q=0.8"),
    ("HTTP_ACCEPT_LANGUAGE", "en-US,en;q=0.5"),
    ("HTTP_ACCEPT_ENCODING", "gzip, deflate"),
    ("HTTP_COOKIE", "sessionid=abcdefghijklmnopqrstuvwxyz"),
    ("HTTP_CONNECTION", "keep-alive"), ("REMOTE_PORT", "40000"),
]


def to_bytes(text):
    return text if isinstance(text, bytes) else text.encode("latin-1")


def pairs(params):
    items = params.items() if isinstance(params, dict) else params
    return [(to_bytes(k), to_bytes(v)) for k, v in items]


class Response:
    """What run() saw, and the CGI response taken apart."""

    def __init__(self, seen):
        self.__dict__.update(seen)
        head, self.separator, self.body = self.raw.partition(b"\r\n\r\n")
        self.status_line = None
        self.headers = []
        for line in head.split(b"\r\n") if head else []:
            name, _, value = line.partition(b": ")
            if name == b"Status":
                self.status_line = value.decode("latin-1")
            else:
                self.headers.append((name.decode(), value.decode("latin-1")))

    def all(self, name):
        return [v for n, v in self.headers if n.lower() == name.lower()]

    def get(self, name):
        found = self.all(name)
        return found[-1] if found else None


class Case(unittest.TestCase):
    def setUp(self):
        driver.setup()
        driver.log()
        self.threads = []

    def thread(self, app):
        thread = driver.thread(app)
        self.threads.append(thread)
        return thread

    def run_app(self, app, body=None, params=None, only=None, **options):
        """One request on a thread of its own. body: bytes that are ready."""
        return self.run_on(self.thread(app), body, params, only, **options)

    def run_on(self, thread, body=None, params=None, only=None, **options):
        if only is None:
            merged = dict(DEFAULTS)
            if body is not None:
                merged["REQUEST_METHOD"] = "POST"
                merged["CONTENT_LENGTH"] = str(len(body))
            merged.update(params or {})
            only = {k: v for k, v in merged.items() if v is not None}
        return Response(driver.run(thread, pairs(only), body or b"",
                                   **options))

    def environ_of(self, params=None, only=None, **options):
        seen = []

        def app(environ, start_response):
            seen.append(dict(environ))
            start_response("204 No Content", [])
            return []

        response = self.run_app(app, None, params, only, **options)
        self.assertEqual(len(seen), 1, response.raw)
        return seen[0]

    def log_text(self):
        return "\n".join("%s %s" % item for item in driver.log())

    def assert_logged(self, *texts, level=None):
        items = driver.log()
        joined = "\n".join("%s %s" % item for item in items)
        for text in texts:
            self.assertIn(text, joined)
        if level:
            self.assertIn(level, [i[0] for i in items], joined)
        return joined

    def assert_quiet(self):
        self.assertEqual(driver.log(), [])

    def assert_500(self, response):
        self.assertEqual(response.status_line, "500 Internal Server Error")
        self.assertEqual(response.status, 500)
        self.assertTrue(response.complete)
        self.assertFalse(response.broken)
        self.assertTrue(response.failed)
        self.assertEqual(response.lasts, 1)
        self.assertNotIn(b"Traceback", response.raw)
        self.assertEqual(response.get("Content-Length"),
                         str(len(response.body)))


def hello(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"hello"]


class Closing:
    """An iterable that counts close()."""

    def __init__(self, items, error=None):
        self.items = items
        self.closed = 0
        self.asked = 0
        self.error = error

    def __iter__(self):
        for item in self.items:
            self.asked += 1
            if isinstance(item, BaseException):
                raise item
            yield item

    def close(self):
        self.closed += 1
        if self.error:
            raise self.error


def main(module="__main__"):
    """Run the tests of the test file, which the driver has imported under its
    own name."""
    name = sys.argv[0].rpartition("/")[2].rpartition(".")[0]
    module = sys.modules[name]
    program = unittest.main(module=module, argv=[name] + sys.argv[1:],
                            exit=False, verbosity=1)
    gc.collect()
    return 0 if program.result.wasSuccessful() else 1
