# SPDX-License-Identifier: MIT
"""Leaves something behind at import (LEAVES), and tells about its process."""

import json
import os
import socket
import subprocess
import tempfile
import threading

IMPORTER = os.getpid()
WHAT = os.environ["LEAVES"]
NOTES = os.environ.get("FOREBAY_TEST_NOTES", "")
count = 0

if WHAT == "thread":
    threading.Thread(target=threading.Event().wait, name="left-behind",
                     daemon=True).start()
elif WHAT == "socket":
    left = socket.create_connection(("127.0.0.1",
                                     int(os.environ["LEAVES_PORT"])))
elif WHAT == "file":
    left = tempfile.NamedTemporaryFile("w")
elif WHAT == "child":
    # Ends by itself when nobody holds the other end of its input.
    left = subprocess.Popen(["cat"], stdin=subprocess.PIPE)


def note(name, line):
    with open(os.path.join(NOTES, name), "a") as f:
        f.write("%s\n" % line)


def orphan():
    """A grandchild whose parent has gone."""
    pid = os.fork()
    if pid == 0:
        if os.fork() == 0:
            os._exit(3)
        os._exit(4)
    os.waitpid(pid, 0)


def application(environ, start_response):
    global count
    count += 1
    note("requests", "%s %d" % (environ["PATH_INFO"], os.getpid()))
    if environ["QUERY_STRING"] == "wait":
        note("waiting", os.getpid())
        environ["wsgi.input"].read()
    if environ["QUERY_STRING"] == "orphan":
        orphan()
    mask = os.umask(0)
    os.umask(mask)
    found = {"importer": IMPORTER, "pid": os.getpid(), "count": count,
             "uids": os.getresuid(), "gids": os.getresgid(),
             "groups": sorted(os.getgroups()), "cwd": os.getcwd(),
             "umask": mask, "env": {k: v for k, v in os.environ.items()
                                    if k in ("TEST_SETTING", "FROM_OUTSIDE",
                                             "HOME", "USER")}}
    start_response("200 OK", [("Content-Type", "application/json")])
    return [json.dumps(found).encode()]
