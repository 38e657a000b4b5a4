# SPDX-License-Identifier: MIT
"""The five comparisons: what was published, and how it is built today. The
figures are facts; their authors' machines are not described."""
import os
import subprocess

from . import database, files, frontends
from .classic import AbLoad, Expected, Row
from .frontends import Backend
from .peers import FOREBAY, PEERS, Shape
from .servers import WORKLOADS, Missing

WHEN = "2007 to 2009, on a machine of that time"


class Definition:
    def __init__(self, name, title, about, published, loads, row_count,
                 build):
        self.name, self.title, self.about = name, title, about
        self.published = {"when": WHEN, **published}
        self.loads, self.row_count, self.build = loads, row_count, build


DEFINITIONS = []


def define(name, title, about, published, loads, row_count):
    def register(build):
        DEFINITIONS.append(Definition(name, title, about, published, loads,
                                      row_count, build))
        return build
    return register


def behind(stand, make, server, app, label, protocol="fcgi", kept=False):
    """A row of one server behind one front end, or none."""
    if server is None:
        return []
    front = stand.front(make, {"": Backend(server.sockets[protocol],
                                           protocol, kept)})
    if front is None:
        return []
    return [Row(label, front.sockets[""], expected(app), [server, front])]


def expected(app):
    return Expected(app.uri, app.length, app.body_file
                    if app.reference["same_body"] else None)


def itself(server, app, label, only=None):
    if server is None:
        return []
    return [Row(label, server.sockets["http"], expected(app), [server],
                only)]


# 1. A greeting


@define("greeting", "A greeting of 14 bytes by web.py",
        "nginx's own mod_wsgi is gone; Apache's stands for it, and forebay "
        "behind nginx beside it.",
        {"table": [
            ["", "req/s with -k", "without", "failed", "slowest ms"],
            ["nginx + mod_wsgi", "1030.93", "420.52", "", ""],
            ["lighttpd + FastCGI, bin-path, one process", "344.71",
             "248.94", "1 each", "855"]],
         "percentiles": True},
        [AbLoad(1000, 10, True), AbLoad(1000, 10)], 6)
def greeting(stand):
    app = stand.application("greeting")
    ours = stand.server(FOREBAY, app, Shape(1, 1))
    rows = bin_path(stand, app)
    rows += behind(stand, frontends.nginx, ours, app,
                   "nginx + forebay, one process")
    rows += behind(stand, frontends.nginx, ours, app,
                   "nginx + forebay, one process, kept", kept=True)
    rows += itself(stand.server(PEERS["mod_wsgi-daemon"], app, Shape(1, 10)),
                   app, "Apache + mod_wsgi, one process")
    for name in ("uwsgi-fastcgi", "flup-fcgi-threads"):
        rows += behind(stand, frontends.nginx, stand.server(
            PEERS[name], app, Shape(1, 10 if "flup" in name else 1)), app,
            "nginx + " + PEERS[name].name)
    return rows


def bin_path(stand, app):
    """lighttpd starts forebay itself."""
    command = stand.setup.write("bin-path.sh", (
        "#!/bin/sh\nexport %s\nexec %s run %s\n" % (
            " ".join("%s='%s'" % pair
                     for pair in stand.setup.env.items()),
            stand.setup.forebay, os.path.join(WORKLOADS,
                                              app.name + ".py"))))
    os.chmod(command, 0o755)
    front = stand.front(frontends.lighttpd,
                        {"": Backend(command, "bin-path")})
    if front is None:
        return []
    return [Row("lighttpd + forebay, bin-path, one process",
                front.sockets[""], expected(app), [front])]


# 2. Django with a database

DJANGO_TABLE = [
    ["mean ms", "-c 20", "-c 50 to 500", "memory"],
    ["mod_wsgi", "14.2", "", ""],
    ["prefork FastCGI, 40 to 50 processes", "12.5 to 16.5", "works",
     "300 MB more"],
    ["threaded FastCGI", "24 to 25", "dead", ""]]


def django(stand, host, port):
    """The application, filled; the environment of every server says where
    its database is."""
    stand.setup.env.update(database.environment(host, port))
    done = subprocess.run(
        [stand.setup.python, "-c", "import django, psycopg2"],
        capture_output=True)
    if done.returncode != 0:
        raise Missing("Django or psycopg2 is not installed (python3-django, "
                      "python3-psycopg2)")
    return stand.application("django_page")


