# SPDX-License-Identifier: MIT
"""scripts/compare, as far as it needs no server: the recommendation with made
numbers, what is multiplied and what is left out, what other programs print."""

import io
import os
import sys

import pytest

from lib import server as srv

sys.path.insert(0, os.path.join(srv.TOP, "bench"))

from harness import (advice, generators, matrix, observe,       # noqa: E402
                     progress, report, results, svg, terminal)


def cell(label="forebay prefork 2", rps=1000.0, **more):
    """A row as results.cell_row() makes it."""
    row = {"label": label, "server": "forebay", "mode": "prefork",
           "workers": 2, "threads": 1, "protocol": "fcgi", "socket": "unix",
           "front": "nginx-kept", "keep": True, "clients": 16, "rounds": 3,
           "requests": 3000, "failed": 0, "failures": {}, "rps": rps,
           "rps_min": rps * 0.99, "rps_max": rps * 1.01, "p50_us": 1000.0,
           "p90_us": 2000.0, "p99_us": 4000.0, "max_us": 9000.0,
           "cpu_us": 100.0, "cpu_us_min": 99.0, "cpu_us_max": 101.0,
           "front_us": 20.0, "both_us": 120.0, "syscalls": 3.0,
           "front_syscalls": 10.0,
           "curve": [[0, 500.0], [50, 1000.0], [99, 4000.0], [100, 9000.0]]}
    row.update(more)
    return row


def threaded(rps, **more):
    return cell("forebay threaded 2x8", rps, **{
        "mode": "threaded", "threads": 8, **more})


def server(row, mb):
    found = {k: row[k] for k in ("label", "server", "mode", "workers",
                                 "threads", "socket")}
    found.update({name: None for name in results.SERVER_VALUES})
    found.update(pss_before_mb=mb * 0.8, pss_under_mb=mb, startup_ms=50.0)
    return found


def advise(cells, servers=()):
    return " | ".join(advice.recommend(list(cells), list(servers)))


def test_threads_cost_with_the_reason():
    a, b = cell(rps=1000.0), threaded(820.0, cpu_us=140.0, both_us=160.0)
    text = advise([a, b], [server(a, 310.0), server(b, 100.0)])
    assert "Take forebay prefork 2: 1000 requests per second" in text
    assert "Threads (forebay threaded 2x8) cost you 18 % of the rate" in text
    assert "pass Python's lock to each other: 140 instead of 100" in text
    assert "Processes need 3.1 times the memory of threads: 310 MB " \
        "against 100 MB" in text


def test_fewer_processes_are_a_reason_of_their_own():
    a, b = cell(rps=1000.0, workers=4), threaded(500.0, workers=1)
    assert "only one thread of a process runs Python at a time, and there " \
        "are 1 processes instead of 4" in advise([a, b])


def test_threads_win_when_the_application_waits():
    alone = cell(clients=1, p50_us=20000.0, both_us=120.0)
    text = advise([alone, cell(rps=100.0), threaded(780.0)])
    assert "answer 7.8 times as much as processes" in text
    assert "a request waits for 99 % of its time, and 16 requests can wait " \
        "at once instead of 2" in text
    assert "more threads or processes than processors" in text
    assert "lock" not in text


def test_what_the_rounds_cannot_tell_apart_is_the_same():
    a = cell(rps=1000.0, rps_min=900.0, rps_max=1100.0)
    b = threaded(930.0, rps_min=850.0, rps_max=1050.0)
    assert advice.same(a, b) and not advice.same(a, threaded(800.0))
    text = advise([a, b], [server(a, 200.0), server(b, 90.0)])
    assert "Take forebay threaded 2x8" in text      # the least memory
    assert "forebay prefork 2 is as good" in text
    assert "needs no less memory" in text
    assert "answer equally fast here" in text
    # The same medians, with rounds that are close together.
    text = advise([cell(rps=1000.0), threaded(930.0)],
                  [server(a, 200.0), server(b, 90.0)])
    assert "Take forebay prefork 2" in text and "cost you 7 %" in text


@pytest.mark.parametrize("kept, says", [(60.0, True), (118.0, False)])
def test_keeping_upstream_connections(kept, says):
    text = advise([cell(front="nginx", both_us=120.0),
                   cell(front="nginx-kept", both_us=kept)])
    assert ("fastcgi_keep_conn on" in text) == says
    if says:
        assert "saves 50 % of the CPU time of both together, 60 instead of " \
            "120" in text


