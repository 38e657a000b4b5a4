# SPDX-License-Identifier: MIT
"""Every request of tests/data/captures, byte for byte as a web server sent it,
to the running server. (tests/unit/test_captures.c has them cut at each offset.)
"""

import csv
import json
import os
from urllib.parse import unquote_to_bytes

import pytest

from lib import fcgi
from lib import server as srv

FOLDER = os.path.join(srv.TOP, "tests", "data", "captures")
APP = os.path.join(srv.APPS, "frontends", "replay.py")
COLUMNS = ["REQUEST_METHOD", "SCRIPT_NAME", "PATH_INFO", "QUERY_STRING",
           "SERVER_PROTOCOL"]


def read_index():
    """{file: [row of the first request, of the second one, ...]}"""
    found = {}
    with open(os.path.join(FOLDER, "index.tsv")) as f:
        for row in csv.DictReader(f, delimiter="\t", quoting=csv.QUOTE_NONE):
            found.setdefault(row["file"], []).append(row)
    return found


INDEX = read_index()


def test_every_file_is_in_the_index():
    assert {n for n in os.listdir(FOLDER) if n.endswith(".bin")} == set(INDEX)


@pytest.fixture(scope="module")
def pools(epoll_shape):
    """pools(mount, path_source): started when it is first asked for."""
    made = {}

    def get(mount, source):
        if (mount, source) not in made:
            made[mount, source] = srv.start(
                APP, mount=None if mount == "/" else mount,
                path_source=source, **epoll_shape.options(body_buffer=None))
        return made[mount, source]
    yield get
    try:
        for server in made.values():
            server.stop()
    finally:
        for server in made.values():
            server.close()


def text(field):
    return unquote_to_bytes(field).decode("latin-1")


def wanted_status(row):
    if "no segment boundary" in row["note"]:
        return 404
    if "no CGI variables" in row["note"]:
        return 500
    return 200


def check(row, answer):
    assert answer.status == wanted_status(row)
    assert answer.complete
    if answer.status != 200:
        return
    head = row["REQUEST_METHOD"] == "HEAD"
    found = json.loads(answer.header("X-Short") if head else answer.body)
    want = {c: text(row[c]) for c in COLUMNS if row[c] != "-"}
    want["wsgi.url_scheme"] = row["url_scheme"]
    if row["CONTENT_LENGTH"] not in ("", "-"):
        want["CONTENT_LENGTH"] = row["CONTENT_LENGTH"]
    elif not row["CONTENT_LENGTH"]:
        assert found.get("CONTENT_LENGTH", "") == ""
    if row["multi"]:
        want.update(json.loads(row["multi"]))
    if row["role"] == "authorizer":
        want["forebay.role"] = "authorizer"
    if "CLWRONG" not in row["note"]:
        length = int(row["body_len"])
        if row["CONTENT_LENGTH"] not in ("", "-"):
            length = min(length, int(row["CONTENT_LENGTH"]))
        want["body length"] = length
    wrong = {k: (found.get(k), v) for k, v in want.items()
             if found.get(k) != v}
    assert not wrong, "{variable: (found, wanted)}: %r" % wrong
    for name in ("HTTP_PROXY", "HTTP_CONTENT_LENGTH", "HTTP_CONTENT_TYPE",
                 "HTTP_TRANSFER_ENCODING"):
        assert name not in found


@pytest.mark.parametrize("file", sorted(INDEX))
def test_replay(pools, file):
    rows = INDEX[file]
    server = pools(rows[0]["mount"], rows[0]["path_source"])
    server.begin_test()
    with open(os.path.join(FOLDER, file), "rb") as f:
        data = f.read()
    with server.peer() as peer:
        if rows[0]["truncated"] == "yes":
            peer.send(data)     # and the web server goes away
            server.errors_expected = True
        elif rows[0]["protocol"] == "scgi":
            peer.send(data)
            check(rows[0], peer.scgi_answer())
        else:
            peer.send(data)
            for row in rows:
                check(row, peer.answer(keep=row["keep_conn"] == "1"))
    if rows[0]["truncated"] == "yes":
        params = fcgi.params_for(
            ("" if rows[0]["mount"] == "/" else rows[0]["mount"]) + "/x")
        assert fcgi.request(server.address, params).status == 200
    server.audit_running()
