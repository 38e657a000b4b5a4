# SPDX-License-Identifier: MIT
"""The status: what it says while things happen, and that it always comes."""

import http.client
import json
import os
import shutil
import signal
import socket
import threading

import pytest

from lib import ctl, fcgi, proc
from lib import frontends as fe
from lib import server as srv
from lib.ctl import Ctl
from lib.wait import FACTOR, TIMEOUT, wait_for

CHECKLIST = os.path.join(srv.APPS, "checklist")


@pytest.fixture
def folder():
    path = srv.temp_dir()
    yield path
    shutil.rmtree(path)


@pytest.fixture
def own(epoll_shape, notes, folder, serve):
    """A server in both shapes, with a control socket and status_listen: it and
    its Ctl. body_buffer: see hold()."""
    def start(app="app:application", **options):
        options.setdefault("chdir", CHECKLIST)
        options.setdefault("body_buffer", 0)
        port = srv.free_port()
        path = os.path.join(folder, "control")
        env = dict(notes.env(), **options.pop("env", {}))
        more = {n: options.pop(n) for n in ("tcp",) if n in options}
        server = serve(app, env=env, control=path, **more,
                       status_listen="127.0.0.1:%d" % port,
                       **epoll_shape.options(**options))
        server.status_address = ("127.0.0.1", port)
        return server, Ctl(path)
    return start


def hello(server):
    return server.request(extra={"TEST_CASE": "hello"}).text == "hello"


def hold(server, **how):
    """A connection whose request runs, and waits for its body, until
    release()."""
    peer = server.peer()
    how.setdefault("path", "/held")
    params = fcgi.params_for(method="POST", body=b"go", **how)
    params["TEST_CASE"] = "G6"
    peer.send(fcgi.begin() + fcgi.stream(fcgi.PARAMS, fcgi.pairs(params)))
    peer.until(b"first")
    return peer


def release(peer):
    peer.send(fcgi.stream(fcgi.STDIN, b"go"))
    peer.until(b"second")
    assert peer.answer().complete
    peer.close()


def http_get(server, path, method="GET"):
    """(status, headers, body as text)"""
    connection = http.client.HTTPConnection(*server.status_address,
                                            timeout=TIMEOUT)
    try:
        connection.request(method, path)
        response = connection.getresponse()
        return response.status, response.headers, response.read().decode()
    finally:
        connection.close()


# Consistency

def load(server, stop, errors, count=4):
    def client():
        try:
            while not stop.is_set():
                assert hello(server)
        except BaseException as e:
            errors.append(e)
    threads = [threading.Thread(target=client) for _ in range(count)]
    for t in threads:
        t.start()
    return threads


def check_counts(status, shape, workers_at_most):
    """What must be true whenever one looks; returns what only grows."""
    pool, = status["pools"]
    for totals in (status["totals"], pool["totals"]):
        workers, threads = totals["workers"], totals["threads"]
        assert workers["total"] == ctl.count(workers)
        assert workers["total"] == len(pool["workers"])
        assert workers["idle"] + workers["busy"] <= workers_at_most
        assert threads["total"] == ctl.count(threads)
        assert threads["total"] == shape.threads * (
            workers["total"] - workers["starting"])
        for state in ("idle", "busy", "starting", "stopping"):
            assert workers[state] == sum(
                w["state"] == state for w in pool["workers"])
    pids = [w["pid"] for w in pool["workers"] if w["pid"]]
    assert len(pids) == len(set(pids))
    buckets = list(totals["latency"]["up_to"].values())
    assert buckets == sorted(buckets)
    return buckets + [totals["requests"], totals["failures"],
                      totals["workers_ended"], totals["latency"]["seconds"]]


def test_counts_agree_at_every_poll(own, epoll_shape):
    """R087: under load, with workers being recycled all the time."""
    server, ask = own(workers=3, max_requests=25, max_recycling=1)
    stop, errors, polls, before = threading.Event(), [], [0], []
    threads = load(server, stop, errors)

    def poll():
        if polls[0] % 2:
            status = json.loads(http_get(server, "/status?json")[2])
        else:
            status = ask.status()
        # One more while it takes another one's place.
        grows = check_counts(status, epoll_shape, 3 + 1)
        assert all(a <= b for a, b in zip(before, grows))
        before[:] = grows
        polls[0] += 1
        return polls[0] >= 100 and status["totals"]["workers_ended"] >= 3
    try:
        wait_for(poll, "100 polls and some recycled workers", 4 * TIMEOUT)
    finally:
        stop.set()
        for t in threads:
            t.join()
    assert not errors, errors[0]


