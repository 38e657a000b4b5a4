# SPDX-License-Identifier: MIT
"""The application behind the tests of multiplexing: what it does is the path,
whose request it is the query. It writes down what it has come to in a file of
FOREBAY_TEST_NOTES, and waits for files there."""

import hashlib
import os
import threading
from urllib.parse import unquote

import forebay

NOTES = os.environ["FOREBAY_TEST_NOTES"]
_never = threading.Event()


def note(name, text):
    fd = os.open(os.path.join(NOTES, name),
                 os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    try:
        os.write(fd, ("%s\n" % (text,)).encode())
    finally:
        os.close(fd)


def wait(name):
    """Until the test says so."""
    while not os.path.exists(os.path.join(NOTES, "go-" + name)):
        _never.wait(0.003)


def digest(data):
    return ("%d %s" % (len(data), hashlib.sha1(data).hexdigest())).encode()


class Watched:
    """A body whose end is written down."""

    def __init__(self, name, items):
        self.name, self.items = name, iter(items)

    def __iter__(self):
        return self

    def __next__(self):
        return next(self.items)

    def close(self):
        note("closed", self.name)


def hold(environ, name):
    note("running", name)
    wait(name)
    return [b"held " + name.encode()]


def answer(environ, name):
    note("answered", name)
    return [b"hello " + name.encode()]


def pid(environ, name):
    return [b"%d" % os.getpid()]


def upload(environ, name):
    return [digest(environ["wsgi.input"].read())]


def pieces(environ, name):
    """Reads its body in small pieces."""
    found = []
    while True:
        data = environ["wsgi.input"].read(1000)
        if not data:
            return [digest(b"".join(found))]
        found.append(data)


def lines(environ, name):
    return [digest(b"".join(environ["wsgi.input"]))]


def late(environ, name):
    """Does not read its body before it is told to."""
    note("running", name)
    wait(name)
    try:
        return [digest(environ["wsgi.input"].read())]
    except OSError as error:
        note("error", "%s %s" % (name, error))
        raise


def begun(environ, name):
    """Has read some of its body."""
    first = environ["wsgi.input"].read(10)
    note("running", name)
    wait(name)
    return [digest(first + environ["wsgi.input"].read())]


def unread(environ, name):
    """Answers without a look at its body."""
    return [b"not read"]


def stream(environ, name):
    who, count, size = name.split(",")
    note("running", who)

    def items():
        for i in range(int(count)):
            yield (who * int(size))[:int(size)].encode()
    return Watched(who, items())


def gone(environ, name):
    note("running", name)
    while forebay.client_connected():
        _never.wait(0.003)
    note("gone", name)
    return Watched(name, (b"x" * 1000 for _ in range(100000)))


def broken(environ, name):
    def items():
        yield b"half "
        wait(name)
        raise RuntimeError("broken on purpose")
    return Watched(name, items())


def after(environ, name):
    forebay.after_response(hold, environ, name)
    return [b"before"]


def file(environ, name):
    return environ["wsgi.file_wrapper"](open(unquote(name), "rb"))


def file_rest(environ, name):
    f = open(name, "rb")
    f.read(3)
    return environ["wsgi.file_wrapper"](f)


def file_unnamed(environ, name):
    import tempfile
    f = tempfile.TemporaryFile()
    f.write(b"unnamed")
    f.seek(0)
    return environ["wsgi.file_wrapper"](f)


def application(environ, start_response):
    what = globals()[environ["PATH_INFO"].strip("/")]
    result = what(environ, environ["QUERY_STRING"])
    start_response("200 OK", [("Content-Type", "text/plain")])
    return result
