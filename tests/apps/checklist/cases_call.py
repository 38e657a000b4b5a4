# SPDX-License-Identifier: MIT
"""A: how the application is called, and what it may return."""

import contextvars

from app import case, note, text

TYPE = [("Content-Type", "text/plain")]


@case
def A3_generator(environ, start_response):
    start_response("200 OK", TYPE)
    yield b"from a "
    yield b"generator"


class A3_class:
    def __init__(self, environ, start_response):
        self.start_response = start_response

    def __iter__(self):
        self.start_response("200 OK", TYPE)
        return iter([b"from ", b"__iter__"])


case(A3_class)


class OnlyGetitem:
    def __init__(self, items):
        self.items = items

    def __getitem__(self, index):
        return self.items[index]


ITERABLES = {
    "list": lambda: [b"a", b"b", b"c"],
    "tuple": lambda: (b"a", b"b", b"c"),
    "generator": lambda: (c for c in (b"a", b"b", b"c")),
    "iterator": lambda: iter([b"a", b"b", b"c"]),
    "getitem": lambda: OnlyGetitem([b"a", b"b", b"c"]),
    "set": lambda: {b"abc"},
    "dict": lambda: {b"a": 1, b"b": 2, b"c": 3},
    "dict_view": lambda: {1: b"a", 2: b"b", 3: b"c"}.values(),
    "map": lambda: map(bytes, [[97], [98], [99]]),
    "list_subclass": lambda: type("L", (list,), {})([b"a", b"b", b"c"]),
}


@case
def A4(environ, start_response):
    start_response("200 OK", TYPE)
    return ITERABLES[environ["QUERY_STRING"]]()


class Watched:
    """Notes every attribute that is asked for."""

    def __getattribute__(self, name):
        note("A5", name)
        return object.__getattribute__(self, name)

    def __iter__(self):
        return iter([b"watched"])

    def __len__(self):
        return 1

    def close(self):
        pass


@case
def A5(environ, start_response):
    start_response("200 OK", TYPE)
    return Watched()


variable = contextvars.ContextVar("variable", default="unset")


@case
def A8(environ, start_response):
    before = variable.get()
    variable.set("set by a request")
    return text(start_response, before)


@case
def A8_iteration(environ, start_response):
    """The call and the iteration are in one context."""
    start_response("200 OK", TYPE)
    variable.set("of this request")

    def items():
        yield variable.get().encode()
    return items()
