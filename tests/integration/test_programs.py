# SPDX-License-Identifier: MIT
"""Pools of external FastCGI programs (command = ...): the job of spawn-fcgi,
with everything that a manager adds."""

import errno
import fcntl
import json
import os
import re
import shutil
import signal
import socket
import subprocess

import pytest

from lib import fcgi, proc
from lib import frontends as fe
from lib import server as srv
from lib.load import Direct, Http, Load
from lib.wait import TIMEOUT, wait_for

PROGRAMS = os.path.join(srv.APPS, "programs")


@pytest.fixture(scope="module")
def responder():
    """A responder with libfcgi, compiled here: it tells its number, and how
    many requests it has answered."""
    if shutil.which("cc") is None:
        pytest.skip("no C compiler")
    folder = srv.temp_dir()
    path = os.path.join(folder, "responder")
    found = subprocess.run(
        ["cc", "-o", path, os.path.join(PROGRAMS, "responder.c"), "-lfcgi"],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if found.returncode != 0:
        shutil.rmtree(folder)
        pytest.skip("no libfcgi to compile with: %s" % found.stdout.decode())
    yield path
    shutil.rmtree(folder)


class Program:
    def __init__(self, server, notes):
        self.server, self.notes = server, notes

    def ask(self, path="/", **how):
        answer = self.server.request(path, **how)
        assert answer.complete, answer
        return json.loads(answer.body)

    def programs(self):
        """Their numbers: children of the template."""
        return sorted(
            p for t in proc.children(self.server.pid)
            for p in proc.children(t) if proc.alive(p)
            and "forebay" not in os.path.basename(exe(p)))

    def wait_programs(self, count, without=()):
        def there():
            found = [p for p in self.programs() if p not in without]
            return found if len(found) == count else None
        found = wait_for(there, lambda: "%d programs: %r" % (
            count, self.server.ps()), 2 * TIMEOUT)
        self.server.remember()
        return found

    def ready(self):
        return len(self.server.log.find(r": ready\b", 0))

    def hold(self):
        """A request that is in the program until its body comes."""
        before = len(self.notes.read("holding"))
        peer = self.server.peer(timeout=2 * TIMEOUT)
        peer.send(fcgi.begin() + fcgi.stream(fcgi.PARAMS, fcgi.pairs(
            fcgi.params_for("/hold", "POST", body=b"go"))))
        self.notes.wait("holding", before + 1)
        return peer

    @staticmethod
    def release(peer):
        peer.send(fcgi.stream(fcgi.STDIN, b"go"))
        answer = peer.answer()
        peer.close()
        assert answer.complete, answer
        return json.loads(answer.body)


def start_program(serve, command, words=(), **options):
    return serve(None, words=["--command", command] + list(words),
                 **dict({"workers": 2}, **options))


def exe(pid):
    try:
        return os.readlink("/proc/%d/exe" % pid)
    except OSError:
        return ""


@pytest.fixture
def pool(serve, notes, responder):
    def start(**options):
        env = dict(notes.env(), **options.pop("env", {}))
        command = options.pop("command", responder)
        return Program(start_program(serve, command, env=env, **options),
                       notes)
    return start


def test_it_answers(pool):
    p = pool()
    programs = p.wait_programs(2)
    found = p.ask("/x", query="a=1", method="POST", body=b"12345")
    assert found["pid"] in programs
    assert found["path"] == "/x" and found["query"] == "a=1"
    assert found["body"] == 5
    # The socket, nothing to read, and the log.
    fds = proc.fds(found["pid"])
    assert re.match("socket:", fds[0])
    assert re.match("pipe:", fds[1]) and fds[1] == fds[2]
    assert set(fds) <= {0, 1, 2, 3, 4}


def test_what_it_writes_is_in_the_log(pool):
    p = pool(name="php")
    found = p.ask("/log")
    line, = p.server.log.wait("written to descriptor 2$")
    assert "php" in line and str(found["pid"]) in line


def test_words_of_the_command(pool, responder):
    """Arguments with blanks, and a program that is looked for in PATH."""
    folder, name = os.path.split(responder)
    p = pool(command='%s "two words" three' % name,
             env={"PATH": folder + ":" + os.environ["PATH"]})
    assert p.ask()["args"] == ["two words", "three"]


def test_its_environment_and_folder(pool, responder):
    p = pool(chdir="/", umask="0027", words=["--env", "TEST_SETTING=yes"])
    found = p.ask()
    assert found["setting"] == "yes" and found["cwd"] == "/"


@pytest.mark.parametrize("every", ["*", ""])
def test_its_one_socket(pool, every):
    """An address that means several sockets is one for a program, which gets
    no second one: nothing listens without a program."""
    port = srv.free_port()
    p = pool(listen="%s:%d" % (every, port), address=("127.0.0.1", port))
    assert p.ask()["number"] == 1
    with socket.socket(socket.AF_INET6) as s:
        try:
            s.bind(("::1", 0))
        except OSError:
            pytest.skip("no IPv6 here")
    if every:
        p.server.address = ("::1", port)
        assert p.ask()["number"] >= 1
    else:
        with socket.socket(socket.AF_INET6) as s:
            assert s.connect_ex(("::1", port)) == errno.ECONNREFUSED


@pytest.mark.parametrize("count", [1, 2])
def test_sockets_of_systemd(responder, count):
    """One is its socket; of two, one would never be served."""
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]

    def pass_on():
        # (Above the numbers that they are to have.)
        fds = [fcntl.fcntl(s.fileno(), fcntl.F_DUPFD, 20) for s in held]
        for n, fd in enumerate(fds):
            os.dup2(fd, 3 + n)
    server = subprocess.Popen(
        ["/bin/sh", "-c", "LISTEN_PID=$$ LISTEN_FDS=%d exec \"$@\"" % count,
         "sh", srv.program(), "serve", "--listen", "systemd", "--command",
         responder], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, close_fds=False, preexec_fn=pass_on)
    try:
        for line in server.stdout:
            if b": ready" in line or b"more sockets" in line:
                break
        if count == 1:
            assert json.loads(fcgi.request(
                held[0].getsockname(), fcgi.params_for("/")).body)["number"]
            server.terminate()
        else:
            assert b"more sockets were passed than the 1" in line
        assert server.wait(4 * TIMEOUT) == (0 if count == 1 else 69)
    finally:
        server.kill()
        server.communicate()
        for s in held:
            s.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_its_user(pool, responder):
    os.chmod(os.path.dirname(responder), 0o755)
    p = pool(user="nobody")
    import pwd
    assert p.ask()["uid"] == pwd.getpwnam("nobody").pw_uid


