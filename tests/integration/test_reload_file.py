# SPDX-License-Identifier: MIT
"""Reload with another configuration: sockets, pools and settings that come,
change and go, while requests are under way."""

import json
import os
import shutil
import signal
import socket

import pytest

from lib import fcgi, proc
from lib import server as srv
from lib.load import Direct, Load
from lib.site import MANAGER, Site
from lib.wait import TIMEOUT, wait_for


class Pools(Site):
    """A server with a configuration file that a test rewrites."""

    def __init__(self, notes):
        super().__init__(None, notes)
        self.dir = srv.temp_dir()
        self.file = self.path("forebay.conf")
        self.put("version", "1")

    def path(self, name):
        return os.path.join(self.dir, name)

    def path_of_note(self, name):
        return os.path.join(self.notes.dir, name)

    def pool(self, name, listen=None, *lines, **settings):
        """A section; it listens on a socket of its name."""
        settings = dict({"app": "versions:application", "chdir": MANAGER,
                         "workers": 1, "body_buffer": 0,
                         "listen": listen or self.path(name)}, **settings)
        return "[pool %s]\n" % name + "".join(
            "%s = %s\n" % item for item in settings.items()) + "".join(
                line + "\n" for line in lines)

    def write(self, *sections, head=""):
        with open(self.file + ".new", "w") as f:
            f.write("[forebay]\n" + head + "\n" + "\n".join(sections))
        os.rename(self.file + ".new", self.file)

    def start(self):
        self.server = srv.Forebay(["serve", "-c", self.file],
                                  env=self.notes.env())
        self.server.wait_ready()
        return self

    def apply(self, *sections, ready=1, **how):
        """Rewrite, reload, and wait until so many pools are ready."""
        before = self.ready()
        self.write(*sections, **how)
        self.hup()
        self.wait_ready(before + ready)

    def at(self, address, path="/", **how):
        where = self.path(address) if isinstance(address, str) else address
        answer = fcgi.request(where, fcgi.params_for(path, **how))
        assert answer.status == 200 and answer.complete, answer
        return json.loads(answer.body)

    def close(self):
        try:
            if self.server is not None:
                if self.server.running():
                    self.server.stop()
                self.server.close()
        finally:
            shutil.rmtree(self.dir)


@pytest.fixture
def pools(notes):
    found = Pools(notes)
    yield found
    found.close()


def refused(address):
    try:
        fcgi.Peer(address).close()
    except (ConnectionRefusedError, FileNotFoundError):
        return True
    return False


def test_sockets_that_stay_come_and_go(pools):
    """No request fails on the one that stays."""
    p = pools
    port = srv.free_port()
    stays, goes = p.path("stays"), p.path("goes")
    p.write(p.pool("a", stays + " " + goes))
    p.start()
    inode = os.stat(stays).st_ino
    assert p.at("goes") == p.at("stays")
    with Load(lambda: Direct(stays, keep=True), 2) as kept, \
            Load(lambda: Direct(stays), 2) as single:
        p.apply(p.pool("a", "%s 127.0.0.1:%d" % (stays, port)))
        wait_for(lambda: refused(goes), "the old one is gone")
        assert not os.path.exists(goes)
        assert p.at(("127.0.0.1", port))["version"] == "1"
        p.apply(p.pool("a", stays + " " + goes))
        wait_for(lambda: refused(("127.0.0.1", port)), "the port is free")
        assert p.at("goes")["version"] == "1"
        kept.wait(10)
        single.wait(10)
    assert os.stat(stays).st_ino == inode


def test_a_request_on_a_socket_that_goes(pools):
    """Whoever is connected there is answered."""
    p = pools
    p.write(p.pool("a", p.path("one")))
    p.start()
    kept = Direct(p.path("one"), keep=True)
    kept()
    peer = fcgi.Peer(p.path("one"), timeout=2 * TIMEOUT)
    peer.send(fcgi.begin() + fcgi.stream(fcgi.PARAMS, fcgi.pairs(
        fcgi.params_for("/hold", "POST", body=b"go"))))
    p.notes.wait("holding")
    p.apply(p.pool("a", p.path("two")))
    wait_for(lambda: refused(p.path("one")), "the old one is gone")
    assert p.at("two")["version"] == "1"
    kept()                      # passed on to the new generation
    assert p.release(peer)["version"] == "1"
    kept.close()


def test_an_address_that_cannot_be_had(pools):
    """The whole reload of that pool is refused; what is there stays."""
    p = pools
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        s.listen()
        taken = "127.0.0.1:%d" % s.getsockname()[1]
        p.write(p.pool("a"), p.pool("b"))
        p.start()
        p.wait_ready(2)
        p.put("version", "2")
        p.apply(p.pool("a", "%s %s" % (p.path("a"), taken)), p.pool("b"))
        p.server.expect_error("pool a: reload refused: .*%s" % taken)
        assert p.at("a")["version"] == "1"
        wait_for(lambda: p.at("b")["version"] == "2", "b has reloaded")
    p.apply(p.pool("a", "%s %s" % (p.path("a"), taken)), p.pool("b"), ready=2)
    assert p.at("a")["version"] == "2"


