# SPDX-License-Identifier: MIT
"""FastCGI multiplexing: several requests on one connection at the same time,
on the threads of a threaded worker (FastCGI 1.0, section 3)."""

import hashlib
import http.client
import os
import random
import signal
from concurrent.futures import ThreadPoolExecutor

import pytest

from conftest import Shape
from lib import fcgi
from lib import frontends as fe
from lib import server as srv
from lib.wait import holds_for, wait_for

APP = os.path.join(srv.APPS, "mux")
THREADED = Shape("threaded", "epoll")


def digest(data):
    return "%d %s" % (len(data), hashlib.sha1(data).hexdigest())


class Mux:
    """One server, and a connection on which requests are put together."""

    def __init__(self, serve, notes, **options):
        self.notes = notes
        self.server = serve("app:application", chdir=APP, env=notes.env(),
                            **THREADED.options(**options))

    def go(self, *names):
        for name in names:
            open(os.path.join(self.notes.dir, "go-" + name), "w").close()

    def running(self, *names):
        wait_for(lambda: set(names) <= set(self.notes.read("running")),
                 lambda: "running: %r, there are %r" % (
                     names, self.notes.read("running")))

    def close(self):
        self.server.close()


def params(what, name="", body=None):
    method = "GET" if body is None else "POST"
    return fcgi.params_for("/" + what, method, name, body)


def ask(what, name="", id_=1, body=None, flags=fcgi.KEEP_CONN, **how):
    return fcgi.encode(params(what, name, body), body or b"", id_, flags,
                       **how)


def head(what, name="", id_=1, body=b"", flags=fcgi.KEEP_CONN):
    return fcgi.begin(flags=flags, id_=id_) + fcgi.stream(
        fcgi.PARAMS, fcgi.pairs(params(what, name, body)), id_)


def stdin(data, id_=1, **how):
    return fcgi.stream(fcgi.STDIN, data, id_, **how)


@pytest.fixture
def mux(serve, notes):
    return Mux(serve, notes)


def values(peer, *names):
    peer.send(fcgi.record(fcgi.GET_VALUES, fcgi.pairs(
        {name: "" for name in names}), 0))
    type_, id_, content, _ = peer.record()
    assert (type_, id_) == (fcgi.GET_VALUES_RESULT, 0)
    return content


# What is said about it

@pytest.mark.parametrize("threads,said", [(4, b"1"), (1, b"0")])
def test_get_values(serve, notes, threads, said):
    mux = Mux(serve, notes, threads=threads)
    with mux.server.peer() as peer:
        assert values(peer, "FCGI_MPXS_CONNS") == fcgi.pair(
            "FCGI_MPXS_CONNS", said)
        if threads > 1:
            assert values(peer, "FCGI_MAX_REQS") == fcgi.pair(
                "FCGI_MAX_REQS", "%d" % threads)


# Requests beside each other

def test_a_quick_one_overtakes_a_slow_one(mux):
    with mux.server.peer() as peer:
        for turn in range(3):       # the connection is an ordinary one between
            slow = "slow%d" % turn
            peer.send(ask("hold", slow, 1))
            mux.running(slow)
            for i in range(20):
                peer.send(ask("answer", str(i), 2))
                assert peer.answer(2, keep=True).text == "hello %d" % i
            mux.go(slow)
            assert peer.answer(1, keep=True).text == "held " + slow
            peer.send(ask("answer", "alone", 7))
            assert peer.answer(7, keep=True).text == "hello alone"


def test_as_many_as_there_are_threads(mux):
    with mux.server.peer() as peer:
        for id_ in (1, 2, 3, 4):
            peer.send(ask("hold", "h%d" % id_, id_))
        mux.running("h1", "h2", "h3", "h4")
        mux.go("h3", "h1", "h4", "h2")
        found = peer.answers([1, 2, 3, 4], keep=True)
        for id_ in found:
            assert found[id_].text == "held h%d" % id_


def test_all_in_one_write(mux):
    """They arrive together: none waits for the one before."""
    with mux.server.peer() as peer:
        peer.send(b"".join(ask("hold", "h%d" % i, i) for i in (1, 2, 3, 4)))
        mux.running("h1", "h2", "h3", "h4")
        mux.go("h1", "h2", "h3", "h4")
        found = peer.answers([1, 2, 3, 4], keep=True)
        assert all(found[i].text == "held h%d" % i for i in found)


