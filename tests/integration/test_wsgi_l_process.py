# SPDX-License-Identifier: MIT
"""WSGI checklist L: what the process looks like to the application."""

import hashlib
import json
import os
import signal
import subprocess
import threading

import pytest

from lib import fcgi, proc
from lib import server as srv

CHECKLIST = os.path.join(srv.APPS, "checklist")


@pytest.fixture
def own(serve, shape, notes):
    """A server of the test's own."""
    def start(app="app:application", **options):
        options.setdefault("chdir", CHECKLIST)
        env = dict(notes.env(), **options.pop("env", {}))
        clean = options.pop("clean_env", False)
        words = options.pop("words", ())
        cwd = options.pop("cwd", None)
        return serve(app, env=env, clean_env=clean, words=words, cwd=cwd,
                     **shape.options(**options))
    return start


def ask(server, case, **how):
    extra = dict(how.pop("extra", {}), TEST_CASE=case)
    return server.request(extra=extra, **how)


def test_L1_sys_executable(app):
    found = app.json("L1")
    assert os.path.basename(found["executable"]).startswith("python")
    assert found["child_version"] == found["version"]
    assert found["child_prefix"] == found["prefix"]
    assert found["version"] == "%d.%d" % srv.python_version()


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_L1_multiprocessing(app, method):
    if method == "fork" and app.shape.threaded:
        pytest.skip("forking a process with threads is the application's risk")
    if method == "fork" and srv.sanitized():
        pytest.skip("a pool forks beside its own threads")
    assert app.json("L1_multiprocessing", query=method) == [1, 4, 9]


@pytest.fixture(scope="module")
def venv(tmp_path_factory):
    path = str(tmp_path_factory.mktemp("venv") / "v")
    subprocess.run([srv.base_python(), "-m", "venv", "--without-pip", path],
                   check=True)
    site = os.path.join(path, "lib", "python%d.%d" % srv.python_version(),
                        "site-packages")
    with open(os.path.join(site, "only_in_the_venv.py"), "w") as f:
        f.write("VALUE = 5\n")
    return path


def test_L1_virtualenv(own, venv):
    server = own(virtualenv=venv)
    found = json.loads(ask(server, "L1").body)
    assert os.path.dirname(os.path.dirname(found["executable"])) == venv
    assert found["prefix"] == venv == found["child_prefix"]
    assert found["base_prefix"] != venv


def test_L2_names_of_modules(app):
    found = app.json("L2")
    assert found["name"] == "app" and found["same"]
    assert found["file"] == os.path.join(CHECKLIST, "app.py")
    assert found["main"] == []
    assert (found["pickle"], found["pickle_function"]) == (5, 9)


def test_L3_argv_and_streams(app):
    found = app.json("L3")
    assert found["argv"] == ["app:application"]
    assert found["stdin"] == ""
    assert found["types"] == ["TextIOWrapper"] * 3
    assert found["fds"] == [0, 1, 2]
    assert found["encodings"] == ["utf-8", "utf-8"]
    assert found["errors"] == "backslashreplace"
    assert found["buffered"] == [True, True]


@pytest.mark.parametrize("env", [{}, {"LANG": "C"}, {"LC_ALL": "C"},
                                 {"LANG": "xx_YY.nonsense"}])
def test_L4_utf_8_always(own, env):
    server = own(env=env, clean_env=True)
    assert json.loads(ask(server, "L4").body) == ["utf-8", "\xe4\u65e5"]
    server.log.wait(r"L4 (\xc9|\\xc3\\x89)cole")


def test_L5_threads_run_between_requests(app):
    assert app("L5_note").text == "started"
    app.notes.wait("L5", 10)


def test_L6_children(app):
    found = app.json("L6")
    assert (found["code"], found["forked"]) == (7, 9)
    assert (found["thread"], found["popen"]) == (5, 4)
    assert int(found["blocked"], 16) == 0
    ignored = {n + 1 for n in range(64) if int(found["ignored"], 16) >> n & 1}
    assert signal.SIGPIPE not in ignored
    assert signal.SIGCHLD not in ignored