def test_two_pools_change_places(pools):
    """A socket of one pool becomes another's."""
    p = pools
    p.write(p.pool("a", p.path("x"), workers=1), p.pool("b", p.path("y")))
    p.start()
    p.wait_ready(2)
    first = p.at("x")["template"]
    # In two steps: an address that is in use is in use.
    p.apply(p.pool("a", p.path("z")), p.pool("b", p.path("y")), ready=2)
    wait_for(lambda: refused(p.path("x")), "it is free")
    p.apply(p.pool("a", p.path("z")), p.pool("b", p.path("x")), ready=2)
    assert p.at("x")["template"] != first
    assert p.at("z")["template"] not in (first, p.at("x")["template"])
    wait_for(lambda: refused(p.path("y")), "it is gone")


@pytest.mark.parametrize("kind", ["tcp", "unix"])
def test_a_pool_with_another_name(pools, kind):
    """On the same socket: a reload like any other, without a refused or lost
    connection; kept ones stay."""
    p = pools
    address = ("127.0.0.1", srv.free_port()) if kind == "tcp" else p.path("x")
    listen = "127.0.0.1:%d" % address[1] if kind == "tcp" else address
    p.write(p.pool("before", listen, workers=2))
    p.start()
    first = p.at(address)["template"]
    with Load(lambda: Direct(address, keep=True), 2) as kept:
        with Load(lambda: Direct(address), 2) as single:
            p.apply(p.pool("after", listen, workers=2))
            p.wait_single()
            kept.wait(20)
            single.wait(20)
    assert p.at(address)["template"] != first
    assert p.server.log.find("pool before: goes on as pool after", 0)
    # One that cannot start is refused, and the old name serves on.
    p.put("broken", "yes")
    p.write(p.pool("third", listen))
    p.hup()
    p.server.expect_error("reload refused")
    assert p.at(address)
    os.unlink(p.path_of_note("broken"))
    p.put("version", "2")
    p.apply(p.pool("third", listen))
    wait_for(lambda: p.at(address)["version"] == "2", "the new generation")
    p.wait_single()
    assert p.at(address)["version"] == "2"


@pytest.mark.parametrize("how", ["removed", "replaced"])
def test_a_path_that_somebody_has_removed(pools, how):
    """A reload makes the socket anew, and kept connections are not lost."""
    p = pools
    path = p.path("a")
    p.write(p.pool("a", path, workers=2))
    p.start()
    kept = Direct(path, keep=True)
    kept()
    os.unlink(path)
    if how == "replaced":
        with open(path, "w") as f:
            f.write("precious")
        p.hup()
        p.server.expect_error("reload refused")
        with open(path) as f:
            assert f.read() == "precious"
        os.unlink(path)
    kept()
    before = p.ready()
    p.hup()
    p.wait_ready(before + 1)
    assert p.at("a")
    kept()
    p.wait_single()
    kept()
    kept.close()
    for _ in range(3):
        assert p.at("a")
    p.server.stop()
    assert not os.path.exists(path)


def test_errors_in_the_file(pools):
    """Nothing at all changes."""
    p = pools
    p.write(p.pool("a"))
    p.start()
    before = p.at("a")
    for wrong in ("[pool a]\nworkres = 2\n", "[pool a\n",
                  p.pool("a", None, "workers = many"),
                  p.pool("a") + p.pool("a"), "[pool b]\nlisten = :0\n"):
        mark = p.server.log.here()
        p.write(wrong)
        p.hup()
        p.server.errors_expected = True
        line, = p.server.log.wait("reload refused", start=mark)
        assert "forebay.conf:" in line, line
        assert p.at("a") == before
    p.server.log.mark = p.server.log.here()
    p.put("version", "2")
    p.apply(p.pool("a"))
    assert p.at("a")["version"] == "2"


def test_a_file_that_is_gone(pools):
    p = pools
    p.write(p.pool("a"))
    p.start()
    os.unlink(p.file)
    p.hup()
    p.server.expect_error("reload refused: .*forebay.conf")
    assert p.at("a")["version"] == "1"


