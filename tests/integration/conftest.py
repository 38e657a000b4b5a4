# SPDX-License-Identifier: MIT
"""Fixtures: servers in every shape, audited after each test.

FOREBAY_BUILD        the build folder (build/release)
FOREBAY_TEST_FACTOR  waits are this many times longer (sanitizers, valgrind)
FOREBAY_SHAPES       only these shapes, e.g. "threaded-epoll"
"""

import os
import shutil
import sys

import pytest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from lib import server as srv                                # noqa: E402
from lib.wait import FACTOR                                  # noqa: E402


class Shape:
    """How a pool is built: processes or threads, and what reads the socket."""

    def __init__(self, mode, engine, workers=1):
        self.mode, self.engine, self.workers = mode, engine, workers
        self.threads = 4 if mode == "threaded" else 1
        self.name = "%s-%s" % (mode, engine)

    def options(self, **more):
        """Settings of a pool. Tests hold requests in the application by
        keeping back their body, so it must be called before that is here:
        body_buffer is 0, unless a test says otherwise (None: the default)."""
        found = {"mode": self.mode, "engine": self.engine,
                 "workers": self.workers, "body_buffer": 0}
        if self.mode == "threaded":
            found["threads"] = self.threads
        found.update(more)
        return found

    @property
    def libfcgi(self):
        return self.engine == "libfcgi"

    @property
    def threaded(self):
        return self.mode == "threaded"


ALL_SHAPES = [Shape(mode, engine) for engine in ("epoll", "libfcgi")
              for mode in ("prefork", "threaded")]
_only = os.environ.get("FOREBAY_SHAPES")
SHAPES = [s for s in ALL_SHAPES if not _only or s.name in _only.split(",")]
EPOLL_SHAPES = [s for s in SHAPES if not s.libfcgi]


def pytest_configure(config):
    config.addinivalue_line(
        "markers", "epoll_only(reason): cannot be had from the libfcgi engine")
    config.addinivalue_line(
        "markers", "big: moves much data or needs much time")
    if not os.access(srv.program(), os.X_OK):
        raise pytest.UsageError(
            "no forebay in %s: build it, or set FOREBAY_BUILD"
            % srv.build_dir())


def pytest_collection_modifyitems(items):
    """Run what the libfcgi engine cannot do on the other engine only."""
    for item in items:
        mark = item.get_closest_marker("epoll_only")
        shape = getattr(item, "callspec", None)
        shape = shape and shape.params.get("shape")
        if mark and shape is not None and shape.libfcgi:
            item.add_marker(pytest.mark.skip(
                reason="engine libfcgi: " + mark.args[0]))


@pytest.fixture(scope="module", params=SHAPES, ids=lambda s: s.name)
def shape(request):
    return request.param


@pytest.fixture(scope="module", params=EPOLL_SHAPES, ids=lambda s: s.name)
def epoll_shape(request):
    return request.param


class Notes:
    """What an application wrote down, one file a name: it survives the
    worker, and a test can wait for it."""

    def __init__(self):
        self.dir = srv.temp_dir()
        os.chmod(self.dir, 0o777)

    def env(self):
        return {"FOREBAY_TEST_NOTES": self.dir}

    def read(self, name):
        try:
            with open(os.path.join(self.dir, name)) as f:
                return f.read().splitlines()
        except FileNotFoundError:
            return []

    def wait(self, name, count=1):
        from lib.wait import wait_for

        def there():
            lines = self.read(name)
            return lines if len(lines) >= count else None
        return wait_for(there, lambda: "%d notes %s, there are %r" % (
            count, name, self.read(name)))

    def forget(self):
        for name in os.listdir(self.dir):
            os.unlink(os.path.join(self.dir, name))

    def remove(self):
        shutil.rmtree(self.dir, ignore_errors=True)


@pytest.fixture
def notes():
    found = Notes()
    yield found
    found.remove()


@pytest.fixture
def serve(notes):
    """Start servers for one test: serve(APP, **options). Each is stopped and
    audited at the end; keep the test from that with stop() or close()."""
    assert notes        # it is there until the servers have ended
    started = []

    def start(app, **options):
        found = srv.start(app, **options)
        started.append(found)
        return found
    yield start
    try:
        for found in reversed(started):
            if found.running() and found.pid not in getattr(
                    start, "leave", ()):
                found.stop()
    finally:
        for found in started:
            found.close()


@pytest.fixture
def fails(serve):
    """A start that has to fail: (exit status, log)."""
    def start(app, **options):
        found = serve(app, wait=False, **options)
        code = found.wait_exit()
        found.errors_expected = True
        found.expect_exit = {code}
        found.stop()
        return code, found.log.text()
    return start


