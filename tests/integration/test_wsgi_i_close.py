# SPDX-License-Identifier: MIT
"""WSGI checklist I: close(), and clients that go away."""

import os
import signal

import pytest

from lib import fcgi
from lib import server as srv
from lib.wait import holds_for, wait_for

CHECKLIST = os.path.join(srv.APPS, "checklist")


def closed_once(notes, name="I1"):
    """close() was called once, on the request's thread."""
    notes.wait(name)
    holds_for(lambda: len(notes.read(name)) == 1, 0.05, "closed once")
    assert notes.read(name) == ["closed True"]


@pytest.mark.parametrize("how", [
    "normal", "iteration", "iteration_late", "iter", "wrong_type", "no_start",
    "close_raises"])
def test_I1_close_exactly_once(app, how):
    app("I1", query=how)
    app.server.errors_expected = True
    closed_once(app.notes)


def test_I1_not_iterable(app):
    assert app("I1", query="not_iterable").status == 500
    app.server.errors_expected = True
    closed_once(app.notes)


def test_I1_head(app):
    assert app("I1", query="head", method="HEAD").body == b""
    closed_once(app.notes)


def test_I1_length_reached(app):
    assert app("I1_length").body == b"four"
    app.server.errors_expected = True
    closed_once(app.notes)


def test_I1_client_gone(app):
    with app.peer() as peer:
        app.send(peer, "I1_endless")
        peer.until(b"eeee")
    closed_once(app.notes)


@pytest.mark.epoll_only("FCGX_GetStr waits without a deadline")
def test_I1_deadline(serve, shape, notes):
    server = serve("app:application", env=notes.env(), chdir=CHECKLIST,
                   **shape.options(body_timeout="300ms"))
    params = fcgi.params_for("/", "POST", body=b"x" * 10,
                             extra={"TEST_CASE": "I1_waits"})
    with server.peer() as peer:
        peer.send(fcgi.begin() + fcgi.stream(fcgi.PARAMS, fcgi.pairs(params)))
        assert not peer.answer().complete
    closed_once(notes)
    server.errors_expected = True


def test_I1_worker_told_to_stop(serve, shape, notes):
    server = serve("app:application", env=notes.env(), chdir=CHECKLIST,
                   **shape.options())
    params = fcgi.params_for("/", "POST", body=b"go",
                             extra={"TEST_CASE": "I1_waits"})
    with server.peer() as peer:
        peer.send(fcgi.begin() + fcgi.stream(fcgi.PARAMS, fcgi.pairs(params)))
        peer.until(b"begun")
        server.process.send_signal(signal.SIGTERM)
        server.log.wait(r"(?i)stop|term|drain")
        peer.send(fcgi.stream(fcgi.STDIN, b"go"))
        peer.until(b"ended")
        answer = peer.answer()
        assert answer.complete
    closed_once(notes)
    assert server.wait_exit() == 0


def test_I2_close_comes_before_the_next_request(app):
    with app.peer() as peer:
        app.send(peer, "I2", flags=fcgi.KEEP_CONN)
        answer = peer.answer(keep=True)
        assert answer.body == b"the whole"
        app.send(peer, "I2_next")
        assert peer.answer().text == "next"
    assert app.notes.read("I2") == ["closing", "closed", "next request"]


def test_I3_exception_in_close(app):
    answer = app("I3")
    assert (answer.status, answer.body) == (200, b"whole")
    assert answer.complete
    app.log(r"in close\(\)")


def test_I4_finally_of_a_generator(app):
    with app.peer() as peer:
        app.send(peer, "I4")
        peer.until(b"iiii")
    assert app.notes.wait("I4") == ["finally True"]


