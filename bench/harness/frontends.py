# SPDX-License-Identifier: MIT
"""Web servers in front of what is measured. One process group of each kind
stands in front of all servers; each has an address of its own there, so that
one path at a time is loaded."""
import os

from .servers import Failed, Missing, Server, find, free_port

MODULES = "/usr/lib/apache2/modules"
ROOT = os.geteuid() == 0


class Backend:
    """What a front end passes requests to. protocol: "fcgi", "scgi", "uwsgi",
    "http"; "file": address is a file that it sends by itself; "bin-path":
    address is a command that lighttpd starts, once."""

    def __init__(self, address, protocol="fcgi", kept=False, script=None):
        self.address = address      # "unix:/path" or "host:port"
        self.protocol = protocol
        self.kept = kept            # connections to it are kept
        self.script = script        # SCRIPT_FILENAME, for PHP

    @property
    def path(self):
        """Of the unix socket, or None."""
        return self.address[5:] if self.address.startswith("unix:") else None


# Debian's fastcgi_params, with the path in PATH_INFO.
CGI_PARAMS = (
    ("QUERY_STRING", "$query_string"),
    ("REQUEST_METHOD", "$request_method"),
    ("CONTENT_TYPE", "$content_type"),
    ("CONTENT_LENGTH", "$content_length"),
    ("SCRIPT_NAME", '""'),
    ("PATH_INFO", "$fastcgi_script_name"),
    ("REQUEST_URI", "$request_uri"),
    ("DOCUMENT_URI", "$document_uri"),
    ("DOCUMENT_ROOT", "$document_root"),
    ("SERVER_PROTOCOL", "$server_protocol"),
    ("REQUEST_SCHEME", "$scheme"),
    ("GATEWAY_INTERFACE", "CGI/1.1"),
    ("SERVER_SOFTWARE", "nginx/$nginx_version"),
    ("REMOTE_ADDR", "$remote_addr"),
    ("REMOTE_PORT", "$remote_port"),
    ("SERVER_ADDR", "$server_addr"),
    ("SERVER_PORT", "$server_port"),
    ("SERVER_NAME", "$server_name"),
    ("REDIRECT_STATUS", "200"),
)


def nginx_params(module):
    """Of FastCGI, SCGI and uwsgi alike. In SCGI, CONTENT_LENGTH is the first
    one, and there once: nginx sends it by itself."""
    # $fastcgi_script_name is the decoded path, whatever the module.
    lines = ["%s_param %s %s;" % (module, name, value)
             for name, value in CGI_PARAMS
             if module != "scgi" or name != "CONTENT_LENGTH"]
    if module == "scgi":
        lines.append("scgi_param SCGI 1;")
    return " ".join(lines)


def nginx_location(backend, number):
    if backend.protocol == "file":
        return "location = / { root %s; try_files /%s =404; }" % (
            os.path.dirname(backend.address),
            os.path.basename(backend.address))
    if backend.protocol == "http":
        return ("location / { proxy_pass http://b%d; proxy_http_version 1.1; "
                'proxy_set_header Connection ""; '
                "proxy_set_header Host $http_host; }" % number)
    module = {"fcgi": "fastcgi"}.get(backend.protocol, backend.protocol)
    words = [nginx_params(module), "%s_pass b%d;" % (module, number),
             "%s_read_timeout 120s;" % module]
    if module == "fastcgi":
        words.append("fastcgi_keep_conn %s;" % ("on" if backend.kept
                                                else "off"))
        if backend.script:
            words.append("fastcgi_param SCRIPT_FILENAME %s;"
                         % backend.script)
    return "location / { %s }" % " ".join(words)