def test_protocols_and_sockets():
    text = advise([cell(front="nginx", both_us=100.0),
                   cell("forebay prefork 2 SCGI", protocol="scgi",
                        front="nginx", both_us=80.0, rps=900.0)])
    assert "SCGI costs 20 % less CPU time than FastCGI behind nginx" in text
    text = advise([cell(both_us=75.0), cell(both_us=100.0, socket="tcp")])
    assert "A unix socket costs 25 % less CPU time than TCP" in text


def test_saturation():
    cells = [cell(clients=1, rps=900.0), cell(clients=16, rps=1000.0),
             cell(clients=64, rps=1010.0, p50_us=4000.0)]
    assert "More than 16 connections at once bring nothing more: at 64 the " \
        "rate is +1 %" in advise(cells)
    cells[2]["rps"] = 1500.0
    assert "bring nothing more" not in advise(cells)


def test_peers_are_compared_behind_the_same_front_end():
    ours = [cell(rps=1000.0), cell(front="lighttpd", rps=400.0,
                                   both_us=300.0)]
    theirs = [cell("uWSGI fastcgi 2", 500.0, server="uwsgi-fastcgi",
                   front="nginx", both_us=240.0),
              cell("uWSGI scgi 2", 800.0, server="uwsgi-scgi",
                   front="lighttpd", both_us=150.0),
              cell("mod_wsgi daemon 2", 250.0, server="mod_wsgi-daemon",
                   front="itself", both_us=480.0)]
    text = advise(ours + theirs)
    assert "forebay answers 2.0 times as many requests as uWSGI fastcgi 2 " \
        "(behind nginx); its CPU time, with the front end's, is 0.50" in text
    assert "forebay answers 50 % fewer requests than uWSGI scgi 2 (behind " \
        "lighttpd); its CPU time, with the front end's, is 2.00" in text
    assert "4.0 times as many requests as mod_wsgi daemon 2 (as its own " \
        "front end)" in text


def test_failures_are_named_and_never_recommended():
    bad = cell(rps=5000.0, failed=7, failures={"content": 5, "refused": 2})
    text = advise([bad, threaded(500.0)])
    assert "Take forebay threaded 2x8" in text
    assert "forebay prefork 2 failed 7 of 3000 requests behind nginx with " \
        "kept connections at 16 connections (content: 5, refused: 2)" in text
    text = advise([bad])
    assert "Nothing can be recommended" in text and "failed 7" in text
    assert advice.recommend([], []) == []


def test_noise_is_said_first():
    wild = cell(rps_min=500.0, rps_max=1500.0)
    assert advice.recommend([wild], [])[0].startswith("The rounds are far")
    assert "far apart" not in advise([wild, cell(), cell()])


def test_noise_leaves_the_cpu_times():
    """Rates of such rounds are not compared, and nothing is concluded from
    how long a request took."""
    far = {"rps_min": 100.0, "rps_max": 3000.0}
    alone = cell(clients=1, p50_us=50000.0, **far)
    a = cell(rps=500.0, **far)
    b = threaded(1500.0, cpu_us=150.0, both_us=170.0, **far)
    c = cell("uWSGI fastcgi 2", 50.0, server="uwsgi-fastcgi", front="nginx",
             both_us=240.0, **far)
    text = advise([alone, a, b, c], [server(a, 90.0), server(b, 30.0)])
    assert "Take forebay prefork 2: 120 CPU microseconds" in text
    assert "need 50 % more CPU time than processes (forebay prefork 2) " \
        "here: 150 against 100 microseconds" in text
    assert "forebay needs 0.50 of the CPU time of uWSGI fastcgi 2 (behind " \
        "nginx)" in text
    assert "times as many" not in text and "waits" not in text
    assert "Processes need 3.0 times the memory" in text


# What is multiplied


class Options:
    fronts = ["none", "nginx", "nginx-kept"]
    sockets, protocols, keeps = ["unix"], ["fcgi"], [True]
    shapes = matrix.shapes(["prefork", "threaded"], [2], [8], "unix")
    hello = True

    def __init__(self, **more):
        self.__dict__.update(more)


def places(plan, name):
    return [(p.target.shape.text, p.protocol, p.front, p.keep)
            for p in plan.paths if p.target.name == name]