def test_one_that_does_not_exist(fails):
    code, log = start_program(fails, "/no/such/program")
    assert code == 1
    assert "/no/such/program" in log and "No such file" in log


def test_one_that_ends_at_once(fails):
    code, log = start_program(fails, "/bin/false")
    assert code == 1
    assert "exited with code 1" in log


# Death and replacement

def test_a_killed_program_is_replaced(pool):
    p = pool()
    before = p.wait_programs(2)
    peer = p.hold()
    victim, = (int(x) for x in p.notes.read("holding"))
    os.kill(victim, signal.SIGKILL)
    assert not peer.answer().complete
    peer.close()
    p.server.expect_error("worker %d was killed by signal 9" % victim)
    now = p.wait_programs(2, without=[victim])
    assert set(before) - {victim} <= set(now)
    for _ in range(4):
        assert p.ask()["pid"] != victim


def test_kill_after_kill(pool):
    p = pool()
    for _ in range(6):
        victim = p.wait_programs(2)[0]
        os.kill(victim, signal.SIGKILL)
        p.wait_programs(2, without=[victim])
        assert p.ask()["pid"] != victim
    p.server.errors_expected = True


def test_it_ends_by_itself(pool):
    """After so many requests, as PHP_FCGI_MAX_REQUESTS does: the next one
    follows without a pause, and no request is lost."""
    p = pool(env={"MOST_REQUESTS": "300"})
    with Load(lambda: Direct(p.server.address), 3) as load:
        wait_for(lambda: len(p.server.log.find("has ended; another one", 0))
                 >= 4, "four have ended", 4 * TIMEOUT)
        load.wait(10)
    p.wait_programs(2)


# Orders

def test_reload(pool):
    """New programs beside the old ones; a request that runs ends in its
    own."""
    p = pool()
    old = p.wait_programs(2)
    peer = p.hold()
    p.server.process.send_signal(signal.SIGHUP)
    wait_for(lambda: p.ready() == 2, "the new generation")
    wait_for(lambda: len(set(p.programs()) & set(old)) == 1,
             "the one that has a request is left")
    for _ in range(6):
        found = p.ask()
        assert found["pid"] not in old
    assert p.release(peer)["pid"] in old
    p.wait_programs(2, without=old)


def test_reload_under_load(pool):
    p = pool()
    with Load(lambda: Direct(p.server.address), 3) as load:
        for n in range(8):
            p.server.process.send_signal(signal.SIGHUP)
            wait_for(lambda: p.ready() == n + 2, "the next generation")
            load.wait(9)


def test_stop_finishes_what_runs(pool):
    p = pool()
    peer = p.hold()
    p.server.terminate()
    p.server.log.wait("stopping")
    assert p.server.running()
    p.release(peer)
    assert p.server.wait_exit() == 0


def test_stop_of_one_that_does_not_listen(pool):
    """It ignores USR1 and TERM: killed after graceful_timeout."""
    p = pool(env={"STUBBORN": "1"}, graceful_timeout="300ms")
    assert p.ask()["number"] == 1
    p.server.terminate()
    assert p.server.wait_exit() == 0
    p.server.expect_error("graceful_timeout")


def test_upgrade(pool):
    p = pool()
    old = p.wait_programs(2)
    with Load(lambda: Direct(p.server.address), 2) as load:
        p.server.process.send_signal(signal.SIGUSR2)
        wait_for(lambda: p.ready() == 2, "the new manager")
        assert p.server.wait_exit() == 0
        load.wait(10)
    assert p.ask()["pid"] not in old
    new, = [x for x in proc.with_environ(p.server.id)
            if proc.alive(x) and " serve " in proc.cmdline(x)]
    os.kill(new, signal.SIGTERM)
    wait_for(lambda: not p.server.strays(), "nobody is left")


