# SPDX-License-Identifier: MIT
"""Starting, stopping and minding of processes, sockets and messages."""

import json
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import threading

import pytest

from lib import fcgi, proc
from lib import server as srv
from lib.wait import holds_for, wait_for

CHECKLIST = os.path.join(srv.APPS, "checklist")
EMBED = os.path.join(srv.APPS, "embed")
MANAGER = os.path.join(srv.APPS, "manager")


@pytest.fixture
def own(serve, epoll_shape, notes):
    """A server of the test's own, in both shapes."""
    def start(app="app:application", **options):
        options.setdefault("chdir", CHECKLIST)
        env = dict(notes.env(), **options.pop("env", {}))
        more = {n: options.pop(n) for n in (
            "clean_env", "cwd", "words", "popen", "wait", "stdin", "address",
            "tcp", "stderr") if n in options}
        return serve(app, env=env, **more, **epoll_shape.options(**options))
    return start


@pytest.fixture
def folder():
    path = srv.temp_dir()
    yield path
    shutil.rmtree(path)


def ask(server, case="hello", **how):
    extra = dict(how.pop("extra", {}), TEST_CASE=case)
    return server.request(extra=extra, **how)


def hello(server):
    return ask(server).text == "hello"


# Starting

@pytest.mark.parametrize("preload", ["on", "off", "auto"])
def test_import_error_ends_the_start(fails, epoll_shape, preload):
    code, log = fails("cannot_import", chdir=CHECKLIST,
                      **epoll_shape.options(preload=preload, workers=2))
    assert code > 0
    errors = [x for x in log.splitlines() if srv.is_error(x)]
    assert any("cannot_import" in x for x in errors), log
    # Once; without preload each of the two workers may have come so far.
    assert 1 <= log.count("Traceback (most recent call last)") <= (
        2 if preload == "off" else 1)
    assert "ZeroDivisionError" in log
    assert any("cannot start" in x for x in errors)


def test_exit_codes_of_a_start_that_fails(fails, epoll_shape, folder):
    """sysexits(3): usage, unavailable, configuration."""
    for how in ({"listen": "nonsense"}, {"listen": "/" + "nonsense/" * 20},
                {"control": ":80/nonsense"}, {"status_listen": "nonsense"},
                {"socket_group": "nonsense"}):
        code, log = fails("app:application", chdir=CHECKLIST, **how)
        assert code == 78 and "nonsense" in log, (how, log)
    code, _ = fails("app:application", chdir=CHECKLIST,
                    listen="unix:%s/no/such/folder" % folder)
    assert code == 69
    code, log = fails("app:application", chdir=CHECKLIST,
                      user="no-such-user-here")
    assert code == 78 and "no-such-user-here" in log
    code, log = fails("app:application", chdir=CHECKLIST, python="3.2")
    assert code == 78 and "3.2" in log


@pytest.mark.parametrize("words, says", [
    (["--worker", "2"], "workers"),
    (["--workres", "2"], "workers"),
    (["--workers", "many"], "workers"),
    (["--workers", "0"], "workers"),
    (["--header-timeout", "10x"], "header.timeout"),
    (["--mode", "forked"], "prefork"),
    (["--mount", "app"], "mount"),
    (["--mode", "prefork", "--threads", "4"], "threads"),
])
def test_wrong_options_are_named(words, says):
    found = subprocess.run(
        [srv.program(), "serve", "--listen", "/tmp/never-made"] + words
        + ["app:application"], stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, cwd=CHECKLIST)
    assert found.returncode == 64, found.stdout
    assert re.search(says, found.stdout.decode()), found.stdout
    assert len(found.stdout.splitlines()) <= 3
    assert not os.path.exists("/tmp/never-made")


def test_help_and_version():
    def output(*words):
        found = subprocess.run([srv.program(), *words],
                               stdout=subprocess.PIPE, check=True)
        return found.stdout.decode()
    text = output("serve", "--help")
    for name in ("--workers", "--threads", "--listen", "--header-timeout",
                 "--mount", "--virtualenv"):
        assert name in text
    assert all(len(line) <= 80 for line in text.splitlines())
    assert "serve" in output("--help")
    version = output("--version")
    assert "libuv" in version and "libfcgi" in version
    assert "%d.%d" % srv.python_version() in version