def test_L6_forked_children_can_be_terminated(app):
    """They do not inherit what the worker does with SIGTERM: without this
    multiprocessing.Pool waits for ever."""
    assert app("L6_terminate").text == "-15"


def test_L7_signal_handlers(app):
    answer = app("L7")
    if app.shape.threaded:
        # CPython's own answer, but on the main thread, which is one of the
        # executors; nothing is promised about handlers then.
        assert answer.text in ("ValueError", str(app.server.workers()[0]))
        return
    pid = int(answer.text)
    os.kill(pid, signal.SIGUSR1)
    assert app.notes.wait("L7") == ["handled in %d" % pid]
    # And again, in a worker that has become idle once more.
    assert app("hello").text == "hello"
    os.kill(pid, signal.SIGUSR1)
    app.notes.wait("L7", 2)
    assert app("hello").text == "hello"


@pytest.mark.epoll_only("FCGX_GetStr does not come back for a signal")
def test_L7_a_handler_while_reading(app):
    if app.shape.threaded:
        pytest.skip("signal.signal needs the main thread")
    with app.peer() as peer:
        app.begin(peer, "L7_alarm", method="POST", body=b"after it")
        app.notes.wait("L7")
        peer.send(fcgi.stream(fcgi.STDIN, b"after it"))
        assert peer.answer().text == "after it"


@pytest.mark.parametrize("preload", ["on", "off"])
def test_L8_an_application_that_takes_signals(own, preload):
    server = own("takes_signals", preload=preload)
    assert server.request().text == "ok"
    server.terminate()
    assert server.wait_exit() == 0


def test_L9_atexit_and_hooks(own, notes):
    server = own("hooks", workers=2)
    workers = server.wait_workers(2)
    assert sorted(int(p) for p in notes.wait("worker_start", 2)) == workers
    assert server.request().text == "ok"
    server.terminate()
    assert server.wait_exit() == 0
    assert sorted(int(p) for p in notes.read("worker_exit")) == workers
    at_exit = [int(p) for p in notes.read("atexit")]
    assert set(workers) <= set(at_exit)
    assert len(at_exit) == len(set(at_exit))


def test_L9_a_daemon_thread_does_not_hinder(own):
    server = own("hooks")
    assert server.request(query="daemon").text == "ok"
    server.terminate()
    assert server.wait_exit() == 0


def test_L9_another_thread_only_to_the_deadline(own):
    server = own("hooks", graceful_timeout="1s")
    assert server.request(query="thread").text == "ok"
    server.terminate()
    server.errors_expected = True
    assert server.wait_exit() >= 0
    server.expect_exit = {server.process.returncode}


def hold(peers):
    """A request on each, until all of them are in the application."""
    for peer in peers:
        peer.send(fcgi.begin() + fcgi.stream(fcgi.PARAMS, fcgi.pairs(
            fcgi.params_for("/", "POST", body=b"go",
                            extra={"TEST_CASE": "L10"}))))
    for peer in peers:
        peer.until(b"held")


@pytest.mark.epoll_only("a kept or silent connection holds its thread")
def test_every_thread_is_found(own, shape):
    """As many requests as there are threads, again and again: none waits at a
    worker that is busy while another has a thread to spare."""
    server = own(workers=3)
    for _ in range(100):
        peers = [server.peer() for _ in range(3 * shape.threads)]
        try:
            hold(peers)
            for peer in peers:
                peer.send(fcgi.stream(fcgi.STDIN, b"go"))
                peer.until(b"]")
        finally:
            for peer in peers:
                peer.close()


@pytest.mark.parametrize("preload", ["on", "off"])
def test_L10_workers_differ(own, shape, preload):
    """Every executor of every worker holds a request before any is let go."""
    server = own(workers=3, preload=preload)
    peers = [server.peer() for _ in range(3 * shape.threads)]
    found = {}
    try:
        hold(peers)
        for peer in peers:
            peer.send(fcgi.stream(fcgi.STDIN, b"go"))
            pid, *values = json.loads(peer.until(b"]"))
            found.setdefault(pid, values)
    finally:
        for peer in peers:
            peer.close()
    assert sorted(found) == server.workers()
    for n in range(3):
        assert len({v[n] for v in found.values()}) == 3


