# SPDX-License-Identifier: MIT
"""A small answer with its length after a moment, in one piece: who gave it.
/hold waits for a file."""

import os
import threading

NAME = os.environ.get("FOREBAY_TEST_HOST", "").encode()
NOTES = os.environ.get("FOREBAY_TEST_NOTES", "")


def application(environ, start_response):
    pause = threading.Event()
    if environ["PATH_INFO"] == "/hold":
        with open(os.path.join(NOTES, "hold"), "ab") as f:
            f.write(NAME + b"\n")
        while not os.path.exists(os.path.join(NOTES, "gate")):
            pause.wait(0.01)
    else:
        pause.wait(0.01)
    start_response("200 OK", [("Content-Type", "text/plain"),
                              ("Content-Length", str(len(NAME)))])
    return [NAME]
