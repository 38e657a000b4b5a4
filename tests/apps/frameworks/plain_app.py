# SPDX-License-Identifier: MIT
"""The common small site as plain WSGI under wsgiref.validate. The same pages
exist for each framework, so that one test can ask them all."""

import hashlib
import json
import os
import signal
import threading
from urllib.parse import parse_qs
from wsgiref.validate import validator

TYPE = [("Content-Type", "text/plain; charset=utf-8")]


def read_all(stream, size=1 << 16):
    while True:
        data = stream.read(size)
        if not data:
            return
        yield data


def digest(pieces):
    h, n = hashlib.sha256(), 0
    for piece in pieces:
        h.update(piece)
        n += len(piece)
    return "%d %s" % (n, h.hexdigest())


def hello(environ, start_response):
    start_response("200 OK", TYPE)
    return [b"hello"]


def path(environ, start_response):
    start_response("200 OK", TYPE)
    return [environ["PATH_INFO"][len("/path/"):].encode("latin-1")]


def environ_page(environ, start_response):
    start_response("200 OK", [("Content-Type", "application/json")])
    return [json.dumps({k: v if isinstance(v, (str, bool)) else repr(v)
                        for k, v in environ.items()}).encode()]


def form(environ, start_response):
    n = int(environ.get("CONTENT_LENGTH") or 0)
    fields = parse_qs(environ["wsgi.input"].read(n).decode())
    start_response("200 OK", TYPE)
    return [" ".join("%s=%s" % (k, v[0])
                     for k, v in sorted(fields.items())).encode()]


def body(environ, start_response):
    text = digest(read_all(environ["wsgi.input"]))
    start_response("200 OK", TYPE)
    return [text.encode()]


def stream(environ, start_response):
    start_response("200 OK", TYPE)
    for i in range(int(environ["QUERY_STRING"] or "10")):
        yield b"chunk %d\n" % i


def cookies(environ, start_response):
    start_response("200 OK", TYPE + [("Set-Cookie", "a=1; Path=/"),
                                     ("Set-Cookie", "b=2; Path=/")])
    return [environ.get("HTTP_COOKIE", "").encode("latin-1")]


def redirect(environ, start_response):
    start_response("302 Found", TYPE + [("Location", "/hello")])
    return [b"elsewhere"]


def error(environ, start_response):
    raise LookupError("an error on purpose")


def big(environ, start_response):
    """QUERY_STRING megabytes, made as they are sent."""
    n = int(environ["QUERY_STRING"])
    start_response("200 OK", TYPE + [("Content-Length", str(n << 20))])
    piece = bytes(range(256)) * 4096
    for _ in range(n):
        yield piece


def early(environ, start_response):
    """Answers before it has read anything."""
    start_response("413 Content Too Large", TYPE)
    return [b"too large, and not read"]


def half(environ, start_response):
    """Three chunks, and then an exception or the end of the worker."""
    start_response("200 OK", TYPE)
    yield b"one "
    yield b"two "
    yield b"three "
    if environ["QUERY_STRING"] == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    raise LookupError("half way")


def talk(environ, start_response):
    """200 lines to wsgi.errors between the chunks."""
    start_response("200 OK", TYPE)
    for i in range(200):
        environ["wsgi.errors"].write("talk %d\n" % i)
        yield b"%d\n" % i


def many_cookies(environ, start_response):
    """40 KB of headers."""
    start_response("200 OK", TYPE + [("Set-Cookie", "c%d=%s" % (i, "x" * 990))
                                     for i in range(40)])
    return [b"many"]


def ticks(environ, start_response):
    """A chunk every few milliseconds, for ever; the end is a note."""
    start_response("200 OK", TYPE)
    pause = threading.Event()

    def items():
        try:
            while True:
                yield b"tick " * 100
                pause.wait(0.01)
        finally:
            with open(os.path.join(os.environ["FOREBAY_TEST_NOTES"],
                                   "ticks"), "a") as f:
                f.write("ended\n")
    return items()


def gated(environ, start_response):
    """A chunk, and another one when the file is there."""
    gate = os.path.join(os.environ["FOREBAY_TEST_NOTES"], "gate")
    start_response("200 OK", TYPE)
    pause = threading.Event()
    yield b"first"
    while not os.path.exists(gate):
        pause.wait(0.01)
    yield b"second"


PAGES = {"hello": hello, "path": path, "environ": environ_page, "form": form,
         "body": body, "stream": stream, "cookies": cookies,
         "redirect": redirect, "error": error, "big": big, "early": early,
         "half": half, "talk": talk, "many_cookies": many_cookies,
         "ticks": ticks, "gated": gated}


def site(environ, start_response):
    name = environ["PATH_INFO"].lstrip("/").partition("/")[0]
    page = PAGES.get(name)
    if page is None:
        start_response("404 Not Found", TYPE)
        return [b"no such page"]
    if environ["REQUEST_METHOD"] == "HEAD":
        start_response("200 OK", TYPE)
        return []
    return page(environ, start_response)


application = validator(site)
