# SPDX-License-Identifier: MIT
"""Logs: whole lines from everywhere (R119, R121, R140), files that are rotated
(R120) or full, syslog, the access log (R061), FCGI_STDERR (R014)."""

import collections
import ctypes
import json
import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import threading
import time

import pytest

from lib import fcgi, proc
from lib import frontends as fe
from lib import server as srv
from lib.wait import FACTOR, wait_for

APP = os.path.join(srv.APPS, "logs")


@pytest.fixture
def folder():
    path = srv.temp_dir()
    yield path
    shutil.rmtree(path)


@pytest.fixture
def logging(serve):
    """serve() of the application for logs."""
    def start(**options):
        options.setdefault("workers", 1)
        return serve("app:application", chdir=APP, **options)
    return start


def text_of(line):
    """What stands behind time, level, pool and pid."""
    assert srv.PREFIX.match(line), line[:200]
    return srv.PREFIX.sub("", line, count=1)


def read(path):
    with open(path, "rb") as f:
        return f.read().decode("utf-8", "backslashreplace").splitlines()


def file_log(folder, name):
    return srv.Log(os.path.join(folder, name))


def at_once(*functions):
    """Run them in threads; the first exception is raised here."""
    failed = []

    def guarded(function):
        try:
            function()
        except BaseException as e:      # pylint: disable=broad-except
            failed.append(e)
    started = [threading.Thread(target=guarded, args=(f,)) for f in functions]
    for t in started:
        t.start()
    for t in started:
        t.join()
    if failed:
        raise failed[0]


# -- whole lines --------------------------------------------------------------

@pytest.mark.parametrize("size", [1023, 1024, 8192, 1 << 20])
def test_R119_sizes(logging, epoll_shape, size):
    server = logging(**epoll_shape.options())
    assert server.request("/lines", query="size=%d&count=3" % size).text == \
        "done"
    found = server.log.wait(r"w:x+:w$", 3)
    assert [len(text_of(line)) for line in found] == [size] * 3
    assert all(" app " in line for line in found)


def test_R119_ten_workers_at_once(logging):
    """Lines longer than what a pipe takes in one piece, from ten processes."""
    server = logging(workers=10)

    def ask(who):
        def run():
            for n in range(10):
                answer = server.request("/lines", query=(
                    "who=%s%d&size=9000&count=10" % (who, n)))
                assert answer.text == "done"
        return run
    at_once(*(ask(c) for c in "abcdefghij"))
    found = server.log.wait(r":x+:", 1000)
    count = collections.Counter()
    for line in found:
        m = re.fullmatch(r"([a-j]\d):x+:\1", text_of(line))
        assert m and len(m.group(0)) == 9000, line[:200]
        count[m.group(1)] += 1
    assert set(count.values()) == {10} and len(count) == 100


def test_R119_order_of_a_worker(logging):
    server = logging()
    for first in range(0, 500, 100):
        server.request("/numbered", query="first=%d&count=100" % first)
    found = [text_of(x) for x in server.log.wait(r"N w \d+ end$", 500)]
    assert found == ["N w %d end" % n for n in range(500)]


def test_R119_binary(logging):
    server = logging()
    assert server.request("/binary").text == "done"
    server.log.wait(r"\\xffE$")
    found = server.log.find(" app ", 0)
    with open(server.log.path, "rb") as f:
        raw = f.read()
    assert not re.search(rb"[\x00-\x08\x0b-\x1f\x7f]", raw)
    # The byte that is a newline ends a line; everything else is there.
    low = "".join(r"\x%02x" % n if n != 9 else "\t" for n in range(10))
    high = "".join(r"\x%02x" % n for n in range(11, 32))
    high += "".join(chr(n) for n in range(32, 127))
    high += "".join(r"\x%02x" % n for n in range(127, 256))
    assert [text_of(x) for x in found] == [
        "B" + low, high + low, high + "E"]


def test_R119_no_trailing_newline(logging, epoll_shape):
    """What has no newline at the end is a line all the same."""
    server = logging(**epoll_shape.options())
    for who in "ab":
        assert server.request("/no_newline", query="who=" + who).text == "done"
    for who in "ab":
        server.log.wait(": P %s errors$" % who)
        server.log.wait(": P %s stdout$" % who)


