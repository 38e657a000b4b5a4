# SPDX-License-Identifier: MIT
"""What capturing and launching libraries do with the standard streams
(R139)."""

import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile


def capture():
    """Descriptor 1 into a file and back, as test runners do it."""
    sys.stdout.flush()
    saved = os.dup(1)
    with tempfile.TemporaryFile("w+") as f:
        os.dup2(f.fileno(), 1)
        try:
            print("captured")
            sys.stdout.flush()
        finally:
            os.dup2(saved, 1)
            os.close(saved)
        f.seek(0)
        return f.read()


def application(environ, start_response):
    found = {"run": subprocess.run(["echo", "from a child"],
                                   stdout=sys.stderr).returncode,
             "captured": capture()}
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        print("r")
    found["redirected"] = text.getvalue()
    try:
        input()
    except EOFError:
        found["input"] = "EOFError"
    os.write(2, b"os.write\n")
    found["pid"] = os.fstat(1).st_mode == os.fstat(2).st_mode
    start_response("200 OK", [("Content-Type", "application/json")])
    return [json.dumps(found).encode()]