def test_more_than_threads(mux):
    """Those above wait for a thread; everybody is answered."""
    ids = list(range(1, 61))
    with mux.server.peer() as peer:
        peer.send(b"".join(ask("upload", "", i, b"%d" % i) for i in ids))
        found = peer.answers(ids, keep=True)
        for i in ids:
            assert found[i].text == digest(b"%d" % i)


def test_over_the_limit_of_a_connection(mux):
    """64 requests at a time; what is more is refused as the specification
    says."""
    ids = list(range(1, 71))
    with mux.server.peer() as peer:
        for i in ids:
            peer.send(head("upload", "", i, b"body"))
        for i in ids:
            peer.send(stdin(b"body", i))
        found = peer.answers(ids, keep=True)
        refused = [i for i in ids if found[i].end == (0, fcgi.CANT_MPX_CONN)]
        assert refused == ids[64:]
        assert all(found[i].text == digest(b"body") for i in ids[:64])


def test_the_same_id_again(mux):
    """A peer that sends its next request before the answer of the last one:
    one after the other, while others go on."""
    with mux.server.peer() as peer:
        peer.send(ask("hold", "a", 5) + ask("answer", "b", 5))
        mux.running("a")
        holds_for(lambda: not mux.notes.read("answered"), 0.2, "b waits")
        mux.go("a")
        assert peer.answer(5, keep=True).text == "held a"
        assert peer.answer(5, keep=True).text == "hello b"


def test_without_keep_conn_no_second(mux):
    with mux.server.peer() as peer:
        peer.send(ask("hold", "a", 1, flags=0))
        mux.running("a")
        peer.send(ask("answer", "b", 2))
        mux.go("a")
        found = peer.answers([1], keep=True)
        assert found[1].text == "held a"
        peer.wait_closed()
        assert not mux.notes.read("answered")


def test_a_last_one_without_keep_conn(mux):
    """The connection is closed after it and those beside it."""
    with mux.server.peer() as peer:
        peer.send(ask("hold", "a", 1))
        mux.running("a")
        peer.send(ask("answer", "b", 2, flags=0))
        assert peer.answer(2, keep=True).text == "hello b"
        assert peer.is_open()
        mux.go("a")
        assert peer.answer(1).text == "held a"


# Output

def test_whole_records_interleaved(mux):
    """Big answers at the same time: records are never cut into each other, and
    none waits for the end of another."""
    ids = [1, 2, 3, 4]
    with mux.server.peer() as peer:
        for i in ids:
            peer.send(ask("stream", "%s,300,20000" % "abcd"[i - 1], i),
                      receive=False)
        mux.running("a", "b", "c", "d")
        found = peer.answers(ids, keep=True)
    for i in ids:
        assert found[i].body == b"abcd"[i - 1:i] * 6000000
        assert len(found[i].records) > 90


def test_files_beside_answers(mux):
    path = os.path.join(mux.notes.dir, "file")
    data = random.Random(1).randbytes(5 << 20)
    with open(path, "wb") as f:
        f.write(data)
    with mux.server.peer() as peer:
        for i in (1, 2):
            peer.send(ask("file", path, i), receive=False)
        for i in (3, 4):
            peer.send(ask("stream", "z,100,30000", i), receive=False)
        found = peer.answers([1, 2, 3, 4], keep=True)
    assert found[1].body == data and found[2].body == data
    assert found[3].body == found[4].body == b"z" * 3000000


# Input

@pytest.mark.parametrize("how", ["upload", "pieces", "lines"])
def test_bodies_interleaved(mux, how):
    """Records of several bodies in random order and sizes."""
    dice = random.Random(how)
    bodies = {i: bytes(dice.choices(b"abcdefg\n", k=dice.randrange(300_000)))
              for i in range(1, 9)}
    left = {i: bodies[i] for i in bodies}
    with mux.server.peer() as peer:
        for i in bodies:
            peer.send(head(how, "", i, bodies[i]))
        while left:
            i = dice.choice(list(left))
            n = dice.randrange(1, 40000)
            if left[i]:
                peer.send(fcgi.record(fcgi.STDIN, left[i][:n], i,
                                      padding=dice.randrange(9)))
                left[i] = left[i][n:]
            else:
                peer.send(fcgi.record(fcgi.STDIN, b"", i))
                del left[i]
        found = peer.answers(list(bodies), keep=True)
    for i in bodies:
        assert found[i].text == digest(bodies[i])


