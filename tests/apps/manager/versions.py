# SPDX-License-Identifier: MIT
"""A site whose version a test changes between two reloads, and whose requests
tell which process and which version answered.

In the folder of notes: `version` is read at import, `broken` makes the import
fail, `slow` makes it take its time.
"""

import atexit
import json
import os
import threading
import time

NOTES = os.environ["FOREBAY_TEST_NOTES"]


def note(name, line):
    with open(os.path.join(NOTES, name), "a") as f:
        f.write("%s\n" % line)


def read(name):
    try:
        with open(os.path.join(NOTES, name)) as f:
            return f.read().strip()
    except FileNotFoundError:
        return ""


VERSION = read("version")
note("imports", os.getpid())
if read("broken"):
    raise RuntimeError("a broken deploy")
if read("slow"):
    time.sleep(float(read("slow")))

lock = threading.Lock()
answered = 0


@atexit.register
def at_exit():
    note("atexit", os.getpid())


def me(**more):
    return json.dumps(dict({"pid": os.getpid(), "template": os.getppid(),
                            "version": VERSION}, **more)).encode()


def hold(environ):
    """Stay here until the test has sent the body."""
    note("holding", os.getpid())
    environ["wsgi.input"].read()
    return me()


def wait(environ):
    """Be busy for so many ms."""
    time.sleep(int(environ["QUERY_STRING"] or 20) / 1000)
    return me()


def count(environ):
    """How many requests this process has answered, this one included."""
    global answered
    with lock:
        answered += 1
        number = answered
    return me(number=number)


def threads(environ):
    """Wait in the main thread's place; count what runs at once."""
    note("running", os.getpid())
    time.sleep(int(environ["QUERY_STRING"] or 20) / 1000)
    return count(environ)


PAGES = {"/hold": hold, "/wait": wait, "/count": count, "/threads": threads}


def application(environ, start_response):
    body = PAGES.get(environ["PATH_INFO"], lambda environ: me())(environ)
    start_response("200 OK", [("Content-Type", "application/json"),
                              ("Content-Length", str(len(body)))])
    return [body]