def test_R119_a_line_that_nobody_ends(logging):
    """os.write() without a newline: shown after a moment, and at the end of
    the worker."""
    server = logging()
    server.request("/unfinished", query="who=a")
    server.log.wait(r": U a and no more$")
    server.request("/unfinished", query="who=b")
    server.stop()
    assert [text_of(x) for x in server.log.find(r"U \w and", 0)] == [
        "U a and no more", "U b and no more"]


def test_R119_messages_behind_unfinished_text(logging):
    """A message of the server does not stick to text without a newline."""
    server = logging(max_body_size="10")
    server.request("/unfinished", query="who=a")
    assert server.request("/", method="POST", body=b"x" * 11).status == 413
    line, = server.log.wait(r"answered 413")
    assert " WARN " in line and "U a" not in line
    line, = server.log.find(r"U a and no more$")
    assert " app " in line


def test_R121_threads(logging, epoll_shape):
    server = logging(**epoll_shape.options())
    at_once(*[lambda: server.request("/threads")] * 2)
    found = server.log.wait(r"T [a-h]", 1600)
    expected = collections.Counter(
        "T %s %s %d end" % (c * 100, c * 100, n)
        for c in "abcdefgh" for n in range(100) for _ in range(2))
    assert collections.Counter(text_of(x) for x in found) == expected


def test_R121_long_lines_of_threads_beside_messages(logging):
    """Lines and messages longer than PIPE_BUF from threads of one process."""
    server = logging(mode="threaded", threads=8)

    def ask(who):
        def run():
            for _ in range(10):
                server.request("/lines", query="who=%s&size=20000&count=5"
                               % who)
                assert server.request("/fails").status == 500
        return run
    at_once(*(ask(c) for c in "abcdefgh"))
    found = server.log.wait(r":x+:", 400)
    for line in found:
        assert re.fullmatch(r"([a-h]):x+:\1", text_of(line)), line[:100]
        assert len(text_of(line)) == 20000
    server.log.wait(r"LookupError: failed on purpose$", 80)
    server.errors_expected = True


def test_D8_a_manager_that_stands_still(logging, epoll_shape):
    """Nobody reads what the workers write: they give up after a while, and
    tell how much is missing when somebody reads again."""
    server = logging(**epoll_shape.options())
    os.kill(server.pid, signal.SIGSTOP)
    try:
        for _ in range(3):
            assert server.request("/lines", query="size=1000000").text == \
                "done"
    finally:
        os.kill(server.pid, signal.SIGCONT)
    wait_for(lambda: server.request("/numbered").text == "done" and
             server.log.find(r" WARN .* \d+ bytes for the log were lost", 0),
             "the count of what was lost")
    server.log.wait("N w 0 end$")


@pytest.mark.parametrize("how", ["stderr", "file"])
def test_R140_descriptors_1_and_2(logging, folder, how):
    options = {} if how == "stderr" else {"log": os.path.join(folder, "log")}
    server = logging(**options)
    log = server.log if how == "stderr" else file_log(folder, "log")

    def check(who):
        server.request("/descriptors", query="who=" + who)
        for what in ("os.write 2", "os.write 1", "write", "dprintf", "puts"):
            line, = log.wait("D %s %s$" % (what, who))
            assert re.search(r" app +main\[\d+\]: ", line), line
    check("before")
    workers = server.workers()
    server.process.send_signal(signal.SIGHUP)
    wait_for(lambda: server.workers() and
             not set(server.workers()) & set(workers), "new workers")
    check("after")


# -- files --------------------------------------------------------------------

def rotate(server, folder, names, number):
    """As logrotate does with create: rename, signal, and the new file."""
    for name in names:
        path = os.path.join(folder, name)
        os.rename(path, "%s.%d" % (path, number))
    server.process.send_signal(signal.SIGUSR1)
    for name in names:
        path = os.path.join(folder, name)
        wait_for(lambda p=path: os.path.exists(p), "a new " + name)


