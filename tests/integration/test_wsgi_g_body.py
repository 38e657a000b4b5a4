# SPDX-License-Identifier: MIT
"""WSGI checklist G: write() and the body."""

import pytest

from lib import fcgi, proc
from lib.wait import holds_for, wait_for


def test_G1_write_comes_first(app):
    answer = app("G1")
    assert answer.body == b"one two three four"
    assert answer.complete


def test_G2_empty_write_sends_nothing(app):
    with app.peer() as peer:
        app.begin(peer, "G2", method="POST", body=b"go")
        app.notes.wait("G2")
        assert peer.is_open() and not peer.inbuf
        peer.send(fcgi.stream(fcgi.STDIN, b"go"))
        assert peer.answer().body == b"later"


def test_G3_write_takes_bytes_only(app):
    answer = app("G3")
    assert answer.body == b" ".join([b"TypeError"] * 5)


KINDS = ["str", "none", "int", "bytearray", "memoryview"]
TYPES = {"str": "str", "none": "NoneType", "int": "int",
         "bytearray": "bytearray", "memoryview": "memoryview"}


@pytest.mark.parametrize("kind", KINDS)
def test_G4_wrong_chunk_before_output(app, kind):
    answer = app("G4", query=kind + ",first")
    assert answer.status == 500
    assert answer.complete
    app.log(r"\b%s\b" % TYPES[kind])


@pytest.mark.parametrize("kind", KINDS)
def test_G4_wrong_chunk_after_output(app, kind):
    answer = app("G4", query=kind + ",generator")
    assert answer.status == 200
    assert answer.body == b"sent"
    assert not answer.complete
    app.log(r"\b%s\b" % TYPES[kind])


def test_G4_subclass_of_bytes(app):
    assert app("G4_subclass").body == b"subclass"


# Not as parameters: they would become part of the names of the tests.
BODIES = {
    "middle": b"ab", "first": b"Test", "last": b"Test", "only": b"",
    "many_empty": b"end", "generated": b"xy",
    "ten_thousand": b"".join(b"%04d\n" % i for i in range(10_000)),
    "list_ten_thousand": b"".join(b"%04d\n" % i for i in range(10_000)),
    "huge": b"0123456789abcdef" * (100 << 16),
    "sizes": b"s" * sum((1, 7, 8, 65527, 65528, 65529, 65535, 65536, 131072,
                         200001)),
}


@pytest.mark.parametrize("query", list(BODIES))
def test_G5_empty_many_and_huge_chunks(app, query):
    body = BODIES[query]
    answer = app("G5", query=query)
    assert answer.status == 200
    assert answer.body == body
    assert answer.complete
    # An empty STDOUT record means the end of the stream: at most one, last.
    sizes = [r[2] for r in answer.records if r[0] == fcgi.STDOUT]
    assert 0 not in sizes[:-1]


@pytest.mark.parametrize("case", ["G6", "G6_write"])
def test_G6_each_chunk_leaves_before_the_next(app, case):
    with app.peer() as peer:
        app.begin(peer, case, method="POST", body=b"go")
        got = peer.until(b"first")
        assert b"second" not in got
        peer.send(fcgi.stream(fcgi.STDIN, b"go"))
        peer.until(b"second")
        assert peer.answer().complete


def test_G7_bytes_unaltered(app):
    answer = app("G7")
    assert answer.body == (bytes(range(256)) + b"\r\n\r\n\0\xff"
                           + b"\0" * 1000)


def test_G8_bytes_as_body(app):
    for _ in range(3):
        answer = app("G8")
        assert answer.body == b"bytes, not in a list"
        assert answer.complete
    # Warned of once, and not for each request.
    app.server.log.wait(r"WARN.*bytes.*list", start=0)
    assert len(app.server.log.find(r"WARN.*bytes.*list", 0)) == 1


def test_G9_reason_phrase(app):
    answer = app("status", extra={"TEST_STATUS": "299 My Own Words"})
    assert answer.status_line == "299 My Own Words"


@pytest.mark.parametrize("length", ["", "10"])
@pytest.mark.parametrize("method, status", [
    ("HEAD", "200 OK"), ("GET", "204 No Content"), ("GET", "304 Not Modified"),
    ("HEAD", "404 Not Found")])
@pytest.mark.parametrize("case", ["G10", "G10_write"])
def test_G10_no_body(app, case, method, status, length):
    answer = app(case, method=method, query=length,
                 extra={"TEST_STATUS": status})
    assert answer.status_line == status
    assert answer.body == b""
    assert answer.complete
    app.notes.wait("G10")
    assert len(app.notes.read("G10")) == 1
    if case == "G10" and length and "204" not in status:
        assert answer.header("Content-Length") == "10"


@pytest.mark.parametrize("status", [
    "400 Bad Request", "404 Not Found", "418 I'm a teapot", "500 Own",
    "503 Back Soon", "599 Last"])
def test_G11_error_pages_of_the_application(app, status):
    answer = app("G11", extra={"TEST_STATUS": status})
    assert answer.status_line == status
    assert answer.text == "the application's own page"
    assert answer.header("X-Own") == "1"


def test_G12_a_list_leaves_in_few_writes(app):
    """The GIL is given up for each write: that these are few shows in the
    number of records."""
    answer = app("G12", query="10000")
    assert answer.body == b"x" * 10_000
    records = [r for r in answer.records if r[0] == fcgi.STDOUT]
    assert len(records) < 100


def test_G13_backpressure(app):
    """Who does not read stops the iteration."""
    before = max(proc.rss_bytes(p) for p in app.server.workers())
    with app.peer(receive_buffer=4096) as peer:
        app.send(peer, "G13")
        # It goes on until the buffers between are full, and then stays.
        last = [-1]

        def stands():
            n = len(app.notes.read("G13"))
            same, last[0] = n == last[0], n
            return same and n > 0 and not holds_grow(app)
        wait_for(stands, "the iteration has stopped")
        made = len(app.notes.read("G13"))
        assert made * 65536 < 16 << 20
        holds_for(lambda: len(app.notes.read("G13")) == made, 0.3,
                  "nothing more is asked for")
        grown = max(proc.rss_bytes(p) for p in app.server.workers()) - before
        assert grown < 64 << 20
    app.notes.wait("G13_end")


def holds_grow(app):
    """Does the number of chunks still grow?"""
    n = len(app.notes.read("G13"))
    try:
        holds_for(lambda: len(app.notes.read("G13")) == n, 0.2, "")
    except AssertionError:
        return True
    return False


@pytest.mark.epoll_only("FCGX_PutStr waits without a deadline")
def test_G13_write_deadline(serve, shape, notes):
    import os
    from lib import server as srv
    server = serve("app:application", env=notes.env(),
                   chdir=os.path.join(srv.APPS, "checklist"),
                   **shape.options(write_timeout="300ms"))
    params = fcgi.params_for("/", extra={"TEST_CASE": "G13"})
    with server.peer(receive_buffer=4096) as peer:
        peer.send(fcgi.encode(params), receive=False)
        notes.wait("G13_end")
    assert server.request(extra={"TEST_CASE": "hello"}).text == "hello"
    server.errors_expected = True