def test_the_matrix_multiplies():
    plan = matrix.make(Options(keeps=[True, False],
                               sockets=["unix", "tcp"]), [])
    # 2 shapes, 2 sockets, 3 front ends, 2 kinds of clients.
    assert len(plan.paths) == 24 and len(plan.targets) == 4
    assert len({p.label for p in plan.paths}) == 4
    assert plan.left_out == []


def test_interpreters_are_a_shape_of_forebay_only():
    shapes = matrix.shapes(["prefork", "interpreters"], [1], [2, 4], "unix")
    plan = matrix.make(Options(shapes=shapes), ["uwsgi-fastcgi"])
    assert [t.label for t in plan.targets] == [
        "forebay prefork 1", "forebay interpreters 1x2",
        "forebay interpreters 1x4", "uWSGI fastcgi 1"]
    assert [t.shape.mode for t in plan.targets][1] == "interpreters"


def test_scgi_has_no_kept_connections():
    plan = matrix.make(Options(protocols=["fcgi", "scgi"],
                               keeps=[True, False]), [])
    scgi = [p for p in plan.paths if p.protocol == "scgi"]
    assert {(p.front, p.keep) for p in scgi} == {
        ("none", False), ("nginx", True), ("nginx", False)}
    assert len(plan.targets) == 2       # one server for both protocols
    assert plan.left_out == [
        ("forebay SCGI " + place, "its protocol has no kept connections")
        for place in ("directly", "behind nginx-kept")]


def test_peers_get_the_shapes_that_they_have():
    plan = matrix.make(Options(), ["uwsgi-fastcgi", "gunicorn-sync",
                                   "gunicorn-gthread", "mod_wsgi-daemon",
                                   "front-alone"])
    assert {p[0] for p in places(plan, "uwsgi-fastcgi")} == {"2", "2x8"}
    assert {p[0] for p in places(plan, "gunicorn-sync")} == {"2"}
    assert {p[0] for p in places(plan, "gunicorn-gthread")} == {"2x8"}
    assert {p[2] for p in places(plan, "mod_wsgi-daemon")} == {"itself"}
    assert [p.front for p in plan.paths if p.target.kind is None] == ["nginx"]
    assert ("uWSGI fastcgi behind nginx-kept",
            "it closes each connection") in plan.left_out


def test_what_cannot_be_compared_is_named():
    plan = matrix.make(Options(hello=False), ["php-fpm", "libfcgi-c"])
    assert [what for what, _ in plan.left_out] == ["php-fpm", "libfcgi-c"]
    plan = matrix.make(Options(shapes=matrix.shapes(["threaded"], [2], [8],
                                                    "unix")), ["php-fpm"])
    assert plan.left_out == [("php-fpm",
                              "it has none of the shapes of this run")]
    plan = matrix.make(Options(), ["forebay-libfcgi"])
    assert ("forebay engine=libfcgi behind nginx-kept", "a kept connection "
            "owns a worker of it: others would time out") in plan.left_out
    direct = next(p for p in plan.paths if p.front == "none" and
                  p.target.name == "forebay-libfcgi")
    assert matrix.too_many(direct.target.kind, direct, 3)
    assert matrix.too_many(direct.target.kind, direct, 2) is None


# What other programs print


def test_calls_that_strace_counts():
    text = """% time     seconds  usecs/call     calls    errors syscall
------ ----------- ----------- --------- --------- ----------------
 52.45    0.001286           6       201           epoll_wait
 47.55    0.001166           5       200        12 recvfrom
------ ----------- ----------- --------- --------- ----------------
100.00    0.002452           6       401        12 total
"""
    assert observe.count_calls(text) == 401
    assert observe.count_calls("") == 0


class App:
    uri, method, length = "/", "GET", 14
    reference = {"status": 200}


def load(**more):
    return generators.Load("127.0.0.1:80", "http", True, 4, None, 100,
                           App())._replace(**more)


AB = """Document Length:        %d bytes
Time taken for tests:   0.250 seconds
Complete requests:      100
Failed requests:        %d
   (Connect: 0, Receive: 0, Length: %d, Exceptions: 0)
%s"""


@pytest.mark.parametrize("length, failed, more, bad", [
    (14, 0, "", 0), (14, 3, "", 3), (13, 0, "", 100),
    (14, 0, "Non-2xx responses:      40\n", 40)])
