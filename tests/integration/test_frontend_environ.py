# SPDX-License-Identifier: MIT
"""What an application sees behind each file of conf/frontends: one test for each
case of tests/data/frontends/environ.tsv (see the README there)."""

import http.client
import json
import os
import re
import shutil
import socket

import pytest

from lib import shipped
from lib import server as srv
from lib.wait import TIMEOUT

APP = os.path.join(srv.APPS, "frontends", "seen.py")
TABLE = os.path.join(srv.TOP, "tests", "data", "frontends", "environ.tsv")
HOST = "www.example.org"

# case: (method, target, header lines, body). {mount}, {index} and {port} are
# filled in.
CASES = {
    "plain": ("GET", "{mount}/x/y?q=1&r=%2F%20+z", (), None),
    "index": ("GET", "{mount}{index}", (), None),
    "slash": ("GET", "{mount}/", (), None),
    "encoded": ("GET", "{mount}/a%20b/%E2%82%AC/x+y/100%25", (), None),
    "utf8": ("GET", "{mount}/\xe2\x82\xac", (), None),
    "invalid": ("GET", "{mount}/%FF/%C3%28", (), None),
    "encoded-slash": ("GET", "{mount}/a%2Fb", (), None),
    "double-slash": ("GET", "{mount}/a//b", (), None),
    "dots": ("GET", "{mount}/a/../b/./c", (), None),
    "empty-query": ("GET", "{mount}/x?", (), None),
    "absolute": ("GET", "http://www.example.org:{port}{mount}/x?q=1", (),
                 None),
    "outside": ("GET", "/application/x", (), None),
    "post": ("POST", "{mount}/x", ("Content-Type: text/x-own",
                                   "Content-Length: 7"), b"content"),
    "post-empty": ("POST", "{mount}/x", ("Content-Length: 0",), b""),
    "chunked": ("POST", "{mount}/x", ("Content-Type: text/x-own",
                                      "Transfer-Encoding: chunked"),
                b"3\r\ncon\r\n4\r\ntent\r\n0\r\n\r\n"),
    "put": ("PUT", "{mount}/x", ("Content-Type: text/x-own",
                                 "Content-Length: 7"), b"content"),
    "head": ("HEAD", "{mount}/x", (), None),
    "delete": ("DELETE", "{mount}/x", (), None),
    "propfind": ("PROPFIND", "{mount}/x", (), None),
    "headers": ("GET", "{mount}/x", (
        "X-Twice: 1", "X-Twice: 2", "X-High: caf\xe9", "X-Empty:",
        "X_Under: u", "Cookie: a=1", "Cookie: b=2", "Proxy: evil:80",
        "Authorization: Basic dTpw", "Content_Length: 5",
        "Script-Name: /evil", "Https: on"), None),
    "forged": ("GET", "{mount}/x", ("X-User: a", "X_User: b"), None),
    "http10": ("GET", "{mount}/x", None, None),
}


def read_table():
    """{(case, variable): {"expected": text, group: text}}"""
    with open(TABLE) as f:
        lines = [line.rstrip("\n").split("\t") for line in f]
    names = lines[0]
    return {(row[0], row[1]): dict(zip(names[2:], row[2:]))
            for row in lines[1:]}


ROWS = read_table()
BROKEN = set()


def expected(way, case, variable):
    """The cell, or what is expected everywhere where it has "="."""
    cells = ROWS[case, variable]
    cell = cells[way.group]
    return cells["expected"] if cell == "=" else cell


def cases(way):
    """The cases of one file, in the order of the table."""
    found = list(dict.fromkeys(case for case, _ in ROWS))
    return [c for c in found if c != "outside" or way.mount]


