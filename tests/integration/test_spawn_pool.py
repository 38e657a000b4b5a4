# SPDX-License-Identifier: MIT
"""forebay spawn with programs that people run, behind a web server and
libfcgi's client; and with --supervise, where it does what multiwatch and a
manager do."""

import json
import os
import re
import shutil
import signal
import stat
import subprocess
import uuid

import pytest

from lib import fcgi, proc
from lib import frontends as fe
from lib import server as srv
from lib.ctl import Ctl
from lib.wait import FACTOR, TIMEOUT, wait_for

PROBE = os.path.join(srv.APPS, "spawn", "probe.c")
RESPONDER = os.path.join(srv.APPS, "programs", "responder.c")
ROOT = os.geteuid() == 0
needs_root = pytest.mark.skipif(not ROOT, reason="needs root")

PHP = "<?php echo 'php ', $_GET['q'], ' ', file_get_contents('php://input');"
CGI = """#!/bin/sh
printf 'Content-Type: text/plain\\r\\n\\r\\n'
printf 'cgi %s ' "${QUERY_STRING#q=}"
cat
"""
PERL = """use FCGI;
my $r = FCGI::Request();
while ($r->Accept() >= 0) {
    read(STDIN, my $body, $ENV{CONTENT_LENGTH} || 0);
    my $q = substr($ENV{QUERY_STRING}, 2);
    print "Content-Type: text/plain\\r\\n\\r\\nperl $q $body";
}
"""


def find(name):
    path = shutil.which(name, path=fe.SBIN)
    if path is None:
        pytest.skip(name + " is not installed")
    return path


@pytest.fixture(scope="module")
def built():
    """The folder with "probe" and "responder"."""
    if shutil.which("cc") is None:
        pytest.skip("no C compiler")
    folder = srv.temp_dir()
    for words in (["-static", "-D_GNU_SOURCE", PROBE, "-o", "probe"],
                  [RESPONDER, "-o", "responder", "-lfcgi"]):
        subprocess.run(["cc"] + words, cwd=folder, check=True)
    yield folder
    shutil.rmtree(folder)


class Spawned:
    """What one call of forebay spawn leaves running, in a folder of its
    own."""

    def __init__(self, words, env=None, foreground=False, supervised=True,
                 before=None, tool=None, **popen):
        self.folder = srv.temp_dir()
        os.chmod(self.folder, 0o777)
        self.address = self.at("s")
        self.log = srv.Log(self.at("log"))
        self.id = "FOREBAY_TEST_ID=" + uuid.uuid4().hex
        self.supervised = supervised
        self.foreground = foreground
        if before is not None:
            before(self)
        words = [w.replace("@DIR@", self.folder) for w in words]
        environ = dict(os.environ, FOREBAY_TEST_NOTES=self.folder,
                       PROBE_NOTES=self.folder,
                       FOREBAY_TEST_ID=self.id.partition("=")[2])
        environ.update(env or {})
        with open(self.at("out"), "wb") as out, \
                open(self.at("err"), "wb") as err:
            self.process = subprocess.Popen(
                (tool or [srv.program(), "spawn"]) + words, cwd=self.folder,
                env=environ, stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                **popen)
        if not foreground:
            self.code = self.process.wait(4 * TIMEOUT)

    def at(self, name):
        return os.path.join(self.folder, name)

    def read(self, name):
        try:
            with open(self.at(name), errors="replace") as f:
                return f.read()
        except FileNotFoundError:
            return ""

    def said(self):
        return self.read("out"), self.read("err"), self.log.text()[-3000:]

    def running(self):
        return sorted(p for p in proc.with_environ(self.id) if proc.alive(p))

    @property
    def manager(self):
        if self.foreground:
            return self.process.pid
        pid, = re.findall(r"PID: (\d+)$", self.read("out"), re.M)
        return int(pid)

    def programs(self):
        """Supervised: what the manager's template has started."""
        return sorted(p for t in proc.children(self.manager)
                      for p in proc.children(t) if proc.alive(p)
                      and "forebay" not in exe(p))

    def wait_programs(self, count, without=()):
        def there():
            found = self.programs()
            return (found if len(found) == count
                    and not set(found) & set(without) else None)
        return wait_for(there, lambda: "%d programs: %r %r" % (
            count, self.programs(), self.said()), 2 * TIMEOUT)

    def ask(self, path="/", query="", method="GET", body=None, extra=()):
        answer = fcgi.request(self.address, fcgi.params_for(
            path, method, query, body, extra=extra), body or b"")
        assert answer.complete, (answer, self.said())
        return answer

    def stop(self):
        """TERM, and nothing may be left."""
        os.kill(self.manager, signal.SIGTERM)
        wait_for(lambda: not self.running(), lambda: "nobody is left: %r" % [
            (p, proc.cmdline(p)) for p in self.running()],
            TIMEOUT + 30 * FACTOR)
        if self.foreground:
            assert self.process.wait() == 0
        assert not os.path.exists(self.address)
        assert not os.path.exists(self.at("pid"))
        bad = srv.NEVER.search(self.log.text() + self.read("err"))
        assert not bad, self.said()

    def close(self):
        for pid in self.running():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        wait_for(lambda: not self.running(), "the end of killed processes")
        self.process.wait()
        shutil.rmtree(self.folder)


