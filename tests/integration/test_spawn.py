# SPDX-License-Identifier: MIT
"""forebay spawn, and forebay called as spawn-fcgi, beside Debian's spawn-fcgi:
for the same command line both make the same socket, file and processes, end
with the same code, and the program finds the same."""

import os
import re
import shutil
import signal
import socket
import stat
import subprocess

import pytest

from lib import proc
from lib import server as srv
from lib.wait import TIMEOUT, wait_for

PROBE = os.path.join(srv.APPS, "spawn", "probe.c")
ROOT = os.geteuid() == 0
needs_root = pytest.mark.skipif(not ROOT, reason="needs root")
reference = shutil.which("spawn-fcgi", path="/usr/bin:/usr/local/bin")
needs_reference = pytest.mark.skipif(
    reference is None, reason="spawn-fcgi is not installed")
NOBODY = 65534


@pytest.fixture(scope="module")
def tools():
    """{"probe": the compiled probe, "ours": forebay under the name
    spawn-fcgi}"""
    if shutil.which("cc") is None:
        pytest.skip("no C compiler")
    folder = srv.temp_dir()
    probe = os.path.join(folder, "probe")
    subprocess.run(["cc", "-static", "-D_GNU_SOURCE", "-o", probe, PROBE],
                   check=True)
    ours = os.path.join(folder, "spawn-fcgi")
    os.symlink(srv.program(), ours)
    yield {"probe": probe, "ours": ours}
    shutil.rmtree(folder)


class Ran:
    """One call of a tool in a folder of its own, and what came of it."""

    def __init__(self, tool, words, probe, count, port, env=None, user=None,
                 before=None, foreground=False, **popen):
        self.folder = srv.temp_dir()
        self.notes = os.path.join(self.folder, "notes")
        self.port = port
        for path in (self.folder, self.notes, self.at("sub"), self.at("jail"),
                     self.at("jail/notes"), self.at("jail/run")):
            os.makedirs(path, exist_ok=True)
            os.chmod(path, 0o777)
        shutil.copy(probe, self.at("jail/probe"))
        if before is not None:
            before(self)
        words = [w.replace("@PROBE@", probe).replace("@DIR@", self.folder)
                 .replace("@PORT@", str(port)) for w in words]
        environ = {"PATH": "/usr/bin:/bin", "HOME": "/home/of/nobody",
                   "ASAN_OPTIONS": os.environ["ASAN_OPTIONS"],
                   "PROBE_NOTES": self.notes}
        environ.update({k: v.replace("@DIR@", self.folder)
                        for k, v in (env or {}).items()})
        if user is not None:
            popen.update(user=user, group=user, extra_groups=[])
        with open(self.at("out"), "wb") as out, \
                open(self.at("err"), "wb") as err:
            self.process = subprocess.Popen(
                tool + words, cwd=self.folder, env=environ,
                stdin=subprocess.DEVNULL, stdout=out, stderr=err, **popen)
        self.foreground = foreground
        if not foreground:
            self.code = self.process.wait(TIMEOUT)
        self.wait_notes(count)

    def at(self, name):
        return os.path.join(self.folder, name)

    def read(self, name):
        try:
            with open(self.at(name), errors="replace") as f:
                return f.read()
        except FileNotFoundError:
            return None

    @property
    def note_files(self):
        found = []
        for folder in (self.notes, self.at("jail/notes")):
            found += [os.path.join(folder, n) for n in os.listdir(folder)
                      if n.isdigit()]
        return sorted(found, key=lambda p: int(os.path.basename(p)))

    def wait_notes(self, count):
        try:
            wait_for(lambda: len(self.note_files) >= count, lambda: (
                "%d programs; it said %r %r" % (count, self.read("out"),
                                                self.read("err"))))
        except BaseException:
            self.close()
            raise

    @property
    def pids(self):
        return [int(os.path.basename(p)) for p in self.note_files]

    def plain(self, text):
        """With nothing in it that differs from run to run."""
        if text is None:
            return None
        for i, pid in enumerate(self.pids):
            text = re.sub(r"\b%d\b" % pid, "PID%d" % i, text)
        return text.replace(self.folder, "DIR").replace(str(self.port), "PORT")

    def result(self):
        found = {"out": self.plain(self.read("out")),
                 "err": bool(self.read("err")),
                 "pid file": self.plain(self.read("pid"))}
        if not self.foreground:
            found["code"] = self.code
        else:
            found["same process"] = self.pids == [self.process.pid]
        for name in ("s", "jail/s", "jail/run/s", "sub/s", "pid"):
            try:
                st = os.lstat(self.at(name))
            except FileNotFoundError:
                continue
            found[name] = (oct(st.st_mode), st.st_uid, st.st_gid)
        for i, path in enumerate(self.note_files):
            with open(path) as f:
                found["program %d" % i] = self.plain(f.read()).splitlines()
        return found

    def close(self):
        for pid in self.pids + [self.process.pid]:
            if proc.alive(pid):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()
        wait_for(lambda: not any(proc.alive(p) for p in self.pids),
                 "the programs' end")
        shutil.rmtree(self.folder)


