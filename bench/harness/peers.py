# SPDX-License-Identifier: MIT
"""Every server that scripts/compare can start: forebay, and what people would
take otherwise. Each runs the same application; processes and threads are the
same numbers for all."""
import glob
import os
import re
import shutil
import signal
import subprocess

from . import frontends
from .application import SHIM
from .servers import BENCH, WORKLOADS, Missing, Server, find, free_port

PEER_PROGRAMS = os.path.join(BENCH, "peers")


class Shape:
    """So many processes of so many threads, on this kind of socket."""

    def __init__(self, workers=2, threads=1, socket="unix", mode=None):
        self.workers, self.threads, self.socket = workers, threads, socket
        self.mode = mode or ("prefork" if threads == 1 else "threaded")

    @property
    def text(self):
        return ("%d" % self.workers if self.threads == 1
                else "%dx%d" % (self.workers, self.threads))


class Kind:
    """One kind of server. protocols: what it speaks; it listens once, and
    forebay tells them apart by itself."""

    protocols = ("fcgi",)
    sockets = ("unix", "tcp")
    processes = True        # K = 1 is possible
    threads = False         # and K > 1
    pins = False            # a kept connection owns a worker
    keeps = True            # direct connections can be kept
    itself = False          # is a web server: no front end belongs before it
    hello_only = False      # answers by itself what the hello workload does
    fronts = None           # only behind these, or None: any
    reload_signal = None    # tells it to take up a new version

    def __init__(self, name):
        self.name = name

    def require(self, setup):
        """Raises Missing when it is not installed."""

    def label(self, shape):
        return "%s %s" % (self.name, shape.text)

    def argv(self, name, setup, app, shape, address):
        raise NotImplementedError

    def address(self, name, setup, shape):
        if shape.socket == "unix" and "unix" in self.sockets:
            return "unix:" + setup.path(name + ".sock")
        return "127.0.0.1:%d" % free_port()

    def start(self, name, setup, app, shape):
        address = self.address(name, setup, shape)
        argv = self.argv(name, setup, app, shape, address)
        return Server(name, argv, {p: address for p in self.protocols},
                      setup.folder, {**setup.env, **app.environment()})


def bare(address):
    """As programs want it that know nothing of "unix:"."""
    return address[5:] if address.startswith("unix:") else address


class Forebay(Kind):
    protocols = ("fcgi", "scgi")
    threads = True
    reload_signal = signal.SIGHUP

    def __init__(self, name="forebay", options=()):
        super().__init__(name)
        self.options = list(options)

    def label(self, shape):
        return "%s %s %s" % (self.name, shape.mode, shape.text)

    def argv(self, name, setup, app, shape, address):
        argv = [setup.forebay, "serve", "--listen", address,
                "--workers", str(shape.workers), "--chdir", app.chdir]
        if shape.socket == "unix":
            argv += ["--socket-mode", "0666"]   # Apache is another user
        if setup.virtualenv:
            argv += ["--virtualenv", setup.virtualenv]
        for path in app.pythonpath:
            argv += ["--pythonpath", path]
        if shape.mode != "prefork":
            argv += ["--mode", shape.mode, "--threads", str(shape.threads)]
        return [*argv, *self.options, *setup.forebay_options, app.spec]


def forebay_modes(setup):
    """Those that this build knows."""
    done = subprocess.run([setup.forebay, "serve", "--help"],
                          capture_output=True, text=True)
    line = re.search(r"--mode (\S+)", done.stdout)
    return line.group(1).split("|") if line else []


class ForebayLibfcgi(Forebay):
    """The classic blocking loop."""
    protocols = ("fcgi",)
    pins = True

    def __init__(self):
        super().__init__("forebay engine=libfcgi",
                         ["--engine", "libfcgi"])


