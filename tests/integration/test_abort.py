# SPDX-License-Identifier: MIT
"""A front end that goes away, or gives a request up, while the application
runs: client_connected() tells, the response stops, close() is called."""

import os

import pytest

from lib import fcgi
from lib import server as srv
from test_uwsgi import packet

APP = os.path.join(srv.APPS, "mux")


def request(protocol, path, name, flags):
    params = fcgi.params_for(path, query=name, body=b"")
    if protocol == "fcgi":
        return fcgi.encode(params, flags=flags)
    return (fcgi.scgi if protocol == "scgi" else packet)(params)


@pytest.fixture
def server(serve, epoll_shape, notes):
    return serve("app:application", chdir=APP, env=notes.env(),
                 **epoll_shape.options(log_level="debug"))


@pytest.mark.parametrize("flags", [0, fcgi.KEEP_CONN])
@pytest.mark.parametrize("protocol", ["fcgi", "scgi", "uwsgi"])
def test_the_peer_goes_away(server, notes, protocol, flags):
    with server.peer() as peer:
        peer.send(request(protocol, "/gone", "a", flags))
        notes.wait("running")
    assert notes.wait("gone") == ["a"]
    assert notes.wait("closed") == ["a"]
    server.log.wait("the client went away")
    assert server.request("/answer", query="b").text == "hello b"
    assert len(server.log.find("went away")) == 1


@pytest.mark.parametrize("flags", [0, fcgi.KEEP_CONN])
def test_the_request_is_given_up(server, notes, flags):
    with server.peer() as peer:
        peer.send(request("fcgi", "/gone", "a", flags))
        notes.wait("running")
        peer.send(fcgi.record(fcgi.ABORT))
        assert notes.wait("gone") == ["a"]
        assert peer.answer(keep=bool(flags)).end is not None
        if flags:
            peer.send(request("fcgi", "/answer", "b", flags))
            assert peer.answer(keep=True).text == "hello b"
    assert notes.wait("closed") == ["a"]
    server.log.wait("the client went away")
    assert len(server.log.find("went away")) == 1


@pytest.mark.parametrize("protocol", ["fcgi", "scgi", "uwsgi"])
def test_while_it_is_written_to(server, notes, protocol):
    """The application never asks."""
    with server.peer() as peer:
        peer.send(request(protocol, "/stream", "a,1000000,1000", 0))
        notes.wait("running")
        assert peer.fill(100_000)
    assert notes.wait("closed") == ["a"]
    server.log.wait("the client went away")
    assert server.request("/answer", query="b").text == "hello b"


def test_over_tcp(serve, epoll_shape, notes):
    port = srv.free_port()
    server = serve("app:application", chdir=APP, env=notes.env(),
                   listen="127.0.0.1:%d" % port, **epoll_shape.options())
    with fcgi.Peer(("127.0.0.1", port)) as peer:
        peer.send(request("fcgi", "/gone", "a", fcgi.KEEP_CONN))
        notes.wait("running")
    assert notes.wait("gone") == ["a"]
    assert notes.wait("closed") == ["a"]
    assert server.log.find("ready")
