# SPDX-License-Identifier: MIT
"""Files that the front end sends itself (sendfile_header), by real ones."""

import os
from urllib.parse import quote

import pytest

from lib import frontends as fe
from lib import server as srv

APP = os.path.join(srv.APPS, "mux")
NAMES = ["plain.txt", "with space.txt", "per%cent.txt", "\u00e4\u20ac.txt"]


@pytest.fixture
def files(notes):
    """A folder with files that front ends can read."""
    folder = os.path.join(notes.dir, "files")
    os.mkdir(folder)
    for name in NAMES:
        with open(os.path.join(folder, name), "wb") as f:
            f.write(name.encode() * 20000)
    return folder


def serve_files(serve, notes, **options):
    return serve("app:application", chdir=APP, env=notes.env(),
                 workers=1, **options)


def uri(path):
    return "/file?" + quote(path, safe="/")


class NginxAccel(fe.Nginx):
    def settings(self):
        return dict(super().settings(), EXTRA="location /protected/ {"
                    " internal; alias %s/; }" % self.extra["FILES"])


class LighttpdXSendfile(fe.Lighttpd):
    def settings(self):
        return dict(super().settings(), OPTIONS=',"x-sendfile" => "enable",'
                    '"x-sendfile-docroot" => ("%s")' % self.extra["FILES"])


class ApacheXSendfile(fe.Apache):
    modules = fe.Apache.modules + ("xsendfile",)

    def proxy(self):
        return super().proxy() + '\nXSendFile on\nXSendFilePath "%s"' % (
            self.extra["FILES"])


KINDS = [(NginxAccel, "X-Accel-Redirect", True),
         (LighttpdXSendfile, "X-Sendfile", False),
         (LighttpdXSendfile, "X-LIGHTTPD-send-file", False),
         (ApacheXSendfile, "X-Sendfile", False)]


@pytest.mark.parametrize("kind,header,mapped", KINDS, ids=[
    "%s-%s" % (k.__name__, h) for k, h, _ in KINDS])
def test_front_ends_send_it(serve, notes, files, front, kind, header, mapped):
    server = serve_files(serve, notes, sendfile_header=header, sendfile_map=[
        files + "=/protected"] if mapped else None)
    web = front(kind, server.address, FILES=files)
    for name in NAMES:
        path = os.path.join(files, name)
        status, headers, body = web.request(uri(path))
        assert (status, body) == (200, name.encode() * 20000), name
        assert header not in headers
    # It was not we who sent it.
    answer = server.request("/file", query=os.path.join(files, NAMES[0]))
    assert answer.body == b"" and answer.header("Content-Length") is None
    assert answer.header(header)


def ask(server, path, **how):
    return server.request("/file", query=quote(path), **how)


def test_the_value(serve, notes, files):
    """The longest path of the map counts, whole segments only; the real name
    of the file, without links."""
    link = os.path.join(notes.dir, "link")
    os.symlink(files, link)
    inner = os.path.join(files, "in")
    os.mkdir(inner)
    for path in (os.path.join(inner, "x"), files + "2"):
        with open(path, "w") as f:
            f.write("content")
    server = serve_files(serve, notes, sendfile_header="X-Accel-Redirect",
                         sendfile_map=[files + "/=/a/", inner + "=/b%2F c"])

    def value(path):
        return ask(server, path).header("X-Accel-Redirect")
    assert value(os.path.join(files, "plain.txt")) == "/a/plain.txt"
    assert value(os.path.join(link, "plain.txt")) == "/a/plain.txt"
    assert value(os.path.join(files, NAMES[1])) == "/a/with%20space.txt"
    assert value(os.path.join(files, NAMES[2])) == "/a/per%25cent.txt"
    assert value(os.path.join(inner, "x")) == "/b%252F%20c/x"
    # Not below a path of the map: sent by ourselves.
    answer = ask(server, files + "2")
    assert answer.header("X-Accel-Redirect") is None
    assert answer.body == b"content"


def test_what_is_sent_by_ourselves(serve, notes, files):
    """HEAD; a name that front ends do not agree upon; the application has read
    some of it; it has no name any more."""
    server = serve_files(serve, notes, sendfile_header="X-Sendfile")
    path = os.path.join(files, "plain.txt")
    answer = ask(server, path, method="HEAD")
    assert answer.header("X-Sendfile") is None and answer.body == b""
    answer = ask(server, os.path.join(files, NAMES[2]))
    assert answer.header("X-Sendfile") is None
    assert answer.body == NAMES[2].encode() * 20000
    for what in ("file_rest", "file_unnamed"):
        answer = server.request("/" + what, query=path)
        assert answer.header("X-Sendfile") is None
    assert answer.body == b"unnamed"


@pytest.mark.parametrize("options,words", [
    ({"sendfile_header": "X-Accel-Redirect"}, "needs sendfile_map"),
    ({"sendfile_map": "/a=/b"}, "says nothing without"),
    ({"sendfile_header": "X-Sendfile", "sendfile_map": "/a"}, "/path=/target"),
    ({"sendfile_header": "X-Other"}, "X-Accel-Redirect")])
def test_settings(fails, options, words):
    code, text = fails("app:application", chdir=APP, **options)
    assert code != 0 and words in text