def test_requests_are_counted_exactly(own):
    server, ask = own(workers=2)
    for n in range(1, 11):
        assert hello(server)
        ask.wait_pool(lambda p: p["totals"]["requests"] == n)
    server.request(extra={"TEST_CASE": "fail"}, query="call,LookupError")
    server.expect_error("LookupError")
    found = ask.wait_pool(lambda p: p["totals"]["requests"] == 11)["totals"]
    assert found["failures"] == 1
    assert found["latency"]["up_to"]["+Inf"] == 11
    assert found["latency"]["seconds"] > 0
    series = ctl.metrics(ask("metrics"))
    assert series['forebay_requests_total{pool="main"}'] == 11
    assert series['forebay_request_failures_total{pool="main"}'] == 1
    assert series['forebay_request_duration_seconds_count{pool="main"}'] == 11


def test_slow_requests_are_in_the_right_bucket(own):
    server, ask = own()
    peer = hold(server)
    ask.wait_pool(lambda p: any(
        t["request"] and t["request_seconds"] > 0.3
        for w in p["workers"] for t in w["threads"]))
    release(peer)
    found = ask.wait_pool(lambda p: p["totals"]["requests"] == 1)["totals"]
    assert found["latency"]["up_to"]["0.25"] == 0
    assert found["latency"]["up_to"]["+Inf"] == 1
    assert found["latency"]["seconds"] > 0.3


# What is shown

def test_a_request_that_runs(own, epoll_shape):
    server, ask = own(workers=2)
    peer = hold(server, path="/held", query="a=b")
    found = ask.wait_pool(lambda p: any(
        t["state"] == "reading" for w in p["workers"] for t in w["threads"]))
    busy = [w for w in found["workers"] if w["state"] == "busy"]
    assert len(busy) == 1 and found["totals"]["workers"]["idle"] == 1
    assert len(busy[0]["threads"]) == epoll_shape.threads
    running = [t for t in busy[0]["threads"] if t["request"]]
    assert [t["request"] for t in running] == ["POST /held?a=b"]
    assert running[0]["state"] == "reading"
    assert "POST /held?a=b" in ask("status")
    release(peer)
    found = ask.wait_pool(lambda p: p["totals"]["workers"]["busy"] == 0)
    assert not any(t["request"] for w in found["workers"]
                   for t in w["threads"])


@pytest.mark.parametrize("uri", [
    bytes(range(1, 128)), bytes(range(128, 256)), b"/\xff\xfe\"\\\n\r\t",
    b"/before\0behind"], ids=["low", "high", "odd", "nul"])
def test_any_bytes_in_a_request(own, uri):
    server, ask = own()
    peer = hold(server, extra={"REQUEST_URI": uri})
    text = ask("status", "--json")
    thread, = [t for w in json.loads(text)["pools"][0]["workers"]
               for t in w["threads"] if t["request"]]
    want = "POST " + uri.partition(b"\0")[0].decode("latin-1")
    assert thread["request"] == want
    assert json.loads(http_get(server, "/status?json")[2])
    for line in ask("status").splitlines():
        assert len(line) <= 100 and line.isascii() and (
            line.isprintable() or not line)
    ctl.metrics(ask("metrics"))
    release(peer)


def test_memory_and_age(own):
    server, ask = own(workers=2)
    found = ask.pool()
    for worker in found["workers"]:
        assert 1 << 20 < worker["pss"] <= worker["rss"] < 1 << 32
        assert abs(worker["rss"] - proc.rss_bytes(worker["pid"])) < 1 << 24
        assert 0 <= worker["age"] < 1000
    assert found["template"]["pss"] > 0
    assert found["totals"]["pss"] >= sum(w["pss"] for w in found["workers"])
    series = ctl.metrics(ask("metrics"))
    assert series['forebay_memory_pss_bytes{pool="main"}'] > 1 << 20


