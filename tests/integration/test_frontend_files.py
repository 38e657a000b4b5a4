# SPDX-License-Identifier: MIT
"""The files of conf/frontends: what each of them is for, beside the environ
(test_frontend_environ.py) and several machines (test_machines.py)."""

import json
import os
import re
import signal
import subprocess
import threading

import pytest

from lib import proc, shipped
from lib import frontends as fe
from lib import server as srv
from lib.wait import TIMEOUT, wait_for

APPS = os.path.join(srv.APPS, "frontends")
APP = os.path.join(APPS, "seen.py")
ELSEWHERE = {"lighttpd/authorizer.conf", "cgi-fcgi/request",
             "nginx/machines.conf", "apache/machines.conf",
             "haproxy/machines.cfg"}


@pytest.fixture
def behind(serve, notes):
    """behind(FILE): (the front end with that file, the server or None)."""
    started = []

    def start(file, more="", **options):
        way = shipped.BY_FILE[file]
        why = way.why_not()
        if why:
            pytest.skip(why)
        port = srv.free_port()
        folder = srv.temp_dir()
        path = os.path.join(folder, "s")
        web = way({"/run/forebay/site.sock": path, "9000": str(port)})
        web.more_of_main += more
        started.append((web, folder))
        options = {k: v(web) if callable(v) else v
                   for k, v in options.items()}
        server = None
        if not way.spawns:
            server = serve(APP, address=path, socket_mode="0666",
                           listen=["unix:" + path, "127.0.0.1:%d" % port],
                           mount=way.mount or None, env=notes.env(),
                           **dict({"workers": 2, "threads": way.threads},
                                  **options))
        return web.start(), server
    yield start
    for web, folder in started:
        try:
            web.stop()
        finally:
            web.close()
            if os.path.isdir(folder) and not os.listdir(folder):
                os.rmdir(folder)


# The folder and its page

def shipped_files():
    found = set()
    for folder, _, names in os.walk(shipped.FILES):
        found |= {os.path.relpath(os.path.join(folder, n), shipped.FILES)
                  for n in names}
    return found


def test_every_file_is_started_by_a_test():
    assert shipped_files() == {w.file for w in shipped.WAYS} | ELSEWHERE


def test_every_file_is_on_the_page():
    with open(shipped.DOC) as f:
        page = f.read()
    table = page[page.index("## Which file"):page.index("## SCRIPT_NAME")]
    assert set(re.findall(r"^\|[^|]*\| `([^`]+)` \|", table,
                          re.MULTILINE)) == shipped_files()


def test_what_is_to_be_changed_is_on_the_page():
    with open(shipped.DOC) as f:
        page = f.read()
    table = page[page.index("reads this table -->"):page.index("Also put")]
    assert set(re.findall(r"^\| `([^`]+)`", table, re.MULTILINE)) == set(
        shipped.CHANGES)


@pytest.mark.parametrize("file", sorted(shipped_files()))
def test_a_file_has_nothing_else_of_this_kind(file):
    """No path or address beyond those that the page tells to change, the
    distribution's and comments."""
    with open(os.path.join(shipped.FILES, file)) as f:
        lines = [line for line in f
                 if not line.lstrip().startswith("#")]
    text = "".join(lines)
    for name in sorted(shipped.CHANGES, key=len, reverse=True):
        text = text.replace(name, "")
    assert not re.search(r"/(run|srv|var|tmp|home)\b", text)
    assert not re.search(r"\b10\.\d+\.\d+\.\d+", text)


# Streaming

@pytest.mark.parametrize("file", [
    "nginx/fastcgi-streaming.conf", "lighttpd/fastcgi-streaming.conf",
    "apache/proxy-fcgi-streaming.conf", "apache/proxy-scgi.conf",
    "haproxy/fastcgi.cfg", "caddy/Caddyfile", "h2o/h2o.conf"])
