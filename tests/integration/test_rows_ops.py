# SPDX-License-Identifier: MIT
"""What broke in operation: rows R081, R116, R124, R125, R127 and R130 to R137
of the reports. R061, R119 to R121 and R140 are in test_logs.py, R079 and R080 in
test_upgrade.py, R089 in test_rows_manager.py, R115 in test_deadlines.py, R139 in
test_rows_embed.py."""

import json
import os
import re
import resource
import signal
import socket

import pytest

from lib import fcgi, mounts, proc
from lib import server as srv
from lib.wait import TIMEOUT, holds_for, wait_for

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


# A worker without memory

def test_R135_a_worker_that_stays_without_memory(versions_once):
    """Requests that fail one after the other for want of memory: another worker
    takes its place. Those that succeed in between are a sign of health."""
    s = versions_once("memory", workers=1)
    first = s.ask("/pid")
    for _ in range(3):
        for _ in range(4):
            assert s.server.request("/no_memory").status == 500
        for _ in range(8):
            assert s.ask("/pid") == first
    for _ in range(5):
        assert s.server.request("/no_memory").status == 500
    s.server.expect_error("too many requests have ended with MemoryError")
    wait_for(lambda: s.server.workers() not in ([], [first]), "another one")
    assert s.ask("/pid") != first


@pytest.mark.skipif(bool(srv.sanitized()), reason="needs address space itself")
def test_R135_a_worker_that_has_used_up_its_limit(versions_once):
    """RLIMIT_AS: it recovers by being replaced."""
    limit = 1 << 30
    s = versions_once("memory", workers=1, popen={
        "preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_AS,
                                                 (limit, limit))})
    first = s.ask("/pid")
    s.server.errors_expected = True

    def another():
        s.server.request("/fill")
        answer = s.server.request("/pid")
        return (answer.complete and answer.status == 200
                and json.loads(answer.body) != first)
    wait_for(another, "another one", 2 * TIMEOUT)


# R124: where a socket can be

def test_R124_a_path_that_is_too_long(fails):
    """The sentence has the limit and the length; nothing is cut."""
    path = "/tmp/" + "x" * 115
    for command in ("serve", "check"):
        code, log = fails("app:application", chdir=CHECKLIST, command=command,
                          listen=path)
        assert code == 78 and "107" in log and "120" in log, log
    assert not [n for n in os.listdir("/tmp") if n.startswith("x" * 50)]


def test_R124_a_folder_that_is_missing(fails, folder):
    path = os.path.join(folder, "gone", "s")
    code, log = fails("app:application", chdir=CHECKLIST, listen=path)
    assert code == 69
    assert os.path.dirname(path) in log and "RuntimeDirectory=" in log


def test_R124_the_folder_goes_while_it_runs(serve, folder):
    """The service's folder is removed and made again: a reload heals it."""
    path = os.path.join(folder, "run", "s")
    os.mkdir(os.path.dirname(path))
    server = serve_at(serve, path)
    assert hello(server)
    os.unlink(path)
    os.rmdir(os.path.dirname(path))
    server.process.send_signal(signal.SIGHUP)
    server.expect_error("reload refused.*does not exist")
    os.mkdir(os.path.dirname(path))
    server.process.send_signal(signal.SIGHUP)
    server.log.wait(": ready", 2)
    assert hello(server)


@pytest.mark.skipif(mounts.why_not() is not None, reason=str(mounts.why_not()))
def test_R124_a_private_tmp(serve, folder):
    """What no front end can see is said."""
    private = os.path.join(folder, "systemd-private-test")
    os.mkdir(private)
    server = serve("app:application", chdir=CHECKLIST, address="/var/tmp/s",
                   workers=1, prefix=[
                       "unshare", "--mount", "sh", "-c",
                       'mount --bind "$0" /var/tmp && exec "$@"', private])
    server.log.wait(r"is private to this service \(PrivateTmp\)")
    server.address = None
    server.stop()


# R125: who may connect

def answered(address, source=None):
    """Whether a request from this source is answered. Who may not is cut off
    before anything was read."""
    family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
    with socket.socket(family) as s:
        s.settimeout(TIMEOUT)
        if source is not None:
            s.bind((source, 0))
        s.connect(address)
        try:
            s.sendall(fcgi.encode(fcgi.params_for("/", extra={
                "TEST_CASE": "hello"})))
            return b"hello" in s.recv(65536)
        except ConnectionError:
            return False


