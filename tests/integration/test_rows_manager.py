# SPDX-License-Identifier: MIT
"""What broke for users of other servers around the process manager: rows of
the reports. R066, R067 and R069 are in test_reload.py, R004 in
test_handover.py, R074, R114 and R115 in test_deadlines.py, R079 and R080 in
test_upgrade.py, R092 in test_manager.py."""

import fcntl
import json
import os
import pty
import re
import signal
import socket
import socketserver
import termios
import threading

import pytest

from lib import fcgi, mounts, proc
from lib import frontends as fe
from lib import server as srv
from lib.load import Direct, Http, Load, Wrong
from lib.wait import FACTOR, LONG, TIMEOUT, holds_for, wait_for


@pytest.fixture
def troubles(versions):
    """tests/apps/manager/troubles.py, in both shapes."""
    def start(trouble="", **options):
        env = dict({"TROUBLE": trouble}, **options.pop("env", {}))
        return versions("troubles", env=env, **options)
    return start


@pytest.fixture
def troubles_once(versions_once):
    def start(trouble="", **options):
        env = dict({"TROUBLE": trouble}, **options.pop("env", {}))
        return versions_once("troubles", env=env, **options)
    return start


def replaced(s):
    return len(s.server.log.find("is replaced", 0))


# Early ends and the own site

@pytest.mark.parametrize("kind", [fe.Nginx, fe.NginxKept],
                         ids=lambda k: k.__name__)
def test_R002_an_application_that_asks_its_own_site(troubles_once, front,
                                                    kind):
    """After the response has left, over the same front end, which keeps its
    connections: the request within goes to the other worker."""
    s = troubles_once(workers=2)
    web = front(kind, s.server.address)
    for n in range(1, 11):
        status, _, body = web.request("/own_site?%d" % web.port)
        assert (status, body) == (200, b'"early"')
        assert s.notes.wait("own", n)[-1].split()[1] == "200"


# Signals and the application

@pytest.mark.parametrize("order", ["TTOU", "HUP", "TERM"])
def test_R070_a_worker_that_blocks_all_signals(troubles, order):
    """Orders go by a pipe: it is let go, replaced and stopped all the
    same."""
    s = troubles(workers=2)
    blocked = {s.ask("/block_signals") for _ in range(4)}
    assert blocked <= set(s.server.workers())
    if order == "TTOU":
        s.server.process.send_signal(signal.SIGTTOU)
        s.server.wait_workers(1)
    elif order == "HUP":
        s.reload()
        assert not blocked & set(s.server.workers())
    s.server.stop()
    assert not s.server.log.find("is killed|killed by", 0)


def test_R109_an_application_that_ignores_signals(troubles):
    """TERM, INT, HUP and more are ignored at import: nothing of ours depends
    on them, and what it starts gets what it has."""
    s = troubles("ignores", workers=2, max_worker_age="2s")
    found = s.ask("/handlers")
    assert found.pop("child") in (0, -signal.SIGTERM)
    assert all(found.values())
    first = s.server.workers()
    s.reload()
    assert not set(first) & set(s.server.workers())
    s.server.process.send_signal(signal.SIGTTOU)
    s.server.wait_workers(1)
    wait_for(lambda: replaced(s), "one that is too old", 2 * TIMEOUT)
    s.server.stop()
    assert not s.server.log.find("is killed|killed by", 0)


@pytest.mark.parametrize("preload", ["on", "off"])
def test_R109_handlers_that_are_set_at_import(troubles, preload):
    """They are there in the workers, preloaded or not."""
    s = troubles("handles", workers=2, preload=preload)
    before = s.server.workers()
    for n, worker in enumerate(before):
        os.kill(worker, signal.SIGUSR2)
        s.server.log.wait("most recent call first", n + 1)
        os.kill(worker, signal.SIGUSR1)
    wait_for(lambda: s.ask() and len(s.notes.read("handled")) == 2,
             "Python's handlers have run")
    assert sorted(int(p) for p in s.notes.read("handled")) == before
    assert s.server.workers() == before


