# SPDX-License-Identifier: MIT
"""scripts/compare with real servers and very little load: what it writes
agrees, wrong answers are found however rare they are, what is missing is
named, and a browser shows the report."""

import contextlib
import csv
import importlib.util
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import uuid

import pytest

from lib import browser, frontends, proc
from lib import server as srv
from lib.wait import FACTOR, wait_for

sys.path.insert(0, os.path.join(srv.TOP, "bench"))

from harness import application, generators, servers       # noqa: E402
from harness import frontends as bench_frontends            # noqa: E402
from harness.frontends import Backend                       # noqa: E402
from harness.peers import FOREBAY, Shape                    # noqa: E402
from harness.setup import Setup                             # noqa: E402

COMPARE = os.path.join(srv.TOP, "scripts", "compare")
LOAD = os.path.join(srv.build_dir(), "bench", "forebay-load")
FAST = ["--rounds", "2", "--duration", "0.1", "--quiet", "--no-reload",
        "--workers", "1", "--threads", "2", "--concurrency", "1,4"]

pytestmark = pytest.mark.skipif(
    bool(srv.sanitized()), reason="numbers of a sanitizer's build say nothing")


def compare(*arguments, env=()):
    done = subprocess.run(
        ["/usr/bin/python3", COMPARE, *arguments], stdin=subprocess.DEVNULL,
        capture_output=True, text=True, timeout=240 * FACTOR,
        env=dict(os.environ, FOREBAY_BUILD=srv.build_dir(), **dict(env)))
    return done.returncode, done.stdout, done.stderr


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """One run with all outputs."""
    folder = tmp_path_factory.mktemp("compare")
    fronts = "none,nginx,nginx-kept" if frontends.find("nginx") else "none"
    names = {n: str(folder / ("out." + n)) for n in ("csv", "json", "html")}
    code, out, err = compare(
        *FAST, "--fronts", fronts, "--keep", "on,off", "--protocols",
        "fcgi,scgi", "--peers", "libfcgi-c,flup-fcgi-threads,front-alone",
        "--csv", names["csv"], "--json", names["json"], "--html",
        names["html"])
    assert code == 0, out + err
    with open(names["json"]) as f:
        return names, json.load(f), out


def test_every_path_is_measured_without_a_failure(measured):
    _, doc, out = measured
    assert doc["broken"] == []
    assert {c["label"] for c in doc["cells"]} >= {
        "forebay prefork 1 FCGI", "forebay prefork 1 SCGI",
        "forebay threaded 1x2 FCGI", "forebay threaded 1x2 SCGI"}
    for c in doc["cells"]:
        assert c["failed"] == 0 and c["requests"] > 0, c
        assert c["rps"] > 0 and c["rps_min"] <= c["rps"] <= c["rps_max"]
        assert 0 < c["p50_us"] <= c["p90_us"] <= c["p99_us"] <= c["max_us"]
        percents = [p for p, _ in c["curve"]]
        assert percents == sorted(percents) and percents[-1] == 100
        assert (c["front_us"] > 0) == (c["front"] != "none")
    assert "Recommendation" in out and doc["recommendation"]


def test_servers_are_looked_at_by_themselves(measured):
    _, doc, _ = measured
    assert len(doc["servers"]) == 3         # two of forebay, one in C
    for s in doc["servers"]:
        assert s["startup_ms"] > 0
        assert 0 < s["pss_before_mb"] <= s["rss_before_mb"]
        assert s["pss_under_mb"] >= s["pss_before_mb"] * 0.9


def test_system_calls_are_counted_or_the_reason_is_said(measured):
    _, doc, _ = measured
    if doc["notes"]:
        assert "strace" in doc["notes"][0]
        return
    kept = next(c for c in doc["cells"] if c["front"] == "none" and
                c["keep"] and c["mode"] == "prefork" and
                c["server"] == "forebay")
    assert 2 <= kept["syscalls"] < 10


def test_csv_and_json_agree(measured):
    names, doc, _ = measured
    with open(names["csv"], newline="") as f:
        rows = list(csv.DictReader(f))
    assert len(rows) == len(doc["cells"])
    for row, c in zip(rows, doc["cells"]):
        for name, text in row.items():
            if name in c:
                assert text == ("" if c[name] is None else str(c[name]))
        own = [s for s in doc["servers"] if s["server"] == c["server"] and
               s["workers"] == c["workers"] and s["threads"] == c["threads"]]
        assert row["pss_under_mb"] == (str(own[0]["pss_under_mb"]) if own
                                       else "")


def test_what_is_missing_is_named(measured):
    _, doc, out = measured
    if importlib.util.find_spec("flup") is None:
        assert any(what == "flup-fcgi-threads" and "flup" in why
                   for what, why in doc["left_out"])
        assert "flup-fcgi-threads" in out


