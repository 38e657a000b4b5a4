# SPDX-License-Identifier: MIT
"""Start the built forebay, talk to it, stop it, and look whether it left
anything behind."""

import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import uuid

from . import fcgi, proc
from .reach import reachable
from .wait import FACTOR, TIMEOUT, wait_for

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
_OPEN_TOP, _BUILD = reachable(TOP, os.path.abspath(os.environ.get(
    "FOREBAY_BUILD", os.path.join(TOP, "build", "release"))))
APPS = os.path.join(_OPEN_TOP, "tests", "apps")

# CPython is not built with the sanitizers: what it holds at the end is no leak.
# faulthandler brings a signal stack of its own, which ASan would take for its
# own. A MemoryError must stay one.
os.environ.setdefault("ASAN_OPTIONS", "detect_leaks=0:use_sigaltstack=0:"
                                      "allocator_may_return_null=1")
os.environ.setdefault("TSAN_OPTIONS", "second_deadlock_stack=1:"
                      "allocator_may_return_null=1:die_after_fork=0")

# Nothing of this is ever right in the log of a test.
NEVER = re.compile(
    r"(Address|Thread)Sanitizer(?! failed to allocate)"
    r"|UndefinedBehaviorSanitizer|LeakSanitizer|runtime error: |Fatal Python error|BUG:"
    r"|Assertion .* failed|double free|corrupted|stack smashing"
    r"|DeprecationWarning: This process")


def build_dir():
    return _BUILD


def sanitized():
    """"asan", "tsan" or "", by the name of the build folder."""
    return next((n for n in ("asan", "tsan")
                 if n in os.path.basename(build_dir())), "")


def program():
    return os.path.join(build_dir(), "forebay")


def worker_program():
    """The forebay-worker of the distribution's Python, as built."""
    names = sorted(n for n in os.listdir(build_dir())
                   if re.fullmatch(r"forebay-worker-3\.\d+", n))
    assert names, "no forebay-worker-3.x in %s" % build_dir()
    return os.path.join(build_dir(), names[0])


def python_version():
    """(3, 11) of the worker that is tested."""
    return tuple(int(n) for n in
                 worker_program().rpartition("-")[2].split("."))


def base_python():
    """The python3 that belongs to that worker."""
    return shutil.which("python%d.%d" % python_version(),
                        path="/usr/bin:/usr/local/bin:" + os.environ["PATH"])


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def temp_dir():
    """A short path: the name of a unix socket has 107 bytes at most. Open to
    everybody, since a front end started as root changes its user."""
    path = tempfile.mkdtemp(prefix="fb-", dir="/tmp")
    os.chmod(path, 0o755)
    return path


def arguments(options):
    """{"header_timeout": "2s", "preload": "on", "env": ["A=1"]} as words."""
    words = []
    for name, value in options.items():
        flag = "--" + name.replace("_", "-")
        for one in value if isinstance(value, (list, tuple)) else [value]:
            if one is True:
                words.append(flag)
            elif one is False:
                words.append("--no-" + flag[2:])
            elif one is not None:
                words += [flag, str(one)]
    return words


class Log:
    """A growing text file, read up to a mark that moves on."""

    def __init__(self, path):
        self.path = path
        self.mark = 0

    def text(self, start=0):
        try:
            with open(self.path, "rb") as f:
                f.seek(start)
                return f.read().decode("utf-8", "backslashreplace")
        except FileNotFoundError:
            return ""

    def here(self):
        try:
            return os.path.getsize(self.path)
        except FileNotFoundError:
            return 0

    def since_mark(self):
        return self.text(self.mark)

    def lines(self):
        return self.since_mark().splitlines()

    def find(self, pattern, start=None):
        """All matching lines since the mark."""
        text = self.text(self.mark if start is None else start)
        return [line for line in text.splitlines()
                if re.search(pattern, line)]

    def wait(self, pattern, count=1, start=None, timeout=None):
        """Wait for count lines; returns them."""
        def there():
            found = self.find(pattern, start)
            return found if len(found) >= count else None
        return wait_for(there, lambda: "%d lines of the log with %r; it says:"
                        "\n%s" % (count, pattern, self.since_mark()[-3000:]),
                        timeout)