def test_R090_window_changes_and_the_job_control(troubles_once):
    """WINCH is nothing; a manager that was stopped by the terminal goes on
    where it was."""
    # TSTP stops nobody in an orphaned process group, which ours may be; one of
    # its own has its parent in another group of the same session.
    s = troubles_once(workers=2, popen={"preexec_fn": os.setpgrp})
    before = s.server.workers()
    s.server.process.send_signal(signal.SIGWINCH)
    s.server.process.send_signal(signal.SIGTSTP)
    wait_for(lambda: proc.stat(s.server.pid)[0] == "T", "it is stopped")
    for _ in range(4):
        assert s.ask() in before        # workers need no manager
    s.server.process.send_signal(signal.SIGCONT)
    wait_for(lambda: proc.stat(s.server.pid)[0] != "T", "it goes on")
    assert s.server.workers() == before
    s.reload()


def test_R090_a_terminal_that_is_lost(troubles_once):
    """The HUP of the kernel is no order to reload; that of a person is."""
    master, slave = pty.openpty()

    def take_terminal():
        os.setsid()
        fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
    s = troubles_once(workers=2, popen={"preexec_fn": take_terminal,
                                        "pass_fds": [slave]})
    os.close(slave)
    before = s.server.workers()
    os.close(master)
    s.server.log.wait("the terminal is gone")
    assert s.ask() in before
    assert s.server.workers() == before and s.ready() == 1
    s.reload()
    assert s.ready() == 2


# Recycling

def test_R071_one_after_the_other(troubles):
    """Workers that all reach max_requests together, with an import that takes
    its time: another one is ready before one goes, one at a time."""
    s = troubles("slow", workers=3, preload="off", max_requests=20)
    s.server.wait_workers(3)
    least, most = [99], [0]

    def look():
        alive = s.server.workers()
        ready = {int(p) for p in s.notes.read("ready")}
        count = len(ready & set(alive))
        least[0], most[0] = min(least[0], count), max(most[0], len(alive))
        return replaced(s) >= 6
    with Load(lambda: Direct(s.server.address), 4):
        wait_for(look, "six have been replaced", 4 * TIMEOUT)
    assert least[0] >= 3, "%d were ready at some moment" % least[0]
    assert most[0] <= 4, "%d workers at some moment" % most[0]


def test_R071_no_limit_means_never(troubles):
    s = troubles(workers=2, max_requests=0)
    before = s.server.workers()
    with Load(lambda: Direct(s.server.address, keep=True), 2) as load:
        load.wait(200)
    assert s.server.workers() == before and not replaced(s)


def test_R072_threads_and_the_end_of_a_worker(troubles_once):
    """Many threads, few requests in a life: none is lost, atexit and the hook
    ran once in each."""
    s = troubles_once(mode="threaded", threads=20, workers=1, max_requests=20)
    with Load(lambda: Direct(s.server.address, "/threads"), 20) as load:
        wait_for(lambda: replaced(s) >= 3, "three have been replaced",
                 2 * TIMEOUT)
        load.wait(20)
    s.server.stop()
    lives = set(s.notes.read("ready"))
    for name in ("atexit", "hook"):
        assert sorted(s.notes.read(name)) == sorted(lives)


def test_R096_daemon_threads_at_the_end(troubles_once):
    """Threads in a tight loop, numpy imported: exit code 0 each time."""
    s = troubles_once("daemons", workers=3, max_requests=1, max_recycling=3)
    with Load(lambda: Direct(s.server.address), 2):
        wait_for(lambda: len(s.server.log.find("has ended", 0)) >= 40,
                 "forty have ended", 4 * TIMEOUT)
    assert not s.server.log.find("killed by|exited with code", 0)


@pytest.mark.parametrize("threads", [1, 4])
def test_R097_a_thread_that_is_no_daemon(troubles_once, threads):
    """The worker cannot end by itself; another one serves meanwhile, the log
    says which thread it is and where, and the deadline ends it."""
    s = troubles_once("lingers", workers=1, threads=threads,
                      graceful_timeout="%gs" % (2 * FACTOR))
    old, = s.server.workers()
    s.server.process.send_signal(signal.SIGTTIN)
    s.server.wait_workers(2)
    s.server.process.send_signal(signal.SIGTTOU)
    line, = s.server.log.wait("waits for thread waits-for-ever")
    leaving = int(re.search(r"main\[(\d+)\]", line).group(1))
    s.server.log.wait(r"troubles\.py.* in stuck_in_accept")
    assert s.ask() != leaving
    s.server.expect_error("worker %d was killed by signal 9" % leaving)
    assert s.server.log.find("worker %d has not ended within graceful_timeout"
                             % leaving)
    s.server.terminate()
    assert s.server.wait_exit() == 0


