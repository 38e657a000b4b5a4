# SPDX-License-Identifier: MIT
"""Requests that take too long: reported, ended, and at last killed with their
worker; the others never notice."""

import os
import re
import signal
import threading

import pytest

from lib import fcgi, proc
from lib.load import Direct, Load
from lib.wait import FACTOR, TIMEOUT, holds_for, wait_for

SLOW = {"slow_request": "100ms"}
LIMIT = {"request_timeout": "300ms", "request_grace": "10m"}
# Killed soon after.
KNIFE = {"request_timeout": "300ms", "request_grace": "300ms"}


@pytest.fixture
def late(versions):
    """tests/apps/manager/late.py, one worker."""
    def start(**options):
        return versions("late", **dict({"workers": 1}, **options))
    return start


@pytest.fixture
def late_once(versions_once):
    """The same in the one shape that the test asks for."""
    def start(**options):
        return versions_once("late", **dict({"workers": 1}, **options))
    return start


def in_background(s, path, **how):
    """Ask on a connection of its own; the peer, to be answered later."""
    peer = s.server.peer(timeout=2 * TIMEOUT)
    peer.send(fcgi.encode(fcgi.params_for(path, **how)))
    return peer


def finish(peer):
    answer = peer.answer()
    peer.close()
    return answer


def ok(s):
    answer = s.server.request("/")
    assert answer.status == 200, answer
    return int(answer.body)


# slow_request

STACKS = {"/sleep": "sleeps", "/loop": "loops", "/gil": "blocks",
          "/c": "blocks"}


@pytest.mark.parametrize("path", STACKS)
def test_R114_the_stack_of_a_slow_request(late, path):
    """File and line, in a Python loop, in a sleep, and in C code with and
    without the GIL. Nobody is stopped for it."""
    s = late(**SLOW)
    peer = in_background(s, path, query="a=1")
    worker, = s.server.workers()
    line, = s.server.log.wait(
        r"slow request: GET %s\?a=1 runs for 0\.\d" % path)
    assert "SLOW" in line and str(worker) in line
    function = STACKS[path]
    frame, = s.server.log.wait(r"late\.py.* line \d+ in %s$" % function)
    number = int(re.search(r"line (\d+)", frame).group(1))
    with open(os.path.join(os.path.dirname(__file__), "..", "apps", "manager",
                           "late.py")) as f:
        text = f.read().splitlines()
    start = text.index(next(x for x in text if x.startswith(
        "def %s(" % function)))
    assert start < number <= start + 5
    s.server.log.wait(r"late\.py.* in application$")
    assert proc.stat(worker)[0] in "SR"
    os.kill(worker, signal.SIGKILL)
    assert not finish(peer).complete
    s.server.expect_error("was running GET %s" % path)
    s.server.wait_workers(1, without=[worker])
    # Once, however long it took.
    assert len(s.server.log.find("slow request")) == 1


def test_slow_requests_of_several_threads(late_once):
    """Each with the stack of its own thread."""
    s = late_once(mode="threaded", threads=4, **SLOW)
    peers = [in_background(s, p) for p in ("/sleep", "/c", "/body")]
    s.server.log.wait("slow request: GET /sleep .* in thread")
    s.server.log.wait("slow request: GET /c .* in thread")
    text = s.server.log.text()
    for path, function in (("/sleep", "page_sleep"), ("/c", "page_c")):
        below = text[text.index("slow request: GET %s" % path):]
        below = re.split(r"slow request", below)[1]
        assert "in %s" % function in below, text
    for peer in peers:
        peer.close()
    assert ok(s)
    s.server.errors_expected = True
    for worker in s.server.workers():
        os.kill(worker, signal.SIGKILL)


def test_fast_requests_are_not_slow(late):
    s = late(slow_request="10s", request_timeout="20s")
    with Load(lambda: Direct(s.server.address, keep=True), 2) as load:
        load.wait(300)
    assert not s.server.log.find("slow request|request_timeout", 0)