def test_a_front_end_that_is_missing_is_named(tmp_path):
    """PATH without web servers."""
    (tmp_path / "strace").symlink_to("/bin/false")
    code, out, err = compare(
        *FAST, "--fronts", "none,lighttpd,nginx", "--peers",
        "uwsgi-fastcgi,mod_wsgi-daemon", "--dry-run",
        env={"PATH": str(tmp_path)})
    assert code == 0, err
    for name in ("lighttpd", "nginx", "uwsgi-fastcgi", "mod_wsgi-daemon"):
        assert "left out: %s: " % name in out
    assert "is not installed" in out


def left_over(mark):
    return [(p, proc.cmdline(p)) for p in proc.with_environ(mark)
            if proc.alive(p)]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_nothing_is_left_when_it_is_interrupted(tmp_path, number):
    mark = "FOREBAY_TEST_ID=" + uuid.uuid4().hex
    name, _, value = mark.partition("=")
    out_json = tmp_path / "out.json"
    folder = srv.temp_dir()     # short, for the names of sockets
    running = subprocess.Popen(
        ["/usr/bin/python3", COMPARE, "--peers", "none", "--fronts", "none",
         "--no-reload", "--no-syscalls", "--duration", "2", "--rounds",
         "100000", "--concurrency", "16", "--quiet", "--json",
         str(out_json)],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
        stderr=subprocess.PIPE, start_new_session=True,
        # A shell without job control leaves SIGINT ignored behind it.
        preexec_fn=lambda: signal.signal(signal.SIGINT,
                                         signal.default_int_handler),
        env=dict(os.environ, FOREBAY_BUILD=srv.build_dir(), TMPDIR=folder,
                 **{name: value}))
    try:
        wait_for(lambda: any("server-1.sock" in files for _, _, files
                             in os.walk(folder)), "both servers side by side",
                 60 * FACTOR)
        wait_for(lambda: any("-c 16" in line for _, line in left_over(mark)),
                 "a run that counts", 60 * FACTOR)
        # As a terminal does: to the whole group.
        os.killpg(running.pid, number)
        out, err = running.communicate(timeout=60 * FACTOR)
    except BaseException:
        for pid, _ in left_over(mark):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        running.wait()
        raise
    wait_for(lambda: not left_over(mark), lambda: repr(left_over(mark)))
    assert os.listdir(folder) == []
    os.rmdir(folder)
    if number == signal.SIGTERM:
        assert running.returncode == 143, err
        return
    assert running.returncode == 0, err
    doc = json.loads(out_json.read_text())
    assert "Interrupted" in doc["notes"][0] and "Interrupted" in out
    assert doc["cells"] or doc["recommendation"] == []


# Wrong answers

APP = """
import itertools
COUNT = itertools.count()
def application(environ, start_response):
    here = environ["SERVER_SOFTWARE"] not in ("one/1.0", "two/2.0")
    body = b"right" if not (here and %s) else %r
    start_response("200 OK", [("Content-Length", str(len(body)))])
    return [body]
"""


@pytest.mark.parametrize("wrong", [b"wrong", b"righ", b"right!"])
def test_a_server_that_answers_wrongly_is_not_measured(tmp_path, wrong):
    path = tmp_path / "app.py"
    path.write_text(APP % ("True", wrong))
    out_json = tmp_path / "out.json"
    code, out, _ = compare(*FAST, "--no-syscalls", "--modes", "prefork",
                           "--fronts", "none", "--peers", "none", "--json",
                           str(out_json), str(path))
    assert code == 1
    doc = json.loads(out_json.read_text())
    assert doc["cells"] == []
    assert doc["broken"][0][0].startswith("forebay prefork 1")
    assert "Did not work" in out and wrong.decode() in out


def test_an_answer_that_is_wrong_now_and_then_is_a_failure(tmp_path):
    path = tmp_path / "app.py"
    path.write_text(APP % ("next(COUNT) % 40 == 39", b"wrong"))
    out_json = tmp_path / "out.json"
    code, out, err = compare(
        *FAST, "--no-syscalls", "--modes", "prefork", "--fronts", "none",
        "--concurrency", "4", "--duration", "0.5", "--peers", "none",
        "--json", str(out_json), str(path))
    doc = json.loads(out_json.read_text())
    c, = doc["cells"]
    assert c["requests"] // 45 <= c["failed"] <= c["requests"] // 35 + 2
    assert c["failures"] == {"content": c["failed"]}
    assert "forebay prefork 1 failed %d of" % c["failed"] in " ".join(
        out.split())


# Each generator finds wrong answers


class Stand:
    """forebay with the hello workload behind nginx."""

    def __init__(self, folder):
        os.environ["FOREBAY_BUILD"] = srv.build_dir()
        self.setup = Setup(folder)
        self.app = application.Application("hello", folder)
        self.app.ask(self.setup)
        self.server = FOREBAY.start("server", self.setup, self.app,
                                    Shape(1, 1))
        self.front = bench_frontends.nginx("nginx", self.setup, {
            "": Backend(self.server.sockets["fcgi"], kept=True)})
        for one in (self.server, self.front):
            one.wait_ready()

    def load(self, **more):
        return generators.Load(self.front.sockets[""], "http", True, 2, None,
                               300, self.app)._replace(**more)

    def stop(self):
        self.front.stop()
        self.server.stop()