def test_R120_rotation_under_load(logging, folder):
    """Ten rotations while requests run: each line is in exactly one file."""
    names = ["log", "access"]
    server = logging(workers=2, log=os.path.join(folder, "log"),
                     access_log=os.path.join(folder, "access"),
                     access_format="%q")
    counts = server.fd_counts()
    over = threading.Event()
    sent = collections.Counter()

    def ask(who):
        def run():
            while not over.is_set():
                n = sent[who]
                server.request("/numbered", query="who=%s&first=%d" % (who, n))
                sent[who] = n + 1
        return run

    def turn():
        try:
            for number in range(10):
                before = sum(sent.values())
                wait_for(lambda b=before: sum(sent.values()) > b + 20,
                         "some requests")
                rotate(server, folder, names, number)
        finally:
            over.set()
    at_once(ask("a"), ask("b"), ask("c"), turn)
    server.wait_fds(counts)
    server.stop()
    every = {name: [] for name in names}
    for name in sorted(os.listdir(folder)):
        every[name.partition(".")[0]] += read(os.path.join(folder, name))
    assert collections.Counter(text_of(x) for x in every["log"]) == \
        collections.Counter("N %s %d end" % (who, n)
                            for who in sent for n in range(sent[who]))
    assert collections.Counter(every["access"]) == collections.Counter(
        "?who=%s&first=%d" % (who, n)
        for who in sent for n in range(sent[who]))


def test_R120_after_the_signal_only_the_new_file(logging, folder):
    """No process keeps the old file, and nothing is swapped; also after a
    reload."""
    names = ["log", "access", "slow"]
    server = logging(log=os.path.join(folder, "log"),
                     slow_log=os.path.join(folder, "slow"),
                     access_log=os.path.join(folder, "access"),
                     access_format="%U")
    for round_ in range(3):
        rotate(server, folder, names, round_)
        for name in names:
            os.unlink(os.path.join(folder, "%s.%d" % (name, round_)))
        held = [os.readlink("/proc/%d/fd/%s" % (p, fd))
                for p in [server.pid, server.template()] + server.workers()
                for fd in proc.fds(p)]
        assert not [x for x in held if folder in x and "(deleted)" in x]
        server.request("/numbered", query="who=r&first=%d" % round_)
        file_log(folder, "log").wait("N r %d end$" % round_)
        file_log(folder, "access").wait("^/numbered$")
        assert len(read(os.path.join(folder, "log"))) == 1
        assert len(read(os.path.join(folder, "access"))) == 1
        assert read(os.path.join(folder, "slow")) == []
        if round_ == 1:
            workers = server.workers()
            server.process.send_signal(signal.SIGHUP)
            wait_for(lambda w=workers: server.workers() and
                     not set(server.workers()) & set(w), "new workers")


def test_a_file_that_cannot_be_opened_anew(logging, folder):
    """The old one goes on, and the log says so."""
    inner = os.path.join(folder, "logs")
    os.mkdir(inner)
    server = logging(log=os.path.join(inner, "log"))
    server.request("/numbered", query="first=1")
    log = file_log(inner, "log")
    log.wait("N w 1 end")
    moved = os.path.join(folder, "moved")
    os.rename(inner, moved)
    server.process.send_signal(signal.SIGUSR1)
    server.log.wait(r"WARN .*log %s.*No such file or directory.*old file"
                    % re.escape(inner))
    server.request("/numbered", query="first=2")
    file_log(moved, "log").wait("N w 2 end")
    os.mkdir(inner)
    server.process.send_signal(signal.SIGUSR1)
    wait_for(lambda: os.path.exists(log.path), "the file")
    server.request("/numbered", query="first=3")
    log.wait("N w 3 end")
    assert len(read(os.path.join(moved, "log"))) == 2


