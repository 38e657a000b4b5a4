# SPDX-License-Identifier: MIT
"""reserved_slots: streams and exports do not take the last thread (R129)."""

import os
import signal

import pytest

from lib import fcgi
from lib.ctl import Ctl
from lib.load import Direct, Load
from lib.wait import TIMEOUT, wait_for

SLOTS = 4


@pytest.fixture
def slots(versions, epoll_shape, notes):
    """tests/apps/manager/slots.py with four slots, of which one is for requests
    that are not below /long: four workers, or one with four threads."""
    def start(**options):
        workers = 1 if epoll_shape.threaded else SLOTS
        control = os.path.join(notes.dir, "control")
        s = versions("slots", control=control, **dict(
            {"workers": workers, "reserved_slots": 1,
             "long_paths": "/long"}, **options))
        s.ctl = Ctl(control)
        return s
    return start


class Long:
    """A request that is long until it is told to end."""
    number = 0

    def __init__(self, s, path="/long", cut=0, **how):
        Long.number += 1
        self.s, self.name = s, "n%d" % Long.number
        self.peer = s.server.peer(timeout=2 * TIMEOUT)
        params = fcgi.params_for(path, "POST", self.name, b"go", **how)
        head = fcgi.begin() + fcgi.stream(fcgi.PARAMS, fcgi.pairs(params))
        self.peer.send(head[:cut] if cut else head)
        self.rest = head[cut:] if cut else b""

    def has_begun(self):
        return any(line.split()[0] == self.name
                   for line in self.s.notes.read("begun"))

    def wait_begun(self):
        wait_for(self.has_begun, "%s begins" % self.name)
        return self

    def worker(self):
        return [int(line.split()[1]) for line in self.s.notes.read("begun")
                if line.split()[0] == self.name][0]

    def end(self):
        """Send what is left, and read the answer."""
        self.peer.send(fcgi.stream(fcgi.STDIN, b"go"))
        answer = self.peer.answer()
        self.peer.close()
        assert answer.status == 200 and answer.complete, answer
        return answer


def held(s, count):
    """So many are held back, and short ones are answered."""
    s.ctl.wait_pool(lambda p: p["totals"]["held_back"] == count,
                    "%d held back" % count)
    for _ in range(5):
        assert s.ask("/health")


def full(s, count=SLOTS - 1):
    """As many long ones as may run."""
    return [Long(s).wait_begun() for _ in range(count)]


def test_R129_a_slot_is_kept_for_short_requests(slots):
    """More long requests than may run wait, in order; short ones do not."""
    s = slots()
    running = full(s)
    waiting = []
    for n in range(1, 6):
        waiting.append(Long(s))
        held(s, n)
    assert not any(w.has_begun() for w in waiting)
    while running or waiting:
        if running:
            running.pop(0).end()
        if waiting:
            wait_for(lambda: any(w.has_begun() for w in waiting),
                     "one of those that waited begins")
            begun = [w for w in waiting if w.has_begun()]
            assert len(begun) + len(running) <= SLOTS - 1
            running += begun
            waiting = [w for w in waiting if w not in begun]
        held(s, len(waiting))
    held(s, 0)
    line, = s.server.log.find("only reserved_slots are left", 0)[:1]
    assert "(1)" in line


def test_R129_nobody_waits_while_there_is_room(slots):
    """All that waits with one worker goes to others as soon as these may."""
    s = slots()
    running = full(s)
    waiting = [Long(s) for _ in range(SLOTS - 1)]
    held(s, SLOTS - 1)
    for one in running:
        one.end()
    for one in waiting:
        one.wait_begun()
    held(s, 0)
    for one in waiting:
        one.end()


def test_short_paths_leave_the_rest_to_others(slots):
    """Without long_paths only what is named is short."""
    s = slots(long_paths=None, short_paths=["/health", "/long/but/short"])
    running = full(s)
    first = Long(s, "/other/long")
    s.ctl.wait_pool(lambda p: p["totals"]["held_back"] == 1)
    second = Long(s, "/long/but/short/really").wait_begun()
    # Now no thread is left at all.
    running.pop().end()
    wait_for(lambda: s.ctl.pool()["totals"]["held_back"] == 0, "room again")
    first.end()
    second.end()
    for one in running:
        one.end()


def test_paths_end_at_a_slash(slots):
    """/long is neither /longer nor /lon; the longest path decides."""
    s = slots(long_paths=["/long", "/"], short_paths=["/health", "/longer"])
    running = full(s)
    for _ in range(3):
        assert s.ask("/health") and s.ask("/health/of/all")
    also = Long(s, "/longer").wait_begun()
    also.end()
    blocked = Long(s, "/healthy")
    held(s, 1)
    running.pop().end()
    blocked.end()
    for one in running:
        one.end()


def test_503_after_queue_timeout(slots):
    s = slots(queue_timeout="300ms")
    running = full(s)
    waiting = [Long(s) for _ in range(3)]
    for one in waiting:
        answer = one.peer.answer()
        assert answer.status == 503 and not one.has_begun()
        assert s.ask("/health")
    for one in running:
        one.end()
    Long(s).wait_begun().end()


