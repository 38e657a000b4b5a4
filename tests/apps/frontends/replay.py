# SPDX-License-Identifier: MIT
"""The environ as JSON in the body, and of a HEAD request in a header (which
has no room for long values). The body is read to its end."""

import json


def application(environ, start_response):
    size = 0
    while True:
        piece = environ["wsgi.input"].read(65536)
        if not piece:
            break
        size += len(piece)
    found = {k: v for k, v in environ.items() if isinstance(v, str)}
    found["body length"] = size
    short = {k: v for k, v in found.items()
             if isinstance(v, int) or len(v) < 200}
    start_response("200 OK", [("Content-Type", "application/json"),
                              ("X-Short", json.dumps(short)[:16000])])
    return [json.dumps(found).encode()]
