# SPDX-License-Identifier: MIT
"""The uwsgi protocol: raw, and by nginx's uwsgi_pass."""

import json
import os
import struct

import pytest

from lib import fcgi
from lib import frontends as fe
from lib import server as srv

CHECKLIST = os.path.join(srv.APPS, "checklist")


class NginxUwsgi(fe.Nginx):
    module = "uwsgi"
    speaks = "uwsgi"


class NginxUwsgiUnbuffered(NginxUwsgi):
    more = "uwsgi_request_buffering off; uwsgi_buffering off;"


def packet(params, body=b"", modifier1=0):
    block = b"".join(
        struct.pack("<H", len(n)) + n + struct.pack("<H", len(v)) + v
        for n, v in ((fcgi._bytes(n), fcgi._bytes(v))
                     for n, v in params.items()))
    return struct.pack("<BHB", modifier1, len(block), 0) + block + body


def params(case, **how):
    return fcgi.params_for(extra={"TEST_CASE": case}, **how)


@pytest.fixture(params=["auto", "uwsgi"])
def server(serve, epoll_shape, request):
    return serve("app:application", chdir=CHECKLIST,
                 **epoll_shape.options(protocol=request.param))


def ask(server, data):
    """(status line, headers, body); the end of the connection ends it."""
    with server.peer() as peer:
        peer.send(data)
        assert peer.wait_closed() == "eof"
        head, _, body = bytes(peer.inbuf).partition(b"\r\n\r\n")
    line, _, head = head.partition(b"\r\n")
    return line.decode(), head.decode().lower().split("\r\n"), body


def test_raw(server):
    line, _, body = ask(server, packet(params("hello")))
    assert (line, body) == ("HTTP/1.1 200 OK", b"hello")
    body = os.urandom(300_000)
    line, _, got = ask(server, packet(params(
        "digest", method="POST", body=body), body))
    assert line == "HTTP/1.1 200 OK" and got.startswith(b"300000 ")
    line, _, _ = ask(server, packet(params("status", query="",
                                           drop=["REQUEST_METHOD"])))
    assert line.startswith("HTTP/1.1 500 ")
    server.errors_expected = True


def test_a_byte_at_a_time(server):
    data = packet(params("hello"))
    with server.peer() as peer:
        for i in range(len(data)):
            peer.send(data[i:i + 1])
        peer.wait_closed()
        assert bytes(peer.inbuf).endswith(b"hello")


def test_same_environ(server):
    """As over FastCGI, but for the length that ends the body."""
    sent = params("environ", headers=[("X-Test", "a"), ("Cookie", "b=c")],
                  path="/\u00e4/b", query="q=1")
    found = json.loads(ask(server, packet(sent))[2])
    for name, value in sent.items():
        if isinstance(value, bytes):
            value = value.decode("latin-1")
        assert found[name] == value, name


@pytest.mark.parametrize("data,words", [
    (packet(params("hello"), modifier1=5), "modifier1 5"),
    (b"\0\5\0\0\1\0A\2\0", "variable 1 does not end")])
def test_not_understood(serve, data, words):
    server = serve("app:application", chdir=CHECKLIST, protocol="uwsgi")
    with server.peer() as peer:
        peer.send(data)
        peer.wait_closed()
        assert not peer.inbuf
    server.log.wait(words)


@pytest.mark.parametrize("kind", [NginxUwsgi, NginxUwsgiUnbuffered])
def test_nginx(serve, epoll_shape, front, kind):
    server = serve("app:application", chdir=CHECKLIST,
                   **epoll_shape.options())
    web = front(kind, server.address, PASS="include /etc/nginx/uwsgi_params;"
                " uwsgi_param TEST_CASE $arg_case; %s uwsgi_pass app;"
                % kind.more)
    status, headers, body = web.request("/?case=hello")
    assert (status, body) == (200, b"hello")
    status, _, body = web.request("/?case=hello", "HEAD")
    assert (status, body) == (200, b"")
    for size in (0, 1, 70_000, 5_000_000):
        status, _, body = web.request("/?case=digest", "POST", b"x" * size)
        assert status == 200 and body.startswith(b"%d " % size), size
    status, headers, _ = web.request("/?case=G1")
    assert status == 200
    found = json.loads(web.request("/a%20b/c?case=environ")[2])
    assert found["PATH_INFO"] == "/a b/c" and found["SCRIPT_NAME"] == ""
    assert found["QUERY_STRING"] == "case=environ"
    assert found["REQUEST_METHOD"] == "GET"
