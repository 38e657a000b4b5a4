# SPDX-License-Identifier: MIT
"""`forebay ctl` and the control socket."""

import json
import os
import pty
import select
import shutil
import signal
import socket
import stat
import subprocess
import termios

import pytest

from lib import ctl, fcgi, proc
from lib import server as srv
from lib.ctl import Ctl
from lib.site import MANAGER
from lib.wait import TIMEOUT, holds_for, wait_for

CHECKLIST = os.path.join(srv.APPS, "checklist")


@pytest.fixture
def folder():
    path = srv.temp_dir()
    os.chmod(path, 0o755)
    yield path
    shutil.rmtree(path)


@pytest.fixture
def own(epoll_shape, notes, folder, serve):
    """A server with a control socket, in both shapes; it and its Ctl."""
    def start(app="app:application", **options):
        options.setdefault("chdir", CHECKLIST)
        options.setdefault("body_buffer", 0)    # see hold()
        path = os.path.join(folder, "control")
        env = dict(notes.env(), **options.pop("env", {}))
        wait = options.pop("wait", True)
        words = options.pop("words", ())
        server = serve(app, env=env, control=path, wait=wait, words=words,
                       **epoll_shape.options(**options))
        return server, Ctl(path)
    return start


def hello(server):
    return server.request(extra={"TEST_CASE": "hello"}).text == "hello"


def hold(server):
    """A connection whose request runs, and waits for its body, until
    release()."""
    peer = server.peer()
    peer.send(fcgi.begin() + fcgi.stream(fcgi.PARAMS, fcgi.pairs(
        fcgi.params_for("/held", "POST", body=b"go",
                        extra={"TEST_CASE": "G6"}))))
    peer.until(b"first")
    return peer


def release(peer):
    peer.send(fcgi.stream(fcgi.STDIN, b"go"))
    peer.until(b"second")
    assert peer.answer().complete
    peer.close()


# Asking

def test_ping_and_status(own):
    server, ask = own(workers=2)
    assert ask("ping") == "pong\n"
    table = ask("status")
    assert "pool main: serving" in table
    for pid in server.workers():
        assert str(pid) in table
    assert all(len(line) <= 100 for line in table.splitlines())
    found = json.loads(ask("status", "--json"))
    assert found["pid"] == server.pid
    assert [w["pid"] for w in found["pools"][0]["workers"]] == (
        server.workers())
    assert ctl.metrics(ask("metrics"))['forebay_pool_up{pool="main"}'] == 1


def test_which_socket(own, folder):
    server, ask = own()

    def run(*words, **env):
        return subprocess.run(
            [srv.program(), "ctl", *words], stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, env=dict(os.environ, **env))
    config = os.path.join(folder, "forebay.conf")
    with open(config, "w") as f:
        f.write("[forebay]\ncontrol = %s\n[pool a]\napp = a\nlisten = :1\n"
                % ask.path)
    nothing = os.path.join(folder, "nothing")
    for words, env in [
            (("--control", ask.path, "ping"), {"FOREBAY_CONTROL": nothing}),
            (("--control=" + ask.path, "ping"), {}),
            (("ping", "--control", "unix:" + ask.path), {}),
            (("-c", config, "ping"), {"FOREBAY_CONTROL": nothing}),
            (("--config=" + config, "ping"), {}),
            (("ping",), {"FOREBAY_CONTROL": ask.path})]:
        found = run(*words, **env)
        assert (found.returncode, found.stdout) == (0, b"pong\n"), found
    found = run("ping", FOREBAY_CONTROL="")
    assert found.returncode == 1
    assert b"/run/forebay/control.sock" in found.stderr
    with open(config, "w") as f:
        f.write("[pool a]\napp = a\nlisten = :1\n")
    found = run("-c", config, "ping")
    assert found.returncode == 78 and b"control" in found.stderr


def test_nobody_is_there(folder):
    nothing = Ctl(os.path.join(folder, "nothing"))
    assert nothing.path in nothing.fails("ping")
    with socket.socket(socket.AF_UNIX) as s:
        s.bind(nothing.path)
        assert "refused" in nothing.fails("status")
        # Somebody who is no forebay.
        s.listen()
        waiting = nothing.start("ping")
        s.accept()[0].close()
        out, err = waiting.communicate(timeout=TIMEOUT)
        assert (waiting.returncode, out) == (1, "")
        assert nothing.path in err