@pytest.mark.parametrize("tcp", [False, True], ids=["unix", "tcp"])
def test_the_queue(own, epoll_shape, tcp):
    """Connections that nobody has accepted yet."""
    server, ask = own(workers=1, tcp=tcp, backlog=50)
    busy = [hold(server) for _ in range(epoll_shape.threads)]
    found = ask.pool()
    assert found["totals"]["workers"]["busy"] == 1
    listener, = found["listen"]
    assert listener["queue"] == 0
    assert listener["queue_limit"] == 50
    waiting = []
    for n in range(1, 6):
        peer = server.peer()
        peer.send(fcgi.encode(fcgi.params_for(
            "/", extra={"TEST_CASE": "hello"})))
        waiting.append(peer)
        ask.wait_pool(lambda p: p["listen"][0]["queue"] == n)
    series = ctl.metrics(ask("metrics"))
    length, = [v for k, v in series.items()
               if k.startswith("forebay_queue_length{")]
    assert length == 5
    assert "5 waiting of 50" in ask("status")
    for peer in busy:
        release(peer)
    for peer in waiting:
        assert peer.answer().text == "hello"
        peer.close()
    ask.wait_pool(lambda p: p["listen"][0]["queue"] == 0)


def test_a_queue_that_is_nearly_full(own, epoll_shape):
    server, ask = own(workers=1, backlog=4)
    busy = [hold(server) for _ in range(epoll_shape.threads)]
    waiting = [server.peer() for _ in range(4)]
    found = ask.wait_pool(lambda p: p["alarms"])
    assert "wait" in found["alarms"][0]["text"]
    for peer in busy:
        release(peer)
    for peer in waiting:
        peer.close()
    ask.wait_pool(lambda p: not p["alarms"])


# What is gone is not forgotten

def test_totals_survive_a_killed_worker(own):
    server, ask = own(workers=2)
    for _ in range(20):
        assert hello(server)
    ask.wait_pool(lambda p: p["totals"]["requests"] == 20)
    for pid in server.wait_workers(2):
        os.kill(pid, signal.SIGKILL)
    server.errors_expected = True
    found = ask.wait_pool(
        lambda p: p["totals"]["workers_crashed"] == 2
        and p["totals"]["workers"]["idle"] == 2)
    assert found["totals"]["requests"] == 20
    assert found["totals"]["latency"]["up_to"]["+Inf"] == 20
    assert sum(w["requests"] for w in found["workers"]) == 0
    assert hello(server)
    ask.wait_pool(lambda p: p["totals"]["requests"] == 21)


def test_totals_survive_a_reload(own):
    server, ask = own(workers=2)
    for n in range(1, 4):
        for _ in range(5):
            assert hello(server)
        ask("reload")
        ask.wait_pool(lambda p: p["totals"]["workers"]["total"] == 2)
        assert ask.pool()["totals"]["requests"] == 5 * n
        assert ask.pool()["totals"]["workers_ended"] == 0


def test_a_lost_template(own):
    server, ask = own(workers=2)
    assert hello(server)
    ask.wait_pool(lambda p: p["totals"]["requests"] == 1)
    os.kill(server.template(), signal.SIGKILL)
    server.errors_expected = True
    found = ask.wait_pool(lambda p: p["templates_lost"] == 1
                          and p["state"] == "serving")
    assert found["totals"]["requests"] == 1
    assert found["template"]["generation"] == 2


# Alarms

def test_alarm_of_workers_that_die_again_and_again(own):
    """R082: later on there is a pause between two attempts, and the status
    says so."""
    server, ask = own(workers=1)
    server.errors_expected = True

    def killed_often():
        for pid in server.workers():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        return any("back-off" in a["text"] for a in ask.pool()["alarms"])
    wait_for(killed_often, "the alarm")
    assert "back-off" in ask("status")
    # And it is over once they live.
    found = ask.wait_pool(lambda p: not p["alarms"]
                          and p["totals"]["workers"]["idle"] == 1)
    assert found["totals"]["workers_crashed"] >= 2


def test_alarm_of_a_stopped_worker(own):
    server, ask = own(workers=1)
    pid, = server.wait_workers(1)
    os.kill(pid, signal.SIGSTOP)
    server.errors_expected = True
    found = ask.wait_pool(lambda p: p["alarms"])
    assert str(pid) in found["alarms"][0]["text"]
    os.kill(pid, signal.SIGCONT)
    ask.wait_pool(lambda p: not p["alarms"])


# status_listen

