# SPDX-License-Identifier: MIT
"""/slow sleeps 20 ms, everything else answers at once."""
import time

from hello import application as hello


def application(environ, start_response):
    if environ.get("PATH_INFO") == "/slow":
        time.sleep(0.02)
    return hello(environ, start_response)
