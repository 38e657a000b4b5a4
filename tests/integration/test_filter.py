# SPDX-License-Identifier: MIT
"""The FastCGI role of a filter (FastCGI 1.0, section 6.4): forebay.data."""

import errno
import hashlib
import os

import pytest

from conftest import Shape
from lib import fcgi
from lib import server as srv

CHECKLIST = os.path.join(srv.APPS, "checklist")


class Filter:
    """A connection on which filters are asked, one after the other."""

    def __init__(self, wire, peer):
        self.wire, self.peer = wire, peer

    def params(self, how="", body=b"in", length=None, case="filter_data",
               **extra):
        if length is not None:
            extra["FCGI_DATA_LENGTH"] = str(length)
        return self.wire.params(case, method="POST", body=body, query=how,
                                extra=extra)

    def send(self, data, how="", body=b"in", size=65535, flags=fcgi.KEEP_CONN,
             **more):
        self.peer.send(fcgi.encode(
            self.params(how, body, **more), body, role=fcgi.FILTER,
            flags=flags, data=data, size=size, padding=3))

    def __call__(self, *args, **how):
        self.send(*args, **how)
        return self.peer.answer(keep=True).text

    def goes_on(self):
        """The connection is in step: the next requests are intact."""
        data = b"x" * 70_000
        assert self(data, length=len(data)) == "2 70000 " + hashlib.sha1(
            data).hexdigest()
        self.wire.send(self.peer, "hello", flags=fcgi.KEEP_CONN)
        assert self.peer.answer(keep=True).text == "hello"


@pytest.fixture
def filters(wire):
    with wire.peer() as peer:
        yield Filter(wire, peer)


@pytest.mark.parametrize("size", [1, 7, 1000, 65535])
@pytest.mark.parametrize("with_length", [True, False])
def test_filter_reads_its_data(filters, size, with_length):
    data = os.urandom(min(200_000, size * 3000))
    for body in (b"", b"line\nmore", b"b" * 100_000):
        assert filters(data, body=body, size=size,
                       length=len(data) if with_length else None) == (
            "%d %d %s" % (len(body), len(data),
                          hashlib.sha1(data).hexdigest()))
    filters.goes_on()


def test_filter_data_without_a_byte(filters):
    for length in (0, None):
        assert filters(b"", length=length).startswith("2 0 ")
    filters.goes_on()


def test_filter_data_ends_at_its_length(filters):
    assert filters(b"abcdef", length=4) == "2 4 " + hashlib.sha1(
        b"abcd").hexdigest()
    filters.goes_on()


def test_filter_reads_lines_and_pieces(filters):
    data = b"one\ntwo\n\nend"
    for size in (1, 65535):
        assert filters(data, "lines", size=size) == "one\n|two\n|\n|end"
        assert filters(data, "bytes", size=size, TEST_SIZE="6") == "one\ntw"
    filters.goes_on()


@pytest.mark.parametrize("how, answer", [("unread", "unread"),
                                         ("part", "ddddd")])
@pytest.mark.parametrize("bytes_", [100, 3_000_000])
def test_filter_data_that_is_not_read(filters, how, answer, bytes_):
    """Also with an unread body, and on a connection that is not kept."""
    for body in (b"", b"b" * 100_000):
        assert filters(b"d" * bytes_, how, body=body,
                       length=bytes_) == answer
    filters.goes_on()
    with filters.wire.peer() as peer:
        Filter(filters.wire, peer).send(b"d" * bytes_, how, flags=0)
        assert peer.answer().text == answer


def test_filter_that_drops_its_body(filters):
    for body in (b"b", b"b" * 300_000):
        assert filters(b"data", "dropped", body=body) == (
            "data: the rest of the request body was dropped when forebay.data "
            "was read")
    assert filters(b"data", "dropped", body=b"") == "data: "
    filters.goes_on()


def test_filter_answers_while_it_reads(filters):
    data = os.urandom(5_000_000)
    filters.send(data, "echo", length=len(data))
    assert filters.peer.answer(keep=True).body == data
    filters.goes_on()


@pytest.mark.parametrize("bytes_", [500_000, 3_000_000])
def test_filter_writes_much_before_it_reads(filters, bytes_):
    """What comes of the data meanwhile is kept for it, up to a limit; more
    waits."""
    data = b"d" * bytes_
    filters.send(data, "large", length=len(data))
    assert filters.peer.answer(keep=True).body == (
        b"y" * 8_000_000 + b"%d" % bytes_)
    filters.goes_on()


def test_filter_data_cut_short(filters):
    """FastCGI 1.0, section 6.4: its length is to be compared."""
    assert filters(b"abc", length=5, case="filter_caught") == (
        "%d [Errno %d] FCGI_DATA ended before FCGI_DATA_LENGTH" % (
            (errno.EPROTO,) * 2))
    filters.send(b"abc", length=10 ** 15)
    assert filters.peer.answer(keep=True).status == 400
    filters.wire.log("FCGI_DATA ended 2 bytes before FCGI_DATA_LENGTH")
    filters.wire.server.errors_expected = True
    filters.goes_on()


def begin_filter(filters, **how):
    """A filter that has some of its data."""
    filters.peer.send(fcgi.encode(
        filters.params(**how), b"in", role=fcgi.FILTER, flags=fcgi.KEEP_CONN)
        + fcgi.record(fcgi.DATA, b"some of it"))


def test_filter_is_aborted_within_its_data(filters):
    begin_filter(filters, how="echo")
    filters.peer.send(fcgi.record(fcgi.DATA, b"x" * 50_000))
    filters.peer.until(b"x")
    filters.peer.send(fcgi.record(fcgi.ABORT))
    answer = filters.peer.answer(keep=True)
    assert answer.end is not None
    filters.wire.server.errors_expected = True
    filters.goes_on()


def test_filter_whose_front_end_goes(filters):
    begin_filter(filters)
    filters.peer.close()
    assert filters.wire("hello").text == "hello"
    filters.wire.server.errors_expected = True


def test_nothing_begins_beside_a_filter(filters):
    begin_filter(filters)
    filters.wire.send(filters.peer, "hello", id_=2, flags=fcgi.KEEP_CONN)
    assert filters.peer.answer(2, keep=True).end[1] == fcgi.CANT_MPX_CONN
    filters.peer.send(fcgi.record(fcgi.DATA))
    assert filters.peer.answer(keep=True).text.startswith("2 10 ")
    filters.wire.server.errors_expected = True
    filters.goes_on()


def test_libfcgi_has_no_data(serve):
    shape = Shape("prefork", "libfcgi")
    server = serve("app:application", chdir=CHECKLIST, **shape.options())
    with server.peer() as peer:
        for _ in range(2):
            params = fcgi.params_for(method="POST", body=b"in", extra={
                "TEST_CASE": "filter_caught", "FCGI_DATA_LENGTH": "4"})
            peer.send(fcgi.encode(params, b"in", role=fcgi.FILTER,
                                  flags=fcgi.KEEP_CONN, data=b"data"))
            assert peer.answer(keep=True).text.startswith(
                "%d " % errno.EOPNOTSUPP)
    server.errors_expected = True
