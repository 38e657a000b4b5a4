# SPDX-License-Identifier: MIT
"""How many workers there are: static, dynamic, ondemand, TTIN and TTOU."""

import os
import signal

import pytest

from lib import fcgi
from lib.load import Direct, Load
from lib.wait import TIMEOUT, holds_for, wait_for

STEADY_S = 0.4      # how long nothing may happen


def wait_live(s, least, most=None, without=()):
    """Between so many workers that are no longer than `without`."""
    most = least if most is None else most

    def there():
        found = [p for p in s.server.workers() if p not in without]
        return (found,) if least <= len(found) <= most else None
    return wait_for(there, lambda: "%d to %d workers: %r" % (
        least, most, s.server.ps()), 2 * TIMEOUT)[0]


def hold_many(s, count):
    """Occupy count threads of the pool."""
    return [s.hold() for _ in range(count)]


def release_all(s, peers):
    for peer in peers:
        s.release(peer)


# A fixed number

def test_static_stays_what_it_is(versions):
    s = versions(workers=3)
    before = s.server.wait_workers(3)
    peers = hold_many(s, 2)
    holds_for(lambda: s.server.workers() == before, STEADY_S,
              "the same three workers")
    release_all(s, peers)
    assert s.server.workers() == before


def test_many_workers_are_started_in_portions(versions):
    """More than fit into the channel to the template as orders."""
    s = versions(workers=200)
    wait_live(s, 200)
    assert s.ask()["version"] == "1"
    assert not s.server.log.find(" ERROR ", 0)


@pytest.mark.parametrize("workers", [1, 3])
def test_ttin_and_ttou(versions, workers):
    s = versions(workers=workers)
    for number in range(workers + 1, workers + 4):
        s.server.process.send_signal(signal.SIGTTIN)
        wait_live(s, number)
    for number in range(workers + 2, 0, -1):
        s.server.process.send_signal(signal.SIGTTOU)
        wait_live(s, number)
    s.server.process.send_signal(signal.SIGTTOU)
    s.server.log.wait("one is the least")
    assert len(s.server.workers()) == 1
    assert s.ask()["version"] == "1"


def test_ttou_lets_a_busy_worker_finish(versions_once):
    s = versions_once(workers=2)
    peers = hold_many(s, 2)
    s.server.process.send_signal(signal.SIGTTOU)
    s.server.process.send_signal(signal.SIGTTIN)
    # One ends when it is done, and another one comes for it.
    wait_for(lambda: len(s.server.workers()) >= 2, "two or three workers")
    release_all(s, peers)
    wait_live(s, 2)


def test_ttin_beyond_max_workers(versions):
    s = versions(workers=2, max_workers=3)
    s.server.process.send_signal(signal.SIGTTIN)
    wait_live(s, 3)
    s.server.process.send_signal(signal.SIGTTIN)
    s.server.log.wait("max_workers")
    assert len(s.server.workers()) == 3


def test_ttou_where_the_number_follows_the_work(versions):
    s = versions(scaling="dynamic", workers=2, min_workers=1, max_workers=4)
    s.server.process.send_signal(signal.SIGTTOU)
    s.server.log.wait("follows scaling")


def test_no_failure_while_the_number_changes(versions):
    s = versions(workers=3)
    with Load(lambda: Direct(s.server.address, keep=True), 3) as kept, \
            Load(lambda: Direct(s.server.address), 3) as single:
        for _ in range(4):
            s.server.process.send_signal(signal.SIGTTOU)
            wait_live(s, 2)
            kept.wait(10)
            s.server.process.send_signal(signal.SIGTTIN)
            wait_live(s, 3)
            single.wait(10)


# Between two bounds

DYNAMIC = {"scaling": "dynamic", "workers": 2, "min_workers": 1,
           "max_workers": 5, "min_spare": 1, "max_spare": 1,
           "idle_timeout": "200ms"}


def test_dynamic_grows_and_shrinks(versions_once):
    s = versions_once(**DYNAMIC)
    peers = []
    for busy in range(1, 5):
        peers.append(s.hold())
        # Those that are busy and one to spare.
        wait_live(s, busy + 1)
    peers.append(s.hold())
    holds_for(lambda: len(s.server.workers()) == 5, STEADY_S, "max_workers")
    release_all(s, peers)
    wait_live(s, 1)
    holds_for(lambda: len(s.server.workers()) == 1, STEADY_S, "min_workers")
    assert s.ask()["version"] == "1"


def test_dynamic_keeps_max_spare(versions_once):
    s = versions_once(**dict(DYNAMIC, max_spare=3))
    peers = hold_many(s, 4)
    wait_live(s, 5)
    release_all(s, peers)
    wait_live(s, 3)
    holds_for(lambda: len(s.server.workers()) == 3, STEADY_S, "max_spare")


