# SPDX-License-Identifier: MIT
"""L: what the process looks like."""

import asyncio
import atexit
import hashlib
import json
import multiprocessing
import os
import pickle
import random
import signal
import ssl
import subprocess
import sys
import threading
import uuid

from app import as_json, case, note, text


def child_of_pool(n):
    return n * n


@case
def L1(environ, start_response):
    found = {"executable": sys.executable,
             "prefix": sys.prefix, "base_prefix": sys.base_prefix}
    out = subprocess.run(
        [sys.executable, "-c",
         "import sys; print('%d.%d' % sys.version_info[:2], sys.prefix)"],
        stdout=subprocess.PIPE, check=True).stdout.decode().split()
    found["child_version"], found["child_prefix"] = out
    found["version"] = "%d.%d" % sys.version_info[:2]
    return as_json(start_response, found)


@case
def L1_multiprocessing(environ, start_response):
    context = multiprocessing.get_context(environ["QUERY_STRING"])
    with context.Pool(2) as pool:
        return as_json(start_response, pool.map(child_of_pool, [1, 2, 3]))


class Pickled:
    def __init__(self, value):
        self.value = value


@case
def L2(environ, start_response):
    import app
    main = sys.modules["__main__"]
    return as_json(start_response, {
        "name": app.__name__,
        "file": app.__file__,
        "same": sys.modules["app"] is app,
        "main": sorted(n for n in vars(main) if not n.startswith("__")),
        "pickle": pickle.loads(pickle.dumps(Pickled(5))).value,
        "pickle_function": pickle.loads(pickle.dumps(child_of_pool))(3)})


@case
def L3(environ, start_response):
    return as_json(start_response, {
        "argv": sys.argv, "stdin": sys.stdin.read(),
        "types": [type(s).__name__ for s in (sys.stdin, sys.stdout,
                                             sys.stderr)],
        "fds": [s.fileno() for s in (sys.stdin, sys.stdout, sys.stderr)],
        "encodings": [s.encoding.lower() for s in (sys.stdout, sys.stderr)],
        "errors": sys.stderr.errors,
        "buffered": [s.write_through or s.line_buffering
                     for s in (sys.stdout, sys.stderr)]})


@case
def L4(environ, start_response):
    name = os.path.join(os.environ["FOREBAY_TEST_NOTES"], "\xe4\u65e5.txt")
    with open(name, "w") as f:
        f.write("\xe4\u65e5")
    with open(name) as f:
        content = f.read()
    os.unlink(name)
    print("L4 \xc9cole")
    return as_json(start_response, [sys.getfilesystemencoding(), content])


counter = {"n": 0}


def _count(stop):
    while not stop.wait(0.005):
        counter["n"] += 1


@case
def L5_start(environ, start_response):
    counter["stop"] = threading.Event()
    threading.Thread(target=_count, args=(counter["stop"],),
                     daemon=True).start()
    return text(start_response, counter["n"])


@case
def L5_note(environ, start_response):
    """A thread that writes notes while no request runs."""
    def beat():
        pause = threading.Event()
        for i in range(10):
            pause.wait(0.01)
            note("L5", i)
    threading.Thread(target=beat, daemon=True).start()
    return text(start_response, "started")


@case
def L6(environ, start_response):
    code = subprocess.run("exit 7", shell=True).returncode
    status = subprocess.run(
        ["sed", "-n", "s/^Sig\\(Blk\\|Ign\\):\\t//p", "/proc/self/status"],
        stdout=subprocess.PIPE).stdout.decode().split()
    pid = os.fork()
    if pid == 0:
        os._exit(9)
    forked = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    found = []
    thread = threading.Thread(target=lambda: found.append(
        subprocess.run(["sh", "-c", "exit 5"]).returncode))
    thread.start()
    thread.join()
    popen = os.popen("exit 4").close()
    return as_json(start_response, {
        "code": code, "forked": forked, "thread": found[0],
        "blocked": status[0], "ignored": status[1],
        "popen": os.waitstatus_to_exitcode(popen)})


def wait_for_ever():
    threading.Event().wait()


@case
def L6_terminate(environ, start_response):
    """A forked child of the application can be ended by SIGTERM."""
    child = multiprocessing.get_context("fork").Process(target=wait_for_ever)
    child.start()
    child.terminate()
    child.join(5)
    code = child.exitcode
    child.kill()
    child.join()
    return text(start_response, code)


@case
def L7(environ, start_response):
    def handler(number, frame):
        note("L7", "handled in %d" % os.getpid())
    try:
        signal.signal(signal.SIGUSR1, handler)
    except ValueError:
        return text(start_response, "ValueError")
    return text(start_response, os.getpid())


@case
def L7_alarm(environ, start_response):
    """A handler that interrupts a read() of the body."""
    def handler(number, frame):
        note("L7", "alarm")
    signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    return text(start_response, environ["wsgi.input"].read())


@case
def L10(environ, start_response):
    """Held until the test, which has seen the first chunk, sends the body."""
    start_response("200 OK", [("Content-Type", "text/plain")])
    if environ["REQUEST_METHOD"] == "POST":
        yield b"held"
        environ["wsgi.input"].read()
    yield json.dumps([os.getpid(), random.random(), str(uuid.uuid4()),
                      ssl.RAND_bytes(8).hex()]).encode()


local = threading.local()


@case
def L11(environ, start_response):
    local.n = getattr(local, "n", 0) + 1
    if not hasattr(local, "loop"):
        local.loop = asyncio.new_event_loop()

    async def add():
        await asyncio.sleep(0)
        return local.n
    return as_json(start_response, [
        threading.get_ident(), local.n, local.loop.run_until_complete(add())])


@case
def L12(environ, start_response):
    return text(start_response,
                threading.current_thread() is threading.main_thread())


SHOW_DESCRIPTORS = """
import json, os
found = {}
for n in os.listdir("/proc/self/fd"):
    try:
        found[n] = os.readlink("/proc/self/fd/" + n)
    except FileNotFoundError:
        pass            # the one that listed them
print(json.dumps(found))
"""


@case
def L13(environ, start_response):
    """What a child inherits although it closes nothing itself."""
    out = subprocess.run([sys.executable, "-S", "-c", SHOW_DESCRIPTORS],
                         close_fds=False, stdout=subprocess.PIPE).stdout
    mine = {n: os.readlink("/proc/self/fd/%d" % n) for n in (0, 1, 2)}
    return as_json(start_response, {"child": json.loads(out), "mine": mine})


@case
def L14(environ, start_response):
    return as_json(start_response, sys.path)


@case
def L15(environ, start_response):
    """Mixes what belongs to the request from every place."""
    key = environ["QUERY_STRING"]
    body = environ["wsgi.input"].read()
    h = hashlib.sha256(body).hexdigest()
    start_response("200 OK", [("Content-Type", "text/plain"),
                              ("X-Key", key),
                              ("X-Header", environ["HTTP_X_KEY"])])
    yield key.encode() + b" "
    yield environ["PATH_INFO"].encode() + b" "
    yield h.encode()


def _at_exit():
    if "FOREBAY_TEST_NOTES" in os.environ:
        note("atexit", os.getpid())


atexit.register(_at_exit)
