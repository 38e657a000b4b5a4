# SPDX-License-Identifier: MIT
"""Reload: a new generation beside the old one, and no request is lost."""

import json
import os
import signal

import pytest

from lib import fcgi, proc
from lib import frontends as fe
from lib import server as srv
from lib.load import Direct, Http, Load
from lib.site import start
from lib.wait import FACTOR, LONG, TIMEOUT, wait_for


# What a reload does

def test_new_code_is_served_after_it(versions):
    s = versions()
    assert s.ask()["version"] == "1"
    s.put("version", "2")
    old = s.server.workers()
    s.reload()
    assert s.ask()["version"] == "2"
    assert not set(old) & set(s.server.workers())
    assert len(s.server.wait_workers(2)) == 2


def test_R066_a_long_request_ends_in_the_old_generation(versions):
    """Short ones are served by the new one at once."""
    s = versions()
    with s.hold() as peer:
        old = s.ask("/")["template"]
        s.put("version", "2")
        s.hup()
        s.wait_ready(2)
        wait_for(lambda: s.ask()["version"] == "2", "the new generation")
        for _ in range(20):
            found = s.ask()
            assert found["version"] == "2" and found["template"] != old
        assert old in s.templates()
        found = s.release(peer)
        assert (found["version"], found["template"]) == ("1", old)
    s.wait_single()


def test_long_requests_of_several_generations(versions):
    """Each ends in its own; none waits for another."""
    s = versions(workers=1)
    peers = []
    for version in "1234":
        s.put("version", version)
        s.hup()
        s.wait_ready(len(peers) + 2)
        # In the backlog, the old generation may still take it.
        wait_for(lambda: s.ask()["version"] == version, "the new one serves")
        peers.append(s.hold())
    assert len(s.templates()) == 4
    for version, peer in reversed(list(zip("1234", peers))):
        assert s.release(peer)["version"] == version
    s.wait_single()


def test_graceful_timeout_bounds_the_old_generation(versions):
    s = versions(graceful_timeout="300ms")
    with s.hold() as peer:
        s.reload()
        assert not peer.answer().complete
    s.server.expect_error("graceful_timeout")
    s.server.expect_error(r"was running POST /hold")
    assert s.ask()["version"] == "1"


# A reload that fails

@pytest.mark.parametrize("preload", ["on", "off", "auto"])
def test_a_broken_application_is_refused(versions, preload):
    s = versions(preload=preload)
    before = s.server.wait_workers(2)
    s.put("version", "2")
    s.put("broken", "yes")
    s.hup()
    s.server.expect_error("reload refused")
    s.server.expect_error("a broken deploy")
    s.wait_single()
    assert s.server.workers() == before
    for _ in range(5):
        assert s.ask()["version"] == "1"
    os.unlink(os.path.join(s.notes.dir, "broken"))
    s.reload()
    assert s.ask()["version"] == "2"


def test_an_import_that_hangs_is_refused(versions):
    """start_timeout ends it."""
    s = versions(start_timeout="%gs" % (2 * FACTOR))
    s.put("slow", "600")
    s.hup()
    s.server.expect_error("start_timeout")
    s.server.expect_error("reload refused")
    s.wait_single()
    assert s.ask()["version"] == "1"


def test_a_template_that_dies_in_a_reload(versions):
    s = versions()
    s.put("slow", "600")
    old = s.server.template()
    s.hup()
    new, = wait_for(lambda: [p for p in s.templates() if p != old],
                    "the new template")
    s.notes.wait("imports", 2)
    os.kill(new, signal.SIGKILL)
    s.server.expect_error("reload refused")
    assert s.templates() == [old]
    assert s.ask()["version"] == "1"


# Reloads in quick succession

def test_R069_a_storm_of_signals(versions):
    """200 HUPs: they coalesce, the last code wins, the number of workers is
    right, and stopping works."""
    s = versions()
    with Load(lambda: Direct(s.server.address), 2) as single:
        with Load(lambda: Direct(s.server.address, keep=True), 2) as kept:
            for n in range(200):
                s.put("version", str(n))
                s.hup()
                if n % 10 == 0:
                    single.wait(2)
                    kept.wait(2)
    wait_for(lambda: s.ask()["version"] == "199", "the last version",
             2 * TIMEOUT)
    s.wait_single()
    assert len(s.server.wait_workers(2)) == 2
    # Every reload imports twice with `auto` at most; far from 200.
    assert len(s.notes.read("imports")) < 150
    s.server.stop()


def test_asked_for_while_one_is_under_way(versions):
    """The code that counts is what is there when the signal comes."""
    s = versions()
    s.put("slow", "0.5")
    s.put("version", "2")
    s.hup()
    s.notes.wait("imports", 2)
    s.put("version", "3")
    for _ in range(5):
        s.hup()
    wait_for(lambda: s.ask()["version"] == "3", "the last version",
             2 * TIMEOUT)
    s.wait_single()
    assert s.ready() <= 4       # the start, the first, and one for all others


def test_asked_for_during_the_start(versions):
    s = versions(wait=False)
    s.put("slow", "0.3")
    wait_for(lambda: s.templates(), "the template")
    s.hup()
    s.wait_ready(2)
    s.wait_single()
    assert s.ask()["version"] == "1"


def test_stop_during_a_reload(versions):
    """Both generations end, at whatever moment."""
    s = versions()
    s.put("slow", "0.5")
    s.hup()
    wait_for(lambda: len(s.templates()) == 2, "two templates")
    s.server.stop()


