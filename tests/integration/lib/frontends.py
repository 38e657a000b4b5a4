# SPDX-License-Identifier: MIT
"""Real front ends, each started for one test in a folder of its own and with
a configuration of its own."""

import http.client
import os
import re
import shutil
import signal
import socket
import subprocess
import uuid

from . import proc
from .server import free_port, program, temp_dir
from .wait import TIMEOUT, wait_for

HERE = os.path.dirname(os.path.abspath(__file__))
TEMPLATES = os.path.join(os.path.dirname(HERE), "frontends")
SBIN = os.pathsep.join([os.environ["PATH"], "/usr/sbin", "/sbin"])
MODULES = "/usr/lib/apache2/modules"

ROOT = os.geteuid() == 0


def find(name):
    return shutil.which(name, path=SBIN)


def apache_module(name):
    path = os.path.join(MODULES, "mod_%s.so" % name)
    return path if os.path.exists(path) else None


def host_port(address):
    return ("[%s]:%d" if ":" in address[0] else "%s:%d") % address


class FrontEnd:
    """One running web server. `why_not` tells what is missing."""

    program = None
    template = None
    stop_signal = signal.SIGTERM
    values = {}

    # What tests have to know.
    speaks = "fcgi"
    kept = False            # keeps connections to the application server
    chunked = True          # takes uploads without Content-Length
    streams = False         # passes on each piece of an answer at once
    cuts = False            # a broken-off answer without length is visible
    raw_slashes = False     # keeps // in the path
    spawns = False          # starts the application server itself
    mount = ""              # where the application is

    host = "127.0.0.1"      # where it listens
    prefix = ()             # words in front of the command

    @classmethod
    def why_not(cls):
        if find(cls.program) is None:
            return cls.program + " is not installed"
        return None

    def __init__(self, address, **values):
        self.run = temp_dir()
        self.root = os.path.join(self.run, "root")
        os.mkdir(self.root)
        for folder in (self.run, self.root):
            os.chmod(folder, 0o755)
        self.port = free_port()
        self.id = "FOREBAY_TEST_ID=" + uuid.uuid4().hex
        self.address = address
        self.process = None
        self.extra = values
        self.config = os.path.join(self.run, "config")

    def settings(self):
        return {}

    def command(self):
        raise NotImplementedError

    def make_config(self):
        values = dict(RUN=self.run, ROOT=self.root, PORT=self.port, EXTRA="",
                      OPTIONS="", ID=self.id.partition("=")[2],
                      ASAN_OPTIONS=os.environ["ASAN_OPTIONS"])
        values.update(self.settings())
        values.update(self.extra)
        with open(os.path.join(TEMPLATES, self.template)) as f:
            text = f.read()
        for _ in range(2):      # values may hold placeholders
            text = re.sub(r"@([A-Z_]+)@",
                          lambda m: str(values.get(m.group(1), m.group(0))),
                          text)
        with open(self.config, "w") as f:
            f.write(text)

    def environment(self):
        name, _, value = self.id.partition("=")
        return dict(os.environ, **{name: value})

    def connects(self):
        """Does it listen?"""
        with socket.socket() as s:
            return s.connect_ex((self.host, self.port)) == 0

    def start(self):
        self.make_config()
        with open(os.path.join(self.run, "output"), "wb") as out:
            self.process = subprocess.Popen(
                [*self.prefix, *self.command()], cwd=self.run,
                stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                env=self.environment())

        def connects():
            if self.process.poll() is not None:
                raise AssertionError("%s ended:\n%s" % (
                    self.command(), self.log()))
            return self.connects()
        try:
            wait_for(connects, lambda: "%s listens\n%s" % (
                self.program, self.log()))
        except BaseException:
            self.close()
            raise
        return self

    def log(self):
        text = ""
        for name in ("output", "error.log", "stderr.log"):
            try:
                with open(os.path.join(self.run, name), errors="replace") as f:
                    text += "--- %s\n%s" % (name, f.read()[-8000:])
            except FileNotFoundError:
                pass
        return text

    def strays(self):
        return [p for p in proc.with_environ(self.id) if proc.alive(p)]

    def stop(self):
        """End it; nothing that it started may stay."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(self.stop_signal)
            try:
                self.process.wait(TIMEOUT)
            except subprocess.TimeoutExpired:
                raise AssertionError("%s does not end" % self.program) \
                    from None
        wait_for(lambda: not self.strays(), lambda: "no process left: %r" % [
            (p, proc.cmdline(p)) for p in self.strays()], 30)

    def close(self):
        for pid in self.strays():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        if self.process is not None:
            self.process.wait()
        wait_for(lambda: not self.strays(), "the end of killed processes")
        shutil.rmtree(self.run, ignore_errors=True)

    # Requests

    def connect(self, timeout=None):
        return http.client.HTTPConnection(self.host, self.port,
                                          timeout=timeout or 4 * TIMEOUT)

    def request(self, path, method="GET", body=None, headers=()):
        """(status, headers of http.client, body)"""
        connection = self.connect()
        try:
            connection.request(method, path, body, dict(headers))
            response = connection.getresponse()
            return response.status, response.headers, response.read()
        finally:
            connection.close()


class Nginx(FrontEnd):
    program = "nginx"
    template = "nginx.conf"
    stop_signal = signal.SIGQUIT
    module = "fastcgi"
    more = ""
    raw_slashes = True

    def settings(self):
        return {"USER": "user root;" if ROOT else "", "KEEPALIVE": "",
                "BACKEND": ("unix:" + self.address
                            if isinstance(self.address, str)
                            else host_port(self.address)),
                "PASS": "include /etc/nginx/%s_params; %s_read_timeout 120s;"
                        " %s %s_pass app;" % (self.module, self.module,
                                              self.more, self.module)}

    def command(self):
        return [find("nginx"), "-e", os.path.join(self.run, "output"),
                "-c", self.config]


class NginxKept(Nginx):
    more = "fastcgi_keep_conn on;"
    kept = True
    cuts = True             # only END_REQUEST ends an answer then

    def settings(self):
        return dict(super().settings(), KEEPALIVE="keepalive 8;")


class NginxUnbuffered(Nginx):
    more = "fastcgi_request_buffering off; fastcgi_buffering off;"
    streams = True


class NginxScgi(Nginx):
    module = "scgi"
    speaks = "scgi"


class Lighttpd(FrontEnd):
    program = "lighttpd"
    template = "lighttpd.conf"
    module = "fastcgi"

    def settings(self):
        if isinstance(self.address, str):
            backend = '"socket" => "%s"' % self.address
        else:
            backend = '"host" => "%s", "port" => %d' % self.address
        return {"MODULE": self.module, "PREFIX": "/", "BACKEND": backend}

    def command(self):
        return [find("lighttpd"), "-D", "-f", self.config]


class LighttpdScgi(Lighttpd):
    module = "scgi"
    speaks = "scgi"


class LighttpdStreaming(Lighttpd):
    streams = True
    chunked = False

    def settings(self):
        return dict(super().settings(),
                    EXTRA="server.stream-request-body = 1\n"
                          "server.stream-response-body = 1")


class LighttpdSpawn(Lighttpd):
    """bin-path: lighttpd starts `forebay run FILE`; address is the file."""
    spawns = True
    procs = 1

    def settings(self):
        socket_ = os.path.join(self.run, "spawned")
        return {"MODULE": self.module, "PREFIX": "/", "BACKEND":
                '"bin-path" => "%s run %s", "socket" => "%s", '
                '"max-procs" => %d' % (program(), self.address, socket_,
                                       self.procs)}


class Apache(FrontEnd):
    program = "apache2"
    template = "apache.conf"
    modules = ("proxy", "proxy_fcgi")
    scheme = "fcgi"
    cuts = True
    more = ""

    @classmethod
    def why_not(cls):
        if find("apache2") is None:
            return "apache2 is not installed"
        for name in cls.modules:
            if apache_module(name) is None:
                return "mod_%s is not installed" % name
        return None

    def backend(self):
        if isinstance(self.address, str):
            return "unix:%s|%s://localhost/" % (self.address, self.scheme)
        return "%s://%s/" % (self.scheme, host_port(self.address))

    def proxy(self):
        return 'ProxyPass "/" "%s" timeout=120 %s' % (self.backend(),
                                                      self.more)

    def settings(self):
        lines = ["LoadModule %s_module %s" % (n, apache_module(n))
                 for n in self.modules]
        return {"MODULES": "\n".join(lines), "PASS": self.proxy(),
                "APACHE_USER": "www-data" if ROOT else "#%d" % os.geteuid(),
                "APACHE_GROUP": "www-data" if ROOT else "#%d" % os.getegid()}

    def command(self):
        return [find("apache2"), "-d", self.run, "-f", self.config,
                "-DFOREGROUND"]


class ApacheReuse(Apache):
    more = "enablereuse=on max=16"
    kept = True


class ApacheFlush(Apache):
    more = "flushpackets=on"
    streams = True


class ApacheHandler(Apache):
    """SetHandler in a Location: the first segment becomes SCRIPT_NAME."""

    def proxy(self):
        # GET / is turned into /index.html by the front end itself.
        return ('<Location "/">\n  SetHandler "proxy:%s"\n  CGIPassAuth On\n'
                '</Location>\nProxyFCGIBackendType GENERIC\nProxyTimeout 120'
                % self.backend())


class ApacheScgi(Apache):
    modules = ("proxy", "proxy_scgi")
    scheme = "scgi"
    speaks = "scgi"
    chunked = False
    cuts = False

    def proxy(self):
        return super().proxy() + "\nProxySCGIInternalRedirect Off"


class ApacheFcgid(Apache):
    """mod_fcgid starts `forebay run FILE`, one request at a time in each;
    address is the file."""
    modules = ("fcgid",)
    spawns = True
    chunked = True
    cuts = False

    def proxy(self):
        folder = os.path.join(self.run, "bin")
        os.mkdir(folder)
        path = os.path.join(folder, "app.fcgi")
        with open(path, "w") as f:
            f.write("#!/bin/sh\nexec %s run %s\n" % (program(), self.address))
        os.chmod(path, 0o755)
        return """FcgidIPCDir "@RUN@/fcgidsock"
