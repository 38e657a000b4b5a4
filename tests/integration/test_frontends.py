# SPDX-License-Identifier: MIT
"""The integration matrix: real front ends, frameworks, processes and threads,
unix and TCP sockets; and the rows of the reports that need a front end."""

import hashlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import threading

import pytest

from lib import fcgi, proc, shipped
from lib import frontends as fe
from lib import server as srv
from lib.wait import FACTOR, wait_for

FRAMEWORKS = os.path.join(srv.APPS, "frameworks")
NEEDS = {"plain": "wsgiref", "flask": "flask", "django": "django",
         "webpy": "web", "pyramid": "pyramid"}
KINDS = ["unix", "tcp"]
CONNECTING = fe.CONNECTING + shipped.ANY


def name_of(kind):
    return kind.__name__


def need(kind):
    why = kind.why_not()
    if why:
        pytest.skip(why)


def need_framework(name):
    if name != "plain":
        found = subprocess.run([srv.base_python(), "-c",
                                "import " + NEEDS[name]],
                               stderr=subprocess.DEVNULL)
        if found.returncode != 0:
            pytest.skip("no %s for %s" % (NEEDS[name], srv.base_python()))


class Site:
    """One application behind any front end, on a unix and a TCP socket at
    once."""

    def __init__(self, shape, app, notes, **options):
        port = srv.free_port()
        self.shape = shape
        self.notes = notes
        self.folder = srv.temp_dir()
        self.addresses = {"unix": os.path.join(self.folder, "s"),
                          "tcp": ("127.0.0.1", port)}
        options.setdefault("workers", 2)
        options.setdefault("body_buffer", None)
        self.server = srv.start(
            app, chdir=FRAMEWORKS, env=notes.env(),
            address=self.addresses["unix"], socket_mode="0666",
            listen=["unix:" + self.addresses["unix"], "127.0.0.1:%d" % port],
            **shape.options(**options))

    def close(self):
        try:
            self.server.stop()
        finally:
            self.server.close()
            shutil.rmtree(self.folder, ignore_errors=True)
            self.notes.remove()


@pytest.fixture(scope="module")
def sites(epoll_shape):
    """sites(framework): one server for each, made when it is first asked
    for."""
    from conftest import Notes
    made = {}

    def get(name):
        if name not in made:
            made[name] = Site(epoll_shape, name + "_app:application", Notes())
        return made[name]
    yield get
    errors = []
    for site in made.values():
        try:
            site.close()
        except AssertionError as e:
            errors.append(e)
    if errors:
        raise errors[0]


@pytest.fixture
def site(sites):
    """The plain site, audited after the test."""
    found = sites("plain")
    found.server.begin_test()
    found.notes.forget()
    yield found
    found.server.audit_running()


@pytest.fixture
def impatient(epoll_shape):
    """A plain site that does not wait long for the rest of a body, nor for the
    front end to take the answer."""
    from conftest import Notes
    found = Site(epoll_shape, "plain_app:application", Notes(),
                 body_timeout="3s", write_timeout="3s")
    yield found
    found.server.errors_expected = True
    found.close()


@pytest.fixture
def front():
    """front(KIND, address, **values): a running front end."""
    started = []

    def start(kind, address, **values):
        need(kind)
        found = kind(address, **values)
        started.append(found)
        return found.start()
    yield start
    try:
        for found in started:
            found.stop()
    finally:
        for found in started:
            found.close()


def multipart(name, content):
    boundary = "----boundary%s" % hashlib.md5(content).hexdigest()
    head = ('--%s\r\nContent-Disposition: form-data; name="file"; '
            'filename="%s"\r\nContent-Type: application/octet-stream\r\n\r\n'
            % (boundary, name)).encode()
    return (head + content + ("\r\n--%s--\r\n" % boundary).encode(),
            "multipart/form-data; boundary=" + boundary)


def digest(content):
    return "%d %s" % (len(content), hashlib.sha256(content).hexdigest())