@pytest.fixture(scope="module")
def stand():
    if not frontends.find("nginx"):
        pytest.skip("nginx is not installed")
    folder = srv.temp_dir()
    found = Stand(folder)
    yield found
    found.stop()


@pytest.mark.parametrize("name", list(generators.GENERATORS))
def test_generators_count_and_check(stand, name):
    generate = generators.GENERATORS[name]
    try:
        generate.require()
    except servers.Missing as error:
        pytest.skip(str(error))
    # wrk knows a time only, in seconds.
    how = {"requests": None, "duration_ms": 1000} if name == "wrk" else {}
    found = generate(stand.setup, stand.load(**how))
    assert found["failed"] == 0 and found["ok"] >= (1 if how else 300)
    assert found["rps"] > 0
    assert 0 < found["latency_us"]["p50"] <= found["latency_us"]["max"]
    right = dict(stand.app.reference)
    expected = stand.app.body_file
    try:
        stand.app.reference["length"] = 15
        stand.app.body_file = stand.setup.write("other", "Hello, worlds!\n")
        found = generate(stand.setup, stand.load(**how))
        assert found["ok"] == 0 and found["failed"] >= 1, found
        stand.app.reference.update(right, status=204)
        stand.app.body_file = expected
        if name != "ab":        # it knows 2xx and others
            found = generate(stand.setup, stand.load(**how))
            assert found["ok"] == 0 and found["failed"] >= 1, found
    finally:
        stand.app.reference.clear()
        stand.app.reference.update(right)
        stand.app.body_file = expected


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize("body, good", [
    (b"5\r\nhello\r\n0\r\n\r\n", True),
    (b"2;x=y\r\nhe\r\n003\r\nllo\r\n0\r\nTrailer: x\r\n\r\n", True),
    (b"2\r\nhe\r\n3\r\nlxo\r\n0\r\n\r\n", False),       # another byte
    (b"4\r\nhell\r\n0\r\n\r\n", False),                 # too short
    (b"6\r\nhello!\r\n0\r\n\r\n", False),               # too long
    (b"5\r\nhello\r\n0\r\n", False),                    # cut off
    (b"5\r\nhelloX\n0\r\n\r\n", False),                 # no line end
    (b"g\r\nhello\r\n0\r\n\r\n", False),                # no number
])
@pytest.mark.parametrize("piece", [1, 7, 1000])
def test_the_load_generator_reads_chunks(tmp_path, body, good, piece):
    expected = tmp_path / "expected"
    expected.write_bytes(b"hello")
    with socket.create_server(("127.0.0.1", 0)) as listening:
        def serve():
            connection, _ = listening.accept()
            with connection:
                connection.setsockopt(socket.IPPROTO_TCP,
                                      socket.TCP_NODELAY, 1)
                connection.recv(65536)
                answer = CHUNKED + body
                # It closes as soon as it knows that the answer is wrong.
                with contextlib.suppress(ConnectionError):
                    for at in range(0, len(answer), piece):
                        connection.sendall(answer[at:at + piece])
        thread = threading.Thread(target=serve)
        thread.start()
        done = subprocess.run(
            [LOAD, "--connect", "127.0.0.1:%d" % listening.getsockname()[1],
             "--protocol", "http", "-n", "1", "--timeout", "20000",
             "--check-file", str(expected)], capture_output=True, text=True,
            timeout=60 * FACTOR)
        thread.join()
    assert (done.returncode == 0) == good, done
    assert json.loads(done.stdout)["ok"] == (1 if good else 0)


# The report in a browser

needs_browser = pytest.mark.skipif(browser.chromium() is None,
                                   reason="chromium is not installed")


@needs_browser
def test_a_browser_shows_the_report(measured, tmp_path):
    names, _, _ = measured
    shown = {}
    for dark in (False, True):
        png = str(tmp_path / ("dark.png" if dark else "light.png"))
        complaints = browser.screenshot(names["html"], png, dark=dark)
        assert complaints == []
        found = shown[dark] = browser.colours(png)
        assert len(found) > 100             # text, plots, colours
        assert max(found.values()) < 0.98   # and not one colour
    brightest = [max(s, key=s.get) for s in (shown[False], shown[True])]
    assert sum(brightest[0]) > 600 > 200 > sum(brightest[1])


@needs_browser
def test_a_broken_or_blank_page_would_be_found(tmp_path):
    page = tmp_path / "page.html"
    page.write_text("<!DOCTYPE html><title>x</title>"
                    "<script>nothing()</script>")
    png = str(tmp_path / "page.png")
    complaints = browser.screenshot(str(page), png)
    assert any("nothing is not defined" in c for c in complaints)
    assert len(browser.colours(png)) == 1
