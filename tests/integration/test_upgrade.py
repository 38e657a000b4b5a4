# SPDX-License-Identifier: MIT
"""USR2: a new manager takes over the sockets, and no request is lost."""

import json
import os
import shutil
import signal
import socket

import pytest

from lib import fcgi, proc
from lib import frontends as fe
from lib import server as srv
from lib.load import Direct, Http, Load
from lib.wait import TIMEOUT, wait_for


class Upgraded:
    """A site, and the managers that follow one another."""

    def __init__(self, site):
        self.site, self.server = site, site.server
        self.pids = [self.server.pid]

    def managers(self):
        """Those that run, the oldest first."""
        found = [p for p in proc.with_environ(self.server.id)
                 if proc.alive(p) and " serve " in proc.cmdline(p)]
        return sorted(found, key=lambda p: proc.stat(p)[2])

    def signal(self, number=signal.SIGUSR2):
        os.kill(self.pids[-1], number)

    def wait_next(self):
        """Until the new manager is the only one; the old one ended well."""
        def single():
            found = self.managers()
            return len(found) == 1 and found[0] not in self.pids and found[0]
        pid = wait_for(single, lambda: "a single new manager: %r\n%s" % (
            self.managers(), self.server.log.text()[-3000:]), 2 * TIMEOUT)
        self.pids.append(pid)
        return pid

    def upgrade(self):
        self.signal()
        return self.wait_next()

    def stop(self):
        self.signal(signal.SIGTERM)
        wait_for(lambda: not self.managers(), "the end", 2 * TIMEOUT)
        wait_for(lambda: not self.server.strays(),
                 lambda: "nobody is left: %r" % self.server.strays())


@pytest.fixture
def upgraded(versions):
    """A site that may be upgraded. The first manager's exit is waited for by
    the fixture of the server, the last one's here."""
    made = []

    def start(**options):
        made.append(Upgraded(versions(**options)))
        return made[-1]
    yield start
    for u in made:
        if u.managers():
            u.stop()
        if isinstance(u.server.address, str):
            assert not os.path.exists(u.server.address)


def test_the_new_manager_serves(upgraded):
    u = upgraded()
    s = u.site
    inode = os.stat(s.server.address).st_ino
    old = s.ask()
    s.put("version", "2")
    for _ in range(3):
        u.upgrade()
        found = s.ask()
        assert found["version"] == "2"
        assert found["template"] != old["template"]
        assert os.stat(s.server.address).st_ino == inode
        old = found
    assert s.server.wait_exit() == 0
    s.server.log.wait("this one finishes what it has")
    u.stop()
    assert not os.path.exists(s.server.address)


def test_R079_the_path_is_removed_by_the_last(upgraded):
    """Not by the old manager when it ends, and by the new one when that
    is stopped."""
    u = upgraded()
    s = u.site
    with s.hold() as peer:
        u.signal()
        wait_for(lambda: len(u.managers()) == 2, "two managers")
        s.wait_ready(2)
        s.server.log.wait("this one finishes")
        assert os.path.exists(s.server.address)
        assert s.release(peer)["version"] == "1"
    u.wait_next()
    assert os.path.exists(s.server.address)
    assert s.ask()["version"] == "1"
    u.stop()
    assert not os.path.exists(s.server.address)


@pytest.mark.parametrize("keep", [True, False], ids=["kept", "single"])
@pytest.mark.parametrize("tcp", [True, False], ids=["tcp", "unix"])
def test_no_request_fails(upgraded, keep, tcp):
    """Kept connections survive as well."""
    u = upgraded(tcp=tcp)
    with Load(lambda: Direct(u.server.address, keep=keep), 4) as load:
        for _ in range(3):
            u.upgrade()
            load.wait(20)


@pytest.mark.parametrize("kind", [fe.NginxKept, fe.Lighttpd],
                         ids=lambda k: k.__name__)
def test_no_request_fails_behind_a_front_end(upgraded, front, kind):
    u = upgraded()
    web = front(kind, u.server.address)
    with Load(lambda: Http(web), 4) as load:
        for _ in range(3):
            u.upgrade()
            load.wait(20)


def test_a_long_request_ends_in_the_old_one(upgraded):
    u = upgraded()
    s = u.site
    s.put("version", "1")
    with s.hold() as peer:
        s.put("version", "2")
        u.signal()
        s.wait_ready(2)
        wait_for(lambda: s.ask()["version"] == "2", "the new one")
        assert s.release(peer)["version"] == "1"
    u.wait_next()


def test_idle_kept_connections_survive(upgraded):
    u = upgraded()
    clients = [Direct(u.server.address, keep=True) for _ in range(30)]
    try:
        for client in clients:
            client()
        for _ in range(2):
            u.upgrade()
            for client in clients:
                client()
    finally:
        for client in clients:
            client.close()