@pytest.fixture
def ran(tools):
    """ran(TOOL, WORDS, ...): "ours" or "reference"."""
    started = []

    def run(tool, words, count=1, **how):
        command = [tools.get(tool, reference)]
        if tool == "spawn":
            command = [srv.program(), "spawn"]
        found = Ran(command, words, tools["probe"], count,
                    srv.free_port(), **how)
        started.append(found)
        return found
    yield run
    for found in started:
        found.close()


def both(ran, words, count=1, ends=False, **how):
    """Our result and the reference's. ends: the program ends at once. The
    reference looks for that a single time after a tenth of a second, which may
    be too early on a machine that has much to do."""
    theirs = ran("reference", words, count, **how)
    for _ in range(20 if ends else 0):
        if not theirs.read("out"):
            break
        theirs = ran("reference", words, count, **how)
    return ran("ours", words, count, **how), theirs


def compare(ran, words, count=1, **how):
    ours, theirs = both(ran, words, count, **how)
    assert ours.result() == theirs.result(), (ours.read("err"),
                                              theirs.read("err"))
    for line in ours.read("err").splitlines():
        assert line.startswith("spawn-fcgi: "), line
    return ours


GO = ["--", "@PROBE@"]
SAME = [
    # The program and its arguments
    ["-s", "s", "--", "@PROBE@", "one", "two words", "--", "-n", ""],
    ["-s", "s", "@PROBE@", "one"],
    ["@PROBE@", "-s", "s", "one"],
    ["-s", "s", "@PROBE@", "one", "--", "-x"],
    ["-s", "s", "-f", "@PROBE@ one 'two words' $HOME"],
    ["-s", "s", "-f", "/bin/false", "--", "@PROBE@"],
    ["-ss", "-f@PROBE@"],
    # Sockets
    ["-s", "@DIR@/s"] + GO,
    ["-s", "s", "-a", "10.0.0.1"] + GO,
    ["-s", "s", "-b", "7"] + GO,
    ["-p", "@PORT@"] + GO,
    ["-p", "@PORT@", "-a", "127.0.0.1"] + GO,
    ["-p", "@PORT@", "-a", "127.0.0.1", "-b", "5"] + GO,
    ["-p", "@PORT@", "-a", "127.0.0.1", "-b", "-1"] + GO,
    ["-p", "@PORT@", "-a", "127.0.0.1", "-M", "0600"] + GO,
    ["-p", "@PORT@", "-a", "::1"] + GO,
    ["-p", "@PORT@", "-a", "::"] + GO,
    # Modes
    ["-s", "s", "-M", "0600"] + GO,
    ["-s", "s", "-M", "666"] + GO,
    ["-s", "s", "-M", "0"] + GO,
    ["-s", "s", "-M", "07777"] + GO,
    # Folders
    ["-s", "s", "-d", "sub"] + GO,
    ["-s", "s", "-d", "/"] + GO,
    # PHP
    ["-s", "s", "-C", "4"] + GO,
    ["-s", "s", "-C", "0"] + GO,
    ["-s", "s", "-C", "-1"] + GO,
    # Processes and their numbers
    ["-s", "s", "-P", "pid"] + GO,
    ["-s", "s", "-P", "@DIR@/pid", "-d", "/"] + GO,
]
MANY = [
    (["-s", "s", "-F", "3", "-P", "pid"] + GO, 3),
    (["-s", "s", "-F", "0", "-P", "pid"] + GO, 0),
    (["-p", "@PORT@", "-a", "127.0.0.1", "-F", "2", "-C", "2"] + GO, 2),
]
FOREGROUND = [
    ["-s", "s", "-n"] + GO,
    ["-s", "s", "-n", "-P", "pid"] + GO,
    ["-s", "s", "-n", "-F", "3"] + GO,
    ["-s", "s", "-n", "-d", "sub", "-C", "2"] + GO,
    ["-ns", "s", "-f", "@PROBE@ one"],
]
# Nothing is started: the code, and which stream says something.
MISTAKES = [
    [],
    ["-s", "s"],
    ["-s", "s", "--"],
    ["--", "@PROBE@"],
    ["-s", "s", "-p", "@PORT@"] + GO,
    ["-p", "0"] + GO,
    ["-p", "65536"] + GO,
    ["-p", "12x"] + GO,
    ["-p", "x"] + GO,
    ["-a", "localhost", "-p", "@PORT@"] + GO,
    ["-a", "1.2.3", "-p", "@PORT@"] + GO,
    ["-a", "", "-p", "@PORT@"] + GO,
    ["-a", "192.0.2.1", "-p", "@PORT@"] + GO,
    ["-s", "x" * 108] + GO,
    ["-s", "no/folder/s"] + GO,
    ["-s", "sub"] + GO,
    ["-s", "s", "-d", "no/folder"] + GO,
    ["-s", "s", "-d", "@PROBE@"] + GO,
    ["-s", "s", "-P", "no/folder/pid"] + GO,
    ["-s", "s", "-P", "sub"] + GO,
    ["-s", "s", "-P", "/dev/null"] + GO,
    ["-s", "s", "-P", ""] + GO,
]
# The program cannot be run, or ends at once.
ENDS = [
    ["-s", "s", "--", "/no/such/program"],
    ["-s", "s", "--", "sleep", "9"],
    ["-s", "s", "--", "/etc/passwd"],
    ["-s", "s", "--", "sub"],
    ["-s", "s", "--", "/bin/false"],
    ["-s", "s", "--", "/bin/true"],
    ["-s", "s", "-f", "exit 9"],
    ["-s", "s", "-f", "/no/such/program"],
    ["-s", "s", "-P", "pid", "--", "/bin/false"],
]


