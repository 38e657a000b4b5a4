# SPDX-License-Identifier: MIT
"""G, H, I: the body, its length, close(), clients that go away."""

import hashlib
import json
import os
import threading

from app import as_json, case, note, text

TYPE = [("Content-Type", "text/plain")]


class Body:
    """An iterable that notes its close() under the name of the case."""

    def __init__(self, name, items=(), error_in=None):
        self.name, self.items, self.error_in = name, items, error_in
        self.thread = threading.get_ident()

    def __iter__(self):
        if self.error_in == "iter":
            raise LookupError("in iter()")
        for item in self.items:
            if item is None:
                raise LookupError("in the iteration")
            yield item

    def close(self):
        note(self.name, "closed %s" % (
            threading.get_ident() == self.thread))
        if self.error_in == "close":
            raise LookupError("in close()")


@case
def G1(environ, start_response):
    write = start_response("200 OK", TYPE)
    write(b"one ")
    write(b"two ")
    return [b"three ", b"four"]


@case
def G2(environ, start_response):
    write = start_response("200 OK", TYPE)
    write(b"")
    note("G2", "wrote nothing")
    environ["wsgi.input"].read()
    return [b"later"]


@case
def G3(environ, start_response):
    write = start_response("200 OK", TYPE)
    found = []
    for bad in ("str", bytearray(b"ba"), memoryview(b"mv"), None, 5):
        try:
            write(bad)
            found.append("taken")
        except TypeError:
            found.append("TypeError")
    return [" ".join(found).encode()]


BAD_CHUNKS = {"str": "text", "none": None, "int": 5,
              "bytearray": bytearray(b"x"), "memoryview": memoryview(b"x")}


class BytesSubclass(bytes):
    pass


@case
def G4(environ, start_response):
    """QUERY_STRING: kind,first or kind,later."""
    kind, when = environ["QUERY_STRING"].split(",")
    start_response("200 OK", TYPE)
    if when == "generator":
        return (c for c in [b"sent", BAD_CHUNKS[kind]])
    return [BAD_CHUNKS[kind]]


@case
def G4_subclass(environ, start_response):
    start_response("200 OK", TYPE)
    return [BytesSubclass(b"sub"), BytesSubclass(b"class")]


CHUNKS = {
    "middle": lambda: [b"a", b"", b"b"],
    "first": lambda: [b"", b"Test"],
    "last": lambda: [b"Test", b""],
    "only": lambda: [b""],
    "many_empty": lambda: [b""] * 10_000 + [b"end"],
    "generated": lambda: (c for c in [b"", b"x", b"", b"y", b""]),
    "ten_thousand": lambda: (b"%04d\n" % i for i in range(10_000)),
    "list_ten_thousand": lambda: [b"%04d\n" % i for i in range(10_000)],
    "huge": lambda: [b"0123456789abcdef" * (100 << 16)],
    "sizes": lambda: [b"s" * n for n in (
        1, 7, 8, 65527, 65528, 65529, 65535, 65536, 131072, 200001)],
}


@case
def G5(environ, start_response):
    start_response("200 OK", TYPE)
    return CHUNKS[environ["QUERY_STRING"]]()


@case
def G6(environ, start_response):
    """The second chunk is made only when the test, having seen the first, has
    sent the body."""
    start_response("200 OK", TYPE)
    yield b"first"
    environ["wsgi.input"].read()
    yield b"second"


@case
def G6_write(environ, start_response):
    write = start_response("200 OK", TYPE)
    write(b"first")
    environ["wsgi.input"].read()
    write(b"second")
    return []


@case
def G7(environ, start_response):
    start_response("200 OK", TYPE)
    return [bytes(range(256)), b"\r\n\r\n\0\xff", b"\x00" * 1000]


@case
def G8(environ, start_response):
    start_response("200 OK", TYPE)
    return b"bytes, not in a list"


@case
def G10(environ, start_response):
    """TEST_STATUS with a body all the same; QUERY_STRING is a length."""
    headers = list(TYPE)
    if environ["QUERY_STRING"]:
        headers.append(("Content-Length", environ["QUERY_STRING"]))
    start_response(environ["TEST_STATUS"], headers)
    return Body("G10", [b"not ", b"wanted"])


@case
def G10_write(environ, start_response):
    write = start_response(environ["TEST_STATUS"], TYPE)
    write(b"not wanted")
    return Body("G10", [b"either"])


@case
def G11(environ, start_response):
    return text(start_response, "the application's own page",
                environ["TEST_STATUS"], [("X-Own", "1")])


@case
def G12(environ, start_response):
    """A list of many small chunks."""
    start_response("200 OK", TYPE)
    return [b"x"] * int(environ["QUERY_STRING"])


@case
def G13(environ, start_response):
    """Endless; notes how many chunks of 64 KB were asked for."""
    start_response("200 OK", TYPE)

    def endless():
        n = 0
        try:
            while True:
                n += 1
                note("G13", n)
                yield b"z" * 65536
        finally:
            note("G13_end", "stopped")
    return endless()