def exe(pid):
    try:
        return os.path.basename(os.readlink("/proc/%d/exe" % pid))
    except OSError:
        return "forebay?"


@pytest.fixture
def spawn():
    started = []

    def run(*words, **how):
        started.append(Spawned(list(words), **how))
        return started[-1]
    yield run
    for found in started:
        found.close()


@pytest.fixture
def supervised(spawn, built):
    """forebay spawn -s @DIR@/s -P @DIR@/pid --supervise --log @DIR@/log with
    the responder, and more options."""
    def run(*words, program=None, **how):
        words = list(words)
        if "-s" not in words:
            words = ["-s", "@DIR@/s"] + words
        found = spawn("-P", "@DIR@/pid", "--supervise", "--log", "@DIR@/log",
                      *words, "--",
                      *(program or [os.path.join(built, "responder")]), **how)
        if not found.foreground:
            assert found.code == 0, found.said()
        return found
    return run


# Programs that people run, with a web server in front

class Script:
    """One of the programs: its words, and what asks it."""

    def __init__(self, words, says, extra=()):
        self.words, self.says, self.extra = words, says, dict(extra)


@pytest.fixture
def script(built, tmp_path):
    def make(kind):
        def document(name, text):
            path = tmp_path / name
            path.write_text(text)
            path.chmod(0o755)
            return {"SCRIPT_FILENAME": str(path), "SCRIPT_NAME": "/" + name}
        if kind == "php-cgi":
            return Script([find("php-cgi")], "php", document("a.php", PHP))
        if kind == "fcgiwrap":
            return Script([find("fcgiwrap")], "cgi", document("a.cgi", CGI))
        if kind == "libfcgi":
            return Script([os.path.join(built, "responder")], None)
        perl = find("perl")
        if subprocess.run([perl, "-MFCGI", "-e", "1"],
                          stderr=subprocess.DEVNULL).returncode != 0:
            pytest.skip("libfcgi-perl is not installed")
        return Script([perl, document("a.pl", PERL)["SCRIPT_FILENAME"]],
                      "perl")
    return make


@pytest.mark.parametrize("how", ["plain", "several", "supervised"])
@pytest.mark.parametrize("kind", ["php-cgi", "libfcgi", "fcgiwrap", "perl"])
def test_program(spawn, front, script, kind, how):
    what = script(kind)
    words = ["-s", "@DIR@/s", "-M", "0666"]
    if how != "plain":
        words += ["-F", "2"]
    if how == "supervised":
        words += ["--supervise", "--log", "@DIR@/log"]
    run = spawn(*words, "--", *what.words)
    assert run.code == 0, run.said()

    def check(answer, number):
        if what.says is None:
            found = json.loads(answer)
            assert (found["query"], found["body"]) == (
                "q=%d" % number, len("body %d" % number))
        else:
            assert answer.decode() == "%s %d body %d" % (what.says, number,
                                                         number)
    params = "".join("fastcgi_param %s %s;" % item
                     for item in what.extra.items())
    web = front(fe.Nginx, run.address, PASS="include "
                "/etc/nginx/fastcgi_params; fastcgi_param PATH_INFO /; "
                "fastcgi_pass app; " + params)
    for n in range(4):
        status, _, body = web.request("/a?q=%d" % n, "POST", b"body %d" % n)
        assert status == 200, web.log()
        check(body, n)
    for n in range(2):
        body = b"body %d" % n
        code, out, err = fe.cgi_fcgi(run.address, fcgi.params_for(
            "/", "POST", "q=%d" % n, body, extra=what.extra), body)
        assert code == 0, err
        check(out.partition(b"\r\n\r\n")[2], n)


