# SPDX-License-Identifier: MIT
"""/no_memory raises MemoryError, /fill takes what there is and keeps it."""

import json
import os

kept = []


def fill():
    size = 64 << 20
    while size >= 1024:
        try:
            kept.append(bytearray(size))
        except MemoryError:
            size //= 2
    raise MemoryError


def application(environ, start_response):
    if environ["PATH_INFO"] == "/no_memory":
        raise MemoryError
    if environ["PATH_INFO"] == "/fill":
        fill()
    start_response("200 OK", [("Content-Type", "application/json")])
    return [json.dumps(os.getpid()).encode()]
