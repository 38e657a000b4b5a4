# SPDX-License-Identifier: MIT
"""Takes its time to import."""

import os
import threading

with open(os.path.join(os.environ["FOREBAY_TEST_NOTES"], "importing"),
          "a") as f:
    f.write("%d\n" % os.getpid())
threading.Event().wait(0.3)


def application(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"ok"]