def test_one_that_does_not_know_the_signal(pool):
    """It ends by SIGUSR1: as it was told, so that is no error."""
    p = pool(env={"SIMPLE": "1"})
    assert p.ask()["number"] == 1
    old = p.wait_programs(2)
    p.server.process.send_signal(signal.SIGHUP)
    wait_for(lambda: p.ready() == 2, "the new generation")
    p.wait_programs(2, without=old)
    p.server.stop()


def test_number_of_programs(pool):
    p = pool(workers=1)
    p.server.process.send_signal(signal.SIGTTIN)
    p.wait_programs(2)
    p.server.process.send_signal(signal.SIGTTOU)
    p.wait_programs(1)
    assert p.ask()["number"] >= 1


def test_they_end_with_the_manager(pool):
    p = pool(graceful_timeout="1s")
    p.wait_programs(2)
    p.server.process.kill()
    p.server.process.wait()
    wait_for(lambda: not p.server.strays(), lambda: "nobody is left: %r" % [
        (x, proc.cmdline(x)) for x in p.server.strays()], 2 * TIMEOUT)


# Well-known ones

def need(name, path="/usr/bin:/usr/sbin:/usr/local/bin"):
    found = shutil.which(name, path=path)
    if found is None:
        pytest.skip(name + " is not installed")
    return found


@pytest.fixture
def document(tmp_path):
    def make(name, text, mode=0o644):
        path = tmp_path / name
        path.write_text(text)
        path.chmod(mode)
        return str(path)
    return make


def script(path, **how):
    return {"SCRIPT_FILENAME": path, "SCRIPT_NAME": "/" + os.path.basename(
        path), **how}


def test_php_cgi(serve, document):
    """Recycled by its own limit, killed, reloaded."""
    php = need("php-cgi")
    page = document("page.php", "<?php echo getmypid(), ' ', $_GET['a'];")
    server = start_program(serve, php,
                   env={"PHP_FCGI_MAX_REQUESTS": "20"})

    def ask(n):
        answer = server.request("/page.php", query="a=%d" % n,
                                extra=script(page))
        assert answer.complete, answer
        pid, value = answer.text.split()
        assert int(value) == n
        return int(pid)
    pids = {ask(n) for n in range(60)}
    assert len(pids) > 2
    victim = Program(server, None).wait_programs(2)[0]
    os.kill(victim, signal.SIGKILL)
    server.expect_error("worker %d was killed by signal 9" % victim)
    assert ask(2) != victim
    server.process.send_signal(signal.SIGHUP)
    wait_for(lambda: len(server.log.find(r": ready\b", 0)) == 2, "reloaded")
    assert ask(3)


def test_php_behind_nginx(serve, front, document):
    php = need("php-cgi")
    page = document("page.php", "<?php echo strlen(file_get_contents("
                                "'php://input'));")
    os.chmod(os.path.dirname(page), 0o755)
    server = start_program(serve, php)
    web = front(fe.Nginx, server.address, PASS="include "
                "/etc/nginx/fastcgi_params; fastcgi_pass app; "
                "fastcgi_param SCRIPT_FILENAME %s;" % page)
    with Load(lambda: Http(web, "/", "POST", b"x" * 5000), 2) as load:
        load.wait(40)
        server.process.send_signal(signal.SIGHUP)
        wait_for(lambda: len(server.log.find(r": ready\b", 0)) == 2,
                 "reloaded")
        load.wait(20)
    assert web.request("/", "POST", b"x" * 5000)[2] == b"5000"


def test_fcgiwrap(serve, document):
    """CGI programs by way of fcgiwrap."""
    wrap = need("fcgiwrap")
    cgi = document("page.cgi", "#!/bin/sh\nprintf 'Content-Type: text/plain"
                   "\\r\\n\\r\\n'\necho \"$QUERY_STRING\"\ncat\n", 0o755)
    server = start_program(serve, wrap)
    for n in range(10):
        body = b"body %d" % n
        answer = server.request("/page.cgi", "POST", query="n=%d" % n,
                                body=body, extra=script(cgi))
        assert answer.body == b"n=%d\n%s" % (n, body)


def test_perl(serve, document):
    perl = need("perl")
    if subprocess.run([perl, "-MFCGI", "-e", "1"],
                      stderr=subprocess.DEVNULL).returncode != 0:
        pytest.skip("libfcgi-perl is not installed")
    page = document("page.pl", "use FCGI;\nmy $r = FCGI::Request();\n"
                    "while ($r->Accept() >= 0) {\n  print \"Content-Type: "
                    "text/plain\\r\\n\\r\\n$$ $ENV{QUERY_STRING}\";\n}\n")
    server = start_program(serve, '%s "%s"' % (perl, page))
    for n in range(10):
        pid, query = server.request("/", query="q%d" % n).text.split()
        assert query == "q%d" % n
    os.kill(int(pid), signal.SIGKILL)
    server.expect_error("killed by signal 9")
    assert server.request("/").complete