def test_answers_while_all_workers_are_busy(own, epoll_shape):
    server, ask = own(workers=2)
    busy = [hold(server, path="/held%d" % n)
            for n in range(2 * epoll_shape.threads)]
    server.address, address = server.status_address, server.address
    try:
        code, headers, text = http_get(server, "/status")
        assert code == 200 and headers["Content-Type"].startswith("text/plain")
        assert "0 idle, 2 busy" in text
        for n in range(len(busy)):
            assert "POST /held%d" % n in text
        code, headers, text = http_get(server, "/status?json")
        assert headers["Content-Type"] == "application/json"
        assert json.loads(text)["totals"]["workers"]["busy"] == 2
        assert ctl.metrics(http_get(server, "/metrics")[2])[
            'forebay_workers{pool="main",state="busy"}'] == 2
        assert http_get(server, "/ping")[2] == "pong\n"
        for protocol in ("fcgi", "scgi"):
            answer = server.request("/status", protocol=protocol)
            assert answer.status == 200 and answer.complete
            assert "0 idle, 2 busy" in answer.text
            answer = server.request("/status", query="json",
                                    protocol=protocol)
            assert json.loads(answer.body)["totals"]["workers"]["busy"] == 2
            assert ctl.metrics(server.request("/metrics",
                                              protocol=protocol).text)
            assert server.request("/ping", protocol=protocol).text == "pong\n"
    finally:
        server.address = address
    for peer in busy:
        release(peer)


@pytest.mark.parametrize("protocol", ["fcgi", "scgi"])
def test_requests_of_all_kinds(own, protocol):
    server, _ = own()

    def request(*args, **how):
        params = fcgi.params_for(*args, **how)
        return fcgi.request(server.status_address, params,
                            how.get("body") or b"", protocol)
    assert request("/fcgi-status/ping").text == "pong\n"
    assert request("", extra={"SCRIPT_NAME": "/ping"}).text == "pong\n"
    assert request("", extra={"REQUEST_URI": "/ping?x=/y",
                              "DOCUMENT_URI": ""}).text == "pong\n"
    answer = request("/ping", method="HEAD")
    assert answer.status == 200 and answer.body == b""
    assert answer.header("Content-Length") == "5"
    answer = request("/ping", method="POST", body=b"x" * 100_000)
    assert answer.status == 405 and answer.complete
    answer = request("/nothing")
    assert answer.status == 404 and "/metrics" in answer.text
    answer = request("/ping", headers=[("X-Big", "b" * 100_000)])
    assert answer.status == 431 and answer.complete


def test_http_methods(own):
    server, _ = own()
    code, headers, text = http_get(server, "/metrics", "HEAD")
    assert code == 200 and text == ""
    assert int(headers["Content-Length"]) > 1000
    assert headers["Cache-Control"] == "no-store"
    assert http_get(server, "/ping", "DELETE")[0] == 405
    assert http_get(server, "/")[0] == 404


def test_management_records_are_answered_at_once(own):
    server, _ = own()
    with fcgi.Peer(server.status_address) as peer:
        for _ in range(3):
            peer.send(fcgi.record(fcgi.GET_VALUES, fcgi.pairs(
                {"FCGI_MPXS_CONNS": ""}), 0))
            type_, id_, content, _ = peer.record()
            assert (type_, id_) == (fcgi.GET_VALUES_RESULT, 0)
            assert content == fcgi.pair("FCGI_MPXS_CONNS", "0")
        peer.send(fcgi.encode(fcgi.params_for("/ping"), id_=7))
        assert peer.answer(7).text == "pong\n"


def test_kept_connections(own):
    """One request after the other, some sent before the answer to the one in
    front is there, with and without a body, and with no STDIN at all."""
    server, _ = own()

    def encode(id_, **how):
        return fcgi.encode(fcgi.params_for("/ping", body=how.get("body")),
                           flags=fcgi.KEEP_CONN, id_=id_, **how)
    with fcgi.Peer(server.status_address) as peer:
        for id_ in (1, 1, 2):
            peer.send(encode(id_))
            assert peer.answer(id_, keep=True).text == "pong\n"
        peer.send(encode(1, body=b"x" * 200_000) + encode(2)
                  + encode(3, body=b"", stdin=False) + encode(4))
        found = peer.answers([1, 2, 3, 4], keep=True)
        assert [found[n].text for n in (1, 2, 3, 4)] == ["pong\n"] * 4
        big = fcgi.encode(fcgi.params_for("/status", query="json"),
                          flags=fcgi.KEEP_CONN, id_=1)
        for _ in range(50):     # more than fits into the socket
            peer.send(big, receive=False)
        for _ in range(50):
            assert json.loads(peer.answer(1, keep=True).body)
        peer.send(fcgi.encode(fcgi.params_for("/ping")))
        assert peer.answer().text == "pong\n"