@pytest.mark.parametrize("how", ["late", "begun"])
def test_a_body_that_nobody_reads_does_not_block(mux, how):
    """The application of one request does not read (on): what has come is
    kept for it, and others pass by."""
    body = bytes(random.Random(2).choices(b"xyz", k=200_000))
    with mux.server.peer() as peer:
        peer.send(head(how, "slow", 1, body) + fcgi.stream(
            fcgi.STDIN, body[:100_000], 1, end=False))
        mux.running("slow")
        for i in range(5):
            peer.send(fcgi.record(fcgi.STDIN, body[100_000 + 1000 * i:
                                                   101_000 + 1000 * i], 1))
            peer.send(ask("upload", "", 2, b"b%d" % i))
            assert peer.answer(2, keep=True).text == digest(b"b%d" % i)
        mux.go("slow")
        peer.send(stdin(body[105_000:], 1))
        assert peer.answer(1, keep=True).text == digest(body)


def test_more_body_than_is_kept(mux):
    """Over the limit the connection waits for the application, and nothing is
    lost."""
    body = bytes(random.Random(3).choices(b"xyz", k=3_000_000))
    with mux.server.peer() as peer:
        peer.send(head("begun", "slow", 1, body) + stdin(body[:10], 1,
                                                         end=False))
        mux.running("slow")
        peer.send(ask("answer", "first", 2))
        assert peer.answer(2, keep=True).text == "hello first"
        peer.sock.setblocking(False)
        rest = stdin(body[10:], 1) + ask("answer", "second", 3)
        sent = 0
        try:
            while sent < len(rest):
                sent += peer.sock.send(rest[sent:sent + 65536])
        except BlockingIOError:
            pass
        assert sent < 2_000_000         # it takes no more
        mux.go("slow")
        peer.send(rest[sent:])
        found = peer.answers([1, 3], keep=True)
        assert found[1].text == digest(body)
        assert found[3].text == "hello second"


def test_a_body_that_is_given_up(serve, notes):
    """The application does not read on for as long as body_timeout: its body
    is dropped, the others go on."""
    mux = Mux(serve, notes, body_timeout="1s")
    body = b"x" * 3_000_000
    with mux.server.peer() as peer:
        peer.send(head("late", "slow", 1, body))
        mux.running("slow")
        peer.send(ask("answer", "first", 2))
        assert peer.answer(2, keep=True).text == "hello first"
        peer.send(stdin(body, 1) + ask("answer", "second", 3))
        assert peer.answer(3, keep=True).text == "hello second"
        mux.go("slow")
        assert peer.answer(1, keep=True).status == 408
        assert notes.wait("error")[0].startswith("slow ")
        mux.server.expect_error("has not read on in its request body")
        peer.send(ask("answer", "third", 4))
        assert peer.answer(4, keep=True).text == "hello third"


def test_answers_without_reading(mux):
    """END_REQUEST comes when the body has ended, and others do not wait for
    that."""
    with mux.server.peer() as peer:
        peer.send(head("unread", "", 1, b"x" * 100))
        peer.until(b"not read")
        peer.send(ask("answer", "b", 2))
        assert peer.answer(2, keep=True).text == "hello b"
        peer.send(stdin(b"x" * 100, 1))
        assert peer.record()[:2] in ((fcgi.STDOUT, 1), (fcgi.END, 1))


def test_heads_that_are_interleaved(mux):
    """Parameters of several requests in small records, alternating."""
    with mux.server.peer() as peer:
        parts = {}
        for i in (1, 2, 3):
            peer.send(fcgi.begin(flags=fcgi.KEEP_CONN, id_=i))
            block = fcgi.pairs(params("answer", "n%d" % i))
            parts[i] = [block[k:k + 7] for k in range(0, len(block), 7)] + [
                b""]
        while parts:
            for i in list(parts):
                peer.send(fcgi.record(fcgi.PARAMS, parts[i].pop(0), i))
                if not parts[i]:
                    del parts[i]
        for i in (3, 1, 2):
            peer.send(fcgi.record(fcgi.STDIN, b"", i))
        found = peer.answers([1, 2, 3], keep=True)
        assert all(found[i].text == "hello n%d" % i for i in found)


