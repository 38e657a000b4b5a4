# SPDX-License-Identifier: MIT
"""A FastCGI and SCGI client that writes the bytes itself.

It is independent of the server's own code on purpose, and lets a test build
anything: odd ids, padding, split records, missing or early ends, garbage.
"""

import select
import socket
import struct
import time

from .wait import TIMEOUT

BEGIN, ABORT, END, PARAMS, STDIN, STDOUT, STDERR, DATA = range(1, 9)
GET_VALUES, GET_VALUES_RESULT, UNKNOWN_TYPE = 9, 10, 11
RESPONDER, AUTHORIZER, FILTER = 1, 2, 3
KEEP_CONN = 1
REQUEST_COMPLETE, CANT_MPX_CONN, OVERLOADED, UNKNOWN_ROLE = range(4)


def _bytes(value):
    return value if isinstance(value, bytes) else str(value).encode("latin-1")


def record(type_, content=b"", id_=1, padding=0, version=1):
    return struct.pack("!BBHHBB", version, type_, id_, len(content), padding,
                       0) + content + b"\0" * padding


def begin(role=RESPONDER, flags=0, id_=1, padding=0):
    return record(BEGIN, struct.pack("!HB5x", role, flags), id_, padding)


def length(n, long=False):
    return struct.pack("!I", n | 0x80000000) if n > 127 or long else bytes([n])


def pair(name, value, long=False):
    name, value = _bytes(name), _bytes(value)
    return (length(len(name), long) + length(len(value), long) + name + value)


def pairs(params, long=False):
    items = params.items() if isinstance(params, dict) else params
    return b"".join(pair(n, v, long) for n, v in items)


def stream(type_, data, id_=1, size=65535, padding=0, end=True):
    """data as records of at most size bytes, and the empty one behind it."""
    out = [record(type_, data[i:i + size], id_, padding)
           for i in range(0, len(data), size)]
    if end:
        out.append(record(type_, b"", id_))
    return b"".join(out)


def params_for(path="/", method="GET", query="", body=None, headers=(),
               extra=(), drop=()):
    """What a front end sends for a request. extra replaces or adds, drop
    removes; both go by name."""
    if isinstance(path, str):
        path = path.encode("utf-8")
    uri = path + (b"?" + _bytes(query) if query else b"")
    params = {
        "GATEWAY_INTERFACE": "CGI/1.1",
        "SERVER_SOFTWARE": "raw/1",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "SERVER_NAME": "localhost",
        "SERVER_PORT": "8080",
        "REMOTE_ADDR": "127.0.0.1",
        "REMOTE_PORT": "40000",
        "REQUEST_METHOD": method,
        "REQUEST_URI": uri,
        "SCRIPT_NAME": "",
        "PATH_INFO": path,
        "QUERY_STRING": query,
        "HTTP_HOST": "localhost:8080",
    }
    if body is not None:
        params["CONTENT_LENGTH"] = str(len(body))
    for name, value in headers:
        params["HTTP_" + name.upper().replace("-", "_")] = value
    params.update(dict(extra))
    for name in drop:
        params.pop(name, None)
    return params


def encode(params, body=b"", id_=1, flags=0, role=RESPONDER, size=65535,
           padding=0, stdin=True, data=None, split=65535):
    """A whole request. stdin False leaves the STDIN stream out."""
    out = begin(role, flags, id_)
    out += stream(PARAMS, pairs(params), id_, split, padding)
    if stdin:
        out += stream(STDIN, body, id_, size, padding)
    if data is not None:
        out += stream(DATA, data, id_, size, padding)
    return out


def scgi(params, body=b""):
    """A whole SCGI request: CONTENT_LENGTH first, as the protocol asks."""
    params = dict(params)
    head = [("CONTENT_LENGTH", params.pop("CONTENT_LENGTH", len(body))),
            ("SCGI", "1")]
    params.pop("SCGI", None)
    block = b"".join(_bytes(n) + b"\0" + _bytes(v) + b"\0"
                     for n, v in head + list(params.items()))
    return b"%d:%s,%s" % (len(block), block, body)


