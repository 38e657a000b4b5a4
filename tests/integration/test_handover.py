# SPDX-License-Identifier: MIT
"""Connections never own workers: those that a front end keeps go from a busy
or leaving worker to another one, and none is lost."""

import json
import os
import re
import signal
import subprocess

import pytest

from lib import fcgi
from lib import frontends as fe
from lib.load import Direct, Http, Load
from lib.wait import TIMEOUT, holds_for, wait_for


@pytest.fixture
def clients():
    """clients(site, count): so many kept connections, each has asked once."""
    made = []

    def make(s, count, path="/"):
        found = [Direct(s.server.address, path, keep=True)
                 for _ in range(count)]
        made.extend(found)
        for client in found:
            client()
        return found
    yield make
    for client in made:
        client.close()


def pid(body):
    return json.loads(body)["pid"]


# Busy workers

@pytest.mark.parametrize("workers", [2, 4])
def test_requests_of_a_busy_worker_go_to_another(versions_once, clients,
                                                 workers):
    """All but one of the workers are held; every kept connection is answered,
    by the one that is left."""
    s = versions_once(workers=workers)
    kept = clients(s, 12)
    held = [s.hold() for _ in range(workers - 1)]
    busy = {int(line) for line in s.notes.read("holding")}
    assert len(busy) == workers - 1
    for _ in range(3):
        for client in kept:
            assert pid(client()) not in busy
    for peer in held:
        s.release(peer)
    for client in kept:
        client()


def test_threads_of_a_busy_worker(versions_once, clients):
    """A worker is busy when all its threads are."""
    s = versions_once(mode="threaded", threads=2, workers=2)
    kept = clients(s, 12)
    held = [s.hold() for _ in range(3)]
    for _ in range(3):
        for client in kept:
            client()
    for peer in held:
        s.release(peer)


def test_when_all_are_busy_they_wait(versions_once, clients):
    """Nobody is there to take them: they wait for whoever is free first."""
    s = versions_once(workers=2)
    kept = clients(s, 8)
    held = [s.hold() for _ in range(2)]
    for client in kept:
        client.peer.send(client.bytes)
    holds_for(lambda: all(c.peer.is_open() and not c.peer.inbuf
                          for c in kept), 0.3, "they wait")
    s.release(held.pop())
    for client in kept:
        assert client.peer.answer(keep=True).status == 200
    s.release(held.pop())


def test_a_request_that_has_begun_stays(versions_once, clients):
    """Half a head has been read by the worker that is now busy: it waits for
    that one, and others on kept connections do not."""
    s = versions_once(workers=2)
    kept = clients(s, 6)
    half = clients(s, 6)
    for client in half:
        client.peer.send(client.bytes[:30])
    # The heads are read before the worker is held.
    for client in kept:
        client()
    held = s.hold()
    for client in half:
        client.peer.send(client.bytes[30:])
    for _ in range(3):
        for client in kept:
            client()
    s.release(held)
    for client in half:
        assert client.peer.answer(keep=True).status == 200


def test_new_connections_avoid_a_busy_worker(versions_once, clients):
    s = versions_once(workers=2)
    kept = clients(s, 4)
    held = s.hold()
    for client in kept:
        client()
    for _ in range(20):
        assert s.ask()["version"] == "1"
    s.release(held)


def test_fast_clients_beside_one_slow(versions_once):
    """One client whose requests take 20 ms beside others, all on kept
    connections: everybody is answered, and right."""
    s = versions_once(workers=2)
    with Load(lambda: Direct(s.server.address, "/wait", keep=True,
                             query="20"), 1) as slow, \
            Load(lambda: Direct(s.server.address, keep=True), 4) as fast:
        slow.wait(20)
        fast.wait(200)


def test_deep_pipelines(versions_once, clients):
    """Several requests at once on a kept connection, while the worker is
    busy and after it is free."""
    s = versions_once(workers=2)
    kept = clients(s, 4)
    held = s.hold()
    for client in kept:
        client.peer.send(client.bytes * 5)
    for client in kept:
        for _ in range(5):
            assert client.peer.answer(keep=True).status == 200
    s.release(held)


# Workers that leave

def test_R004_recycling_with_kept_connections(versions):
    """max_requests 10 under load: no connection is closed, no answer lost."""
    s = versions(workers=2, max_requests=10)
    with Load(lambda: Direct(s.server.address, keep=True), 6) as load:
        wait_for(lambda: len(s.server.log.find("is replaced", 0)) >= 6,
                 "six workers have been replaced", 2 * TIMEOUT)
        load.wait(50)