class Forebay:
    """One running `forebay serve` (or another command line of it)."""

    def __init__(self, words, cwd=None, env=None, address=None, stdin=None,
                 stderr=None, clean_env=False, graceful=None, prefix=(),
                 **popen):
        self.dir = temp_dir()
        self.id = "FOREBAY_TEST_ID=" + uuid.uuid4().hex
        self.log = Log(os.path.join(self.dir, "log"))
        self.address = address
        self.errors_expected = False
        self.expect_exit = {0}
        self.socket_dir = None
        self.seen = {}          # pid: start time, of every process of it
        self.graceful = graceful or 10 * FACTOR
        environ = {} if clean_env else dict(os.environ)
        environ.pop("FOREBAY_TEST_ID", None)
        name, _, value = self.id.partition("=")
        environ[name] = value
        environ.setdefault("ASAN_OPTIONS", os.environ["ASAN_OPTIONS"])
        environ.setdefault("PYTHONDONTWRITEBYTECODE", "1")
        if not clean_env:       # else files lie about in tests/apps
            environ.setdefault("FOREBAY_TEST_NOTES", self.dir)
        environ.update(env or {})
        self.words = [*prefix, program()] + [str(w) for w in words]
        out = open(self.log.path, "wb") if stderr is None else stderr
        try:
            self.process = subprocess.Popen(
                self.words, cwd=cwd or self.dir, env=environ,
                stdin=subprocess.DEVNULL if stdin is None else stdin,
                stdout=out, stderr=out, **popen)
        finally:
            if stderr is None:
                out.close()
        self.pid = self.process.pid

    # Life

    def wait_ready(self, timeout=None):
        def ready():
            if self.process.poll() is not None:
                raise AssertionError(
                    "%s ended with %s:\n%s" % (
                        self.words, self.process.returncode,
                        self.log.text()[-4000:]))
            return self.log.find(r": ready\b", 0)
        wait_for(ready, lambda: "ready in the log of %s:\n%s" % (
            self.words, self.log.text()[-4000:]),
                 timeout or 30 * FACTOR)
        self.remember()
        return self

    def running(self):
        return self.process.poll() is None

    def wait_exit(self, timeout=None):
        """Its exit status (negative: the signal)."""
        try:
            return self.process.wait(timeout or TIMEOUT + self.graceful)
        except subprocess.TimeoutExpired:
            raise AssertionError(
                "%s does not end; processes: %r; log:\n%s" % (
                    self.words, self.ps(), self.log.text()[-3000:])) from None

    def terminate(self):
        if self.running():
            self.process.send_signal(signal.SIGTERM)

    def close(self):
        """Whatever the test did: nothing of this server runs afterwards, and
        its folder is gone."""
        self.remember()
        if self.running():
            self.process.kill()
        self.process.wait()
        for pid in self.strays():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        wait_for(lambda: not self.strays(), "the end of killed processes")
        shutil.rmtree(self.dir, ignore_errors=True)
        if self.socket_dir:
            shutil.rmtree(self.socket_dir, ignore_errors=True)

    # Its processes

    def remember(self):
        for pid in [self.pid] + proc.descendants(self.pid):
            s = proc.stat(pid)
            if s is not None:
                self.seen.setdefault(pid, s[2])

    def template(self):
        """The pid of the template process."""
        found = [p for p in proc.children(self.pid) if proc.alive(p)]
        assert found, "no template: %r" % self.ps()
        return found[0]

    def workers(self):
        """Pids of the workers: children of the template by their name, not
        something that the application started."""
        found = []
        for template in proc.children(self.pid):
            found += [p for p in proc.children(template)
                      if proc.alive(p)
                      and proc.cmdline(p).startswith("forebay: worker")]
        return sorted(found)

    def wait_workers(self, count, without=()):
        def there():
            w = [p for p in self.workers() if p not in without]
            return w if len(w) == count else None
        found = wait_for(there, lambda: "%d workers: %r" % (count, self.ps()))
        self.remember()
        return found

    def ps(self):
        return {p: (proc.stat(p), proc.cmdline(p)[:80])
                for p in [self.pid] + proc.descendants(self.pid)}

    def strays(self):
        """What still runs of it, by the mark in the environment and by the
        pids that were seen."""
        found = set(proc.with_environ(self.id))
        found |= {p for p, t in self.seen.items() if proc.alive(p, t)}
        found.discard(os.getpid())
        return sorted(p for p in found if proc.alive(p))

    def zombies(self):
        return [p for p in proc.descendants(self.pid)
                if (proc.stat(p) or "-")[0] == "Z"]

    def fd_counts(self):
        """Open descriptors of manager, template and workers."""
        return {p: len(proc.fds(p))
                for p in [self.pid, self.template()] + self.workers()}

    def wait_fds(self, counts):
        """Descriptors are back to what fd_counts() said."""
        wait_for(lambda: all(len(proc.fds(p)) <= n for p, n in counts.items()),
                 lambda: "no more descriptors than %r: %r" % (
                     counts, {p: proc.fds(p) for p in counts}))

    # Audits

    def begin_test(self):
        self.log.mark = self.log.here()
        self.errors_expected = False

    def expect_error(self, pattern, count=1):
        """Wait for lines of the log, and take error lines of this test for
        wanted ones."""
        self.errors_expected = True
        return self.log.wait(pattern, count)

    def audit_running(self):
        """After a test, the server goes on: nothing lies about, and nothing
        unexpected was logged."""
        self.remember()
        wait_for(lambda: not self.zombies(),
                 lambda: "no zombies: %r" % self.ps())
        self.audit_log(self.log.mark)

    def audit_log(self, start=0):
        text = self.log.text(start)
        bad = NEVER.search(text)
        assert not bad, "in the log: %r\n%s" % (
            bad and bad.group(), text[-6000:])
        if not self.errors_expected:
            lines = [line for line in text.splitlines() if is_error(line)]
            assert not lines, "unexpected in the log:\n" + "\n".join(lines)

    def stop(self):
        """TERM, and everything that has to be true after it."""
        self.remember()
        self.terminate()
        code = self.wait_exit()
        log = self.log.text()[-6000:]
        assert code in self.expect_exit, "exit status %r; log:\n%s" % (
            code, log)
        wait_for(lambda: not self.strays(), lambda: "no process left: %r" % [
            (p, proc.cmdline(p)) for p in self.strays()])
        if isinstance(self.address, str):
            assert not os.path.exists(self.address), "the socket is still there"
        self.audit_log(self.log.mark)

    # Requests

    def request(self, path="/", method="GET", query="", body=None, headers=(),
                extra=(), drop=(), protocol="fcgi", **how):
        params = fcgi.params_for(path, method, query, body, headers, extra,
                                 drop)
        return fcgi.request(self.address, params, body or b"", protocol, **how)

    def peer(self, **how):
        return fcgi.Peer(self.address, **how)


