# SPDX-License-Identifier: MIT
"""The application behind the WSGI tests: the parameter TEST_CASE says which
case of it runs. What a case has to tell after its response, or from a process
that does not live on, it writes into a file of FOREBAY_TEST_NOTES."""

import importlib
import json
import os

CASES = {}
NOTES = os.environ.get("FOREBAY_TEST_NOTES", "")


def case(function):
    CASES[function.__name__] = function
    return function


def note(name, text):
    fd = os.open(os.path.join(NOTES, name),
                 os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    try:
        os.write(fd, ("%s\n" % (text,)).encode("utf-8", "backslashreplace"))
    finally:
        os.close(fd)


def text(start_response, value, status="200 OK", headers=()):
    body = value if isinstance(value, bytes) else str(value).encode("utf-8")
    start_response(status, [("Content-Type", "text/plain; charset=utf-8")]
                   + list(headers))
    return [body]


def as_json(start_response, value):
    start_response("200 OK", [("Content-Type", "application/json")])
    return [json.dumps(value).encode("ascii")]


def application(environ, start_response):
    return CASES[environ["TEST_CASE"]](environ, start_response)


@case
def hello(environ, start_response):
    return text(start_response, "hello")


@case
def pid(environ, start_response):
    return text(start_response, os.getpid())


@case
def log_mark(environ, start_response):
    """A line of this worker's in the log."""
    environ["wsgi.errors"].write(environ["QUERY_STRING"] + "\n")
    return text(start_response, os.getpid())


for _name in ("call", "environ", "input", "errors", "response", "body",
              "failures", "files", "process"):
    importlib.import_module("cases_" + _name)