@pytest.mark.parametrize("tcp", [True, False], ids=["tcp", "unix"])
def test_heads_in_pieces(slots, tcp):
    """They wait as well, for the worker that has read them."""
    s = slots(tcp=tcp)
    running = full(s)
    pieces = [Long(s, cut=n) for n in (1, 7, 8, 20, 100)]
    held(s, 0)
    for one in pieces:
        for byte in one.rest:
            one.peer.send(bytes([byte]))
    held(s, len(pieces))
    # One that leaves in the middle of its head is nobody's concern.
    Long(s, cut=50).peer.close()
    for one in running:
        one.end()
    for one in pieces:
        one.wait_begun().end()


def test_bodies_that_come_late(slots, epoll_shape):
    """Body and head in any pieces: the request waits for both."""
    if not epoll_shape.threaded:
        pytest.skip("requests that have begun stay with their worker")
    s = slots(body_buffer=None)
    body = b"x" * 300000

    def begin():
        peer = s.server.peer(timeout=2 * TIMEOUT)
        params = fcgi.params_for("/long", "POST", "late", body)
        peer.send(fcgi.begin() + fcgi.stream(fcgi.PARAMS, fcgi.pairs(params)))
        return peer
    late = [begin() for _ in range(SLOTS)]
    held(s, 0)
    assert not s.notes.read("begun")
    for peer in late[:SLOTS - 1]:
        peer.send(fcgi.stream(fcgi.STDIN, body[:200000], end=False))
    s.notes.wait("begun", SLOTS - 1)
    late[-1].send(fcgi.stream(fcgi.STDIN, body[:100000], end=False))
    held(s, 1)
    for n, peer in enumerate(late):
        peer.send(fcgi.stream(fcgi.STDIN, body[100000 if n == SLOTS - 1
                                               else 200000:]))
    for peer in late:
        answer = peer.answer()
        assert answer.status == 200 and answer.complete
        peer.close()
    held(s, 0)


def test_kept_connections(slots):
    """Requests one after the other on connections that go from hand to
    hand."""
    s = slots()
    with Load(lambda: Direct(s.server.address, "/long", keep=True,
                             method="POST", body=b"go"), 8) as long:
        with Load(lambda: Direct(s.server.address, "/short", keep=True),
                  2) as short:
            for _ in range(3):
                long.wait(50)
                short.wait(50)


def test_scgi(slots):
    s = slots()
    running = full(s)
    peers = [s.server.peer(timeout=2 * TIMEOUT) for _ in range(3)]
    for peer in peers:
        peer.send(fcgi.scgi(fcgi.params_for("/long", "POST", body=b"go"),
                            b"go"))
    held(s, 3)
    for one in running:
        one.end()
    for peer in peers:
        assert peer.scgi_answer().status == 200
        peer.close()


def test_a_killed_worker_leaves_its_place(slots, epoll_shape):
    """What it marked as taken is free with it."""
    s = slots()
    running = full(s)
    waiting = Long(s)
    held(s, 1)
    if epoll_shape.threaded:
        waiting.peer.close()         # it was with the same worker
    os.kill(running[0].worker(), signal.SIGKILL)
    s.server.expect_error("killed by signal 9")
    if epoll_shape.threaded:
        waiting = Long(s)
    waiting.wait_begun().end()
    for one in running:
        one.peer.close()
    held(s, 0)


@pytest.mark.parametrize("how", ["reload", "stop"])
def test_the_end_of_workers_that_hold_back(slots, how):
    """Nothing is lost: the next generation takes it, or it is answered
    first."""
    s = slots()
    running = full(s)
    waiting = [Long(s) for _ in range(3)]
    held(s, 3)
    if how == "reload":
        s.hup()
        s.wait_ready(2)
    else:
        s.server.terminate()
    for one in running:
        one.end()
    for one in waiting:
        one.wait_begun()
        one.end()
    if how == "reload":
        s.wait_single()
        held(s, 0)
        Long(s).wait_begun().end()
    else:
        assert s.server.wait_exit() == 0


def test_clients_that_leave(slots):
    s = slots()
    running = full(s)
    waiting = [Long(s) for _ in range(3)]
    held(s, 3)
    for one in waiting:
        one.peer.close()
    for one in running:
        one.end()
    held(s, 0)
    again = full(s)
    for one in again:
        one.end()


def test_a_pool_that_grows(slots, epoll_shape):
    """Reserved slots are none to spare: it grows for what waits."""
    if epoll_shape.threaded:
        pytest.skip("one shape is enough: the manager decides")
    s = slots(workers=2, max_workers=4, scaling="dynamic", min_workers=2,
              min_spare=1)
    running = full(s, SLOTS - 1)
    s.server.wait_workers(4)
    waiting = Long(s)
    held(s, 1)
    for one in running:
        one.end()
    waiting.wait_begun().end()
