# SPDX-License-Identifier: MIT
"""Servers that are measured: start, wait, look at, stop."""
import contextlib
import os
import random
import shutil
import signal
import socket
import subprocess
import time

from . import proc

BENCH = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
WORKLOADS = os.path.join(BENCH, "workloads")


class Failed(Exception):
    """A sentence for the person who runs the benchmark."""


class Missing(Failed):
    """A program that is not installed: its rows are left out."""


class Server:
    """A running server. sockets: protocol -> address of --connect."""

    stop_signal = signal.SIGTERM

    def __init__(self, name, argv, sockets, folder, env=None):
        self.name = name
        self.argv = argv
        self.started_at = time.monotonic()
        self.sockets = sockets
        self.log_path = os.path.join(folder, name + ".log")
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                cwd=folder, umask=0,
                start_new_session=True,     # Ctrl-C is for the measurement
                env={**os.environ, **(env or {}),
                     "PYTHONDONTWRITEBYTECODE": "1"})

    def log(self):
        with open(self.log_path, errors="replace") as f:
            return f.read()[-2000:]

    def wait_ready(self, seconds=60):
        """Until each address takes a connection."""
        deadline = time.monotonic() + seconds
        for address in self.sockets.values():
            while not connects(address):
                if self.process.poll() is not None:
                    raise Failed("%s ended with %s:\n%s" % (
                        self.name, self.process.returncode, self.log()))
                if time.monotonic() > deadline:
                    raise Failed("%s does not listen on %s:\n%s" % (
                        self.name, address, self.log()))
                time.sleep(0.02)

    def run_ns(self):
        return proc.tree_run_ns(self.process.pid)

    def pss_kb(self):
        return self.memory_kb()[0]

    def memory_kb(self):
        return proc.tree_memory_kb(self.process.pid)

    def pids(self):
        return proc.tree(self.process.pid)

    def stop(self):
        ours = proc.tree(self.process.pid)
        if self.process.poll() is None:
            self.process.send_signal(self.stop_signal)
        try:
            self.process.wait(15)
        except subprocess.TimeoutExpired:
            for pid in ours:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self.process.wait()


def connects(address):
    if address.startswith("unix:"):
        s, where = socket.socket(socket.AF_UNIX), address[5:]
    else:
        host, port = address.rsplit(":", 1)
        s, where = socket.socket(), (host, int(port))
    with s:
        try:
            s.connect(where)
            return True
        except OSError:
            return False


def find(program, why):
    found = shutil.which(program)
    if found is None:
        raise Missing("%s is not installed (%s)" % (program, why))
    return found


def forebay(name, setup, app, workers=2, threads=1, options=()):
    path = os.path.join(setup.folder, name + ".sock")
    argv = [setup.forebay, "serve", "--listen", "unix:" + path,
            "--workers", str(workers), "--pythonpath", WORKLOADS]
    if threads > 1:
        argv += ["--mode", "threaded", "--threads", str(threads)]
    argv += [*options, app]
    return Server(name, argv, {"fcgi": "unix:" + path}, setup.folder,
                  setup.env)


def uwsgi(name, setup, app, workers=2, threads=1, options=("--listen",
                                                           "1024")):
    program = find("uwsgi_python3", "uwsgi-core, uwsgi-plugin-python3")
    sockets, argv = {}, [program, "--master", "--processes", str(workers)]
    for protocol, option in (("fcgi", "--fastcgi-socket"),
                             ("scgi", "--scgi-socket")):
        path = os.path.join(setup.folder, "%s.%s" % (name, protocol))
        sockets[protocol] = "unix:" + path
        argv += [option, path]
    if threads > 1:
        argv += ["--threads", str(threads)]
    argv += ["--die-on-term", "--need-app", "--disable-logging",
             "--pythonpath", WORKLOADS, "--module", app, *options]
    return Server(name, argv, sockets, setup.folder, setup.env)


def libfcgi(name, setup, workers=2):
    path = os.path.join(setup.folder, name + ".sock")
    return Server(name, [setup.libfcgi, path, str(workers)],
                  {"fcgi": "unix:" + path}, setup.folder)


def bare(name, setup, kind, workers=2):
    """The same answers in C with the fewest system calls: the floor."""
    path = os.path.join(setup.folder, name + ".sock")
    return Server(name, [setup.bare, path, str(workers), kind],
                  {"fcgi": "unix:" + path}, setup.folder)


def free_port():
    """One that nobody uses, below those that the kernel gives to clients: the
    load makes thousands of connections, and one of them might have it before
    the server that it was looked up for."""
    with open("/proc/sys/net/ipv4/ip_local_port_range") as f:
        top = int(f.read().split()[0])
    while top > 10100:
        with socket.socket() as s, contextlib.suppress(OSError):
            s.bind(("127.0.0.1", random.randrange(10000, top)))
            return s.getsockname()[1]
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]