def visit(front, name):
    """Every page of the common small site."""
    status, headers, body = front.request("/hello")
    assert (status, body) == (200, b"hello"), front.log()
    assert headers["Content-Type"].startswith("text/plain")
    assert front.request("/hello", "HEAD")[::2] == (200, b"")
    assert front.request("/path/a%20b/%C3%A5%C3%A4/x+y")[2] == (
        "a b/\xe5\xe4/x+y".encode())
    status, _, body = front.request(
        "/form", "POST", b"b=2&a=1",
        {"Content-Type": "application/x-www-form-urlencoded"})
    assert (status, body) == (200, b"a=1 b=2")
    content = os.urandom(200_000)
    status, _, body = front.request(
        "/body", "POST", content, {"Content-Type": "application/x-own"})
    assert (status, body.decode()) == (200, digest(content))
    if name != "plain":
        data, kind = multipart("a name.bin", content)
        status, _, body = front.request("/upload", "POST", data,
                                        {"Content-Type": kind})
        assert (status, body.decode()) == (200, "a name.bin "
                                           + digest(content))
    status, _, body = front.request("/stream?500")
    assert (status, body) == (200, b"".join(b"chunk %d\n" % i
                                            for i in range(500)))
    status, headers, body = front.request("/cookies",
                                          headers={"Cookie": "c=3; d=4"})
    assert body == b"c=3; d=4"
    assert sorted(v.partition(";")[0] for v in headers.get_all(
        "Set-Cookie")) == ["a=1", "b=2"]
    status, headers, _ = front.request("/redirect")
    assert status in (302, 303)
    assert headers["Location"].endswith("/hello")
    assert front.request("/missing")[0] == 404
    for _ in range(5):
        assert front.request("/hello")[2] == b"hello"


@pytest.mark.parametrize("app", list(NEEDS))
@pytest.mark.parametrize("address", KINDS)
@pytest.mark.parametrize("kind", CONNECTING, ids=name_of)
def test_matrix(sites, front, kind, address, app):
    need(kind)
    need_framework(app)
    site = sites(app)
    site.server.begin_test()
    visit(front(kind, site.addresses[address]), app)
    # Django and others log a 404 themselves; ours has nothing to say.
    site.server.audit_running()


@pytest.mark.parametrize("app", list(NEEDS))
@pytest.mark.parametrize("kind", fe.SPAWNING, ids=name_of)
def test_matrix_spawned(front, kind, app):
    need_framework(app)
    web = front(kind, os.path.join(FRAMEWORKS, app + "_app.py"))
    visit(web, app)


@pytest.mark.parametrize("kind", CONNECTING, ids=name_of)
def test_R064_validate_and_flags(site, front, kind):
    web = front(kind, site.addresses["unix"])
    found = json.loads(web.request("/environ?x=1")[2])
    assert found["SCRIPT_NAME"] == "" and found["PATH_INFO"] == "/environ"
    assert found["QUERY_STRING"] == "x=1"
    assert found["wsgi.url_scheme"] == "http"
    assert found["wsgi.multithread"] is site.shape.threaded
    assert found["wsgi.multiprocess"] is True
    assert found["SERVER_PROTOCOL"].startswith("HTTP/1")
    assert found["SERVER_NAME"] and found["SERVER_PORT"].isdigit()
    assert found["REMOTE_ADDR"] == "127.0.0.1"
    for name in ("HTTP_CONTENT_LENGTH", "HTTP_CONTENT_TYPE", "HTTP_PROXY",
                 "HTTP_TRANSFER_ENCODING"):
        assert name not in found


# Paths

PATHS = [("/path/a%20b", b"a b"), ("/path/a+b", b"a+b"),
         ("/path/100%25", b"100%"), ("/path/%E3%82%A2", b"\xe3\x82\xa2"),
         ("/path/%C3%A5%C3%A4%C3%B6", "\xe5\xe4\xf6".encode())]


@pytest.mark.parametrize("kind", CONNECTING + [fe.ApacheMatch],
                         ids=name_of)
def test_R031_R032_paths_are_decoded_once(site, front, kind):
    web = front(kind, site.addresses["unix"])
    for target, raw in PATHS:
        status, _, body = web.request(target)
        assert (status, body) == (200, raw), target


@pytest.mark.parametrize("kind", [
    k for k in CONNECTING if k.raw_slashes], ids=name_of)
def test_R037_double_slash_stays(site, front, kind):
    web = front(kind, site.addresses["unix"])
    assert web.request("/path//x//y")[2] == b"/x//y"