def test_ctl_log_reopen(serve, folder):
    """The answer comes when every file has been opened anew, or says which
    has not."""
    conf, control = [os.path.join(folder, x) for x in ("conf", "control")]
    log = os.path.join(folder, "logs", "log")
    os.mkdir(os.path.dirname(log))
    with open(conf, "w") as f:
        f.write("[forebay]\ncontrol = %s\n[pool p]\napp = app:application\n"
                "chdir = %s\nworkers = 1\nlisten = %s\nlog = %s\n" % (
                    control, APP, os.path.join(folder, "s"), log))
    server = serve(None, words=["-c", conf], listen=None, socket_mode=None)
    server.address = None

    def ctl():
        done = subprocess.run(
            [srv.program(), "ctl", "--control", control, "log-reopen"],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        return done.returncode, done.stdout.decode()

    def ask(n):
        fcgi.request(os.path.join(folder, "s"), fcgi.params_for(
            "/numbered", query="first=%d" % n))
    ask(0)
    srv.Log(log).wait("N w 0 end")
    for n in range(1, 4):
        os.rename(log, log + str(n))
        assert ctl() == (0, ""), server.log.text()
        assert os.path.exists(log)
        ask(n)
        srv.Log(log).wait("N w %d end" % n)
        assert len(read(log)) == 1
    os.rename(os.path.dirname(log), os.path.join(folder, "moved"))
    code, text = ctl()
    assert code != 0 and "No such file" in text and log in text


@pytest.mark.parametrize("setting", ["log", "access_log", "slow_log"])
def test_a_file_that_cannot_be_opened_at_the_start(fails, folder, setting):
    code, log = fails("app:application", chdir=APP,
                      **{setting: os.path.join(folder, "no", "such")})
    assert code != 0
    assert "no/such" in log and "No such file or directory" in log


def test_pools_share_a_file(serve, folder):
    """Two pools with one log file: one writer, whole lines of both."""
    path = os.path.join(folder, "log")
    with open(os.path.join(folder, "conf"), "w") as f:
        for name in "ab":
            f.write("[pool %s]\napp = app:application\nchdir = %s\n"
                    "workers = 1\nlisten = %s\nlog = %s\n" % (
                        name, APP, os.path.join(folder, name), path))
    server = serve(None, words=["-c", os.path.join(folder, "conf")],
                   address=None, listen=None, socket_mode=None)
    server.address = None

    def ask(name):
        def run():
            for n in range(50):
                fcgi.request(os.path.join(folder, name), fcgi.params_for(
                    "/numbered", query="who=%s&first=%d" % (name, n)))
        return run
    at_once(ask("a"), ask("b"))
    found = srv.Log(path).wait(r"N . \d+ end$", 100)
    for line in found:
        m = re.search(r" app +([ab])\[\d+\]: N \1 \d+ end$", line)
        assert m, line


def test_the_log_of_the_manager_is_a_file(serve, folder):
    """log of [forebay]: nothing of it on standard error; a reload may move
    it."""
    conf = os.path.join(folder, "conf")

    def write(log):
        with open(conf, "w") as f:
            f.write("[forebay]\nlog = %s\n[pool p]\napp = app:application\n"
                    "chdir = %s\nworkers = 1\nlisten = %s\n" % (
                        os.path.join(folder, log), APP,
                        os.path.join(folder, "s")))

    def ask(n):
        fcgi.request(os.path.join(folder, "s"), fcgi.params_for(
            "/numbered", query="first=%d" % n))
    write("one")
    server = serve(None, words=["-c", conf], listen=None, socket_mode=None,
                   wait=False)
    server.address = None
    one, two = file_log(folder, "one"), file_log(folder, "two")
    one.wait(r": ready\b")
    server.remember()
    ask(1)
    one.wait("N w 1 end")
    write("two")
    server.process.send_signal(signal.SIGHUP)
    two.wait(r": ready\b")
    ask(2)
    two.wait("N w 2 end")
    server.stop()
    assert "stopped" in two.text()
    assert server.log.text() == ""
    assert not one.find("N w 2 end", 0)


def test_a_full_disk(logging, folder):
    """What cannot be written is kept, told once, and written when there is
    room again."""
    path = os.path.join(folder, "log")
    server = logging(log=path)
    server.request("/numbered", query="count=1")
    server.remember()
    resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (16384, -1))
    for n in range(1, 2000, 100):
        assert server.request("/numbered", query="first=%d&count=100"
                              % n).text == "done"
    server.log.wait(r"WARN .*log %s: cannot be written: File too large"
                    % re.escape(path))
    assert os.path.getsize(path) == 16384
    assert server.request("/").text == "done"
    resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (-1, -1))
    server.log.wait(r"log %s: is written again" % re.escape(path))
    found = [text_of(x) for x in srv.Log(path).wait(r"N w \d+ end$", 2001)]
    assert found == ["N w %d end" % n for n in range(2001)]
    assert len(server.log.find("cannot be written", 0)) == 1


def test_rotation_of_a_full_disk(logging, folder):
    """The line that was cut is whole in the new file."""
    path = os.path.join(folder, "log")
    server = logging(log=path)
    resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (16384, -1))
    for n in range(0, 500, 100):
        server.request("/numbered", query="first=%d&count=100" % n)
    server.log.wait(r"cannot be written: File too large")
    resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (-1, -1))
    os.rename(path, path + ".1")
    server.process.send_signal(signal.SIGUSR1)
    server.log.wait(r"is written again")
    numbers = []
    for name in (path + ".1", path):
        wait_for(lambda p=name: os.path.exists(p), name)
    srv.Log(path).wait("N w 499 end")
    for name in (path + ".1", path):
        for line in read(name):
            m = re.search(r": N w (\d+) end$", line)
            if m:
                numbers.append(int(m.group(1)))
    assert numbers == list(range(500))