def test_R115_sampling_stops_nobody(late):
    """Many slow requests under load: no worker is ever found stopped, and all
    are answered."""
    s = late(workers=2, slow_request="5ms")
    stopped = []
    with Load(lambda: Direct(s.server.address, "/turns", query="8"),
              3) as load:
        for _ in range(40):
            stopped += [p for p in s.server.workers()
                        if (proc.stat(p) or "-")[0] in "Tt"]
            load.wait(3)
    assert not stopped
    assert s.server.log.find(r"late\.py.* in loops", 0)


def test_a_stopped_worker_is_noticed(late):
    """SIGSTOP: said once, and again when it goes on."""
    s = late(workers=2)
    victim = s.server.workers()[0]
    os.kill(victim, signal.SIGSTOP)
    try:
        s.server.expect_error(r"worker %d is stopped" % victim)
        for _ in range(4):
            assert ok(s) != victim
    finally:
        os.kill(victim, signal.SIGCONT)
    s.server.log.wait("worker %d goes on" % victim)
    assert len(s.server.log.find("is stopped")) == 1


# request_timeout

def test_a_loop_is_answered_with_504(late):
    s = late(**LIMIT)
    worker = ok(s)
    for _ in range(3):
        answer = s.server.request("/loop")
        assert answer.status == 504 and answer.complete
        assert ok(s) == worker
    s.server.expect_error("request_timeout: GET /loop", 3)
    s.server.log.wait(r"late\.py.* in loops")


def test_a_sleep_is_answered_with_504(late_once):
    """In the main thread the system call is woken."""
    s = late_once(**LIMIT)
    worker = ok(s)
    assert s.server.request("/sleep").status == 504
    s.server.expect_error("request_timeout: GET /sleep")
    assert ok(s) == worker


def test_on_a_kept_connection(late):
    """The 504 is an answer like any other."""
    s = late(**LIMIT)
    with s.server.peer() as peer:
        for path, status in (("/", 200), ("/loop", 504), ("/", 200)):
            peer.send(fcgi.encode(fcgi.params_for(path),
                                  flags=fcgi.KEEP_CONN))
            answer = peer.answer(keep=True)
            assert (answer.status, answer.complete) == (status, True)
    s.server.errors_expected = True


def test_scgi_too(late):
    s = late(**LIMIT)
    assert s.server.request("/loop", protocol="scgi").status == 504
    s.server.errors_expected = True


def test_broken_off_when_a_part_was_sent(late):
    """Never ended as if it were whole."""
    s = late(**LIMIT)
    worker = ok(s)
    peer = in_background(s, "/parts")
    assert peer.until(b"first")
    answer = finish(peer)
    assert not answer.complete and b"second" not in answer.stdout
    s.server.expect_error("request_timeout: GET /parts")
    assert ok(s) == worker


def test_except_Exception_does_not_swallow_it(late):
    s = late(**LIMIT)
    assert s.server.request("/swallow").status == 504
    assert not s.notes.read("swallowed")
    assert s.server.request("/cleanup").status == 504
    caught, = s.notes.read("caught")
    assert caught.startswith("BaseException")
    assert len(s.notes.read("finally")) == 1
    s.server.errors_expected = True


def test_an_application_may_answer_for_itself(late):
    s = late(**LIMIT)
    answer = s.server.request("/own_answer")
    assert (answer.status, answer.body) == (200, b"too late")
    s.server.errors_expected = True


def test_deadline_tells_what_is_left(late):
    s = late()
    assert s.server.request("/left").body == b"none"
    s.server.stop()
    s = late(request_timeout="1m")
    assert 0 < float(s.server.request("/left").body) <= 60