class Uwsgi(Kind):
    threads = True
    keeps = False
    reload_signal = signal.SIGHUP

    def __init__(self, protocol):
        super().__init__("uWSGI " + {"fcgi": "fastcgi"}.get(protocol,
                                                            protocol))
        self.protocols = (protocol,)
        if protocol == "uwsgi":
            self.fronts = ("nginx", "lighttpd", "apache")

    def require(self, setup):
        find("uwsgi_python3", "uwsgi-core, uwsgi-plugin-python3")

    def argv(self, name, setup, app, shape, address):
        option = {"fcgi": "--fastcgi-socket", "scgi": "--scgi-socket",
                  "uwsgi": "--uwsgi-socket",
                  "http": "--http-socket"}[self.protocols[0]]
        argv = ["uwsgi_python3", "--master", "--processes",
                str(shape.workers), option, bare(address), "--listen",
                str(backlog()), "--die-on-term", "--need-app",
                "--chmod-socket=666", "--disable-logging", "--buffer-size", "32768",
                "--pythonpath", SHIM, "--module", "compared"]
        if shape.threads > 1:
            argv += ["--threads", str(shape.threads)]
        if setup.virtualenv:
            argv += ["--home", setup.virtualenv]
        return argv


def backlog(most=4096):
    """uWSGI does not start with more than the kernel allows."""
    with open("/proc/sys/net/core/somaxconn") as f:
        return min(most, int(f.read()))


class Gunicorn(Kind):
    protocols = ("http",)
    reload_signal = signal.SIGHUP

    def __init__(self, kind):
        super().__init__("gunicorn " + kind)
        self.kind = kind
        self.threads = kind == "gthread"
        self.processes = not self.threads
        self.keeps = self.threads

    def require(self, setup):
        require_module(setup, "gunicorn", "python3-gunicorn")

    def argv(self, name, setup, app, shape, address):
        argv = [setup.python, "-m", "gunicorn", "--bind", address,
                "--workers", str(shape.workers), "--worker-class", self.kind,
                "--backlog", "4096", "--log-level", "error", "--timeout",
                "120", "--pythonpath", SHIM]
        if self.threads:
            argv += ["--threads", str(shape.threads), "--keep-alive", "60"]
        return [*argv, "compared:application"]


def require_module(setup, module, package):
    done = subprocess.run([setup.python, "-c", "import " + module],
                          capture_output=True, cwd="/")
    if done.returncode != 0:
        raise Missing("%s has no module %s (%s)" % (setup.python, module,
                                                    package))


class ModWsgi(Kind):
    protocols = ("http",)
    sockets = ("tcp",)
    itself = True
    reload_signal = signal.SIGUSR1

    EMBEDDED_THREADS = 25

    def __init__(self, kind):
        super().__init__("mod_wsgi " + kind)
        self.kind = kind
        self.threads = True
        self.processes = kind == "daemon"

    def require(self, setup):
        frontends.apache_program()
        frontends.load_module("wsgi")

    def script(self, setup):
        return ["LoadModule wsgi_module %s/mod_wsgi.so" % frontends.MODULES,
                "WSGISocketPrefix %s/wsgi" % setup.folder,
                'WSGIScriptAlias / "%s/compared.py"' % SHIM]

    def argv(self, name, setup, app, shape, address):
        if self.kind == "daemon":
            text = frontends.apache_config(setup, name, ())
            more = " user=www-data" if frontends.ROOT else ""
            if setup.virtualenv:
                more += " python-home=" + setup.virtualenv
            text += self.script(setup) + [
                "WSGIDaemonProcess app processes=%d threads=%d "
                "listen-backlog=4096%s" % (shape.workers, shape.threads,
                                           more),
                "WSGIProcessGroup app",
                "WSGIApplicationGroup %{GLOBAL}"]
        else:
            text = frontends.apache_config(
                setup, name, (), processes=shape.workers,
                threads=max(shape.threads, 2))
            text += self.script(setup) + [
                "WSGIApplicationGroup %{GLOBAL}"]
            if setup.virtualenv:
                text.append("WSGIPythonHome " + setup.virtualenv)
        text.append("Listen " + address)
        path = setup.write(name + ".conf", "\n".join(text) + "\n")
        return frontends.apache_argv(setup, path)