@pytest.mark.parametrize("kind", fe.CONNECTING, ids=lambda k: k.__name__)
def test_behind_a_front_end(serve, kind):
    why = kind.why_not()
    if why:
        pytest.skip(why)
    port = srv.free_port()
    serve("app:application", chdir=CHECKLIST, workers=2,
          status_listen="127.0.0.1:%d" % port)
    front = kind(("127.0.0.1", port))
    try:
        front.start()
        for _ in range(3):
            code, _, body = front.request("/status?json")
            assert code == 200
            assert json.loads(body)["totals"]["workers"]["total"] == 2
            code, _, body = front.request("/below/this/metrics")
            assert code == 200 and ctl.metrics(body.decode())
            assert front.request("/ping")[2] == b"pong\n"
        front.stop()
    finally:
        front.close()


def test_on_a_unix_socket(serve, folder):
    path = os.path.join(folder, "status")
    serve("app:application", chdir=CHECKLIST, workers=1, socket_mode="0640",
          status_listen="unix:" + path)
    assert os.stat(path).st_mode & 0o777 == 0o640
    assert fcgi.request(path, fcgi.params_for("/ping")).text == "pong\n"


def test_an_address_in_use(fails):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        s.listen()
        port = s.getsockname()[1]
        code, log = fails("app:application", chdir=CHECKLIST,
                          status_listen="127.0.0.1:%d" % port)
    assert code == 69
    assert "status_listen" in log and str(port) in log


def test_clients_that_misbehave(own):
    """Silent, slow, too many, nonsense: others are answered all the same, and
    nothing is left of them."""
    server, ask = own(workers=2)
    assert hello(server)
    assert http_get(server, "/ping")[0] == 200
    before = len(proc.fds(server.pid))
    crowd = []
    for n in range(150):
        s = socket.create_connection(server.status_address)
        s.settimeout(TIMEOUT)
        try:
            s.sendall([b"", b"GET /sta", b"GET /metrics HTTP/1.1\r\n\r\n",
                       b"\x01\x01\0\x01", b"70:", b"\x16\x03\x01\x05\xff",
                       b"\0" * 100][n % 7])
        except OSError:
            pass
        crowd.append(s)
    for path in ("/ping", "/status", "/metrics"):
        assert http_get(server, path)[0] == 200
    assert ask("ping") == "pong\n"
    assert hello(server)
    assert len(proc.fds(server.pid)) <= before + 64
    with socket.create_connection(server.status_address) as s:
        s.settimeout(TIMEOUT)
        try:
            s.sendall(b"GET /" + b"a" * 1_000_000 + b" HTTP/1.1\r\n\r\n")
        except OSError:
            pass
        assert ctl.read_all(s)[:12] in (b"", b"HTTP/1.1 431")
    for s in crowd:
        s.close()
    wait_for(lambda: len(proc.fds(server.pid)) <= before,
             lambda: "their descriptors are closed: %r" % proc.fds(server.pid))


def test_no_descriptor_and_no_memory_is_lost(own):
    server, ask = own(workers=2)

    def everything():
        for path in ("/status", "/status?json", "/metrics", "/ping", "/none"):
            http_get(server, path)
            fcgi.request(server.status_address, fcgi.params_for(path))
            fcgi.request(server.status_address, fcgi.params_for(path),
                         protocol="scgi")
        for line in (b"status\n", b"status json\n", b"metrics\n", b"x\n"):
            ask.raw(line)
    for _ in range(20):
        everything()
    fds, memory = len(proc.fds(server.pid)), proc.rss_bytes(server.pid)
    for _ in range(60):
        everything()
    wait_for(lambda: len(proc.fds(server.pid)) <= fds,
             lambda: "no more than %d: %r" % (fds, proc.fds(server.pid)))
    if FACTOR == 1:     # a sanitizer keeps what was freed
        assert proc.rss_bytes(server.pid) < memory + (2 << 20)


def test_workers_do_not_get_the_managers_sockets(own, folder):
    server, ask = own(workers=2)
    waiting = [socket.socket(socket.AF_UNIX) for _ in range(3)]
    for s in waiting:
        s.connect(ask.path)
    ask("reload")
    with open("/proc/net/unix") as f:
        # A listening socket shows the name that it was first bound to.
        inodes = {line.split()[6] for line in f if folder in line}
    assert inodes
    for pid in [server.template()] + server.workers():
        links = set(proc.fds(pid).values())
        assert not links & {"socket:[%s]" % i for i in inodes}
    for s in waiting:
        s.close()
