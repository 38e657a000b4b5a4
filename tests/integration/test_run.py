# SPDX-License-Identifier: MIT
"""forebay run: a Python file with a #! line that lighttpd, mod_fcgid or
spawn-fcgi starts. It ends when they ask, finishes the request that it has, and
leaves nobody behind, however its parent goes."""

import json
import os
import shutil
import signal
import socket
import subprocess
import threading
import uuid
from http.client import HTTPException

import pytest

from lib import fcgi, proc
from lib import frontends as fe
from lib import server as srv
from lib.wait import FACTOR, TIMEOUT, wait_for

SCRIPT = os.path.join(srv.APPS, "run", "script.py")
PATIENCE = 2 * TIMEOUT + 15 * FACTOR
LINE = "#!/usr/bin/env -S forebay run"


@pytest.fixture
def script(monkeypatch):
    """script(options): the path of a copy of the file in a folder of its own,
    with these options in its first line; forebay is in PATH."""
    made = []
    monkeypatch.setenv("PATH", srv.build_dir() + ":" + os.environ["PATH"])

    def make(options=""):
        folder = srv.temp_dir()
        os.chmod(folder, 0o777)
        made.append(folder)
        with open(SCRIPT) as f:
            line, _, rest = f.read().partition("\n")
        assert line == LINE
        path = os.path.join(folder, "app.fcgi")
        with open(path, "w") as f:
            f.write("%s %s\n%s" % (line, options, rest))
        os.chmod(path, 0o755)
        return path
    yield make
    for folder in made:
        shutil.rmtree(folder)


class LighttpdScript(fe.LighttpdSpawn):
    """bin-path is the file itself."""
    more = ""

    def settings(self):
        where = os.path.join(self.run, "spawned")
        return {"MODULE": self.module, "PREFIX": "/", "BACKEND":
                '"bin-path" => "%s", "socket" => "%s", "max-procs" => %d %s'
                % (self.address, where, self.procs, self.more)}


class LighttpdScript4(LighttpdScript):
    procs = 4


def free_ports(count):
    """The first of so many in a row."""
    while True:
        first = srv.free_port()
        held = []
        try:
            for port in range(first, first + count):
                held.append(socket.socket())
                held[-1].bind(("127.0.0.1", port))
            return first
        except (OSError, OverflowError):
            continue
        finally:
            for s in held:
                s.close()


class LighttpdTcp(LighttpdScript):
    """Ports instead of paths; procs of them."""
    procs = 2

    def settings(self):
        return dict(super().settings(), BACKEND='"bin-path" => "%s", '
                    '"host" => "127.0.0.1", "port" => %d, "max-procs" => %d'
                    % (self.address, free_ports(self.procs), self.procs))


class LighttpdScgi(LighttpdScript):
    module = "scgi"


class FcgidScript(fe.ApacheFcgid):
    """The file is what mod_fcgid executes."""

    def proxy(self):
        return """FcgidIPCDir "@RUN@/fcgidsock"
FcgidProcessTableFile "@RUN@/fcgid_shm"
FcgidIOTimeout 120
FcgidMaxProcesses 4
FcgidInitialEnv FOREBAY_TEST_ID @ID@
FcgidInitialEnv ASAN_OPTIONS @ASAN_OPTIONS@
Alias "/" "%s/"
<Directory "%s">
  Options +ExecCGI
  SetHandler fcgid-script
  Require all granted
</Directory>""" % (self.address, os.path.dirname(self.address))


