# SPDX-License-Identifier: MIT
"""The interpreter: start, virtualenv, fork, end (wsgi checklist L and part 2)."""
import atexit
import json
import os
import random
import select
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import tempfile
import threading

import driver
from support import Case, main

DRIVER = os.readlink("/proc/self/exe")


class Folder(Case):
    def setUp(self):
        super().setUp()
        self.dir = os.path.realpath(tempfile.mkdtemp())

    def tearDown(self):
        shutil.rmtree(self.dir)

    def write(self, name, text):
        path = os.path.join(self.dir, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as f:
            f.write(text)
        return path


class Start(Folder):
    """A driver of its own: what a fresh interpreter looks like."""

    def script(self, body):
        return self.write("script.py", "import sys, os, json\n\ndef main():\n"
                          + "".join("    %s\n" % line
                                    for line in body.splitlines()))

    def run_driver(self, body, env=None, code=0, **options):
        full = {k: v for k, v in os.environ.items()
                if not k.startswith(("PYTHON", "LC_", "LANG", "DRIVER_"))}
        full.update(env or {})
        done = subprocess.run([DRIVER, self.script(body)], env=full,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              **options)
        self.assertEqual(done.returncode, code, done.stderr.decode())
        return done

    def values(self, *expressions, **options):
        body = "print(json.dumps([%s]), flush=True)" % ", ".join(expressions)
        return json.loads(self.run_driver(body, **options).stdout)

    def test_L1_executable(self):
        executable, prefix = self.values("sys.executable", "sys.prefix")
        self.assertEqual(executable, sys.executable)
        version = subprocess.check_output(
            [executable, "-c", "import sys; print(sys.version)"], text=True)
        self.assertEqual(version.strip(), sys.version)
        self.assertEqual(prefix, sys.base_prefix)

    def test_L1_multiprocessing(self):
        self.write("mp_work.py", "import os\ndef work(x):\n"
                                 "    return x * 2, os.getppid()\n")
        for method in ("spawn", "forkserver", "fork"):
            done = self.run_driver(
                "import multiprocessing, mp_work\n"
                "context = multiprocessing.get_context(%r)\n"
                "with context.Pool(2) as pool:\n"
                "    print([x for x, p in pool.map(mp_work.work, [1, 2, 3])],"
                " flush=True)" % method)
            self.assertEqual(done.stdout, b"[2, 4, 6]\n", done.stderr)

    def test_L2_main_is_empty(self):
        names, = self.values("sorted(vars(sys.modules['__main__']))")
        self.assertLessEqual(set(names), {
            "__annotations__", "__builtins__", "__doc__", "__loader__",
            "__name__", "__package__", "__spec__"})

    def test_L3_streams(self):
        argv, stdin, out, err, errors = self.values(
            "[type(a).__name__ for a in sys.argv]", "sys.stdin.read()",
            "sys.stdout.encoding", "sys.stderr.encoding", "sys.stderr.errors",
            stdin=subprocess.DEVNULL)
        self.assertEqual(argv, ["str"])
        self.assertEqual((stdin, out, err, errors),
                         ("", "utf-8", "utf-8", "backslashreplace"))
        done = self.run_driver("print('\\ud800 \\xe4')\n"
                               "sys.stdout.write('no newline')\nos._exit(0)")
        self.assertEqual(done.stdout, b"\\ud800 \xc3\xa4\nno newline")

    def test_L4_utf8(self):
        for env in ({}, {"LANG": "C"}, {"LC_ALL": "C"}, {"LC_ALL": "POSIX"},
                    {"LANG": "no_SUCH"}, {"PYTHONUTF8": "0"},
                    {"PYTHONIOENCODING": "ascii"}):
            got = self.values("sys.getfilesystemencoding()",
                              "sys.stdout.encoding", "sys.flags.utf8_mode",
                              "open(os.devnull).encoding", env=env)
            self.assertEqual([got[0], got[1].lower(), got[2],
                              got[3].lower()], ["utf-8", "utf-8", 1, "utf-8"],
                             env)

    def test_L14_path(self):
        extra = os.path.join(self.dir, "extra")
        path, flags = self.values(
            "sys.path", "getattr(sys.flags, 'safe_path', True)",
            env={"DRIVER_PATH": extra, "PYTHONPATH": "/from/environment"})
        self.assertEqual(path[:3], [extra, self.dir, "/from/environment"])
        self.assertNotIn("", path)
        self.assertTrue(flags)
        relative, = self.values("sys.path", env={"DRIVER_PATH": "extra"},
                                cwd=self.dir)
        self.assertEqual(relative[:2], [extra, self.dir])

    def test_L12_main_thread(self):
        same, = self.values("__import__('threading').main_thread() is "
                            "__import__('threading').current_thread()")
        self.assertTrue(same)

    def test_R1_closed_descriptors(self):
        self.write("result", "")
        body = ("out = open(%r, 'w')\n"
                "json.dump([out.fileno(), sys.stdin is None, "
                "sys.stdout is None, sys.stderr is None], out)\n"
                "out.close()" % os.path.join(self.dir, "result"))
        script = self.script(body)
        pid = os.fork()
        if pid == 0:
            for fd in (0, 1, 2):
                os.close(fd)
            os.execv(DRIVER, [DRIVER, script])
        self.assertEqual(os.waitpid(pid, 0)[1], 0)
        with open(os.path.join(self.dir, "result")) as f:
            fd, *missing = json.load(f)
        self.assertGreater(fd, 2)
        self.assertEqual(missing, [False] * 3)

    def test_R2_another_python_in_the_environment(self):
        env = {"PYTHONHOME": "/nowhere", "VIRTUAL_ENV": "/nowhere"}
        prefix, has = self.values("sys.prefix", "'PYTHONHOME' in os.environ",
                                  env=env)
        self.assertEqual((prefix, has), (sys.base_prefix, False))

    def test_R2_signal_handlers(self):
        done = self.run_driver(
            "import signal\n"
            "print([signal.getsignal(s) == d for s, d in ("
            "(signal.SIGTERM, signal.SIG_DFL), "
            "(signal.SIGPIPE, signal.SIG_IGN))], flush=True)")
        self.assertEqual(done.stdout, b"[True, True]\n")

    def test_R27_order_of_the_end(self):
        done = self.run_driver(
            "import atexit, threading\n"
            "def work():\n"
            "    threading.main_thread().join()\n"
            "    print('thread', flush=True)\n"
            "def daemon():\n"
            "    threading.Event().wait()\n"
            "def last():\n"
            "    print('atexit')\n"
            "    raise ValueError('in atexit')\n"
            "atexit.register(last)\n"
            "threading.Thread(target=work).start()\n"
            "threading.Thread(target=daemon, daemon=True).start()\n"
            "print('main')")
        self.assertEqual(done.stdout, b"main\nthread\natexit\n")

    def test_R3_virtualenv(self):
        venv = os.path.join(self.dir, "venv")
        subprocess.check_call([sys.executable, "-m", "venv", "--without-pip",
                               venv])
        for given in (venv, venv + "/", venv + "//"):
            executable, prefix, base = self.values(
                "sys.executable", "sys.prefix", "sys.base_prefix",
                env={"DRIVER_VENV": given})
            self.assertEqual(executable, os.path.join(venv, "bin/python"))
            self.assertEqual(os.path.normpath(prefix), venv)
            self.assertEqual(base, sys.base_prefix)
        link = os.path.join(self.dir, "link")
        os.symlink(venv, link)
        prefix, = self.values("sys.prefix", env={"DRIVER_VENV": link})
        self.assertTrue(os.path.samefile(prefix, venv))
        site = sysconfig.get_path("purelib", vars={"base": venv})
        self.write(os.path.join(site, "only_in_venv.py"), "")
        self.values("__import__('only_in_venv').__name__",
                    env={"DRIVER_VENV": venv})

    def test_R3_python(self):
        """The setting python: an executable."""
        venv = os.path.join(self.dir, "venv")
        subprocess.check_call([sys.executable, "-m", "venv", "--without-pip",
                               venv])
        inside = os.path.join(venv, "bin/python3")
        for env in ({"DRIVER_PYTHON": inside},
                    {"DRIVER_PYTHON": inside, "DRIVER_VENV": venv}):
            executable, prefix = self.values("sys.executable", "sys.prefix",
                                             env=env)
            self.assertEqual((executable, prefix), (inside, venv))
        executable, prefix = self.values(
            "sys.executable", "sys.prefix",
            env={"DRIVER_PYTHON": sys.executable, "DRIVER_VENV": venv})
        self.assertEqual(prefix, venv)
        self.values("sys.executable", env={"DRIVER_PYTHON": sys.executable})
        other = self.write("bin/python3", "#!/bin/sh\n")
        os.chmod(other, 0o755)
        for bad in (other, "/no/such/python", "/bin/sh"):
            done = self.run_driver("pass", {"DRIVER_PYTHON": bad}, 3)
            self.assertIn(bad.encode(), done.stderr)
            self.assertEqual(done.stderr.count(b"\n"), 1)

    def test_R5_cannot_start(self):
        done = self.run_driver("pass", {"DRIVER_VENV": "/no/such/venv"}, 3)
        self.assertEqual(done.stderr.decode().count("\n"), 1)
        self.assertIn(b"/no/such/venv", done.stderr)


class Virtualenv(Folder):
    def setUp(self):
        super().setUp()
        self.venv = os.path.join(self.dir, "venv")
        self.base = os.path.realpath(sys.executable)
        self.version = "%d.%d.%d" % sys.version_info[:3]
        os.makedirs(os.path.join(self.venv, "bin"))
        os.symlink(self.base, os.path.join(self.venv, "bin/python"))
        self.config(home=os.path.dirname(self.base), version=self.version)

    def config(self, **lines):
        with open(os.path.join(self.venv, "pyvenv.cfg"), "w") as f:
            for key, value in lines.items():
                f.write("%s = %s\n" % (key, value))

    def refused(self, *words, venv=None):
        with self.assertRaises(ValueError) as caught:
            driver.check_venv(venv or self.venv, self.base)
        for word in words:
            self.assertIn(word, str(caught.exception))
        self.assertNotIn("\n", str(caught.exception))

    def test_good(self):
        self.assertEqual(driver.check_venv(self.venv + "/", self.base),
                         self.venv + "/bin/python")
        self.config(home=os.path.dirname(self.base),
                    version_info=self.version + ".final.0")
        driver.check_venv(self.venv, self.base)
        with open(os.path.join(self.venv, "pyvenv.cfg"), "w") as f:
            f.write("# nothing\nHOME=%s\r\n version=  %s  \n\nx\n"
                    % (os.path.dirname(self.base), self.version))
        driver.check_venv(self.venv, self.base)

    def test_missing(self):
        self.refused("/no/such", "No such file", venv="/no/such")
        self.refused("Not a directory", venv=self.write("file", ""))
        os.unlink(os.path.join(self.venv, "pyvenv.cfg"))
        self.refused("pyvenv.cfg", "none")
        self.refused("too long", venv="/" + "x" * 5000)

    def test_another_version(self):
        self.config(home=os.path.dirname(self.base), version="3.2.1")
        self.refused("3.2.1", "%d.%d" % sys.version_info[:2])
        self.config(home=os.path.dirname(self.base), version="nonsense")
        self.refused("nonsense")

    def test_another_build(self):
        other = os.path.join(self.dir, "other")
        os.makedirs(other)
        name = "python%d.%d" % sys.version_info[:2]
        with open(os.path.join(other, name), "w") as f:
            f.write("another python")
        self.config(home=other, version=self.version)
        self.refused(os.path.join(other, name), self.base)
        shutil.rmtree(other)
        self.refused(other, "not there")
        self.config(version=self.version)
        self.refused("home")

    def test_python_is_gone(self):
        os.unlink(os.path.join(self.venv, "bin/python"))
        os.symlink("/no/such/python", os.path.join(self.venv, "bin/python"))
        self.refused("bin/python", "No such file")

    def test_closed_to_this_user(self):
        os.chmod(self.dir, 0o755)
        for path, mode in ((self.venv, 0o700),
                           (os.path.join(self.venv, "pyvenv.cfg"), 0o600)):
            before = os.stat(path).st_mode
            os.chmod(path, mode)
            read_end, write_end = os.pipe()
            pid = os.fork()
            if pid == 0:
                os.close(read_end)
                try:
                    if os.getuid() == 0:
                        os.setgroups([])
                        os.setgid(65534)
                        os.setuid(65534)
                    driver.check_venv(self.venv, self.base)
                    os.write(write_end, b"accepted")
                except BaseException as e:
                    os.write(write_end, str(e).encode())
                os._exit(0)
            os.close(write_end)
            with open(read_end) as f:
                why = f.read()
            os.waitpid(pid, 0)
            os.chmod(path, before)
            if os.getuid() == 0:
                self.assertIn("65534", why)
                self.assertIn(path, why)


class Fork(Folder):
    def setUp(self):
        super().setUp()
        if len(os.listdir("/proc/self/task")) > 1:
            self.skipTest("a sanitizer has a thread of its own")

    def findings(self):
        found, report = driver.unsafe_to_fork()
        self.assertEqual(found, bool(report))
        return report

    def test_R9_threads(self):
        self.assertEqual(self.findings(), "")
        stop = threading.Event()
        started = threading.Barrier(3)
        threads = [threading.Thread(target=lambda: (started.wait(),
                                                    stop.wait()), name=name)
                   for name in ("pump", "reaper")]
        for t in threads:
            t.start()
        started.wait()
        report = self.findings()
        stop.set()
        for t in threads:
            t.join()
        self.assertRegex(report, r"[23] threads \(")
        self.assertIn("pump", report)
        self.assertIn("reaper", report)

    def test_sockets(self):
        with socket.socket() as listening:
            listening.bind(("127.0.0.1", 0))
            listening.listen()
            self.assertEqual(self.findings(), "")
            port = listening.getsockname()[1]
            with socket.create_connection(("127.0.0.1", port)):
                self.assertIn("a socket connected to 127.0.0.1:%d" % port,
                              self.findings())
        path = os.path.join(self.dir, "sock")
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(path)
            listening.listen()
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(path)
                self.assertIn(path, self.findings())
        left, right = socket.socketpair()
        with left, right:
            self.assertIn("socket pair", self.findings())
        with select.epoll():
            self.assertIn("epoll", self.findings())
        self.assertEqual(self.findings(), "")

    def test_files(self):
        path = os.path.join(self.dir, "data")
        with open(path, "w"):
            self.assertEqual(self.findings(), path + " open for writing")
        with open(path):
            self.assertEqual(self.findings(), "")
        with open(os.devnull, "w"):
            self.assertEqual(self.findings(), "")

    def test_children(self):
        with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as child:
            self.assertRegex(self.findings(), r"1 child process \(.+\)")
            child.stdin.close()
        self.assertEqual(self.findings(), "")

    def in_children(self, function, count=2):
        results = []
        for _ in range(count):
            read_end, write_end = os.pipe()
            pid = driver.fork()
            if pid == 0:
                code = 1
                try:
                    os.write(write_end, repr(function()).encode())
                    code = 0
                finally:
                    os._exit(code)
            os.close(write_end)
            with open(read_end) as f:
                results.append(f.read())
            self.assertEqual(os.waitpid(pid, 0)[1], 0)
        return results

    def test_L10_R7_random(self):
        random.random()
        a, b = self.in_children(random.random)
        self.assertNotEqual(a, b)

    def test_R7_fork_hooks(self):
        seen = []
        os.register_at_fork(before=lambda: seen.append("before"),
                            after_in_parent=lambda: seen.append("parent"),
                            after_in_child=lambda: seen.append("child"))
        self.assertEqual(self.in_children(lambda: seen, 1),
                         ["['before', 'child']"])
        self.assertEqual(seen, ["before", "parent"])

    def test_a_request_after_fork(self):
        def app(environ, start_response):
            start_response("200 OK", [])
            return [b"in the child"]

        thread = self.thread(app)
        self.run_on(thread)
        self.assertEqual(self.in_children(lambda: self.run_on(thread).body, 1),
                         ["b'in the child'"])


class Signals(Case):
    def test_L7_signal_in_a_request(self):
        seen = []

        def app(environ, start_response):
            before = signal.signal(signal.SIGUSR1, lambda *a: seen.append(a))
            try:
                os.kill(os.getpid(), signal.SIGUSR1)
            finally:
                signal.signal(signal.SIGUSR1, before)
            start_response("200 OK", [])
            return [b"ok"]

        self.assertEqual(self.run_app(app).body, b"ok")
        self.assertEqual(len(seen), 1)

    def test_L7_an_idle_worker_is_woken(self):
        """By a descriptor, which an event loop of the application may take
        and leave."""
        seen = []
        before = signal.signal(signal.SIGUSR1, lambda *a: seen.append(a))

        def app(environ, start_response):
            if environ["PATH_INFO"] == "/loop":
                old = signal.set_wakeup_fd(-1)
                self.assertGreaterEqual(old, 0)
            if environ["PATH_INFO"] == "/own":
                signal.set_wakeup_fd(own[1], warn_on_full_buffer=False)
            start_response("200 OK", [])
            return [b"ok"]

        def readable(fd):
            return bool(select.select([fd], [], [], 0)[0])

        own = os.pipe()
        os.set_blocking(own[1], False)
        try:
            fd = driver.signal_fd()
            self.assertEqual(driver.signal_fd(), fd)
            self.assertFalse(os.get_inheritable(fd))
            for path in ("/", "/loop"):
                self.assertEqual(
                    self.run_app(app, params={"PATH_INFO": path}).body, b"ok")
                self.assertFalse(readable(fd))
                os.kill(os.getpid(), signal.SIGUSR1)
                self.assertTrue(readable(fd))
                driver.check_signals()
                self.assertFalse(readable(fd))
                self.assertTrue(seen.pop())
            self.run_app(app, params={"PATH_INFO": "/own"})
            os.kill(os.getpid(), signal.SIGUSR1)
            self.assertTrue(readable(own[0]))
            self.assertFalse(readable(fd))
        finally:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGUSR1, before)
            os.close(own[0])
            os.close(own[1])

    def with_raising_handler(self, app):
        class Stop(Exception):
            pass

        def handler(*args):
            raise Stop("from the handler")

        before = signal.signal(signal.SIGUSR1, handler)
        try:
            return Stop, self.run_app(app(Stop), write_signal=signal.SIGUSR1)
        finally:
            signal.signal(signal.SIGUSR1, before)

    def test_L7_handler_raises_while_a_chunk_is_sent(self):
        closed = []

        def make(stop):
            def app(environ, start_response):
                start_response("200 OK", [])
                try:
                    for _ in range(5):
                        yield b"chunk"
                finally:
                    closed.append(1)
            return app

        _, response = self.with_raising_handler(make)
        self.assertEqual(response.body, b"chunk" * 2)
        self.assertTrue(response.broken)
        self.assertEqual(closed, [1])
        self.assert_logged("from the handler")

    def test_L7_handler_raises_in_write(self):
        def make(stop):
            def app(environ, start_response):
                write = start_response("200 OK", [])
                write(b"one ")
                with self.assertRaises(stop):
                    write(b"two ")
                write(b"three")
                return []
            return app

        _, response = self.with_raising_handler(make)
        self.assertEqual(response.body, b"one two three")
        self.assertTrue(response.complete)
        self.assert_quiet()

    def test_L7_handler_raises_in_the_last_write(self):
        def make(stop):
            def app(environ, start_response):
                start_response("200 OK", [])
                yield b"only"
            return app

        _, response = self.with_raising_handler(make)
        self.assertTrue(response.complete)
        self.assert_logged("from the handler")

    def test_L6_children_of_a_request(self):
        def app(environ, start_response):
            start_response("200 OK", [])
            code = subprocess.run("exit 7", shell=True).returncode
            return [str(code).encode()]

        self.assertEqual(self.run_app(app).body, b"7")


class End(Case):
    def test_L9_atexit(self):
        order = []
        atexit.register(order.append, "atexit")
        driver.end()
        self.assertEqual(order, ["atexit"])
        self.assert_quiet()
