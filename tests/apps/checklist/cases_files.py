# SPDX-License-Identifier: MIT
"""K: wsgi.file_wrapper."""

import gzip
import io
import os
import socket
import tempfile

from app import NOTES, case, note, text

TYPE = [("Content-Type", "application/octet-stream")]
CONTENT = bytes(range(256)) * 1000


def path():
    """A file of CONTENT, made once."""
    name = os.path.join(NOTES, "content-%d" % os.getpid())
    if not os.path.exists(name):
        with open(name, "wb") as f:
            f.write(CONTENT)
    return name


class Noted:
    """Only read() and close(), and a note of each."""

    def __init__(self, data, name="K"):
        self.file, self.name = io.BytesIO(data), name

    def read(self, *args):
        note(self.name, "read")
        return self.file.read(*args)

    def close(self):
        note(self.name, "closed")


class OnlyRead:
    def __init__(self, data):
        self._file = io.BytesIO(data)

    def read(self, size):
        return self._file.read(size)


class NotedFile(io.FileIO):
    def close(self):
        if not self.closed:
            note("K10", "closed")
        super().close()


def pipe(data):
    r, w = os.pipe()
    os.write(w, data)
    os.close(w)
    return open(r, "rb")


def over_socket(data):
    a, b = socket.socketpair()
    a.sendall(data)
    a.close()
    f = b.makefile("rb")
    b.close()
    return f


def temporary():
    f = tempfile.NamedTemporaryFile()
    f.write(CONTENT)
    f.seek(100)
    return f


def spooled():
    f = tempfile.SpooledTemporaryFile(max_size=10)
    f.write(CONTENT)
    f.seek(0)
    return f


def updated():
    f = tempfile.TemporaryFile("w+b")
    f.write(b"0" * 1000)
    f.seek(0)
    f.write(b"written")
    f.seek(3)
    return f


def gzipped():
    f = io.BytesIO()
    with gzip.GzipFile(fileobj=f, mode="wb") as g:
        g.write(CONTENT)
    name = os.path.join(NOTES, "gz-%d" % os.getpid())
    with open(name, "wb") as g:
        g.write(f.getvalue())
    return gzip.open(name, "rb")


def at(offset, how="seek", buffering=-1):
    f = open(path(), "rb", buffering)
    if how == "seek":
        f.seek(offset)
    elif how == "read":
        f.read(offset)          # the descriptor is further than tell()
    return f


def empty():
    name = os.path.join(NOTES, "empty")
    open(name, "wb").close()
    return open(name, "rb")


FILES = {
    "plain": lambda: open(path(), "rb"),
    "unbuffered": lambda: open(path(), "rb", 0),
    "seek": lambda: at(1000),
    "read": lambda: at(10, "read"),
    "unbuffered_seek": lambda: at(1000, "seek", 0),
    "end": lambda: at(len(CONTENT)),
    "beyond": lambda: at(len(CONTENT) + 10),
    "bytesio": lambda: io.BytesIO(CONTENT),
    "only_read": lambda: OnlyRead(CONTENT),
    "pipe": lambda: pipe(b"through a pipe"),
    "socket": lambda: over_socket(b"through a socket"),
    "update": updated,
    "temporary": temporary,
    "spooled": spooled,
    "gzip": gzipped,
    "empty": empty,
    "empty_bytesio": io.BytesIO,
}


@case
def wrap(environ, start_response):
    """FILES[QUERY_STRING] in a wrapper, with TEST_LENGTH as
    Content-Length."""
    headers = list(TYPE)
    if environ.get("TEST_LENGTH"):
        headers.append(("Content-Length", environ["TEST_LENGTH"]))
    f = FILES[environ["QUERY_STRING"]]()
    start_response("200 OK", headers)
    return environ["wsgi.file_wrapper"](f, 4096)


@case
def K1(environ, start_response):
    wrapper = environ["wsgi.file_wrapper"]
    found = [callable(wrapper)]
    w = wrapper(io.BytesIO(b"abcdefgh"), 3)
    found += [w is not None, hasattr(w, "close"), list(w) == [
        b"abc", b"def", b"gh"]]
    f = io.BytesIO(b"abc")
    w = wrapper(f)
    found.append(b"".join(w) == b"abc")
    w.close()
    found.append(f.closed)
    found.append(not hasattr(wrapper(OnlyRead(b"x")), "close"))
    return text(start_response, " ".join(map(str, found)))


@case
def K1_middleware(environ, start_response):
    """A middleware that iterates over the wrapper and changes the chunks."""
    start_response("200 OK", TYPE)
    w = environ["wsgi.file_wrapper"](Noted(b"abcdefgh"), 3)
    try:
        return [c.upper() for c in w]
    finally:
        w.close()


@case
def K2(environ, start_response):
    f = Noted(b"not wanted", "K2")
    environ["wsgi.file_wrapper"](f)
    note("K2", "made")
    return text(start_response, "something else")


@case
def K7(environ, start_response):
    write = start_response("200 OK", TYPE)
    write(b"before ")
    f = open(path(), "rb")
    f.seek(len(CONTENT) - 5)
    return environ["wsgi.file_wrapper"](f)


@case
def K10(environ, start_response):
    which = environ["QUERY_STRING"]
    headers = list(TYPE)
    if which == "no_start":
        return environ["wsgi.file_wrapper"](NotedFile(path()))
    if which == "longer":
        headers.append(("Content-Length", str(len(CONTENT) + 5)))
    start_response("200 OK", headers)
    if which == "raises":
        class Raises(Noted):
            def read(self, *args):
                raise OSError("the disk is on fire")
        return environ["wsgi.file_wrapper"](Raises(b"", "K10"))
    if which == "big":
        name = os.path.join(NOTES, "big-%d" % os.getpid())
        with open(name, "wb") as f:
            f.truncate(200 << 20)
        return environ["wsgi.file_wrapper"](NotedFile(name))
    if which == "python":
        return environ["wsgi.file_wrapper"](Noted(CONTENT, "K10"))
    return environ["wsgi.file_wrapper"](NotedFile(path()))


@case
def K11(environ, start_response):
    """TEST_FILE, whose size the test changes while it is sent."""
    f = open(environ["TEST_FILE"], "rb")
    start_response("200 OK", TYPE)
    return environ["wsgi.file_wrapper"](f)


class ReadsOdd:
    def __init__(self, value):
        self.value = value

    def read(self, size):
        return self.value


@case
def K12(environ, start_response):
    start_response("200 OK", TYPE)
    return environ["wsgi.file_wrapper"](ReadsOdd(
        {"str": "text", "none": None, "int": 5}[environ["QUERY_STRING"]]))


@case
def K_closed(environ, start_response):
    f = open(path(), "rb")
    f.close()
    start_response("200 OK", TYPE)
    return environ["wsgi.file_wrapper"](f)
