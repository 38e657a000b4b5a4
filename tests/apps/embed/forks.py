# SPDX-License-Identifier: MIT
"""os.fork, subprocess and popen at import, in a view and in a thread
(R100)."""

import json
import os
import subprocess
import threading


def all_kinds():
    pid = os.fork()
    if pid == 0:
        os._exit(3)
    forked = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    called = subprocess.call(["sh", "-c", "exit 4"])
    with os.popen("echo out") as f:
        out = f.read().strip()
    return [forked, called, out]


found = {"import": all_kinds()}


def application(environ, start_response):
    found["view"] = all_kinds()
    thread = threading.Thread(target=lambda: found.update(thread=all_kinds()))
    thread.start()
    thread.join()
    start_response("200 OK", [("Content-Type", "application/json")])
    return [json.dumps(found).encode()]