def test_two_at_once_are_both_answered(late_once):
    """Two threads whose time is over at the same moment."""
    s = late_once(mode="threaded", threads=4, **LIMIT)
    worker = ok(s)
    for _ in range(3):
        peers = [in_background(s, "/loop") for _ in range(3)]
        assert [finish(p).status for p in peers] == [504] * 3
    assert ok(s) == worker
    s.server.expect_error("request_timeout: GET /loop", 9)


def test_others_are_never_hit(late_once):
    """1,000 fast requests beside one that times out again and again."""
    s = late_once(mode="threaded", threads=4, **LIMIT)
    worker = ok(s)
    with Load(lambda: Direct(s.server.address, keep=True), 2) as load:
        end = load.answered + 1000
        while load.answered < end:
            assert s.server.request("/loop").status == 504
    assert ok(s) == worker
    s.server.errors_expected = True


@pytest.mark.parametrize("mode", ["prefork", "threaded"])
def test_the_next_request_is_never_hit(late_once, mode):
    """A request holds the GIL until after its time is over, and ends well.
    Whoever was to raise has waited for the GIL, and finds the next request
    of the same thread in its place."""
    s = late_once(mode=mode, threads=1 if mode == "prefork" else 2,
             request_timeout="60ms", request_grace="10m")
    late_ones = 0
    with s.server.peer(timeout=2 * TIMEOUT) as peer:
        for _ in range(25):
            # The second one lies in the socket when the first one ends.
            for path, query in (("/busy", "120"), ("/turns", "40")):
                peer.send(fcgi.encode(fcgi.params_for(path, query=query),
                                      flags=fcgi.KEEP_CONN))
            first = peer.answer(keep=True)
            late_ones += first.status != 200
            second = peer.answer(keep=True)
            assert second.status == 200, second.stdout
    # It is raised when the C code returns, or it comes too late.
    assert late_ones < 25
    s.server.errors_expected = True


# The knife

@pytest.mark.parametrize("path", ["/stubborn", "/gil", "/c"])
def test_what_cannot_be_ended_is_killed(late, path):
    s = late(**KNIFE)
    worker = ok(s)
    answer = s.server.request(path, query="q")
    assert not answer.complete
    s.server.expect_error("worker %d: a request runs past request_timeout and "
                          "request_grace" % worker)
    s.server.expect_error("was running GET %s" % path)
    assert ok(s) != worker
    s.server.wait_workers(1, without=[worker])


def test_other_threads_finish_first(late_once):
    """A thread stuck in C: the request of another one is answered, then the
    worker is killed."""
    s = late_once(mode="threaded", threads=4, **KNIFE)
    worker = ok(s)
    stuck = in_background(s, "/c")
    s.notes.wait("blocked")
    # Reads a body that is still to come, in a thread of its own.
    with s.server.peer(timeout=2 * TIMEOUT) as peer:
        s.server.expect_error("request_timeout: GET /c")
        peer.send(fcgi.begin() + fcgi.stream(fcgi.PARAMS, fcgi.pairs(
            fcgi.params_for("/body", "POST", body=b"12345"))))
        s.notes.wait("reading")
        peer.send(fcgi.stream(fcgi.STDIN, b"12345"))
        answer = peer.answer()
        assert (answer.status, answer.body) == (200, b"5")
    assert not finish(stuck).complete
    s.server.expect_error("killed by signal 9")
    assert ok(s) != worker


def test_innocent_requests_in_a_wedged_worker(late_once):
    """C code that holds the GIL stands in everybody's way: while that worker
    is on its way out another one serves."""
    s = late_once(mode="threaded", threads=3, workers=2,
                  request_timeout="300ms",
                  request_grace="300ms")
    s.server.wait_workers(2)
    stuck = in_background(s, "/gil")
    holder, = s.notes.wait("holding_gil")
    peers = [in_background(s, "/") for _ in range(8)]
    assert not finish(stuck).complete
    for peer in peers:
        # Those that the wedged process has taken go down with it.
        answer = finish(peer)
        assert answer.complete or not answer.stdout
    s.server.expect_error("killed by signal 9")
    s.server.wait_workers(2, without=[int(holder)])
    for _ in range(10):
        assert ok(s) != int(holder)


