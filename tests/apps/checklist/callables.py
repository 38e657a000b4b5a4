# SPDX-License-Identifier: MIT
"""Every kind of callable, and things that are none (A1, A2, A6, A7)."""

import functools
import os

TYPE = [("Content-Type", "text/plain")]


def note(name, line):
    folder = os.environ.get("FOREBAY_TEST_NOTES")
    if folder:
        with open(os.path.join(folder, name), "a") as f:
            f.write("%s\n" % line)


note("imports", "%d %s" % (os.getpid(), __name__))


def positional_only(environ, start_response, /):
    start_response("200 OK", TYPE)
    return [b"positional only"]


def counting(*args, **kwargs):
    args[1]("200 OK", TYPE)
    return [b"%d %d" % (len(args), len(kwargs))]


def function(environ, start_response):
    start_response("200 OK", TYPE)
    return [b"function"]


class Instance:
    def __call__(self, environ, start_response):
        start_response("200 OK", TYPE)
        return [b"instance"]

    def method(self, environ, start_response):
        start_response("200 OK", TYPE)
        return [b"bound method"]


class Class:
    def __init__(self, environ, start_response):
        self.start_response = start_response

    def __iter__(self):
        self.start_response("200 OK", TYPE)
        yield b"class"


def configured(answer, environ, start_response):
    start_response("200 OK", TYPE)
    return [answer]


instance = Instance()
bound = instance.method
partial = functools.partial(configured, b"partial")
lambda_ = lambda e, s: [s("200 OK", TYPE) and b"lambda" or b"lambda"]  # noqa


class holder:
    inner = instance


def factory():
    note("factory", os.getpid())
    return function


not_callable = 42


def no_arguments():
    return []


def one_argument(environ):
    return []


def factory_of_nothing():
    return None


def factory_that_raises():
    raise LookupError("the factory had a bad day")


def application(environ, start_response):
    start_response("200 OK", TYPE)
    return [__name__.encode()]
