# SPDX-License-Identifier: MIT
"""WSGI checklist D: wsgi.errors and the log."""

import os
import re
import threading

import pytest

from lib import fcgi
from lib import server as srv
from lib.wait import wait_for

CHECKLIST = os.path.join(srv.APPS, "checklist")


def test_D1_write_writelines_flush(app):
    assert app("D1").text == "ok"
    for line in ("D1 write", "D1 line one", "D1 line two"):
        app.server.log.wait(re.escape(line) + "$")


def test_D2_any_text(app):
    assert app("D2").text == "ok"
    app.server.log.wait(r"D2 latin (\xe9|\\xc3\\xa9|\\xe9)$")
    app.server.log.wait(r"D2 emoji (\U0001f600|\\xf0\\x9f\\x98\\x80"
                        r"|\\U0001f600)$")
    app.server.log.wait(r"D2 surrogate \\+udc80$")
    app.server.log.wait(r"D2 no newline until now$")


def test_D3_whole_lines_with_pool_and_pid(serve, shape):
    server = serve("app:application", chdir=CHECKLIST,
                   **shape.options(workers=3))
    found = {}

    def one(who):
        found[who] = server.request(query=who,
                                    extra={"TEST_CASE": "D3"}).text
    threads = [threading.Thread(target=one, args=("who%s" % c,))
               for c in "abcdefgh"]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(found) == 8
    server.log.wait(r"D3 ", 8 * 50)
    for who, pid in found.items():
        lines = server.log.find(r"D3 %s " % who, 0)
        assert len(lines) == 50
        for n, line in enumerate(lines):
            assert line.endswith("D3 %s %03d %s end" % (who, n, who[-1] * 200))
            head = line[:line.index("D3 ")]
            assert "main" in head
            assert re.search(r"\b%s\b" % pid, head), line


def test_D4_bytes_and_late_writes(app):
    assert app("D4").text == "TypeError TypeError TypeError"
    app.notes.wait("D4")
    app.server.log.wait(r"D4 after the request$")


def test_D5_exceptions_are_logged_once(app):
    answer = app("D5", path="/some/where", query="q=1")
    assert answer.status == 500
    app.log(r"D5 went wrong")
    text = app.server.log.since_mark()
    assert text.count("LookupError: D5 went wrong") == 1
    assert text.count("Traceback (most recent call last)") == 1
    assert "in innermost" in text and "in D5" in text
    assert re.search(r"main.*GET /some/where", text), text


def test_D6_print_goes_to_the_log(app):
    answer = app("D6")
    assert answer.text == "only this"
    assert answer.stderr == b""
    for line in ("D6 print", "D6 stderr", "D6 without newline"):
        app.server.log.wait(line + "$")


def test_D7_control_characters_are_escaped(app):
    assert app("D7").text == "ok"
    line, = app.server.log.wait(r"D7 ")
    assert line.endswith(r"D7 a\x0db\x1b[31mc\x00d"), repr(line)
    with open(app.server.log.path, "rb") as f:
        raw = f.read()
    assert b"\x1b" not in raw and b"\r" not in raw and b"\0" not in raw


@pytest.mark.parametrize("what", ["log", "pipe"])
def test_D8_ten_megabytes_and_nobody_reads(serve, shape, notes, what):
    if what == "log":
        server = serve("app:application", chdir=CHECKLIST, env=notes.env(),
                       **shape.options())
        assert server.request(extra={"TEST_CASE": "D8"}).text == "ok"
        server.log.wait("xxxxxxxx")
        return
    r, w = os.pipe()
    try:
        server = serve("app:application", chdir=CHECKLIST, env=notes.env(),
                       stderr=w, wait=False, **shape.options())
        os.close(w)
        w = -1
        # The log is read up to the word "ready", and then no more.
        got = b""
        while b": ready" not in got:
            got += os.read(r, 4096)
        server.remember()
        for _ in range(6):
            assert server.request(extra={"TEST_CASE": "D8"}).text == "ok"
        notes.wait("D8", 6)
        assert server.request(extra={"TEST_CASE": "hello"}).text == "hello"
        # Whoever reads again learns how much is missing, and the log works.
        got = []

        def read_on():
            while True:
                data = os.read(r, 1 << 20)
                if not data:
                    return
                got.append(data)
        reader = threading.Thread(target=read_on)
        reader.start()
        wait_for(lambda: re.search(rb"\d+ lines were dropped",
                                   b"".join(got[-50:])),
                 lambda: "the count of what was dropped: %r"
                 % b"".join(got)[-500:], 60)
        assert server.request(extra={"TEST_CASE": "D1"}).text == "ok"
        wait_for(lambda: b"D1 write" in b"".join(got[-50:]), "the log works")
        server.terminate()
        assert server.wait_exit() == 0
        reader.join()
    finally:
        os.close(r)
        if w >= 0:
            os.close(w)


def test_D3_fcgi_stderr_is_not_used(app):
    """Nothing of it goes over the connection (R014)."""
    answer = app("D1")
    assert answer.stderr == b""
    assert fcgi.STDERR not in {r[0] for r in answer.records}


def test_R039_text_stream_interface(app):
    found = app.json("stream_api")
    for name in ("errors", "stderr", "stdout"):
        isatty, fd, has_name, writable, encoding = found[name]
        assert isatty is False and fd in (1, 2) and has_name and writable
        assert encoding == "utf8"
        app.server.log.wait("R039 %s$" % name)
        app.server.log.wait("R039 buffer %s$" % name)