# A new one that cannot serve

def test_an_application_that_cannot_start(upgraded):
    """The old manager goes on, and may be asked again."""
    u = upgraded()
    s = u.site
    before = s.server.workers()
    s.put("broken", "yes")
    for n in range(2):
        u.signal()
        s.server.expect_error("upgrade: the new manager .* ended .* before it "
                              "served; this one goes on", n + 1)
        wait_for(lambda: u.managers() == u.pids, "the old one alone")
        assert s.ask()["version"] == "1"
    assert s.server.workers() == before
    assert os.path.exists(s.server.address)
    # Reload is refused for the same reason, and works later.
    s.hup()
    s.server.expect_error("reload refused")
    os.unlink(os.path.join(s.notes.dir, "broken"))
    s.reload()
    u.upgrade()
    assert s.ask()["version"] == "1"


def test_a_new_manager_that_is_killed(upgraded):
    u = upgraded()
    s = u.site
    s.put("slow", "600")
    u.signal()
    s.notes.wait("imports", 2)
    new, = [p for p in u.managers() if p not in u.pids]
    with s.hold() as peer:
        os.kill(new, signal.SIGKILL)
        s.server.expect_error("upgrade: the new manager %d ended" % new)
        assert s.release(peer)["version"] == "1"
    wait_for(lambda: u.managers() == u.pids, "the old one alone")
    assert s.ask()["version"] == "1"
    s.put("slow", "0")
    u.upgrade()
    assert s.ask()["version"] == "1"


@pytest.fixture
def copied():
    """The programs in a folder of their own, which a test may spoil."""
    folder = srv.temp_dir()
    for path in (srv.program(), srv.worker_program()):
        shutil.copy2(path, folder)
    yield folder
    shutil.rmtree(folder)


def test_a_new_program(versions, copied, monkeypatch):
    """What is started is what lies there now, not what was started."""
    program = os.path.join(copied, "forebay")
    monkeypatch.setattr(srv, "program", lambda: program)
    u = Upgraded(versions())
    os.rename(program, program + ".old")
    u.signal()
    u.server.expect_error("upgrade: ")
    assert u.managers() == u.pids
    assert u.site.ask()["version"] == "1"
    shutil.copy2(program + ".old", program)
    inode = os.stat(program).st_ino
    u.upgrade()
    assert os.stat("/proc/%d/exe" % u.pids[-1]).st_ino == inode
    assert u.site.ask()["version"] == "1"
    u.stop()


# Together with other orders

def test_several_signals_make_one_upgrade(upgraded):
    u = upgraded()
    s = u.site
    s.put("slow", "0.5")
    u.signal()
    wait_for(lambda: len(u.managers()) == 2, "two managers")
    u.signal()
    s.server.expect_error("upgrade: one is under way")
    # What has just been forked still bears the manager's name.
    wait_for(lambda: len(u.managers()) == 2, "two managers, not three")
    u.wait_next()


def test_stop_during_an_upgrade(upgraded):
    """Both end: whoever stops the server does not want the new one."""
    u = upgraded()
    s = u.site
    s.put("slow", "0.5")
    u.signal()
    wait_for(lambda: len(u.managers()) == 2, "two managers")
    u.signal(signal.SIGTERM)
    assert s.server.wait_exit() == 0
    s.server.errors_expected = True
    wait_for(lambda: not u.managers(), "the end of both", 2 * TIMEOUT)
    wait_for(lambda: not s.server.strays(), "nobody is left")
    assert not os.path.exists(s.server.address)


def test_reload_after_an_upgrade(upgraded):
    u = upgraded()
    s = u.site
    u.upgrade()
    s.put("version", "2")
    u.signal(signal.SIGHUP)
    wait_for(lambda: s.ask()["version"] == "2", "the new version")


def test_descriptors_are_not_collected(upgraded):
    """The same after many of them."""
    u = upgraded(workers=1)

    def count():
        return len(proc.fds(u.pids[-1]))
    u.upgrade()
    before = count()
    for _ in range(5):
        u.upgrade()
    wait_for(lambda: count() <= before, lambda: "%d descriptors: %r" % (
        before, proc.fds(u.pids[-1])))


# systemd

class Systemd:
    """The socket to which sd_notify(3) writes."""

    def __init__(self):
        self.dir = srv.temp_dir()
        self.path = os.path.join(self.dir, "notify")
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.sock.bind(self.path)
        self.sock.setblocking(False)
        self.said = []

    def read(self):
        try:
            while True:
                self.said += self.sock.recv(4096).decode().splitlines()
        except BlockingIOError:
            return self.said

    def wait(self, line, count=1):
        wait_for(lambda: sum(x == line for x in self.read()) >= count,
                 lambda: "%d times %s: %r" % (count, line, self.said))

    def close(self):
        self.sock.close()
        shutil.rmtree(self.dir)