def test_R097_threading_imported_by_a_request(serve):
    """Whichever thread comes first is not taken for the main one, for which the
    end of the worker would wait."""
    server = serve("late_threading", mode="threaded", threads=4, workers=1,
                   chdir=os.path.join(srv.APPS, "embed"))
    found = {server.request("/").text for _ in range(40)}
    assert found <= {"main", "other"}
    with Load(lambda: Direct(server.address), 4) as load:
        load.wait(40)
    server.stop()
    assert not server.log.find("waits for thread", 0)


def test_R096_hooks_and_streams_at_the_end(troubles):
    """Every way out runs what was registered, once."""
    s = troubles(workers=2)
    first = s.server.workers()
    s.reload()
    assert sorted(int(p) for p in s.notes.wait("atexit", 2)) == sorted(first)
    s.server.stop()
    assert len(s.notes.read("atexit")) == len(s.notes.read("hook")) == 4


# Death

@pytest.mark.parametrize("preload", ["on", "off"])
def test_R082_a_crash_at_import(fails, versions_once, epoll_shape, notes,
                                preload):
    """The first start gives up after max_start_failures, with an exit code."""
    from lib.site import MANAGER
    code, log = fails("troubles", chdir=MANAGER,
                      env=dict(notes.env(), TROUBLE="abort"),
                      **epoll_shape.options(preload=preload, workers=1,
                                            max_start_failures=3))
    assert code == 1
    assert len(notes.read("imports")) == 3
    assert len(re.findall(r"killed by signal 6", log)) == 3
    assert "cannot start" in log or "end before they are ready" in log


@pytest.mark.parametrize("preload", ["on", "off"])
def test_R082_a_crash_at_import_later(troubles, preload):
    """Not in a tight loop, and it recovers by itself."""
    s = troubles(workers=2, preload=preload)
    before = s.server.workers()
    s.put("abort", "yes")
    imports = len(s.notes.read("imports"))
    s.server.errors_expected = True
    if preload == "on":
        s.hup()
        s.server.log.wait("reload refused")
        assert s.server.workers() == before
    else:
        os.kill(before[0], signal.SIGKILL)
        # 0, 100, 200, 400 ms ...
        s.notes.wait("imports", imports + 3)
        holds_for(lambda: len(s.notes.read("imports")) < imports + 10, 1,
                  "pauses that grow")
    for _ in range(4):
        assert s.ask() == before[1] or preload == "on"
    os.unlink(os.path.join(s.notes.dir, "abort"))
    if preload == "on":
        s.reload()
    wait_for(lambda: len(s.server.workers()) == 2
             and before[0] not in s.server.workers(), "two again",
             2 * TIMEOUT)
    assert s.ask()


def test_R084_workers_that_are_killed_under_load(troubles):
    """At random, with reloads in between: a kill costs the requests of that
    worker and no other, and all goes on."""
    s = troubles(workers=3)
    kills = 0

    def cut(e):
        return isinstance(e, Wrong)
    s.server.errors_expected = True
    with Load(lambda: Direct(s.server.address), 4, bearable=cut) as load:
        for n in range(1500 if LONG else 30):
            workers = wait_for(lambda: s.server.workers(), "a worker")
            try:
                os.kill(workers[n * 7 % len(workers)], signal.SIGKILL)
                kills += 1
            except ProcessLookupError:
                pass
            load.wait(5)
            if n % 10 == 9:
                before = s.ready()
                s.hup()
                wait_for(lambda: s.ready() > before, "the new generation",
                         2 * TIMEOUT)
    assert load.borne <= kills * 4
    s.server.wait_workers(3)
    s.wait_single()
    for _ in range(10):
        assert s.ask()


@pytest.mark.parametrize("group", [True, False])
def test_R085_children_of_a_worker_that_is_killed(troubles, group):
    """With kill_group they go with it."""
    s = troubles(workers=1, kill_group=group, request_timeout="200ms",
                 request_grace="200ms")
    answer = s.server.request("/subprocess", query="hang")
    assert not answer.complete
    s.server.expect_error("killed by signal 9")
    child = int(s.notes.read("children")[0])
    if group:
        wait_for(lambda: not proc.alive(child), "the end of the child")
    else:
        assert proc.alive(child)
        os.kill(child, signal.SIGKILL)