def test_no_command_is_an_error():
    for words in ([], ["nonsense"]):
        found = subprocess.run([srv.program(), *words],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert found.returncode == 64
        assert b"serve" in found.stderr


def test_check_tells_what_is_wrong(epoll_shape):
    def check(*words):
        found = subprocess.run(
            [srv.program(), "check", *words], cwd=CHECKLIST,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        return found.returncode, found.stdout.decode()
    code, text = check("app:application")
    assert code == 0, text
    code, text = check("no_such_module_here:application")
    assert code != 0 and "no_such_module_here" in text
    code, text = check("--virtualenv", "/no/such/venv", "app:application")
    assert code != 0 and "/no/such/venv" in text


def test_ready_says_what_and_where(own):
    server = own(workers=2)
    line, = server.log.find(r": ready\b", 0)
    assert "pool main" in line
    assert server.address in line
    assert re.search(r"\b2 workers", line)


def test_names_in_ps(own):
    server = own(workers=2, name="blog")
    assert "forebay" in proc.cmdline(server.pid)
    assert re.search(r"forebay: template \[blog\]",
                     proc.cmdline(server.template()))
    for pid in server.workers():
        assert re.search(r"forebay: worker \d+ \[blog\]", proc.cmdline(pid))
    assert hello(server)
    server.log.wait("blog", start=0)


def test_no_interpreter_in_the_manager(own):
    server = own()
    with open("/proc/%d/maps" % server.pid) as f:
        assert "libpython" not in f.read()
    assert proc.threads(server.pid) <= 1 + 4     # libuv's pool at most
    assert os.readlink("/proc/%d/exe" % server.pid) == os.path.realpath(
        srv.program())
    assert os.readlink("/proc/%d/exe" % server.template()) == (
        os.path.realpath(srv.worker_program()))


# Preload

@pytest.mark.parametrize("what", ["thread", "socket", "file", "child"])
def test_preload_auto_looks_at_what_the_import_left(own, what):
    """It says what it found, and the workers import for themselves."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        server = own("leaves", chdir=MANAGER, workers=2, env={
            "LEAVES": what, "LEAVES_PORT": str(listener.getsockname()[1])})
        says = {"thread": r"left-behind", "socket": r"socket",
                "file": r"writing|open", "child": r"child"}[what]
        server.log.wait(r"WARN.*preload.*" + says, start=0)
        found = json.loads(server.request().body)
        assert found["importer"] == found["pid"]


def test_preload_auto_with_nothing_left(own):
    server = own("leaves", chdir=MANAGER, workers=2, env={"LEAVES": "nothing"})
    found = json.loads(server.request().body)
    assert found["importer"] == server.template()
    assert not server.log.find("(?i)preload", 0)


@pytest.mark.parametrize("preload", ["on", "off"])
def test_preload_as_told(own, preload):
    server = own("leaves", chdir=MANAGER, workers=2, preload=preload,
                 env={"LEAVES": "nothing"})
    found = json.loads(server.request().body)
    if preload == "on":
        assert found["importer"] == server.template()
    else:
        assert found["importer"] == found["pid"]


def test_warmup_runs_before_the_first_fork(own, notes):
    server = own("leaves", chdir=MANAGER, workers=2, warmup=["/warm", "/up"],
                 env={"LEAVES": "nothing"})
    # Each 20 times, so that the interpreter has specialised its code.
    assert notes.read("requests") == (
        ["/warm %d" % server.template()] * 20
        + ["/up %d" % server.template()] * 20)
    found = json.loads(server.request("/after").body)
    assert found["count"] == 41


# Workers that die, and stopping

@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV,
                                    signal.SIGTERM])
def test_a_killed_worker_is_replaced(own, notes, number):
    server = own("leaves", chdir=MANAGER, workers=2, env={"LEAVES": "nothing"})
    before = server.wait_workers(2)
    with server.peer() as peer:
        peer.send(fcgi.begin() + fcgi.stream(fcgi.PARAMS, fcgi.pairs(
            fcgi.params_for("/in/flight", "POST", "wait", body=b"x"))))
        line, = notes.wait("waiting")
        os.kill(int(line), number if number != signal.SIGTERM
                else signal.SIGKILL)
        answer = peer.answer()
        assert not answer.complete
    server.expect_error(r"/in/flight")
    server.expect_error(r"\b%s\b" % line)
    now = server.wait_workers(2, without=[int(line)])
    assert set(before) - {int(line)} <= set(now)
    assert server.request().status == 200
    server.log.mark = server.log.here()


def test_workers_that_die_again_and_again(own):
    """Back-off, and the pool is whole in the end."""
    server = own(workers=2)
    for _ in range(6):
        victim = server.wait_workers(2)[0]
        os.kill(victim, signal.SIGKILL)
        server.wait_workers(2, without=[victim])
        assert hello(server)
    server.errors_expected = True


def test_a_killed_template_is_replaced(own):
    server = own(workers=2)
    os.kill(server.template(), signal.SIGKILL)
    server.errors_expected = True
    wait_for(lambda: len(server.log.find(r": ready\b", 0)) == 2,
             lambda: "ready again: " + server.log.text())
    server.wait_workers(2)
    assert hello(server)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT,
                                    signal.SIGQUIT])
def test_graceful_stop_finishes_what_runs(own, number):
    server = own(workers=2)
    with server.peer() as peer, server.peer() as idle, server.peer() as kept:
        kept.send(fcgi.encode(fcgi.params_for(
            "/", extra={"TEST_CASE": "hello"}), flags=fcgi.KEEP_CONN))
        assert kept.answer(keep=True).text == "hello"
        peer.send(fcgi.begin() + fcgi.stream(fcgi.PARAMS, fcgi.pairs(
            fcgi.params_for("/", "POST", body=b"go",
                            extra={"TEST_CASE": "G6"}))))
        peer.until(b"first")
        server.process.send_signal(number)
        server.log.wait("stopping")
        assert server.running()
        peer.send(fcgi.stream(fcgi.STDIN, b"go"))
        peer.until(b"second")
        assert peer.answer().complete
        assert idle.wait_closed() and kept.wait_closed()
    assert server.wait_exit() == 0


def test_stop_with_requests_that_wait_in_the_backlog(own):
    """Whoever had connected before TERM is answered."""
    server = own()
    with server.peer() as busy:
        busy.send(fcgi.begin() + fcgi.stream(fcgi.PARAMS, fcgi.pairs(
            fcgi.params_for("/", "POST", body=b"go",
                            extra={"TEST_CASE": "G6"}))))
        busy.until(b"first")
        peers = [server.peer() for _ in range(5)]
        for peer in peers:
            peer.send(fcgi.encode(fcgi.params_for(
                "/", extra={"TEST_CASE": "hello"})))
        server.terminate()
        server.log.wait("stopping")
        busy.send(fcgi.stream(fcgi.STDIN, b"go"))
        busy.until(b"second")
        assert busy.answer().complete
        for peer in peers:
            assert peer.answer().text == "hello"
            peer.close()
    assert server.wait_exit() == 0


def test_a_second_signal_stops_at_once(own):
    server = own(graceful_timeout="10m")
    with server.peer() as peer:
        peer.send(fcgi.encode(fcgi.params_for(
            "/", extra={"TEST_CASE": "G13"})), receive=False)
        peer.until(b"zzzz")
        server.terminate()
        server.log.wait("stopping")
        assert server.running()
        server.process.send_signal(signal.SIGTERM)
        assert server.wait_exit() == 0
    server.errors_expected = True


def test_graceful_timeout_bounds_the_stop(own):
    server = own(graceful_timeout="300ms")
    with server.peer() as peer:
        peer.send(fcgi.begin() + fcgi.stream(fcgi.PARAMS, fcgi.pairs(
            fcgi.params_for("/", "POST", body=b"never",
                            extra={"TEST_CASE": "G6"}))))
        peer.until(b"first")
        server.terminate()
        assert server.wait_exit() == 0
        server.log.wait("graceful_timeout")
        assert peer.wait_closed()
    server.errors_expected = True


def test_stop_while_it_starts(serve, notes):
    """TERM at any moment of the start: a clean end, no orphan, no socket."""
    for n in range(12):
        server = serve("slow_import", chdir=MANAGER, env=notes.env(),
                       wait=False, workers=2)
        if n % 3 == 0:
            wait_for(lambda: proc.children(server.pid), "the template")
        elif n % 3 == 1:
            notes.wait("importing", n // 3 + 1)
        server.terminate()
        assert server.wait_exit() in (0, -signal.SIGTERM)
        server.expect_exit = {0, -signal.SIGTERM}
        server.errors_expected = True
        server.stop()


@pytest.mark.parametrize("busy", [False, True])
def test_everybody_ends_when_the_manager_is_killed(own, busy):
    server = own(workers=2, graceful_timeout="1s")
    server.remember()
    if busy:
        peer = server.peer()
        peer.send(fcgi.encode(fcgi.params_for(
            "/", extra={"TEST_CASE": "G13"})), receive=False)
        peer.until(b"zzzz")
    server.process.kill()
    server.process.wait()
    wait_for(lambda: not server.strays(), lambda: "nobody is left: %r" % [
        (p, proc.cmdline(p)) for p in server.strays()], 30)
    if busy:
        peer.close()


def test_signals_that_mean_nothing_yet(own):
    server = own(workers=2)
    before = server.wait_workers(2)
    for number in (signal.SIGWINCH, signal.SIGPIPE, signal.SIGCHLD):
        server.process.send_signal(number)
    for _ in range(4):
        assert hello(server)
    assert server.workers() == before


def test_signals_ignored_or_blocked_by_the_parent(own):
    """R092: dispositions and mask are reset, here and in children."""
    def spoil():
        for number in (signal.SIGPIPE, signal.SIGCHLD, signal.SIGTERM,
                       signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_BLOCK, set(signal.Signals))
    server = own(popen={"preexec_fn": spoil, "restore_signals": False})
    found = json.loads(ask(server, "L6").body)
    assert (found["code"], found["forked"], found["popen"]) == (7, 9, 4)
    assert int(found["blocked"], 16) == 0
    server.terminate()
    assert server.wait_exit() == 0


def test_zombies_of_the_application_are_reaped(own):
    """Grandchildren fall to the manager (subreaper), and do not stay."""
    server = own("leaves", chdir=MANAGER, env={"LEAVES": "nothing"})
    for _ in range(5):
        assert server.request(query="orphan").status == 200
    wait_for(lambda: not server.zombies(), lambda: "%r" % server.ps())
    assert server.request().status == 200


# Sockets

@pytest.mark.parametrize("mode", ["0600", "0660", "0666"])
def test_socket_mode(own, mode):
    """Right from the first moment on, whatever the umask is."""
    for mask in (0o022, 0o077, 0):
        old = os.umask(mask)
        try:
            server = own(socket_mode=mode)
        finally:
            os.umask(old)
        found = stat.S_IMODE(os.stat(server.address).st_mode)
        assert found == int(mode, 8)
        server.stop()


def test_socket_owner_and_group(own):
    if os.geteuid() != 0:
        pytest.skip("needs root")
    server = own(socket_owner="nobody", socket_group="www-data")
    import grp
    import pwd
    found = os.stat(server.address)
    assert found.st_uid == pwd.getpwnam("nobody").pw_uid
    assert found.st_gid == grp.getgrnam("www-data").gr_gid


def test_user_and_group(own, notes):
    if os.geteuid() != 0:
        pytest.skip("needs root")
    import pwd
    server = own("leaves", chdir=MANAGER, user="www-data",
                 env={"LEAVES": "nothing"})
    entry = pwd.getpwnam("www-data")
    found = json.loads(server.request().body)
    assert found["uids"] == [entry.pw_uid] * 3
    assert found["gids"] == [entry.pw_gid] * 3
    assert found["groups"] == sorted(os.getgrouplist("www-data",
                                                     entry.pw_gid))


@pytest.mark.parametrize("kind", ["unix", "tcp"])
def test_listening_on_a_descriptor(own, folder, kind):
    family = socket.AF_UNIX if kind == "unix" else socket.AF_INET
    with socket.socket(family) as s:
        path = os.path.join(folder, "given")
        s.bind(path if kind == "unix" else ("127.0.0.1", 0))
        s.listen(100)
        s.set_inheritable(True)
        server = own(listen="fd:%d" % s.fileno(), socket_mode=None,
                     address=s.getsockname(),
                     popen={"pass_fds": [s.fileno()]})
        assert hello(server)
        server.address, address = None, server.address
        server.stop()
        # Not ours: the path stays.
        if kind == "unix":
            assert os.path.exists(address)


@pytest.mark.parametrize("command", ["serve", "run"])
@pytest.mark.parametrize("kind", ["unix", "tcp"])
def test_listening_socket_on_descriptor_0(serve, folder, command, kind):
    family = socket.AF_UNIX if kind == "unix" else socket.AF_INET
    with socket.socket(family) as s:
        s.bind(os.path.join(folder, "zero") if kind == "unix"
               else ("127.0.0.1", 0))
        s.listen(100)
        app = (os.path.join(CHECKLIST, "app.py") if command == "run"
               else "app:application")
        server = serve(app, command=command, stdin=s, listen=None,
                       socket_mode=None, address=s.getsockname(),
                       cwd=CHECKLIST)
        assert hello(server)
        for pid in server.workers():
            assert proc.fds(pid)[0] == "/dev/null"
        server.address = None
        server.stop()


def test_spawn_fcgi(folder):
    """spawn-fcgi gives the socket on descriptor 0 and goes."""
    if shutil.which("spawn-fcgi") is None:
        pytest.skip("no spawn-fcgi")
    path = os.path.join(folder, "s")
    pidfile = os.path.join(folder, "pid")
    subprocess.run(["spawn-fcgi", "-s", path, "-P", pidfile, "--",
                    srv.program(), "run", os.path.join(CHECKLIST, "app.py")],
                   check=True, stdout=subprocess.DEVNULL)
    with open(pidfile) as f:
        pid = int(f.read())
    try:
        params = fcgi.params_for("/", extra={"TEST_CASE": "hello"})
        assert fcgi.request(path, params).text == "hello"
        below = proc.descendants(pid)
        assert below
        os.kill(pid, signal.SIGTERM)
        wait_for(lambda: not any(proc.alive(p) for p in [pid] + below),
                 "all of them have ended")
    finally:
        for p in [pid] + proc.descendants(pid):
            if proc.alive(p):
                os.kill(p, signal.SIGKILL)


def test_a_unix_path_that_is_too_long(fails):
    path = "/tmp/" + "long" * 30
    code, log = fails("app:application", chdir=CHECKLIST,
                      listen="unix:" + path)
    assert code > 0
    assert "107" in log and str(len(path)) in log


def test_an_address_in_use(fails):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        s.listen()
        port = s.getsockname()[1]
        code, log = fails("app:application", chdir=CHECKLIST,
                          listen="127.0.0.1:%d" % port)
    assert code == 69
    assert str(port) in log


def test_standard_streams_closed_at_start(folder):
    """cgi-fcgi -start closes 1 and 2: the log then goes nowhere, and the
    server works."""
    path = os.path.join(folder, "s")
    process = subprocess.Popen(
        [srv.program(), "serve", "--listen", path, "--chdir", CHECKLIST,
         "app:application"],
        preexec_fn=lambda: [os.close(n) for n in (0, 1, 2)])
    try:
        params = fcgi.params_for("/", extra={"TEST_CASE": "D1"})
        wait_for(lambda: os.path.exists(path), "its socket")
        assert fcgi.request(path, params).text == "ok"
        below = proc.descendants(process.pid)
        process.terminate()
        assert process.wait(30) == 0
        wait_for(lambda: not any(proc.alive(p) for p in below), "the end")
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def test_leaked_descriptors_are_closed(serve, folder):
    """mod_fcgid and h2o leave pipes open: neither we nor the application's
    children keep them."""
    r, w = os.pipe()
    os.set_inheritable(w, True)
    try:
        with socket.socket(socket.AF_UNIX) as s:
            s.bind(os.path.join(folder, "zero"))
            s.listen(100)
            server = serve(os.path.join(CHECKLIST, "app.py"), command="run",
                           stdin=s, listen=None, socket_mode=None,
                           address=s.getsockname(), cwd=CHECKLIST,
                           popen={"close_fds": False})
            os.close(w)
            w = -1
            assert hello(server)
            os.set_blocking(r, False)
            assert os.read(r, 1) == b""     # nobody holds the other end
            server.address = None
            server.stop()
    finally:
        os.close(r)
        if w >= 0:
            os.close(w)


# Settings and the environment

def test_env_setting(own):
    server = own("leaves", chdir=MANAGER,
                 env={"LEAVES": "nothing", "FROM_OUTSIDE": "1"},
                 words=["--env", "TEST_SETTING=a=b c"])
    found = json.loads(server.request().body)
    assert found["env"]["TEST_SETTING"] == "a=b c"
    assert found["env"]["FROM_OUTSIDE"] == "1"


def test_chdir_umask(own, folder):
    server = own("leaves", chdir=MANAGER, umask="0027",
                 env={"LEAVES": "nothing"})
    found = json.loads(server.request().body)
    assert found["cwd"] == MANAGER
    assert found["umask"] == 0o027


@pytest.mark.parametrize("mode, threads", [("threaded", 2), ("threaded", 8)])
def test_threads_really_run_at_once(serve, mode, threads):
    server = serve("app:application", chdir=CHECKLIST, mode=mode, workers=1,
                   threads=threads, body_buffer=0)
    peers = [server.peer() for _ in range(threads)]
    try:
        for peer in peers:
            peer.send(fcgi.begin() + fcgi.stream(fcgi.PARAMS, fcgi.pairs(
                fcgi.params_for("/", "POST", body=b"go",
                                extra={"TEST_CASE": "G6"}))))
        for peer in peers:
            peer.until(b"first")
        for peer in peers:
            peer.send(fcgi.stream(fcgi.STDIN, b"go"))
            peer.until(b"second")
            assert peer.answer().complete
    finally:
        for peer in peers:
            peer.close()


def test_prefork_workers_really_run_at_once(serve):
    server = serve("app:application", chdir=CHECKLIST, workers=4,
                   body_buffer=0)
    peers = [server.peer() for _ in range(4)]
    try:
        for peer in peers:
            peer.send(fcgi.begin() + fcgi.stream(fcgi.PARAMS, fcgi.pairs(
                fcgi.params_for("/", "POST", body=b"go",
                                extra={"TEST_CASE": "G6"}))))
            peer.until(b"first")
        for peer in peers:
            peer.send(fcgi.stream(fcgi.STDIN, b"go"))
            peer.until(b"second")
            assert peer.answer().complete
    finally:
        for peer in peers:
            peer.close()


def test_no_descriptor_is_lost_by_ordinary_life(own):
    server = own(workers=2)
    for _ in range(20):
        assert hello(server)
    counts = server.fd_counts()
    errors = []

    def client():
        try:
            for _ in range(30):
                assert ask(server, "hello").text == "hello"
                assert ask(server, "digest", method="POST",
                           body=b"x" * 70_000).status == 200
                assert ask(server, "wrap", query="bytesio").status == 200
        except BaseException as e:
            errors.append(e)
    threads = [threading.Thread(target=client) for _ in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not errors, errors[0]
    server.wait_fds(counts)


def test_log_level(own):
    server = own(words=["--log-level", "error"], wait=False)
    wait_for(lambda: os.path.exists(server.address), "its socket")
    assert ask(server, "D1").text == "ok"
    server.log.wait("D1 write$")
    assert not server.log.find(r" (INFO|WARN) ", 0)


# forebay request

def client(server, *words, **how):
    address = server.address if isinstance(server.address, str) else (
        "%s:%d" % server.address)
    return subprocess.run(
        [srv.program(), "request", "--connect", address, *words],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, **how)


def test_forebay_request(own, folder):
    server = own()
    case = ["--param", "TEST_CASE=hello"]
    found = client(server, *case, "/x")
    assert (found.returncode, found.stdout) == (0, b"hello")
    found = client(server, "--scgi", *case, "/x")
    assert found.stdout == b"hello"
    found = client(server, "--include", *case, "/x")
    assert found.stdout.startswith(b"Status: 200 OK")
    found = client(server, "--param", "TEST_CASE=digest", "--data", "abc",
                   "/x")
    assert found.stdout.startswith(b"3 ")
    found = client(server, "--param", "TEST_CASE=environ", "--header",
                   "X-One: 1", "--request", "PUT", "/a%20b?q=1")
    values = json.loads(found.stdout)
    assert values["HTTP_X_ONE"] == "1"
    assert values["REQUEST_METHOD"] == "PUT"
    assert values["PATH_INFO"] == "/a b"
    assert values["QUERY_STRING"] == "q=1"
    found = client(server, "--param", "TEST_CASE=fail", "/x?call,LookupError")
    server.expect_error("LookupError")
    server.stop()
    found = client(server, *case, "/x")
    assert found.returncode != 0 and found.stderr


def test_idle_processes_stay(own):
    """Nothing happens while nothing happens."""
    server = own(workers=2)
    before = server.ps()
    holds_for(lambda: server.ps() == before, 0.5, "the same processes")
