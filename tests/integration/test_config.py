# SPDX-License-Identifier: MIT
"""forebay serve -c and forebay check -c: pools of a file, reload, pidfile."""

import os
import re
import shutil
import signal
import subprocess

import pytest

from lib import fcgi
from lib import server as srv
from lib.wait import wait_for

CHECKLIST = os.path.join(srv.APPS, "checklist")


class Place:
    """A folder with a configuration in it."""

    def __init__(self):
        self.dir = srv.temp_dir()
        self.file = self.path("forebay.conf")

    def path(self, name):
        return os.path.join(self.dir, name)

    def write(self, text, name="forebay.conf"):
        with open(self.path(name), "w") as f:
            f.write(text)

    def pool(self, name, *lines):
        """The section of a pool that answers on a socket of its name."""
        return "\n".join(["[pool %s]" % name, "app = app:application",
                          "chdir = " + CHECKLIST, "workers = 1",
                          "listen = " + self.path(name), *lines, ""])

    def hello(self, name):
        answer = fcgi.request(self.path(name), fcgi.params_for(
            extra={"TEST_CASE": "hello"}))
        return answer.text == "hello"

    def pid(self, name="pid"):
        try:
            with open(self.path(name)) as f:
                return f.read()
        except FileNotFoundError:
            return None


@pytest.fixture
def place():
    found = Place()
    yield found
    shutil.rmtree(found.dir)


@pytest.fixture
def daemon(place):
    """forebay serve -c of the place's file; audited at the end."""
    started = []

    def start(*words, wait=True):
        found = srv.Forebay(["serve", "-c", place.file, *words])
        started.append(found)
        if wait:
            found.wait_ready()
        return found
    yield start
    try:
        for found in started:
            found.stop()
    finally:
        for found in started:
            found.close()


def run(*words, **how):
    """(exit status, what it wrote) of a command that ends by itself."""
    found = subprocess.run([srv.program(), *words], stdin=subprocess.DEVNULL,
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                           **how)
    return found.returncode, found.stdout.decode()


def test_pools_of_a_file(place, daemon):
    place.write("[forebay]\npidfile = %s\ninclude = more/*.conf\n"
                % place.path("pid") + place.pool("a"))
    os.mkdir(place.path("more"))
    place.write(place.pool("b", "mode = threaded", "threads = 2"),
                "more/b.conf")
    server = daemon()
    wait_for(place.pid, "the pidfile")
    assert place.pid() == "%d\n" % server.pid
    assert os.stat(place.path("pid")).st_mode & 0o7777 == 0o644
    assert place.hello("a") and place.hello("b")
    server.stop()
    assert sorted(os.listdir(place.dir)) == ["forebay.conf", "more"]


def test_relative_path(place, daemon):
    """The file is found again at a reload, wherever that happens."""
    place.write(place.pool("a"))
    server = srv.Forebay(["serve", "--config=forebay.conf"], cwd=place.dir)
    try:
        server.wait_ready()
        place.write(place.pool("a") + place.pool("b"))
        server.process.send_signal(signal.SIGHUP)
        server.log.wait(r"pool b: ready")
        assert place.hello("b")
        server.stop()
    finally:
        server.close()


def test_reload_applies_the_file(place, daemon):
    place.write("[forebay]\npidfile = %s\n" % place.path("pid")
                + place.pool("a") + place.pool("b"))
    server = daemon()
    wait_for(place.pid, "the pidfile")

    # A file with a mistake changes nothing.
    place.write(place.pool("a") + "workres = 1\n")
    server.process.send_signal(signal.SIGHUP)
    server.expect_error(r"reload refused: %s:6: .*did you mean \"workers\""
                        % re.escape(place.file))
    assert place.hello("a") and place.hello("b")
    assert place.pid() == "%d\n" % server.pid

    # b goes, c comes, the pidfile moves.
    place.write("[forebay]\npidfile = %s\n" % place.path("pid2")
                + place.pool("a") + place.pool("c"))
    server.process.send_signal(signal.SIGHUP)
    server.log.wait(r"pool c: ready")
    server.log.wait(r"pool b: gone")
    assert place.hello("a") and place.hello("c")
    assert not os.path.exists(place.path("b"))
    assert place.pid() is None
    assert place.pid("pid2") == "%d\n" % server.pid

    # And away.
    place.write(place.pool("a"))
    server.process.send_signal(signal.SIGHUP)
    server.log.wait(r"pool c: gone")
    assert place.pid("pid2") is None
    assert place.hello("a")


