# SPDX-License-Identifier: MIT
"""1 MB in 64 chunks, each of which is sent by itself."""

CHUNK = b"0123456789abcdef" * 1024
COUNT = 64
HEADERS = [("Content-Type", "application/octet-stream"),
           ("Content-Length", str(len(CHUNK) * COUNT))]


def application(environ, start_response):
    start_response("200 OK", HEADERS[:])
    for _ in range(COUNT):
        yield CHUNK