def test_a_body_that_does_not_come(serve, notes):
    """408 for the one, and the other is not touched."""
    mux = Mux(serve, notes, body_buffer="1k", body_timeout="1s")
    with mux.server.peer() as peer:
        peer.send(ask("hold", "a", 1))
        mux.running("a")
        peer.send(head("upload", "", 2, b"x" * 100))
        assert mux.server.log.wait("body_timeout")
        found = peer.until(b"408", 2)
        assert b"Status: 408" in found
        mux.go("a")
        assert peer.answers([1], keep=True)[1].text == "held a"


# Abort and errors

def test_abort_one_of_several(mux):
    with mux.server.peer() as peer:
        peer.send(ask("hold", "a", 1) + ask("gone", "b", 2))
        mux.running("a", "b")
        peer.send(fcgi.record(fcgi.ABORT, b"", 2))
        assert mux.notes.wait("gone") == ["b"]
        answer = peer.answer(2, keep=True)
        assert answer.end is not None
        assert mux.notes.wait("closed") == ["b"]
        peer.send(ask("answer", "c", 2))
        assert peer.answer(2, keep=True).text == "hello c"
        mux.go("a")
        assert peer.answer(1, keep=True).text == "held a"


def test_abort_the_only_one(mux):
    """The connection is not shared before."""
    with mux.server.peer() as peer:
        for i in range(3):
            peer.send(ask("gone", str(i), 1))
            mux.running(str(i))
            peer.send(fcgi.record(fcgi.ABORT, b"", 1))
            assert mux.notes.wait("gone", i + 1)[-1] == str(i)
            assert peer.answer(1, keep=True).end is not None
            peer.send(ask("answer", "c", 2))
            assert peer.answer(2, keep=True).text == "hello c"


def test_abort_of_what_has_not_begun(mux):
    """One waits for its body, one for a thread, one for its parameters."""
    with mux.server.peer() as peer:
        for i in (1, 2, 3, 4):
            peer.send(ask("hold", "h%d" % i, i))
        mux.running("h1", "h2", "h3", "h4")
        peer.send(ask("answer", "never", 5))
        peer.send(head("upload", "", 6, b"x" * 10))
        peer.send(fcgi.begin(flags=fcgi.KEEP_CONN, id_=7))
        for i in (5, 6, 7):
            peer.send(fcgi.record(fcgi.ABORT, b"", i))
        mux.go("h1", "h2", "h3", "h4")
        found = peer.answers(range(1, 8), keep=True)
        for i in (1, 2, 3, 4):
            assert found[i].text == "held h%d" % i
        for i in (5, 6, 7):
            assert found[i].end is not None
        peer.send(ask("answer", "c", 5))
        assert peer.answer(5, keep=True).text == "hello c"


def test_a_broken_answer_leaves_the_others(mux):
    """It is not ended as if it were whole; the connection is closed after the
    others."""
    mux.server.errors_expected = True
    with mux.server.peer() as peer:
        peer.send(ask("hold", "a", 1) + ask("broken", "b", 2))
        mux.running("a")
        assert b"half" in peer.until(b"half ", 2)
        mux.go("b")
        mux.server.log.wait("broken on purpose")
        peer.send(ask("answer", "c", 3))
        assert peer.answer(3, keep=True).text == "hello c"
        mux.go("a")
        assert peer.answer(1).text == "held a"


def test_the_peer_goes_away(mux):
    """All requests of the connection notice."""
    with mux.server.peer() as peer:
        peer.send(ask("gone", "a", 1) + ask("gone", "b", 2))
        mux.running("a", "b")
    assert set(mux.notes.wait("gone", 2)) == {"a", "b"}
    assert set(mux.notes.wait("closed", 2)) == {"a", "b"}


def test_garbage_beside_a_request(mux):
    with mux.server.peer() as peer:
        peer.send(ask("gone", "a", 1))
        mux.running("a")
        peer.send(b"garbage, garbage, garbage")
        assert mux.notes.wait("gone") == ["a"]
        peer.wait_closed()
    mux.server.log.wait("connection closed within requests")