class Spawner:
    """spawn-fcgi -- FILE, ours or Debian's; stands for a front end."""

    def __init__(self, address, words=(), tool=None):
        self.run = srv.temp_dir()
        self.id = "FOREBAY_TEST_ID=" + uuid.uuid4().hex
        self.socket = os.path.join(self.run, "s")
        self.tool = tool or [srv.program(), "spawn"]
        self.words = list(words) or ["-s", self.socket]
        self.pidfile = os.path.join(self.run, "pid")
        self.file = address
        self.where = self.socket
        if words:
            self.where = ("127.0.0.1", int(words[words.index("-p") + 1]))

    def start(self):
        name, _, value = self.id.partition("=")
        subprocess.run(
            self.tool + ["-P", self.pidfile] + self.words
            + ["--", self.file], check=True, stdout=subprocess.DEVNULL,
            env=dict(os.environ, **{name: value}))
        with open(self.pidfile) as f:
            self.pid = int(f.read())
        return self

    def strays(self):
        return [p for p in proc.with_environ(self.id) if proc.alive(p)]

    def request(self, path, method="GET", body=None):
        answer = fcgi.request(self.where, fcgi.params_for(path, method,
                                                          body=body),
                              body or b"")
        return answer.status, answer.headers, answer.body

    def log(self):
        return "(its log goes to /dev/null)"

    def stop(self):
        if proc.alive(self.pid):
            os.kill(self.pid, signal.SIGTERM)
        wait_for(lambda: not self.strays(), lambda: "no process left: %r" % [
            (p, proc.cmdline(p)) for p in self.strays()], PATIENCE)

    def close(self):
        for pid in self.strays():
            os.kill(pid, signal.SIGKILL)
        shutil.rmtree(self.run)


def spawner(tool=None, tcp=False):
    def make(address):
        if tool is not None and shutil.which(tool) is None:
            pytest.skip(tool + " is not installed")
        words = (["-a", "127.0.0.1", "-p", str(srv.free_port())] if tcp
                 else [])
        return Spawner(address, words, [tool] if tool else None)
    return make


STARTERS = {
    "lighttpd": LighttpdScript,
    "lighttpd-4": LighttpdScript4,
    "lighttpd-tcp": LighttpdTcp,
    "lighttpd-scgi": LighttpdScgi,
    "mod_fcgid": FcgidScript,
    "spawn-fcgi": spawner("spawn-fcgi"),
    "spawn-fcgi-tcp": spawner("spawn-fcgi", tcp=True),
    "forebay-spawn": spawner(),
}
each = pytest.mark.parametrize("kind", list(STARTERS))


@pytest.fixture
def begin(script):
    """begin(KIND, options): the running front end with the script."""
    started = []

    def start(kind, options=""):
        make = STARTERS.get(kind, kind)
        why = getattr(make, "why_not", lambda: None)()
        if why:
            pytest.skip(why)
        web = make(script(options))
        started.append(web)
        web.start()
        web.script = web.file if isinstance(web, Spawner) else web.address
        return web
    yield start
    for web in started:
        try:
            web.stop()
        finally:
            web.close()


def ask(web, path="/x", body=None):
    status, _, answer = web.request(path, "POST" if body else "GET", body)
    assert status == 200, web.log()
    return json.loads(answer)


def notes(web, name):
    try:
        with open(os.path.join(os.path.dirname(web.script), name)) as f:
            return [int(line) for line in f]
    except FileNotFoundError:
        return []


def open_gate(web):
    with open(os.path.join(os.path.dirname(web.script), "gate"), "w"):
        pass


def forebays(web):
    """What was started: managers, templates, workers."""
    return [p for p in web.strays() if "forebay" in proc.cmdline(p)]


def managers(web):
    return [p for p in forebays(web) if " run " in proc.cmdline(p)]


class Held:
    """A request that is in the application until the gate is opened."""

    def __init__(self, web):
        self.web = web
        self.answer = None
        self.thread = threading.Thread(target=self.ask)
        self.thread.start()
        self.worker, = wait_for(lambda: notes(web, "holding"), lambda: (
            "the request is in the application\n" + web.log()))

    def ask(self):
        try:
            self.answer = self.web.request("/hold")[0]
        except (OSError, HTTPException) as e:
            self.answer = e

    def is_held(self):
        return proc.alive(self.worker) and not notes(self.web, "finished")

    def finish(self):
        assert self.is_held()
        open_gate(self.web)
        wait_for(lambda: notes(self.web, "finished") == [self.worker],
                 "the request has finished")
        self.thread.join(4 * TIMEOUT)
        assert not self.thread.is_alive()