MOUNTS = {
    fe.Nginx: {"EXTRA": ""},
    fe.NginxScgi: {},
    fe.Lighttpd: {"PREFIX": "/app"},
    fe.LighttpdScgi: {"PREFIX": "/app"},
    fe.Apache: {},
    fe.ApacheScgi: {},
    fe.ApacheHandler: {},
    fe.Haproxy: {},
}


@pytest.fixture(scope="module")
def mounted(epoll_shape):
    from conftest import Notes
    need_framework("flask")
    made = Site(epoll_shape, "mounted_app:application", Notes(), mount="/app")
    yield made
    made.close()


@pytest.mark.parametrize("kind", list(MOUNTS), ids=name_of)
@pytest.mark.parametrize("root_fix", [False, True])
def test_R035_mounted_below_app(mounted, front, kind, root_fix):
    values = dict(MOUNTS[kind])
    if root_fix:
        if not issubclass(kind, fe.Lighttpd):
            pytest.skip("fix-root-scriptname is lighttpd's")
        values = {"PREFIX": "/",
                  "OPTIONS": ', "fix-root-scriptname" => "enable"'}
    mounted.server.begin_test()
    web = front(kind, mounted.addresses["unix"], **values)
    for target, path in (("/app/x/y", "/x/y"), ("/app/", "/"),
                         ("/app/a%20b", "/a b")):
        status, _, body = web.request(target)
        assert status == 200, (target, body)
        found = json.loads(body)
        assert (found["script"], found["path"]) == ("/app", path)
        assert found["url_for"] == "/app/other"
    # At the mount without a slash the framework redirects, or serves it.
    assert web.request("/app")[0] in (200, 301, 302, 308, 404)
    status, _, _ = web.request("/application/x")
    assert status == 404
    mounted.server.errors_expected = True
    mounted.server.audit_running()


# Bodies

@pytest.mark.parametrize("kind", [
    k for k in CONNECTING if k.chunked], ids=name_of)
@pytest.mark.parametrize("app", ["plain", "flask"])
def test_R041_chunked_uploads(sites, front, kind, app):
    if app != "plain" and kind not in (fe.NginxUnbuffered, fe.Apache):
        pytest.skip("flask: where the length is not known")
    need_framework(app)
    site = sites(app)
    site.server.begin_test()
    web = front(kind, site.addresses["unix"])
    content = os.urandom(300_000)

    def pieces():
        for i in range(0, len(content), 7000):
            yield content[i:i + 7000]
    # http.client sends what has no length in chunks.
    status, _, body = web.request("/body", "POST", pieces(), {
        "Content-Type": "application/x-own"})
    assert (status, body.decode()) == (200, digest(content))
    # A second one: whatever connection it uses is in step.
    assert web.request("/hello")[2] == b"hello"
    site.server.audit_running()


@pytest.mark.parametrize("kind", CONNECTING + fe.SPAWNING, ids=name_of)
@pytest.mark.parametrize("address", KINDS)
def test_R024_upload_of_10_megabytes(sites, front, kind, address):
    site = sites("plain")
    site.server.begin_test()
    if kind.spawns:
        if address == "tcp":
            pytest.skip("spawned on a socket of the front end's choice")
        where = os.path.join(FRAMEWORKS, "plain_app.py")
    else:
        where = site.addresses[address]
    web = front(kind, where)
    content = os.urandom(1 << 20) * 10
    status, _, body = web.request("/body", "POST", content,
                                  {"Content-Type": "application/x-own"})
    assert (status, body.decode()) == (200, digest(content)), web.log()
    site.server.audit_running()


@pytest.mark.big
@pytest.mark.parametrize("kind", CONNECTING, ids=name_of)
def test_upload_of_100_megabytes(site, front, kind):
    """SHA-256 in the application, flat memory in the workers."""
    web = front(kind, site.addresses["unix"])
    piece = os.urandom(1 << 20)
    h = hashlib.sha256()
    for _ in range(100):
        h.update(piece)
    before = {p: proc.rss_bytes(p) for p in site.server.workers()}
    name = os.path.join(web.run, "upload")
    with open(name, "wb") as f:
        for _ in range(100):
            f.write(piece)
    with open(name, "rb") as f:
        status, _, body = web.request("/body", "POST", f, {
            "Content-Type": "application/x-own",
            "Content-Length": str(100 << 20)})
    assert status == 200, web.log()
    assert body.decode() == "%d %s" % (100 << 20, h.hexdigest())
    for pid, rss in before.items():
        assert proc.rss_bytes(pid) - rss < 32 << 20


