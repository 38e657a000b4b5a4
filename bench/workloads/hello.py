# SPDX-License-Identifier: MIT
"""The smallest answer: what is measured is the server."""

BODY = b"Hello, world!\n"
HEADERS = [("Content-Type", "text/plain"),
           ("Content-Length", str(len(BODY)))]


def application(environ, start_response):
    start_response("200 OK", HEADERS[:])
    return [BODY]
