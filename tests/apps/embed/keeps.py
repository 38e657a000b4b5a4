# SPDX-License-Identifier: MIT
"""Keeps what belonged to a request, and uses it later (R117)."""

import json

kept = {}


class UsesInDel:
    def __init__(self, environ):
        self.environ = environ

    def __del__(self):
        try:
            self.environ["wsgi.input"].read()
        except ValueError:
            pass
        self.environ["wsgi.errors"].flush()


def attempt(call):
    try:
        call()
    except Exception as e:
        return type(e).__name__
    return "fine"


def application(environ, start_response):
    if environ["QUERY_STRING"] == "del":
        kept["cycle"] = UsesInDel(environ)
        environ["cycle"] = kept["cycle"]
        start_response("200 OK", [("Content-Type", "text/plain")])
        return [b"deleted"]
    if not kept:
        kept.update(environ=environ,
                    write=start_response("200 OK", [("X-A", "1")]))
        return [b"kept"]
    old = kept["environ"]
    found = {"input": attempt(old["wsgi.input"].read),
             "errors": attempt(lambda: old["wsgi.errors"].write("late\n")),
             "write": attempt(lambda: kept["write"](b"late")),
             "environ": old["REQUEST_METHOD"]}
    start_response("200 OK", [("Content-Type", "application/json")])
    return [json.dumps(found).encode()]