@pytest.mark.parametrize("setting", ["log", "access_log"])
def test_dev_full(logging, setting):
    """Nothing of a log can ever be written: requests do not notice, and the
    count is told."""
    server = logging(**{setting: "/dev/full"})
    for n in range(10):
        assert server.request("/numbered", query="first=%d" % n).text == \
            "done"
    server.log.wait(r"log /dev/full: cannot be written: "
                    r"No space left on device")
    server.stop()
    line, = server.log.find(r"log /dev/full: \d+ lines could not be written",
                            0)
    assert int(re.search(r"(\d+) lines", line).group(1)) == 10


def test_more_than_is_kept(logging):
    """8 MB wait at most; what is beyond is counted, and memory stays
    bounded."""
    server = logging(log="/dev/full")
    for _ in range(20):
        assert server.request("/lines", query="size=1000000").text == "done"
    if FACTOR == 1:     # a sanitizer keeps what was freed
        wait_for(lambda: proc.rss_bytes(server.pid) < 64 << 20,
                 "little memory")
    server.stop()
    line, = server.log.find(r"log /dev/full: \d+ lines could not be written",
                            0)
    assert int(re.search(r"(\d+) lines", line).group(1)) == 20


def test_a_fifo_that_nobody_reads(logging, folder):
    """R120, "pipe": it exists before its reader, and the reader may go."""
    path = os.path.join(folder, "fifo")
    os.mkfifo(path)
    server = logging(log=path)
    for round_ in range(2):
        server.request("/numbered", query="first=%d" % round_)
        r = os.open(path, os.O_RDONLY)
        got = b""
        while b"N w %d end\n" % round_ not in got:
            got += os.read(r, 65536)
        os.close(r)


@pytest.mark.parametrize("own", [True, False])
def test_slow_log(logging, epoll_shape, folder, own):
    """slow_request's reports have a file of their own, or go where the rest
    goes; no level keeps them back."""
    path = os.path.join(folder, "slow")
    server = logging(slow_request="50ms", slow_log=path if own else None,
                     **epoll_shape.options())
    release = os.path.join(folder, "release")
    os.mkfifo(release)

    def slow():
        assert server.request("/waits", query=release).text == "done"
    at_once(slow, lambda: report(server, path, own, release))


def report(server, path, own, release):
    log = srv.Log(path) if own else server.log
    try:
        log.wait(r" SLOW +main\[\d+\]: slow request: GET /waits")
        log.wait(r" SLOW .*in waits")
    finally:
        with open(release, "w"):
            pass
    assert own != bool(server.log.find("slow request", 0))


# -- syslog -------------------------------------------------------------------