def fill(setup, host, port):
    setup.env.update(database.environment(host, port))
    files.fill_database(setup)


def near_database(stand):
    postgres = stand.keep(database.Postgres(stand.setup, stand.own_name()))
    fill(stand.setup, postgres.host, postgres.port)
    return postgres


@define("django", "A Django page with 15 queries on PostgreSQL",
        "mean ms is the time of the run divided by its requests, as ab "
        "prints it.", {"table": DJANGO_TABLE},
        [AbLoad(1000, 20), AbLoad(10000, 500)], 6)
def django_near(stand):
    postgres = near_database(stand)
    app = django(stand, postgres.host, postgres.port)
    rows = []
    for shape, words in ((Shape(40, 1), "prefork, 40 processes"),
                         (Shape(1, 40), "one process of 40 threads")):
        ours = stand.server(FOREBAY, app, shape)
        rows += behind(stand, frontends.nginx, ours, app,
                       "nginx + forebay %s" % words, kept=True)
    rows += itself(stand.server(PEERS["mod_wsgi-daemon"], app, Shape(2, 15)),
                   app, "Apache + mod_wsgi, 2 processes of 15 threads")
    for name, shape in (("uwsgi-fastcgi", Shape(40, 1)),
                        ("flup-fcgi-processes", Shape(40, 1)),
                        ("flup-fcgi-threads", Shape(1, 40))):
        rows += behind(stand, frontends.nginx,
                       stand.server(PEERS[name], app, shape), app,
                       "nginx + %s" % PEERS[name].label(shape))
    return rows


FAR_MS = 1.0


def far_database(stand):
    """(postgres, host, port): in a namespace behind netem, or else behind a
    relay that delays."""
    try:
        network = database.Namespace(FAR_MS)
    except Missing as error:
        stand.notes.append(
            "The delay is made by a relay in Python, since a network "
            "namespace with netem cannot be had here (%s); its CPU time is "
            "not counted." % error)
        postgres = near_database(stand)
        server, port = database.relay(stand.setup, postgres, FAR_MS)
        stand.keep(server)
        return "127.0.0.1", port
    stand.stack.callback(network.remove)
    stand.notes.append("PostgreSQL runs in a network namespace of its own.")
    postgres = stand.keep(database.Postgres(
        stand.setup, stand.own_name(), network.far, network.inside))
    fill(stand.setup, postgres.host, postgres.port)
    return postgres.host, postgres.port


@define("django-far", "The same with the database on another, slow machine",
        "Each answer of the database comes %g ms later." % FAR_MS,
        {"table": [["mean ms", "-c 20"], ["prefork FastCGI", "28"],
                   ["mod_wsgi, 2 workers", "50"], ["Apache", "37"]]},
        [AbLoad(1000, 20)], 5)
def django_far(stand):
    app = django(stand, *far_database(stand))
    rows = []
    for shape, words in ((Shape(40, 1), "prefork, 40 processes"),
                         (Shape(1, 40), "one process of 40 threads")):
        rows += behind(stand, frontends.nginx,
                       stand.server(FOREBAY, app, shape), app,
                       "nginx + forebay %s" % words, kept=True)
    rows += itself(stand.server(PEERS["mod_wsgi-daemon"], app, Shape(2, 1)),
                   app, "Apache + mod_wsgi, 2 processes")
    rows += itself(stand.server(PEERS["mod_wsgi-embedded"], app,
                                Shape(2, 20)), app,
                   "Apache, mod_wsgi inside, 2 processes of 20 threads")
    rows += behind(stand, frontends.nginx, stand.server(
        PEERS["uwsgi-fastcgi"], app, Shape(40, 1)), app,
        "nginx + uWSGI fastcgi 40")
    return rows


# 3. A home page


@define("home-page", "A home page of 10 KB with a template",
        "Pyramid and Jinja2.",
        {"table": [["", "req/s"],
                   ["FastCGI, SCGI and proxy alike", "about 62"],
                   ["FastCGI with flup behind nginx, -c 500", "fell over"]]},
        [AbLoad(1000, 1), AbLoad(500, 500), AbLoad(5000, 100)], 6)
