# SPDX-License-Identifier: MIT
"""WSGI checklist C: wsgi.input. Most of it is a list of calls whose results
are compared with those of io.BytesIO."""

import hashlib
import io
import json
import os

import pytest

from lib import fcgi
from lib import server as srv
from lib.wait import wait_for


def shown(value):
    if isinstance(value, bytes):
        if len(value) > 2000:
            return ["bytes", len(value), hashlib.sha256(value).hexdigest()]
        return ["bytes", value.decode("latin-1")]
    if len(value) > 2000:
        return ["list", len(value), hashlib.sha256(
            b"|".join(value)).hexdigest()]
    return ["list", [shown(v) for v in value]]


def expected(body, ops):
    """What io.BytesIO says."""
    stream, results = io.BytesIO(body), []
    for name, *args in ops:
        if name == "next":
            try:
                results.append(shown(next(stream)))
            except StopIteration:
                results.append(["list", [["str", "'StopIteration'"]]])
        elif name == "all":
            results.append(shown(list(stream)))
        else:
            results.append(shown(getattr(stream, name)(*args)))
    return results


def compare(app, body, *ops, **how):
    extra = {"TEST_OPS": json.dumps(ops)}
    extra.update(how.pop("extra", {}))
    found = app.json("ops", method="POST", body=body, extra=extra, **how)
    assert found == expected(body, ops), ops


LINES = b"first\nsecond line\n\nfourth\r\nlast without end"


def test_C1_every_method_returns_bytes(app):
    compare(app, LINES, ["read"])
    compare(app, LINES, ["read", 4])
    compare(app, LINES, ["readline"])
    compare(app, LINES, ["readlines"])
    compare(app, LINES, ["all"])


def test_C2_read_to_the_end_and_again(app):
    compare(app, LINES, ["read"], ["read"], ["read"], ["read", 5],
            ["readline"], ["readlines"], ["next"])
    # The end is the end although the front end's connection stays open.
    with app.peer() as peer:
        app.send(peer, "ops", LINES, flags=fcgi.KEEP_CONN,
                 extra={"TEST_OPS": json.dumps([["read"], ["read"]])})
        answer = peer.answer(keep=True)
        assert json.loads(answer.body) == expected(LINES, [["read"],
                                                          ["read"]])


def test_C3_read_n_is_exact(app):
    compare(app, LINES, *[["read", 7]] * 8)
    compare(app, LINES, ["read", 1000], ["read", 1])
    # Exactly n although the bytes come in three pieces.
    with app.peer() as peer:
        app.begin(peer, "ops", body=b"abcdefghi", method="POST",
                  extra={"TEST_OPS": json.dumps([["read", 8], ["read", 8]])})
        for piece in (b"abc", b"def", b"ghi"):
            peer.send(fcgi.record(fcgi.STDIN, piece))
        peer.send(fcgi.record(fcgi.STDIN))
        assert json.loads(peer.answer().body) == [
            ["bytes", "abcdefgh"], ["bytes", "i"]]


def test_C3_never_waits_beyond_the_length(app):
    """The whole body is here, the empty STDIN record is not: read(n) with n
    beyond it returns."""
    with app.peer() as peer:
        app.begin(peer, "ops", body=b"abc", method="POST",
                  extra={"TEST_OPS": json.dumps([["read", 100], ["read"]])})
        peer.send(fcgi.record(fcgi.STDIN, b"abc"))
        answer = peer.answer(keep=True)
        assert json.loads(answer.body) == [["bytes", "abc"], ["bytes", ""]]


def test_C4_read_0(app):
    compare(app, LINES, ["read", 0], ["read", 5], ["read", 0], ["read"])


def test_C5_read_minus_1_and_none(app):
    compare(app, LINES, ["read", 3], ["read", -1])
    compare(app, LINES, ["read", 3], ["read", None], ["read", None])
    compare(app, LINES, ["read", -5])


def test_C6_readline_n(app):
    compare(app, LINES, *[["readline", 4]] * 14)
    compare(app, LINES, ["readline", 6], ["readline", 1000])


def test_C7_readline_0_minus_1_none(app):
    compare(app, LINES, ["readline", 0], ["readline", -1],
            ["readline", None], ["readline", 0], ["readline"])


