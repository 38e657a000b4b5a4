# SPDX-License-Identifier: MIT
"""Children with exit status 7, from every place (R077)."""

import json
import subprocess
import threading

import forebay


def seven():
    return subprocess.run("exit 7", shell=True).returncode


codes = {"import": seven()}


@forebay.worker_start
def hook():
    codes["hook"] = seven()


def application(environ, start_response):
    codes["view"] = seven()
    thread = threading.Thread(target=lambda: codes.update(thread=seven()))
    thread.start()
    thread.join()
    start_response("200 OK", [("Content-Type", "application/json")])
    return [json.dumps(codes).encode()]