def test_many_reloads_leave_nothing_behind(versions):
    """Descriptors, threads and memory of the manager stay the same."""
    s = versions(workers=1)

    def look():
        return (len(proc.fds(s.server.pid)), proc.threads(s.server.pid))
    for _ in range(3):
        s.reload()
    before = look()
    memory = proc.rss_bytes(s.server.pid)
    for _ in range(1000 if LONG else 20):
        s.reload()
    wait_for(lambda: all(now <= then for now, then in zip(look(), before)),
             lambda: "%r as before: %r, %r" % (
                 before, look(), proc.fds(s.server.pid)))
    if not srv.sanitized():     # they keep freed memory back for a while
        assert proc.rss_bytes(s.server.pid) - memory < 1 << 20


# Under load

FRONTS = [fe.Nginx, fe.NginxKept, fe.NginxScgi, fe.Lighttpd, fe.Apache,
          fe.ApacheReuse, fe.Haproxy]
MANY = [fe.Nginx, fe.NginxKept, fe.Lighttpd, fe.Apache]


@pytest.mark.parametrize("kind", FRONTS, ids=lambda k: k.__name__)
def test_no_request_fails_behind_a_front_end(serve, notes, front, kind):
    """30 reloads or 10; each request gets the answer of some version."""
    s = start(serve, notes, workers=2, threads=2 if kind.kept else 1)
    web = front(kind, s.server.address)
    reloads = 100 if LONG else 30 if kind in MANY else 10
    versions = set()
    with Load(lambda: Http(web), 4, seen=lambda body: versions.add(
            json.loads(body)["version"])) as load:
        for n in range(1, reloads + 1):
            s.put("version", "v%d" % n)
            before = s.ready()
            s.hup()
            s.wait_ready(before + 1)
            load.wait(4)
    s.wait_single()
    assert json.loads(web.request("/")[2])["version"] == "v%d" % reloads
    assert "1" in versions and len(versions) > reloads // 2


@pytest.mark.parametrize("keep", [True, False], ids=["kept", "single"])
@pytest.mark.parametrize("tcp", [True, False], ids=["tcp", "unix"])
def test_no_connection_is_lost(versions, keep, tcp):
    """A kept connection survives every reload: the same client asks on it
    before, during and after 10 of them."""
    s = versions(tcp=tcp)
    with Load(lambda: Direct(s.server.address, keep=keep), 6) as load:
        for n in range(10):
            before = s.ready()
            s.hup()
            s.wait_ready(before + 1)
            load.wait(12)
    s.wait_single()


def test_idle_kept_connections_survive(versions):
    """50 that say nothing while the generation changes under them."""
    s = versions()
    clients = [Direct(s.server.address, keep=True) for _ in range(50)]
    try:
        for client in clients:
            client()
        for version in ("2", "3"):
            s.put("version", version)
            s.reload()
            for client in clients:
                assert client.peer.is_open()
                assert json.loads(client())["version"] == version
    finally:
        for client in clients:
            client.close()


def test_one_idle_kept_connection_survives(versions):
    """A single one: nothing that comes after it wakes the workers again, if the
    wake-up for it went to one that was about to end."""
    s = versions()
    for _ in range(12):
        client = Direct(s.server.address, keep=True)
        try:
            client()
            s.reload()
            client()
        finally:
            client.close()


def test_half_a_request_survives(versions):
    """Its head came before the reload, the rest behind it: whoever has it
    answers."""
    s = versions()
    whole = fcgi.encode(fcgi.params_for("/"), flags=fcgi.KEEP_CONN)
    peers = [s.server.peer() for _ in range(4)]
    try:
        for n, peer in enumerate(peers):
            peer.send(whole[:(n + 1) * len(whole) // 5])
        s.put("version", "2")
        before = s.ready()
        s.hup()
        s.wait_ready(before + 1)
        for n, peer in enumerate(peers):
            peer.send(whole[(n + 1) * len(whole) // 5:])
            assert peer.answer(keep=True).status == 200
    finally:
        for peer in peers:
            peer.close()
    s.wait_single()


@pytest.mark.parametrize("block", ["sleep", "ctypes"])
def test_R067_busy_workers_hear_of_it_by_a_pipe(versions, block):
    """No signal interrupts what the application does: a system call that is
    not repeated after EINTR."""
    s = versions("interrupted")
    with Load(lambda: Direct(s.server.address, "/" + block), 4) as load:
        for _ in range(15):
            before = s.ready()
            s.hup()
            s.wait_ready(before + 1)
            load.wait(4)
    s.wait_single()
    assert not s.notes.read("interrupted")


# Watching the code

def test_autoreload(serve, notes, epoll_shape, tmp_path):
    code = tmp_path / "watched.py"
    text = ("def application(environ, start_response):\n"
            "    start_response('200 OK', [('Content-Type', 'text/plain')])\n"
            "    return [b'%s']\n")
    code.write_text(text % "one")
    server = serve("watched", chdir=str(tmp_path),
                   **epoll_shape.options(autoreload=True))
    assert server.request().body == b"one"
    (tmp_path / "data.bin").write_text("no source")
    code.write_text(text % "two")
    wait_for(lambda: server.request().body == b"two", "the new code")
    below = tmp_path / "package"
    below.mkdir()
    (below / "__init__.py").write_text("WORD = b'three'\n")
    code.write_text("from package import WORD\n" + text.replace(
        "b'%s'", "WORD"))
    wait_for(lambda: server.request().body == b"three", "a new package")
    (below / "__init__.py").write_text("WORD = b'four'\n")
    wait_for(lambda: server.request().body == b"four",
             "a change in a new folder")
    code.write_text("this is no Python\n")
    server.expect_error("reload refused")
    assert server.request().body == b"four"
