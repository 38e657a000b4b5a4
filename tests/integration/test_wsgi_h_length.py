# SPDX-License-Identifier: MIT
"""WSGI checklist H: Content-Length."""

import pytest


@pytest.mark.parametrize("query, length", [
    ("list", "12"), ("tuple", "12"), ("empty", "0"), ("empty_tuple", "0"),
    ("empty_chunk", "0")])
def test_H1_length_is_added(app, query, length):
    answer = app("H1", query=query)
    assert answer.header("Content-Length") == length
    assert len(answer.body) == int(length)


@pytest.mark.parametrize("status", ["204 No Content", "304 Not Modified"])
@pytest.mark.parametrize("query", ["empty", "list"])
def test_H1_not_for_204_and_304(app, status, query):
    answer = app("H1", query=query, extra={"TEST_STATUS": status})
    assert answer.header("Content-Length") is None
    assert answer.body == b""


def test_H1_not_for_head_and_write(app):
    answer = app("H1", query="empty", method="HEAD")
    assert answer.header("Content-Length") is None
    answer = app("H1_write")
    assert answer.header("Content-Length") is None
    assert answer.body == b"written twelve bytes"
    answer = app("H1", query="generator")
    assert answer.body == b"twelve bytes"
    assert answer.header("Content-Length") in (None, "12")


@pytest.mark.parametrize("query, body", [
    ("liar", b"onetwothree"), ("zero", b"some"), ("many", b"some"),
    ("dict", b"some")])
def test_H2_len_is_not_trusted(app, query, body):
    answer = app("H2", query=query)
    assert answer.body == body
    assert answer.header("Content-Length") in (None, str(len(body)))
    assert answer.complete


def test_H2_str_body(app):
    answer = app("H2_str")
    assert answer.status == 500
    app.log(r"\bstr\b")


@pytest.mark.parametrize("query", ["one", "two", "list", "single"])
def test_H3_never_more_than_declared(app, query):
    answer = app("H3", query=query)
    assert answer.header("Content-Length") == "10"
    assert answer.body == b"0123456789"
    assert answer.complete
    app.server.log.wait(r"(?i)content-length")
    app.server.errors_expected = True


def test_H4_iteration_stops_at_the_length(app):
    answer = app("H4")
    assert answer.body == b"0123456789"
    assert answer.complete
    assert app.notes.wait("H4")[0].startswith("closed")
    assert "asked for more" not in app.notes.read("H4")


def test_H5_write_past_the_length(app):
    answer = app("H5")
    assert answer.body == b"0123456789"
    assert answer.complete
    line, = app.notes.read("H5")
    assert line != "taken"
    app.server.errors_expected = True


@pytest.mark.parametrize("query", ["list", "empty", "generator"])
def test_H6_fewer_than_declared(app, query):
    answer = app("H6", query=query)
    if query == "empty":
        # Nothing was sent yet: it can be said in words.
        assert answer.status == 500
    else:
        assert answer.body == b"01234"
        assert not answer.complete
        assert answer.closed
    app.log(r"(?i)content-length|declared|bytes")


@pytest.mark.parametrize("method, status", [
    ("HEAD", "200 OK"), ("GET", "304 Not Modified")])
@pytest.mark.parametrize("query", ["", "empty"])
def test_H7_not_compared_without_a_body(app, method, status, query):
    answer = app("H7", query=query, method=method,
                 extra={"TEST_STATUS": status})
    assert answer.status_line == status
    assert answer.header("Content-Length") == "999"
    assert answer.body == b""
    assert answer.complete
