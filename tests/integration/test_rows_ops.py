# SPDX-License-Identifier: MIT
"""What broke in operation: rows R081, R116, R127 and R130 to R135 of the
reports (R139 is in test_rows_embed.py)."""

import json
import os
import resource
import signal
import socket

import pytest

from lib import fcgi, proc
from lib import server as srv
from lib.wait import holds_for, wait_for

CHECKLIST = os.path.join(srv.APPS, "checklist")


def hello(server):
    return server.request(extra={"TEST_CASE": "hello"}).text == "hello"


@pytest.fixture
def folder():
    import shutil
    path = srv.temp_dir()
    yield path
    shutil.rmtree(path)


def serve_at(serve, path, **options):
    return serve("app:application", chdir=CHECKLIST, address=path, workers=1,
                 **options)


def test_R081_a_live_socket_is_refused(serve, fails, folder):
    path = os.path.join(folder, "s")
    first = serve_at(serve, path)
    inode = os.stat(path).st_ino
    second = serve("app:application", chdir=CHECKLIST, address=path,
                   workers=1, wait=False)
    second.address = None       # the path is the first one's
    code = second.wait_exit()
    second.expect_exit = {code}
    second.errors_expected = True
    assert code > 0
    assert path in second.log.text()
    assert os.stat(path).st_ino == inode
    assert hello(first)


def test_R081_a_stale_socket_is_replaced(serve, folder):
    path = os.path.join(folder, "s")
    first = serve_at(serve, path)
    first.process.kill()
    first.process.wait()
    wait_for(lambda: not first.strays(), "the workers follow their manager")
    first.expect_exit = {-signal.SIGKILL}
    assert os.path.exists(path)
    second = serve_at(serve, path)
    assert hello(second)
    second.stop()
    assert not os.path.exists(path)


@pytest.mark.parametrize("kind", ["file", "folder", "fifo"])
def test_R081_what_is_no_socket_stays(fails, folder, kind):
    path = os.path.join(folder, "s")
    if kind == "file":
        with open(path, "w") as f:
            f.write("precious")
    elif kind == "folder":
        os.mkdir(path)
    else:
        os.mkfifo(path)
    before = os.stat(path)
    found = {}

    code, found["log"] = fails_at(fails, path)
    assert code > 0
    assert path in found["log"]
    after = os.stat(path)
    assert (before.st_ino, before.st_mode) == (after.st_ino, after.st_mode)


def fails_at(fails, path):
    # The audit must not expect the path to be gone.
    return fails("app:application", chdir=CHECKLIST, workers=1,
                 address=("", 0), listen=path, socket_mode="0666")


def test_R081_dangling_symlink(serve, fails, folder):
    """Neither the link nor what it points to is touched by surprise: it works
    or it is refused, and a live server is never robbed."""
    path = os.path.join(folder, "link")
    os.symlink(os.path.join(folder, "nowhere"), path)
    server = serve("app:application", chdir=CHECKLIST, workers=1,
                   address=path, wait=False)
    wait_for(lambda: not server.running()
             or server.log.find(r": ready\b", 0), "ready or refused")
    server.errors_expected = True
    if server.running():
        assert hello(server)
    else:
        server.address = None
        server.expect_exit = {server.process.returncode}
        assert server.process.returncode > 0
        assert path in server.log.text()


def test_R081_ipv6_address(serve, epoll_shape):
    try:
        with socket.socket(socket.AF_INET6) as s:
            s.bind(("::1", 0))
            port = s.getsockname()[1]
    except OSError:
        pytest.skip("no IPv6 here")
    server = serve("app:application", chdir=CHECKLIST, address=("::1", port),
                   **epoll_shape.options())
    assert hello(server)


def test_R081_only_our_own_inode_is_removed(serve, folder):
    """Somebody has put another socket at the path in the meantime."""
    path = os.path.join(folder, "s")
    server = serve_at(serve, path)
    os.unlink(path)
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(path)
        inode = os.stat(path).st_ino
        server.address = None
        server.stop()
        assert os.stat(path).st_ino == inode


LEAKS = [("hello", 0, {}), ("hello", fcgi.KEEP_CONN, {}),
         ("environ", fcgi.KEEP_CONN, {}),
         ("digest", fcgi.KEEP_CONN, {"method": "POST", "body": b"b" * 3000}),
         ("unread", fcgi.KEEP_CONN, {"method": "POST", "body": b"b" * 3000}),
         ("fail", 0, {"query": "call,LookupError"}),
         ("G5", fcgi.KEEP_CONN, {"query": "generated"})]


