# SPDX-License-Identifier: MIT
"""J: what goes wrong in an application."""

import ctypes
import os
import signal

from app import case, note

TYPE = [("Content-Type", "text/plain"), ("X-Own", "1")]


class Own(BaseException):
    pass


def exception(name):
    return {"SystemExit": SystemExit(3), "SystemExit0": SystemExit(),
            "KeyboardInterrupt": KeyboardInterrupt(),
            "GeneratorExit": GeneratorExit(), "Own": Own("mine"),
            "StopIteration": StopIteration(),
            "LookupError": LookupError("secret detail")}[name]


class RaisingIter:
    def __init__(self, error):
        self.error = error

    def __iter__(self):
        raise self.error


@case
def fail(environ, start_response):
    """QUERY_STRING: where,what."""
    where, what = environ["QUERY_STRING"].split(",")
    error = exception(what)
    if where == "call":
        raise error
    if where == "started":
        start_response("200 OK", TYPE)
        raise error
    if where == "iter":
        start_response("200 OK", TYPE)
        return RaisingIter(error)

    def items():
        if where == "next":
            raise error
        yield b"sent"
        if where == "later":
            raise error

    class Closing:
        def __iter__(self):
            return iter([b"whole"])

        def close(self):
            raise error
    start_response("200 OK", TYPE)
    return Closing() if where == "close" else items()


@case
def J2_write(environ, start_response):
    write = start_response("200 OK", TYPE)
    write(b"written")
    raise LookupError("behind write()")


@case
def J4(environ, start_response):
    if environ["QUERY_STRING"] == "memory":
        raise MemoryError
    if environ["QUERY_STRING"] == "memory_real":
        return [b"x" * (1 << 62)]

    def deep():
        return deep()
    return deep()


@case
def J5(environ, start_response):
    how = environ["QUERY_STRING"]
    note("J5", os.getpid())
    if how == "_exit":
        os._exit(3)
    elif how == "abort":
        os.abort()
    elif how == "segfault":
        ctypes.string_at(0)
    else:
        os.kill(os.getpid(), signal.SIGKILL)


@case
def J6(environ, start_response):
    start_response("200 OK", TYPE)
    return {"none": None, "int": 5, "object": object(),
            "function": exception}[environ["QUERY_STRING"]]


class BrokenStr(Exception):
    def __str__(self):
        raise RuntimeError("no text")

    __repr__ = __str__


@case
def J7(environ, start_response):
    which = environ["QUERY_STRING"]
    if which == "str":
        raise BrokenStr
    if which == "cycle":
        a, b = LookupError("a"), LookupError("b")
        a.__cause__, b.__cause__ = b, a
        raise a
    if which == "context":
        a, b = LookupError("a"), LookupError("b")
        a.__context__, b.__context__ = b, a
        raise a
    if which == "source":
        code = compile("# -*- coding: latin-1 -*-\n"
                       "raise LookupError('caf\xe9')\n".encode("latin-1"),
                       os.path.join(os.path.dirname(__file__), "latin.py"),
                       "exec")
        exec(code)
    if which == "surrogate":
        raise LookupError("\udc80\udcff \U0001f600")
    if which == "huge":
        raise LookupError("h" * 300_000)
    if which == "meta":
        class Meta(type):
            def __getattribute__(cls, name):
                raise RuntimeError("no attributes")

        class Odd(Exception, metaclass=Meta):
            pass
        raise Odd()


@case
def J9(environ, start_response):
    """sys.excepthook and sys.stderr of the application are out of order."""
    import sys

    def hook(*args):
        note("J9", "the hook ran")
    saved, saved_stderr = sys.excepthook, sys.stderr
    sys.excepthook = hook

    class Restore:
        def __iter__(self):
            raise LookupError("J9 with a broken stderr")

        def close(self):
            sys.excepthook, sys.stderr = saved, saved_stderr

    class Broken:
        def write(self, text):
            raise RuntimeError("no stderr")
        flush = write
    sys.stderr = Broken()
    start_response("200 OK", TYPE)
    return Restore()


class DelRaises:
    def __del__(self):
        raise RuntimeError("in __del__")


@case
def in_del(environ, start_response):
    DelRaises()
    start_response("200 OK", TYPE)
    return [b"ok"]
