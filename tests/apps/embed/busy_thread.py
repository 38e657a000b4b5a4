# SPDX-License-Identifier: MIT
"""A thread that is started at import and never rests (R094, R095)."""

import threading

counter = 0


def busy():
    global counter
    while True:
        counter += 1


threading.Thread(target=busy, name="never-rests", daemon=True).start()


def application(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [str(counter).encode()]
