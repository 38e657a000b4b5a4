# SPDX-License-Identifier: MIT
"""Long requests below /long, which end when their body is there; every other
path is answered at once. The query is noted when a request begins."""

import json
import os

NOTES = os.environ["FOREBAY_TEST_NOTES"]


def note(name, line):
    with open(os.path.join(NOTES, name), "a") as f:
        f.write("%s\n" % line)


def long(environ):
    note("begun", "%s %d" % (environ["QUERY_STRING"], os.getpid()))
    yield b"data\n"
    environ["wsgi.input"].read()
    note("ended", environ["QUERY_STRING"])
    yield json.dumps(os.getpid()).encode()


def application(environ, start_response):
    start_response("200 OK", [("Content-Type", "application/json")])
    if environ["PATH_INFO"].startswith("/long"):
        return long(environ)
    environ["wsgi.input"].read()
    return [json.dumps(os.getpid()).encode()]