# Supervision

def test_it_is_left_in_the_background(supervised):
    """The caller gets its prompt back when the programs run, and no descriptor
    of it is held."""
    run = supervised("-F", "2")
    assert run.read("out") == ("spawn-fcgi: child spawned successfully: PID: "
                               "%d\n" % run.manager)
    assert run.read("pid") == "%d\n" % run.manager
    assert len(run.programs()) == 2
    fds = proc.fds(run.manager)
    assert fds[0] == fds[1] == fds[2] == "/dev/null"
    assert os.getsid(run.manager) == run.manager
    assert json.loads(run.ask("/x").body)["path"] == "/x"
    run.stop()


def test_a_program_that_ends_is_started_anew(supervised):
    run = supervised("-F", "2")
    for _ in range(3):
        before = run.wait_programs(2)
        os.kill(before[0], signal.SIGKILL)
        run.wait_programs(2, without=before[:1])
        assert json.loads(run.ask().body)["pid"] != before[0]
    assert run.log.find("killed by signal 9")
    run.stop()


def test_what_programs_write_is_logged(supervised):
    run = supervised()
    found = json.loads(run.ask("/log").body)
    line, = run.log.wait("written to descriptor 2$")
    assert "responder[%d]" % found["pid"] in line
    os.rename(run.at("log"), run.at("log.1"))
    os.kill(run.manager, signal.SIGUSR1)
    wait_for(lambda: os.path.exists(run.at("log")), "a new log")
    run.ask("/log")
    run.log.wait("written to descriptor 2$")
    run.stop()


def test_signals_and_orders(supervised):
    run = supervised("--control", "@DIR@/control")
    run.wait_programs(1)
    os.kill(run.manager, signal.SIGTTIN)
    old = run.wait_programs(2)
    ctl = Ctl(run.at("control"))
    ctl("scale", "responder", "+1")
    run.wait_programs(3)
    ctl("scale", "responder", "1")
    run.wait_programs(1)
    ctl("reload")
    run.wait_programs(1, without=old)
    os.kill(run.manager, signal.SIGHUP)
    wait_for(lambda: len(run.log.find(r": ready\b")) == 3, "reloaded")
    assert json.loads(run.ask().body)["number"] >= 1
    run.stop()


def test_a_request_that_runs_is_finished(supervised):
    run = supervised()
    peer = fcgi.Peer(run.address, timeout=2 * TIMEOUT)
    peer.send(fcgi.begin() + fcgi.stream(fcgi.PARAMS, fcgi.pairs(
        fcgi.params_for("/hold", "POST", body=b"go"))))
    wait_for(lambda: run.read("holding"), "the request is in the program")
    os.kill(run.manager, signal.SIGTERM)
    run.log.wait("stopping")
    assert len(run.programs()) == 1
    peer.send(fcgi.stream(fcgi.STDIN, b"go"))
    answer = peer.answer()
    peer.close()
    assert answer.complete and json.loads(answer.body)["body"] == 2
    wait_for(lambda: not run.running(), "nobody is left", 2 * TIMEOUT)


def test_the_binary_is_replaced(supervised):
    """SIGUSR2: the new manager does not leave for the background again."""
    run = supervised("-F", "2")
    old = run.manager
    os.kill(old, signal.SIGUSR2)
    wait_for(lambda: not proc.alive(old), lambda: "the old one ends: %r" % [
        run.said()], 2 * TIMEOUT)
    new = int(run.read("pid"))
    assert new != old and proc.alive(new)
    assert json.loads(run.ask().body)["number"] >= 1
    os.kill(new, signal.SIGTERM)
    wait_for(lambda: not run.running(), "nobody is left", 2 * TIMEOUT)
    assert not os.path.exists(run.address)


