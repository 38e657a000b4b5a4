# SPDX-License-Identifier: MIT
"""What an application behind a front end gets to see: every path answers with
the environ as JSON and the request's body. X-Do asks for something else."""

import json
import os
import threading
from urllib.parse import unquote
from wsgiref.validate import validator


def read_all(environ):
    pieces = []
    while True:
        piece = environ["wsgi.input"].read(65536)
        if not piece:
            return b"".join(pieces)
        pieces.append(piece)


def show(environ, start_response):
    body = read_all(environ)
    found = {k: v if isinstance(v, (str, bool)) else repr(v)
             for k, v in environ.items()}
    found["body"] = (body if len(body) < 1000
                     else b"%d bytes" % len(body)).decode("latin-1")
    start_response("200 OK", [("Content-Type", "application/json")])
    return [json.dumps(found).encode()]


def header(environ, start_response):
    """QUERY_STRING "NAME:VALUE" as a header, beside a body and its length."""
    name, _, value = unquote(environ["QUERY_STRING"]).partition(":")
    body = b"not this"
    start_response("200 OK", [("Content-Type", "text/x-own"),
                              ("X-Kept", "yes"), ("Set-Cookie", "c=1"),
                              ("Content-Length", str(len(body))),
                              (name, value)])
    return [body]


def slow(environ, start_response):
    """A piece, and another one when the file is there."""
    folder = environ["QUERY_STRING"] or os.environ["FOREBAY_TEST_NOTES"]
    gate = os.path.join(folder, "gate")
    start_response("200 OK", [("Content-Type", "text/plain")])
    pause = threading.Event()
    with open(os.path.join(folder, "slow"), "a") as f:
        f.write("begun\n")
    yield b"first"
    while not os.path.exists(gate):
        pause.wait(0.01)
    yield b"second"


def pieces(environ, start_response):
    """Read as the body comes, with a note about the first piece."""
    found = [environ["wsgi.input"].read(5)]
    with open(os.path.join(os.environ["FOREBAY_TEST_NOTES"], "piece"),
              "w") as f:
        f.write(found[0].decode())
    found.append(environ["wsgi.input"].read(5))
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b",".join(found)]


def site(environ, start_response):
    do = {"header": header, "slow": slow, "pieces": pieces}.get(
        environ.get("HTTP_X_DO"), show)
    return do(environ, start_response)


def file(environ, start_response):
    """The file that the query string names, by wsgi.file_wrapper."""
    start_response("200 OK", [("Content-Type", "text/x-own"),
                              ("Set-Cookie", "c=1")])
    return environ["wsgi.file_wrapper"](
        open(unquote(environ["QUERY_STRING"]), "rb"))


def checked(environ, start_response):
    # wsgiref.validate does not know the method, and would hide the wrapper.
    if environ["REQUEST_METHOD"] == "PROPFIND":
        return site(environ, start_response)
    if environ.get("HTTP_X_DO") == "file":
        return file(environ, start_response)
    return validator(site)(environ, start_response)


application = checked
