# SPDX-License-Identifier: MIT
"""What is measured, and the bars: at most so many times uWSGI's cost ("least"
bars: at least). The first number of a bar is what the server was built to, the
second the goal after tuning; None: no bar."""
import contextlib

from . import frontends, servers
from .frontends import Backend
from .measure import Beside, Contender, Loop, load, rounds, summary

HELLO = ("--check-length", 14, "--check-prefix", "Hello, world!")
PICTURE = ("--check-length", 313 * 1024)
WORKLOADS = {}


def workload(name, title, requests):
    def register(function):
        function.title, function.requests = title, requests
        WORKLOADS[name] = function
        return function
    return register


@contextlib.contextmanager
def started(*made):
    """Servers, all of which listen; stopped at the end."""
    try:
        for server in made:
            server.wait_ready()
        yield made
    finally:
        for server in made:
            server.stop()


def compare(setup, contenders, requests, accept_failures=False):
    requests = max(int(requests * setup.scale), 50)
    rounds(setup, contenders, requests, setup.rounds, accept_failures)
    return [summary(c) for c in contenders]


def direct(label, server, options, protocol="fcgi", keep=False, clients=16,
           **more):
    """A contender without a front end. One socket serves both protocols of
    forebay."""
    address = server.sockets.get(protocol, server.sockets["fcgi"])
    options = ["-c", clients, *options]
    if protocol != "fcgi":
        options += ["--protocol", protocol]
    if keep:
        options.append("--keep")
    return Contender(label, server, address, options, **more)


def page(setup, app, options, bar, requests, clients=16, floor=None):
    """forebay and uWSGI with one application, and a floor: an answer of
    peers/bare.c, or "loop", the application alone."""
    with contextlib.ExitStack() as stack:
        def start(server):
            return stack.enter_context(started(server))[0]
        ours = start(servers.forebay("forebay", setup, app))
        theirs = start(servers.uwsgi("uwsgi", setup, app))
        contenders = [
            direct("forebay", ours, options, bars={"cpu_us": bar},
                   clients=clients),
            direct("forebay, kept", ours, options, keep=True,
                   clients=clients),
            direct("uWSGI fastcgi", theirs, options, reference=True,
                   clients=clients)]
        if floor == "loop":
            contenders.append(Loop("the application alone", app))
        elif floor:
            contenders.append(direct(
                "bare C", start(servers.bare("bare", setup, floor)),
                [o for o in options if o != "--check-echo"],
                clients=clients))
        return compare(setup, contenders, requests)


@workload("hello", "hello, 16 connections", 30000)
def hello(setup, requests):
    engine = servers.forebay("engine", setup, "hello",
                             options=["--engine", "libfcgi"])
    with started(servers.forebay("forebay", setup, "hello"), engine,
                 servers.uwsgi("uwsgi", setup, "hello"),
                 servers.libfcgi("libfcgi", setup),
                 servers.bare("bare", setup, "hello")) as (
                     ours, classic, theirs, c_only, bare):
        return compare(setup, [
            direct("forebay, new", ours, HELLO,
                   bars={"cpu_us": (0.60, 0.60)}),
            direct("forebay, SCGI", ours, HELLO, "scgi",
                   bars={"cpu_us": (None, 0.58)}),
            direct("forebay, kept", ours, HELLO, keep=True,
                   bars={"cpu_us": (0.33, 0.30)}),
            direct("forebay engine=libfcgi", classic, HELLO),
            direct("forebay engine=libfcgi, kept, c=2", classic, HELLO,
                   keep=True, clients=2),
            direct("uWSGI fastcgi", theirs, HELLO, reference=True),
            direct("uWSGI scgi", theirs, HELLO, "scgi"),
            direct("C and libfcgi", c_only, HELLO),
            direct("C and libfcgi, kept, c=2", c_only, HELLO, keep=True,
                   clients=2),
            direct("bare C", bare, HELLO),
        ], requests)


