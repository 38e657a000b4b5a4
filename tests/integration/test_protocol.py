# SPDX-License-Identifier: MIT
"""FastCGI and SCGI as bytes, and what broke in other servers (rows R001 to
R030 of the reports, by their number)."""

import hashlib
import json
import os
import socket
import struct
import threading

import pytest

from lib import fcgi, proc
from lib import server as srv
from lib.wait import holds_for, wait_for

CHECKLIST = os.path.join(srv.APPS, "checklist")
TLS_HELLO = bytes.fromhex("16030100c8010000c40303") + b"\x5a" * 100


def executors(wire):
    return wire.shape.threads * 2


def parallel(count, call):
    """Run call(n) in count threads; returns the results, raises the first
    error."""
    results, errors = [None] * count, []

    def one(n):
        try:
            results[n] = call(n)
        except BaseException as e:
            errors.append(e)
    threads = [threading.Thread(target=one, args=(n,)) for n in range(count)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if errors:
        raise errors[0]
    return results


def closed_with_a_line(wire, data, pattern):
    """The server closes after these bytes, logs one line about it, and goes
    on."""
    with wire.peer() as peer:
        peer.send(data)
        peer.wait_closed()
        got = bytes(peer.inbuf)
    assert b"Status: 200" not in got
    lines = wire.log(pattern)
    assert len(wire.server.log.find(pattern)) == 1, lines
    assert wire("hello").text == "hello"
    return got


# Connections

@pytest.mark.parametrize("size", [900_000, 5 << 20])
@pytest.mark.parametrize("protocol", ["fcgi", "scgi"])
def test_front_ends_that_write_before_they_read(serve, epoll_shape, protocol,
                                                size):
    """mod_proxy_scgi, mod_fcgid and Caddy read no byte of the answer before
    they have written the whole body, of which the application reads nothing:
    neither waits for the other. Up to 1 MB of the body is kept; when
    application and front end then both stand still, the rest is dropped, and
    the application's read says so."""
    server = serve("app:application", chdir=CHECKLIST,
                   **epoll_shape.options(write_timeout="1s"))
    body = b"u" * size
    params = fcgi.params_for("/", "POST", body=body,
                             extra={"TEST_CASE": "deadlock"})
    with server.peer() as peer:
        data = (fcgi.scgi(params, body) if protocol == "scgi"
                else fcgi.encode(params, body))
        assert peer.send(data, receive=False) == len(data)
        answer = (peer.scgi_answer() if protocol == "scgi" else peer.answer())
    assert answer.complete
    count, what = answer.body[48 * 65536:].split()
    if size < 1 << 20:
        assert (int(count), what) == (size, b"whole")
    else:
        assert what == b"OSError"
        assert 0 < int(count) < 2 << 20
        server.log.wait(r"the body is dropped behind \d+ bytes")


def test_a_slow_reader_loses_nothing_of_its_body(serve, epoll_shape):
    """Both directions at once, the answer taken more slowly than the body is
    sent: what is not taken holds the body back."""
    server = serve("app:application", chdir=CHECKLIST,
                   **epoll_shape.options(write_timeout="20s"))
    body = os.urandom(1 << 20) * 6
    params = fcgi.params_for("/", "POST", body=body,
                             extra={"TEST_CASE": "echo_pieces"})
    with server.peer() as peer:
        data = memoryview(fcgi.encode(params, body))
        peer.sock.setblocking(False)
        sent = 0
        while sent < len(data):
            readable, writable = peer._poll(True, True, peer.timeout)
            assert readable or writable
            if writable:
                sent += peer.sock.send(data[sent:sent + 262144])
            elif len(peer.inbuf) < sent:
                peer._read()
        peer.sock.settimeout(peer.timeout)
        answer = peer.answer()
    assert answer.body == body
    assert answer.complete


def test_the_end_waits_for_the_body_of_a_kept_connection(wire):
    """h2o crashes and nginx gives the connection up when END_REQUEST comes
    before it has sent the whole body: the answer goes out, its end waits."""
    body = b"u" * 100_000
    with wire.peer() as peer:
        wire.begin(peer, "hello", flags=fcgi.KEEP_CONN, method="POST",
                   body=body)
        peer.send(fcgi.stream(fcgi.STDIN, body[:70_000], end=False))
        assert peer.until(b"hello").endswith(b"hello")
        holds_for(lambda: not peer._poll(True, False, 0)[0]
                  and not peer.inbuf, 0.2, "no END_REQUEST yet")
        peer.send(fcgi.stream(fcgi.STDIN, body[70_000:]))
        answer = peer.answer(keep=True)
        assert answer.complete and answer.stdout == b""
        wire.send(peer, "hello", flags=fcgi.KEEP_CONN)
        assert peer.answer(keep=True).text == "hello"


def test_R001_idle_kept_connections_cost_no_worker(wire):
    peers = []
    try:
        for _ in range(5 * executors(wire)):
            peer = wire.peer()
            peers.append(peer)
            wire.send(peer, "hello", flags=fcgi.KEEP_CONN)
            assert peer.answer(keep=True).text == "hello"
        for answer in parallel(20, lambda n: wire("hello")):
            assert answer.text == "hello"
        # The kept ones still work, in any order.
        for peer in reversed(peers):
            wire.send(peer, "hello", flags=fcgi.KEEP_CONN)
            assert peer.answer(keep=True).text == "hello"
    finally:
        for peer in peers:
            peer.close()


def test_R005_answer_before_the_body_was_read(serve, epoll_shape):
    """The client sees the whole answer although 1 MB of its body is unread,
    over TCP."""
    server = serve("app:application", chdir=CHECKLIST, tcp=True,
                   **epoll_shape.options(workers=2))
    body = b"u" * (1 << 20)

    def one(_):
        params = fcgi.params_for("/", "POST", body=body, extra={
            "TEST_CASE": "status",
            "TEST_STATUS": "413 Content Too Large"})
        with server.peer() as peer:
            peer.send(fcgi.encode(params, body))
            return peer.answer()
    for _ in range(5):
        for answer in parallel(20, one):
            assert answer.status == 413
            assert answer.body == b"body"
            assert answer.complete


def test_R006_unread_body_on_a_kept_connection(wire):
    # A body that looks like records.
    body = (fcgi.begin() + fcgi.stream(fcgi.PARAMS, fcgi.pairs(
        wire.params("pid")))) * 400
    assert len(body) > 100_000
    with wire.peer() as peer:
        for _ in range(5):
            wire.send(peer, "hello", body, flags=fcgi.KEEP_CONN,
                      method="POST")
            assert peer.answer(keep=True).text == "hello"
        wire.send(peer, "digest", b"own", flags=fcgi.KEEP_CONN,
                  method="POST")
        assert peer.answer(keep=True).text == "3 %s 3" % hashlib.sha256(
            b"own").hexdigest()


def test_R007_two_requests_in_one_write(wire):
    one = fcgi.encode(wire.params("digest", method="POST", body=b"one"),
                      b"one", flags=fcgi.KEEP_CONN)
    two = fcgi.encode(wire.params("digest", method="POST", body=b"second"),
                      b"second", flags=fcgi.KEEP_CONN)
    with wire.peer() as peer:
        peer.send(one + two + one)
        for body in (b"one", b"second", b"one"):
            assert peer.answer(keep=True).text == "%d %s %d" % (
                len(body), hashlib.sha256(body).hexdigest(), len(body))


def parse_values(content):
    found, i = {}, 0
    while i < len(content):
        lengths = []
        for _ in range(2):
            n = content[i]
            if n & 0x80:
                n = struct.unpack("!I", content[i:i + 4])[0] & 0x7fffffff
                i += 4
            else:
                i += 1
            lengths.append(n)
        name = content[i:i + lengths[0]].decode()
        i += lengths[0]
        found[name] = content[i:i + lengths[1]].decode()
        i += lengths[1]
    return found


def test_R009_get_values(wire):
    asked = {"FCGI_MAX_CONNS": "", "FCGI_MAX_REQS": "", "FCGI_MPXS_CONNS": "",
             "FCGI_UNKNOWN": ""}
    with wire.peer() as peer:
        peer.send(fcgi.record(fcgi.GET_VALUES, fcgi.pairs(asked), 0))
        type_, id_, content, _ = peer.record()
        assert (type_, id_) == (fcgi.GET_VALUES_RESULT, 0)
        values = parse_values(content)
        assert set(values) == set(asked) - {"FCGI_UNKNOWN"}
        assert values["FCGI_MPXS_CONNS"] == (
            "1" if wire.shape.threaded else "0")
        assert int(values["FCGI_MAX_CONNS"]) > 0
        assert int(values["FCGI_MAX_REQS"]) > 0
        # The connection stays, for more of them and for a request.
        peer.send(fcgi.record(fcgi.GET_VALUES, fcgi.pairs(
            {"FCGI_MPXS_CONNS": ""}), 0, padding=3))
        assert set(parse_values(peer.record()[2])) == {"FCGI_MPXS_CONNS"}
        peer.send(fcgi.record(fcgi.GET_VALUES, b"", 0))
        assert peer.record()[:3] == (fcgi.GET_VALUES_RESULT, 0, b"")
        wire.send(peer, "hello")
        assert peer.answer().text == "hello"


@pytest.mark.parametrize("type_", [12, 13, 99, 255])
def test_R009_unknown_management_type(wire, type_):
    with wire.peer() as peer:
        peer.send(fcgi.record(type_, b"whatever", 0))
        got = peer.record()
        assert got[:2] == (fcgi.UNKNOWN_TYPE, 0)
        assert got[2] == bytes([type_]) + b"\0" * 7
        wire.send(peer, "hello")
        assert peer.answer().text == "hello"


@pytest.mark.parametrize("id_", [1, 2, 255, 256, 65535])
def test_R010_request_ids(wire, id_):
    with wire.peer() as peer:
        for padding in (0, 1, 255):
            params = wire.params("digest", method="POST", body=b"x" * 1000)
            peer.send(fcgi.encode(params, b"x" * 1000, id_, fcgi.KEEP_CONN,
                                  padding=padding, size=300, split=50))
            answer = peer.answer(id_, keep=True)
            assert answer.text.startswith("1000 ")


def test_R010_ids_may_count_up(wire):
    with wire.peer() as peer:
        for id_ in range(1, 200):
            wire.send(peer, "hello", flags=fcgi.KEEP_CONN, id_=id_)
            assert peer.answer(id_, keep=True).text == "hello"


def test_R011_many_begins(wire):
    before = {p: proc.rss_bytes(p) for p in wire.server.workers()}
    begins = b"".join(fcgi.begin(id_=i % 65535 + 1) for i in range(100_000))
    with wire.peer() as peer:
        sent = peer.send(begins)
        peer.wait_closed()
        assert sent < len(begins)
        refused = 0
        while len(peer.inbuf) >= 16:
            type_, _, content, _ = peer.record()
            assert type_ == fcgi.END and content[4] == fcgi.CANT_MPX_CONN
            refused += 1
        assert refused > 0
    for pid, rss in before.items():
        assert proc.rss_bytes(pid) - rss < 8 << 20
    assert wire("hello").text == "hello"
    wire.server.errors_expected = True


def test_R011_a_second_request_at_the_same_time(wire):
    """The second is refused as the specification says, or waits for the
    first."""
    with wire.peer() as peer:
        wire.begin(peer, "digest", flags=fcgi.KEEP_CONN, id_=1, method="POST",
                   body=b"first")
        wire.send(peer, "hello", flags=fcgi.KEEP_CONN, id_=2)
        peer.send(fcgi.stream(fcgi.STDIN, b"first", 1))
        answers = peer.answers([1, 2], keep=True)
        assert answers[1].text.startswith("5 ")
        assert (answers[2].end == (0, fcgi.CANT_MPX_CONN)
                or answers[2].text == "hello")


def test_R012_no_stdin_record(wire):
    with wire.peer() as peer:
        wire.begin(peer, "C17", method="POST", body=b"")
        assert peer.answer(keep=True).text == "read"
    with wire.peer() as peer:
        wire.begin(peer, "hello", method="GET")
        # Without CONTENT_LENGTH only STDIN says where the body ends; this
        # application does not ask.
        peer.send(fcgi.record(fcgi.STDIN))
        assert peer.answer().text == "hello"


def test_R014_text_on_the_error_stream(wire):
    answer = wire("talks", query="200")
    assert answer.body == b"".join(b"chunk %d\n" % i for i in range(200))
    assert answer.stderr == b""
    wire.server.log.wait(r"R014 line 199$")
    assert len(wire.server.log.find(r"R014 line \d+$")) == 200


@pytest.mark.parametrize("split", [65535, 8184, 127, 1])
def test_R015_big_parameters(wire, split):
    sizes = (0, 1, 126, 127, 128, 129, 255, 256, 16384, 60_000)
    sent = {"TEST_V%d" % n: "v%d" % (n % 10) * (n // 2) + "x" * (n % 2)
            for n in sizes}
    sent["TEST_" + "N" * 300] = "long name"
    sent["HTTP_COOKIE"] = "c" * 30_000
    params = wire.params("environ", extra=sent)
    if split == 1:
        params = {n: v for n, v in params.items() if len(v) < 1000}
        sent = {n: v for n, v in sent.items() if len(v) < 1000}
    with wire.peer() as peer:
        peer.send(fcgi.encode(params, split=split))
        found = json.loads(peer.answer().body)
    for name, value in sent.items():
        assert found[name] == value, name


def test_R015_four_byte_lengths_for_short_values(wire):
    params = wire.params("environ")
    with wire.peer() as peer:
        peer.send(fcgi.begin() + fcgi.stream(fcgi.PARAMS, fcgi.pairs(
            params, long=True), size=11) + fcgi.record(fcgi.STDIN))
        assert json.loads(peer.answer().body)["PATH_INFO"] == "/"


def test_R015_200_000_bytes(serve, epoll_shape):
    server = serve("app:application", chdir=CHECKLIST,
                   **epoll_shape.options(max_params_size="1m"))
    value = "".join(chr(65 + i % 26) for i in range(200_000))
    answer = server.request(extra={"TEST_CASE": "environ", "TEST_BIG": value})
    assert json.loads(answer.body)["TEST_BIG"] == value


def bad_params(block, end=True):
    out = fcgi.begin() + fcgi.record(fcgi.PARAMS, block)
    return out + (fcgi.record(fcgi.PARAMS) + fcgi.record(fcgi.STDIN)
                  if end else b"")


@pytest.mark.parametrize("block", [
    b"\xff\xff\xff\xff\x01x", b"\x01\xff\xff\xff\xffx",
    b"\xff\xff\xff\xff\xff\xff\xff\xffx", b"\x80\x01", b"\x05",
    b"\x05\x05abc", b"\x7f\x7f" + b"a" * 20, b"\x80\x00\x00", b"\x01\x80",
    b"\xbf\xff\xff\xff\xbf\xff\xff\xff" + b"z" * 1000,
    b"\x01\x01ab\x81\x00\x00\x00"])
def test_R016_lengths_that_lie(wire, block):
    with wire.peer() as peer:
        peer.send(bad_params(block))
        peer.wait_closed()
        assert b"Status: 200" not in bytes(peer.inbuf)
    wire.server.log.wait(r"(?i)param")
    wire.server.errors_expected = True
    assert wire("hello").text == "hello"


def test_R016_no_memory_for_a_length_that_is_only_claimed(wire):
    before = {p: proc.rss_bytes(p) for p in wire.server.workers()}
    peers = [wire.peer() for _ in range(20)]
    try:
        for peer in peers:
            peer.send(bad_params(b"\x04\xbf\xff\xff\xffNAME" + b"v" * 1000,
                                 end=False))
        assert wire("hello").text == "hello"
        for pid, rss in before.items():
            assert proc.rss_bytes(pid) - rss < 8 << 20
    finally:
        for peer in peers:
            peer.close()
    wire.server.errors_expected = True


def test_R017_a_malformed_block_is_named(wire):
    # A 260-byte name with a 1-byte length, as one front end sent it.
    name = b"N" * 260
    block = bytes([len(name) & 0x7f, 1]) + name + b"v"
    with wire.peer() as peer:
        peer.send(bad_params(fcgi.pairs(wire.params("hello")) + block))
        peer.wait_closed()
    wire.log(r"(?i)param")
    assert wire("hello").text == "hello"


@pytest.mark.parametrize("kind", ["unix", "tcp"])
def test_R019_silent_connections(serve, epoll_shape, kind):
    server = serve("app:application", chdir=CHECKLIST, tcp=kind == "tcp",
                   **epoll_shape.options(workers=2, header_timeout="1s"))
    peers = [server.peer() for _ in range(4 * 2 * epoll_shape.threads)]
    try:
        for n, peer in enumerate(peers):
            # Nothing at all, part of a record, a record without its request.
            peer.send([b"", b"\x01", fcgi.begin()][n % 3])
        for _ in range(20):
            answer = server.request(extra={"TEST_CASE": "hello"})
            assert answer.text == "hello"
        for peer in peers:
            peer.wait_closed()
    finally:
        for peer in peers:
            peer.close()
    # A probe of the port is nothing to talk about.
    for _ in range(10):
        server.peer().close()
    assert server.request(extra={"TEST_CASE": "hello"}).text == "hello"


def test_R019_a_port_probe_is_not_logged(wire):
    for _ in range(20):
        wire.peer().close()
    assert wire("hello").text == "hello"
    assert wire.server.log.lines() == []


def test_R020_slow_bodies_hold_no_worker(wire):
    body = b"slow body!" * 10
    peers = [wire.peer() for _ in range(3 * executors(wire))]
    try:
        for peer in peers:
            wire.begin(peer, "digest", method="POST", body=body)
            peer.send(fcgi.record(fcgi.STDIN, body[:10]))
        for answer in parallel(10, lambda n: wire("hello")):
            assert answer.text == "hello"
        for i in range(10, len(body), 30):
            for peer in peers:
                peer.send(fcgi.record(fcgi.STDIN, body[i:i + 30]))
        for peer in peers:
            peer.send(fcgi.record(fcgi.STDIN))
            assert peer.answer().text == "100 %s 100" % hashlib.sha256(
                body).hexdigest()
    finally:
        for peer in peers:
            peer.close()


@pytest.mark.parametrize("protocol", ["fcgi", "scgi"])
def test_R021_minimal_parameters(wire, protocol):
    params = {"TEST_CASE": "environ"}
    adding = [("REQUEST_METHOD", "GET"), ("REQUEST_URI", "/a%20b?q"),
              ("SCRIPT_NAME", ""), ("PATH_INFO", "/given"),
              ("QUERY_STRING", "q=1"), ("SERVER_PROTOCOL", "HTTP/1.0")]
    for name, value in adding:
        params[name] = value
        answer = fcgi.request(wire.server.address, params, protocol=protocol)
        assert answer.status == 200
        found = json.loads(answer.body)
        for key in ("REQUEST_METHOD", "SERVER_NAME", "SERVER_PORT",
                    "SERVER_PROTOCOL"):
            assert found[key], key
        assert found["SCRIPT_NAME"] == ""
        assert found["QUERY_STRING"] == params.get("QUERY_STRING", "")
        if "PATH_INFO" in params:
            assert found["PATH_INFO"] == "/given"
        elif "REQUEST_URI" in params:
            assert found["PATH_INFO"] == "/a b"


def test_R021_only_content_length_and_scgi(wire):
    """Not even a method: an answer, and a line that says so."""
    with wire.peer() as peer:
        peer.send(b"24:CONTENT_LENGTH\x000\0SCGI\x001\0,")
        answer = peer.scgi_answer()
    assert answer.status >= 400
    wire.server.errors_expected = True
    assert wire("hello").text == "hello"


@pytest.mark.parametrize("protocol", ["fcgi", "scgi"])
def test_R022_half_close_after_the_body(wire, protocol):
    body = b"b" * 300_000
    params = wire.params("digest", method="POST", body=body)
    for _ in range(5):
        with wire.peer() as peer:
            peer.send(fcgi.scgi(params, body) if protocol == "scgi"
                      else fcgi.encode(params, body))
            peer.half_close()
            answer = (peer.scgi_answer() if protocol == "scgi"
                      else peer.answer())
        assert answer.text.startswith("300000 ")
        assert answer.complete and answer.closed == "eof"


@pytest.mark.parametrize("kind", ["unix", "tcp"])
@pytest.mark.parametrize("protocol", ["fcgi", "scgi"])
def test_R024_large_uploads(serve, epoll_shape, kind, protocol):
    server = serve("app:application", chdir=CHECKLIST, tcp=kind == "tcp",
                   **epoll_shape.options())
    body = os.urandom(1 << 20) * 10
    for size in ("1000", "1000000"):
        answer = server.request(method="POST", body=body, protocol=protocol,
                                extra={"TEST_CASE": "digest",
                                       "TEST_SIZE": size})
        assert answer.text == "%d %s %d" % (
            len(body), hashlib.sha256(body).hexdigest(), len(body))


@pytest.mark.parametrize("protocol", ["fcgi", "scgi"])
def test_R025_bodies_around_the_buffer(serve, epoll_shape, protocol):
    """What is kept before the application is called, and what is not."""
    limit = 64 << 10
    server = serve("app:application", chdir=CHECKLIST,
                   **epoll_shape.options(body_buffer=limit))
    for size in (1, limit - 1, limit, limit + 1, 2 * limit, 10 * limit):
        body = os.urandom(size)
        answer = server.request(method="POST", body=body, protocol=protocol,
                                extra={"TEST_CASE": "digest"})
        assert answer.text == "%d %s %d" % (
            size, hashlib.sha256(body).hexdigest(), size)


def test_R025_body_limit(serve, epoll_shape):
    server = serve("app:application", chdir=CHECKLIST,
                   **epoll_shape.options(max_body_size="1k"))
    ok = server.request(method="POST", body=b"x" * 1024,
                        extra={"TEST_CASE": "digest"})
    assert ok.status == 200
    too_big = server.request(method="POST", body=b"x" * 1025,
                             extra={"TEST_CASE": "digest"})
    assert too_big.status == 413
    server.errors_expected = True
    # Without a length it shows while it is read.
    too_big = server.request(method="POST", body=b"x" * 5000,
                             drop=["CONTENT_LENGTH"],
                             extra={"TEST_CASE": "digest"})
    assert too_big.status == 413


def test_R026_big_response_headers(wire):
    """Sent whole; who closes on them is named with their size."""
    answer = wire("F13", query="40")
    assert answer.status == 200
    assert [v for n, v in answer.headers if n == "X-39"] == ["v" * 1000]
    # That they are many is said once by each worker.
    wire.server.log.wait(r"response has 4\d{4} bytes of headers", start=0)
    for _ in range(10):
        wire("F13", query="40")
    with wire.peer() as peer:
        wire.send(peer, "R026")
        peer.until(b"X-0: ")
    wire.server.log.wait(
        r"the front end closed the connection; perhaps 4\d{4} bytes of "
        r"response headers")
    assert wire("hello").text == "hello"
    assert len(wire.server.log.find(r"bytes of headers", 0)) <= 2


@pytest.mark.big
def test_R027_more_than_4_gigabytes(wire):
    size = 5 << 30
    before = {p: proc.rss_bytes(p) for p in wire.server.workers()}
    got = 0
    with wire.peer() as peer:
        wire.send(peer, "streams", extra={
            "TEST_CHUNKS": "5120", "TEST_SIZE": str(1 << 20),
            "TEST_LENGTH": str(size)})
        while True:
            r = peer.record()
            assert r is not None, "cut after %d" % got
            if r[0] == fcgi.END:
                assert r[2] == b"\0" * 8
                break
            got += len(r[2])
    assert 0 < got - size < 1000
    for pid, rss in before.items():
        assert proc.rss_bytes(pid) - rss < 32 << 20


@pytest.mark.big
def test_R027_upload_of_3_gigabytes(wire):
    size = 3 << 30
    piece = fcgi.record(fcgi.STDIN, b"u" * 65528) * 64
    h = hashlib.sha256()
    before = {p: proc.rss_bytes(p) for p in wire.server.workers()}
    with wire.peer() as peer:
        wire.begin(peer, "digest", method="POST",
                   extra={"CONTENT_LENGTH": str(size)})
        left = size
        while left >= 65528 * 64:
            peer.send(piece)
            left -= 65528 * 64
        peer.send(fcgi.stream(fcgi.STDIN, b"u" * left))
        for _ in range(size >> 20):
            h.update(b"u" * (1 << 20))
        peer.sock.settimeout(120)
        assert peer.answer().text == "%d %s %d" % (size, h.hexdigest(), size)
    for pid, rss in before.items():
        assert proc.rss_bytes(pid) - rss < 32 << 20


@pytest.mark.parametrize("sent, expected", [
    ("500 Internal Server Error", "500 Internal Server Error"),
    ("418 I'm a teapot", "418 I'm a teapot"), ("200", "200 OK"),
    ("404", "404 Not Found"), ("299", "299 Unknown")])
def test_R029_status(wire, sent, expected):
    answer = wire("status", extra={"TEST_STATUS": sent})
    assert answer.status_line == expected
    assert answer.body == b"body"
    assert answer.header("Connection") is None


@pytest.mark.parametrize("sent", ["abc", "99 Low", "1000 High", "",
                                  "101 Switching Protocols"])
def test_R029_invalid_status(wire, sent):
    answer = wire("status", extra={"TEST_STATUS": sent})
    assert answer.status == 500
    wire.log("ValueError")


@pytest.mark.parametrize("data, looks", [
    (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", r"HTTP"),
    (b"POST /x HTTP/1.0\r\n\r\n", r"HTTP"),
    (TLS_HELLO, r"TLS"),
    (b"\xff\xfe\xfd" * 20, r"(?i)neither|not understood|FastCGI"),
    (b"\x02\x01\x00\x01\x00\x08\x00\x00" + b"\0" * 8, r"(?i)FastCGI|neither"),
])
def test_R030_other_protocols(wire, data, looks):
    closed_with_a_line(wire, data, looks)


@pytest.mark.parametrize("protocol, data, looks", [
    ("fcgi", b"70:CONTENT_LENGTH\x000\0SCGI\x001\0", r"SCGI"),
    ("scgi", fcgi.begin() + fcgi.record(fcgi.PARAMS), r"FastCGI")])
def test_R030_the_other_one(serve, epoll_shape, protocol, data, looks):
    server = serve("app:application", chdir=CHECKLIST,
                   **epoll_shape.options(protocol=protocol))
    with server.peer() as peer:
        peer.send(data)
        peer.wait_closed()
        assert not peer.inbuf
    server.expect_error(looks)
    answer = server.request(extra={"TEST_CASE": "hello"}, protocol=protocol)
    assert answer.text == "hello"


# FastCGI, beyond the rows

def test_byte_by_byte(wire):
    data = fcgi.encode(wire.params("digest", method="POST", body=b"body"),
                       b"body", padding=3)
    with wire.peer() as peer:
        for i in range(len(data)):
            peer.send(data[i:i + 1])
        assert peer.answer().text.startswith("4 ")


def test_cut_everywhere(wire):
    """The request in two writes, cut at every offset."""
    data = fcgi.encode(wire.params(
        "hello", drop=["SERVER_SOFTWARE", "GATEWAY_INTERFACE", "REMOTE_PORT",
                       "HTTP_HOST", "REMOTE_ADDR", "SERVER_PORT"]))
    for cut in range(1, len(data)):
        with wire.peer() as peer:
            peer.send(data[:cut])
            peer.send(data[cut:])
            assert peer.answer().text == "hello", cut


def test_records_of_unknown_requests_are_skipped(wire):
    with wire.peer() as peer:
        peer.send(fcgi.record(fcgi.STDIN, b"x" * 100, 7)
                  + fcgi.record(fcgi.PARAMS, b"y" * 100, 8)
                  + fcgi.record(fcgi.ABORT, b"", 9)
                  + fcgi.record(fcgi.DATA, b"z", 10))
        wire.send(peer, "hello", id_=7)
        assert peer.answer(7).text == "hello"


def test_unknown_record_type_of_a_request(wire):
    with wire.peer() as peer:
        peer.send(fcgi.begin())
        peer.send(fcgi.record(42, b"?" * 10, 1))
        peer.send(fcgi.stream(fcgi.PARAMS, fcgi.pairs(wire.params("hello")))
                  + fcgi.record(fcgi.STDIN))
        while True:
            r = peer.record()
            assert r is not None
            if r[0] == fcgi.END:
                break
            assert r[0] in (fcgi.STDOUT, fcgi.UNKNOWN_TYPE)


def test_unknown_role(wire):
    with wire.peer() as peer:
        peer.send(fcgi.encode(wire.params("hello"), role=9,
                              flags=fcgi.KEEP_CONN))
        answer = peer.answer(keep=True)
        assert answer.end == (0, fcgi.UNKNOWN_ROLE)
        assert answer.stdout == b""
        wire.send(peer, "hello")
        assert peer.answer().text == "hello"
    wire.server.errors_expected = True


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_authorizer_needs_no_stdin(wire, method):
    """Neither lighttpd nor Apache sends one to an authorizer."""
    params = wire.params("authorizer", method=method,
                         drop=["SCRIPT_NAME", "PATH_INFO"])
    with wire.peer() as peer:
        peer.send(fcgi.begin(fcgi.AUTHORIZER) + fcgi.stream(
            fcgi.PARAMS, fcgi.pairs(params)))
        answer = peer.answer()
    assert answer.status == 200
    assert answer.header("Variable-Who") == "someone"
    with wire.peer() as peer:
        params["QUERY_STRING"] = "deny"
        peer.send(fcgi.begin(fcgi.AUTHORIZER) + fcgi.stream(
            fcgi.PARAMS, fcgi.pairs(params)))
        assert peer.answer().status == 403


def test_filter_role_stays_in_step(wire):
    with wire.peer() as peer:
        for _ in range(3):
            params = wire.params("digest", method="POST", body=b"in")
            params["FCGI_DATA_LENGTH"] = "100000"
            peer.send(fcgi.encode(params, b"in", role=fcgi.FILTER,
                                  flags=fcgi.KEEP_CONN, data=b"d" * 100_000))
            assert peer.answer(keep=True).text.startswith("2 ")


def test_filter_data_before_the_end_of_stdin(wire):
    closed_with_a_line(
        wire, fcgi.begin(fcgi.FILTER) + fcgi.stream(
            fcgi.PARAMS, fcgi.pairs(wire.params("hello", body=b"body")))
        + fcgi.record(fcgi.STDIN, b"bo") + fcgi.record(fcgi.DATA, b"data"),
        "FCGI_DATA for request id 1 before the end of its FCGI_STDIN")


def test_abort_of_a_request_that_has_not_begun(wire):
    with wire.peer() as peer:
        wire.begin(peer, "digest", flags=fcgi.KEEP_CONN, method="POST",
                   body=b"x" * 10)
        peer.send(fcgi.record(fcgi.ABORT))
        answer = peer.answer(keep=True)
        assert answer.end is not None
        wire.send(peer, "hello", flags=fcgi.KEEP_CONN)
        assert peer.answer(keep=True).text == "hello"
    wire.server.errors_expected = True


def test_end_of_stream_records(wire):
    """STDOUT is ended once, by an empty record or not at all, and END_REQUEST
    is the last record."""
    for case in ("hello", "A3_generator"):
        answer = wire(case)
        kinds = [(r[0], r[2]) for r in answer.records]
        assert kinds[-1] == (fcgi.END, 8)
        assert [k for k in kinds[:-1] if k[1] == 0] in (
            [], [(fcgi.STDOUT, 0)])


def test_small_answers_are_one_record_and_an_end(wire):
    answer = wire("hello")
    big = [r for r in answer.records if r[0] == fcgi.STDOUT and r[2]]
    assert len(big) == 1


def test_kept_connection_of_a_client_that_goes(wire):
    counts = wire.server.fd_counts()
    for _ in range(20):
        with wire.peer() as peer:
            wire.send(peer, "hello", flags=fcgi.KEEP_CONN)
            peer.answer(keep=True)
    assert wire("hello").text == "hello"
    wire.server.wait_fds(counts)


def test_kept_connections_end_after_their_time(serve, epoll_shape):
    server = serve("app:application", chdir=CHECKLIST,
                   **epoll_shape.options(keepalive_timeout="300ms"))
    with server.peer() as peer:
        for _ in range(2):
            peer.send(fcgi.encode(fcgi.params_for(
                "/", extra={"TEST_CASE": "hello"}), flags=fcgi.KEEP_CONN))
            assert peer.answer(keep=True).text == "hello"
        assert peer.wait_closed() == "eof"


# SCGI

def test_scgi_body_and_answer(wire):
    body = os.urandom(200_000)
    answer = wire("digest", method="POST", body=body, protocol="scgi")
    assert answer.text == "%d %s %d" % (
        len(body), hashlib.sha256(body).hexdigest(), len(body))
    assert answer.complete


def test_scgi_byte_by_byte_and_cut_everywhere(wire):
    data = fcgi.scgi(wire.params("digest", method="POST", body=b"body"),
                     b"body")
    with wire.peer() as peer:
        for i in range(len(data)):
            peer.send(data[i:i + 1])
        assert peer.scgi_answer().text.startswith("4 ")
    for cut in range(1, len(data)):
        with wire.peer() as peer:
            peer.send(data[:cut])
            peer.send(data[cut:])
            assert peer.scgi_answer().text.startswith("4 "), cut


def test_scgi_broken_off(wire):
    """An exception behind the first bytes: fewer bytes than declared, or a
    reset; never an answer that looks whole."""
    answer = wire("streams", query="raise", protocol="scgi",
                  extra={"TEST_LENGTH": "1000"})
    assert not answer.complete
    wire.log("LookupError")


GOOD = b"CONTENT_LENGTH\x000\0SCGI\x001\0REQUEST_METHOD\0GET\0"


def netstring(block):
    return b"%d:%s," % (len(block), block)


@pytest.mark.parametrize("data", [
    b"0" + netstring(GOOD), b":" + GOOD + b",", b"12a:" + GOOD,
    b"-5:" + GOOD, b"99999999999:" + GOOD, b"%d:%s;" % (len(GOOD), GOOD),
    netstring(b"SCGI\x001\0CONTENT_LENGTH\x000\0"),
    netstring(b"CONTENT_LENGTH\x000\0"),
    netstring(b"CONTENT_LENGTH\0\0SCGI\x001\0"),
    netstring(b"CONTENT_LENGTH\0-1\0SCGI\x001\0"),
    netstring(b"CONTENT_LENGTH\0abc\0SCGI\x001\0"),
    netstring(b"CONTENT_LENGTH\x000\0SCGI\x002\0"),
    netstring(b"CONTENT_LENGTH\x000\0SCGI\x001\0NOVALUE"),
    netstring(b"CONTENT_LENGTH\x000\0SCGI\x001\0NAME\0"),
    netstring(b"CONTENT_LENGTH\x000\0SCGI\x001\0\0v\0"),
    netstring(b""), b"0:,"])
def test_scgi_netstring_to_the_letter(wire, data):
    with wire.peer() as peer:
        peer.send(data)
        peer.half_close()
        peer.wait_closed()
        assert b"Status: 200" not in bytes(peer.inbuf)
    wire.server.errors_expected = True
    assert wire("hello").text == "hello"


def test_scgi_deadline_of_the_head(wire):
    with wire.peer() as peer:
        peer.send(b"100:CONTENT_LENGTH\x000\0")
        peer.wait_closed()
        assert b"Status: 200" not in bytes(peer.inbuf)
    wire.server.errors_expected = True


# The wire and the network

def test_ipv6(serve, epoll_shape):
    try:
        with socket.socket(socket.AF_INET6) as s:
            s.bind(("::1", 0))
            port = s.getsockname()[1]
    except OSError:
        pytest.skip("no IPv6 here")
    server = serve("app:application", chdir=CHECKLIST, address=("::1", port),
                   **epoll_shape.options())
    assert server.request(extra={"TEST_CASE": "hello"}).text == "hello"


def test_several_addresses(serve, epoll_shape):
    port = srv.free_port()
    folder = srv.temp_dir()
    path = os.path.join(folder, "second")
    server = serve("app:application", chdir=CHECKLIST,
                   address=("127.0.0.1", port),
                   listen=["127.0.0.1:%d" % port, "unix:" + path],
                   **epoll_shape.options())
    for address in (("127.0.0.1", port), path):
        params = fcgi.params_for("/", extra={"TEST_CASE": "hello"})
        for protocol in ("fcgi", "scgi"):
            assert fcgi.request(address, params,
                                protocol=protocol).text == "hello"
    server.stop()
    assert not os.path.exists(path)
    os.rmdir(folder)


def test_silence_costs_nothing(wire):
    """Idle workers make no system calls: no CPU time passes."""
    with wire.peer() as peer:
        wire.send(peer, "hello", flags=fcgi.KEEP_CONN)
        peer.answer(keep=True)
        ticks = {p: proc.cpu_ticks(p) for p in wire.server.workers()}
        holds_for(lambda: all(proc.cpu_ticks(p) - t <= 1
                              for p, t in ticks.items()), 1.0, "idle")


def test_thousand_connections(serve, epoll_shape):
    """All of them open at once, none is refused or forgotten."""
    server = serve("app:application", chdir=CHECKLIST,
                   **epoll_shape.options(workers=2))
    params = fcgi.encode(fcgi.params_for("/", extra={"TEST_CASE": "hello"}),
                         flags=fcgi.KEEP_CONN)
    peers = []
    try:
        for _ in range(1000):
            peers.append(server.peer())
        for _ in range(2):
            for peer in peers:
                peer.send(params)
            for peer in peers:
                assert peer.answer(keep=True).text == "hello"
        for peer in peers:
            assert peer.is_open()
    finally:
        for peer in peers:
            peer.close()
    wait_for(lambda: all(len(proc.fds(p)) < 200 for p in server.workers()),
             "closed connections are let go")