def test_each_piece_of_a_response_at_once(behind, notes, file):
    web, _ = behind(file)
    connection = web.connect()
    connection.request("GET", "/x", headers={"X-Do": "slow"})
    answer = connection.getresponse()
    assert answer.read1(100) == b"first"
    with open(os.path.join(notes.dir, "gate"), "w"):
        pass
    assert answer.read() == b"second"
    connection.close()


@pytest.mark.parametrize("file", ["nginx/fastcgi-streaming.conf",
                                  "lighttpd/fastcgi-streaming.conf",
                                  "apache/proxy-fcgi.conf"])
def test_each_piece_of_an_upload_at_once(behind, notes, file):
    """The application has read the first piece before the client sends the
    second one."""
    web, _ = behind(file, body_buffer=0)
    connection = web.connect()
    connection.putrequest("POST", "/x")
    connection.putheader("X-Do", "pieces")
    connection.putheader("Content-Type", "text/x-own")
    connection.putheader("Content-Length", "10")
    connection.endheaders()
    connection.send(b"first")
    assert notes.wait("piece") == ["first"]
    connection.send(b"other")
    assert connection.getresponse().read() == b"first,other"
    connection.close()


# Kept connections

@pytest.mark.parametrize("file", ["nginx/fastcgi-kept.conf",
                                  "haproxy/fastcgi.cfg", "h2o/h2o-tcp.conf"])
def test_connections_are_kept(behind, file):
    """A second request comes on the connection of the first one."""
    web, server = behind(file, workers=1)
    worker, = server.workers()

    def sockets():
        return {what for what in proc.fds(worker).values()
                if what.startswith("socket:")}
    idle = sockets()
    json.loads(web.request("/x")[2])
    kept = sockets() - idle
    assert len(kept) == 1
    for _ in range(4):
        json.loads(web.request("/x")[2])
        assert sockets() - idle == kept


def test_haproxy_puts_requests_on_one_connection(behind, notes):
    """It has asked, and the threads of a worker run them at the same time."""
    web, server = behind("haproxy/multiplexed.cfg", workers=1)
    worker, = server.workers()

    def sockets():
        return {what for what in proc.fds(worker).values()
                if what.startswith("socket:")}
    idle = sockets()
    results = []

    def client():
        results.append(web.request("/x", headers={"X-Do": "slow"})[2])
    json.loads(web.request("/x")[2])
    threads = [threading.Thread(target=client) for _ in range(4)]
    for t in threads:
        t.start()
    notes.wait("slow", 4)
    used = sockets() - idle
    with open(os.path.join(notes.dir, "gate"), "w"):
        pass
    for t in threads:
        t.join()
    assert results == [b"firstsecond"] * 4
    assert len(used) < 4


# Files that the front end sends

SENDS = {"nginx/accel-redirect.conf": ("X-Accel-Redirect", "/private/%s"),
         "lighttpd/x-sendfile.conf": ("X-Sendfile", None),
         "apache/x-sendfile.conf": ("X-Sendfile", None)}


@pytest.mark.parametrize("file", sorted(SENDS))
def test_R126_the_front_end_sends_the_file(behind, file):
    """The application's own body and length do not get into its way; ranges
    and HEAD work; other headers stay."""
    web, _ = behind(file)
    content = os.urandom(300_000)
    path = os.path.join(web.folder, "private", "a file.bin")
    with open(path, "wb") as f:
        f.write(content)
    os.chmod(path, 0o644)
    name, pattern = SENDS[file]
    target = pattern % "a file.bin" if pattern else path
    query = "/x?%s:%s" % (name, target.replace(" ", "%20"))
    for _ in range(2):
        status, headers, body = web.request(query, headers={"X-Do": "header"})
        assert status == 200, web.log()
        assert body == content
        assert headers["Content-Length"] == str(len(content))
        assert headers["Content-Type"] == "text/x-own"
        assert headers["Set-Cookie"] == "c=1"
        assert headers[name] is None
    status, _, body = web.request(query, headers={
        "X-Do": "header", "Range": "bytes=10-19"})
    assert (status, body) == (206, content[10:20])
    status, headers, body = web.request(query, "HEAD",
                                        headers={"X-Do": "header"})
    assert (status, body) == (200, b"")