def nobody_is_left(web):
    wait_for(lambda: not forebays(web), lambda: "nobody is left: %r" % [
        (p, proc.cmdline(p)) for p in forebays(web)], PATIENCE)


@each
def test_it_serves(begin, kind):
    web = begin(kind)
    for n in range(6):
        found = ask(web, "/x/%d" % n, b"b" * n)
        assert (found["path"], found["body"]) == ("/x/%d" % n, n)
    assert not found["multithread"]
    expected = {"lighttpd-4": 4, "lighttpd-tcp": 2}.get(kind, 1)
    wait_for(lambda: len(managers(web)) == expected, lambda: (
        "%d managers: %r" % (expected, managers(web))))
    if isinstance(web, fe.FrontEnd) and kind != "lighttpd-scgi":
        assert found["cwd"] == os.path.dirname(web.script)


@each
def test_options_in_the_first_line(begin, kind):
    web = begin(kind, "--threads 3 --env COLOUR=green")
    found = ask(web)
    assert found["multithread"] is True
    assert found["environ"]["COLOUR"] == "green"


def test_mod_fcgid_passes_hardly_any_environment(begin):
    found = ask(begin("mod_fcgid"))["environ"]
    assert "HOME" not in found and "LANG" not in found


def test_all_processes_of_lighttpd_get_requests(begin):
    web = begin("lighttpd-4")
    threads = [threading.Thread(target=lambda: web.request("/hold"))
               for _ in range(4)]
    for t in threads:
        t.start()
    wait_for(lambda: len(set(notes(web, "holding"))) == 4,
             lambda: "four at once: %r" % notes(web, "holding"))
    open_gate(web)
    for t in threads:
        t.join(4 * TIMEOUT)
    assert len(notes(web, "finished")) == 4


# The end

@each
def test_asked_to_end_while_idle(begin, kind):
    web = begin(kind)
    ask(web)
    running = wait_for(lambda: len(forebays(web)) >= 3 and forebays(web),
                       "manager, template and worker")
    web.stop()
    # One that is about to end has no environment any more, but still runs.
    wait_for(lambda: not any(proc.alive(p) for p in running),
             lambda: "all have ended: %r" % running)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT,
                                    signal.SIGUSR1])
@pytest.mark.parametrize("kind", ["lighttpd", "lighttpd-4"])
def test_lighttpd_ends_during_a_request(begin, kind, number):
    """TERM: it asks what it has started, and goes at once, so that the end of
    the parent is seen as well. INT and USR1: after the request."""
    web = begin(kind)
    held = Held(web)
    web.process.send_signal(number)
    if number == signal.SIGTERM:
        web.process.wait(TIMEOUT)
        wait_for(lambda: len(managers(web)) == 1, "the idle ones have ended")
    held.finish()
    if number == signal.SIGUSR1:
        def serves():
            try:
                return ask(web)["pid"] != held.worker
            except (OSError, AssertionError):
                return False
        wait_for(serves, lambda: "new ones serve\n" + web.log(), PATIENCE)
        wait_for(lambda: not proc.alive(held.worker), "the old one ends",
                 PATIENCE)
    else:
        nobody_is_left(web)


@pytest.mark.parametrize("number", [10, 2, 3])
def test_the_signal_that_lighttpd_was_told(begin, number):
    """kill-signal: USR1, INT, QUIT."""
    class Told(LighttpdScript):
        more = ', "kill-signal" => %d' % number
    web = begin(Told)
    held = Held(web)
    web.process.terminate()
    web.process.wait(TIMEOUT)
    held.finish()
    nobody_is_left(web)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1,
                                    signal.SIGHUP])
def test_apache_ends_during_a_request(begin, number):
    """mod_fcgid sends TERM, a second later TERM again, and in the end KILL."""
    web = begin("mod_fcgid")
    held = Held(web)
    manager, = managers(web)
    web.process.send_signal(number)
    wait_for(lambda: stopping(manager), "it was asked to end", PATIENCE)
    held.finish()
    wait_for(lambda: not proc.alive(held.worker), "it ends", PATIENCE)
    if number == signal.SIGTERM:
        nobody_is_left(web)