def name_of(words):
    return " ".join(words if isinstance(words, list) else words[0]) or "none"


@needs_reference
@pytest.mark.parametrize("words", SAME, ids=name_of)
def test_same(ran, words):
    compare(ran, words)


@needs_reference
@pytest.mark.parametrize("words,count", MANY)
def test_same_with_several(ran, words, count):
    compare(ran, words, count)


@needs_reference
@pytest.mark.parametrize("words", FOREGROUND, ids=name_of)
def test_same_without_a_fork(ran, words):
    found = compare(ran, words, foreground=True).result()
    assert found["same process"]


@needs_reference
@pytest.mark.parametrize("words", MISTAKES, ids=name_of)
def test_same_mistakes(ran, words):
    ours, theirs = both(ran, words, 0)
    mine, other = ours.result(), theirs.result()
    if not words:       # help is in words of our own
        assert ours.read("out") and theirs.read("out")
        mine["out"] = other["out"] = ""
    assert mine == other, (ours.read("err"), theirs.read("err"))


@needs_reference
@pytest.mark.parametrize("words", ENDS, ids=name_of)
def test_same_end_at_once(ran, words):
    compare(ran, words, 0, ends=True)


@needs_reference
def test_same_end_by_a_signal(ran):
    compare(ran, ["-s", "s", "-f", "/bin/kill -9 0"], 0, ends=True)


@needs_reference
@pytest.mark.parametrize("code", ["0", "7", "200"])
def test_same_exit_code_without_a_fork(ran, code):
    compare(ran, ["-s", "s", "-n"] + GO, 0, env={"PROBE_EXIT": code})
    compare(ran, ["-s", "s", "-n", "--", "/no/such/program"], 0)


@needs_reference
@pytest.mark.parametrize("words", [["-h"], ["-?"], ["-v"], ["-s", "s", "-vh"],
                                   ["-Q"], ["-s"], ["-s", "s", "-nQ"],
                                   ["-s", "s", "@PROBE@", "--option"]],
                         ids=name_of)
def test_same_help(ran, words):
    """On the same stream, with the same code, in words of our own."""
    ours, theirs = both(ran, words, 0)
    assert ours.code == theirs.code
    for name in ("out", "err"):
        assert bool(ours.read(name)) == bool(theirs.read(name)), name


