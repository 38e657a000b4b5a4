# SPDX-License-Identifier: MIT
"""C: wsgi.input. The case `ops` runs a list of calls, which a test compares
with what io.BytesIO says to the same list."""

import hashlib
import json
import threading

from app import as_json, case, note, text


def shown(value):
    """Something for JSON that tells types apart."""
    if isinstance(value, bytes):
        if len(value) > 2000:
            return ["bytes", len(value), hashlib.sha256(value).hexdigest()]
        return ["bytes", value.decode("latin-1")]
    if isinstance(value, list):
        if len(value) > 2000:
            return ["list", len(value), hashlib.sha256(
                b"|".join(value)).hexdigest()]
        return ["list", [shown(v) for v in value]]
    return [type(value).__name__, repr(value)]


def run_ops(stream, ops):
    """ops: [name, argument...]; "iter n" takes n items of an iterator that is
    made once; an exception is its type."""
    results, iterator = [], None
    for name, *args in ops:
        try:
            if name == "next":
                if iterator is None:
                    iterator = iter(stream)
                try:
                    value = next(iterator)
                except StopIteration:
                    value = ["StopIteration"]
            elif name == "all":
                value = list(stream)
            else:
                value = getattr(stream, name)(*args)
            results.append(shown(value))
        except Exception as e:
            results.append(["raised", type(e).__name__])
    return results


@case
def ops(environ, start_response):
    return as_json(start_response, run_ops(
        environ["wsgi.input"], json.loads(environ["TEST_OPS"])))


@case
def C10(environ, start_response):
    stream = environ["wsgi.input"]
    first = iter(stream)
    a = next(first)
    b = next(iter(stream))
    c = stream.readline()
    rest = list(first)
    ends = []
    for _ in range(3):
        try:
            next(first)
            ends.append(False)
        except StopIteration:
            ends.append(True)
    return as_json(start_response, {
        "lines": [x.decode() for x in [a, b, c] + rest], "ends": ends})


@case
def digest(environ, start_response):
    """Length and hash of the body, read in pieces of TEST_SIZE."""
    size = int(environ.get("TEST_SIZE", "65536"))
    h, n = hashlib.sha256(), 0
    stream = environ["wsgi.input"]
    while True:
        data = stream.read(size)
        if not data:
            break
        n += len(data)
        h.update(data)
    return text(start_response, "%d %s %s" % (
        n, h.hexdigest(), environ.get("CONTENT_LENGTH", "absent")))


@case
def unread(environ, start_response):
    """Reads TEST_READ bytes of the body and leaves the rest."""
    data = environ["wsgi.input"].read(int(environ.get("TEST_READ", "0")))
    return text(start_response, "took %d" % len(data))


@case
def C15(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    yield b"before "
    yield environ["wsgi.input"].read()
    yield b" after"


@case
def C17(environ, start_response):
    """Read to the end; what happens is a note."""
    try:
        data = environ["wsgi.input"].read()
    except BaseException as e:
        note("C17", "%s %s %s" % (type(e).__name__, isinstance(e, OSError),
                                  isinstance(e, ConnectionError)))
        raise
    note("C17", "read %d" % len(data))
    return text(start_response, "read")


@case
def C17_pieces(environ, start_response):
    """The same, in pieces: none of them may look like the end."""
    stream, n = environ["wsgi.input"], 0
    try:
        while True:
            data = stream.read(10)
            if not data:
                break
            n += len(data)
    except BaseException as e:
        note("C17", "%s %s %s" % (type(e).__name__, isinstance(e, OSError),
                                  isinstance(e, ConnectionError)))
        raise
    note("C17", "ended after %d" % n)
    return text(start_response, "read")


@case
def C18(environ, start_response):
    try:
        environ["wsgi.input"].read()
    except BaseException as e:
        note("C18", "%s %s" % (isinstance(e, OSError),
                               isinstance(e, TimeoutError)))
        if environ["QUERY_STRING"] == "caught":
            return text(start_response, "caught")
        raise
    note("C18", "no exception")
    return text(start_response, "read")


old = {}


@case
def C19_keep(environ, start_response):
    old["input"] = environ["wsgi.input"]
    old["input"].read(2)
    return text(start_response, "kept")


@case
def C19_use(environ, start_response):
    """Every method of the input of a request that is over, while another
    request has a body."""
    stream, found = old["input"], {}
    for name, args in (("read", ()), ("read", (3,)), ("readline", ()),
                       ("readlines", ())):
        try:
            found[name + str(args)] = repr(getattr(stream, name)(*args))
        except Exception as e:
            found[name + str(args)] = type(e).__name__
    try:
        found["iter"] = repr(next(iter(stream)))
    except StopIteration:
        found["iter"] = "StopIteration"
    except Exception as e:
        found["iter"] = type(e).__name__
    found["own"] = environ["wsgi.input"].read().decode()
    return as_json(start_response, found)


@case
def C20_releases(environ, start_response):
    """While read() waits for the client, another thread runs."""
    def tick():
        for i in range(5):
            note("ticks", i)
    thread = threading.Thread(target=tick)
    reading = threading.Event()

    def late():
        reading.wait()
        tick()
    thread = threading.Thread(target=late)
    thread.start()
    reading.set()
    data = environ["wsgi.input"].read()
    thread.join()
    return text(start_response, data)


@case
def C20_thread(environ, start_response):
    """read() in a thread of the application."""
    found = []
    thread = threading.Thread(
        target=lambda: found.append(environ["wsgi.input"].read()))
    thread.start()
    thread.join()
    return text(start_response, found[0])


@case
def C21(environ, start_response):
    return as_json(start_response, [
        n for n in ("readinto", "seek", "tell", "fileno")
        if hasattr(environ["wsgi.input"], n)])


@case
def C22(environ, start_response):
    stream = environ["wsgi.input"]
    if hasattr(stream, "close"):
        stream.close()
    return text(start_response, stream.read())


@case
def C23(environ, start_response):
    stream, found = environ["wsgi.input"], {}
    for label, call in (
            ("str", lambda: stream.read("3")),
            ("float", lambda: stream.read(1.5)),
            ("two", lambda: stream.read(1, 2)),
            ("line str", lambda: stream.readline("3")),
            ("lines str", lambda: stream.readlines("3")),
            ("wrong keyword", lambda: stream.read(length=3)),
            ("size", lambda: stream.read(size=3)),
            ("line size", lambda: stream.readline(size=2)),
            ("rest", lambda: stream.read())):
        try:
            found[label] = call().decode()
        except Exception as e:
            found[label] = type(e).__name__
    return as_json(start_response, found)