@pytest.mark.parametrize("file", sorted(SENDS))
def test_R126_files_of_the_wrapper(behind, file):
    """sendfile_header of the pool: what the application gives to
    wsgi.file_wrapper the front end sends itself."""
    name, pattern = SENDS[file]
    more = {"sendfile_header": name}
    if pattern:
        more["sendfile_map"] = lambda web: "%s/private=/private" % web.folder
    web, _ = behind(file, **more)
    content = os.urandom(300_000)
    path = os.path.join(web.folder, "private", "file.bin")
    with open(path, "wb") as f:
        f.write(content)
    os.chmod(path, 0o644)
    status, headers, body = web.request("/x?" + path,
                                        headers={"X-Do": "file"})
    assert (status, body) == (200, content), web.log()
    assert headers["Content-Type"] == "text/x-own"
    assert headers["Set-Cookie"] == "c=1"
    assert headers[name] is None
    status, _, body = web.request("/x?" + path, headers={
        "X-Do": "file", "Range": "bytes=10-19"})
    assert (status, body) == (206, content[10:20])


@pytest.mark.parametrize("file", sorted(SENDS))
def test_R126_not_any_file(behind, file):
    web, _ = behind(file)
    name, pattern = SENDS[file]
    target = pattern % "../../../../etc/hostname" if pattern else "/etc/passwd"
    status, _, body = web.request("/x?%s:%s" % (name, target),
                                  headers={"X-Do": "header"})
    assert status in (400, 403, 404, 500), (status, body[:100])
    assert b"root:" not in body


def test_R126_files_of_the_site_are_not_public(behind):
    web, _ = behind("nginx/accel-redirect.conf")
    with open(os.path.join(web.folder, "private", "f"), "w") as f:
        f.write("secret")
    assert web.request("/private/f")[0] == 404


# Authorizer

@pytest.fixture
def guarded(serve):
    why = shipped.Lighttpd.why_not()
    if why:
        pytest.skip(why)
    guard = serve(os.path.join(APPS, "guard.py"))
    site = serve(APP)
    way = shipped.way(shipped.Lighttpd, "lighttpd/authorizer.conf", None)
    web = way({"/run/forebay/guard.sock": guard.address,
               "/run/forebay/site.sock": site.address})
    try:
        yield web.start()
        web.stop()
    finally:
        web.close()


def test_authorizer_allows_with_variables(guarded):
    status, _, body = guarded.request("/x", headers={"X-Name": "ann"})
    found = json.loads(body)
    assert status == 200
    assert found["AUTH_NAME"] == "ann"
    assert "forebay.role" not in found
    assert found["PATH_INFO"] == "/x"
    assert json.loads(guarded.request("/open/y")[2])["AUTH_NAME"] == "nobody"


def test_authorizer_allows_a_post_and_the_body_is_the_sites(guarded):
    status, _, body = guarded.request("/x", "POST", b"content", {
        "X-Name": "ann", "Content-Type": "text/x-own"})
    assert status == 200
    assert json.loads(body)["body"] == "content"


def test_authorizer_denies_with_its_page(guarded):
    for method, body in (("GET", None), ("POST", b"content")):
        status, headers, text = guarded.request("/x", method, body)
        assert (status, text) == (403, b"who are you?")
        assert headers["X-Guard"] == "yes"


# cgi-fcgi