class Flup(Kind):
    keeps = True
    pins = True
    reload_signal = None

    def __init__(self, protocol, kind):
        super().__init__("flup %s %s" % (
            {"fcgi": "fastcgi"}.get(protocol, protocol), kind))
        self.protocols = (protocol,)
        self.kind = kind
        self.processes = kind == "processes"
        self.threads = kind == "threads"
        self.keeps = protocol == "fcgi"

    def require(self, setup):
        require_module(setup, "flup.server." + self.protocols[0],
                       "flup-py3 from PyPI")

    def label(self, shape):
        return "%s %d" % (self.name, shape.workers * shape.threads)

    def argv(self, name, setup, app, shape, address):
        return [setup.python, os.path.join(PEER_PROGRAMS, "flup_server.py"),
                self.protocols[0], self.kind,
                str(shape.workers * shape.threads), address]


class PhpFpm(Kind):
    """Not the same application, but what the same job costs in PHP."""
    pins = True
    hello_only = True
    fronts = ("none", "nginx", "nginx-kept")
    reload_signal = signal.SIGUSR2
    script = os.path.join(WORKLOADS, "hello.php")

    def program(self):
        found = [p for pattern in ("/usr/sbin/php-fpm*",
                                   "/usr/local/sbin/php-fpm*")
                 for p in glob.glob(pattern)]
        return sorted(found)[-1] if found else shutil.which("php-fpm")

    def require(self, setup):
        if self.program() is None:
            raise Missing("php-fpm is not installed (php-fpm)")

    def argv(self, name, setup, app, shape, address):
        user = ["user = www-data"] if frontends.ROOT else []
        path = setup.write(name + ".conf", "\n".join([
            "[global]", "error_log = /dev/stderr", "daemonize = no",
            "pid = " + setup.path(name + ".pid"), "[hello]", *user,
            "listen = " + bare(address), "listen.backlog = 4096",
            "listen.mode = 0666", "pm = static",
            "pm.max_children = %d" % shape.workers]) + "\n")
        argv = [self.program(), "-n", "-F", "-y", path]
        return argv + (["-R"] if frontends.ROOT else [])


class LibfcgiC(Kind):
    """What a FastCGI program costs without Python."""
    sockets = ("unix",)
    pins = True
    hello_only = True

    def argv(self, name, setup, app, shape, address):
        return [setup.libfcgi, bare(address), str(shape.workers)]


FOREBAY = Forebay()
PEERS = {
    "uwsgi-fastcgi": Uwsgi("fcgi"), "uwsgi-scgi": Uwsgi("scgi"),
    "uwsgi-uwsgi": Uwsgi("uwsgi"), "uwsgi-http": Uwsgi("http"),
    "mod_wsgi-embedded": ModWsgi("embedded"),
    "mod_wsgi-daemon": ModWsgi("daemon"),
    "gunicorn-sync": Gunicorn("sync"), "gunicorn-gthread":
    Gunicorn("gthread"),
    "flup-fcgi-threads": Flup("fcgi", "threads"),
    "flup-fcgi-processes": Flup("fcgi", "processes"),
    "flup-scgi-threads": Flup("scgi", "threads"),
    "php-fpm": PhpFpm("php-fpm"),
    "libfcgi-c": LibfcgiC("C and libfcgi"),
    "forebay-libfcgi": ForebayLibfcgi(),
}
# Without a server of ours: what the front end costs alone.
FRONT_ALONE = "front-alone"
USUAL = ("uwsgi-fastcgi", "mod_wsgi-daemon", "gunicorn-sync",
         "gunicorn-gthread", FRONT_ALONE)
