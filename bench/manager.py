#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""What the process manager costs, in numbers: the longest gap of a reload under
load, the memory of a Django pool with 8 workers beside uWSGI's, and the first
request of an idle pool that scales on demand.

usage: bench/manager.py [FOREBAY]        build/release/forebay by default

Needs python3-django, uwsgi-core and uwsgi-plugin-python3. On a busy machine only
the memory means anything.
"""

import os
import shutil
import signal
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
WORKLOADS = os.path.join(TOP, "bench", "workloads")
PAUSE = threading.Event()
# As Django has it without further settings: no connection outlives its request,
# so that a warm-up leaves none behind.
POOL = """from django.db import connections
from django_page import application
for connection in connections.all():
    connection.settings_dict["CONN_MAX_AGE"] = 0
"""
HELLO = """def application(environ, start_response):
    start_response("200 OK", [])
    return [b"hello"]
"""


def record(kind, content=b""):
    return struct.pack("!BBHHBB", 1, kind, 1, len(content), 0, 0) + content


def pair(name, value):
    return bytes([len(name), len(value)]) + name.encode() + value.encode()


PARAMS = b"".join(pair(*item) for item in {
    "REQUEST_METHOD": "GET", "REQUEST_URI": "/", "SCRIPT_NAME": "",
    "PATH_INFO": "/", "QUERY_STRING": "", "SERVER_NAME": "localhost",
    "SERVER_PORT": "80", "SERVER_PROTOCOL": "HTTP/1.1",
    "HTTP_HOST": "localhost"}.items())
FCGI = (record(1, struct.pack("!HB5x", 1, 0)) + record(4, PARAMS) + record(4)
        + record(5))


def uwsgi_packet():
    out = b""
    for name, value in (("REQUEST_METHOD", "GET"), ("REQUEST_URI", "/"),
                        ("PATH_INFO", "/"), ("QUERY_STRING", ""),
                        ("SERVER_NAME", "localhost"), ("SERVER_PORT", "80"),
                        ("SERVER_PROTOCOL", "HTTP/1.1"),
                        ("HTTP_HOST", "localhost")):
        for text in (name, value):
            out += struct.pack("<H", len(text)) + text.encode()
    return struct.pack("<BHB", 0, len(out), 0) + out


def ask(path, packet=FCGI):
    """One request; its time in ms. Raises when it was not answered well."""
    begin = time.monotonic()
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(30)
        s.connect(path)
        s.sendall(packet)
        answer = b""
        while True:
            data = s.recv(65536)
            if not data:
                break
            answer += data
    if b"200" not in answer[:64]:
        raise RuntimeError("no answer: %r" % answer[:200])
    return (time.monotonic() - begin) * 1000


def until_it_answers(path, packet=FCGI):
    end = time.monotonic() + 30
    while True:
        try:
            return ask(path, packet)
        except (OSError, RuntimeError):
            if time.monotonic() > end:
                raise
            PAUSE.wait(0.02)


def start(words, **how):
    return subprocess.Popen(words, stdout=subprocess.DEVNULL,
                            stderr=subprocess.DEVNULL, **how)


def stop(process):
    process.send_signal(signal.SIGINT)
    process.wait(60)


def family(pid):
    found = [pid]
    for p in found:
        for task in os.listdir("/proc/%d/task" % p):
            with open("/proc/%d/task/%s/children" % (p, task)) as f:
                found += [int(c) for c in f.read().split()]
    return found


def pss_mb(pid):
    total = 0
    for p in family(pid):
        with open("/proc/%d/smaps_rollup" % p) as f:
            total += sum(int(line.split()[1]) for line in f
                         if line.startswith("Pss:"))
    return total / 1024


def memory(forebay, folder):
    path = os.path.join(folder, "m")
    env = dict(os.environ, BENCH_DATABASE=os.path.join(folder, "db"),
               PYTHONPATH=WORKLOADS)
    with open(os.path.join(folder, "pool.py"), "w") as f:
        f.write(POOL)
    subprocess.run([sys.executable, "django_page.py"], cwd=WORKLOADS, env=env,
                   check=True, stdout=subprocess.DEVNULL)
    servers = {
        "forebay": [forebay, "serve", "--listen", path, "--workers", "8",
                    "--chdir", folder, "pool"],
        "forebay, warmup": [forebay, "serve", "--listen", path, "--workers",
                            "8", "--chdir", folder, "--warmup", "/", "pool"],
        "uWSGI": ["uwsgi", "--plugin", "python3", "--master", "--socket", path,
                  "--processes", "8", "--chdir", folder, "--module",
                  "pool:application", "--need-app"],
    }
    for name, words in servers.items():
        packet = uwsgi_packet() if name == "uWSGI" else FCGI
        server = start(words, env=env)
        until_it_answers(path, packet)
        threads = [threading.Thread(target=lambda p=packet: [
            ask(path, p) for _ in range(100)]) for _ in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        print("PSS of a Django pool, 8 workers, %-16s %6.1f MB"
              % (name + ":", pss_mb(server.pid)))
        stop(server)
        if os.path.exists(path):
            os.unlink(path)


def reload_gap(forebay, folder):
    path, app = os.path.join(folder, "r"), os.path.join(folder, "hello.py")
    with open(app, "w") as f:
        f.write(HELLO)
    server = start([forebay, "serve", "--listen", path, "--workers", "2", app])
    until_it_answers(path)
    over, times, failed = threading.Event(), [], []

    def load():
        while not over.is_set():
            try:
                ask(path)
                times.append(time.monotonic())
            except (OSError, RuntimeError) as e:
                failed.append(e)
    threads = [threading.Thread(target=load) for _ in range(4)]

    def longest(seconds, hups):
        begin = len(times)
        for _ in range(hups):
            server.send_signal(signal.SIGHUP)
            PAUSE.wait(seconds / hups)
        if hups == 0:
            PAUSE.wait(seconds)
        part = times[begin:]
        return 1000 * max(b - a for a, b in zip(part, part[1:]))
    for thread in threads:
        thread.start()
    PAUSE.wait(1)
    quiet, reloads = longest(5, 0), longest(5, 10)
    over.set()
    for thread in threads:
        thread.join()
    print("longest time without an answer, 4 clients: %.1f ms; with 10 "
          "reloads: %.1f ms; %d of %d failed"
          % (quiet, reloads, len(failed), len(times) + len(failed)))
    stop(server)


def on_demand(forebay, folder):
    path, app = os.path.join(folder, "o"), os.path.join(folder, "hello.py")
    server = start([forebay, "serve", "--listen", path, "--scaling", "ondemand",
                    "--max-workers", "4", "--idle-timeout", "100ms", app])
    until_it_answers(path)
    cold, warm = [], []
    for _ in range(20):
        while len(family(server.pid)) > 2:
            PAUSE.wait(0.05)
        cold.append(ask(path))
        warm += [ask(path) for _ in range(3)]
    print("on demand: first request of an idle pool %.1f ms (median), a warm "
          "one %.1f ms" % (statistics.median(cold), statistics.median(warm)))
    stop(server)


def main():
    forebay = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else
                              os.path.join(TOP, "build/release/forebay"))
    folder = tempfile.mkdtemp()
    try:
        reload_gap(forebay, folder)
        on_demand(forebay, folder)
        memory(forebay, folder)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