def test_C8_only_lf_ends_a_line(app):
    body = b"a\rb\x0bc\x0cd\x85e\0f\xe2\x80\xa8g\nh\r\n\r\ni"
    compare(app, body, ["readline"], ["readline"], ["readline"], ["readline"],
            ["readline"])
    compare(app, body, ["readlines"])
    compare(app, b"\n\n\n", ["readlines"])


def test_C9_readlines_hint(app):
    """Whole lines, at least one, and the rest stays."""
    for hint in (1, 5, 6, 7, 18, 19, 1000):
        compare(app, LINES, ["readlines", hint], ["read"])
    for hint in (0, -1, None):
        compare(app, LINES, ["readlines", hint], ["read"])


def test_C10_iteration(app):
    compare(app, LINES, *[["next"]] * 8)
    found = app.json("C10", method="POST", body=LINES)
    assert found == {"lines": ["first\n", "second line\n", "\n", "fourth\r\n",
                               "last without end"], "ends": [True] * 3}


def test_C11_methods_mixed(app):
    compare(app, LINES, ["readline"], ["read", 3], ["readline", 2], ["next"],
            ["read", 1], ["readlines", 1], ["all"], ["read"])


@pytest.mark.parametrize("how", [
    {}, {"body": b""}, {"extra": {"CONTENT_LENGTH": ""}},
    {"extra": {"CONTENT_LENGTH": "0"}}])
def test_C12_no_body(app, how):
    how = dict(how)
    extra = dict(how.pop("extra", {}), TEST_OPS=json.dumps(
        [["read"], ["readline"], ["readlines"], ["read", 5]]))
    found = app.json("ops", extra=extra, **how)
    assert found == [["bytes", ""], ["bytes", ""], ["list", []],
                     ["bytes", ""]]


def test_C12_length_0_needs_no_stdin(app):
    with app.peer() as peer:
        app.begin(peer, "ops", method="POST", body=b"",
                  extra={"TEST_OPS": json.dumps([["read"]])})
        assert json.loads(peer.answer(keep=True).body) == [["bytes", ""]]


def test_C13_big_bodies(app):
    binary = bytes(range(256)) * (10 * 4096)
    for size in (1000, 65536, 1 << 20):
        answer = app("digest", method="POST", body=binary,
                     extra={"TEST_SIZE": str(size)})
        assert answer.text == "%d %s %d" % (
            len(binary), hashlib.sha256(binary).hexdigest(), len(binary))
    compare(app, binary, ["read"])
    compare(app, b"x" * 1_000_000, ["readline"], ["readline"])
    compare(app, b"x" * 1_000_000, ["readline", 8191], ["readline", 8192],
            ["readline", 1], ["readline"])
    many = b"".join(b"line %d\n" % i for i in range(100_000))
    compare(app, many, ["readlines"])
    compare(app, many, ["all"])
    compare(app, many, ["readlines", 50_000], ["readline"], ["read"])


@pytest.mark.parametrize("taken", [0, 10, 60_000])
@pytest.mark.parametrize("keep", [0, fcgi.KEEP_CONN])
def test_C14_unread_body(app, taken, keep):
    body = b"\x01\x01\x00\x01" * 30_000
    with app.peer() as peer:
        for _ in range(3):
            app.send(peer, "unread", body, flags=keep,
                     method="POST", extra={"TEST_READ": str(taken)})
            answer = peer.answer(keep=bool(keep))
            assert answer.text == "took %d" % taken
            assert answer.complete
            if not keep:
                break


def test_C15_read_after_output(app):
    answer = app("C15", method="POST", body=b"the body")
    assert answer.body == b"before the body after"


@pytest.mark.parametrize("length", ["", "-1", None])
def test_C16_without_content_length(app, length):
    body = os.urandom(100_000)
    how = {"drop": ["CONTENT_LENGTH"]} if length is None else {
        "extra": {"CONTENT_LENGTH": length}}
    answer = app("digest", method="POST", body=body, **how)
    assert answer.text == "%d %s absent" % (
        len(body), hashlib.sha256(body).hexdigest())