class Syslog:
    """A daemon that takes datagrams."""

    def __init__(self, path):
        self.path = path
        self.got = []
        self.open()

    def open(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.sock.bind(self.path)
        self.sock.setblocking(False)

    def close(self):
        self.sock.close()
        os.unlink(self.path)

    def wait(self, pattern, count=1):
        def there():
            try:
                while True:
                    self.got.append(self.sock.recv(1 << 20).decode())
            except BlockingIOError:
                pass
            found = [x for x in self.got if re.search(pattern, x, re.S)]
            return found if len(found) >= count else None
        return wait_for(there, lambda: "%d messages %r: %r" % (
            count, pattern, self.got[-20:]))


def test_syslog(logging, folder):
    daemon = Syslog(os.path.join(folder, "devlog"))
    server = logging(log="syslog", access_log="syslog",
                     access_format="A %q",
                     env={"FOREBAY_SYSLOG_SOCKET": daemon.path})
    server.request("/numbered", query="first=1")
    line, = daemon.wait(r"N w 1 end")
    assert re.fullmatch(
        r"<30>[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d forebay\[%d\]: "
        r"main\[\d+\]: N w 1 end" % server.pid, line), line
    line, = daemon.wait(r"A \?first=1")
    assert line.startswith("<30>")
    server.request("/fails")
    line, = daemon.wait(r"LookupError: failed on purpose$")
    assert line.startswith("<27>")
    # Longer than a datagram.
    server.request("/lines", query="size=1000000")
    line, = daemon.wait(r"w:x{1000}")
    assert 8000 <= len(line) < 300000
    # The daemon is away for a while: what is written meanwhile is kept.
    daemon.close()
    for n in range(2, 5):
        server.request("/numbered", query="first=%d" % n)
    server.log.wait(r"log syslog: cannot be written")
    daemon.open()
    daemon.wait(r"N w [234] end$", 3)
    server.log.wait(r"log syslog: is written again")
    daemon.close()
    server.errors_expected = True


def test_syslog_that_does_not_read(logging, folder):
    """A daemon that hangs stops nothing."""
    daemon = Syslog(os.path.join(folder, "devlog"))
    server = logging(log="syslog",
                     env={"FOREBAY_SYSLOG_SOCKET": daemon.path})
    server.request("/numbered", query="count=2000")
    assert server.request("/").text == "done"
    found = daemon.wait(r"N w \d+ end$", 2000)
    assert [int(re.search(r"w (\d+)", x).group(1)) for x in found] == list(
        range(2000))
    daemon.close()


def fields(datagram):
    """What sd_journal_sendv(3) sends, of values without newlines."""
    return dict(line.split("=", 1) for line in
                datagram.decode().splitlines() if "=" in line)


def own_journal(folder):
    """Called in the child: a /run of its own, with our socket in it."""
    def enter():
        libc = ctypes.CDLL(None, use_errno=True)

        def mount(source, target, kind, flags):
            if libc.mount(source, target, kind, flags, None) != 0:
                raise OSError(ctypes.get_errno(), target)
        if libc.unshare(0x00020000) != 0:               # CLONE_NEWNS
            raise OSError(ctypes.get_errno(), "unshare")
        mount(b"none", b"/", None, 0x4000 | 1 << 18)    # MS_REC, MS_PRIVATE
        mount(b"none", b"/run", b"tmpfs", 0)
        os.makedirs("/run/systemd/journal")
        mount(folder.encode(), b"/run/systemd/journal", None, 0x1000)
    return enter


def may_mount(folder):
    enter = own_journal(folder)
    pid = os.fork()
    if pid == 0:
        try:
            enter()
        except OSError:
            os._exit(1)
        os._exit(0)
    return os.waitpid(pid, 0)[1] == 0


def test_journald(logging, folder):
    if b"libsystemd" not in subprocess.run(
            ["ldd", srv.program()], stdout=subprocess.PIPE).stdout:
        pytest.skip("built without libsystemd")
    if not may_mount(folder):
        pytest.skip("needs the right to mount")
    daemon = Syslog(os.path.join(folder, "socket"))
    server = logging(log="journald",
                     popen={"preexec_fn": own_journal(folder)})
    server.request("/numbered", query="count=2")
    found = fields(daemon.wait("N w 0 end")[0].encode())
    assert re.fullmatch(r"main\[\d+\]: N w 0 end", found["MESSAGE"])
    assert found["PRIORITY"] == "6"
    assert found["SYSLOG_IDENTIFIER"] == "forebay"
    daemon.wait("N w 1 end")
    server.request("/fails")
    found = fields(daemon.wait("failed on purpose")[0].encode())
    assert found["PRIORITY"] == "3"
    daemon.close()
    server.errors_expected = True


def test_journald_is_there_or_a_sentence(fails):
    if os.path.exists("/run/systemd/journal/socket"):
        pytest.skip("this machine has a journal")
    code, log = fails("app:application", chdir=APP, log="journald")
    assert code != 0 and re.search(r"log journald: \S", log)


# -- the access log -----------------------------------------------------------

@pytest.fixture
def access(logging, folder):
    """A server with an access log; .lines(n) waits for so many of them."""
    def start(form, **options):
        server = logging(access_log=os.path.join(folder, "access"),
                         access_format=form, **options)
        log = file_log(folder, "access")
        server.access_lines = lambda n: log.wait("", n)
        return server
    return start


def test_access_log_directives(access, shape):
    form = ("%h|%l|%u|%r|%m|%U|%q|%H|%s|%>s|%b|%B|%{X-A}i|%{Content-Type}i|"
            "%{REMOTE_PORT}e|%{NOT_THERE}e|%P|%w|%X|%%")
    server = access(form, **shape.options())
    server.request("/status", query="status=404&bytes=7",
                   headers=[("X-A", "b")],
                   extra={"REMOTE_USER": "me", "CONTENT_TYPE": "text/x"})
    line, = server.access_lines(1)
    assert line == ("127.0.0.1|-|me|GET /status?status=404&bytes=7 HTTP/1.1|"
                    "GET|/status|?status=404&bytes=7|HTTP/1.1|404|404|7|7|b|"
                    "text/x|40000|-|main|0|-|%")
    server.request("/status", query="status=204")
    assert server.access_lines(2)[1].split("|")[8:12] == ["204", "204", "-",
                                                          "0"]


def test_access_log_time_and_process(access):
    server = access("%t|%D|%T|%p")
    before = time.time()
    server.request("/")
    stamp, micro, seconds, pid = server.access_lines(1)[0].split("|")
    parsed = time.mktime(time.strptime(stamp[1:21], "%d/%b/%Y:%H:%M:%S"))
    assert stamp[0] == "[" and re.fullmatch(r" [+-]\d{4}\]", stamp[21:])
    assert int(before) - 1 <= parsed <= time.time() + 1
    assert 0 < int(micro) < 60e6 and int(seconds) == int(micro) // 1000000
    assert [int(pid)] == server.workers()


def test_access_log_default_is_combined(logging, folder):
    server = logging(access_log=os.path.join(folder, "access"))
    server.request("/x", query="q=1", headers=[
        ("Referer", "http://a/\"b\""), ("User-Agent", "agent\\\r\n\x1b é")])
    line, = file_log(folder, "access").wait("", 1)
    assert re.fullmatch(
        r'127\.0\.0\.1 - - \[[^]]+\] "GET /x\?q=1 HTTP/1\.1" 200 4 '
        r'"http://a/\\x22b\\x22" "agent\\x5c\\x0d\\x0a\\x1b \\xe9"', line), line


def test_access_log_escapes_what_could_forge_a_line(access):
    server = access("%U %q")
    server.request(extra={"REQUEST_URI": b"/a\nb\x00\xff",
                          "QUERY_STRING": b"\x7f\"\\"})
    line, = server.access_lines(1)
    assert line == r"/a\x0ab\x00\xff ?\x7f\x22\x5c"


def test_access_log_json(access):
    server = access("json")
    server.request("/status", query="status=201&bytes=3")
    server.request("/x", headers=[("User-Agent", "\"\\\x01\x7f")], extra={
        "REQUEST_URI": b"/\xff\xfe\xc3\xa9\xed\xa0\x80\xf0\x9f\x98\x80" +
                       b"\xff" * 5000,
        "HTTP_REFERER": b"\"" * 5000, "HTTP_HOST": b"\xc3\xa9" * 5000})
    first, second = server.access_lines(2)
    found = json.loads(first)
    assert (found["status"], found["bytes"], found["method"], found["uri"]) \
        == (201, 3, "GET", "/status?status=201&bytes=3")
    assert found["pool"] == "main" and found["client_closed"] is False
    assert [found["pid"]] == server.workers()
    assert found["referer"] is None and found["duration_us"] > 0
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}[+-]\d\d:\d\d",
                        found["time"])
    assert len(second.encode()) < 4096
    found = json.loads(second)
    assert found["uri"].startswith(
        "/\xff\xfe\u00e9\xed\xa0\x80\U0001f600\xff\xff")
    assert found["user_agent"] == "\"\\\x01\x7f"
    assert set(found["referer"]) == {"\""} and set(found["host"]) == {"\u00e9"}