def nginx(name, setup, backends):
    """backends: {label: Backend}. The address of each is sockets[label]; what
    is in the folder of the run can be had by X-Accel-Redirect."""
    program = find("nginx", "nginx-light")
    text = ["user root;" if ROOT else "",
            "worker_processes 2; worker_rlimit_nofile 16384;",
            "pid %s.pid; error_log stderr;" % name,
            "events { worker_connections 8192; }", "http {",
            "access_log off; sendfile on; keepalive_requests 1000000000;",
            "client_max_body_size 4g; client_body_buffer_size 128k;",
            "types { } default_type application/octet-stream;"]
    for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"):
        text.append("%s_temp_path %s/%s-%s;" % (kind, setup.folder, name,
                                                kind))
    sockets = {}
    for number, (label, backend) in enumerate(backends.items()):
        port = free_port()
        sockets[label] = "127.0.0.1:%d" % port
        if backend.protocol != "file":
            text.append("upstream b%d { server %s; %s }" % (
                number, backend.address,
                "keepalive 64;" if backend.kept else ""))
        text.append(
            "server { listen 127.0.0.1:%d backlog=4096; "
            "location /internal/ { internal; alias %s/; } %s }" % (
                port, setup.folder, nginx_location(backend, number)))
    text.append("}")
    path = setup.write(name + ".conf", "\n".join(text))
    return Server(name, [program, "-p", setup.folder, "-c", path,
                         "-g", "daemon off;"], sockets, setup.folder)


LIGHTTPD_MODULES = {"fcgi": "fastcgi", "scgi": "scgi", "uwsgi": "scgi",
                    "http": "proxy"}


def lighttpd_backend(backend, socket):
    """socket: a path for what it starts itself."""
    if backend.protocol == "bin-path":
        return ('fastcgi.server = ( "/" => (( "bin-path" => "%s", '
                '"socket" => "%s", "max-procs" => 1, "check-local" => '
                '"disable", "fix-root-scriptname" => "enable" )) )' % (
                    backend.address, socket))
    if backend.protocol == "file":
        return ('server.document-root = "%s" index-file.names = ( "%s" ) '
                'mimetype.assign = ( "" => "application/octet-stream" )' % (
                    os.path.dirname(backend.address),
                    os.path.basename(backend.address)))
    module = LIGHTTPD_MODULES[backend.protocol]
    if backend.path:
        where = '"socket" => "%s"' % backend.path
    else:
        where = '"host" => "%s", "port" => %s' % tuple(
            backend.address.rsplit(":", 1))
    more = ""
    if module != "proxy":
        more = (', "check-local" => "disable", '
                '"fix-root-scriptname" => "enable", '
                '"x-sendfile" => "enable"')
    first = 'scgi.protocol = "uwsgi" ' if backend.protocol == "uwsgi" else ""
    return '%s%s.server = ( "%s" => (( %s%s )) )' % (
        first, module, "" if module == "proxy" else "/", where, more)


def lighttpd(name, setup, backends):
    """As nginx(); lighttpd keeps no connections to what is behind it."""
    program = find("lighttpd", "lighttpd")
    sockets = {}
    text = ['server.modules = ( "mod_fastcgi", "mod_scgi", "mod_proxy" )',
            'server.document-root = "%s"' % setup.folder,
            'server.bind = "127.0.0.1"', "server.port = %d" % free_port(),
            "server.max-fds = 16384", "server.max-connections = 8192",
            "server.listen-backlog = 4096",
            "server.max-keep-alive-requests = 65535",
            'server.upload-dirs = ( "%s" )' % setup.folder]
    for label, backend in backends.items():
        port = free_port()
        sockets[label] = "127.0.0.1:%d" % port
        text.append('$SERVER["socket"] == "127.0.0.1:%d" { %s }' % (
            port, lighttpd_backend(backend, setup.path(
                "%s-%d.sock" % (name, port)))))
    path = setup.write(name + ".conf", "\n".join(text) + "\n")
    return Server(name, [program, "-D", "-f", path], sockets, setup.folder)


APACHE_MODULES = {"fcgi": ("proxy", "proxy_fcgi"),
                  "scgi": ("proxy", "proxy_scgi"),
                  "uwsgi": ("proxy", "proxy_uwsgi"),
                  "http": ("proxy", "proxy_http"), "file": ()}