def test_what_the_parent_blocked(supervised):
    def deaf():
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 32))
    run = supervised(preexec_fn=deaf)
    old = run.wait_programs(1)
    os.kill(old[0], signal.SIGKILL)
    new, = run.wait_programs(1, without=old)
    assert not proc.signals(new, "SigBlk") and not proc.signals(new, "SigIgn")
    run.stop()


def test_in_the_foreground(supervised):
    run = spawn_foreground(supervised)
    assert json.loads(run.ask().body)["number"] == 1
    os.kill(run.programs()[0], signal.SIGKILL)
    run.log.wait("killed by signal 9")
    assert not run.read("out")
    run.stop()


def spawn_foreground(supervised):
    run = supervised("-n", foreground=True)
    run.log.wait(r": ready\b")
    return run


def test_the_log_in_the_foreground(spawn, built):
    """On standard error, unless it is told otherwise."""
    run = spawn("-n", "-s", "@DIR@/s", "--supervise", "--",
                os.path.join(built, "responder"), foreground=True)
    wait_for(lambda: re.search(r": ready\b", run.read("err")), run.said)
    run.stop()


def test_in_the_place_of_multiwatch(spawn, built):
    """spawn-fcgi gives it the socket."""
    run = spawn("-s", "@DIR@/s", "--", srv.program(), "spawn", "-F", "2",
                "--supervise", "--log", "@DIR@/log", "--",
                os.path.join(built, "responder"))
    assert run.code == 0, run.said()
    run.log.wait(r": ready\b")
    programs = run.wait_programs(2)
    assert json.loads(run.ask().body)["pid"] in programs
    os.kill(run.manager, signal.SIGTERM)
    wait_for(lambda: not run.running(), "nobody is left", 2 * TIMEOUT)


@pytest.mark.parametrize("words,says", [
    (["--", "/no/such/program"], "/no/such/program: No such file"),
    (["--", "/bin/false"], "exited with code 1"),
    (["-f", "/bin/sh -c 'exit 3'"], "exited with code 3"),
    (["-d", "/no/folder", "--", "/bin/true"], "/no/folder"),
    (["-s", "/no/folder/s", "--", "/bin/true"], "/no/folder"),
])
def test_why_it_does_not_start(spawn, words, says):
    """On the standard error of the caller, though its log is elsewhere."""
    run = spawn("-s", "@DIR@/s", "-P", "@DIR@/pid", "--supervise", "--log",
                "@DIR@/log", *words)
    assert run.code in (1, 69, 78), run.said()
    assert says in run.read("err") and says in run.log.text()
    assert not run.read("out") and not run.running()
    assert not os.path.exists(run.address)
    assert not os.path.exists(run.at("pid"))


@pytest.mark.parametrize("words,says", [
    (["--worker", "2", "--", "/bin/true"], "--workers"),
    (["--threads", "2", "--", "/bin/true"], "threads is for Python"),
    (["--log"], "--log needs a value"),
    (["--log-level", "loud", "--", "/bin/true"], "--log-level is error"),
    ([], "no program"),
    (["-p", "9", "--", "/bin/true"], "-s and -p"),
    (["-a", "nonsense", "-F", "0", "--", "/bin/true"], "workers"),
])
def test_mistakes(spawn, words, says):
    run = spawn("-s", "@DIR@/s", "--supervise", *words)
    assert run.code == 255, run.said()
    assert says in run.read("err")
    assert not run.running() and not os.path.exists(run.address)


# What the program finds

def facts(run):
    """The notes of the one probe that runs."""
    pid, = run.wait_programs(1)
    wait_for(lambda: os.path.exists(run.at(str(pid))), "the probe's notes")
    return run.read(str(pid)).splitlines()


@pytest.fixture
def probe(supervised, built):
    def run(*words, program=("@DIR@/probe", "one", 'two "words" \\'), **how):
        def before(self):
            shutil.copy(os.path.join(built, "probe"), self.at("probe"))
        return supervised(*words, program=list(program), before=before, **how)
    return run


