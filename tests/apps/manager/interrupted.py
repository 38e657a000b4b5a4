# SPDX-License-Identifier: MIT
"""Blocks in a system call; EINTR is noted and not repeated (R067)."""

import ctypes
import ctypes.util
import os
import time

libc = ctypes.CDLL(None, use_errno=True)


def application(environ, start_response):
    if environ["PATH_INFO"] == "/ctypes":
        interrupted = libc.usleep(20000) != 0
    else:
        began = time.monotonic()
        time.sleep(0.02)
        interrupted = time.monotonic() - began < 0.02
    if interrupted:
        with open(os.path.join(os.environ["FOREBAY_TEST_NOTES"],
                               "interrupted"), "a") as f:
            f.write(environ["PATH_INFO"] + "\n")
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"ok"]