def test_access_log_cuts_long_lines(access):
    server = access("%U|%s")
    server.request("/x", extra={"REQUEST_URI": "/" + "y" * 10000})
    server.request("/z")
    first, second = server.access_lines(2)
    assert first == "/" + "y" * 4094 and second == "/z|200"


def test_access_log_of_refused_requests(access):
    server = access("%s %B %X", max_params_size="1k", max_body_size="5")
    assert server.request("/", extra={"X": "x" * 2000}).status == 431
    answer = server.request("/", method="POST", body=b"123456")
    assert answer.status == 413
    assert server.request("/fails").status == 500
    found = server.access_lines(3)
    assert found[1] == "413 %d -" % len(answer.body)
    assert found[0].startswith("431 ") and found[2].startswith("500 ")
    server.errors_expected = True


def test_R061_a_client_that_leaves(access, epoll_shape):
    """The status is the application's, and the mark says what happened."""
    server = access("%U %s %X", **epoll_shape.options())
    peer = server.peer()
    peer.send(fcgi.encode(fcgi.params_for("/endless")))
    peer.until(b"xxxx")
    peer.close()
    server.request("/")
    found = wait_for(lambda: sorted(server.access_lines(2)), "lines")
    assert found == ["/ 200 -", "/endless 200 client-closed"]