# H

@case
def H1(environ, start_response):
    start_response(environ.get("TEST_STATUS", "200 OK"), TYPE)
    return {"list": [b"twelve bytes"], "tuple": (b"twelve bytes",),
            "empty": [], "empty_tuple": (), "empty_chunk": [b""],
            "two": [b"twelve ", b"bytes"],
            "generator": (c for c in [b"twelve bytes"])}[
                environ["QUERY_STRING"]]


@case
def H1_write(environ, start_response):
    write = start_response("200 OK", TYPE)
    write(b"written ")
    return [b"twelve bytes"]


class Liar:
    def __init__(self, length, items):
        self.length, self.items = length, items

    def __len__(self):
        return self.length

    def __iter__(self):
        return iter(self.items)


@case
def H2(environ, start_response):
    start_response("200 OK", TYPE)
    return {"liar": Liar(2, [b"one", b"two", b"three"]),
            "zero": Liar(0, [b"some"]),
            "many": Liar(100, [b"some"]),
            "dict": {b"some": 1}}[environ["QUERY_STRING"]]


@case
def H2_str(environ, start_response):
    start_response("200 OK", TYPE)
    return "x"


@case
def H3(environ, start_response):
    start_response("200 OK", TYPE + [("Content-Length", "10")])
    return {"one": Body("H3", [b"0123456789surplus"]),
            "two": Body("H3", [b"01234", b"56789surplus", b"more"]),
            "list": [b"01234", b"56789surplus", b"more"],
            "single": [b"0123456789surplus"]}[environ["QUERY_STRING"]]


@case
def H4(environ, start_response):
    start_response("200 OK", TYPE + [("Content-Length", "10")])

    def items():
        yield b"01234"
        yield b"56789"
        note("H4", "asked for more")
        yield b"surplus"
    return Body("H4", items())


@case
def H5(environ, start_response):
    write = start_response("200 OK", TYPE + [("Content-Length", "10")])
    write(b"01234")
    try:
        write(b"56789surplus")
        note("H5", "taken")
    except BaseException as e:
        note("H5", type(e).__name__)
    return []


@case
def H6(environ, start_response):
    start_response("200 OK", TYPE + [("Content-Length", "10")])
    return {"list": [b"01234"], "empty": [],
            "generator": (c for c in [b"01234"])}[environ["QUERY_STRING"]]


@case
def H7(environ, start_response):
    start_response(environ["TEST_STATUS"], TYPE + [("Content-Length", "999")])
    return [] if environ["QUERY_STRING"] == "empty" else [b"something"]


# I

CLOSES = {
    "normal": lambda: Body("I1", [b"a", b"b"]),
    "iteration": lambda: Body("I1", [None]),
    "iteration_late": lambda: Body("I1", [b"a", None]),
    "iter": lambda: Body("I1", [], "iter"),
    "wrong_type": lambda: Body("I1", [b"a", "str"]),
    "no_start": lambda: Body("I1", [b"a"]),
    "head": lambda: Body("I1", [b"a"]),
    "close_raises": lambda: Body("I1", [b"a"], "close"),
}


class NotIterable:
    def close(self):
        note("I1", "closed True")


@case
def I1(environ, start_response):
    which = environ["QUERY_STRING"]
    if which != "no_start":
        start_response("200 OK", TYPE)
    if which == "not_iterable":
        return NotIterable()
    return CLOSES[which]()


@case
def I1_length(environ, start_response):
    start_response("200 OK", TYPE + [("Content-Length", "4")])
    return Body("I1", [b"four", b"surplus"])


@case
def I1_endless(environ, start_response):
    start_response("200 OK", TYPE)

    def items():
        while True:
            yield b"e" * 1000
    return Body("I1", items())


@case
def I1_waits(environ, start_response):
    """Waits inside the iteration for the body."""
    start_response("200 OK", TYPE)

    def items():
        yield b"begun"
        environ["wsgi.input"].read()
        yield b"ended"
    return Body("I1", items())


@case
def I2(environ, start_response):
    """close() sees that the response is out: the test, having read it, has
    sent nothing more; the next request must come after it."""
    start_response("200 OK", TYPE)

    class Last(Body):
        def close(self):
            note("I2", "closing")
            note("I2", "closed")
    return Last("I2", [b"the whole"])


@case
def I2_next(environ, start_response):
    note("I2", "next request")
    return text(start_response, "next")


@case
def I3(environ, start_response):
    start_response("200 OK", TYPE)
    return Body("I3", [b"whole"], "close")


@case
def I4(environ, start_response):
    start_response("200 OK", TYPE)

    def items(me):
        try:
            while True:
                yield b"i" * 1000
        finally:
            note("I4", "finally %s" % (threading.get_ident() == me))
    return items(threading.get_ident())