def test_what_a_program_finds(probe):
    """As without --supervise, but for what is written to 1 and 2, which goes
    to the log."""
    run = probe("-d", "/", "-C", "3", "-M", "0640")
    found = facts(run)
    assert "argument 1 one" in found
    assert 'argument 2 two "words" \\' in found
    assert "folder /" in found
    assert "variable PHP_FCGI_CHILDREN=3" in found
    assert "no_new_privs 0" in found
    assert [line for line in found if line.startswith("fd ")][0] == (
        "fd 0 flags 2 socket listening 1 unix")
    assert len([line for line in found if line.startswith("fd ")]) == 3
    assert not [line for line in found
                if line.startswith(("ignored", "blocked"))]
    st = os.stat(run.address)
    assert stat.S_IMODE(st.st_mode) == 0o640
    run.stop()


@pytest.mark.parametrize("mask", [0, 0o077])
def test_the_mode_without_one(probe, mask):
    run = probe(umask=mask)
    assert stat.S_IMODE(os.stat(run.address).st_mode) == 0o660 & ~mask
    run.stop()


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "::"])
def test_a_port(spawn, built, host):
    """[::] takes IPv4 as well, as it does without --supervise."""
    if ":" in host and not os.path.exists("/proc/net/if_inet6"):
        pytest.skip("no IPv6 here")
    port = srv.free_port()
    run = spawn("-a", host, "-p", str(port), "-b", "9", "--supervise",
                "--log", "@DIR@/log", "--", os.path.join(built, "probe"))
    assert run.code == 0, run.said()
    line, = [f for f in facts(run) if f.startswith("fd 0")]
    assert line.endswith(" %s backlog 9" % host)
    assert ("v6only 0" in line) is (host == "::")
    os.kill(run.manager, signal.SIGTERM)
    wait_for(lambda: not run.running(), "nobody is left", 2 * TIMEOUT)


@needs_root
def test_rights(probe):
    import grp
    import pwd
    nobody = pwd.getpwnam("nobody")
    daemon = grp.getgrnam("daemon").gr_gid
    www = pwd.getpwnam("www-data")
    run = probe("-u", "nobody", "-g", "daemon", "-U", "www-data")
    found = facts(run)
    assert "uid" + 3 * (" %d" % nobody.pw_uid) in found
    assert "gid" + 3 * (" %d" % daemon) in found
    assert "groups %d" % daemon in found
    st = os.stat(run.address)
    assert (st.st_uid, st.st_gid) == (www.pw_uid, www.pw_gid)
    run.stop()


@needs_root
@pytest.mark.parametrize("outside", [False, True])
def test_root_folder(supervised, built, outside):
    """The socket is inside of it, unless -S is there."""
    def jail(run):
        os.makedirs(run.at("jail/sub"))
        os.chmod(run.at("jail"), 0o777)
        shutil.copy(os.path.join(built, "probe"), run.at("jail/probe"))
    where = ["-S", "-s", "@DIR@/s"] if outside else ["-s", "/s"]
    run = supervised("-c", "jail", "-d", "/sub", "-u", "nobody", *where,
                     program=["/probe"], before=jail,
                     env={"PROBE_NOTES": "/"})
    pid, = run.wait_programs(1)
    wait_for(lambda: run.read("jail/%d" % pid), "the probe's notes")
    assert "folder /sub" in run.read("jail/%d" % pid).splitlines()
    assert os.path.exists(run.at("jail/s")) is not outside
    assert os.path.exists(run.at("s")) is outside
    run.stop()
    assert not os.path.exists(run.at("jail/s"))


@needs_root
def test_programs_may_start_programs_with_more_rights(spawn):
    """PHP's mail() runs sendmail, which may have a set-user-ID bit."""
    if os.statvfs("/tmp").f_flag & os.ST_NOSUID:
        pytest.skip("/tmp is mounted nosuid")

    def before(run):
        shutil.copy("/bin/dash", run.at("sh"))
        os.chmod(run.at("sh"), 0o4755)
    run = spawn("-s", "@DIR@/s", "-u", "nobody", "--supervise", "--log",
                "@DIR@/log", "-f",
                "@DIR@/sh -pc 'cat /proc/self/status > $PROBE_NOTES/status; "
                "exec sleep 60'", before=before)
    assert run.code == 0, run.said()
    wait_for(lambda: "CapBnd" in run.read("status"), run.said)
    found = dict(re.findall(r"^(Uid|CapEff):\s+(\S+)", run.read("status"),
                            re.M))
    assert found["Uid"] == "65534" and int(found["CapEff"], 16) != 0
    os.kill(run.manager, signal.SIGTERM)
    run.log.wait("stopping")
