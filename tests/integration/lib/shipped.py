# SPDX-License-Identifier: MIT
"""Real front ends with the files of conf/frontends, each exactly as a user
copies it: what stands in the table of docs/frontends.md as "to be changed" is
changed, nothing else. Around it is what a distribution has in its main
configuration file."""

import getpass
import glob
import os
import re

from . import frontends as fe
from . import server as srv

FILES = os.path.join(srv.TOP, "conf", "frontends")
DOC = os.path.join(srv.TOP, "docs", "frontends.md")

# What stands in the files for a user's own: docs/frontends.md.
CHANGES = ("/run/forebay/site.sock", "/run/forebay/guard.sock", "9000",
           "10.0.0.11", "10.0.0.12", "8080", "/srv/site", "/run/lighttpd")

NGINX = """daemon off;
%(user)s
worker_processes 1;
pid %(run)s/nginx.pid;
error_log %(run)s/error.log info;
events { worker_connections 1024; }
http {
    access_log off;
    client_body_temp_path %(run)s/body;
    fastcgi_temp_path %(run)s/fastcgi;
    scgi_temp_path %(run)s/scgi;
    proxy_temp_path %(run)s/proxy;
    uwsgi_temp_path %(run)s/uwsgi;
    include %(run)s/site.conf;
}
"""

LIGHTTPD = """server.modules = ()
server.document-root = "%(root)s"
server.port = %(port)d
server.errorlog = "%(run)s/error.log"
server.breakagelog = "%(run)s/stderr.log"
server.pid-file = "%(run)s/lighttpd.pid"
server.upload-dirs = ( "%(run)s" )
mimetype.assign = ( ".txt" => "text/plain" )
include "%(run)s/site.conf"
"""

APACHE = """ServerRoot "%(run)s"
ServerName localhost
%(modules)s
User %(user)s
Group %(user)s
PidFile "%(run)s/apache.pid"
DefaultRuntimeDir "%(run)s"
Mutex "file:%(run)s" default
ErrorLog "%(run)s/error.log"
LogLevel info
StartServers 1
ServerLimit 2
ThreadsPerChild 32
MaxRequestWorkers 64
TypesConfig /dev/null
<Directory "/">
  AllowOverride None
  Require all denied
</Directory>
%(more)s
Include "%(run)s/site.conf"
"""

HAPROXY = """global
  maxconn 1024
"""

CADDY = """{
	admin off
	auto_https off
	storage file_system %(run)s/storage
}
import %(run)s/site.conf
"""

H2O = """%(user)s
pid-file: %(run)s/h2o.pid
error-log: %(run)s/error.log
num-threads: 1
"""


class Shipped(fe.FrontEnd):
    """One running web server with one file of conf/frontends. `backends` are
    the texts of docs/frontends.md that are to be changed, with what is to be
    put there."""

    file = None         # below conf/frontends
    main = ""
    more_of_main = ""   # for a test that wants more of the server
    edits = ()          # (old text, new text) likewise, in the file
    modules = ()        # Apache's
    whole = False       # the whole path in SCRIPT_NAME
    threads = None      # of a worker, instead of processes

    def __init__(self, backends):
        super().__init__(None)
        self.backends = backends
        self.folder = os.path.join(self.run, "site")
        for name in ("", "public", "private"):
            os.mkdir(os.path.join(self.folder, name))

    def changes(self):
        """What the user changes: {text of the file: text of this test}"""
        return dict({"8080": str(self.port), "/srv/site": self.folder,
                     "/run/lighttpd": self.run}, **self.backends)

    def text(self):
        with open(os.path.join(FILES, self.file)) as f:
            text = f.read()
        for old, new in self.edits:
            assert text.count(old) == 1
            text = text.replace(old, new)
        changes = self.changes()
        assert set(changes) <= set(CHANGES)
        pattern = "|".join(re.escape(k) for k in sorted(
            changes, key=len, reverse=True))
        # What looks like a number is one only by itself.
        pattern = r"(?<![0-9])(?:%s)(?![0-9])" % pattern
        return re.sub(pattern, lambda m: changes[m.group()], text)

    def values(self):
        return dict(run=self.run, root=os.path.join(self.folder, "public"),
                    port=self.port, user="")

    def make_config(self):
        with open(os.path.join(self.run, "site.conf"), "w") as f:
            f.write(self.text())
        if self.spawns:
            self.script()
        with open(self.config, "w") as f:
            f.write(self.main % self.values() + self.more_of_main)

    def script(self):
        """/srv/site/app.fcgi, with the first line that the file tells."""
        with open(os.path.join(FILES, self.file)) as f:
            first = re.search(r"^#   (#!.*)$", f.read(), re.MULTILINE).group(1)
        with open(os.path.join(srv.APPS, "frontends", "seen.py")) as f:
            text = f.read()
        path = os.path.join(self.folder, "app.fcgi")
        with open(path, "w") as f:
            f.write(first + "\n" + text)
        os.chmod(path, 0o755)

    def environment(self):
        # "#!/usr/bin/env -S forebay run" finds the one that is tested.
        path = os.pathsep.join([srv.build_dir(), os.environ["PATH"]])
        return dict(super().environment(), PATH=path)


