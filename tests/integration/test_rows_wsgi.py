# SPDX-License-Identifier: MIT
"""What broke for users of other servers in WSGI applications: rows R031 to
R065 of the reports. Those that need a front end are in test_frontends.py;
R039 is in test_wsgi_d_errors.py."""

import json
import os
import signal

import pytest

from lib import fcgi, proc
from lib import server as srv
from lib.wait import wait_for

CHECKLIST = os.path.join(srv.APPS, "checklist")


def path_of(app, **sent):
    """SCRIPT_NAME and PATH_INFO of the environ for what a front end sends;
    None is left out."""
    drop = [n for n, v in sent.items() if v is None]
    extra = {n: v for n, v in sent.items() if v is not None}
    found = app.json("environ", extra=extra, drop=drop)
    return found["SCRIPT_NAME"], found["PATH_INFO"]


@pytest.mark.parametrize("uri, raw", [
    ("/a%20b", b"/a b"), ("/a+b", b"/a+b"), ("/100%25", b"/100%"),
    ("/%E3%82%A2", b"/\xe3\x82\xa2")])
def test_R031_decoded_once(app, uri, raw):
    """As SetHandler and ProxyPass send it (both decoded), and where only
    REQUEST_URI tells."""
    text = raw.decode("latin-1")
    for sent in ({"SCRIPT_NAME": "", "PATH_INFO": raw},
                 {"SCRIPT_NAME": raw, "PATH_INFO": None},
                 {"SCRIPT_NAME": None, "PATH_INFO": None,
                  "DOCUMENT_URI": raw},
                 {"SCRIPT_NAME": None, "PATH_INFO": None}):
        assert path_of(app, REQUEST_URI=uri, **sent) == ("", text)


def test_R031_path_from_request_uri(serve, shape):
    """The documented switch for front ends that rewrite the path."""
    server = serve("app:application", chdir=CHECKLIST,
                   **shape.options(path_source="request_uri"))
    for uri, path in (("/a%20b?x", "/a b"), ("/a+b", "/a+b"),
                      ("/100%25", "/100%"), ("/%2541", "/%41"),
                      ("http://host:80/abs?q", "/abs"),
                      ("/a/../b", "/b"), ("/a/%2e%2e/b", "/b")):
        answer = server.request(extra={
            "TEST_CASE": "environ", "REQUEST_URI": uri,
            "SCRIPT_NAME": "/index.py", "PATH_INFO": ""})
        assert json.loads(answer.body)["PATH_INFO"] == path, uri


def test_R032_non_ascii_path_is_latin_1(app):
    raw = "/1/\xe5\xe4\xf6".encode()
    assert path_of(app, PATH_INFO=raw) == ("", raw.decode("latin-1"))
    found = app.json("environ", extra={"REMOTE_USER": "\xfcser".encode(),
                                       "HTTP_X_NAME": b"\xe5 \xc3\xa4"})
    assert found["REMOTE_USER"] == "\xfcser".encode().decode("latin-1")
    assert found["HTTP_X_NAME"] == "\xe5 \xc3\xa4"


def test_R034_bytes_that_are_no_utf_8(app):
    path = b"/\xff\xfe"
    assert path_of(app, PATH_INFO=path) == ("", "\xff\xfe".join(["/", ""]))
    high = bytes(range(0x80, 0x100))
    found = app.json("environ", extra={
        "HTTP_X_HIGH": high, "HTTP_AUTHORIZATION": b"Basic \xff\xff=",
        "REQUEST_URI": b"/\xff", "REQUEST_METHOD": b"GET",
        "HTTP_USER_AGENT": high})
    assert found["HTTP_X_HIGH"] == high.decode("latin-1")
    # And where the request line goes into the log.
    answer = app("fail", query="call,LookupError",
                 extra={"REQUEST_URI": b"/\xff\x1b[0m\r\nGET /forged",
                        "PATH_INFO": b"/\xff"})
    assert answer.status == 500
    app.log("LookupError")
    with open(app.server.log.path, "rb") as f:
        raw = f.read()
    assert b"\x1b" not in raw and b"\r" not in raw and b"\xff" not in raw
    assert b"\nGET /forged" not in raw


