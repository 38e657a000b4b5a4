# SPDX-License-Identifier: MIT
"""E and F: start_response, and its checks of status and headers."""

import json
import sys
import threading
import weakref

from app import case, note, text
from starts import STARTS

TYPE = [("Content-Type", "text/plain")]


class Boom(Exception):
    pass


@case
def E1(environ, start_response):
    if environ["QUERY_STRING"] == "none":
        start_response("200 OK", TYPE, None)
    elif environ["QUERY_STRING"] == "exc":
        try:
            raise Boom
        except Boom:
            start_response("200 OK", TYPE, sys.exc_info())
    else:
        start_response("200 OK", TYPE)
    return [b"ok"]


@case
def E1_keyword(environ, start_response):
    """What a middleware may do that passes its arguments on by position."""
    start_response(*("200 OK", TYPE, None))
    return [b"ok"]


@case
def E2(environ, start_response):
    write = start_response("200 OK", TYPE)
    write(b"written")
    return [str(callable(write)).encode()]


@case
def E3(environ, start_response):
    """Headers are replaced after empty chunks and an empty write()."""
    write = start_response("200 OK", [("X-First", "1")])
    write(b"")

    def body():
        yield b""
        yield b""
        try:
            raise Boom
        except Boom:
            start_response("202 Accepted", [("X-Second", "2")],
                           sys.exc_info())
        yield b"second"
    return body()


@case
def E3_waits(environ, start_response):
    """Nothing is on the wire before the first non-empty chunk."""
    start_response("200 OK", TYPE)
    yield b""
    note("E3", "started")
    environ["wsgi.input"].read()      # the test sends it when it has looked
    yield b"now"


@case
def E4(environ, start_response):
    start_response("200 OK", TYPE)
    try:
        start_response("500 No", TYPE)
    except BaseException as e:
        note("E4", type(e).__name__)
        return [b"refused"]
    return [b"taken"]


@case
def E4_after_failure(environ, start_response):
    try:
        start_response("200 OK", [("X: bad", "v")])
    except ValueError:
        note("E4", "first failed")
    try:
        start_response("200 OK", TYPE)
    except BaseException as e:
        note("E4", type(e).__name__)
        raise
    return [b"taken"]


@case
def E5(environ, start_response):
    start_response("200 OK", [("X-Old", "1"), ("Content-Length", "3")])
    try:
        raise Boom
    except Boom:
        write = start_response("500 Replaced", [("X-New", "2")],
                               sys.exc_info())
    write(b"written ")
    return [b"and returned"]


@case
def E6(environ, start_response):
    """After something was sent, start_response with exc_info raises; the
    note says what, and whether it is the same object."""
    start_response("200 OK", TYPE)
    yield b"sent"
    try:
        raise Boom("the original")
    except Boom as original:
        try:
            start_response("500 Late", TYPE, sys.exc_info())
        except BaseException as e:
            names = []
            tb = e.__traceback__
            while tb is not None:
                names.append(tb.tb_frame.f_code.co_name)
                tb = tb.tb_next
            note("E6", json.dumps([type(e).__name__, e is original,
                                   names.count("E6")]))
            raise


class Local:
    pass


@case
def E8(environ, start_response):
    """A local of the frame of exc_info dies with it."""
    import gc

    def inner():
        local = Local()
        ref = weakref.ref(local)
        try:
            raise Boom
        except Boom:
            start_response("200 OK", TYPE, sys.exc_info())
        del local
        return ref
    gc.disable()
    try:
        ref = inner()
        return [str(ref() is None).encode()]
    finally:
        gc.enable()


@case
def E9(environ, start_response):
    found = []
    for bad in (1, "x", (1, 2), (1, 2, 3, 4), [None, None, None], True):
        try:
            start_response("200 OK", TYPE, bad)
            found.append("taken")
        except TypeError:
            found.append("TypeError")
        except BaseException as e:
            found.append(type(e).__name__)
    note("E9", " ".join(found))
    return hello(environ, start_response)


def hello(environ, start_response):
    try:
        start_response("200 OK", TYPE)
    except AssertionError:
        pass
    return [b"hello"]


old = {}


@case
def E10_keep(environ, start_response):
    old["start_response"] = start_response
    old["write"] = start_response("200 OK", TYPE)
    return [b"kept"]


@case
def E10_use(environ, start_response):
    """The start_response and write() of another request, also from another
    thread, while this one runs."""
    def use():
        for name, args in (("start_response", ("500 Wrong", [("X-W", "1")])),
                           ("write", (b"wrong",))):
            try:
                old[name](*args)
                found.append("taken")
            except BaseException as e:
                found.append(type(e).__name__)
    found = []
    use()
    start_response("200 OK", TYPE)
    use()
    thread = threading.Thread(target=use)
    thread.start()
    thread.join()
    return [" ".join(found).encode()]


@case
def E11(environ, start_response):
    headers = [("X-One", "1"), ("X-Two", "2")]
    start_response("200 OK", headers)
    headers.append(("X-Three", "3"))
    headers[0] = ("X-Changed", "1")
    del headers[1]
    return [b"ok"]


@case
def E12(environ, start_response):
    if environ["QUERY_STRING"] == "empty":
        return []
    if environ["QUERY_STRING"] == "generator":
        return (c for c in [b"", b"body"])
    return [b"body"]


@case
def start(environ, start_response):
    """start_response(*STARTS[...]); the note is the exception, if any."""
    name = environ["QUERY_STRING"]
    status, headers = STARTS[name]
    if name == "F4_iterator":
        headers = iter(TYPE)
    elif name == "F4_none":
        headers = None
    try:
        start_response(status, headers)
    except BaseException as e:
        note("start", json.dumps([type(e).__name__, str(e)]))
        raise
    note("start", json.dumps(["taken", ""]))
    return [b"ok"]


@case
def F13(environ, start_response):
    start_response("200 OK", [("X-%d" % i, "v" * 1000)
                              for i in range(int(environ["QUERY_STRING"]))])
    return [b"ok"]


@case
def R026(environ, start_response):
    """40 KB of headers, and a body that does not end."""
    start_response("200 OK", [("X-%d" % i, "v" * 1000) for i in range(40)])
    while True:
        yield b"r" * 1000


@case
def echo_pieces(environ, start_response):
    start_response("200 OK", [("Content-Type", "application/octet-stream")])
    while True:
        data = environ["wsgi.input"].read(65536)
        if not data:
            return
        yield data


@case
def deadlock(environ, start_response):
    """A large answer while nothing of the body is read; then it is."""
    start_response("200 OK", [("Content-Type", "text/plain")])
    for _ in range(48):
        yield b"d" * 65536
    read = 0
    try:
        while True:
            data = environ["wsgi.input"].read(65536)
            if not data:
                break
            read += len(data)
    except OSError as e:
        yield b"%d %s" % (read, type(e).__name__.encode())
    else:
        yield b"%d whole" % read


@case
def reflected(environ, start_response):
    """A query copied into a header: the classic way to response splitting."""
    from urllib.parse import unquote
    start_response("302 Found", [
        ("Location", unquote(environ["QUERY_STRING"]))])
    return [b"moved"]


@case
def status(environ, start_response):
    """The status that TEST_STATUS asks for."""
    return text(start_response, "body", environ["TEST_STATUS"])