FcgidProcessTableFile "@RUN@/fcgid_shm"
FcgidMaxRequestLen 4294967296
FcgidIOTimeout 120
FcgidMaxProcesses 4
FcgidInitialEnv FOREBAY_TEST_ID @ID@
FcgidInitialEnv ASAN_OPTIONS @ASAN_OPTIONS@
Alias "/" "%s/"
<Directory "%s">
  Options +ExecCGI
  SetHandler fcgid-script
  CGIPassAuth On
</Directory>""" % (path, folder)


class ApacheRewritten(ApacheFcgid):
    """The same by way of a rule in the folder, as .htaccess files have it."""
    modules = ("fcgid", "rewrite")

    def proxy(self):
        return super().proxy().replace("Options +ExecCGI", """\
Options +ExecCGI +FollowSymLinks
  RewriteEngine On
  RewriteCond %{REQUEST_URI} !^/app.fcgi/
  RewriteRule ^(.*)$ /app.fcgi/$1 [E=HTTP_AUTHORIZATION:%{HTTP:Authorization}]
""").replace(
            "  CGIPassAuth On\n", "").replace(
            'Alias "/"', 'Alias "/app.fcgi"').replace(
            'bin/app.fcgi/"', 'bin/app.fcgi"') + '\nDocumentRoot "%s"' % (
                os.path.join(self.run, "bin"))


class ApacheMatch(Apache):
    """ProxyPassMatch instead of ProxyPass."""

    def proxy(self):
        return ('ProxyPassMatch "^/(.*)$" "%s$1" timeout=120'
                % self.backend())


class Haproxy(FrontEnd):
    program = "haproxy"
    template = "haproxy.cfg"
    kept = True
    chunked = False         # answers 400 itself: FastCGI wants a length
    streams = True
    raw_slashes = True
    stop_signal = signal.SIGTERM
    reuse = "http-reuse always"
    options = "option keep-conn"

    def settings(self):
        return {"REUSE": self.reuse, "OPTIONS": self.options, "GLOBAL": "",
                "BACKEND": ("unix@" + self.address
                            if isinstance(self.address, str)
                            else host_port(self.address))}

    def command(self):
        return [find("haproxy"), "-db", "-f", self.config]


class HaproxyAsks(Haproxy):
    """Sends FCGI_GET_VALUES first, and multiplexes where it may."""
    options = "option keep-conn\n  option get-values\n  option mpxs-conns"


CONNECTING = [Nginx, NginxKept, NginxUnbuffered, NginxScgi, Lighttpd,
              LighttpdStreaming, LighttpdScgi, Apache, ApacheReuse,
              ApacheFlush, ApacheHandler, ApacheScgi, Haproxy, HaproxyAsks]
SPAWNING = [LighttpdSpawn, ApacheFcgid]


def cgi_fcgi(address, params, body=b""):
    """One request by libfcgi's own client: its output."""
    where = address if isinstance(address, str) else "%s:%d" % address
    env = {k: v if isinstance(v, str) else v.decode("latin-1")
           for k, v in params.items()}
    found = subprocess.run(
        [find("cgi-fcgi"), "-bind", "-connect", where], input=body,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env,
        timeout=4 * TIMEOUT)
    return found.returncode, found.stdout, found.stderr
