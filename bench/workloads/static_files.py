# SPDX-License-Identifier: MIT
"""A file of BENCH_FILES: /wrapper/NAME by wsgi.file_wrapper, /accel/NAME by
X-Accel-Redirect (nginx), /sendfile/NAME by X-Sendfile (lighttpd)."""
import os

FOLDER = os.environ["BENCH_FILES"]
TYPE = ("Content-Type", "application/octet-stream")


def application(environ, start_response):
    how, _, name = environ["PATH_INFO"].lstrip("/").partition("/")
    path = os.path.join(FOLDER, os.path.basename(name))
    if how == "accel":
        start_response("200 OK", [TYPE, ("X-Accel-Redirect",
                                         "/internal/" + name)])
        return []
    if how == "sendfile":
        start_response("200 OK", [TYPE, ("X-Sendfile", path)])
        return []
    found = open(path, "rb")
    start_response("200 OK", [TYPE, ("Content-Length",
                                     str(os.path.getsize(path)))])
    return environ["wsgi.file_wrapper"](found, 64 * 1024)