@pytest.fixture
def systemd():
    found = Systemd()
    yield found
    found.close()


def test_what_systemd_hears(upgraded, systemd):
    """READY when it serves, RELOADING and READY around a reload, MAINPID of
    the new manager, STOPPING, and WATCHDOG in time."""
    u = upgraded(env={"NOTIFY_SOCKET": systemd.path,
                      "WATCHDOG_USEC": "100000"})
    s = u.site
    systemd.wait("READY=1")
    systemd.wait("MAINPID=%d" % u.pids[0])
    systemd.wait("WATCHDOG=1", 3)
    s.reload()
    systemd.wait("RELOADING=1")
    assert any(x.startswith("MONOTONIC_USEC=") for x in systemd.said)
    systemd.wait("READY=1", 2)
    s.put("broken", "yes")
    s.hup()
    s.server.expect_error("reload refused")
    systemd.wait("READY=1", 3)      # it serves on
    os.unlink(os.path.join(s.notes.dir, "broken"))
    u.upgrade()
    systemd.wait("MAINPID=%d" % u.pids[1])
    assert "STOPPING=1" not in systemd.said
    u.stop()
    systemd.wait("STOPPING=1")


WRAPPER = """#!%s -B
import fcntl, os, sys
given = [fcntl.fcntl(int(fd), fcntl.F_DUPFD, 20)
         for fd in os.environ["GIVEN_SOCKET"].split()]
for n, fd in enumerate(given):
    os.dup2(fd, 3 + n)
    os.close(fd)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS=str(len(given)))
os.execv("%s", ["%s"] + sys.argv[1:])
"""


@pytest.fixture
def wrapped(tmp_path, monkeypatch):
    """The program finds sockets as systemd passes them."""
    real = srv.program()
    wrapper = tmp_path / "forebay"
    wrapper.write_text(WRAPPER % (srv.base_python(), real, real))
    wrapper.chmod(0o755)
    monkeypatch.setattr(srv, "program", lambda: str(wrapper))


@pytest.fixture
def activated(versions_once, wrapped):
    """A site whose listening socket came from systemd, on descriptor 3."""
    folder = srv.temp_dir()
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(os.path.join(folder, "s"))
        sock.listen(100)
        site = versions_once(
            listen="systemd", socket_mode=None, address=sock.getsockname(),
            env={"GIVEN_SOCKET": str(sock.fileno())},
            popen={"pass_fds": [sock.fileno()]})
    yield site
    shutil.rmtree(folder)


def test_R080_activation_by_systemd(activated):
    """The socket is systemd's: kept over reloads and an upgrade, and its path
    is never touched."""
    s, path = activated, activated.server.address
    s.server.address = None         # it stays when the server is stopped
    inode = os.stat(path).st_ino

    def version():
        answer = fcgi.request(path, fcgi.params_for("/"))
        return json.loads(answer.body)["version"]
    for n in range(2, 7):
        s.put("version", str(n))
        s.reload()
        assert version() == str(n)
        assert os.stat(path).st_ino == inode
    u = Upgraded(s)
    s.put("version", "new")
    u.upgrade()
    assert version() == "new"
    u.stop()
    assert os.stat(path).st_ino == inode


def test_R080_sockets_by_their_names(versions_once, wrapped):
    """status_listen has its own socket unit; a pool that names none gets what
    is left."""
    folder = srv.temp_dir()
    socks = []
    for name in ("a", "status", "b"):
        sock = socket.socket(socket.AF_UNIX)
        sock.bind(os.path.join(folder, name))
        sock.listen(100)
        socks.append(sock)
    s = versions_once(
        listen="systemd", socket_mode=None, address=socks[0].getsockname(),
        status_listen="systemd:status",
        env={"GIVEN_SOCKET": " ".join(str(x.fileno()) for x in socks),
             "LISTEN_FDNAMES": "web:status:web"},
        popen={"pass_fds": [x.fileno() for x in socks]})
    s.server.address = None
    paths = {x: os.path.join(folder, x) for x in ("a", "status", "b")}

    def check():
        for name in ("a", "b"):
            answer = fcgi.request(paths[name], fcgi.params_for("/"))
            assert json.loads(answer.body)["version"]
        answer = fcgi.request(paths["status"], fcgi.params_for("/ping"))
        assert answer.body == b"pong\n"
    check()
    s.reload()
    check()
    u = Upgraded(s)
    u.upgrade()
    check()
    u.stop()
    assert all(os.path.exists(p) for p in paths.values())
    for sock in socks:
        sock.close()
    shutil.rmtree(folder)
