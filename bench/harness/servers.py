# SPDX-License-Identifier: MIT
"""Servers that are measured: each listens on a unix socket of its own."""
import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time

from . import proc

BENCH = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
WORKLOADS = os.path.join(BENCH, "workloads")


class Failed(Exception):
    """A sentence for the person who runs the benchmark."""


class Missing(Failed):
    """A program that is not installed: its rows are left out."""


class Server:
    """A running server. sockets: protocol -> address of --connect."""

    def __init__(self, name, argv, sockets, folder, env=None):
        self.name = name
        self.sockets = sockets
        self.log_path = os.path.join(folder, name + ".log")
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                cwd=folder, env={**os.environ, **(env or {}),
                                 "PYTHONDONTWRITEBYTECODE": "1"})

    def log(self):
        with open(self.log_path, errors="replace") as f:
            return f.read()[-2000:]

    def wait_ready(self, seconds=60):
        """Until each address takes a connection."""
        deadline = time.monotonic() + seconds
        for address in self.sockets.values():
            while not connects(address):
                if self.process.poll() is not None:
                    raise Failed("%s ended with %s:\n%s" % (
                        self.name, self.process.returncode, self.log()))
                if time.monotonic() > deadline:
                    raise Failed("%s does not listen on %s:\n%s" % (
                        self.name, address, self.log()))
                time.sleep(0.02)

    def run_ns(self):
        return proc.tree_run_ns(self.process.pid)

    def pss_kb(self):
        return sum(proc.pss_kb(p) for p in proc.tree(self.process.pid))

    def stop(self):
        ours = proc.tree(self.process.pid)
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(15)
        except subprocess.TimeoutExpired:
            for pid in ours:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self.process.wait()


def connects(address):
    if address.startswith("unix:"):
        s, where = socket.socket(socket.AF_UNIX), address[5:]
    else:
        host, port = address.rsplit(":", 1)
        s, where = socket.socket(), (host, int(port))
    with s:
        try:
            s.connect(where)
            return True
        except OSError:
            return False


def find(program, why):
    found = shutil.which(program)
    if found is None:
        raise Missing("%s is not installed (%s)" % (program, why))
    return found


def forebay(name, setup, app, workers=2, threads=1, options=()):
    path = os.path.join(setup.folder, name + ".sock")
    argv = [setup.forebay, "serve", "--listen", "unix:" + path,
            "--workers", str(workers), "--pythonpath", WORKLOADS]
    if threads > 1:
        argv += ["--mode", "threaded", "--threads", str(threads)]
    argv += [*options, app]
    return Server(name, argv, {"fcgi": "unix:" + path}, setup.folder,
                  setup.env)


def uwsgi(name, setup, app, workers=2, threads=1, options=("--listen",
                                                           "1024")):
    program = find("uwsgi_python3", "uwsgi-core, uwsgi-plugin-python3")
    sockets, argv = {}, [program, "--master", "--processes", str(workers)]
    for protocol, option in (("fcgi", "--fastcgi-socket"),
                             ("scgi", "--scgi-socket")):
        path = os.path.join(setup.folder, "%s.%s" % (name, protocol))
        sockets[protocol] = "unix:" + path
        argv += [option, path]
    if threads > 1:
        argv += ["--threads", str(threads)]
    argv += ["--die-on-term", "--need-app", "--disable-logging",
             "--pythonpath", WORKLOADS, "--module", app, *options]
    return Server(name, argv, sockets, setup.folder, setup.env)


def libfcgi(name, setup, workers=2):
    path = os.path.join(setup.folder, name + ".sock")
    return Server(name, [setup.libfcgi, path, str(workers)],
                  {"fcgi": "unix:" + path}, setup.folder)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


# Debian's fastcgi_params, with the path in PATH_INFO.
NGINX_PARAMS = """
    fastcgi_param QUERY_STRING $query_string;
    fastcgi_param REQUEST_METHOD $request_method;
    fastcgi_param CONTENT_TYPE $content_type;
    fastcgi_param CONTENT_LENGTH $content_length;
    fastcgi_param SCRIPT_NAME "";
    fastcgi_param PATH_INFO $fastcgi_script_name;
    fastcgi_param REQUEST_URI $request_uri;
    fastcgi_param DOCUMENT_URI $document_uri;
    fastcgi_param DOCUMENT_ROOT $document_root;
    fastcgi_param SERVER_PROTOCOL $server_protocol;
    fastcgi_param REQUEST_SCHEME $scheme;
    fastcgi_param GATEWAY_INTERFACE CGI/1.1;
    fastcgi_param SERVER_SOFTWARE nginx/$nginx_version;
    fastcgi_param REMOTE_ADDR $remote_addr;
    fastcgi_param REMOTE_PORT $remote_port;
    fastcgi_param SERVER_ADDR $server_addr;
    fastcgi_param SERVER_PORT $server_port;
    fastcgi_param SERVER_NAME $server_name;
    fastcgi_param REDIRECT_STATUS 200;
"""


def nginx(name, setup, backends):
    """One nginx in front of several servers, {label: (server, kept)}: the
    address of each is sockets[label]."""
    program = find("nginx", "nginx-light")
    text = ["user root;" if os.geteuid() == 0 else "",
            "worker_processes 2; pid %s.pid; error_log stderr;" % name,
            "events { worker_connections 4096; }", "http {",
            "access_log off; sendfile on; keepalive_requests 1000000000;",
            "types { } default_type application/octet-stream;"]
    for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"):
        text.append("%s_temp_path %s/%s-%s;" % (kind, setup.folder, name,
                                                kind))
    text.append(NGINX_PARAMS)
    sockets = {}
    for number, (label, (server, kept)) in enumerate(backends.items()):
        port = free_port()
        sockets[label] = "127.0.0.1:%d" % port
        text.append("upstream b%d { server %s; %s }" % (
            number, server.sockets["fcgi"], "keepalive 64;" if kept else ""))
        text.append(
            "server { listen 127.0.0.1:%d backlog=4096; "
            "location /internal/ { internal; alias %s/; } "
            "location / { fastcgi_pass b%d; fastcgi_keep_conn %s; } }" % (
                port, setup.folder, number, "on" if kept else "off"))
    text.append("}")
    path = os.path.join(setup.folder, name + ".conf")
    with open(path, "w") as f:
        f.write("\n".join(text))
    return Server(name, [program, "-p", setup.folder, "-c", path,
                         "-g", "daemon off;"], sockets, setup.folder)