@pytest.mark.big
@pytest.mark.parametrize("case, flags, how", LEAKS)
def test_R116_flat_memory(wire, case, flags, how):
    """RSS of the workers after a warm-up, over thousands of requests."""
    how = dict(how)
    body = how.pop("body", None)

    def requests(n):
        done = 0
        while done < n:
            with wire.peer() as peer:
                for _ in range(50 if flags else 1):
                    wire.send(peer, case, body, flags=flags, **how)
                    peer.answer(keep=bool(flags))
                    done += 1
    count = int(os.environ.get("FOREBAY_LEAK_REQUESTS", "30000"))
    wire.server.errors_expected = True
    requests(count // 5)
    before = sum(proc.rss_bytes(p) for p in wire.server.workers())
    requests(count)
    grown = sum(proc.rss_bytes(p) for p in wire.server.workers()) - before
    # The smallest object that can be lost in each request has 32 bytes.
    assert grown < max(16 * count, 1 << 20), grown


def test_R127_a_slow_reader_does_not_balloon(wire):
    """Many clients that read nothing of an endless stream."""
    before = sum(proc.rss_bytes(p) for p in wire.server.workers())
    peers = [wire.peer(receive_buffer=4096) for _ in range(
        2 * wire.shape.threads - 1)]
    try:
        for peer in peers:
            wire.send(peer, "G13")
        seen = [-1]

        def stands():
            n = len(wire.notes.read("G13"))
            same, seen[0] = n == seen[0] and n >= len(peers), n
            return same
        wait_for(stands, "the streams stand still")
        holds_for(lambda: True, 0.2, "")
        assert wire("hello").text == "hello"
        grown = sum(proc.rss_bytes(p) for p in wire.server.workers()) - before
        assert grown < len(peers) * (8 << 20)
    finally:
        for peer in peers:
            peer.close()
    wire.notes.wait("G13_end", len(peers))


def test_R130_content_is_never_framing(wire):
    """A body that holds a whole FastCGI request, on a kept connection."""
    evil = fcgi.encode(dict(wire.params("pid"), PYTHONPATH="/evil",
                            SCRIPT_FILENAME="/etc/passwd"), b"",
                       flags=fcgi.KEEP_CONN)
    with wire.peer() as peer:
        for method, case in (("GET", "hello"), ("POST", "hello"),
                             ("POST", "unread")):
            wire.send(peer, case, evil, flags=fcgi.KEEP_CONN, method=method)
            answer = peer.answer(keep=True)
            assert answer.text in ("hello", "took 0")
        wire.send(peer, "hello", flags=fcgi.KEEP_CONN)
        assert peer.answer(keep=True).text == "hello"
        assert peer.is_open() and not peer.inbuf


def test_R130_no_parameter_chooses_code_or_settings(wire):
    before = wire.json("environ")
    found = wire.json("environ", extra={
        "PYTHONPATH": "/evil", "PYTHONHOME": "/evil", "UWSGI_FILE": "/evil.py",
        "UWSGI_MODULE": "evil", "SCRIPT_FILENAME": "/evil.py",
        "PHP_VALUE": "auto_prepend_file=/evil", "wsgi.input": "x",
        "wsgi.version": "x", "forebay.x": "x", "WSGI_SCRIPT": "/evil",
        "wsgi.multithread": "x"})
    for name in before:
        if name.startswith(("wsgi.", "forebay.")) and not name.startswith(
                ("wsgi.input", "wsgi.errors")):
            assert found[name] == before[name], name
    assert "evil" not in json.dumps(wire.json("L14"))


def test_R131_proxy_header_and_os_environ(wire):
    for _ in range(2 * wire.shape.threads):
        found = wire.json("B21", headers=[("Proxy", "evil:80"),
                                          ("X-Leak", "1")])
        assert found == {"params_in_os": [], "os_in_environ": []}
        assert "HTTP_PROXY" not in wire.json(
            "environ", headers=[("Proxy", "evil:80")])


def test_R132_duplicate_variables(wire):
    """Documented: of CGI variables the last one counts, header variables are
    joined."""
    params = list(wire.params("environ").items()) + [
        ("REMOTE_USER", "first"), ("REMOTE_USER", "last"),
        ("HTTP_X_USER", "a"), ("HTTP_X_USER", "b"),
        ("HTTPS", "on"), ("HTTPS", "off")]
    for protocol in ("fcgi", "scgi"):
        if protocol == "scgi":
            with wire.peer() as peer:
                block = b"".join(
                    fcgi._bytes(n) + b"\0" + fcgi._bytes(v) + b"\0"
                    for n, v in [("CONTENT_LENGTH", 0), ("SCGI", 1)] + params)
                peer.send(b"%d:%s," % (len(block), block))
                answer = peer.scgi_answer()
        else:
            answer = fcgi.request(wire.server.address, params)
        found = json.loads(answer.body)
        assert found["REMOTE_USER"] == "last"
        assert found["HTTP_X_USER"] == "a, b"
        assert found["wsgi.url_scheme"] == "http"


@pytest.mark.parametrize("kind", ["reset", "fin", "unix"])
def test_R134_connections_that_come_and_go(serve, epoll_shape, kind):
    server = serve("app:application", chdir=CHECKLIST, tcp=kind != "unix",
                   **epoll_shape.options(workers=2))
    assert hello(server)
    counts = server.fd_counts()
    for _ in range(2000):
        peer = server.peer()
        peer.reset() if kind == "reset" else peer.close()
    assert hello(server)
    server.wait_fds(counts)
    ticks = {p: proc.cpu_ticks(p) for p in server.workers()}
    holds_for(lambda: all(proc.cpu_ticks(p) - t < 5
                          for p, t in ticks.items()), 0.5, "no spinning")


def test_R134_many_descriptors(serve, epoll_shape):
    """Connections beyond descriptor 1024 in one worker."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 4000:
        pytest.skip("RLIMIT_NOFILE is below 4000")
    resource.setrlimit(resource.RLIMIT_NOFILE, (4000, hard))
    peers = []
    try:
        server = serve("app:application", chdir=CHECKLIST,
                       **epoll_shape.options(max_connections=3000))
        request = fcgi.encode(fcgi.params_for(
            "/", extra={"TEST_CASE": "hello"}), flags=fcgi.KEEP_CONN)
        for _ in range(1500):
            peers.append(server.peer())
            peers[-1].send(request)
        for peer in peers:
            assert peer.answer(keep=True).text == "hello"
        for peer in peers[1400:]:
            peer.send(request)
            assert peer.answer(keep=True).text == "hello"
    finally:
        for peer in peers:
            peer.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_R134_out_of_descriptors(serve, epoll_shape):
    """With 64 descriptors: one line in the log, no spinning, and it recovers
    by itself."""
    def limit():
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    server = serve("app:application", chdir=CHECKLIST,
                   popen={"preexec_fn": limit}, **epoll_shape.options())
    assert hello(server)
    request = fcgi.encode(fcgi.params_for(
        "/", extra={"TEST_CASE": "hello"}), flags=fcgi.KEEP_CONN)
    peers = []
    try:
        for _ in range(120):
            peers.append(server.peer())
            peers[-1].send(request)
        worker, = server.workers()
        wait_for(lambda: server.log.find(r"(?i)descriptor|too many open",
                                         0), "a line about it")
        ticks = proc.cpu_ticks(worker)
        holds_for(lambda: proc.cpu_ticks(worker) - ticks < 20, 0.5,
                  "no spinning")
        lines = server.log.find(r"(?i)descriptor|too many open", 0)
        assert len(lines) <= 3, lines
        served = [p for p in peers[:20]]
        for peer in served:
            assert peer.answer(keep=True).text == "hello"
    finally:
        for peer in peers:
            peer.close()
    wait_for(lambda: hello(server), "it recovers")
    server.errors_expected = True


@pytest.mark.parametrize("query", ["memory", "recursion"])
def test_R135_errors_everywhere_leave_the_capacity(wire, query):
    """MemoryError, RecursionError, __del__, close(), after_response."""
    before = wire.server.workers()
    for _ in range(3 * 2 * wire.shape.threads):
        assert wire("J4", query=query).status == 500
        assert wire("in_del").body == b"ok"
        assert wire("I3").body == b"whole"
        assert wire("I10", query="raises").body == b"answer"
    wire.server.errors_expected = True
    assert wire.server.workers() == before
    # All executors still work, at once.
    from test_protocol import parallel
    peers = [wire.peer() for _ in range(2 * wire.shape.threads)]
    try:
        for peer in peers:
            wire.begin(peer, "G6", method="POST", body=b"go")
        # In prefork one worker takes one of them at a time.
        for peer in peers:
            peer.send(fcgi.stream(fcgi.STDIN, b"go"))
            assert peer.answer().body == b"firstsecond"
    finally:
        for peer in peers:
            peer.close()
    assert all(a.text == "hello" for a in parallel(16,
                                                   lambda n: wire("hello")))
