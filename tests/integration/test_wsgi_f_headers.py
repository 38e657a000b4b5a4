# SPDX-License-Identifier: MIT
"""WSGI checklist F: the checks of status and headers, all in
start_response."""

import importlib.util
import json
import os

import pytest

from lib import server as srv

_spec = importlib.util.spec_from_file_location(
    "starts", os.path.join(srv.APPS, "checklist", "starts.py"))
starts = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(starts)


def names(prefix):
    return [n for n in starts.STARTS
            if n.startswith(prefix + "_") and "_ok" not in n]


def refused(app, name, error):
    answer = app("start", query=name)
    kind, message = json.loads(app.notes.wait("start")[0])
    assert kind in error.split(), (name, kind, message)
    assert answer.status == 500
    assert answer.complete
    for header, value in answer.headers:
        assert "Injected" not in header and "evil" not in value
    app.log(kind)
    return answer, message


@pytest.mark.parametrize("name", names("F1"))
def test_F1_status_is_str(app, name):
    refused(app, name, "TypeError")


@pytest.mark.parametrize("name", names("F2"))
def test_F2_status_form(app, name):
    refused(app, name, "ValueError")


def test_F2_bare_status_gets_a_reason(app):
    for _ in range(3):
        answer = app("start", query="F2_ok_bare")
        assert answer.status == 200
        assert answer.body == b"ok"
    lines = app.server.log.find(r"reason")
    assert len(lines) <= 1, "logged more than once"


@pytest.mark.parametrize("name", names("F3"))
def test_F3_informational_refused(app, name):
    refused(app, name, "ValueError")


@pytest.mark.parametrize("name", names("F4"))
def test_F4_headers_is_a_list(app, name):
    refused(app, name, "TypeError")


@pytest.mark.parametrize("name", names("F5"))
def test_F5_items_are_pairs_of_str(app, name):
    refused(app, name, "TypeError")


@pytest.mark.parametrize("name", names("F6"))
def test_F6_latin_1_only(app, name):
    _, message = refused(app, name, "ValueError UnicodeEncodeError")
    if name == "F6_value":
        assert "X-Wide" in message


def test_F7_latin_1_arrives_as_bytes(app):
    answer = app("start", query="F7_ok")
    assert answer.status_line == "200 Caf\xe9"
    assert answer.header("X-Latin") == "\xe9\xff\x80"
    assert b"X-Latin: \xe9\xff\x80\r\n" in answer.stdout


@pytest.mark.parametrize("name", names("F8"))
def test_F8_no_control_characters(app, name):
    answer, message = refused(app, name, "ValueError")
    assert b"X-Bad" not in answer.stdout
    assert "X-Bad" in message


def test_F8_tab_is_fine(app):
    assert app("start", query="F8_ok_tab").header("X-Tab") == "a\tb"


@pytest.mark.parametrize("name", names("F9"))
def test_F9_name_is_a_token(app, name):
    answer, _ = refused(app, name, "ValueError")
    assert b"Bad" not in answer.stdout


def test_F9_every_token_character(app):
    answer = app("start", query="F9_ok")
    assert answer.header("X!#$%&'*+-.^_`|~09aZ") == "v"


@pytest.mark.parametrize("name", names("F10"))
def test_F10_hop_by_hop(app, name):
    refused(app, name, "ValueError AssertionError")


def test_F10_option_to_drop(serve, shape, notes):
    server = serve("app:application", env=notes.env(),
                   chdir=os.path.join(srv.APPS, "checklist"),
                   **shape.options(hop_by_hop="drop"))
    for name in names("F10"):
        answer = server.request(query=name, extra={"TEST_CASE": "start"})
        assert answer.status == 200
        assert answer.header("X-Stays") == "1"
        assert answer.header(name[4:]) is None
    server.log.wait(r"(?i)connection")
    assert set(notes.read("start")) == {'["taken", ""]'}


@pytest.mark.parametrize("name", names("F11"))
def test_F11_content_length(app, name):
    refused(app, name, "ValueError")


def test_F11_twice_the_same_is_one(app):
    answer = app("start", query="F11_ok_twice")
    assert answer.status == 200
    assert answer.all("Content-Length") == ["2"]


@pytest.mark.parametrize("name", names("F12"))
def test_F12_status_header(app, name):
    refused(app, name, "ValueError")


def test_F13_limit_of_all_headers(serve, shape):
    server = serve("app:application",
                   chdir=os.path.join(srv.APPS, "checklist"),
                   **shape.options(max_response_headers="16k"))
    answer = server.request(query="10", extra={"TEST_CASE": "F13"})
    assert answer.status == 200
    assert answer.header("X-9") == "v" * 1000
    answer = server.request(query="30", extra={"TEST_CASE": "F13"})
    assert answer.status == 500
    assert len(answer.stdout) < 2000
    server.expect_error(r"(?i)headers?.*\b\d{5,}\b")


def test_F14_order_repetition_case(app):
    answer = app("start", query="F14_ok")
    assert [h for h in answer.headers if h[0].lower() != "content-length"] == [
        ("Set-Cookie", "a=1"), ("x-MiXed", "1"), ("Set-Cookie", "b=2"),
        ("X-Z", "26"), ("X-A", "1"), ("Set-Cookie", "a=3")]


def test_F15_the_message_names_the_header(app):
    _, message = refused(app, "F15", "ValueError")
    assert "X-The-Culprit" in message
    assert "start\\x01" in message
    assert "\x01" not in message
    assert len(message) < 1000


def test_F16_pass_unchanged(app):
    answer = app("start", query="F16_ok")
    assert answer.header("Location") == "/elsewhere?a=b#c"
    assert answer.header("Content-Type") == 'text/html; charset="utf-8"'
    assert answer.header("X-Sendfile") == "/srv/f"
    assert answer.header("X-Accel-Redirect") == "/internal/f"
    assert answer.header("X-Accel-Buffering") == "no"