def test_dynamic_takes_what_waits(versions_once):
    """More requests at once than workers: it grows up to the most, and all
    are answered."""
    s = versions_once(**dict(DYNAMIC, max_workers=3))
    peers = [s.server.peer(timeout=2 * TIMEOUT) for _ in range(8)]
    for peer in peers:
        peer.send(fcgi.begin() + fcgi.stream(fcgi.PARAMS, fcgi.pairs(
            fcgi.params_for("/hold", "POST", body=b"go"))))
    wait_live(s, 3)
    s.notes.wait("holding", 3)
    for peer in peers:
        s.release(peer)
    wait_live(s, 1)


# On demand

ONDEMAND = {"scaling": "ondemand", "max_workers": 3, "idle_timeout": "200ms",
            "workers": 2}


def test_ondemand_begins_with_nobody(versions):
    s = versions(**ONDEMAND)
    assert s.server.workers() == []
    first = s.ask()
    assert s.server.workers() == [first["pid"]]
    wait_live(s, 0)
    second = s.ask()
    assert second["pid"] != first["pid"]
    assert second["template"] == first["template"]
    # Imported once, in the template.
    assert len(s.notes.read("imports")) == 1


def test_ondemand_grows_up_to_the_most(versions_once):
    s = versions_once(**ONDEMAND)
    peers = []
    for busy in range(1, 4):
        peers.append(s.hold())
        wait_live(s, busy)
    waiting = s.server.peer(timeout=2 * TIMEOUT)
    waiting.send(fcgi.encode(fcgi.params_for("/")))
    holds_for(lambda: len(s.server.workers()) == 3, STEADY_S, "max_workers")
    s.release(peers.pop())
    assert waiting.answer().status == 200
    waiting.close()
    release_all(s, peers)
    wait_live(s, 0)


def test_ondemand_with_min_workers(versions):
    s = versions(**dict(ONDEMAND, min_workers=1))
    wait_live(s, 1)
    assert s.ask()["version"] == "1"
    holds_for(lambda: len(s.server.workers()) == 1, 2 * STEADY_S,
              "min_workers")


def test_ondemand_with_kept_connections(versions):
    """The last worker goes: nobody would hear what comes on a connection
    that it kept, so that is closed, and none that waits is forgotten."""
    s = versions(**ONDEMAND)
    clients = [Direct(s.server.address, keep=True) for _ in range(5)]
    for client in clients:
        client()
    wait_live(s, 0)
    for client in clients:
        assert client.peer.wait_closed() == "eof"
        client.close()
    assert s.ask()["version"] == "1"


def test_ondemand_starts_one_for_a_kept_connection(versions_once):
    """A request on a kept connection of a busy worker is work that waits,
    too."""
    s = versions_once(**dict(ONDEMAND, idle_timeout="1m"))
    client = Direct(s.server.address, keep=True)
    client()
    peer = s.hold()
    client()
    assert len(s.server.workers()) == 2
    client.close()
    s.release(peer)


def test_ondemand_reload_and_stop_with_nobody(versions):
    s = versions(**ONDEMAND)
    s.put("version", "2")
    s.reload()
    assert s.server.workers() == []
    assert s.ask()["version"] == "2"
    wait_live(s, 0)
    s.server.stop()


def test_ondemand_again_and_again(versions):
    """Requests that come just when the last worker goes."""
    s = versions(**dict(ONDEMAND, idle_timeout="1ms"))
    for _ in range(60):
        assert s.ask()["version"] == "1"
    with Load(lambda: Direct(s.server.address), 3) as load:
        load.wait(100)
    wait_live(s, 0)


def test_ondemand_after_a_death(versions):
    s = versions(**ONDEMAND)
    peer = s.hold()
    os.kill(s.server.workers()[0], signal.SIGKILL)
    assert not peer.answer().complete
    peer.close()
    s.server.expect_error("was running POST /hold")
    assert s.ask()["version"] == "1"


# Recycling

@pytest.mark.parametrize("kind", ["age", "memory"])
def test_workers_that_are_used_up_are_replaced(versions, kind):
    """Another one is ready before one goes."""
    if kind == "age":
        s = versions(workers=2, max_worker_age="300ms")
    else:
        s = versions(workers=2, max_worker_memory="1m")
    before = s.server.wait_workers(2)
    with Load(lambda: Direct(s.server.address, keep=True), 2) as load:
        wait_for(lambda: not set(before) & set(s.server.workers()),
                 "other workers", 2 * TIMEOUT)
        load.wait(10)
    s.server.log.wait("is replaced: it has (reached|grown)", start=0)


def test_no_more_than_max_recycling_at_once(versions):
    """Four workers that are all used up, and one goes after the other."""
    s = versions(workers=4, max_worker_age="100ms", max_recycling=1)
    most = [0]

    def look():
        most[0] = max(most[0], len(s.server.workers()))
        return len(s.server.log.find("is replaced", 0)) >= 8
    wait_for(look, "eight of them have been replaced", 2 * TIMEOUT)
    assert most[0] <= 5