@pytest.mark.parametrize("how", ["closed", "abort"])
@pytest.mark.parametrize("protocol", ["fcgi", "scgi"])
def test_I5_noticed_while_streaming(app, how, protocol):
    if protocol == "scgi" and (how == "abort" or app.shape.libfcgi):
        pytest.skip("SCGI has no abort; engine libfcgi has no SCGI")
    if how == "abort" and app.shape.libfcgi:
        pytest.skip("engine libfcgi: FCGX reads no record while it writes")
    with app.peer() as peer:
        if protocol == "scgi":
            peer.send(fcgi.scgi(app.params("I5")))
            assert peer.fill(40)
        else:
            app.send(peer, "I5", stdin=how != "abort", flags=fcgi.KEEP_CONN)
            peer.until(b"tick")
        if how == "abort":
            peer.send(fcgi.record(fcgi.ABORT))
            answer = peer.answer(keep=True)
            assert answer.end is not None
    assert app.notes.wait("I5") == ["stopped"]


def test_I6_write_raises(app):
    with app.peer() as peer:
        app.send(peer, "I6")
        peer.until(b"wwww")
    assert app.notes.wait("I6") == ["True True"]
    app.server.errors_expected = True


@pytest.mark.parametrize("protocol", ["fcgi", "scgi"])
def test_I7_half_close_is_no_abort(app, protocol):
    if protocol == "scgi" and app.shape.libfcgi:
        pytest.skip("engine libfcgi has no SCGI")
    body = b"x" * 1000
    with app.peer() as peer:
        params = app.params("digest", method="POST", body=body)
        peer.send(fcgi.scgi(params, body) if protocol == "scgi"
                  else fcgi.encode(params, body))
        peer.half_close()
        answer = (peer.scgi_answer() if protocol == "scgi"
                  else peer.answer())
    assert answer.text.startswith("1000 ")
    assert answer.complete
    # And with a slow, streamed answer.
    with app.peer() as peer:
        params = app.params("streams", extra={"TEST_CHUNKS": "50",
                                              "TEST_SIZE": "50000"})
        peer.send(fcgi.scgi(params) if protocol == "scgi"
                  else fcgi.encode(params))
        peer.half_close()
        answer = (peer.scgi_answer() if protocol == "scgi"
                  else peer.answer())
    assert len(answer.body) == 50 * 50_000
    assert answer.complete


def test_I8_client_gone_is_quiet(app):
    for case in ("I5", "I8_quiet"):
        with app.peer() as peer:
            app.send(peer, case)
            peer.until(b"tick" if case == "I5" else b"wwww")
        app.notes.wait("I5" if case == "I5" else "I6")
    assert app("hello").text == "hello"
    text = app.server.log.since_mark()
    assert "Traceback" not in text
    assert len([line for line in text.splitlines()
                if not line.endswith("hello")]) <= 4, text


def test_I9_client_connected(app):
    with app.peer() as peer:
        app.send(peer, "I9")
        app.notes.wait("I9")
    assert app.notes.wait("I9", 2) == ["connected True", "gone"]


def test_I10_work_after_the_response(app):
    assert app("I10").body == b"answer"
    assert app.notes.wait("I10", 3) == ["closed", "first 1", "second 2"]


def test_I10_also_when_the_client_is_gone(app):
    with app.peer() as peer:
        app.send(peer, "I10", query="endless")
        peer.until(b"eeee")
    assert app.notes.wait("I10", 3) == ["closed", "first 1", "second 2"]


def test_I10_an_exception_does_not_stop_the_others(app):
    assert app("I10", query="raises").body == b"answer"
    assert app.notes.wait("I10", 4) == ["closed", "first 1", "second 2",
                                        "third 3"]
    app.log("ZeroDivisionError")


def test_I10_the_client_does_not_wait_for_it(app):
    try:
        answer = app("I10_blocks")
        assert answer.text == "answered before the work"
        assert answer.complete and answer.closed == "eof"
        assert app.notes.read("I10") == []
    finally:
        with open(os.path.join(app.notes.dir, "go"), "w"):
            pass
        app.notes.wait("I10")


def test_I10_nothing_piles_up(app):
    """Descriptors are back after all of this."""
    for _ in range(2):
        app("hello")
    counts = app.server.fd_counts()
    for _ in range(10):
        with app.peer() as peer:
            app.send(peer, "I4")
            peer.until(b"iiii")
    wait_for(lambda: len(app.notes.read("I4")) == 10, "all have ended")
    assert app("hello").text == "hello"
    app.server.wait_fds(counts)