@pytest.mark.parametrize("case", ["C17", "C17_pieces"])
@pytest.mark.parametrize("how", ["gone", "half_close", "short"])
def test_C17_a_cut_upload(app, case, how):
    with app.peer() as peer:
        app.begin(peer, case, method="POST", body=b"x" * 100)
        peer.send(fcgi.record(fcgi.STDIN, b"x" * 40))
        if how == "half_close":
            peer.half_close()
        elif how == "short":
            peer.send(fcgi.record(fcgi.STDIN))
        else:
            peer.close()
        line, = app.notes.wait("C17")
    assert line.split()[1:] == ["True", "True"], line
    app.server.errors_expected = True


@pytest.mark.epoll_only("FCGX_GetStr waits without a deadline")
def test_C18_body_deadline(serve, shape, notes):
    server = serve("app:application", env=notes.env(),
                   chdir=os.path.join(srv.APPS, "checklist"),
                   **shape.options(body_timeout="300ms"))
    for query, status in (("", 408), ("caught", 200)):
        params = fcgi.params_for("/", "POST", query, body=b"x" * 100,
                                 extra={"TEST_CASE": "C18"})
        with server.peer() as peer:
            peer.send(fcgi.begin() + fcgi.stream(
                fcgi.PARAMS, fcgi.pairs(params)) + fcgi.record(
                    fcgi.STDIN, b"only this"))
            answer = peer.answer()
            assert answer.status == status
    assert notes.wait("C18", 2) == ["True True"] * 2
    server.errors_expected = True


def test_C19_after_the_request(app):
    assert app("C19_keep", method="POST", body=b"secret").text == "kept"
    found = app.json("C19_use", method="POST", body=b"own body")
    assert found.pop("own") == "own body"
    assert set(found.values()) == {"ValueError"}, found


def test_C20_read_releases_the_gil(app):
    with app.peer() as peer:
        app.begin(peer, "C20_releases", method="POST", body=b"late")
        app.notes.wait("ticks", 5)
        peer.send(fcgi.stream(fcgi.STDIN, b"late"))
        assert peer.answer().text == "late"


def test_C20_read_in_another_thread(app):
    with app.peer() as peer:
        app.begin(peer, "C20_thread", method="POST", body=b"in a thread")
        peer.send(fcgi.stream(fcgi.STDIN, b"in a thread"))
        assert peer.answer().text == "in a thread"


def test_C21_what_does_not_exist(app):
    assert app.json("C21", method="POST", body=b"x") == []


def test_C22_close_does_nothing(app):
    assert app("C22", method="POST", body=b"still here").text == "still here"


def test_C23_arguments(app):
    assert app.json("C23", method="POST", body=b"abcdefgh") == {
        "str": "TypeError", "float": "TypeError", "two": "TypeError",
        "line str": "TypeError", "lines str": "TypeError",
        "wrong keyword": "TypeError", "size": "abc", "line size": "de",
        "rest": "fgh"}


@pytest.mark.parametrize("size", [1, 7, 8192, 65535])
@pytest.mark.parametrize("padding", [0, 5, 255])
def test_C3_bodies_in_records_of_any_size(app, size, padding):
    """The same bytes, however they are cut into records (also R042: CRLF on
    the border of two)."""
    body = (b"line\r\n" * 200 if size < 10 else b"0123456\r\n" * 20_000)
    params = app.params("ops", method="POST", body=body, extra={
        "TEST_OPS": json.dumps([["readline"], ["read", 100], ["readlines", 50],
                                ["readline", 3], ["read"]])})
    answer = fcgi.request(app.server.address, params, body, size=size,
                          padding=padding)
    assert json.loads(answer.body) == expected(body, [
        ["readline"], ["read", 100], ["readlines", 50], ["readline", 3],
        ["read"]])


def test_C17_the_next_request_is_served(app):
    """However many uploads were cut."""
    for _ in range(3 * app.shape.threads):
        with app.peer() as peer:
            app.begin(peer, "C17", method="POST", body=b"x" * 100)
            peer.send(fcgi.record(fcgi.STDIN, b"x"))
    wait_for(lambda: len(app.notes.read("C17")) == 3 * app.shape.threads,
             "all of them have ended")
    assert app("hello").text == "hello"
    app.server.errors_expected = True
