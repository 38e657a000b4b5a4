# SPDX-License-Identifier: MIT
"""Output without newline before a crash, warnings, exceptions (R107)."""

import os
import signal
import sys


def application(environ, start_response):
    if environ["QUERY_STRING"] == "die":
        sys.stdout.write("without a newline")
        os.kill(os.getpid(), signal.SIGKILL)
    if environ["QUERY_STRING"] == "raise":
        raise LookupError("with warnings as errors")
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"fine"]
