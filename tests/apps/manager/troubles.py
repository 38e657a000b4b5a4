# SPDX-License-Identifier: MIT
"""Applications that make life hard for whoever runs them. TROUBLE says what
happens at import, the path what happens in a request."""

import atexit
import ctypes
import faulthandler
import json
import multiprocessing
import os
import signal
import socket
import subprocess
import threading
import time

import forebay

NOTES = os.environ["FOREBAY_TEST_NOTES"]
TROUBLE = os.environ.get("TROUBLE", "")


def note(name, line):
    with open(os.path.join(NOTES, name), "a") as f:
        f.write("%s\n" % line)


def exists(name):
    return os.path.exists(os.path.join(NOTES, name))


def until(name):
    while not exists(name):
        time.sleep(0.01)


note("imports", os.getpid())
if TROUBLE == "abort" or exists("abort"):
    os.abort()
if TROUBLE == "ignores":
    for number in ("TERM", "INT", "HUP", "QUIT", "USR1", "USR2", "CHLD",
                   "PIPE", "TTIN", "TTOU"):
        signal.signal(getattr(signal, "SIG" + number), signal.SIG_IGN)
if TROUBLE == "handles":
    signal.signal(signal.SIGUSR1, lambda *args: note("handled", os.getpid()))
    faulthandler.register(signal.SIGUSR2)
if TROUBLE == "slow":
    time.sleep(0.3)
if TROUBLE == "echo":
    connection = socket.create_connection(
        ("127.0.0.1", int(os.environ["ECHO_PORT"])))

if TROUBLE == "daemons":
    try:
        import numpy
    except ImportError:
        numpy = None


def spin():
    numbers = numpy.ones(1000) if numpy else None
    while True:
        if numbers is not None:
            numbers = (numbers + 1) % 7


def stuck_in_accept(listener):
    listener.accept()


@forebay.worker_start
def start():
    note("ready", os.getpid())
    if TROUBLE == "daemons":
        for _ in range(2):
            threading.Thread(target=spin, daemon=True).start()
    if TROUBLE == "lingers":
        listener = socket.socket()
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        threading.Thread(target=stuck_in_accept, args=(listener,),
                         name="waits-for-ever").start()


@forebay.worker_exit
def leave():
    note("hook", os.getpid())


@atexit.register
def at_exit():
    note("atexit", os.getpid())


def page_block_signals(environ):
    signal.pthread_sigmask(signal.SIG_BLOCK, set(signal.Signals))
    return os.getpid()


def page_handlers(environ):
    """What is set for the signals, and a child that needs the defaults."""
    found = {n: signal.getsignal(getattr(signal, "SIG" + n)) == signal.SIG_IGN
             for n in ("TERM", "INT", "HUP", "USR1", "USR2", "PIPE")}
    shell = subprocess.run(["sh", "-c", "kill -TERM $$"])
    found["child"] = shell.returncode
    return found


def page_forked(environ):
    """A child by multiprocessing that stays when the response has left."""
    multiprocessing.set_start_method("fork", force=True)
    multiprocessing.Process(target=until, args=("release",)).start()
    return "ok"


def page_comes_back(environ):
    """The child does what the parent does."""
    parent = os.getpid()
    if os.fork() == 0:
        note("came_back", os.getpid())
    return parent


def page_subprocess(environ):
    child = subprocess.Popen(["sleep", "600"])
    note("children", child.pid)
    if environ["QUERY_STRING"] == "hang":
        while True:
            try:
                ctypes.CDLL(None).pause()
            except BaseException:
                pass
    return child.pid


def page_orphans(environ):
    """Strangers for whoever is the reaper, with exit codes 3 and 4."""
    subprocess.run(["sh", "-c", "(sleep 0.05; exit 3) & (exit 4) & exit 0"])
    return os.getpid()


def page_ids(environ):
    return {"uids": os.getresuid(), "gids": os.getresgid(),
            "groups": sorted(os.getgroups())}


def page_echo(environ):
    """Ask on the connection that was made at import; only this answer may
    come back."""
    token = environ["QUERY_STRING"].encode()
    connection.sendall(b"%04d" % len(token) + token)
    size = int(connection.recv(4, socket.MSG_WAITALL))
    return connection.recv(size, socket.MSG_WAITALL).decode()


def page_own_site(environ):
    """After the response: a request to the own site."""
    forebay.after_response(ask_own_site, environ["QUERY_STRING"])
    return "early"


def ask_own_site(port):
    with socket.create_connection(("127.0.0.1", int(port)), 60) as s:
        s.sendall(b"GET /from-within HTTP/1.0\r\n\r\n")
        answer = b""
        while True:
            piece = s.recv(4096)
            if not piece:
                break
            answer += piece
    note("own", answer.split(b"\r\n")[0].decode())


def page_stream(environ):
    """An endless stream of events, one a while."""
    note("streams", os.getpid())
    return iter(event, None)


def event():
    time.sleep(0.02)
    return b"data: x\n\n"


def page_threads(environ):
    """A thread of the pool that is occupied for a moment."""
    time.sleep(0.05)
    return os.getpid()


def application(environ, start_response):
    page = globals().get("page_" + environ["PATH_INFO"].strip("/"))
    found = page(environ) if page else os.getpid()
    start_response("200 OK", [("Content-Type", "application/json")])
    if hasattr(found, "__next__"):
        return found
    return [json.dumps(found).encode()]