def test_L11_thread_local_data(app):
    threads = {}
    for _ in range(4 * app.shape.threads):
        ident, n, same = app.json("L11")
        assert n == same == threads.get(ident, 0) + 1
        threads[ident] = n
    assert len(threads) <= app.shape.threads


def test_L12_main_thread(app):
    answer = app("L12")
    if not app.shape.threaded:
        assert answer.text == "True"


def test_L13_no_descriptor_is_inherited(app):
    with app.peer() as idle, app.peer() as kept:
        if not app.shape.libfcgi:   # there each would hold a worker
            idle.send(b"\1")
            app.send(kept, "hello", flags=fcgi.KEEP_CONN)
            kept.answer(keep=True)
        found = app.json("L13")
    child = {n for n, what in found["child"].items()
             # libfcgi accepts without close-on-exec; engine_libfcgi.h says so.
             if not (app.shape.libfcgi and what.startswith("socket:"))}
    assert child == {"0", "1", "2"}, found
    for what in found["mine"].values():
        assert not what.startswith("socket:"), found["mine"]


def test_L14_sys_path(own, tmp_path):
    extra = str(tmp_path / "extra path")
    os.mkdir(extra)
    server = own(pythonpath=[extra])
    path = json.loads(ask(server, "L14").body)
    assert "" not in path[:1]
    assert path.index(extra) < path.index(CHECKLIST)
    stdlib = [p for p in path if p.endswith(
        "/python%d.%d" % srv.python_version())]
    assert path.index(CHECKLIST) < path.index(stdlib[0])


def test_L14_directory_of_the_application(own):
    server = own(os.path.join(CHECKLIST, "app.py"), chdir=None, cwd="/")
    path = json.loads(ask(server, "L14").body)
    assert path[0] == CHECKLIST


@pytest.mark.parametrize("keep", [False, True])
def test_L15_every_answer_belongs_to_its_request(own, shape, keep):
    if keep and shape.libfcgi:
        pytest.skip("engine libfcgi: a kept connection holds its worker")
    server = own(workers=3 if not shape.threaded else 2)
    errors = []

    def client(number):
        peer = None
        try:
            for n in range(10):
                key = "%d-%d" % (number, n)
                body = key.encode() * (1 + number * 37 % 5000)
                params = fcgi.params_for(
                    "/p/" + key, "POST", key, body, [("X-Key", key)],
                    {"TEST_CASE": "L15"})
                if peer is None:
                    peer = server.peer()
                peer.send(fcgi.encode(params, body,
                                      flags=fcgi.KEEP_CONN if keep else 0))
                a = peer.answer(keep=keep)
                want = "%s /p/%s %s" % (key, key,
                                        hashlib.sha256(body).hexdigest())
                if (a.text, a.header("X-Key"), a.header("X-Header")) != (
                        want, key, key):
                    errors.append((key, a, a.stdout[:300]))
                if not keep:
                    peer.close()
                    peer = None
        except BaseException as e:
            errors.append((number, repr(e)))
        finally:
            if peer is not None:
                peer.close()
    threads = [threading.Thread(target=client, args=(i,)) for i in range(80)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not errors, errors[:3]


def test_L13_standard_descriptors_closed_at_start(own):
    """R1: started with 0, 1 and 2 closed, the application gets none of them
    for a file of its own."""
    # Descriptor 2 stays, the test reads the log from it.
    server = srv.start("app:application", chdir=CHECKLIST, wait=False,
                       popen={"preexec_fn": lambda: (os.close(0),
                                                     os.close(1))})
    try:
        server.wait_ready()
        found = json.loads(ask(server, "L3").body)
        assert found["fds"] == [0, 1, 2]
        for pid in server.workers():
            fds = proc.fds(pid)
            assert {0, 1, 2} <= set(fds)
            assert not any(fds[n].startswith("socket:") for n in (0, 1, 2))
        server.stop()
    finally:
        server.close()