@pytest.mark.parametrize("words", [
    [], ["--nonsense", "ping"], ["--control"], ["status", "--watch=0"],
    ["status", "--watch", "x y"], ["ping", "--json"], ["reload", "--watch"],
    ["status", "--json", "--watch"], ["ping", "a b"], ["ping", ""],
    ["nonsense"], ["reload", "a", "b"], ["ping", "now"], ["scale", "main"],
    ["scale", "main", "many"], ["scale", "main", "+"], ["stop", "main"],
    ["drain", "--timeout", "soon"], ["drain", "--timeout=0"],
    ["drain", "a", "b"], ["stop", "--timeout", "3"], ["ping", "--wait", "0"],
    ["--control", "/a", "--control", "/b", "ping"]])
def test_wrong_usage(words):
    found = subprocess.run([srv.program(), "ctl", *words],
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert found.returncode == 64, found
    assert found.stderr and not found.stdout


def test_help():
    found = subprocess.run([srv.program(), "ctl", "--help"],
                           stdout=subprocess.PIPE, check=True)
    text = found.stdout.decode()
    for word in ("status", "reload", "drain", "scale", "log-reopen", "stop",
                 "metrics", "ping", "--watch", "--json", "--control"):
        assert word in text
    assert all(len(line) <= 80 for line in text.splitlines())


def test_configuration_that_is_wrong(folder):
    """What a file says wrong has the same exit code everywhere."""
    path = os.path.join(folder, "conf")
    for text in ("[forebay]\nnonsense = 1\n",
                 "[pool a]\napp = a\nlisten = :0\n"):
        with open(path, "w") as f:
            f.write(text)
        found = subprocess.run([srv.program(), "ctl", "-c", path, "ping"],
                               stderr=subprocess.PIPE)
        assert found.returncode == 78 and path in found.stderr.decode()


@pytest.mark.parametrize("command", [["ping"], ["reload"], ["stop"],
                                     ["status", "--json"], ["drain", "main"]])
@pytest.mark.parametrize("how", ["accepts", "queue is full"])
def test_a_server_that_is_silent(folder, command, how):
    """It is not waited for for ever."""
    path = os.path.join(folder, "silent")
    with socket.socket(socket.AF_UNIX) as s:
        s.bind(path)
        s.listen(100 if how == "accepts" else 0)
        others = []
        while how != "accepts" and len(others) < 3:
            one = socket.socket(socket.AF_UNIX)
            one.setblocking(False)
            others.append(one)
            try:
                one.connect(path)
            except BlockingIOError:
                break
        said = Ctl(path).fails(*command, "--wait", "200ms")
        assert path in said and "does not answer within 0.2 s" in said
        for one in others:
            one.close()


def test_a_manager_that_is_stopped(own):
    """SIGSTOP: a command that takes its time notices as well."""
    server, ask = own()
    server.process.send_signal(signal.SIGSTOP)
    try:
        said = ask.fails("reload", "--wait", "200ms")
        assert "does not answer within 0.2 s" in said
    finally:
        server.process.send_signal(signal.SIGCONT)
    server.log.wait("ready", 2)     # the order was there
    assert ask("ping") == "pong\n"


def test_a_reload_that_takes_its_time(own, notes):
    """A manager that answers others is waited for."""
    server, ask = own("slow_import:application", chdir=MANAGER)
    waiting = ask.start("reload", "--wait", "100ms")
    assert waiting.communicate(timeout=4 * TIMEOUT) == ("", "")
    assert waiting.returncode == 0


def test_what_the_manager_refuses(own):
    server, ask = own()
    for words in (["reload", "nosuch"], ["drain", "nosuch"],
                  ["scale", "nosuch", "3"], ["scale", "main", "0"]):
        sentence = ask.fails(*words)
        if "nosuch" in words:
            assert "nosuch" in sentence
    assert hello(server)


def test_the_log_says_who_changed_something(own):
    server, ask = own()
    ask("ping")
    ask("reload")
    server.log.wait(r"control: reload \(process \d+ of user %d\)"
                    % os.geteuid())
    assert not server.log.find("control: ping", 0)


# The socket

def test_only_the_managers_user_may(own):
    server, ask = own()
    found = os.stat(ask.path)
    assert stat.S_IMODE(found.st_mode) == 0o600
    assert found.st_uid == os.geteuid()
    if os.geteuid() == 0:
        found = ask.run("ping", user="nobody")
        assert found.returncode == 1 and "ermission" in found.stderr


def test_the_path_is_taken(own, serve, folder):
    server, ask = own()
    code = serve("app:application", chdir=CHECKLIST, control=ask.path,
                 wait=False).wait_exit()
    assert code == 69
    assert ask("ping") == "pong\n"


def test_a_dead_socket_is_replaced(own, serve, folder):
    server, ask = own()
    server.process.kill()
    server.process.wait()
    assert os.path.exists(ask.path)
    server.close()
    server, ask = own()
    assert ask("ping") == "pong\n"
    server.stop()
    assert not os.path.exists(ask.path)


def test_clients_that_misbehave(own):
    """Silent, slow, too many, too long: others are served all the same, and
    nothing is left of them."""
    server, ask = own(workers=2)
    assert hello(server)
    before = len(proc.fds(server.pid))
    crowd = []
    for _ in range(200):
        s = socket.socket(socket.AF_UNIX)
        s.connect(ask.path)
        crowd.append(s)
    assert ask.raw(b"x" * 100_000).startswith(b"error: ")
    assert ask.raw(b"status\0\n").startswith(b"error: ")
    for s in crowd[150:]:
        s.sendall(b"status js")     # and nothing more
    for s in crowd[100:150]:
        try:
            s.sendall(b"status\n")  # and never reads
        except BrokenPipeError:
            pass
    assert ask("ping") == "pong\n"
    assert hello(server)
    assert len(proc.fds(server.pid)) <= before + 64
    for s in crowd:
        s.close()
    wait_for(lambda: len(proc.fds(server.pid)) <= before,
             lambda: "their descriptors are closed: %r" % proc.fds(server.pid))
    assert ask.raw(b"ping", end=True) == b"ok\npong\n"


# reload

def test_reload(own):
    """It has ended when the new workers serve."""
    server, ask = own("sometimes", workers=2)
    old = server.template()
    assert ask("reload") == ""
    found = ask.pool()
    assert found["template"]["pid"] != old
    assert found["template"]["generation"] == 2
    assert (found["reloads"], found["reloads_refused"]) == (1, 0)
    assert ask("reload", "main") == ""
    assert ask.pool()["reloads"] == 2
    assert server.request().text == "works"
    wait_for(lambda: len(proc.children(server.pid)) == 1,
             "the old templates end")


def test_reload_of_a_broken_application(own, notes):
    server, ask = own("sometimes", workers=2)
    old = server.template()
    broken = os.path.join(notes.dir, "broken")
    open(broken, "w").close()
    for words in (["reload"], ["reload", "main"]):
        sentence = ask.fails(*words)
        assert "broken on purpose" in sentence and "main" in sentence
    server.errors_expected = True
    assert server.template() == old
    assert server.request().text == "works"
    found = ask.pool()
    assert found["reloads_refused"] == 2 and found["reloads"] == 0
    alarm, = found["alarms"]
    assert "broken on purpose" in alarm["text"]
    assert "broken on purpose" in " ".join(ask("status").split())
    os.unlink(broken)
    ask("reload")
    assert ask.pool()["alarms"] == []


def test_many_reloads_at_once(own):
    """Each of them is answered; they become few."""
    server, ask = own("sometimes", workers=2)
    all_of_them = [ask.start("reload") for _ in range(20)]
    for one in all_of_them:
        assert one.communicate(timeout=8 * TIMEOUT) == ("", "")
        assert one.returncode == 0
    assert ask.pool()["reloads"] <= 20
    assert server.request().text == "works"
    ask.wait_pool(lambda p: p["totals"]["workers"]["total"] == 2)


def test_a_client_that_leaves_during_a_reload(own, notes):
    server, ask = own("slow_import",
                      chdir=os.path.join(srv.APPS, "manager"))
    for n in range(3):
        waiting = ask.start("reload")
        notes.wait("importing", n + 2)
        waiting.kill()
        waiting.communicate()
        ask.wait_pool(lambda p: p["reloads"] == n + 1)
    assert server.request().text == "ok"


# A configuration file

class File:
    """forebay serve -c, with a file that changes."""

    def __init__(self, serve, folder, notes):
        self.folder, self.notes = folder, notes
        self.path = os.path.join(folder, "forebay.conf")
        self.ask = Ctl(os.path.join(folder, "control"))
        self.serve = serve

    def write(self, **pools):
        """Pools by name: {setting: value}"""
        text = "[forebay]\ncontrol = %s\n" % self.ask.path
        for name, settings in pools.items():
            settings = dict({"app": "sometimes", "chdir": CHECKLIST,
                             "listen": self.socket(name),
                             "env": "FOREBAY_TEST_NOTES=" + self.notes.dir,
                             "workers": 1}, **settings)
            text += "[pool %s]\n" % name + "".join(
                "%s = %s\n" % item for item in settings.items())
        with open(self.path, "w") as f:
            f.write(text)

    def socket(self, name):
        return os.path.join(self.folder, name)

    def start(self):
        self.server = self.serve(None, words=["-c", self.path], listen=None,
                                 socket_mode=None,
                                 # What is freed is overwritten (mallopt(3)).
                                 env=dict(self.notes.env(),
                                          MALLOC_PERTURB_="85"))
        return self.server

    def names(self):
        return [p["name"] for p in self.ask.status()["pools"]]

    def works(self, name):
        return fcgi.request(self.socket(name),
                            fcgi.params_for("/")).text == "works"


@pytest.fixture
def file(folder, notes, serve):
    return File(serve, folder, notes)


def test_reload_of_the_file(file):
    """Changed, new and removed pools."""
    file.write(a={}, b={})
    server = file.start()
    file.ask.wait_status(lambda s: all(p["state"] == "serving"
                                       for p in s["pools"]))
    assert file.names() == ["a", "b"]
    file.write(a={"workers": 3}, c={})
    file.ask("reload")
    assert file.works("a") and file.works("c")
    assert file.ask.pool("a")["workers_wanted"] == 3
    file.ask.wait_status(lambda s: [p["name"] for p in s["pools"]]
                         == ["a", "c"])
    wait_for(lambda: not os.path.exists(file.socket("b")), "b is gone")
    assert server.running()


def test_reload_of_one_pool_of_the_file(file):
    file.write(a={}, b={})
    file.start()
    file.ask.wait_status(lambda s: all(p["state"] == "serving"
                                       for p in s["pools"]))
    file.write(a={"workers": 2}, b={"workers": 2}, c={})
    file.ask("reload", "b")
    assert file.ask.pool("a")["reloads"] == 0
    assert file.ask.pool("a")["workers_wanted"] == 1
    assert file.ask.pool("b")["workers_wanted"] == 2
    assert file.names() == ["a", "b"]
    file.ask("reload", "c")
    assert file.works("c")
    assert "nosuch" in file.ask.fails("reload", "nosuch")


def test_a_broken_file_is_refused(file):
    file.write(a={})
    server = file.start()
    file.write(a={"workres": 2})
    sentence = file.ask.fails("reload")
    assert "forebay.conf:" in sentence and "workers" in sentence
    found = file.ask.status()
    assert found["alarms"] and found["pools"][0]["alarms"] == []
    assert "workres" in found["alarms"][0]["text"]
    assert file.works("a")
    file.write(a={"workers": 2})
    file.ask("reload")
    assert file.ask.status()["alarms"] == []
    server.errors_expected = True


def test_a_new_pool_that_cannot_start(file, notes):
    file.write(a={})
    server = file.start()
    file.write(a={}, b={"app": "cannot_import"})
    sentence = file.ask.fails("reload")
    assert "pool b" in sentence and "ZeroDivisionError" in sentence
    assert file.works("a")
    file.write(a={}, c={"listen": "/no/such/folder/at/all"})
    assert "pool c" in file.ask.fails("reload")
    assert file.works("a")
    file.ask.wait_status(lambda s: [p["name"] for p in s["pools"]] == ["a"])
    server.errors_expected = True


def test_a_changed_control_socket_takes_a_restart(file):
    file.write(a={})
    server = file.start()
    with open(file.path) as f:
        text = f.read()
    with open(file.path, "w") as f:
        f.write(text.replace(file.ask.path, file.ask.path + "2"))
    file.ask("reload")
    server.log.wait("WARN.*control.*restart")
    assert file.ask("ping") == "pong\n"


def test_drain_one_pool(file):
    """Its request may take longer than graceful_timeout; the others go on."""
    file.write(a={"app": "app:application", "graceful_timeout": "100ms",
                  "body_buffer": 0},
               b={})
    server = file.start()
    server.address = file.socket("a")
    peer = hold(server)
    waiting = file.ask.start("drain", "a")
    file.ask.wait_pool(lambda p: p["state"] == "stopping", name="a")
    server.address = None
    with pytest.raises(OSError):
        fcgi.Peer(file.socket("a"))
    holds_for(lambda: waiting.poll() is None, 0.4, "it waits")
    assert file.works("b")
    release(peer)
    assert waiting.communicate(timeout=TIMEOUT) == ("", "")
    assert waiting.returncode == 0
    assert file.names() == ["b"]
    # The next reload brings it back.
    file.ask("reload")
    assert file.names() == ["b", "a"]


# scale

def test_scale(own):
    server, ask = own(workers=2, max_workers=6)
    for words, count in ((["+1"], 3), (["-2"], 1), (["5"], 5), (["-100"], 5),
                         (["2"], 2)):
        if words == ["-100"]:
            ask.fails("scale", "main", *words)
        else:
            ask("scale", "main", *words)
        ask.wait_pool(lambda p: p["totals"]["workers"]["total"] == count,
                      "%d workers" % count)
        assert ask.pool()["workers_wanted"] == count
        assert hello(server)


# stop and drain

@pytest.mark.parametrize("busy", [False, True])
def test_stop(own, busy):
    """It returns when all is over."""
    server, ask = own(workers=2)
    peer = hold(server) if busy else None
    waiting = ask.start("stop")
    server.log.wait("stopping")
    if busy:
        found = ask.status()
        assert found["state"] == "stopping"
        assert found["totals"]["workers"]["stopping"] >= 1
        assert waiting.poll() is None
        release(peer)
    assert waiting.communicate(timeout=TIMEOUT) == ("", "")
    assert waiting.returncode == 0
    assert server.wait_exit() == 0
    assert not os.path.exists(ask.path)


def test_drain_all_has_no_deadline(own):
    server, ask = own(workers=2, graceful_timeout="100ms")
    peer = hold(server)
    waiting = ask.start("drain")
    server.log.wait("draining")
    assert "stopped" in ask.fails("reload")
    holds_for(lambda: waiting.poll() is None, 0.4, "it waits")
    release(peer)
    assert waiting.wait(TIMEOUT) == 0
    waiting.communicate()
    assert server.wait_exit() == 0


@pytest.mark.parametrize("pool", [[], ["main"]])
def test_drain_with_a_bound(own, pool):
    """Requests that never end do not hold it up for ever."""
    server, ask = own(graceful_timeout="600s")
    peer = hold(server)
    waiting = ask.start("drain", *pool, "--timeout", "300ms")
    out, err = waiting.communicate(timeout=4 * TIMEOUT)
    assert (waiting.returncode, out, err) == (0, "", "")
    assert server.wait_exit() == 0
    assert peer.wait_closed() in ("eof", "reset")
    peer.close()
    server.errors_expected = True
    server.stop()


def test_stop_puts_an_end_to_a_drain(own):
    server, ask = own(workers=2, graceful_timeout="100ms")
    peer = hold(server)
    draining = ask.start("drain")
    server.log.wait("draining")
    server.terminate()
    assert server.wait_exit() == 0
    assert draining.wait(TIMEOUT) == 0
    draining.communicate()
    peer.close()
    server.errors_expected = True


# status --watch

class Terminal:
    """A program with a terminal of its own."""

    def __init__(self, words, term="xterm"):
        self.master, slave = pty.openpty()
        self.before = termios.tcgetattr(slave)
        self.slave = slave
        self.seen = b""
        self.process = subprocess.Popen(
            words, stdin=slave, stdout=slave, stderr=slave,
            env=dict(os.environ, TERM=term), start_new_session=True)

    def until(self, condition, what):
        def there():
            if select.select([self.master], [], [], 0)[0]:
                self.seen += os.read(self.master, 65536)
            return condition(self.seen)
        wait_for(there, lambda: "%s: %r" % (what, self.seen[-2000:]))

    def end(self):
        code = self.process.wait(TIMEOUT)
        self.until(lambda s: True, "the rest")
        after = termios.tcgetattr(self.slave)
        os.close(self.master)
        os.close(self.slave)
        return code, after


@pytest.mark.parametrize("how", ["q", "interrupt"])
def test_watch_on_a_terminal(own, how):
    server, ask = own(workers=2)
    t = Terminal([srv.program(), "ctl", "--control", ask.path, "status",
                  "--watch", "0.1"])
    t.until(lambda s: s.count(b"pool main: serving") >= 3, "three pictures")
    assert b"\x1b[?1049h" in t.seen and b"\x1b[H" in t.seen
    assert t.seen.count(b"\n") == t.seen.count(b"\r\n")
    if how == "q":
        os.write(t.master, b"q")
    else:
        t.process.send_signal(signal.SIGINT)
    t.until(lambda s: s.endswith(b"\x1b[?1049l"), "the old screen")
    code, after = t.end()
    assert code == 0
    assert after == t.before


def test_watch_without_a_terminal(own):
    """A dumb terminal, or none: one table after the other."""
    server, ask = own()
    t = Terminal([srv.program(), "ctl", "--control", ask.path, "status",
                  "--watch=0.1"], term="dumb")
    t.until(lambda s: s.count(b"pool main: serving") >= 3, "three tables")
    assert b"\x1b" not in t.seen
    t.process.send_signal(signal.SIGINT)
    assert t.end()[0] == 0
    process = ask.start("status", "--watch", "0.1")
    seen = ""
    while seen.count("pool main: serving") < 3:
        line = process.stdout.readline()
        assert line
        seen += line
    process.stdout.close()          # as `| head` does
    process.stderr.close()
    process.wait(TIMEOUT)


def test_watch_while_the_server_restarts(own):
    server, ask = own()
    process = ask.start("status", "--watch", "0.1")

    def until(words):
        line = ""
        while words not in line:
            line = process.stdout.readline()
            assert line
    until("pool main: serving")
    server.stop()
    until(ask.path)
    server, ask = own()
    until("pool main: serving")
    process.send_signal(signal.SIGTERM)
    process.communicate()
    assert process.returncode == 0


# Upgrade of the binary

def test_upgrade(own):
    """USR2: the new manager takes the control socket over."""
    server, ask = own("sometimes", workers=2)
    server.process.send_signal(signal.SIGUSR2)
    ask.wait_status(lambda s: s["pid"] != server.pid
                    and s["totals"]["workers"]["idle"] == 2)
    assert server.wait_exit() == 0
    assert server.request().text == "works"
    assert ask("ping") == "pong\n"
    new = ask.status()["pid"]
    ask("stop")
    wait_for(lambda: not proc.alive(new), "the end of the new manager")
    assert not os.path.exists(ask.path)
    assert not os.path.exists(server.address)


def test_upgrade_of_pools_of_a_file(file):
    file.write(a={}, b={})
    server = file.start()
    file.ask.wait_status(lambda s: all(p["state"] == "serving"
                                       for p in s["pools"]))
    server.process.send_signal(signal.SIGUSR2)
    file.ask.wait_status(lambda s: s["pid"] != server.pid)
    assert server.wait_exit() == 0
    assert file.works("a") and file.works("b")
    file.ask("reload")
    file.ask("stop")


def test_an_upgrade_that_fails_changes_nothing(own, notes):
    server, ask = own("sometimes", workers=2)
    open(os.path.join(notes.dir, "broken"), "w").close()
    server.process.send_signal(signal.SIGUSR2)
    server.expect_error("the new manager .* ended")
    assert server.request().text == "works"
    assert ask.status()["pid"] == server.pid
    os.unlink(os.path.join(notes.dir, "broken"))
    ask("reload")
    assert server.request().text == "works"