CHECKLIST = os.path.join(srv.APPS, "checklist")


class Checklist:
    """The server with tests/apps/checklist/app.py: request(case, ...) runs one
    case of it."""

    def __init__(self, shape, **options):
        self.shape = shape
        self.options = options
        self.notes = Notes()
        self.server = None

    def up(self):
        if self.server is not None and self.server.running():
            return
        if self.server is not None:
            self.server.close()
        self.server = srv.start(
            "app:application", chdir=CHECKLIST, env=self.notes.env(),
            **self.shape.options(**self.options))

    def down(self):
        try:
            if self.server is not None and self.server.running():
                self.server.stop()
        finally:
            if self.server is not None:
                self.server.close()
            self.notes.remove()

    def settle(self):
        """Error lines of a test that did not wait for them must not be taken
        for those of the next one: each worker writes a line, and what it wrote
        before is in the log when that is."""
        import uuid
        left = set(self.server.workers())
        for _ in range(20 * len(left)):
            if not left:
                break
            mark = "settle-" + uuid.uuid4().hex
            pid = int(self("log_mark", query=mark).text)
            self.server.log.wait(mark)
            left.discard(pid)

    # What a test uses

    def params(self, case, **how):
        from lib import fcgi
        extra = dict(how.pop("extra", {}))
        extra["TEST_CASE"] = case
        return fcgi.params_for(extra=extra, **how)

    def __call__(self, case, path="/", **how):
        extra = dict(how.pop("extra", {}))
        extra["TEST_CASE"] = case
        return self.server.request(path, extra=extra, **how)

    def json(self, case, path="/", **how):
        import json
        answer = self(case, path, **how)
        assert answer.status == 200, (answer, answer.stdout[:2000])
        return json.loads(answer.body)

    def peer(self, **how):
        return self.server.peer(**how)

    def send(self, peer, case, body=None, flags=0, id_=1, stdin=True,
             **how):
        """The whole request of a case, on an open connection."""
        from lib import fcgi
        params = self.params(case, body=body, **how)
        peer.send(fcgi.encode(params, body or b"", id_, flags, stdin=stdin))

    def begin(self, peer, case, flags=0, id_=1, **how):
        """BEGIN and PARAMS of a case, but nothing of the body."""
        from lib import fcgi
        peer.send(fcgi.begin(flags=flags, id_=id_) + fcgi.stream(
            fcgi.PARAMS, fcgi.pairs(self.params(case, **how)), id_))

    def log(self, pattern, count=1):
        """Lines the test wants in the log (error lines are then fine)."""
        return self.server.expect_error(pattern, count)


def one_test(checklist):
    """One server for all tests of a module: audited after each."""
    checklist.up()
    checklist.server.begin_test()
    checklist.notes.forget()
    yield checklist
    if checklist.server.running():
        checklist.server.audit_running()
        if checklist.server.errors_expected:
            checklist.settle()
    else:
        log = checklist.server.log.text()[-4000:]
        raise AssertionError("the server ended during the test:\n" + log)


@pytest.fixture(scope="module")
def checklist_server(shape):
    found = Checklist(shape)
    yield found
    found.down()


@pytest.fixture
def app(checklist_server):
    """The checklist application on both engines, one worker."""
    yield from one_test(checklist_server)


@pytest.fixture(scope="module")
def wire_server(epoll_shape):
    found = Checklist(epoll_shape, workers=2, header_timeout="2s",
                      body_buffer=None)
    yield found
    found.down()


@pytest.fixture
def wire(wire_server):
    """The checklist application for tests of the protocols: two workers, a
    short header deadline."""
    yield from one_test(wire_server)


@pytest.fixture(scope="session")
def factor():
    return FACTOR


@pytest.fixture
def versions(serve, epoll_shape, notes):
    """Start tests/apps/manager/versions.py, in both shapes: a lib.site.Site
    with two workers."""
    from lib import site

    def begin(app="versions:application", **options):
        return site.start(serve, notes, app, **epoll_shape.options(
            **dict({"workers": 2}, **options)))
    return begin


@pytest.fixture
def versions_once(serve, notes):
    """The same in the one shape that the test asks for."""
    from lib import site

    def begin(app="versions:application", **options):
        return site.start(serve, notes, app, **dict(
            {"workers": 2, "body_buffer": 0}, **options))
    return begin


@pytest.fixture
def front():
    """Start front ends for one test: front(KIND, ADDRESS)."""
    started = []

    def begin(kind, address, **values):
        why = kind.why_not()
        if why:
            pytest.skip(why)
        started.append(kind(address, **values).start())
        return started[-1]
    yield begin
    for web in started:
        try:
            web.stop()
        finally:
            web.close()