def test_management_records_beside_requests(mux):
    with mux.server.peer() as peer:
        peer.send(ask("hold", "a", 1))
        mux.running("a")
        for _ in range(10):
            assert values(peer, "FCGI_MPXS_CONNS") == fcgi.pair(
                "FCGI_MPXS_CONNS", "1")
        mux.go("a")
        assert peer.answer(1, keep=True).text == "held a"


def test_after_response(mux):
    """The peer has its END_REQUEST, and may use the id again."""
    with mux.server.peer() as peer:
        peer.send(ask("hold", "a", 1) + ask("after", "b", 2))
        mux.running("a")
        assert peer.answer(2, keep=True).text == "before"
        mux.running("b")
        peer.send(ask("answer", "c", 2))
        assert peer.answer(2, keep=True).text == "hello c"
        mux.go("a", "b")
        assert peer.answer(1, keep=True).text == "held a"


# Life of the worker

@pytest.mark.parametrize("how", ["reload", "recycle"])
def test_hand_over(serve, notes, how):
    """The worker ends while requests run: they are answered, and what comes on
    the same connection meanwhile is answered by its successor."""
    mux = Mux(serve, notes, workers=2, **(
        {"max_requests": 4} if how == "recycle" else {}))
    with mux.server.peer() as peer:
        peer.send(ask("hold", "a", 1) + ask("hold", "b", 2))
        mux.running("a", "b")
        before = set(mux.server.workers())
        if how == "reload":
            mux.server.process.send_signal(signal.SIGHUP)
        else:
            for i in range(10):
                peer.send(ask("answer", str(i), 4))
                assert peer.answer(4, keep=True).text == "hello %d" % i
        wait_for(lambda: set(mux.server.workers()) - before, "a new worker")
        for i in range(5):
            peer.send(ask("answer", "new%d" % i, 10 + i))
        mux.go("a", "b")
        found = peer.answers([1, 2] + list(range(10, 15)), keep=True)
        assert found[1].text == "held a" and found[2].text == "held b"
        for i in range(5):
            assert found[10 + i].text == "hello new%d" % i
        peer.send(ask("pid", "", 3))
        wait_for(lambda: not before & set(mux.server.workers())
                 if how == "reload" else True, "the old ones have ended")
        assert peer.answer(3, keep=True).status == 200


# HAProxy

class Haproxy(fe.Haproxy):
    options = "option keep-conn\n  option mpxs-conns\n  option max-reqs 32"


    def settings(self):
        # Each of its threads has connections of its own.
        return dict(super().settings(), GLOBAL="nbthread 1")


class HaproxyAsks(Haproxy):
    options = Haproxy.options + "\n  option get-values"


@pytest.mark.parametrize("kind", [Haproxy, HaproxyAsks])
def test_haproxy(serve, notes, front, kind):
    """Many clients over few connections, uploads and downloads."""
    mux = Mux(serve, notes, threads=8)
    web = front(kind, mux.server.address)
    bodies = [os.urandom(n) for n in (1, 1000, 100_000, 1_000_000)]

    def request(path, *how):
        # Before 2.9.8 HAProxy answers 500 by itself when parameters do not fit
        # behind what it still has to send of other requests.
        while True:
            try:
                status, _, got = web.request(path, *how)
            except ConnectionError:
                continue
            if b"An internal server error occurred" not in got:
                assert status == 200
                return got

    def client(i):
        body = bodies[i % 4]
        if i % 2:
            assert request("/upload", "POST", body) == digest(body).encode()
        else:
            assert request("/stream?q,20,10000") == b"q" * 200_000
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(client, range(200)))


def test_haproxy_slow_beside_quick(serve, notes, front):
    """One that is held, one that is broken off, and others, all on one
    connection."""
    mux = Mux(serve, notes)
    mux.server.errors_expected = True
    web = front(Haproxy, mux.server.address)
    held = web.connect()
    held.request("GET", "/hold?a")
    mux.running("a")
    half = web.connect()
    half.request("GET", "/broken?b")
    response = half.getresponse()
    assert response.read(5) == b"half "
    mux.go("b")
    for i in range(10):
        assert web.request("/answer?%d" % i)[2] == b"hello %d" % i
    mux.go("a")
    assert held.getresponse().read() == b"held a"
    with pytest.raises((http.client.HTTPException, ConnectionError)):
        response.read()     # not as if it were whole
    half.close()
    held.close()
