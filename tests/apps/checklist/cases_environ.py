# SPDX-License-Identifier: MIT
"""B: the environ."""

import os
from wsgiref.validate import validator

from app import CASES, as_json, case, text


def plain(environ):
    """What of environ goes into JSON."""
    return {k: v if isinstance(v, (str, bool, int, type(None))) else repr(v)
            for k, v in environ.items()}


@case
def environ(environ, start_response):
    return as_json(start_response, plain(environ))


kept = []


@case
def B1(environ, start_response):
    found = {
        "type": type(environ) is dict,
        "leak": "leak" in environ,
        "method": environ.get("REQUEST_METHOD"),
        "same": any(e is environ for e in kept),
        "kept_intact": all(e.get("leak") == 1 and "REQUEST_METHOD" not in e
                           for e in kept),
        "kept": len(kept),
    }
    environ["leak"] = 1
    environ["wsgi.version"] = "spoilt"
    del environ["REQUEST_METHOD"]
    kept.append(environ)
    return as_json(start_response, found)


@case
def B2(environ, start_response):
    wrong = [k for k, v in environ.items()
             if not isinstance(k, str) or ("." not in k and (
                 type(v) is not str or any(ord(c) > 255 for c in v)))]
    return as_json(start_response, {"wrong": wrong, "value": {
        k: v for k, v in environ.items() if k.startswith("TEST_")}})


@case
def B14(environ, start_response):
    v = environ["wsgi.version"]
    return as_json(start_response, [type(v) is tuple, v == (1, 0)])


@case
def B16(environ, start_response):
    names = ("wsgi.multithread", "wsgi.multiprocess", "wsgi.run_once")
    return as_json(start_response, [
        [type(environ[n]) is bool, environ[n]] for n in names])


@case
def B21(environ, start_response):
    return as_json(start_response, {
        "params_in_os": [k for k in ("HTTP_X_LEAK", "TEST_LEAK", "QUERY_STRING",
                                     "REQUEST_METHOD", "HTTP_PROXY")
                         if k in os.environ],
        "os_in_environ": [k for k in os.environ if k in environ],
    })


@case
def B22(environ, start_response):
    names = [k for k in environ if k.startswith("TEST_N")]
    return as_json(start_response, {
        "count": len(names),
        "bytes": sum(len(environ[k]) for k in names),
        "right": all(environ[k] == "v" * 20 + k for k in names)})


def validated_inner(environ, start_response):
    stream = environ["wsgi.input"]
    body = stream.read(3) + stream.readline(100) + b"".join(stream)
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [] if environ["REQUEST_METHOD"] == "HEAD" else [
        environ["REQUEST_METHOD"].encode(), b" ", body]


CASES["B24"] = validator(validated_inner)


@case
def B17(environ, start_response):
    return text(start_response, environ.get("wsgi.input_terminated") is True)