def test_pools_that_come_and_go(pools):
    """Others do not notice more than a reload."""
    p = pools
    p.write(p.pool("a"), p.pool("b"))
    p.start()
    p.wait_ready(2)
    with Load(lambda: Direct(p.path("a"), keep=True), 3) as load:
        peer = fcgi.Peer(p.path("b"), timeout=2 * TIMEOUT)
        peer.send(fcgi.begin() + fcgi.stream(fcgi.PARAMS, fcgi.pairs(
            fcgi.params_for("/hold", "POST", body=b"go"))))
        p.notes.wait("holding")
        p.apply(p.pool("a"), p.pool("c"), ready=2)
        p.server.log.wait("pool b: no longer in")
        assert p.at("c")["version"] == "1"
        wait_for(lambda: refused(p.path("b")), "b takes no more")
        assert p.release(peer)["version"] == "1"    # what it has is finished
        p.server.log.wait("pool b: gone")
        p.apply(p.pool("a"), p.pool("b"), ready=2)
        assert p.at("b")["version"] == "1"
        load.wait(10)


def test_a_new_pool_that_cannot_start(pools):
    """It fails alone."""
    p = pools
    p.write(p.pool("a"))
    p.start()
    p.apply(p.pool("a"), p.pool("b", app="no_such_module"))
    p.server.expect_error("pool b cannot start: .*no_such_module")
    assert p.at("a")["version"] == "1"
    wait_for(lambda: refused(p.path("b")), "nobody is there")
    p.apply(p.pool("a"), p.pool("b"), ready=2)
    assert p.at("b")["version"] == "1"


def test_settings_that_change(pools):
    """Number of workers, threads, mode, the application, its environment:
    under load on kept connections."""
    p = pools
    p.write(p.pool("a", workers=2))
    p.start()
    with Load(lambda: Direct(p.path("a"), keep=True), 4) as load:
        for settings in ({"workers": 1, "mode": "threaded", "threads": 3},
                         {"workers": 3, "preload": "off"},
                         {"scaling": "dynamic", "workers": 1,
                          "max_workers": 3},
                         {"scaling": "ondemand", "max_workers": 2},
                         {"workers": 1, "max_requests": 50},
                         {"workers": 2}):
            p.apply(p.pool("a", **settings))
            load.wait(20)
    p.wait_single()
    p.server.wait_workers(2)


def test_an_application_becomes_a_program(pools):
    """And an application again, on the same socket."""
    p = pools
    php = shutil.which("php-cgi")
    if php is None:
        pytest.skip("php-cgi is not installed")
    page = p.path("page.php")
    with open(page, "w") as f:
        f.write("<?php echo 'php';")
    p.write(p.pool("a"))
    p.start()

    def is_php():
        answer = fcgi.request(p.path("a"), fcgi.params_for(
            "/page.php", extra={"SCRIPT_FILENAME": page}))
        return answer.body == b"php"
    assert not is_php()
    program = "[pool a]\ncommand = %s\nlisten = %s\n" % (php, p.path("a"))
    p.apply(program)
    wait_for(is_php, "the program")
    p.wait_single()
    p.apply(p.pool("a"))
    wait_for(lambda: not is_php(), "the application")
    p.wait_single()
    assert p.at("a")["version"] == "1"


def test_upgrade_reads_the_file_again(pools):
    """USR2: the new manager takes what stays, opens what is new, closes what
    is not wanted, and the pidfile names it."""
    p = pools
    head = "pidfile = %s\n" % p.path("pid")
    p.write(p.pool("a", p.path("stays") + " " + p.path("goes")), head=head)
    p.start()

    def pid():
        try:
            with open(p.path("pid")) as f:
                return int(f.read() or 0)
        except FileNotFoundError:
            return None
    assert pid() == p.server.pid
    with Load(lambda: Direct(p.path("stays")), 2) as load:
        p.write(p.pool("a", p.path("stays") + " " + p.path("new")),
                p.pool("b"), head=head)
        p.server.process.send_signal(signal.SIGUSR2)
        assert p.server.wait_exit() == 0
        new = pid()
        assert new != p.server.pid and proc.alive(new)
        load.wait(10)
        assert p.at("new")["version"] == p.at("b")["version"] == "1"
        wait_for(lambda: refused(p.path("goes")), "it is closed")
    os.kill(new, signal.SIGTERM)
    wait_for(lambda: not p.server.strays(), "nobody is left", 2 * TIMEOUT)
    assert pid() is None
    for name in ("stays", "new", "b", "goes"):
        assert not os.path.exists(p.path(name)), name


def test_storm_of_files(pools):
    """The last one counts, however quickly they follow one another."""
    p = pools
    p.write(p.pool("a"))
    p.start()
    for n in range(40):
        p.put("version", "v%d" % n)
        p.write(p.pool("a", workers=1 + n % 3),
                *[p.pool("b", workers=1)] * (n % 2))
        p.hup()
    wait_for(lambda: p.at("a")["version"] == "v39", "the last code",
             2 * TIMEOUT)
    wait_for(lambda: p.at("b")["version"] == "v39", "the last pools",
             2 * TIMEOUT)
    wait_for(lambda: len(p.templates()) == 2, "a generation each",
             2 * TIMEOUT)
    p.server.wait_workers(1 + 39 % 3 + 1)
