# SPDX-License-Identifier: MIT
"""WSGI checklist J: failures of the application."""

import os
import signal

import pytest

from lib import fcgi
from lib import server as srv
from lib.wait import wait_for

CHECKLIST = os.path.join(srv.APPS, "checklist")


def is_500(answer):
    assert answer.status_line == "500 Internal Server Error"
    assert answer.complete
    assert 0 < len(answer.body) < 1000
    assert b"Traceback" not in answer.body
    assert b"secret" not in answer.body
    assert answer.header("X-Own") is None
    assert answer.header("Content-Type").startswith("text/plain")


@pytest.mark.parametrize("where", ["call", "started", "iter", "next"])
def test_J1_before_anything_was_sent(app, where):
    is_500(app("fail", query=where + ",LookupError"))
    app.log("LookupError: secret detail")


def test_J1_head_has_no_body(app):
    answer = app("fail", query="call,LookupError", method="HEAD")
    assert (answer.status, answer.body) == (500, b"")
    app.log("LookupError")


@pytest.mark.parametrize("how", ["later", "write", "raise"])
def test_J2_after_something_was_sent(app, how):
    if how == "write":
        answer = app("J2_write")
    elif how == "later":
        answer = app("fail", query="later,LookupError")
    else:
        answer = app("streams", query="raise", extra={"TEST_CHUNKS": "5"})
    assert answer.status == 200
    assert answer.body in (b"sent", b"written", b"a" * 10 + b"b" * 10
                           + b"c" * 10 + b"d" * 10 + b"e" * 10)
    assert not answer.complete
    assert answer.end is None
    assert answer.closed
    app.log("LookupError")


def test_J2_on_a_kept_connection(app):
    with app.peer() as peer:
        app.send(peer, "fail", flags=fcgi.KEEP_CONN,
                 query="later,LookupError")
        answer = peer.answer()
        assert answer.end is None and answer.closed
    app.log("LookupError")


@pytest.mark.parametrize("what", [
    "SystemExit", "SystemExit0", "KeyboardInterrupt", "GeneratorExit", "Own",
    "StopIteration"])
@pytest.mark.parametrize("where", ["call", "iter", "next", "later", "close"])
def test_J3_any_exception(app, where, what):
    if what == "StopIteration" and where in ("next", "later"):
        pytest.skip("a generator turns it into RuntimeError by itself")
    before = app.server.workers()
    answer = app("fail", query="%s,%s" % (where, what))
    if where == "later":
        assert answer.body == b"sent" and not answer.complete
    elif where == "close":
        assert answer.body == b"whole" and answer.complete
    else:
        is_500(answer)
    app.log("Own" if what == "Own" else what.rstrip("0"))
    assert app("hello").text == "hello"
    assert app.server.workers() == before


def test_J3_option_system_exit_ends_the_worker(serve, shape):
    server = serve("app:application", chdir=CHECKLIST,
                   **shape.options(exit_on_system_exit=True, workers=2))
    before = server.wait_workers(2)
    answer = server.request(query="call,SystemExit",
                            extra={"TEST_CASE": "fail"})
    assert answer.status == 500
    server.expect_error("SystemExit")
    wait_for(lambda: len(set(before) & set(server.workers())) == 1,
             "one of the workers ends")
    server.wait_workers(2)
    for _ in range(4):
        assert server.request(extra={"TEST_CASE": "hello"}).text == "hello"


@pytest.mark.parametrize("query", ["memory", "memory_real", "recursion"])
def test_J4_memory_and_recursion(app, query):
    before = app.server.workers()
    is_500(app("J4", query=query))
    app.log("RecursionError" if query == "recursion"
            else "MemoryError|OverflowError")
    assert app("hello").text == "hello"
    assert app.server.workers() == before


@pytest.mark.parametrize("how, says", [
    ("_exit", r"\b3\b"), ("abort", r"SIGABRT|signal 6|Aborted"),
    ("segfault", r"SIGSEGV|signal 11|Segmentation"),
    ("kill", r"SIGKILL|signal 9|Killed")])
def test_J5_a_worker_that_dies(serve, shape, notes, how, says):
    if how == "segfault" and srv.sanitized():
        pytest.skip("a sanitizer reports the segfault")
    server = serve("app:application", chdir=CHECKLIST, env=notes.env(),
                   **shape.options(workers=2))
    before = server.wait_workers(2)
    answer = None
    with server.peer() as peer:
        params = fcgi.params_for("/the/line", query=how,
                                 extra={"TEST_CASE": "J5"})
        peer.send(fcgi.encode(params))
        answer = peer.answer()
    assert answer.closed and not answer.complete
    died = int(notes.wait("J5")[0])
    assert died in before
    server.expect_error(r"\b%d\b.*(%s)" % (died, says))
    server.expect_error(r"\b%d\b.*GET /the/line" % died)
    now = server.wait_workers(2, without=[died])
    assert set(before) - {died} <= set(now)
    for _ in range(4):
        assert server.request(extra={"TEST_CASE": "hello"}).text == "hello"
    # An abort prints what Python was doing; that is not an audit failure.
    server.log.mark = server.log.here()


@pytest.mark.parametrize("query, says", [
    ("none", "NoneType"), ("int", r"\bint\b"), ("object", r"\bobject\b"),
    ("function", r"\bfunction\b")])
def test_J6_not_iterable(app, query, says):
    is_500(app("J6", query=query))
    app.log(says)


@pytest.mark.parametrize("query, says", [
    ("str", "BrokenStr"), ("cycle", "LookupError: a"),
    ("context", "LookupError: a"), ("source", r"LookupError: caf"),
    ("surrogate", r"LookupError: .*dc80"), ("huge", r"LookupError: hhhh"),
    ("meta", r"Odd|RuntimeError|no attributes")])
def test_J7_any_exception_is_logged(app, query, says):
    is_500(app("J7", path="/j7", query=query))
    app.log(says)
    app.log(r"GET /j7")
    assert app("hello").text == "hello"


def test_J8_import_failure_at_start(fails, shape):
    code, log = fails("cannot_import", chdir=CHECKLIST, **shape.options())
    assert code > 0
    assert log.count("Traceback (most recent call last)") == 1
    assert "ZeroDivisionError: division by zero" in log


def test_J8_requests_of_a_pool_that_cannot_import(serve, shape, notes):
    """The import works at the first start and fails for a worker that is
    started anew: whoever asks then is answered at once."""
    gate = os.path.join(notes.dir, "broken")
    server = serve("sometimes", chdir=CHECKLIST, env=notes.env(),
                   **shape.options(preload="off"))
    assert server.request().text == "works"
    with open(gate, "w"):
        pass
    os.kill(server.workers()[0], signal.SIGKILL)
    server.expect_error("broken on purpose")
    answer = server.request()
    assert answer.status == 503
    os.unlink(gate)
    wait_for(lambda: server.request().status == 200, "it works again")


def test_J9_logging_does_not_use_the_hooks(app):
    is_500(app("J9"))
    app.log("J9 with a broken stderr")
    assert app.notes.read("J9") == []
    assert app("hello").text == "hello"


def test_J9_exception_in_del(app):
    for _ in range(3):
        assert app("in_del").body == b"ok"
    app.server.errors_expected = True