def stopping(manager):
    """It listens no more, or is gone."""
    return not any(f.startswith("socket:") and n > 2
                   for n, f in proc.fds(manager).items()) \
        or not proc.alive(manager)


@pytest.mark.parametrize("kind", ["lighttpd", "spawn-fcgi", "forebay-spawn"])
def test_asked_again_and_again(begin, kind):
    """Whoever started it may not be patient: it finishes all the same."""
    web = begin(kind)
    held = Held(web)
    manager, = managers(web)
    for _ in range(3):
        os.kill(manager, signal.SIGTERM)
    held.finish()
    assert held.answer == 200
    wait_for(lambda: not proc.alive(manager), "it ends", PATIENCE)


@pytest.mark.parametrize("kind", ["lighttpd", "lighttpd-4", "mod_fcgid"])
def test_the_front_end_is_killed(begin, kind):
    """No signal, no descriptor: the kernel tells it."""
    web = begin(kind)
    ask(web)
    started = forebays(web)
    if kind == "mod_fcgid":
        # The process that has started them, with its parent.
        parent = proc.stat(managers(web)[0])[1]
        os.kill(parent, signal.SIGKILL)
        wait_for(lambda: not any(proc.alive(p) for p in started),
                 lambda: "they end: %r" % started, PATIENCE)
    else:
        web.process.kill()
        web.process.wait()
        nobody_is_left(web)


GONE_BEFORE = """
import os, socket, sys
read, write = os.pipe()
s = socket.socket()
s.bind(("127.0.0.1", 0))
s.listen(5)
if os.fork() == 0:
    os.close(write)
    os.read(read, 1)            # until the parent has gone
    os.dup2(s.fileno(), 0)
    os.execvp(sys.argv[1], sys.argv[1:])
"""


def test_the_parent_has_gone_before_it_began(script):
    """What it sent between fork and exec is lost, and no signal will tell."""
    output = os.path.join(os.path.dirname(script()), "output")
    with open(output, "wb") as out:
        parent = subprocess.run(
            [srv.base_python(), "-c", GONE_BEFORE, srv.program(), "run",
             SCRIPT], stdout=out, stderr=out, start_new_session=True)
    assert parent.returncode == 0

    def ended():
        with open(output) as f:
            text = f.read()
        # Or it was quick enough to be told by the signal after all.
        return "nobody to serve" in text or ": stopped\n" in text
    wait_for(ended, lambda: "it has ended:\n" + open(output).read())


@pytest.mark.parametrize("kind", ["lighttpd", "spawn-fcgi"])
def test_the_manager_is_killed(begin, kind):
    """A request that runs ends in order, then nobody is left."""
    web = begin(kind)
    held = Held(web)
    manager, = managers(web)
    before = [p for p in forebays(web)]
    os.kill(manager, signal.SIGKILL)
    held.finish()
    wait_for(lambda: not any(proc.alive(p) for p in before),
             lambda: "they end: %r" % before, PATIENCE)


def test_lighttpd_replaces_what_has_died(begin):
    web = begin("lighttpd")
    first = ask(web)["pid"]
    # What listens goes first: lighttpd tries whether somebody does before it
    # starts another one.
    manager, = managers(web)
    others = [p for p in forebays(web) if p != manager]
    os.kill(manager, signal.SIGSTOP)
    for pid in others:
        os.kill(pid, signal.SIGKILL)
    wait_for(lambda: not any(proc.alive(p) for p in others), "they are dead")
    os.kill(manager, signal.SIGKILL)

    def another():
        try:
            status, _, answer = web.request("/x")
        except OSError:
            return False
        return status == 200 and json.loads(answer)["pid"] != first
    wait_for(another, lambda: "another one serves\n" + web.log(), PATIENCE)


def test_mod_fcgid_sends_one_request_at_a_time(begin):
    """Six at once: it starts more processes, and each of them answers."""
    web = begin("mod_fcgid")
    found = []

    def client():
        for _ in range(3):
            found.append(ask(web)["path"])
    threads = [threading.Thread(target=client) for _ in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert found == ["/x"] * 18