@pytest.mark.big
@pytest.mark.parametrize("kind", [
    fe.Nginx, fe.NginxKept, fe.NginxUnbuffered, fe.NginxScgi,
    fe.LighttpdStreaming, fe.Apache, fe.ApacheScgi, fe.Haproxy], ids=name_of)
def test_download_of_a_gigabyte(site, front, kind):
    values = {}
    if issubclass(kind, fe.Nginx):
        # By default nginx puts a gigabyte that the client has not taken yet
        # into a file, and cuts the answer there.
        module = kind.module
        values["EXTRA"] = "%s_max_temp_file_size 0;" % module
    web = front(kind, site.addresses["unix"], **values)
    before = {p: proc.rss_bytes(p) for p in site.server.workers()}
    connection = web.connect()
    connection.request("GET", "/big?1024")
    answer = connection.getresponse()
    assert answer.status == 200
    total, first = 0, None
    while True:
        data = answer.read(1 << 20)
        if not data:
            break
        first = first or data[:512]
        total += len(data)
    connection.close()
    assert total == 1 << 30
    assert first == bytes(range(256)) * 2
    for pid, rss in before.items():
        assert proc.rss_bytes(pid) - rss < 32 << 20


@pytest.mark.parametrize("kind", [
    fe.Nginx, fe.NginxKept, fe.NginxUnbuffered, fe.NginxScgi, fe.Lighttpd,
    fe.LighttpdStreaming, fe.Apache, fe.ApacheReuse, fe.ApacheScgi,
    fe.Haproxy, *shipped.ANY], ids=name_of)