@pytest.fixture
def both():
    """A socket that takes IPv4 as mapped addresses, and the addresses."""
    with socket.socket(socket.AF_INET6) as s:
        try:
            s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            s.bind(("::", 0))
        except OSError:
            pytest.skip("no IPv6")
        s.listen(100)
        port = s.getsockname()[1]
        yield s, ("127.0.0.1", port), ("::1", port)


def allowing(serve, shape, sock, **options):
    return serve("app:application", chdir=CHECKLIST, address=None,
                 listen="fd:%d" % sock.fileno(), popen={
                     "pass_fds": [sock.fileno()]}, **shape.options(**options))


@pytest.mark.parametrize("how", ["setting", "variable"])
def test_R125_one_address(serve, shape, both, how):
    """Through an IPv6 socket as well; another family is another peer."""
    sock, v4, v6 = both
    options = ({"allow": "127.0.0.1"} if how == "setting" else
               {"env": {"FCGI_WEB_SERVER_ADDRS": "192.0.2.1, 127.0.0.1"}})
    server = allowing(serve, shape, sock, **options)
    for _ in range(3):
        assert answered(v4)
        assert not answered(v4, "127.0.0.2")
        assert not answered(v6)
    line = server.log.wait("refused: it is not among those that may connect")
    assert "127.0.0.2" in line[0]
    server.address = None


def test_R125_networks_and_families(serve, epoll_shape, both):
    sock, v4, v6 = both
    server = allowing(serve, epoll_shape, sock,
                      allow=["127.0.0.0/30", "::1", "2001:db8::/32"])
    for source, may in (("127.0.0.1", True), ("127.0.0.3", True),
                        ("127.0.0.4", False), ("127.9.9.9", False)):
        assert answered(v4, source) is may
    assert answered(v6)
    server.address = None


def test_R125_a_unix_socket_has_its_mode(serve, epoll_shape):
    """Addresses are no concern of it."""
    server = serve("app:application", chdir=CHECKLIST,
                   **epoll_shape.options(allow="192.0.2.1"))
    assert hello(server)


@pytest.mark.parametrize("wrong", ["localhost", "10.0.0.1/8", "::1/200", "*"])
def test_R125_what_is_no_address(fails, wrong):
    """A list that cannot be meant lets nobody in by mistake."""
    code, log = fails("app:application", chdir=CHECKLIST, allow=wrong)
    assert code == 64 and wrong in log
    code, log = fails("app:application", chdir=CHECKLIST, workers=1,
                      env={"FCGI_WEB_SERVER_ADDRS": "127.0.0.1," + wrong})
    assert code == 1 and wrong in log


def test_R125_tcp_is_this_machine_only(serve):
    """A port alone: the loopback addresses."""
    port = srv.free_port()
    server = serve("app:application", chdir=CHECKLIST, listen=":%d" % port,
                   address=("127.0.0.1", port), workers=1)
    assert hello(server)
    line = server.log.find(": ready", 0)[0]
    found = re.search(r" on (.*) \(template", line).group(1).split(", ")
    assert set(found) <= {"127.0.0.1:%d" % port, "[::1]:%d" % port}


# R136: the pid file

@pytest.fixture
def with_pidfile(serve, folder):
    path = os.path.join(folder, "pid")

    def start(**options):
        conf = os.path.join(folder, "conf")
        with open(conf, "w") as f:
            f.write("[forebay]\npidfile = %s\n[pool a]\napp = app:application\n"
                    "chdir = %s\nlisten = %s\nworkers = 1\n" % (
                        path, CHECKLIST, os.path.join(folder, "s")) + "".join(
                            "%s = %s\n" % item for item in options.items()))
        server = srv.Forebay(["serve", "-c", conf])
        started.append(server)
        return server
    started = []
    yield path, start
    for server in started:
        if server.running():
            server.stop()
        server.close()


def number(path):
    try:
        with open(path) as f:
            return f.read()
    except FileNotFoundError:
        return None