MOUNTED = [
    # What front ends send for /app/x/y; None is left out.
    {"SCRIPT_NAME": "/app/x/y", "PATH_INFO": None},
    {"SCRIPT_NAME": "/app", "PATH_INFO": "/x/y"},
    {"SCRIPT_NAME": "", "PATH_INFO": "/app/x/y"},
    {"SCRIPT_NAME": None, "PATH_INFO": "/app/x/y"},
    {"SCRIPT_NAME": "/app/x", "PATH_INFO": "/y"},
    {"SCRIPT_NAME": "", "PATH_INFO": "/x/y"},          # stripped
    {"SCRIPT_NAME": None, "PATH_INFO": None, "DOCUMENT_URI": "/app/x/y"},
    {"SCRIPT_NAME": None, "PATH_INFO": None},
]


@pytest.fixture(scope="module")
def mounted(shape):
    server = srv.start("app:application", chdir=CHECKLIST,
                       **shape.options(mount="/app"))
    yield server
    try:
        server.stop()
    finally:
        server.close()


def mounted_path(server, uri, **sent):
    extra = {n: v for n, v in sent.items() if v is not None}
    extra.update(TEST_CASE="environ", REQUEST_URI=uri)
    answer = server.request(extra=extra, drop=[
        n for n, v in sent.items() if v is None])
    if answer.status != 200:
        return answer.status
    found = json.loads(answer.body)
    return found["SCRIPT_NAME"], found["PATH_INFO"]


@pytest.mark.parametrize("sent", MOUNTED)
def test_R035_one_mount_for_all_front_ends(mounted, sent):
    assert mounted_path(mounted, "/app/x/y?q=1", **sent) == ("/app", "/x/y")


def test_R035_at_the_mount_itself(mounted):
    for sent in ({"SCRIPT_NAME": "/app", "PATH_INFO": None},
                 {"SCRIPT_NAME": "/app", "PATH_INFO": ""},
                 {"SCRIPT_NAME": "", "PATH_INFO": "/app"}):
        assert mounted_path(mounted, "/app", **sent) == ("/app", "")
    for sent in ({"SCRIPT_NAME": "/app/", "PATH_INFO": None},
                 {"SCRIPT_NAME": "/app", "PATH_INFO": "/"},
                 {"SCRIPT_NAME": "", "PATH_INFO": "/app/"}):
        assert mounted_path(mounted, "/app/", **sent) == ("/app", "/")


def test_R035_outside_the_mount(mounted):
    mounted.begin_test()
    mounted.errors_expected = True
    for path in ("/application", "/applause/x", "/other", "/"):
        assert mounted_path(mounted, path, SCRIPT_NAME="",
                            PATH_INFO=path) == 404
    # What nginx makes of location /app with /application.
    assert mounted_path(mounted, "/application", SCRIPT_NAME="/app",
                        PATH_INFO="lication") == 404


def test_R036_optional_keys(app):
    found = app.json("environ", drop=["PATH_INFO", "QUERY_STRING",
                                      "SCRIPT_NAME", "REQUEST_URI"])
    assert found["SCRIPT_NAME"] == ""
    assert found["QUERY_STRING"] == ""
    assert found["PATH_INFO"] in ("", "/")
    assert "CONTENT_TYPE" not in found and "CONTENT_LENGTH" not in found


def test_R037_leading_double_slash(app):
    assert path_of(app, PATH_INFO="//x/y", REQUEST_URI="//x/y") == (
        "", "//x/y")
    assert path_of(app, SCRIPT_NAME="//x/y", PATH_INFO=None,
                   REQUEST_URI="//x/y") == ("", "//x/y")
    assert path_of(app, SCRIPT_NAME=None, PATH_INFO=None,
                   REQUEST_URI="//x/y") == ("", "//x/y")


OPS = [[["read"], ["read"]], [["read", -1], ["read", -1]],
       [["read", 10 ** 9], ["read", 10 ** 9]], [["read", 0], ["read"]],
       [["all"], ["read"], ["all"]], [["readlines"], ["readline"]]]


@pytest.mark.parametrize("ops", OPS)
def test_R040_reads_at_the_end(app, ops):
    body = b"ab\ncd"
    found = app.json("ops", method="POST", body=body,
                     extra={"TEST_OPS": json.dumps(ops)})
    assert found[0] in (["bytes", "ab\ncd"], ["bytes", ""],
                        ["list", [["bytes", "ab\n"], ["bytes", "cd"]]])
    if ops[0] != ["read", 0]:
        assert found[-1] in (["bytes", ""], ["list", []])


def test_R041_transfer_encoding_is_removed(app):
    found = app.json("environ", method="POST", body=b"x",
                     drop=["CONTENT_LENGTH"],
                     headers=[("Transfer-Encoding", "chunked")])
    assert "HTTP_TRANSFER_ENCODING" not in found
    assert "CONTENT_LENGTH" not in found
    assert found["wsgi.input_terminated"] is True