def test_cgi_fcgi_request(serve):
    if fe.find("cgi-fcgi") is None:
        pytest.skip("no cgi-fcgi")
    script = os.path.join(shipped.FILES, "cgi-fcgi", "request")
    for tcp in (False, True):
        server = serve(APP, tcp=tcp)
        where = ("127.0.0.1:%d" % server.address[1] if tcp
                 else server.address)
        found = subprocess.run([script, where, "/a b/x?q=1"],
                               stdout=subprocess.PIPE, stdin=subprocess.DEVNULL,
                               timeout=4 * TIMEOUT)
        assert found.returncode == 0
        head, _, body = found.stdout.partition(b"\r\n\r\n")
        assert head.startswith(b"Status: 200 OK")
        seen = json.loads(body)
        assert (seen["SCRIPT_NAME"], seen["PATH_INFO"],
                seen["QUERY_STRING"]) == ("", "/a b/x", "q=1")
        found = subprocess.run(
            [script, where, "/x"], input=b"content", stdout=subprocess.PIPE,
            env=dict(os.environ, METHOD="POST", LENGTH="7", TYPE="text/x-own"),
            timeout=4 * TIMEOUT)
        seen = json.loads(found.stdout.partition(b"\r\n\r\n")[2])
        assert seen["body"] == "content"
        assert seen["REQUEST_METHOD"] == "POST"


# Starting by the front end

def spawned(web):
    return [p for p in web.strays() if "forebay" in proc.cmdline(p)
            and p != web.process.pid]


@pytest.mark.parametrize("file", ["lighttpd/spawn.conf", "apache/fcgid.conf",
                                  "h2o/h2o-spawn.conf"])
def test_R091_what_is_started_ends_with_the_front_end(behind, file):
    web, _ = behind(file)
    assert web.request("/x")[0] == 200
    assert spawned(web)
    web.stop()
    assert not spawned(web)


@pytest.mark.parametrize("file,number", [
    ("lighttpd/spawn.conf", signal.SIGUSR1),
    ("lighttpd/spawn.conf", signal.SIGINT),
    ("apache/fcgid.conf", signal.SIGUSR1),
    ("apache/fcgid.conf", signal.SIGWINCH)],
    ids=lambda v: getattr(v, "name", v))
def test_R091_what_runs_is_finished(behind, notes, file, number):
    """Graceful restart and graceful stop of the web server, in the middle of a
    request: the client gets its answer, the old processes end."""
    web, _ = behind(file)
    connection = web.connect()
    connection.request("GET", "/x?" + notes.dir, headers={"X-Do": "slow"})
    notes.wait("slow")
    old = spawned(web)
    web.process.send_signal(number)
    with open(os.path.join(notes.dir, "gate"), "w"):
        pass
    assert connection.getresponse().read() == b"firstsecond"
    connection.close()
    wait_for(lambda: not set(old) & set(spawned(web)), lambda: repr(
        [proc.cmdline(p) for p in old if p in spawned(web)]), 2 * TIMEOUT)


def test_R091_idle_processes_of_mod_fcgid_end(behind):
    """FcgidIdleTimeout ends them by SIGTERM; the next request starts one."""
    web, _ = behind("apache/fcgid.conf", more="""
    FcgidIdleTimeout 1
    FcgidIdleScanInterval 1
    FcgidMinProcessesPerClass 0
""")
    assert web.request("/x")[0] == 200
    wait_for(lambda: not spawned(web), lambda: repr(
        [proc.cmdline(p) for p in spawned(web)]), 4 * TIMEOUT)
    assert web.request("/x")[0] == 200


def test_lighttpd_starts_four(behind):
    web, _ = behind("lighttpd/spawn.conf")

    def sockets():
        return {n for n in os.listdir(web.run)
                if n.startswith("site-spawned.sock-")}
    wait_for(lambda: len(sockets()) == 4, lambda: repr(sockets()))
    # One manager for each of them.
    wait_for(lambda: len([p for p in spawned(web) if "run" in
                          proc.cmdline(p).split()]) == 4,
             lambda: repr([proc.cmdline(p) for p in spawned(web)]))