def load_module(name):
    path = os.path.join(MODULES, "mod_%s.so" % name)
    if not os.path.exists(path):
        raise Missing("mod_%s of Apache is not installed" % name)
    return "LoadModule %s_module %s" % (name, path)


def apache_config(setup, name, modules, processes=2, threads=128):
    """The beginning that every Apache of a comparison has."""
    setup.folder_for(name)
    always = ("mpm_event", "authz_core", "alias", "env", "mime", "dir")
    text = ['ServerRoot "%s"' % setup.folder, "ServerName localhost"]
    text += [load_module(m) for m in dict.fromkeys((*always, *modules))]
    if ROOT:
        text += ["User www-data", "Group www-data"]
    return text + [
        'PidFile "%s/%s.pid"' % (setup.folder, name),
        'DefaultRuntimeDir "%s/%s"' % (setup.folder, name),
        'Mutex "file:%s/%s" default' % (setup.folder, name),
        "ErrorLog /dev/stderr", "LogLevel warn", "ListenBacklog 4096",
        "StartServers %d" % processes, "ServerLimit %d" % processes,
        "ThreadLimit %d" % max(threads, 64), "ThreadsPerChild %d" % threads,
        "MaxRequestWorkers %d" % (processes * threads),
        "MinSpareThreads 1", "MaxSpareThreads %d" % (processes * threads),
        "AsyncRequestWorkerFactor 16",
        "MaxKeepAliveRequests 0", "TypesConfig /dev/null",
        '<Directory "/">', "AllowOverride None", "Require all granted",
        "</Directory>"]


def apache_host(backend):
    if backend.protocol == "file":
        folder, file = os.path.split(backend.address)
        return 'DocumentRoot "%s"\nDirectoryIndex "%s"' % (folder, file)
    if backend.path:
        where = "unix:%s|%s://localhost/" % (backend.path, backend.protocol)
    else:
        where = "%s://%s/" % (backend.protocol, backend.address)
    more = ("enablereuse=on max=64" if backend.kept
            else "disablereuse=on")
    lines = ['ProxyPass "/" "%s" timeout=120 %s' % (where, more),
             "ProxyFCGIBackendType GENERIC"]
    if backend.protocol == "scgi":
        lines.append("ProxySCGIInternalRedirect Off")
    return "\n".join(line for line in lines if "FCGI" not in line or
                     backend.protocol == "fcgi")


def apache_program():
    return find("apache2", "apache2")


def apache_argv(setup, path):
    return [apache_program(), "-d", setup.folder, "-f", path, "-DFOREGROUND"]


def apache(name, setup, backends):
    """As nginx(). The event MPM, two processes of 128 threads."""
    apache_program()
    modules = [m for b in backends.values()
               for m in APACHE_MODULES[b.protocol]]
    text, sockets = apache_config(setup, name, modules), {}
    for label, backend in backends.items():
        port = free_port()
        sockets[label] = "127.0.0.1:%d" % port
        text += ["Listen 127.0.0.1:%d" % port,
                 "<VirtualHost 127.0.0.1:%d>" % port, apache_host(backend),
                 "</VirtualHost>"]
    path = setup.write(name + ".conf", "\n".join(text) + "\n")
    return Server(name, apache_argv(setup, path), sockets, setup.folder)


# name: (how it is made, keeps connections to what is behind it). "none" and
# "itself" (a server that is a web server as well) are no front ends.
FRONT_ENDS = {
    "nginx": (nginx, False),
    "nginx-kept": (nginx, True),
    "lighttpd": (lighttpd, False),
    "apache": (apache, False),
    "apache-kept": (apache, True),
}


def make(kind, setup, backends):
    maker, kept = FRONT_ENDS[kind]
    for backend in backends.values():
        if backend.kept != kept:
            raise Failed("%s: kept connections are a matter of its kind"
                         % kind)
    return maker(kind, setup, backends)
