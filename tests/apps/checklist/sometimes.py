# SPDX-License-Identifier: MIT
"""Fails while it is imported when a file is there."""

import os

if os.path.exists(os.path.join(os.environ["FOREBAY_TEST_NOTES"], "broken")):
    raise RuntimeError("broken on purpose")


def application(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"works"]