def test_R085_children_when_the_manager_is_killed(troubles):
    s = troubles(workers=2, kill_group=True, graceful_timeout="1s")
    children = [s.ask("/subprocess") for _ in range(3)]
    s.server.remember()
    s.server.process.kill()
    s.server.process.wait()
    wait_for(lambda: not s.server.strays(), lambda: "nobody is left: %r" %
             s.server.strays(), 2 * TIMEOUT)
    assert not any(proc.alive(p) for p in children)


def test_R086_stop_at_any_moment_of_the_start(versions_once, notes):
    """25 moments: a clean end, no orphan, no socket."""
    for group in range(5):
        sites = []
        for n in range(5):
            options = [{}, {"preload": "off"}, {"threads": 2},
                       {"scaling": "ondemand"}, {"preload": "on"}][n]
            sites.append(versions_once("slow_import", wait=False, **options))
        for n, s in enumerate(sites):
            holds_for(lambda: True, group * 0.02 + n * 0.005, "a moment")
            s.server.terminate()
        for s in sites:
            code = s.server.wait_exit()
            # Before its handlers were there, the signal's own way.
            assert code in (0, -signal.SIGTERM), s.server.log.text()
            s.server.expect_exit = {code}
            s.server.stop()


def test_R086_stop_and_reload_in_any_order(versions_once):
    """Signals in quick succession around the start and the stop."""
    orders = [(signal.SIGHUP, signal.SIGTERM), (signal.SIGUSR2,
              signal.SIGTERM), (signal.SIGTTIN, signal.SIGHUP,
              signal.SIGTERM), (signal.SIGTERM, signal.SIGHUP,
              signal.SIGTERM)]
    for numbers in orders:
        s = versions_once("slow_import", wait=False)
        wait_for(lambda: proc.children(s.server.pid), "the template")
        for number in numbers:
            if s.server.running():
                s.server.process.send_signal(number)
        assert s.server.wait_exit() == 0
        s.server.errors_expected = True
        s.server.stop()


# Liveness

def test_R075_no_disk_decides_who_is_alive(versions, folder_of_logs):
    """A file system that stands still (all that is written goes to a FIFO that
    nobody reads): nobody is taken for dead, nobody is replaced, and no process
    has a file open for writing beside the logs."""
    log, access = folder_of_logs
    s = versions(workers=2, log=log, access_log=access, request_timeout="60s",
                 slow_request="10ms")
    before = s.server.workers()

    def writable(pid):
        found = set()
        for fd in os.listdir("/proc/%d/fd" % pid):
            try:
                path = os.readlink("/proc/%d/fd/%s" % (pid, fd))
                with open("/proc/%d/fdinfo/%s" % (pid, fd)) as f:
                    flags = int(re.search(r"flags:\s+(\d+)", f.read())[1], 8)
            except FileNotFoundError:
                continue
            if path.startswith("/") and flags & os.O_ACCMODE != os.O_RDONLY:
                found.add(path.split(" ")[0])
        return {p for p in found if not p.startswith(("/dev/", "/memfd:"))}
    with Load(lambda: Direct(s.server.address), 2) as load:
        load.wait(300)
        holds_for(lambda: s.server.workers() == before, 1.5, "all live on")
        load.wait(50)
    for pid in before:
        assert not writable(pid) - {log, access}
    assert not {p for p in writable(s.server.pid) - {log, access}
                if p != s.server.log.path}


@pytest.fixture
def folder_of_logs(tmp_path):
    """Two FIFOs, open and never read."""
    paths, fds = [], []
    for name in ("log", "access"):
        path = str(tmp_path / name)
        os.mkfifo(path)
        fds.append(os.open(path, os.O_RDONLY | os.O_NONBLOCK))
        paths.append(path)
    yield paths
    for fd in fds:
        os.close(fd)


# PID 1

WRAPPER = """#!/bin/sh
exec unshare --pid --fork --mount-proc --kill-child %s "$@"
"""