@pytest.mark.parametrize("size", [0, 1, 2, 8191, 8192, 8193])
def test_R042_readline_sizes(app, size):
    body = b"x" * 100_000 + b"\r\n" + b"y" * 100
    ops = [["readline", size], ["readline", size], ["readline"],
           ["readline"], ["readline"]]
    params = app.params("ops", method="POST", body=body,
                        extra={"TEST_OPS": json.dumps(ops)})
    # \r and \n in different records.
    with app.peer() as peer:
        peer.send(fcgi.begin() + fcgi.stream(
            fcgi.PARAMS, fcgi.pairs(params)))
        peer.send(fcgi.stream(fcgi.STDIN, body[:100_001], end=False))
        peer.send(fcgi.stream(fcgi.STDIN, body[100_001:]))
        found = json.loads(peer.answer().body)
    from test_wsgi_c_input import expected
    assert found == expected(body, ops)


@pytest.mark.parametrize("query", ["none", "int", "object"])
def test_R044_results_that_are_no_iterable(app, query):
    assert app("J6", query=query).status == 500
    app.log("(?i)iter")


def test_R044_bytes_work(app):
    assert app("G8").body == b"bytes, not in a list"


@pytest.mark.parametrize("query, body", [
    ("first", b"Test"), ("middle", b"ab"), ("many_empty", b"end")])
def test_R045_empty_chunks(app, query, body):
    answer = app("G5", query=query)
    assert answer.body == body
    assert answer.complete


def rss(server):
    return sum(proc.rss_bytes(p) for p in server.workers())


LEAKS = [("A3_generator", {}), ("A3_class", {}), ("E5", {}), ("E6", {}),
         ("G1", {}), ("B24", {"method": "POST", "body": b"abc"}),
         ("I1", {"query": "close_raises"}), ("K1", {}),
         ("wrap", {"query": "plain"}), ("wrap", {"query": "bytesio"}),
         ("start", {"query": "F8_crlf"}), ("start", {"query": "F5_triple"}),
         ("fail", {"query": "call,LookupError"}),
         ("fail", {"query": "later,SystemExit"}), ("J6", {"query": "int"}),
         ("unread", {"method": "POST", "body": b"x" * 5000}),
         ("ops", {"method": "POST", "body": b"a\nb\n" * 50, "extra": {
             "TEST_OPS": '[["readline"], ["readlines"], ["read"]]'}}),
         ("C10", {"method": "POST", "body": b"1\n2\n3\n4\n"}), ("I10", {})]


@pytest.mark.big
@pytest.mark.parametrize("case, how", LEAKS,
                         ids=["%s-%s" % (c, h.get("query", ""))
                              for c, h in LEAKS])