def test_R005_answer_before_the_body_is_read(impatient, front, kind):
    site = impatient
    web = front(kind, site.addresses["tcp"])
    content = b"u" * (1 << 20)
    errors = []

    def client():
        try:
            for _ in range(5):
                found = subprocess.run(
                    ["curl", "-s", "-S", "-w", "\n%{http_code}",
                     "--data-binary", "@-", "-H", "Expect:",
                     "http://127.0.0.1:%d/early" % web.port],
                    input=content, stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE)
                if found.stdout != b"too large, and not read\n413":
                    errors.append((found.stdout, found.stderr))
        except BaseException as e:
            errors.append(e)
    if shutil.which("curl") is None:
        pytest.skip("no curl")
    threads = [threading.Thread(target=client) for _ in range(20)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not errors, (len(errors), errors[:3])


@pytest.mark.parametrize("kind", [
    fe.Nginx, fe.NginxUnbuffered, fe.LighttpdStreaming, fe.Apache,
    fe.ApacheScgi, fe.Haproxy, fe.ApacheFcgid], ids=name_of)
def test_large_answers_while_the_body_is_not_read(impatient, front, kind):
    """Some front ends read nothing before they have written the whole body."""
    web = front(kind, "--write-timeout 3s " + os.path.join(
        FRAMEWORKS, "plain_app.py") if kind.spawns
        else impatient.addresses["unix"])
    status, _, body = web.request("/big?3", "POST", b"u" * (5 << 20),
                                  {"Content-Type": "application/x-own"})
    assert (status, len(body)) == (200, 3 << 20), web.log()
    assert web.request("/hello")[2] == b"hello"


# Answers

@pytest.mark.parametrize("kind", [
    k for k in CONNECTING if k.streams], ids=name_of)
def test_each_piece_is_passed_on_at_once(site, front, kind):
    """G6 through a front end that does not hold answers back."""
    web = front(kind, site.addresses["unix"])
    connection = web.connect()
    connection.request("GET", "/gated")
    answer = connection.getresponse()
    assert answer.read1(100) == b"first"
    with open(os.path.join(site.notes.dir, "gate"), "w"):
        pass
    assert answer.read() == b"second"
    connection.close()


@pytest.mark.parametrize("kind", CONNECTING + fe.SPAWNING, ids=name_of)
def test_R014_lines_in_the_error_log_do_not_spoil_bodies(sites, front, kind):
    site = sites("plain")
    site.server.begin_test()
    web = front(kind, os.path.join(FRAMEWORKS, "plain_app.py") if kind.spawns
                else site.addresses["unix"])
    status, _, body = web.request("/talk")
    assert status == 200
    assert body == b"".join(b"%d\n" % i for i in range(200))
    if not kind.spawns:
        site.server.log.wait("talk 199$")
    site.server.audit_running()


def test_R026_headers_beyond_the_front_ends_buffer(site, front):
    """40 KB of Set-Cookie: nginx with its default buffers gives 502, with
    larger ones it passes them. They are sent whole."""
    web = front(fe.Nginx, site.addresses["unix"])
    assert web.request("/many_cookies")[0] == 502
    site.server.log.wait(r"/many_cookies: the response has 4\d{4} bytes of "
                         r"headers;.*fastcgi_buffer_size", start=0)
    web = front(fe.Nginx, site.addresses["unix"],
                EXTRA="fastcgi_buffer_size 128k; fastcgi_buffers 8 128k; "
                      "fastcgi_busy_buffers_size 256k;")
    status, headers, body = web.request("/many_cookies")
    assert (status, body) == (200, b"many")
    assert len(headers.get_all("Set-Cookie")) == 40
    site.server.errors_expected = True


def test_R015_60_kilobytes_of_cookies(site, front):
    web = front(fe.Nginx, site.addresses["unix"])
    cookie = "; ".join("c%d=%s" % (i, "x" * 1000) for i in range(60))
    connection = web.connect()
    connection.putrequest("GET", "/cookies")
    for part in re.findall(r".{1,30000}(?:; |$)", cookie):
        connection.putheader("Cookie", part.strip("; "))
    connection.endheaders()
    answer = connection.getresponse()
    assert answer.status == 200
    assert answer.read().decode() == cookie
    connection.close()


@pytest.mark.parametrize("kind", [
    fe.Nginx, fe.NginxKept, fe.NginxScgi, fe.Lighttpd, fe.LighttpdStreaming,
    fe.Apache, fe.ApacheReuse, fe.ApacheScgi, fe.Haproxy, *shipped.ANY],
    ids=name_of)
@pytest.mark.parametrize("how", ["raise", "die"])
def test_R055_answers_that_break_off(site, front, kind, how):
    """Where the front end can tell, the client sees it; everywhere the next
    request is served."""
    web = front(kind, site.addresses["unix"])
    if kind.streams or kind.cuts:
        text = b""
        with pytest.raises((Exception,)):
            connection = web.connect()
            connection.request("GET", "/half?" + how)
            answer = connection.getresponse()
            while True:
                data = answer.read1(1000)
                if not data:
                    break
                text += data
            if not kind.cuts:
                raise AssertionError("this front end hides it")
        assert text in (b"", b"one ", b"one two ", b"one two three ")
    else:
        web.request("/half?" + how)
    site.server.errors_expected = True
    site.server.wait_workers(2)
    for _ in range(4):
        assert web.request("/hello")[2] == b"hello"


@pytest.mark.parametrize("kind", [fe.NginxUnbuffered, fe.LighttpdStreaming,
                                  fe.ApacheFlush, fe.ApacheScgi,
                                  fe.NginxScgi, fe.Haproxy, *shipped.ANY],
                         ids=name_of)
def test_R059_clients_that_go_away(site, front, kind):
    """The generator ends, quietly, and no worker stays busy."""
    web = front(kind, site.addresses["unix"])
    count = 8
    connections = []
    for _ in range(min(count, 2 * site.shape.threads)):
        s = socket.create_connection(("127.0.0.1", web.port))
        s.sendall(b"GET /ticks HTTP/1.1\r\nHost: x\r\n\r\n")
        connections.append(s)
    for s in connections:
        if kind.streams or kind is fe.ApacheScgi:
            assert s.recv(100)
    for s in connections:
        s.close()
    site.notes.wait("ticks", len(connections))
    for _ in range(4):
        assert web.request("/hello")[2] == b"hello"
    assert "Traceback" not in site.server.log.since_mark()


@pytest.mark.parametrize("kind", [fe.NginxUnbuffered, fe.Apache,
                                  fe.LighttpdStreaming, fe.Haproxy,
                                  *shipped.ANY],
                         ids=name_of)
def test_R020_slow_clients_do_not_stop_the_others(site, front, kind):
    """More slow uploads than workers and threads; the front end passes on
    each byte."""
    web = front(kind, site.addresses["unix"])
    slow = []
    try:
        for _ in range(3 * 2 * site.shape.threads):
            s = socket.create_connection(("127.0.0.1", web.port))
            s.sendall(b"POST /body HTTP/1.1\r\nHost: x\r\nContent-Length: 50"
                      b"\r\nContent-Type: a/b\r\n\r\n" + b"0123456789")
            slow.append(s)
        for _ in range(20):
            assert web.request("/hello")[2] == b"hello"
        for n in range(4):
            for s in slow:
                s.sendall(b"0123456789")
        want = digest(b"0123456789" * 5).encode()
        for s in slow:
            s.settimeout(30 * FACTOR)
            got = b""
            while want not in got:
                data = s.recv(4096)
                assert data, got
                got += data
    finally:
        for s in slow:
            s.close()


# Load

def ab(url, *words):
    if shutil.which("ab") is None:
        pytest.skip("no ab")
    found = subprocess.run(["ab", "-q", "-s", "120", *words, url],
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    text = found.stdout.decode()
    assert found.returncode == 0, text
    complete = int(re.search(r"Complete requests: +(\d+)", text).group(1))
    failed = int(re.search(r"Failed requests: +(\d+)", text).group(1))
    assert failed == 0, text
    assert "Non-2xx" not in text, text
    return complete


@pytest.mark.parametrize("kind", [
    fe.Nginx, fe.NginxKept, fe.NginxScgi, fe.Lighttpd, fe.LighttpdScgi,
    fe.ApacheReuse, fe.Haproxy, *shipped.ANY], ids=name_of)
@pytest.mark.parametrize("keep", [False, True])
def test_thousand_concurrent_connections(site, front, kind, keep):
    web = front(kind, site.addresses["unix"])
    words = ["-n", "6000", "-c", "1000"] + (["-k"] if keep else [])
    assert ab("http://127.0.0.1:%d/hello" % web.port, *words) == 6000
    assert web.request("/hello")[2] == b"hello"


def test_R001_kept_upstream_connections_pin_no_worker(site, front):
    """nginx keeps more connections than there are workers."""
    web = front(fe.NginxKept, site.addresses["unix"],
                KEEPALIVE="keepalive 64;")
    assert ab("http://127.0.0.1:%d/hello" % web.port, "-n", "5000", "-c",
              "64", "-k") == 5000
    other = front(fe.Lighttpd, site.addresses["unix"])
    for _ in range(5):
        assert other.request("/hello")[2] == b"hello"
        assert web.request("/hello")[2] == b"hello"


# Apache and headers

@pytest.mark.parametrize("kind", [fe.ApacheHandler, fe.ApacheFcgid],
                         ids=name_of)
def test_R065_authorization(site, front, kind):
    """CGIPassAuth On."""
    web = front(kind, os.path.join(FRAMEWORKS, "plain_app.py") if kind.spawns
                else site.addresses["unix"])
    for value in ("Basic dTpw", "Bearer abc.def"):
        found = json.loads(web.request(
            "/environ", headers={"Authorization": value})[2])
        assert found["HTTP_AUTHORIZATION"] == value


@pytest.mark.parametrize("enabled", [False, True])
def test_R065_authorization_of_a_rewritten_request(front, enabled):
    """A rule in a folder saves the header; the request that it makes has it
    under another name."""
    words = "--path-source request_uri " + (
        "--redirect-authorization " if enabled else "")
    web = front(fe.ApacheRewritten,
                words + os.path.join(FRAMEWORKS, "plain_app.py"))
    found = json.loads(web.request(
        "/environ", headers={"Authorization": "Basic dTpw"})[2])
    assert found["REDIRECT_HTTP_AUTHORIZATION"] == "Basic dTpw"
    assert found.get("HTTP_AUTHORIZATION") == (
        "Basic dTpw" if enabled else None)
    found = json.loads(web.request("/environ")[2])
    assert "HTTP_AUTHORIZATION" not in found


@pytest.mark.parametrize("kind", [fe.Nginx, fe.Haproxy, fe.Lighttpd,
                                  fe.Apache, *shipped.ANY], ids=name_of)
def test_R131_proxy_header(site, front, kind):
    web = front(kind, site.addresses["unix"])
    found = json.loads(web.request("/environ",
                                   headers={"Proxy": "evil:80"})[2])
    assert "HTTP_PROXY" not in found


def test_R132_what_apache_drops(site, front):
    web = front(fe.Apache, site.addresses["unix"])
    found = json.loads(web.request("/environ", headers={
        "X_User": "forged"})[2])
    assert "HTTP_X_USER" not in found


@pytest.mark.parametrize("kind, extra", [
    (fe.Lighttpd, {}),
    (fe.Nginx, {"EXTRA": "underscores_in_headers on;"})],
    ids=["lighttpd", "nginx"])
def test_R132_underscores_and_duplicates(site, front, kind, extra):
    """Where the front end passes on both, the application sees both."""
    web = front(kind, site.addresses["unix"], **extra)
    connection = web.connect()
    connection.putrequest("GET", "/environ")
    connection.putheader("X-User", "a")
    connection.putheader("X_User", "b")
    connection.endheaders()
    found = json.loads(connection.getresponse().read())
    assert sorted(found["HTTP_X_USER"].split(", ")) == ["a", "b"]
    connection.close()


# cgi-fcgi

@pytest.mark.parametrize("address", KINDS)
def test_cgi_fcgi(site, address):
    """libfcgi's own client: an independent reading of the protocol."""
    if fe.find("cgi-fcgi") is None:
        pytest.skip("no cgi-fcgi")
    where = site.addresses[address]
    code, out, err = fe.cgi_fcgi(where, fcgi.params_for("/hello"))
    assert (code, err) == (0, b"")
    head, _, body = out.partition(b"\r\n\r\n")
    assert head.startswith(b"Status: 200") and body == b"hello"
    content = os.urandom(100_000)
    code, out, _ = fe.cgi_fcgi(where, fcgi.params_for(
        "/body", "POST", body=content,
        extra={"CONTENT_TYPE": "a/b"}), content)
    assert code == 0 and out.endswith(digest(content).encode())
    # All of standard input becomes STDIN, also beyond CONTENT_LENGTH.
    params = fcgi.params_for("/body", "POST", body=b"12345",
                             extra={"CONTENT_TYPE": "a/b"})
    code, out, _ = fe.cgi_fcgi(where, params, b"12345 and more")
    assert code == 0 and out.endswith(digest(b"12345").encode())


# Starting and stopping by the front end

def spawned(web):
    return [p for p in web.strays() if "forebay" in proc.cmdline(p)
            and p != web.process.pid]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_R091_lighttpd_stops_what_it_started(front, number):
    web = front(fe.LighttpdSpawn, os.path.join(FRAMEWORKS, "plain_app.py"))
    assert web.request("/hello")[2] == b"hello"
    assert spawned(web)
    web.process.send_signal(number)
    wait_for(lambda: not web.strays(), lambda: "all have ended: %r" % [
        (p, proc.cmdline(p)) for p in web.strays()], 30)


def test_R091_lighttpd_graceful_restart(front):
    """SIGUSR1: what it had started ends, new ones serve."""
    web = front(fe.LighttpdSpawn, os.path.join(FRAMEWORKS, "plain_app.py"))
    assert web.request("/hello")[2] == b"hello"
    old = spawned(web)
    web.process.send_signal(signal.SIGUSR1)
    wait_for(lambda: not set(old) & set(spawned(web)), "the old ones end", 30)

    def works():
        try:
            return web.request("/hello")[2] == b"hello"
        except OSError:
            return False
    wait_for(works, lambda: "the new ones serve\n" + web.log(), 30)


def test_lighttpd_with_several_processes(front):
    need(fe.LighttpdSpawn)

    class Four(fe.LighttpdSpawn):
        procs = 4
    web = front(Four, os.path.join(FRAMEWORKS, "plain_app.py"))
    for _ in range(8):
        assert web.request("/hello")[2] == b"hello"


def test_mod_fcgid_many_requests_at_once(front):
    web = front(fe.ApacheFcgid, os.path.join(FRAMEWORKS, "plain_app.py"))
    results = []

    def client():
        for _ in range(5):
            results.append(web.request("/hello")[2])
    threads = [threading.Thread(target=client) for _ in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert results == [b"hello"] * 30
