# SPDX-License-Identifier: MIT
"""Read an upload in pieces of 64 KB, as frameworks do, and say how long it
was."""

PIECE = 64 * 1024


def application(environ, start_response):
    left = int(environ["CONTENT_LENGTH"])
    read = environ["wsgi.input"].read
    total = 0
    while left > 0:
        piece = read(min(PIECE, left))
        if not piece:
            break
        total += len(piece)
        left -= len(piece)
    body = b"%d\n" % total
    start_response("200 OK", [("Content-Type", "text/plain"),
                              ("Content-Length", str(len(body)))])
    return [body]
