# SPDX-License-Identifier: MIT
"""A file of 313 KB that looks like a PNG: by wsgi.file_wrapper, or below
/internal by the front end (X-Accel-Redirect). BENCH_PICTURE is its path."""
import os

PATH = os.environ["BENCH_PICTURE"]
SIZE = os.path.getsize(PATH)
HEADERS = [("Content-Type", "image/png"), ("Content-Length", str(SIZE))]
REDIRECT = [("Content-Type", "image/png"),
            ("X-Accel-Redirect", "/internal/" + os.path.basename(PATH)),
            ("Content-Length", "0")]


def application(environ, start_response):
    if environ.get("PATH_INFO") == "/accel":
        start_response("200 OK", REDIRECT[:])
        return []
    picture = open(PATH, "rb")
    start_response("200 OK", HEADERS[:])
    return environ["wsgi.file_wrapper"](picture, 64 * 1024)