def threaded(setup, requests, clients):
    with started(servers.forebay("forebay", setup, "hello", threads=8),
                 servers.uwsgi("uwsgi", setup, "hello", threads=8)) as (
                     ours, theirs):
        return compare(setup, [
            direct("forebay 2x8", ours, HELLO, clients=clients,
                   bars={"cpu_us": (None, 0.70)}),
            direct("forebay 2x8, kept", ours, HELLO, keep=True,
                   clients=clients),
            direct("uWSGI fastcgi 2x8", theirs, HELLO, clients=clients,
                   reference=True),
        ], requests)


@workload("threads", "hello, threaded 2x8, 16 connections", 20000)
def threads(setup, requests):
    return threaded(setup, requests, 16)


@workload("threads-1", "hello, threaded 2x8, one at a time", 10000)
def threads_1(setup, requests):
    return threaded(setup, requests, 1)


@workload("one", "hello, one at a time", 10000)
def one(setup, requests):
    return page(setup, "hello", HELLO, (None, None), requests, clients=1)


@workload("nginx", "hello behind nginx, 32 clients that keep", 30000)
def behind_nginx(setup, requests):
    options = ["-c", 32, "--keep", "--protocol", "http", *HELLO]
    with started(servers.forebay("forebay", setup, "hello"),
                 servers.uwsgi("uwsgi", setup, "hello")) as (ours, theirs):
        front = frontends.nginx("nginx", setup, {
            "kept": Backend(ours.sockets["fcgi"], kept=True),
            "new": Backend(ours.sockets["fcgi"]),
            "uwsgi": Backend(theirs.sockets["fcgi"])})
        with started(front):
            return compare(setup, [
                Contender("nginx (kept) + forebay", ours,
                          front.sockets["kept"], options, front=front,
                          bars={"rps": (None, 2.0), "both_us": (None, 0.43)}),
                Contender("nginx (new) + forebay", ours,
                          front.sockets["new"], options, front=front),
                Contender("nginx + uWSGI fastcgi", theirs,
                          front.sockets["uwsgi"], options, front=front,
                          reference=True),
            ], requests)


@workload("pyramid", "Pyramid and Jinja2, 10 KB", 2000)
def pyramid(setup, requests):
    return page(setup, "pyramid_page", ("--check-prefix", "<!DOCTYPE html>"),
                (0.72, 0.70), requests, floor="loop")


@workload("django", "Django, 15 SQLite queries", 400)
def django(setup, requests):
    return page(setup, "django_page", ("--check-prefix", "<!DOCTYPE html>"),
                (None, 0.88), requests, floor="loop")


@workload("chunks", "1 MB in 64 chunks", 2000)
def chunks(setup, requests):
    return page(setup, "chunks", ("--check-length", 1 << 20), (0.60, 0.55),
                requests, clients=4, floor="chunks")


@workload("echo", "echo of 64 KB", 15000)
def echo(setup, requests):
    return page(setup, "echo", ("--body-size", 65536, "--check-length", 65536,
                                "--check-echo"), (0.55, 0.50), requests,
                floor="echo")


@workload("post", "POST of 10 MB", 200)
def post(setup, requests):
    return page(setup, "post", ("--body-size", 10 << 20, "--check-prefix",
                                "10485760\n"), (0.55, 0.48), requests,
                clients=4, floor="post")


@workload("picture", "313 KB by file_wrapper", 8000)
def picture(setup, requests):
    return page(setup, "picture", PICTURE, (None, 0.70), requests, clients=4,
                floor=setup.env["BENCH_PICTURE"])


@workload("accel", "313 KB by X-Accel-Redirect", 8000)
def accel(setup, requests):
    """The server's own cost against that of its sending the file itself."""
    redirect = ["--uri", "/accel"]
    http = ["-c", 4, "--keep", "--protocol", "http", *PICTURE]
    with started(servers.forebay("forebay", setup, "picture"),
                 servers.uwsgi("uwsgi", setup, "picture")) as (ours, theirs):
        front = frontends.nginx("nginx", setup, {
            "kept": Backend(ours.sockets["fcgi"], kept=True),
            "uwsgi": Backend(theirs.sockets["fcgi"])})
        with started(front):
            return compare(setup, [
                direct("forebay, redirect, kept", ours,
                       redirect + ["--check-length", 0], keep=True,
                       bars={"cpu_us": (None, 0.10)}),
                direct("uWSGI fastcgi, file_wrapper", theirs, PICTURE,
                       clients=4, reference=True),
                Contender("nginx (kept) + forebay, redirect", ours,
                          front.sockets["kept"], http + redirect,
                          front=front),
                Contender("nginx + uWSGI, redirect", theirs,
                          front.sockets["uwsgi"], http + redirect,
                          front=front),
                Contender("nginx + uWSGI, file_wrapper", theirs,
                          front.sockets["uwsgi"], http, front=front),
            ], requests)