def home_page(stand):
    app = stand.application("pyramid_page")
    ours = stand.server(FOREBAY, app, Shape(2, 1))
    rows = behind(stand, frontends.nginx, ours, app,
                  "nginx + forebay, FastCGI")
    rows += behind(stand, frontends.nginx, ours, app,
                   "nginx + forebay, FastCGI, kept", kept=True)
    rows += behind(stand, frontends.nginx, ours, app,
                   "nginx + forebay, SCGI", "scgi")
    rows += behind(stand, frontends.nginx, stand.server(
        PEERS["gunicorn-sync"], app, Shape(2, 1)), app,
        "nginx as proxy + gunicorn", "http")
    for name in ("uwsgi-fastcgi", "flup-fcgi-threads"):
        shape = Shape(2, 10 if "flup" in name else 1)
        rows += behind(stand, frontends.nginx,
                       stand.server(PEERS[name], app, shape), app,
                       "nginx + " + PEERS[name].label(shape))
    return rows


# 4. Apache against nginx


@define("front-ends", "Apache against nginx as the front end",
        "The load of then is not known; the same page as before is asked "
        "for. PSS is that of front end and server together.",
        {"table": [["", "req/s", "memory"], ["Apache", "57.70", ""],
                   ["nginx", "90.33", "40 MB less"]]},
        [AbLoad(2000, 20)], 5)
def front_ends(stand):
    app = stand.application("pyramid_page")
    ours = stand.server(FOREBAY, app, Shape(2, 1))
    rows = []
    for make, kept, label in (
            (frontends.nginx, False, "nginx + forebay"),
            (frontends.nginx, True, "nginx + forebay, kept"),
            (frontends.apache, False, "Apache + forebay"),
            (frontends.apache, True, "Apache + forebay, kept")):
        rows += behind(stand, make, ours, app, label, kept=kept)
    rows += itself(stand.server(PEERS["mod_wsgi-embedded"], app,
                                Shape(2, 10)), app,
                   "Apache, mod_wsgi inside")
    return rows


# 5. Files

SMALL, LARGE = 356, 313 * 1024


def make_files(stand):
    folder = stand.setup.folder
    stand.setup.env["BENCH_FILES"] = folder
    for name, size in (("small", SMALL), ("large", LARGE)):
        with open(os.path.join(folder, name), "wb") as f:
            f.write(os.urandom(size))


@define("files", "Files of 356 bytes and of 313 KB",
        "356 bytes at 1,000 connections, 313 KB at 10, each request on a "
        "connection of its own. Sent by the front end; by the application "
        "with wsgi.file_wrapper; by the front end at the application's "
        "word.",
        {"table": [["req/s", "356 bytes, -c 1000", "313 KB, -c 10"],
                   ["nginx", "8034.86", "1890.72"],
                   ["lighttpd", "9131.26", "1818.97"]]},
        [AbLoad(100000, 1000), AbLoad(100000, 10)], 6)
def static_files(stand):
    make_files(stand)
    app = stand.application("static_files", "/wrapper/small")
    ours = stand.server(FOREBAY, app, Shape(2, 1))
    rows = []
    for make, name, word in ((frontends.nginx, "nginx", "accel"),
                             (frontends.lighttpd, "lighttpd", "sendfile")):
        front = stand.front(make, {
            "app": Backend(ours.sockets["fcgi"], kept=False),
            **{n: Backend(stand.setup.path(n), "file")
               for n in ("small", "large")}})
        if front is None:
            continue
        header = {"accel": "X-Accel-Redirect", "sendfile": "X-Sendfile"}
        for number, (file, size) in enumerate((("small", SMALL),
                                               ("large", LARGE))):
            path = stand.setup.path(file)
            rows.append(Row("%s alone, %s" % (name, file),
                            front.sockets[file], Expected("/", size, path),
                            [front], {number}))
            for how, words in (("wrapper", "file_wrapper"),
                               (word, header[word])):
                rows.append(Row(
                    "%s + forebay by %s, %s" % (name, words, file),
                    front.sockets["app"], Expected(
                        "/%s/%s" % (how, file), size, path),
                    [front, ours], {number}))
    return rows