class Pools:
    """The application at the root and below /app, on a unix and a TCP socket
    each; started when a file asks for it."""

    def __init__(self):
        self.folder = srv.temp_dir()
        self.made = {}

    def get(self, way):
        mount = way.mount
        key = mount, way.threads
        if key not in self.made:
            path = os.path.join(self.folder, "s%d" % len(self.made))
            port = srv.free_port()
            server = srv.start(
                APP, address=path, socket_mode="0666", mount=mount or None,
                listen=["unix:" + path, "127.0.0.1:%d" % port], workers=2, threads=way.threads)
            self.made[key] = server, {"/run/forebay/site.sock": path,
                                        "9000": str(port)}
        return self.made[key]

    def close(self):
        errors = []
        for server, _ in self.made.values():
            try:
                server.stop()
            except AssertionError as e:
                errors.append(e)
            finally:
                server.close()
        shutil.rmtree(self.folder, ignore_errors=True)
        if errors:
            raise errors[0]


@pytest.fixture(scope="module")
def pools():
    found = Pools()
    yield found
    found.close()


class Running:
    """A front end that runs."""

    def __init__(self, way, pools):
        self.way = way
        self.server, backends = pools.get(way)
        self.server.begin_test()
        self.web = way(backends).start()

    def fill(self, text):
        mount = self.way.mount
        return text.replace("{mount}", mount).replace(
            "{index}", "" if mount else "/").replace(
            "{port}", str(self.web.port))

    def talk(self, case):
        """(status, environ or None)"""
        method, target, headers, body = CASES[case]
        if headers is None:
            lines = ["%s %s HTTP/1.0" % (method, self.fill(target))]
        else:
            lines = ["%s %s HTTP/1.1" % (method, self.fill(target)),
                     "Host: %s:%d" % (HOST, self.web.port),
                     "Connection: close", *headers]
        data = "\r\n".join(lines + ["", ""]).encode("latin-1")
        with socket.create_connection(("127.0.0.1", self.web.port),
                                      4 * TIMEOUT) as s:
            s.sendall(data + (body or b""))
            answer = http.client.HTTPResponse(s, method=method)
            answer.begin()
            text = answer.read()
        if answer.status == 200 and method != "HEAD":
            return answer.status, json.loads(text)
        return answer.status, None

    def close(self):
        try:
            self.web.stop()
            self.server.audit_running()
            # Nothing looks misconfigured but what a case does on purpose.
            odd = self.server.log.find("sends SCRIPT_NAME.*docs/frontends")
            odd = [n for n in odd if "is answered with 404" not in n
                   and not (self.way.whole and "nothing has to be" in n)]
            assert not odd
        finally:
            self.web.close()


@pytest.fixture(scope="module")
def running(request, pools):
    way = request.param
    why = way.why_not()
    if why:
        pytest.skip(why)
    # One that does not start must not be tried again for each cell.
    assert way not in BROKEN, "%s did not start" % way.file
    BROKEN.add(way)
    found = Running(way, pools)
    BROKEN.discard(way)
    yield found
    found.close()


def matches(value, want):
    if want == "{absent}":
        return value is None
    if want == "{none}":
        return value in (None, "", "0")
    if want.startswith("{maybe}"):      # versions differ
        return value in (None, want[len("{maybe}"):])
    if want == "{some}":
        return bool(value)
    if want == "{client}":
        return value is not None and re.fullmatch(r"[1-9]\d{0,4}", value)
    if want == "{any}":
        return True
    return value == want.encode("latin-1").decode("unicode_escape")


@pytest.mark.parametrize(
    "running,case",
    [(way, case) for way in shipped.WAYS for case in cases(way)],
    indirect=["running"],
    ids=lambda v: v.file if isinstance(v, type) else v)
def test_environ(running, case):
    status, found = running.talk(case)
    want = {variable: running.fill(expected(running.way, case, variable))
            for c, variable in ROWS if c == case}
    assert str(status) == want.pop("status"), running.web.log()
    if found is None:
        return
    found = {k: str(v) if isinstance(v, bool) else v
             for k, v in found.items()}
    wrong = {k: (found.get(k), v) for k, v in want.items()
             if not matches(found.get(k), v)}
    assert not wrong, "{variable: (found, wanted)}: %r" % wrong
    for name in ("HTTP_PROXY", "HTTP_CONTENT_LENGTH", "HTTP_CONTENT_TYPE",
                 "HTTP_TRANSFER_ENCODING"):
        assert name not in found