@pytest.mark.skipif(mounts.why_not() is not None, reason=str(mounts.why_not()))
def test_R076_as_process_1(troubles, tmp_path, monkeypatch):
    """Strangers fall to it: reaped without a word, and their exit codes are
    nobody else's."""
    wrapper = tmp_path / "forebay"
    wrapper.write_text(WRAPPER % srv.program())
    wrapper.chmod(0o755)
    monkeypatch.setattr(srv, "program", lambda: str(wrapper))
    s = troubles(workers=2)
    manager, = proc.children(s.server.pid)
    template, = proc.children(manager)
    workers = proc.children(template)
    assert len(workers) == 2
    for _ in range(10):
        s.ask("/orphans")
    wait_for(lambda: set(proc.descendants(manager)) == {template, *workers},
             lambda: "no strangers and no zombies: %r" % s.server.ps())
    assert not s.server.log.find("exited with code|killed by| ERROR ", 0)
    os.kill(manager, signal.SIGHUP)
    wait_for(lambda: s.ready() == 2, "a reload", 2 * TIMEOUT)
    assert s.ask()
    os.kill(manager, signal.SIGTERM)
    assert s.server.wait_exit() == 0
    assert not os.path.exists(s.server.address)


# Stopping

def stop_later(versions_once, notes, **options):
    """A server whose file says stop_delay."""
    from lib.site import MANAGER, Site
    path, conf = notes.dir + "/s", notes.dir + "/conf"
    s = Site(None, notes)
    s.put("version", "1")
    with open(conf, "w") as f:
        f.write("[forebay]\nstop_delay = %s\n[pool main]\napp = versions\n"
                "chdir = %s\nlisten = %s\nworkers = 2\n" % (
                    options["stop_delay"], MANAGER, path))
    s.server = srv.Forebay(["serve", "-c", conf], env=notes.env(),
                           address=path)
    s.server.wait_ready()
    return s


def test_R089_traffic_that_goes_on_after_TERM(versions_once, notes):
    """A balancer notices late: stop_delay accepts for a while, and then it
    ends by itself."""
    s = stop_later(versions_once, notes, stop_delay="1s")
    try:
        s.server.terminate()
        s.server.log.wait(r"accepting for another 1 s \(stop_delay\)")
        for _ in range(5):
            assert s.ask()
        assert s.server.wait_exit() == 0
    finally:
        s.server.close()


def test_R089_a_second_TERM_hurries(versions_once, notes):
    s = stop_later(versions_once, notes, stop_delay="600s")
    try:
        s.server.terminate()
        s.server.log.wait("stop_delay")
        assert s.ask()
        s.server.terminate()
        assert s.server.wait_exit() == 0
    finally:
        s.server.close()


def test_R089_stop_under_load(troubles):
    """Who was accepted is answered: TERM cuts nobody off."""
    s = troubles(workers=2)

    def refused(e):
        # Not connected any more, or the very end of the backlog.
        return isinstance(e, (ConnectionError, FileNotFoundError)) or (
            isinstance(e, Wrong) and "<Answer 0 bytes" in str(e))
    with Load(lambda: Direct(s.server.address, "/threads"), 8,
              bearable=refused) as load:
        load.wait(40)
        s.server.terminate()
        assert s.server.wait_exit() == 0


def test_R089_stop_behind_a_front_end(troubles, front):
    """Requests that run when TERM comes are answered in full."""
    s = troubles(workers=2, mode="threaded", threads=4)
    web = front(fe.NginxKept, s.server.address)
    found = []

    def ask():
        found.append(web.request("/threads")[0])
    threads = [threading.Thread(target=ask) for _ in range(6)]
    for thread in threads:
        thread.start()
    wait_for(lambda: len(found) > 0, "the first answers")
    s.server.terminate()
    assert s.server.wait_exit() == 0
    for thread in threads:
        thread.join()
    # Those that nginx asked for later find nobody: 502, never half an answer.
    assert set(found) <= {200, 502} and 200 in found


# The application's children and connections

def test_R101_a_child_that_comes_back(troubles):
    """It forgot os._exit(): it answers nobody, and there are no two of that
    worker."""
    s = troubles(workers=1)
    worker, = s.server.workers()
    for _ in range(3):
        assert s.ask("/comes_back") == worker
    children = [int(p) for p in s.notes.wait("came_back", 3)]
    wait_for(lambda: not any(proc.alive(p) for p in children), "their end")
    assert s.server.workers() == [worker] and s.ask() == worker


