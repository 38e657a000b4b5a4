# SPDX-License-Identifier: MIT
"""Requests that take too long, each in a way of its own."""

import ctypes
import os
import time

import forebay

NOTES = os.environ["FOREBAY_TEST_NOTES"]
with_gil = ctypes.PyDLL(None)
without_gil = ctypes.CDLL(None)


def note(name, line):
    with open(os.path.join(NOTES, name), "a") as f:
        f.write("%s\n" % line)


def sleeps():
    time.sleep(600)                     # asleep here


def loops(seconds=600.0):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass                            # looping here


def blocks(library):
    mutex = ctypes.create_string_buffer(128)    # PTHREAD_MUTEX_INITIALIZER
    library.pthread_mutex_lock(mutex)
    library.pthread_mutex_lock(mutex)   # in C for ever, no signal helps


def page_sleep(environ):
    sleeps()


def page_loop(environ):
    loops()


def page_gil(environ):
    note("holding_gil", os.getpid())
    blocks(with_gil)


def page_c(environ):
    note("blocked", os.getpid())
    blocks(without_gil)


def page_swallow(environ):
    """`except Exception` does not catch what ends a request."""
    for _ in range(1000):
        try:
            loops()
        except Exception:
            note("swallowed", os.getpid())


def page_cleanup(environ):
    try:
        loops()
    except forebay.RequestTimeout as e:
        note("caught", "%s %s" % (type(e).__mro__[1].__name__, e))
        raise
    finally:
        note("finally", os.getpid())


def page_own_answer(environ):
    """An application may answer for itself."""
    try:
        loops()
    except forebay.RequestTimeout:
        return [b"too late"]


def page_stubborn(environ):
    while True:
        try:
            loops()
        except BaseException:
            note("stubborn", os.getpid())


def page_left(environ):
    left = forebay.deadline()
    return [b"none" if left is None else b"%.3f" % left]


def page_body(environ):
    note("reading", os.getpid())
    return [b"%d" % len(environ["wsgi.input"].read())]


def page_busy(environ):
    """Hold the GIL for so many ms at a stretch: what waits for it meanwhile
    comes late."""
    note("busy", os.getpid())
    with_gil.usleep(int(environ["QUERY_STRING"]) * 1000)
    return [b"done"]


def page_turns(environ):
    """Python work of so many ms, in which anything may be raised."""
    loops(int(environ["QUERY_STRING"] or 2) / 1000)
    return [b"done"]


def page_after(environ):
    """The response leaves, and then work without end."""
    forebay.after_response(after, environ["QUERY_STRING"])
    return [b"early"]


def after(how):
    note("after", os.getpid())
    if how == "loop":
        loops()
    if how == "short":
        loops(0.05)
    note("after_ended", os.getpid())


def parts(environ):
    yield b"first"
    note("parted", os.getpid())
    loops()
    yield b"second"


def application(environ, start_response):
    name = environ["PATH_INFO"].strip("/")
    if name == "parts":
        start_response("200 OK", [("Content-Type", "text/plain")])
        return parts(environ)
    page = globals().get("page_" + name)
    body = page(environ) if page else [b"%d" % os.getpid()]
    start_response("200 OK", [("Content-Type", "text/plain")])
    return body