@pytest.mark.parametrize("form, why", [
    ("%h %Q", r"there is no %Q"),
    ("%{X}o", r"headers of the answer"),
    ("%{X", r"needs a name"),
    ("%{X}z", r"%\{X\} is followed by i"),
    ("%", r"there is no %"),
])
def test_access_log_wrong_formats(fails, folder, form, why):
    code, log = fails("app:application", chdir=APP, access_format=form,
                      access_log=os.path.join(folder, "access"))
    assert code != 0 and re.search("access_format.*" + why, log), log


def test_access_log_that_the_manager_does_not_read(access):
    """With the manager stopped, lines are dropped and counted, and requests
    go on."""
    server = access("%q " + "x" * 4000)
    os.kill(server.pid, signal.SIGSTOP)
    try:
        for n in range(600):
            answer = server.request("/", query="n=%d" % n)
            assert answer.text == "done"
    finally:
        os.kill(server.pid, signal.SIGCONT)
    server.stop()
    dropped = sum(int(re.search(r"(\d+) lines were dropped", x).group(1))
                  for x in server.log.find(r"access_log: \d+ lines", 0))
    written = server.access_lines(1)
    assert dropped > 0 and dropped + len(written) == 600
    numbers = [int(re.match(r"\?n=(\d+) x+$", x).group(1)) for x in written]
    assert numbers == sorted(set(numbers))


def test_no_access_log_no_write(logging, epoll_shape):
    """Without the setting there is no descriptor for it anywhere."""
    server = logging(**epoll_shape.options())
    server.request("/")
    assert not any("--access" in proc.cmdline(p)
                   for p in [server.template()] + server.workers())


# -- FCGI_STDERR --------------------------------------------------------------

def test_R014_only_on_request(logging):
    answer = logging().request("/errors")
    assert answer.stderr == b"" and answer.complete
    assert fcgi.STDERR not in {r[0] for r in answer.records}


def test_R014_whole_lines_between_records(logging, epoll_shape):
    server = logging(fcgi_stderr=True, **epoll_shape.options())
    answer = server.request("/errors")
    assert answer.complete
    assert answer.text == "".join("%d\n" % n for n in range(50))
    lines = answer.stderr.decode().splitlines()
    assert lines[:100] == ["before %d" % n for n in range(100)]
    assert lines[100:] == ["between %d" % n for n in range(50)]
    sizes = [r[2] for r in answer.records if r[0] == fcgi.STDERR]
    assert sizes == [len(x) + 1 for x in lines] and 0 not in sizes
    # All of it is in our own log as well, and the end.
    for text in ("before 99$", "between 49$", "after, without newline$"):
        server.log.wait(text)


def test_R014_not_for_others(logging):
    """SCGI has no such way; traceback and print() are for our log alone."""
    server = logging(fcgi_stderr=True)
    answer = server.request("/errors", protocol="scgi")
    assert answer.body == b"".join(b"%d\n" % n for n in range(50))
    for path in ("/fails", "/lines"):
        assert server.request(path).stderr == b""
    server.errors_expected = True


@pytest.mark.parametrize("kind", [fe.Nginx, fe.NginxKept, fe.Lighttpd,
                                  fe.Apache, fe.Haproxy],
                         ids=lambda k: k.__name__)
def test_R014_front_ends(logging, kind):
    why = kind.why_not()
    if why:
        pytest.skip(why)
    server = logging(fcgi_stderr=True)
    front = kind(server.address)
    try:
        front.start()
        for _ in range(3):
            status, _, body = front.request("/errors")
            assert status == 200
            assert body == b"".join(b"%d\n" % n for n in range(50))
        front.stop()
        if kind is not fe.Haproxy:
            assert "between 49" in front.log()
    finally:
        front.close()