@case
def I5(environ, start_response):
    """A slow stream: a chunk every few milliseconds."""
    start_response("200 OK", TYPE)

    def items():
        pause = threading.Event()
        n = 0
        try:
            while n < 20000:
                n += 1
                yield b"tick"
                pause.wait(0.005)
            note("I5", "never noticed")
        except GeneratorExit:
            note("I5", "stopped")
            raise
    return items()


@case
def I6(environ, start_response):
    write = start_response("200 OK", TYPE)
    pause = threading.Event()
    try:
        for _ in range(20000):
            write(b"w" * 1000)
            pause.wait(0.002)
        note("I6", "never raised")
    except BaseException as e:
        note("I6", "%s %s" % (isinstance(e, OSError),
                              isinstance(e, BrokenPipeError)))
        raise
    return []


@case
def I8_quiet(environ, start_response):
    """The exception of write() is let through: no traceback in the log."""
    return I6(environ, start_response)


@case
def I9(environ, start_response):
    """Computes without output until the client is gone."""
    import forebay
    note("I9", "connected %s" % forebay.client_connected())
    pause = threading.Event()
    for _ in range(4000):
        if not forebay.client_connected():
            note("I9", "gone")
            break
        pause.wait(0.005)
    else:
        note("I9", "never noticed")
    return text(start_response, "too late")


@case
def I10(environ, start_response):
    import forebay

    def work(what, *, more):
        note("I10", "%s %s" % (what, more))
    forebay.after_response(work, "first", more=1)
    forebay.after_response(work, "second", more=2)

    class Noted(Body):
        def close(self):
            note("I10", "closed")
    start_response("200 OK", TYPE)
    if environ["QUERY_STRING"] == "endless":
        def items():
            while True:
                yield b"e" * 1000
        return Noted("I10", items())
    if environ["QUERY_STRING"] == "raises":
        forebay.after_response(lambda: 1 // 0)
        forebay.after_response(work, "third", more=3)
    return Noted("I10", [b"answer"])


@case
def I10_blocks(environ, start_response):
    """The work goes on until the test writes the file `go`."""
    import forebay
    from app import NOTES

    def work():
        pause = threading.Event()
        while not os.path.exists(os.path.join(NOTES, "go")):
            pause.wait(0.01)
        note("I10", "went")
    forebay.after_response(work)
    return text(start_response, "answered before the work")


@case
def streams(environ, start_response):
    """TEST_CHUNKS of TEST_SIZE bytes, with an error behind them on demand."""
    n = int(environ.get("TEST_CHUNKS", "3"))
    size = int(environ.get("TEST_SIZE", "10"))
    headers = list(TYPE)
    if environ.get("TEST_LENGTH"):
        headers.append(("Content-Length", environ["TEST_LENGTH"]))
    start_response("200 OK", headers)

    def items():
        for i in range(n):
            yield bytes([97 + i % 26]) * size
        if environ["QUERY_STRING"] == "raise":
            raise LookupError("after %d chunks" % n)
        if environ["QUERY_STRING"] == "die":
            os.kill(os.getpid(), 9)
    return items()


@case
def json_echo(environ, start_response):
    return as_json(start_response, json.loads(environ["wsgi.input"].read()))


@case
def filter_data(environ, start_response):
    """What the query asks of forebay.data; every answer names how much of the
    body was read before."""
    body, data = environ["wsgi.input"], environ["forebay.data"]
    how = environ["QUERY_STRING"]
    if how == "unread":
        return text(start_response, "unread")
    if how == "part":
        return text(start_response, "%s" % data.read(5).decode())
    if how == "bytes":
        return text(start_response, data.read(int(environ["TEST_SIZE"]))
                    .decode())
    if how == "lines":
        return text(start_response, "|".join(
            [data.readline().decode()] + [n.decode() for n in data]))
    if how == "dropped":
        found = [data.read().decode()]
        try:
            found.append(body.read().decode())
        except OSError as e:
            found.append(str(e))
        return text(start_response, ": ".join(found))
    if how == "echo":
        start_response("200 OK", list(TYPE))
        return iter(lambda: data.read(50_000), b"")
    if how == "large":
        start_response("200 OK", list(TYPE))
        return (f() for f in (lambda: b"y" * 8_000_000,
                              lambda: b"%d" % len(data.read())))
    first = body.readline() + body.read()
    rest = data.read()
    assert data.read() == data.readline() == b""
    return text(start_response, "%d %d %s" % (
        len(first), len(rest), hashlib.sha1(rest).hexdigest()))


@case
def filter_caught(environ, start_response):
    try:
        environ["forebay.data"].read()
    except OSError as e:
        return text(start_response, "%d %s" % (e.errno, e))
    return text(start_response, "no error")


@case
def authorizer(environ, start_response):
    if environ["QUERY_STRING"] == "deny":
        return text(start_response, "not you", "403 Forbidden")
    return text(start_response, "", headers=[("Variable-Who", "someone")])