@pytest.mark.parametrize("tcp", [True, False], ids=["tcp", "unix"])
@pytest.mark.parametrize("protocol", ["fcgi", "scgi"])
def test_R101_a_child_that_stays(troubles, protocol, tcp):
    """multiprocessing with fork: the child has copies of all descriptors, and
    the client is done all the same."""
    s = troubles(workers=1, tcp=tcp)
    answer = s.server.request("/forked", protocol=protocol)
    assert answer.status == 200 and answer.body == b'"ok"'
    assert answer.complete and answer.closed == "eof"
    with s.server.peer() as peer:
        for _ in range(2):
            peer.send(fcgi.encode(fcgi.params_for("/forked"),
                                  flags=fcgi.KEEP_CONN))
            assert peer.answer(keep=True).body == b'"ok"'
    s.put("release", "")
    s.server.stop()


@pytest.mark.parametrize("kind", [fe.Nginx, fe.NginxScgi, fe.Lighttpd,
                                  fe.Apache], ids=lambda k: k.__name__)
def test_R101_behind_a_front_end(troubles_once, front, kind):
    s = troubles_once(workers=2)
    web = front(kind, s.server.address)
    for _ in range(3):
        status, _, body = web.request("/forked")
        assert (status, body) == (200, b'"ok"')
    s.put("release", "")


class Echo(socketserver.BaseRequestHandler):
    """Sends back each token, a byte at a time: two clients of one connection
    would get each other's."""

    def handle(self):
        self.server.clients += 1
        while True:
            size = self.request.recv(4, socket.MSG_WAITALL)
            if not size:
                return
            token = self.request.recv(int(size), socket.MSG_WAITALL)
            for byte in size + token:
                self.request.sendall(bytes([byte]))


class EchoServer(socketserver.ThreadingTCPServer):
    daemon_threads = True
    clients = 0


@pytest.mark.parametrize("preload", ["auto", "off"])
def test_R110_connections_made_at_import(troubles_once, preload):
    """Each worker has its own; auto finds the connection and says so."""
    with EchoServer(("127.0.0.1", 0), Echo) as echo:
        threading.Thread(target=echo.serve_forever, daemon=True).start()
        s = troubles_once("echo", workers=4, preload=preload, env={
            "ECHO_PORT": str(echo.server_address[1])})
        numbers = iter(range(10000))

        def client():
            token = "token-%d" % next(numbers)

            def check(body):
                assert json.loads(body) == token, (body, token)
                return body
            return Checked(Direct(s.server.address, "/echo", query=token),
                           check)
        with Load(client, 6) as load:
            load.wait(60)
        assert echo.clients >= 4
        found = s.server.log.find("preload: the import left .*connect", 0)
        assert len(found) == (1 if preload == "auto" else 0)
        s.server.stop()
        echo.shutdown()


class Checked:
    """A client, and what its answer has to be."""

    def __init__(self, client, check):
        self.client, self.check = client, check

    def __call__(self):
        return self.check(self.client())

    def close(self):
        self.client.close()


# Rights

USERS = [
    ({"user": "1234"}, 1234, 1234, [1234]),
    ({"user": "1234", "group": "4321"}, 1234, 4321, [4321]),
    ({"user": "33"}, 33, 33, "www-data"),
    ({"user": "www-data"}, 33, 33, "www-data"),
    ({"user": "33", "group": "nogroup"}, 33, 65534, None),
]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
@pytest.mark.parametrize("options, uid, gid, groups", USERS,
                         ids=lambda v: str(v) if isinstance(v, dict) else "")