def test_R046_no_leak_by_generators_and_errors(app, case, how):
    """Flat memory after a warm-up. scripts/test --leaks makes 100,000 of
    each."""
    app.server.errors_expected = True
    count = int(os.environ.get("FOREBAY_LEAK_REQUESTS", "3000"))
    for _ in range(count // 5):
        app(case, **how)
    before = rss(app.server)
    for _ in range(count):
        app(case, **how)
    # The smallest object that can be lost in each request has 32 bytes.
    assert rss(app.server) - before < max(16 * count, 1 << 20)


@pytest.mark.parametrize("method, status", [
    ("HEAD", "200 OK"), ("GET", "204 No Content"),
    ("GET", "304 Not Modified")])
@pytest.mark.parametrize("length", ["", "10"])
def test_R054_no_body_and_right_framing(wire, method, status, length):
    """On a kept connection: a byte too many would spoil what follows."""
    with wire.peer() as peer:
        for _ in range(3):
            wire.send(peer, "G10", flags=fcgi.KEEP_CONN, method=method,
                      query=length, extra={"TEST_STATUS": status})
            answer = peer.answer(keep=True)
            assert answer.status_line == status
            assert answer.body == b""
            if status.startswith("204"):
                assert answer.header("Content-Length") is None
            elif length:
                assert answer.header("Content-Length") == "10"
            wire.send(peer, "hello", flags=fcgi.KEEP_CONN)
            assert peer.answer(keep=True).text == "hello"


@pytest.mark.parametrize("how", ["raise", "die"])
def test_R055_failure_half_way(serve, epoll_shape, how):
    server = serve("app:application", chdir=CHECKLIST,
                   **epoll_shape.options(workers=2))
    answer = server.request(query=how, extra={"TEST_CASE": "streams",
                                              "TEST_CHUNKS": "3"})
    assert answer.body == b"a" * 10 + b"b" * 10 + b"c" * 10
    assert answer.end is None and answer.closed
    # No empty STDOUT record that says "this was all".
    assert all(r[2] for r in answer.records if r[0] == fcgi.STDOUT)
    server.expect_error("LookupError" if how == "raise"
                        else "SIGKILL|signal 9|[Kk]illed")
    server.wait_workers(2)


def test_R056_longer_and_shorter(wire):
    answer = wire("H3", query="one")
    assert answer.body == b"0123456789" and answer.complete
    answer = wire("H6", query="generator")
    assert not answer.complete
    wire.server.errors_expected = True


def test_R057_file_wrapper_with_a_range(app):
    answer = app("wrap", query="seek", extra={"TEST_LENGTH": "500"})
    assert answer.body == (bytes(range(256)) * 1000)[1000:1500]
    assert answer.complete


def test_R059_clients_that_go_make_no_noise(app):
    for n in range(50):
        with app.peer() as peer:
            app.send(peer, "I5" if n % 2 else "I4")
            peer.until(b"t" if n % 2 else b"i")
    wait_for(lambda: len(app.notes.read("I5")) == 25
             and len(app.notes.read("I4")) == 25, "all of them were stopped")
    assert app("hello").text == "hello"
    text = app.server.log.since_mark()
    assert "Traceback" not in text
    assert len(text.splitlines()) <= 50, text[-2000:]


def test_R060_endless_generator(app):
    with app.peer() as peer:
        app.send(peer, "I1_endless")
        peer.until(b"eeee")
    app.notes.wait("I1")
    assert app.notes.read("I1") == ["closed True"]
    assert app("hello").text == "hello"


@pytest.mark.parametrize("where", ["call", "started", "next", "later",
                                   "close"])
@pytest.mark.parametrize("what", ["SystemExit", "KeyboardInterrupt"])
def test_R062_exit_inside_a_view(wire, where, what):
    before = wire.server.workers()
    answer = wire("fail", query="%s,%s" % (where, what))
    if where in ("later", "close"):
        assert answer.status == 200
    else:
        assert answer.status == 500
    wire.log(what)
    for _ in range(4):
        assert wire("hello").text == "hello"
    assert wire.server.workers() == before


def test_R064_types_and_formats(wire):
    found = wire.json("environ", extra={"REMOTE_ADDR": "::1",
                                        "SERVER_PORT": "443", "HTTPS": "on"})
    assert found["REMOTE_ADDR"] == "::1"
    assert found["SERVER_PORT"] == "443"
    assert found["wsgi.url_scheme"] == "https"
    assert found["wsgi.multithread"] is wire.shape.threaded
    assert found["wsgi.multiprocess"] is True
    assert found["wsgi.run_once"] is False
    assert wire("B24").status == 200


@pytest.mark.parametrize("bad", ["%0d%0aX:%20y", "%0aX:%20y", "%00", "%0d"])
def test_R052_response_splitting(app, bad):
    answer = app("reflected", query="/next" + bad)
    assert answer.status == 500
    assert b"\r\nX: y" not in answer.stdout
    app.log("Location")


@pytest.mark.parametrize("name", ["F5_int", "F5_none", "F5_bytes_value",
                                  "F5_list", "F5_triple", "F5_odd",
                                  "F4_iterator"])
def test_R050_header_types(app, name):
    answer = app("start", query=name)
    assert answer.status == 500
    app.log("TypeError")


def test_R051_wide_header(app):
    answer = app("start", query="F6_value")
    assert answer.status == 500
    assert answer.complete
    app.log("X-Wide")


def test_R047_close_when_the_worker_ends(serve, shape, notes):
    """Also when TERM comes in the middle of a stream and the client goes."""
    server = serve("app:application", chdir=CHECKLIST, env=notes.env(),
                   **shape.options())
    params = fcgi.params_for("/", extra={"TEST_CASE": "I1_endless"})
    with server.peer() as peer:
        peer.send(fcgi.encode(params))
        peer.until(b"eeee")
        server.process.send_signal(signal.SIGTERM)
        server.log.wait(r"(?i)stop|term|drain")
    assert server.wait_exit() == 0
    assert notes.read("I1") == ["closed True"]
    server.errors_expected = True


def test_R049_order_of_the_rules(app):
    assert app("E4").body == b"refused"
    assert app("E5").status_line == "500 Replaced"
    assert not app("E6").complete
    assert app("E12").status == 500
    assert app("A3_generator").status == 200
    assert app("E8").body == b"True"
    app.server.errors_expected = True