class Answer:
    """What came back: for FastCGI streams and end, for SCGI the bytes."""

    def __init__(self):
        self.stdout = b""
        self.stderr = b""
        self.records = []   # (type, id, length, padding)
        self.end = None     # (appStatus, protocolStatus)
        self.closed = None  # "eof", "reset", None: still open
        self.is_scgi = False

    def _parse(self):
        head, sep, body = self.stdout.partition(b"\r\n\r\n")
        assert sep, "no header block in the answer: %r (%s)" % (
            self.stdout[:500], self)
        self._headers = []
        for line in head.split(b"\r\n"):
            name, colon, value = line.partition(b":")
            assert colon, "a header line without colon: %r" % line
            self._headers.append((name.decode("latin-1"),
                                  value.strip(b" \t").decode("latin-1")))
        return body

    @property
    def body(self):
        return self._parse()

    @property
    def text(self):
        return self.body.decode("utf-8")

    @property
    def headers(self):
        """All but Status, in order."""
        self._parse()
        return [(n, v) for n, v in self._headers if n.lower() != "status"]

    @property
    def status_line(self):
        self._parse()
        found = [v for n, v in self._headers if n.lower() == "status"]
        assert len(found) == 1, "Status headers: %r" % found
        return found[0]

    @property
    def status(self):
        return int(self.status_line.split()[0])

    def header(self, name):
        found = self.all(name)
        assert len(found) <= 1, "%s came several times: %r" % (name, found)
        return found[0] if found else None

    def all(self, name):
        return [v for n, v in self.headers if n.lower() == name.lower()]

    @property
    def complete(self):
        """Ended so that a front end takes it for a whole response."""
        if self.is_scgi:
            if self.closed != "eof":
                return False
            length_ = self.header("Content-Length")
            return length_ is None or int(length_) == len(self.body)
        return self.end is not None and self.end[1] == REQUEST_COMPLETE

    def __repr__(self):
        return "<Answer %d bytes, end %r, closed %r, stderr %r>" % (
            len(self.stdout), self.end, self.closed, self.stderr[:200])


