# SPDX-License-Identifier: MIT
"""Hooks of the module forebay, atexit, and threads that stay."""

import atexit
import os
import threading

import forebay


def note(name):
    with open(os.path.join(os.environ["FOREBAY_TEST_NOTES"], name), "a") as f:
        f.write("%d\n" % os.getpid())


@forebay.worker_start
def started():
    note("worker_start")


@forebay.worker_exit
def ended():
    note("worker_exit")


atexit.register(note, "atexit")
forever = threading.Event()


def application(environ, start_response):
    if environ["QUERY_STRING"]:
        threading.Thread(target=forever.wait,
                         daemon=environ["QUERY_STRING"] == "daemon").start()
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"ok"]
