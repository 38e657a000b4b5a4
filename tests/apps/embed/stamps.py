# SPDX-License-Identifier: MIT
"""A thread of the application that works while no request is there (R099)."""

import os
import threading


def stamp():
    pause = threading.Event()
    name = os.path.join(os.environ["FOREBAY_TEST_NOTES"], "stamps")
    for i in range(40):
        pause.wait(0.01)
        with open(name, "a") as f:
            f.write("%d\n" % i)


def application(environ, start_response):
    threading.Thread(target=stamp, daemon=True).start()
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"ok"]