def test_a_worker_less(versions, clients):
    """TTOU: the connections of the one that goes are taken over."""
    s = versions(workers=3)
    kept = clients(s, 30)
    for left in (2, 1):
        s.server.process.send_signal(signal.SIGTTOU)
        s.server.wait_workers(left)
        for client in kept:
            assert client.peer.is_open()
            client()


def test_more_connections_than_the_queue_holds(versions, clients):
    """A single worker with 400 of them is replaced."""
    s = versions(workers=1)
    kept = clients(s, 400)
    old = s.server.workers()
    s.reload()
    for client in kept:
        assert pid(client()) not in old
    s.server.process.send_signal(signal.SIGTTIN)
    s.server.wait_workers(2)
    for client in kept:
        client()


def test_protocols_of_those_that_wait(versions_once, clients):
    """A connection that has said nothing yet, and one of each protocol."""
    s = versions_once(workers=2, max_worker_age="10m")
    silent = [s.server.peer() for _ in range(6)]
    kept = clients(s, 6)
    try:
        s.reload()
        for n, peer in enumerate(silent):
            if n % 2:
                peer.send(fcgi.encode(fcgi.params_for("/")))
                assert peer.answer().status == 200
            else:
                peer.send(fcgi.scgi(fcgi.params_for("/")))
                assert peer.scgi_answer().status == 200
        for client in kept:
            client()
    finally:
        for peer in silent:
            peer.close()


def test_a_killed_worker_takes_only_its_own(versions_once, clients):
    s = versions_once(workers=2)
    kept = clients(s, 20)
    owner = {client: pid(client()) for client in kept}
    victim = owner[kept[0]]
    os.kill(victim, signal.SIGKILL)
    assert kept[0].peer.wait_closed()
    s.server.expect_error("worker %d was killed" % victim)
    for client in kept:
        if owner[client] != victim:
            client()
        else:
            assert not client.peer.is_open()


def test_stop_with_kept_connections(versions, clients):
    """Those that say nothing are closed; what was sent is answered first."""
    s = versions(workers=2)
    kept = clients(s, 20)
    held = s.hold()
    for client in kept[:10]:
        client.peer.send(client.bytes)
    s.server.terminate()
    s.server.log.wait("stopping")
    s.release(held)
    for client in kept[:10]:
        answer = client.peer.answer(keep=True)
        assert (answer.status, answer.complete) == (200, True)
        assert client.peer.wait_closed() == "eof"
    for client in kept[10:]:
        assert client.peer.wait_closed() == "eof"
        assert not client.peer.inbuf
    assert s.server.wait_exit() == 0


# Through a front end that keeps connections

class NginxKept64(fe.NginxKept):
    def settings(self):
        return dict(super().settings(), KEEPALIVE="keepalive 64;")


def test_500_clients_with_64_kept_connections(serve, notes, front):
    """Of two workers. No failure, no timeout."""
    if fe.find("wrk") is None:
        pytest.skip("wrk is not installed")
    from lib import site
    s = site.start(serve, notes, workers=2)
    web = front(NginxKept64, s.server.address)
    found = subprocess.run(
        ["wrk", "-t", "1", "-c", "500", "-d", "3s", "--timeout", "60s",
         "http://127.0.0.1:%d/" % web.port], stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, timeout=4 * TIMEOUT)
    text = found.stdout.decode()
    assert found.returncode == 0, text
    assert not re.search("Socket errors|Non-2xx", text), text + web.log()
    assert int(re.search(r"(\d+) requests in", text).group(1)) > 500, text
    assert s.ask()["version"] == "1"


@pytest.mark.parametrize("kind", [NginxKept64, fe.ApacheReuse, fe.Haproxy],
                         ids=lambda k: k.__name__)
def test_R004_recycling_behind_a_front_end(serve, notes, front, kind):
    """max_requests 10: no 502. A quarter of the requests is slow."""
    from lib import site
    s = site.start(serve, notes, workers=2, max_requests=10)
    web = front(kind, s.server.address)
    with Load(lambda: Http(web, "/wait?5"), 2) as slow, \
            Load(lambda: Http(web), 6) as fast:
        wait_for(lambda: len(s.server.log.find("is replaced", 0)) >= 10,
                 "ten workers have been replaced", 2 * TIMEOUT)
        fast.wait(100)
        slow.wait(10)
