# SPDX-License-Identifier: MIT
"""/slow computes for tens of milliseconds, in Python; everything else answers
at once."""
from hello import application as hello

LOOPS = 1000000


def application(environ, start_response):
    if environ.get("PATH_INFO") == "/slow":
        total = 0
        for number in range(LOOPS):
            total += number
    return hello(environ, start_response)