def test_ab_is_understood(tmp_path, length, failed, more, bad):
    table = tmp_path / "ab.csv"
    table.write_text("Percentage served,Time in ms\n0,0.1\n50,0.5\n90,0.9\n"
                     "99,1.5\n100,2.0\n")
    found = generators.Ab().parse(AB % (length, failed, failed, more),
                                  str(table), load())
    assert found["failed"] == bad and found["ok"] == 100 - bad
    assert found["latency_us"]["p50"] == 500
    assert found["latency_us"]["max"] == 2000
    assert found["rps"] == found["ok"] / 0.25


def test_ab_reads_behind_the_end_with_few_requests(tmp_path):
    table = tmp_path / "ab.csv"
    table.write_text("Percentage served,Time in ms\n50,0.5\n99,77.0\n"
                     "100,2.0\n")
    found = generators.Ab().parse(
        (AB % (14, 0, 0, "")).replace("requests:      100",
                                      "requests:      20"),
        str(table), load())
    assert found["latency_us"]["p99"] == 2000


def h2load(tmp_path, data, statuses):
    log = tmp_path / "h2load.tsv"
    log.write_text("".join("1\t%s\t%d\n" % (s, 100 + i)
                           for i, s in enumerate(statuses)))
    text = ("finished in 50.00ms, 2000.00 req/s, 1MB/s\nrequests: 100 total,"
            " 100 started, 100 done, 100 succeeded, 0 failed, 0 errored, 0 "
            "timeout\ntraffic: 1KB (1000) total, 1KB (1) headers (space "
            "savings 0.00%%), 1KB (%d) data\n" % data)
    return generators.H2load.parse(text, str(log), load())


def test_h2load_is_understood(tmp_path):
    found = h2load(tmp_path, 1400, ["200"] * 100)
    assert (found["ok"], found["failed"]) == (100, 0)
    assert found["rps"] == pytest.approx(2000)
    found = h2load(tmp_path, 1400, ["200"] * 90 + ["502"] * 10)
    assert (found["ok"], found["failed"]) == (90, 10)
    found = h2load(tmp_path, 1399, ["200"] * 100)
    assert (found["ok"], found["failed"]) == (0, 100)


# Progress and plots


def test_the_estimate_learns():
    now = [0.0]
    bar = progress.Progress(100, io.StringIO(), lambda: now[0])
    assert bar.left_s() == 100
    now[0] = 20.0
    bar.done(10)        # twice as slow as thought
    assert bar.left_s() == 180
    assert progress.duration_text(59.6) == "1 min 00 s"
    assert progress.duration_text(7260) == "2 h 01 min"


@pytest.mark.parametrize("top", [0, 0.3, 1, 7, 99, 1234, 5e6])
def test_ticks_reach_over_the_values(top):
    ticks = svg.linear_ticks(top)
    assert ticks[0] == 0 and ticks[-1] >= top and 2 <= len(ticks) <= 8
    if top:
        ticks = svg.log_ticks(top / 50, top)
        assert ticks[0] <= top / 50 and ticks[-1] >= top
        assert ticks == sorted(set(ticks)) and len(ticks) > 1


def document(cells):
    servers = [server(c, 20.0) for c in cells]
    return {"cells": cells, "servers": servers, "left_out": [],
            "broken": [["forebay <x>", "it answers <b>wrong</b>"]],
            "notes": [], "recommendation": advice.recommend(cells, servers),
            "settings": {"application": "<app>", "method": "GET", "uri": "/",
                         "rounds": 3, "duration_s": 1.0,
                         "load": "forebay-load", "checked": "all"},
            "machine": {"date": "now", "processors": 2, "model": "x & y",
                        "kernel": "6", "load_average": 0.5}}


def test_the_report_escapes_and_needs_no_network(tmp_path):
    path = tmp_path / "report.html"
    report.write(document([cell(), threaded(500.0)]), str(path))
    text = path.read_text()
    assert "&lt;app&gt;" in text and "<b>wrong" not in text
    assert "x &amp; y" in text
    assert "<script" not in text and "http:" not in text
    assert "https:" not in text and "url(" not in text and "@import" not in \
        text
    assert text.count("<svg") >= 4


def test_the_terminal_shows_what_the_document_says():
    out = io.StringIO()
    terminal.write(document([cell(rps=1234.0), threaded(
        500.0, failed=3, failures={"content": 3})]), out)
    text = out.getvalue()
    assert "1234" in text and "Take forebay prefork 2" in text
    assert "Did not work" in text and "forebay <x>" in text