class Peer:
    """One connection to the server. While it sends, it takes in what arrives,
    so a server that answers early never blocks it."""

    def __init__(self, address, timeout=None, receive_buffer=None):
        self.timeout = TIMEOUT if timeout is None else timeout
        self.inbuf = bytearray()
        self.closed = None
        if isinstance(address, str):
            self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        else:
            family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
            self.sock = socket.socket(family, socket.SOCK_STREAM)
            self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if receive_buffer is not None:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF,
                                 receive_buffer)
        self.sock.settimeout(self.timeout)
        try:
            self.sock.connect(address)
        except BaseException:
            self.sock.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()

    def close(self):
        self.sock.close()

    def reset(self):
        """Close so that the other side gets a reset (TCP)."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                             struct.pack("ii", 1, 0))
        self.sock.close()

    def half_close(self):
        self.sock.shutdown(socket.SHUT_WR)

    def _poll(self, read, write, seconds):
        """(readable, writable); poll, since descriptors may be above 1023."""
        poll = select.poll()
        poll.register(self.sock, (select.POLLIN if read else 0)
                      | (select.POLLOUT if write else 0))
        events = 0
        for _, events in poll.poll(max(0, seconds) * 1000):
            pass
        gone = events & (select.POLLERR | select.POLLHUP)
        return (read and bool(events & select.POLLIN or gone),
                write and bool(events & select.POLLOUT or gone))

    def _read(self):
        try:
            data = self.sock.recv(1 << 18)
        except (ConnectionResetError, BrokenPipeError):
            self.closed = "reset"
            return
        except BlockingIOError:
            return
        if data:
            self.inbuf += data
        else:
            self.closed = "eof"

    def send(self, data, receive=True):
        """Send all; returns how many bytes went out (fewer only when the
        server closed)."""
        view, sent = memoryview(data), 0
        end = time.monotonic() + self.timeout
        self.sock.setblocking(False)
        try:
            while sent < len(view):
                r, w = self._poll(receive and self.closed is None, True,
                                  end - time.monotonic())
                if not r and not w:
                    raise AssertionError("the server takes no more bytes: %d "
                                         "of %d sent" % (sent, len(view)))
                if r:
                    self._read()
                if w:
                    try:
                        sent += self.sock.send(view[sent:sent + (1 << 18)])
                        end = time.monotonic() + self.timeout
                    except (BrokenPipeError, ConnectionResetError):
                        if self.closed is None:
                            self._read()
                        break
                    except BlockingIOError:
                        pass
        finally:
            self.sock.settimeout(self.timeout)
        return sent

    def fill(self, n):
        """Have n bytes in inbuf, or the connection closed. True: they are
        there."""
        while len(self.inbuf) < n and self.closed is None:
            try:
                self._read()
            except socket.timeout:
                raise AssertionError(
                    "nothing more arrives: %d bytes wait, %d wanted: %r"
                    % (len(self.inbuf), n, bytes(self.inbuf[:200]))) from None
        return len(self.inbuf) >= n

    def take(self, n):
        data = bytes(self.inbuf[:n])
        del self.inbuf[:n]
        return data

    def wait_closed(self):
        """Read to the end; returns "eof" or "reset". The bytes stay in
        inbuf."""
        while self.closed is None:
            self.fill(len(self.inbuf) + 1)
        return self.closed

    def is_open(self):
        """No end of file is waiting (does not block)."""
        if self.closed is not None:
            return False
        self.sock.setblocking(False)
        try:
            while self._poll(True, False, 0)[0]:
                self._read()
                if self.closed is not None:
                    return False
        finally:
            self.sock.settimeout(self.timeout)
        return True

    # FastCGI

    def record(self):
        """(type, id, content, padding length), or None at the end."""
        if not self.fill(8):
            return None
        version, type_, id_, size, padding, _ = struct.unpack(
            "!BBHHBB", bytes(self.inbuf[:8]))
        assert version == 1, "version %d in a record" % version
        if not self.fill(8 + size + padding):
            return None
        data = self.take(8 + size + padding)
        return type_, id_, data[8:8 + size], padding

    def answer(self, id_=1, keep=False):
        """One response. Without keep the connection must be closed after
        it."""
        return self.answers([id_], keep)[id_]

    def answers(self, ids, keep=False):
        """Responses of several requests on this connection; records may be
        interleaved."""
        found = {i: Answer() for i in ids}
        out = {i: [] for i in ids}
        open_ = set(ids)
        while open_:
            r = self.record()
            if r is None:
                break
            type_, id_, content, padding = r
            assert id_ in found, "a record of type %d for id %d" % (type_, id_)
            a = found[id_]
            assert a.end is None, "a record behind END_REQUEST: %r" % (r,)
            a.records.append((type_, id_, len(content), padding))
            if type_ == STDOUT:
                out[id_].append(content)
            elif type_ == STDERR:
                a.stderr += content
            elif type_ == END:
                assert len(content) == 8, "END_REQUEST of %d" % len(content)
                a.end = struct.unpack("!IB3x", content)
                open_.discard(id_)
            else:
                raise AssertionError("a record of type %d" % type_)
        for i in ids:
            found[i].stdout = b"".join(out[i])
        if not keep and self.closed is None:
            self.wait_closed()
            assert not self.inbuf, "bytes behind the answer: %r" % bytes(
                self.inbuf[:200])
        for a in found.values():
            a.closed = self.closed
        return found

    def until(self, needle, id_=1):
        """Read STDOUT records until their contents hold needle; returns all
        that was read so far. For watching a response grow."""
        got = b""
        while needle not in got:
            r = self.record()
            assert r is not None and r[0] != END, (
                "the response ended without %r: %r" % (needle, got[-500:]))
            if r[0] == STDOUT:
                got += r[2]
        return got

    # SCGI

    def scgi_answer(self):
        a = Answer()
        a.is_scgi = True
        a.closed = self.wait_closed()
        a.stdout = self.take(len(self.inbuf))
        return a


def request(address, params, body=b"", protocol="fcgi", **how):
    """One request on a connection of its own."""
    with Peer(address) as peer:
        if protocol == "scgi":
            peer.send(scgi(params, body))
            return peer.scgi_answer()
        peer.send(encode(params, body, **how))
        return peer.answer(how.get("id_", 1),
                           keep=bool(how.get("flags", 0) & KEEP_CONN))