class Nginx(Shipped):
    program = "nginx"
    main = NGINX
    stop_signal = fe.Nginx.stop_signal

    def values(self):
        return dict(super().values(), user="user root;" if fe.ROOT else "")

    def make_config(self):
        super().make_config()
        for path in glob.glob("/etc/nginx/*_params"):
            os.symlink(path, os.path.join(self.run, os.path.basename(path)))

    def command(self):
        return [fe.find("nginx"), "-e", os.path.join(self.run, "output"),
                "-c", self.config]


class Lighttpd(Shipped):
    program = "lighttpd"
    main = LIGHTTPD
    command = fe.Lighttpd.command


class Apache(Shipped):
    program = "apache2"
    main = APACHE
    modules = ("proxy", "proxy_fcgi")
    always = ("mpm_event", "authz_core", "alias", "env", "mime", "dir")
    more = ""
    why_not = fe.Apache.__dict__["why_not"]
    command = fe.Apache.command

    def values(self):
        lines = ["LoadModule %s_module %s" % (n, fe.apache_module(n))
                 for n in self.always + self.modules]
        return dict(super().values(), modules="\n".join(lines),
                    more=self.more % dict(run=self.run),
                    user="www-data" if fe.ROOT else getpass.getuser())


class ApacheFcgid(Apache):
    modules = ("fcgid",)
    more = """FcgidIPCDir "%(run)s/fcgidsock"
FcgidProcessTableFile "%(run)s/fcgid_shm"
FcgidInitialEnv FOREBAY_TEST_ID %%(id)s
FcgidInitialEnv ASAN_OPTIONS %%(asan)s
"""

    def values(self):
        found = super().values()
        found["more"] = found["more"] % dict(
            id=self.id.partition("=")[2], asan=os.environ["ASAN_OPTIONS"])
        return found


class Haproxy(Shipped):
    program = "haproxy"
    main = HAPROXY

    def command(self):
        return [fe.find("haproxy"), "-db", "-f", self.config,
                "-f", os.path.join(self.run, "site.conf")]


class Caddy(Shipped):
    program = "caddy"
    main = CADDY

    def command(self):
        return ["env", "HOME=" + self.run, fe.find("caddy"), "run",
                "--config", self.config, "--adapter", "caddyfile"]


class H2o(Shipped):
    program = "h2o"
    main = H2O

    def values(self):
        return dict(super().values(), user="user: root" if fe.ROOT else "")

    def make_config(self):
        super().make_config()
        with open(self.config, "a") as f:
            f.write(self.text())

    def command(self):
        return [fe.find("h2o"), "-m", "worker", "-c", self.config]


def way(base, file, group, **more):
    """One file of conf/frontends. group: its column in the table of expected
    values."""
    name = re.sub(r"\W+", "_", file)
    return type(name, (base,), dict(more, file=file, group=group))


