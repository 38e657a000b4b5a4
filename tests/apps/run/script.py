#!/usr/bin/env -S forebay run
# SPDX-License-Identifier: MIT
"""One file that a web server starts by itself. /hold notes that it is there,
waits until the test opens the gate, and notes that it has finished; notes lie
beside the file, since mod_fcgid passes hardly any environment."""

import json
import os
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))


def note(name):
    with open(os.path.join(HERE, name), "a") as f:
        f.write("%d\n" % os.getpid())


def hold():
    note("holding")
    while not os.path.exists(os.path.join(HERE, "gate")):
        time.sleep(0.01)
    note("finished")


def application(environ, start_response):
    path = environ["SCRIPT_NAME"] + environ["PATH_INFO"]
    body = environ["wsgi.input"].read()
    if path.endswith("/hold"):
        hold()
    start_response("200 OK", [("Content-Type", "application/json")])
    return [json.dumps({
        "pid": os.getpid(), "path": path, "body": len(body),
        "cwd": os.getcwd(), "argv": sys.argv, "environ": dict(os.environ),
        "multithread": environ["wsgi.multithread"],
        "multiprocess": environ["wsgi.multiprocess"]}).encode()]