@pytest.mark.parametrize("content", ["1\n", "4194303\n", "", "junk"])
def test_R136_a_stale_file(with_pidfile, content):
    """Of a process that is gone or is something else now: replaced, whole, once
    it serves."""
    path, start = with_pidfile
    with open(path, "w") as f:
        f.write(content)
    server = start()
    server.wait_ready()
    wait_for(lambda: number(path) == "%d\n" % server.pid, "its number")
    assert os.stat(path).st_mode & 0o022 == 0
    server.stop()
    assert number(path) is None


def test_R136_not_before_it_serves(with_pidfile):
    path, start = with_pidfile
    server = start(app="no_such_module:x", max_start_failures=1)
    server.errors_expected = True
    code = server.wait_exit()
    server.expect_exit = {code}
    assert code != 0 and number(path) is None


def test_R136_kill_and_upgrade(with_pidfile):
    """kill -9 leaves it, the next start replaces it, USR2 changes it, and only
    its owner removes it."""
    path, start = with_pidfile
    server = start()
    wait_for(lambda: number(path) == "%d\n" % server.pid, "its number")
    server.process.kill()
    server.process.wait()
    assert number(path) == "%d\n" % server.pid
    server.close()
    server = start()
    wait_for(lambda: number(path) == "%d\n" % server.pid, "its number")
    server.process.send_signal(signal.SIGUSR2)
    new = wait_for(lambda: number(path) not in (None, "%d\n" % server.pid)
                   and int(number(path)), "the number of the new one",
                   2 * TIMEOUT)
    server.process.wait()
    assert number(path) == "%d\n" % new
    os.kill(new, signal.SIGTERM)
    wait_for(lambda: number(path) is None, "it is removed")
    wait_for(lambda: not proc.alive(new), "the end of the new one")


# R137: the configuration

@pytest.mark.parametrize("command", ["serve", "check"])
@pytest.mark.parametrize("line, says", [
    ("max_reqests = 5", ["max_reqests", "max_requests"]),
    ("thread = 4", ["thread", "threads"]),
    ("workers = many", ["workers", "many"]),
    ("workers = 2\nworkers = 3", ["workers is given twice", ":5 already"]),
    ("header_timeout = 10x", ["header_timeout", "10x"]),
    ("max_body_size = 10 parsecs", ["max_body_size"]),
    ("preload = maybe", ["preload", "auto"]),
    ("just words", ["="]),
])
def test_R137_a_slip_is_named(fails, folder, command, line, says):
    """File, line and the nearest name; nothing is started."""
    path = os.path.join(folder, "conf")
    with open(path, "w") as f:
        f.write("[pool a]\napp = app:application\nchdir = %s\nlisten = %s\n%s\n"
                % (CHECKLIST, os.path.join(folder, "s"), line))
    server = srv.Forebay([command, "-c", path])
    try:
        assert server.wait_exit() == 78
        text = server.log.text()
        where = "%s:%d: " % (path, 5 + line.count("\n"))
        assert where in text and all(w in text for w in says), text
        assert not os.path.exists(os.path.join(folder, "s"))
    finally:
        server.close()


# Where there is no /proc, and names that are no text

@pytest.mark.skipif(mounts.why_not() is not None, reason=str(mounts.why_not()))
@pytest.mark.skipif(bool(srv.sanitized()), reason="a sanitizer needs /proc")
@pytest.mark.parametrize("preload", ["auto", "off"])
def test_without_proc(serve, folder, preload):
    """Bare chroots and containers: it serves."""
    server = serve("leaves:application", address=os.path.join(folder, "s"),
                   chdir=os.path.join(srv.APPS, "manager"), workers=1,
                   preload=preload, env={"LEAVES": "nothing",
                                         "FOREBAY_TEST_NOTES": folder},
                   prefix=["unshare", "--mount", "sh", "-c",
                           'umount -l /proc && exec "$0" "$@"'])
    for _ in range(3):
        assert server.request("/").status == 200


def test_a_file_name_that_is_no_text(serve, epoll_shape, folder):
    path = os.path.join(os.fsencode(folder), b"site\xff\xe9.py")
    with open(path, "w") as f:
        f.write("def application(environ, start_response):\n"
                "    start_response('200 OK', [])\n"
                "    return [__name__.encode()]\n")
    server = serve(os.fsdecode(path), **epoll_shape.options())
    answer = server.request("/")
    assert (answer.status, answer.body) == (200, b"site__")
