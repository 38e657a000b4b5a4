# SPDX-License-Identifier: MIT
"""WSGI checklist E: start_response."""

import json

import pytest

from lib import fcgi


@pytest.mark.parametrize("query", ["", "none", "exc"])
def test_E1_arguments(app, query):
    answer = app("E1", query=query)
    assert (answer.status_line, answer.body) == ("200 OK", b"ok")
    assert app("E1_keyword").body == b"ok"


def test_E2_returns_write(app):
    answer = app("E2")
    assert (answer.status, answer.body) == (200, b"writtenTrue")


def test_E3_headers_wait_and_can_be_replaced(app):
    answer = app("E3")
    assert answer.status_line == "202 Accepted"
    assert answer.header("X-First") is None
    assert answer.header("X-Second") == "2"
    assert answer.body == b"second"


def test_E3_nothing_is_sent_before_the_first_chunk(app):
    with app.peer() as peer:
        app.begin(peer, "E3_waits", method="POST", body=b"go")
        app.notes.wait("E3")
        # The application has yielded b"" and waits for the body: whatever was
        # to be sent by then would be here.
        assert peer.is_open() and not peer.inbuf
        peer.send(fcgi.stream(fcgi.STDIN, b"go"))
        assert peer.answer().body == b"now"


def test_E4_second_call(app):
    answer = app("E4")
    assert (answer.status, answer.body) == (200, b"refused")
    assert app.notes.read("E4") == ["AssertionError"]


def test_E4_also_when_the_first_failed(app):
    assert app("E4_after_failure").status == 500
    assert app.notes.read("E4") == ["first failed", "AssertionError"]
    app.log("AssertionError")


def test_E5_exc_info_replaces_everything(app):
    answer = app("E5")
    assert answer.status_line == "500 Replaced"
    assert answer.header("X-Old") is None
    assert answer.header("X-New") == "2"
    assert answer.header("Content-Length") in (None, "20")
    assert answer.body == b"written and returned"
    assert answer.complete


def test_E6_exc_info_after_output_raises(app):
    answer = app("E6")
    assert answer.status == 200
    assert answer.body == b"sent"
    assert not answer.complete
    app.notes.wait("E6")
    app.log("the original")


def test_E7_the_original_exception(app):
    app("E6")
    name, same, frames = json.loads(app.notes.wait("E6")[0])
    assert (name, same) == ("Boom", True)
    assert frames >= 1
    app.log("Boom: the original")


def test_E8_no_reference_stays(app):
    assert app("E8").body == b"True"


def test_E9_bad_exc_info(app):
    app("E9")
    assert app.notes.read("E9") == [" ".join(["TypeError"] * 6)]
    app.server.errors_expected = True


def test_E10_after_the_request(app):
    assert app("E10_keep").body == b"kept"
    answer = app("E10_use")
    assert answer.status == 200
    assert answer.header("X-W") is None
    assert answer.body == b" ".join([b"RuntimeError"] * 6)


def test_E11_the_list_is_copied(app):
    answer = app("E11")
    assert [h for h in answer.headers if h[0].startswith("X-")] == [
        ("X-One", "1"), ("X-Two", "2")]


@pytest.mark.parametrize("query", ["", "empty", "generator"])
def test_E12_never_called(app, query):
    answer = app("E12", query=query)
    assert answer.status == 500
    assert b"body" not in answer.body
    assert answer.complete
    app.log(r"start_response(\(\))? was not called")