@needs_reference
@pytest.mark.parametrize("mask", [0, 0o077, 0o007])
def test_same_umask(ran, mask):
    for words in (["-s", "s", "-P", "pid"], ["-s", "s", "-M", "0666"]):
        compare(ran, words + GO, umask=mask)


@needs_reference
def test_same_environment(ran):
    compare(ran, ["-s", "s"] + GO, env={"PHP_FCGI_CHILDREN": "9",
                                        "LC_ALL": "C", "EMPTY": ""})
    compare(ran, ["-s", "s", "-C", "3"] + GO, env={"PHP_FCGI_CHILDREN": "9"})


def deaf():
    """What a parent may hand on."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])


@needs_reference
@pytest.mark.parametrize("more", [[], ["-n"]])
def test_same_signals(ran, more):
    compare(ran, ["-s", "s"] + more + GO, preexec_fn=deaf,
            foreground=bool(more))


@needs_reference
@pytest.mark.parametrize("more", [[], ["-n"]])
def test_same_descriptors_of_the_parent(ran, more):
    with open("/dev/zero") as zero:
        def keep():
            os.dup2(zero.fileno(), 5)
            os.set_inheritable(5, True)
        compare(ran, ["-s", "s"] + more + GO, pass_fds=[5], preexec_fn=keep,
                foreground=bool(more))


# What is at the path already

def dead_socket(run):
    with socket.socket(socket.AF_UNIX) as s:
        s.bind(run.at("s"))


@needs_reference
def test_same_stale_socket(ran):
    compare(ran, ["-s", "s"] + GO, before=dead_socket)


@needs_reference
def test_same_live_socket(ran):
    held = []

    def live(run):
        s = socket.socket(socket.AF_UNIX)
        held.append(s)
        s.bind(run.at("s"))
        s.listen(5)
    compare(ran, ["-s", "s", "-P", "pid"] + GO, 0, before=live)
    for s in held:
        s.close()


@needs_reference
def test_same_port_in_use(ran):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        s.listen(1)
        compare(ran, ["-a", "127.0.0.1", "-p", str(s.getsockname()[1])] + GO,
                0)


def old_pid(run):
    with open(run.at("pid"), "w") as f:
        f.write("1234567 of an earlier run\n")


def link(where):
    def make(run):
        os.symlink(where, run.at("pid"))
        with open(run.at("there"), "w") as f:
            f.write("1234567 of an earlier run\n")
    return make


@needs_reference
def test_same_old_pid_file(ran):
    words = ["-s", "s", "-P", "pid"]
    compare(ran, words + GO, before=old_pid)
    compare(ran, words + ["--", "/bin/false"], 0, before=old_pid, ends=True)
    compare(ran, ["-s", "no/folder/s", "-P", "pid"] + GO, 0, before=old_pid)
    compare(ran, words + ["-n"] + GO, before=old_pid, foreground=True)
    compare(ran, words + GO, before=link("there"))
    compare(ran, words + GO, 0, before=link("missing"))


# For root

AS_ROOT = [
    ["-u", "nobody"],
    ["-u", "65534"],
    ["-u", "www-data", "-g", "daemon"],
    ["-g", "www-data"],
    ["-g", "12345"],
    ["-U", "nobody"],
    ["-G", "daemon"],
    ["-U", "nobody", "-G", "daemon", "-M", "0606"],
    ["-U", "12345", "-G", "23456"],
    ["-u", "www-data", "-g", "daemon", "-U", "nobody"],
    ["-u", "www-data", "-g", "daemon", "-G", "nogroup"],
    ["-u", "nobody", "-P", "pid"],
    ["-u", "nobody", "-d", "sub"],
    ["-S", "-u", "nobody"],
]


@needs_root
@needs_reference
@pytest.mark.parametrize("words", AS_ROOT, ids=name_of)
def test_same_rights(ran, words):
    compare(ran, ["-s", "s"] + words + GO)


@needs_root
@needs_reference
def test_same_rights_without_a_fork(ran):
    compare(ran, ["-s", "s", "-n", "-u", "nobody"] + GO, foreground=True)
    compare(ran, ["-p", "@PORT@", "-a", "127.0.0.1", "-u", "nobody"] + GO)


@needs_root
@needs_reference
def test_same_supplementary_groups(ran):
    """A user that is in more than one group."""
    found = subprocess.run(["getent", "group"], stdout=subprocess.PIPE,
                           check=True).stdout.decode()
    members = [line.split(":")[3].split(",")[0] for line in found.splitlines()
               if line.split(":")[3]]
    members = [m for m in members if m != "root"]
    if not members:
        pytest.skip("no user here is in a second group")
    compare(ran, ["-s", "s", "-u", members[0]] + GO)
    compare(ran, ["-s", "s", "-u", members[0], "-g", "daemon"] + GO)


@needs_root
@needs_reference
@pytest.mark.parametrize("words", [
    ["-u", "nosuchuser"], ["-g", "nosuchgroup"], ["-U", "nosuchuser"],
    ["-G", "nosuchgroup"], ["-u", "root"], ["-u", "0"], ["-g", "root"],
    ["-g", "0"], ["-u", "nobody", "-g", "0"], ["-u", ""], ["-u", "12x"],
    ["-c", "/no/such/folder"]], ids=name_of)
def test_same_rights_refused(ran, words):
    compare(ran, ["-s", "s"] + words + GO, 0)


def devices(run):
    """The reference opens /dev/null inside."""
    path = run.at("jail/dev/null")
    os.mkdir(os.path.dirname(path))
    try:
        os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
        os.chmod(path, 0o666)
        open(path, "wb").close()
    except OSError as e:
        pytest.skip("no devices can be made here: %s" % e)


@needs_root
@needs_reference
@pytest.mark.parametrize("words", [
    ["-c", "jail", "-s", "/s", "-P", "pid"],
    ["-c", "@DIR@/jail", "-s", "run/s", "-u", "nobody", "-d", "run"],
    ["-c", "jail", "-s", "/s", "-u", "nobody", "-U", "www-data"],
    ["-c", "jail", "-S", "-s", "s", "-u", "nobody", "-d", "/run"],
    ["-c", "jail", "-S", "-p", "@PORT@", "-a", "127.0.0.1"]], ids=name_of)
def test_same_root_folder(ran, words):
    compare(ran, words + ["--", "/probe"], env={"PROBE_NOTES": "/notes"},
            before=devices)


@needs_root
@needs_reference
def test_same_root_folder_without_a_fork(ran):
    compare(ran, ["-n", "-c", "jail", "-s", "/s", "--", "/probe"],
            env={"PROBE_NOTES": "/notes"}, before=devices, foreground=True)


@needs_root
@needs_reference
def test_same_for_a_user(ran):
    for words in SAME[7:12] + SAME[17:19] + SAME[-2:]:
        compare(ran, words, user=NOBODY)
    compare(ran, ["-p", "80", "-a", "127.0.0.1"] + GO, 0, user=NOBODY)


# Where this one is another

@pytest.mark.parametrize("words", [
    ["-M", "rw"], ["-M", "0999"], ["-M", "-1"], ["-M", ""], ["-b", "many"],
    ["-b", "5x"], ["-F", "two"], ["-F", "-1"], ["-C", "x"], ["-C", ""]],
    ids=name_of)
def test_what_is_no_number_is_refused(ran, words):
    """Not taken for 0: a socket that nobody may open, or no program at all,
    with exit code 0."""
    found = ran("ours", ["-s", "s"] + words + GO, 0)
    assert found.code == 255
    assert "%s: \"%s\"" % tuple(words) in found.read("err")
    assert not os.path.exists(found.at("s"))


def regular(run):
    with open(run.at("s"), "w") as f:
        f.write("precious")


def test_a_file_at_the_path_stays(ran):
    found = ran("ours", ["-s", "s"] + GO, 0, before=regular)
    assert found.code == 255
    assert found.read("s") == "precious"
    assert "is a regular file, not a socket" in found.read("err")


def test_a_port_below_zero_is_none(ran):
    assert ran("ours", ["-p", "-1", "-a", "127.0.0.1"] + GO, 0).code == 255


def test_each_of_several_is_looked_at(ran):
    """Not only the first: the code is that of the last one that failed, and
    the file has those that run."""
    found = ran("ours", ["-s", "s", "-P", "pid", "-F", "3", "-f",
                         "/bin/sh -c 'mkdir sub/1 && exec @PROBE@; "
                         "mkdir sub/2 && exit 6; exec @PROBE@'"], 2)
    assert found.code == 6
    assert found.plain(found.read("pid")) == "PID0\nPID1"
    assert found.read("err") == ("spawn-fcgi: /bin/sh ended at once with exit "
                                 "code 6\n")


def test_a_parent_that_ignores_its_children(ran):
    """The kernel would reap them: nobody could tell how they ended."""
    def deaf_to_children():
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    found = ran("ours", ["-s", "s", "--", "/bin/false"], 0,
                preexec_fn=deaf_to_children)
    assert found.code == 1 and not found.read("out")
    found = ran("ours", ["-s", "s"] + GO, preexec_fn=deaf_to_children)
    assert "ignored %d" % signal.SIGCHLD in found.result()["program 0"]


def test_many(ran):
    """They are looked at together."""
    found = ran("ours", ["-s", "s", "-P", "pid", "-F", "60"] + GO, 60)
    assert found.read("pid").split() == re.findall(r"PID: (\d+)",
                                                   found.read("out"))
    assert sorted(map(int, found.read("pid").split())) == found.pids


def test_why_a_program_cannot_be_run(ran):
    found = ran("ours", ["-s", "s", "--", "/no/such/program"], 0)
    assert found.read("err") == ("spawn-fcgi: /no/such/program cannot be run: "
                                 "No such file or directory\n")
    assert found.code == 2


@needs_root
def test_a_number_without_an_entry_is_not_in_roots_group(ran):
    found = ran("ours", ["-s", "s", "-u", "12345"] + GO).result()
    assert "uid 12345 12345 12345" in found["program 0"]
    assert "gid 12345 12345 12345" in found["program 0"]


@needs_root
def test_a_root_folder_without_devices(ran):
    """/dev/null is opened before the root changes."""
    found = ran("ours", ["-c", "jail", "-s", "/s", "--", "/probe"],
                env={"PROBE_NOTES": "/notes"})
    assert found.code == 0 and not found.read("err")
    assert len([line for line in found.result()["program 0"]
                if re.match("fd [12] .* device 103$", line)]) == 2


@needs_root
def test_what_takes_root_is_not_passed_over_in_silence(ran):
    found = ran("ours", ["-s", "s", "-u", "www-data"] + GO, user=NOBODY)
    assert found.code == 0
    assert found.read("err") == ("spawn-fcgi: -u is for root; it is not "
                                 "heeded\n")


@needs_root
def test_a_set_user_id_bit_is_refused(ran, tools):
    folder = srv.temp_dir()
    try:
        path = os.path.join(folder, "spawn-fcgi")
        shutil.copy(srv.program(), path)
        os.chmod(path, 0o4755)
        found = subprocess.run(
            [path, "-s", os.path.join(folder, "s"), "--", tools["probe"]],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, user=NOBODY,
            group=NOBODY, extra_groups=[])
        assert found.returncode == 255
        assert b"set-user-ID" in found.stderr
        assert not os.path.exists(os.path.join(folder, "s"))
    finally:
        shutil.rmtree(folder)


def test_as_a_command(ran):
    """forebay spawn is the same; an unknown option is an error there."""
    found = ran("spawn", ["-s", "s", "-P", "pid"] + GO)
    assert found.code == 0
    assert found.plain(found.read("out")) == (
        "spawn-fcgi: child spawned successfully: PID: PID0\n")
    assert found.plain(found.read("pid")) == "PID0"
    found = ran("spawn", ["-Q"], 0)
    assert found.code == 255
    assert found.read("err") == "forebay spawn: there is no option -Q\n"
    found = ran("spawn", ["-s", "s", "--workers", "2"] + GO, 0)
    assert found.code == 255 and "--supervise" in found.read("err")


def test_an_installation_anywhere(ran, tools):
    """In a folder that the build was not told of the link leads to the program,
    and the program finds its workers."""
    if shutil.which("cmake") is None:
        pytest.skip("no cmake")
    folder = srv.temp_dir()
    try:
        subprocess.run(["cmake", "--install", srv.build_dir(), "--prefix",
                        folder], check=True, stdout=subprocess.DEVNULL)
        link = os.path.join(folder, "libexec", "forebay", "spawn-fcgi")
        program = os.path.join(folder, "sbin", "forebay")
        assert os.path.realpath(link) == os.path.realpath(program)
        tools["installed"] = link
        assert ran("installed", ["-v"], 0).read("out").startswith(
            "spawn-fcgi (forebay ")
        found = subprocess.run([program, "--version"], stdout=subprocess.PIPE)
        assert b"forebay-worker " in found.stdout
    finally:
        shutil.rmtree(folder)