def test_R122_user_and_group(troubles_once, options, uid, gid, groups):
    """By name and by number, with and without an entry: never a group of
    root's, in the template neither."""
    import pwd
    try:
        entry = pwd.getpwnam("www-data")
    except KeyError:
        pytest.skip("no user www-data")
    if 33 in (uid, gid) and (entry.pw_uid, entry.pw_gid) != (33, 33):
        pytest.skip("www-data is not 33 here")
    s = troubles_once(**options)
    found = s.ask("/ids")
    assert found["uids"] == [uid] * 3 and found["gids"] == [gid] * 3
    if groups == "www-data":
        groups = sorted(os.getgrouplist("www-data", 33))
    if groups is not None:
        assert found["groups"] in (groups, [])
    assert 0 not in found["groups"]
    for pid in [s.server.template()] + s.server.workers():
        with open("/proc/%d/status" % pid) as f:
            status = dict(x.split(":", 1) for x in f)
        assert set(status["Uid"].split()) == {str(uid)}
        assert set(status["Gid"].split()) == {str(gid)}
        assert "0" not in status["Groups"].split()
        assert int(status["CapEff"], 16) == 0
        assert int(status["CapPrm"], 16) == 0
        assert status["NoNewPrivs"].strip() == "1"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_R122_after_a_reload_and_an_upgrade(troubles_once):
    """The manager keeps what it needs to start others, and they do not."""
    s = troubles_once(user="nobody")
    for _ in range(2):
        s.reload()
        assert 0 not in s.ask("/ids")["uids"]


def test_R122_a_user_that_does_not_exist(fails, notes):
    from lib.site import MANAGER
    for options in ({"user": "no-such-user"}, {"group": "no-such-group"},
                    {"user": "99999999999"}):
        code, log = fails("troubles", chdir=MANAGER, env=notes.env(),
                          **options)
        assert code == 78, log
        assert list(options.values())[0] in log
    assert not notes.read("imports")


# Streams that occupy all threads

def test_R129_streams_and_short_requests(troubles_once):
    """Four streams on four threads: the pool grows for what comes next."""
    s = troubles_once(mode="threaded", threads=4, workers=1, max_workers=2,
                      scaling="dynamic", min_spare=1)
    peers = []
    try:
        for n in range(4):
            peer = s.server.peer(timeout=2 * TIMEOUT)
            peer.send(fcgi.encode(fcgi.params_for("/stream")))
            peer.until(b"data")
            peers.append(peer)
            for _ in range(5):
                assert s.ask()
        wait_for(lambda: len(s.server.workers()) == 2, "it has grown")
        for _ in range(10):
            assert s.ask()
    finally:
        for peer in peers:
            peer.close()
    wait_for(lambda: Direct(s.server.address)(), "all is well")


def test_R129_a_fixed_pool_answers_when_a_stream_ends(troubles_once, front):
    """No thread is free: a request waits, and is not lost."""
    s = troubles_once(mode="threaded", threads=2, workers=1)
    web = front(fe.Nginx, s.server.address)
    peers = [s.server.peer(timeout=2 * TIMEOUT) for _ in range(2)]
    for peer in peers:
        peer.send(fcgi.encode(fcgi.params_for("/stream")))
        peer.until(b"data")
    client = Http(web)
    found = []
    thread = threading.Thread(target=lambda: found.append(client()))
    thread.start()
    holds_for(lambda: not found, 0.3, "it waits")
    peers.pop().close()
    thread.join(2 * TIMEOUT)
    assert found
    peers.pop().close()
    client.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
@pytest.mark.parametrize("what", ["file", "folder"])
@pytest.mark.parametrize("preload", ["on", "off"])
def test_R122_files_that_only_root_can_read(serve, notes, tmp_path, fails,
                                            preload, what):
    """The rights of the pool's user count, at the start and at a reload: a
    sentence, and what serves goes on."""
    from lib.site import Site
    folder = srv.temp_dir()
    path = os.path.join(folder, "shop.py")
    closed = path if what == "file" else folder

    def readable(yes):
        os.chmod(path, 0o644)
        os.chmod(folder, 0o755)
        if not yes:
            os.chmod(closed, 0o600 if what == "file" else 0o700)
    with open(path, "w") as f:
        f.write("def application(environ, start_response):\n"
                "    start_response('200 OK', [])\n"
                "    return [b'\"served\"']\n")
    try:
        readable(False)
        code, log = fails(path, user="nobody", preload=preload,
                          max_start_failures=1)
        assert code == 1
        assert path in log and "ermission denied" in log, log
        readable(True)
        s = Site(serve(path, user="nobody", preload=preload), notes)
        assert s.ask() == "served"
        readable(False)
        s.hup()
        s.server.expect_error("reload refused")
        assert s.ask() == "served"
        readable(True)
        s.reload()
        assert s.ask() == "served"
        s.server.stop()
    finally:
        readable(True)
        import shutil
        shutil.rmtree(folder)