def test_pidfile_of_another_stays(place, daemon):
    place.write("[forebay]\npidfile = %s\n" % place.path("pid")
                + place.pool("a"))
    server = daemon()
    wait_for(place.pid, "the pidfile")
    place.write("1\n", "pid")
    server.stop()
    assert place.pid() == "1\n"


def test_no_pidfile_of_a_start_that_fails(place, daemon):
    place.write("[forebay]\npidfile = %s\n" % place.path("pid")
                + place.pool("a").replace("app:application", "no_such_module"))
    server = daemon(wait=False)
    assert server.wait_exit() == 1
    server.expect_exit = {1}
    server.errors_expected = True
    assert place.pid() is None


def test_pidfile_that_cannot_be_written(place, daemon):
    place.write("[forebay]\npidfile = %s\n" % place.path("none/pid")
                + place.pool("a"))
    server = daemon(wait=False)
    assert server.wait_exit() == 78
    server.expect_exit = {78}
    server.expect_error(r"pidfile: .*none/: No such file")
    assert not os.path.exists(place.path("a"))


def test_log_level(place, daemon):
    place.write("[forebay]\nlog_level = debug\n" + place.pool("a"))
    assert daemon().log.find(r" DEBUG ")
    place.write("[forebay]\nlog_level = debug\n" + place.pool("b"))
    louder = daemon("--log-level", "info")
    assert louder.log.find(r"pool b: ready")
    assert not louder.log.find(r" DEBUG ")


@pytest.mark.parametrize("command", ["serve", "check"])
def test_errors_of_the_command_line(place, command):
    place.write(place.pool("a"))
    for words, says in [
            (["-c"], "-c needs a value"),
            (["-c", place.file, "--max-requests", "5"], "--max-requests and"),
            (["-c", place.file, "app"], "app and -c"),
            (["app", "-c", place.file], "app and -c"),
            (["-c", place.file, "--log-level", "loud"], "--log-level is")]:
        code, text = run(command, *words)
        assert code == 64 and says in text, text
    assert not os.path.exists(place.path("a"))
    code, text = run("run", "-c", place.file)
    assert code == 64 and "unknown option -c" in text


@pytest.mark.parametrize("command", ["serve", "check"])
def test_errors_of_the_file(place, command):
    code, text = run(command, "-c", place.path("none"))
    assert code == 78
    assert text == ("forebay: %s: the configuration cannot be read: No such "
                    "file or directory\n" % place.path("none"))
    place.write(place.pool("a") + "\nmax_request = 4\n")
    code, text = run(command, "-c", place.file)
    assert code == 78
    assert text == ('forebay: %s:7: there is no setting "max_request"; did you '
                    'mean "max_requests"?\n' % place.file)
    place.write("[forebay]\ninclude = inner\n")
    place.write(place.pool("a", "user = ${FB_TEST_UNSET}"), "inner")
    code, text = run(command, "-c", place.file)
    assert code == 78
    assert text.startswith("forebay: %s:6: " % place.path("inner"))
    assert "FB_TEST_UNSET" in text
    assert not os.path.exists(place.path("a"))


def test_check(place):
    place.write(place.pool("a") + place.pool("b"))
    code, text = run("check", "-c", place.file)
    assert code == 0, text
    parts = re.split(r"(?m)^pool (\w+)\n", text)
    assert parts[1::2] == ["a", "b"]
    assert all("can be imported" in part for part in parts[2::2])

    place.write(place.pool("a") + place.pool("b").replace(
        "app:application", "no_such_module"))
    code, text = run("check", "-c", place.file)
    assert code == 78
    assert re.search(r"(?ms)^pool b\n.*^error +app: no_such_module", text)
    assert "can be imported" in text

    place.write("[forebay]\npidfile = %s\n" % place.path("none/pid")
                + place.pool("a", "access_log = " + place.path("none/log"),
                             "slow_log = " + place.path("log"))
                + "[pool p]\nlisten = :0\ncommand = no-such-program -x\n"
                + "[pool q]\nlisten = :0\ncommand = sh -c true\n")
    code, text = run("check", "-c", place.file)
    assert code == 78
    for line in (r"^error +pidfile: no file can be made in .*none/",
                 r"^error +access_log: no file can be made in .*none/",
                 r"^error +command: there is no program no-such-program",
                 r"^ok +command: \S*/sh$"):
        assert re.search("(?m)" + line, text), (line, text)
    assert "slow_log" not in text