@workload("c1000", "hello, 1,000 connections, everything by default", 4000)
def c1000(setup, requests):
    with started(servers.forebay("forebay", setup, "hello"),
                 servers.uwsgi("uwsgi", setup, "hello", options=())) as (
                     ours, theirs):
        return compare(setup, [
            direct("forebay, new", ours, HELLO, clients=1000,
                   bars={"failed": (0, 0)}),
            direct("forebay, kept", ours, HELLO, keep=True, clients=1000,
                   bars={"failed": (0, 0)}),
            direct("uWSGI fastcgi", theirs, HELLO, clients=1000,
                   reference=True),
        ], max(requests, 4000 / setup.scale), accept_failures=True)


@workload("mix", "hello beside one client that sleeps 20 ms per request",
          10000)
def mix(setup, requests):
    options = [*HELLO, "--slow-uri", "/slow"]
    with started(servers.forebay("forebay", setup, "sleeping"),
                 servers.uwsgi("uwsgi", setup, "sleeping")) as (ours, theirs):
        front = frontends.nginx("nginx", setup, {
            "kept": Backend(ours.sockets["fcgi"], kept=True)})
        with started(front):
            return compare(setup, [
                direct("forebay, kept", ours, options, keep=True, clients=15,
                       bars={"p99_us": (2000, 2000)}),
                direct("forebay, new", ours, options, clients=15),
                Contender("nginx (kept) + forebay", ours,
                          front.sockets["kept"],
                          ["-c", 15, "--keep", "--protocol", "http",
                           *options], front=front,
                          bars={"p99_us": (2000, 2000)}),
                direct("uWSGI fastcgi, new", theirs, options, clients=15,
                       reference=True),
            ], requests)


@workload("interval", "hello now and then, beside one client whose requests "
          "compute; one process, 4 threads", 100)
def interval(setup, requests):
    """What switch_interval does for a short request, and to a long one."""
    waits = ("5ms", "1ms", "200us")
    made = [servers.forebay("forebay-" + wait, setup, "computing", workers=1,
                            threads=4, options=["--switch-interval", wait])
            for wait in waits]
    uwsgi = servers.uwsgi("uwsgi", setup, "computing", workers=1, threads=4)
    with started(*made, uwsgi):
        return compare(setup, [
            *(Beside("forebay, switch_interval " + wait, server,
                     server.sockets["fcgi"], ["--keep", *HELLO])
              for wait, server in zip(waits, made)),
            Beside("uWSGI fastcgi", uwsgi, uwsgi.sockets["fcgi"], HELLO,
                   reference=True)], requests)


@workload("memory", "PSS of Django with 8 workers, all of them used", 1600)
def memory(setup, requests):
    options = ["-c", 64, "--check-prefix", "<!DOCTYPE html>"]
    rows = []
    for label, make, bar in (
            ("forebay", lambda n: servers.forebay(
                n, setup, "django_page", workers=8), (None, 0.47)),
            ("forebay --warmup /", lambda n: servers.forebay(
                n, setup, "django_page", workers=8,
                options=["--warmup", "/"]), (None, 0.47)),
            ("uWSGI fastcgi", lambda n: servers.uwsgi(
                n, setup, "django_page", workers=8), None)):
        with started(make("memory-%d" % len(rows))) as (server,):
            before = server.run_ns()
            load(setup, server.sockets["fcgi"], ["-n", requests, *options])
            after = server.run_ns()
            rows.append({
                "label": label, "reference": bar is None,
                "pss_mb": server.pss_kb() / 1024,
                "processes": len(after),
                "workers_used": sum(after[p] - before.get(p, 0) > 10000000
                                    for p in after),
                "bars": {} if bar is None else {"pss_mb": bar}})
    return rows
