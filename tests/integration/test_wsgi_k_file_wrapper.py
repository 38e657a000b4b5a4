# SPDX-License-Identifier: MIT
"""WSGI checklist K: wsgi.file_wrapper."""

import os

import pytest

from lib import fcgi, proc
from lib.wait import wait_for

CONTENT = bytes(range(256)) * 1000


def test_K1_wrapper_of_a_filelike(app):
    assert app("K1").text == " ".join(["True"] * 7)


def test_K1_middleware_may_iterate(app):
    assert app("K1_middleware").body == b"ABCDEFGH"
    assert app.notes.read("K").count("closed") == 1


def test_K2_made_and_dropped(app):
    assert app("K2").text == "something else"
    assert app.notes.read("K2") == ["made"]


# What the files of tests/apps/checklist/cases_files.py hold from where they
# stand. (As parameters they would become part of the names of the tests.)
BODIES = {
    "plain": CONTENT, "unbuffered": CONTENT, "seek": CONTENT[1000:],
    "read": CONTENT[10:], "unbuffered_seek": CONTENT[1000:], "end": b"",
    "beyond": b"",
    "bytesio": CONTENT, "only_read": CONTENT, "pipe": b"through a pipe",
    "socket": b"through a socket", "update": b"tten" + b"0" * 993,
    "gzip": CONTENT, "temporary": CONTENT[100:], "spooled": CONTENT,
}


@pytest.mark.parametrize("kind", ["plain", "unbuffered", "seek", "read",
                                  "unbuffered_seek", "end", "beyond"])
def test_K3_from_the_current_position(app, kind):
    answer = app("wrap", query=kind)
    assert answer.body == BODIES[kind]
    assert answer.complete


@pytest.mark.parametrize("kind", ["bytesio", "only_read", "pipe", "socket",
                                  "update"])
def test_K4_anything_with_read(app, kind):
    answer = app("wrap", query=kind)
    assert answer.body == BODIES[kind]
    assert answer.complete


@pytest.mark.parametrize("kind", ["gzip", "temporary", "spooled"])
def test_K5_sendfile_only_for_real_files(app, kind):
    answer = app("wrap", query=kind)
    assert answer.body == BODIES[kind]
    assert answer.complete


def test_K6_content_length(app):
    answer = app("wrap", query="plain")
    assert answer.header("Content-Length") == str(len(CONTENT))
    answer = app("wrap", query="seek")
    assert answer.header("Content-Length") == str(len(CONTENT) - 1000)
    for kind in ("plain", "bytesio", "only_read"):
        answer = app("wrap", query=kind, extra={"TEST_LENGTH": "1000"})
        assert answer.header("Content-Length") == "1000"
        assert answer.body == CONTENT[:1000]
        assert answer.complete
    for kind in ("plain", "bytesio"):
        answer = app("wrap", query=kind,
                     extra={"TEST_LENGTH": str(len(CONTENT) + 1)})
        assert not answer.complete and answer.closed
    app.log(r"(?i)content-length|declared|bytes")


def test_K7_write_comes_first(app):
    assert app("K7").body == b"before " + CONTENT[-5:]


@pytest.mark.parametrize("kind", ["empty", "empty_bytesio", "end"])
def test_K8_empty_file(app, kind):
    answer = app("wrap", query=kind)
    assert (answer.status, answer.body) == (200, b"")
    if kind != "empty_bytesio":
        assert answer.header("Content-Length") == "0"
    assert answer.complete


@pytest.mark.parametrize("which", ["", "python"])
def test_K9_head(app, which):
    answer = app("K10", query=which, method="HEAD")
    assert (answer.status, answer.body) == (200, b"")
    assert answer.complete
    assert app.notes.wait("K10")[-1] == "closed"


@pytest.mark.parametrize("which", ["", "python", "no_start", "longer",
                                   "raises", "gone"])
def test_K10_closed_once(app, which):
    if which == "gone":
        with app.peer(receive_buffer=4096) as peer:
            app.send(peer, "K10", query="big")
            peer.until(b"\0" * 100)
    else:
        answer = app("K10", query=which)
        if which in ("no_start", "raises"):
            assert answer.status == 500
        elif which == "longer":
            assert not answer.complete
    app.server.errors_expected = True
    wait_for(lambda: app.notes.read("K10").count("closed") == 1, "closed")
    assert app("hello").text == "hello"
    assert app.notes.read("K10").count("closed") == 1


@pytest.mark.parametrize("change", ["shrinks", "grows"])
def test_K11_the_file_changes(app, change):
    """The connection is not read until the file has changed, so that most of
    the file is still to be sent then."""
    size = 40 << 20
    name = os.path.join(app.notes.dir, "changing")
    with open(name, "wb") as f:
        f.truncate(size)
    with app.peer(receive_buffer=4096) as peer:
        app.send(peer, "K11", extra={"TEST_FILE": name})
        got = peer.until(b"\r\n\r\n")
        assert b"Content-Length: %d\r\n" % size in got
        if change == "shrinks":
            os.truncate(name, 1 << 20)
        else:
            with open(name, "ab") as f:
                f.write(b"x" * 1000)
        answer = peer.answer()
        body = len(got.partition(b"\r\n\r\n")[2]) + len(answer.stdout)
    if change == "shrinks":
        assert not answer.complete and answer.end is None
        assert body < size
        app.server.errors_expected = True
    else:
        assert answer.complete
        assert body == size


@pytest.mark.parametrize("query, says", [
    ("str", r"\bstr\b"), ("none", "NoneType"), ("int", r"\bint\b")])
def test_K12_read_returns_something_else(app, query, says):
    answer = app("K12", query=query)
    assert answer.status == 500
    app.log(says)


@pytest.mark.big
def test_K13_three_gigabytes(app):
    size = 3 << 30
    name = os.path.join(app.notes.dir, "sparse")
    with open(name, "wb") as f:
        f.truncate(size)
        f.seek(size - 3)
        f.write(b"end")
    before = max(proc.rss_bytes(p) for p in app.server.workers())
    got, tail = 0, b""
    with app.peer() as peer:
        app.send(peer, "K11", extra={"TEST_FILE": name})
        while True:
            r = peer.record()
            assert r is not None
            if r[0] == fcgi.END:
                break
            got += len(r[2])
            tail = (tail + r[2])[-3:]
    head = got - size
    assert 0 < head < 1000
    assert tail == b"end"
    after = max(proc.rss_bytes(p) for p in app.server.workers())
    assert after - before < 32 << 20


def test_K3_closed_file(app):
    """R057: a file that is closed already is an error and no crash."""
    answer = app("K_closed")
    assert answer.status == 500
    app.log("ValueError")
    assert app("hello").text == "hello"