def test_kept_connections_of_a_killed_worker(late_once):
    """They are parked, not stuck: a sibling has taken them over."""
    s = late_once(workers=2, request_timeout="300ms",
                  request_grace="1s")
    clients = [Direct(s.server.address, keep=True) for _ in range(10)]
    try:
        for client in clients:
            client()
        stuck = in_background(s, "/c")
        holder, = s.notes.wait("blocked")
        for _ in range(3):
            for client in clients:
                client()
        assert not finish(stuck).complete
        s.server.expect_error("killed by signal 9")
        s.server.wait_workers(2, without=[int(holder)])
        for client in clients:
            client()
    finally:
        for client in clients:
            client.close()


# After the response

def test_R074_work_after_the_response_has_a_limit_of_its_own(late):
    """The answer has left at once; request_timeout does not count here."""
    s = late(after_timeout="400ms", request_timeout="100ms",
             request_grace="100ms")
    answer = s.server.request("/after", query="loop")
    assert (answer.status, answer.body) == (200, b"early")
    worker, = s.notes.wait("after")
    s.server.expect_error("worker %s: work after a response runs past "
                          "after_timeout" % worker)
    s.server.wait_workers(1, without=[int(worker)])
    assert ok(s) != int(worker)
    assert not s.notes.read("after_ended")


def test_R074_without_a_limit_it_may_take_its_time(late):
    s = late(request_timeout="50ms", request_grace="1ms")
    for _ in range(3):
        answer = s.server.request("/after", query="short")
        assert answer.body == b"early"
    assert len(set(s.notes.wait("after_ended", 3))) == 1


# The others

def test_a_worker_that_hangs_in_its_import(versions):
    """One that is started later: killed after start_timeout, and tried again
    until it works."""
    s = versions(preload="off", workers=1, start_timeout="%gs" % (2 * FACTOR))
    worker, = s.server.wait_workers(1)
    s.put("slow", "600")
    os.kill(worker, signal.SIGKILL)
    s.notes.wait("imports", 2)
    s.server.expect_error("not ready within start_timeout: it is killed")
    s.put("slow", "0")
    wait_for(lambda: s.server.log.find("killed by signal 9", 0)[1:],
             "the end of that worker")
    assert s.ask()["version"] == "1"


def test_a_stuck_request_does_not_stop_the_stop(late):
    s = late(request_timeout="200ms", request_grace="10m",
             graceful_timeout="600ms")
    peer = in_background(s, "/stubborn")
    s.notes.wait("stubborn")
    s.server.terminate()
    assert s.server.wait_exit() == 0
    s.server.expect_error("graceful_timeout")
    assert not finish(peer).complete


def test_threads_of_the_application_are_left_alone(late_once):
    """Only the thread of the request is told to end."""
    s = late_once(mode="threaded", threads=2, **LIMIT)
    done = threading.Event()

    def ask():
        while not done.is_set():
            s.server.request("/loop")
    thread = threading.Thread(target=ask)
    thread.start()
    try:
        with Load(lambda: Direct(s.server.address, "/turns", query="20"),
                  1) as load:
            load.wait(60)
    finally:
        done.set()
        thread.join()
    s.server.errors_expected = True


def test_nothing_is_written_while_nothing_happens(late):
    """The control thread sleeps; a worker at rest uses no time."""
    s = late(**SLOW)
    ok(s)
    worker, = s.server.workers()
    before = []

    def rests():
        before.append(proc.cpu_ticks(worker))
        return len(before) > 40 and before[-1] == before[-40]
    wait_for(rests, "a worker at rest")
    holds_for(lambda: proc.cpu_ticks(worker) - before[-1] < 5, 0.5,
              "no time is used")