# 2026-01-31 10:00:00.123 ERROR main[4711]: text
PREFIX = re.compile(r"\S+ \S+ (ERROR|WARN|INFO|DEBUG|app) +\S+: ")


def is_error(line):
    """A line of the log at the level of an error."""
    m = PREFIX.match(line)
    return m is not None and m.group(1) == "ERROR"


def start(app, *, cwd=None, env=None, tcp=False, address=None, wait=True,
          words=(), stdin=None, stderr=None, clean_env=False, command="serve",
          popen=None, prefix=(), **options):
    """forebay serve with an application. The socket is in the server's own
    folder unless an address or tcp is asked for."""
    folder = temp_dir()
    if address is None:
        address = (("127.0.0.1", free_port()) if tcp
                   else os.path.join(folder, "s"))
    if "listen" not in options:
        text = (address if isinstance(address, str)
                else ("[%s]:%d" if ":" in address[0] else "%s:%d") % address)
        options = dict(listen=text, **options)
    if isinstance(address, str):
        options.setdefault("socket_mode", "0666")
    all_words = [command] + arguments(options) + list(words)
    if app is not None:
        all_words.append(app)
    server = Forebay(all_words, cwd=cwd, env=env, address=address, stdin=stdin,
                     stderr=stderr, clean_env=clean_env, prefix=prefix,
                     **(popen or {}))
    server.socket_dir = folder
    if wait:
        try:
            server.wait_ready()
        except BaseException:
            server.close()
            raise
    return server