WAYS = [
    way(Nginx, "nginx/fastcgi.conf", "nginx"),
    way(Nginx, "nginx/fastcgi-tcp.conf", "nginx"),
    way(Nginx, "nginx/fastcgi-prefix.conf", "nginx", mount="/app"),
    way(Nginx, "nginx/fastcgi-kept.conf", "nginx", kept=True),
    way(Nginx, "nginx/fastcgi-streaming.conf", "nginx-streaming",
        streams=True),
    way(Nginx, "nginx/scgi.conf", "nginx-scgi"),
    way(Nginx, "nginx/scgi-prefix.conf", "nginx-scgi", mount="/app"),
    way(Nginx, "nginx/accel-redirect.conf", "nginx"),
    way(Nginx, "nginx/uwsgi.conf", "nginx-uwsgi"),
    way(Nginx, "nginx/uwsgi-prefix.conf", "nginx-uwsgi", mount="/app"),
    way(Lighttpd, "lighttpd/fastcgi.conf", "lighttpd"),
    way(Lighttpd, "lighttpd/fastcgi-tcp.conf", "lighttpd"),
    way(Lighttpd, "lighttpd/fastcgi-prefix.conf", "lighttpd", mount="/app"),
    way(Lighttpd, "lighttpd/fastcgi-streaming.conf", "lighttpd-streaming",
        streams=True),
    way(Lighttpd, "lighttpd/spawn.conf", "lighttpd", spawns=True),
    way(Lighttpd, "lighttpd/scgi.conf", "lighttpd"),
    way(Lighttpd, "lighttpd/scgi-prefix.conf", "lighttpd", mount="/app"),
    way(Lighttpd, "lighttpd/x-sendfile.conf", "lighttpd"),
    way(Apache, "apache/proxy-fcgi.conf", "apache", whole=True),
    way(Apache, "apache/proxy-fcgi-tcp.conf", "apache", whole=True),
    way(Apache, "apache/proxy-fcgi-prefix.conf", "apache", mount="/app",
        whole=True),
    way(Apache, "apache/proxy-fcgi-streaming.conf", "apache", streams=True,
        whole=True),
    way(Apache, "apache/handler.conf", "apache"),
    way(Apache, "apache/handler-tcp.conf", "apache"),
    way(Apache, "apache/handler-prefix.conf", "apache", mount="/app"),
    way(Apache, "apache/proxy-scgi.conf", "apache-scgi",
        modules=("proxy", "proxy_scgi"), whole=True),
    way(Apache, "apache/proxy-scgi-prefix.conf", "apache-scgi",
        modules=("proxy", "proxy_scgi"), mount="/app", whole=True),
    way(ApacheFcgid, "apache/fcgid.conf", "apache-fcgid", spawns=True),
    way(ApacheFcgid, "apache/fcgid-prefix.conf", "apache-fcgid", spawns=True,
        mount="/app"),
    way(Apache, "apache/x-sendfile.conf", "apache",
        modules=("proxy", "proxy_fcgi", "xsendfile"), whole=True),
    way(Haproxy, "haproxy/fastcgi.cfg", "haproxy"),
    way(Haproxy, "haproxy/fastcgi-tcp.cfg", "haproxy"),
    way(Haproxy, "haproxy/fastcgi-prefix.cfg", "haproxy", mount="/app"),
    way(Haproxy, "haproxy/multiplexed.cfg", "haproxy", threads=8),
    way(Caddy, "caddy/Caddyfile", "caddy"),
    way(Caddy, "caddy/Caddyfile-tcp", "caddy"),
    way(Caddy, "caddy/Caddyfile-prefix", "caddy", mount="/app"),
    way(H2o, "h2o/h2o.conf", "h2o"),
    way(H2o, "h2o/h2o-tcp.conf", "h2o"),
    way(H2o, "h2o/h2o-prefix.conf", "h2o-prefix", mount="/app"),
    way(H2o, "h2o/h2o-spawn.conf", "h2o", spawns=True),
]
# Apache's ProxyPass has the whole path in SCRIPT_NAME, which is worth a line
# of the log; these come last, since a pool writes it once.
WAYS.sort(key=lambda w: w.whole)
# In front of several machines (test_machines.py).
MACHINES = [
    way(Nginx, "nginx/machines.conf", None),
    way(Haproxy, "haproxy/machines.cfg", None),
    way(Apache, "apache/machines.conf", None,
        modules=("slotmem_shm", "proxy", "proxy_fcgi", "proxy_balancer",
                 "lbmethod_bybusyness")),
]
BY_FILE = {w.file: w for w in WAYS}


# As kinds of test_frontends.py: the address decides which file it is.

class _AnyAddress:
    def __init__(self, address, **values):
        self.file = self.files[not isinstance(address, str)]
        super().__init__({"/run/forebay/site.sock": address}
                         if isinstance(address, str)
                         else {"9000": str(address[1])})
        assert not values


class AnyCaddy(_AnyAddress, Caddy):
    files = ("caddy/Caddyfile", "caddy/Caddyfile-tcp")
    streams = True
    raw_slashes = True


class AnyH2o(_AnyAddress, H2o):
    """Connections are kept over TCP only (see the file)."""
    files = ("h2o/h2o.conf", "h2o/h2o-tcp.conf")
    streams = True
    raw_slashes = True


ANY = [AnyCaddy, AnyH2o]
