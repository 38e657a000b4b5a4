# SPDX-License-Identifier: MIT
"""The line about variables that look misconfigured: once for a pool, with what
is to be changed in that front end; and none about the files of
conf/frontends."""

import os
import re

import pytest

from lib import fcgi
from lib import frontends as fe
from lib import server as srv

APP = os.path.join(srv.APPS, "frontends", "seen.py")
LINE = r"pool main: .* sends SCRIPT_NAME .* docs/frontends\.md"


def ask(serve, front, kind, path, mount="", **values):
    """The line about one request behind a front end."""
    server = serve(APP, mount=mount or None, workers=2)
    web = front(kind, server.address, **values)
    for _ in range(6):
        web.request(path)
    line, = server.log.wait(LINE)
    assert "/x" in line
    # Another request of the same kind, whichever worker has it: nothing new.
    for _ in range(6):
        web.request(path + "/more")
    server.stop()
    assert len(server.log.find(LINE, 0)) == 1
    return line


class NginxLocation(fe.Nginx):
    """A location of one's own in the place of "/"."""

    def settings(self):
        found = super().settings()
        return dict(found, PASS="return 404;", EXTRA=self.extra["LOCATION"]
                    .replace("@BODY@", found["PASS"]))


class NginxScgiLocation(fe.NginxScgi):
    settings = NginxLocation.settings


class ApacheWith(fe.Apache):
    modules = ("proxy", "proxy_fcgi", "rewrite", "setenvif")

    def proxy(self):
        return self.extra["PASSES"].replace("@BACKEND@", self.backend())


class HaproxyRewrites(fe.Haproxy):
    options = "option keep-conn"
    reuse = "http-request set-path /new%[path]"


def info(line, *words):
    assert " INFO " in line
    for word in words:
        assert word in line, line


def warning(line, *words):
    assert " WARN " in line
    for word in words:
        assert word in line, line


# Harmless: the path is right all the same

def test_nginx_stock_parameters(serve, front):
    info(ask(serve, front, fe.Nginx, "/x"), "nginx/", 'SCRIPT_NAME "/x"',
         "PATH_INFO (absent)", "fastcgi_split_path_info ^()(.*)$;",
         "fastcgi_param PATH_INFO $fastcgi_path_info")


def test_nginx_stock_parameters_below_a_prefix(serve, front):
    info(ask(serve, front, fe.Nginx, "/app/x", "/app"),
         "fastcgi_split_path_info ^(/app)(.*)$;", 'mount is "/app"')


def test_nginx_scgi_stock_parameters(serve, front):
    info(ask(serve, front, fe.NginxScgi, "/x"), "SCRIPT_NAME (absent)",
         "scgi_param PATH_INFO $document_uri")


@pytest.mark.parametrize("kind", [fe.Lighttpd, fe.LighttpdScgi],
                         ids=lambda k: k.__name__)
def test_lighttpd_without_fix_root_scriptname(serve, front, kind):
    info(ask(serve, front, kind, "/x/y"), "lighttpd/",
         'SCRIPT_NAME "/x"', 'PATH_INFO "/y"', "fix-root-scriptname")


def test_lighttpd_key_with_a_slash(serve, front):
    info(ask(serve, front, fe.Lighttpd, "/app/x/y", "/app", PREFIX="/app/"),
         "no slash at the end")


@pytest.mark.parametrize("kind", [fe.Apache, fe.ApacheScgi],
                         ids=lambda k: k.__name__)
def test_apache_proxypass(serve, front, kind):
    line = ask(serve, front, kind, "/x")
    info(line, 'SCRIPT_NAME "/x"', "that is its mount")
    if kind is fe.Apache:
        info(line, "Apache/", "nothing has to be changed")


def test_apache_handler(serve, front):
    info(ask(serve, front, fe.ApacheHandler, "/x/y"), "Apache/",
         'SCRIPT_NAME "/x" and PATH_INFO "/y"', "Alias")


def test_haproxy(serve, front):
    info(ask(serve, front, fe.Haproxy, "/x"), "HAProxy ",
         "path-info ^()(.*)$")


# Wrong paths

def test_nginx_try_files(serve, front):
    line = ask(serve, front, NginxLocation, "/x", LOCATION=(
        "location /x { try_files $uri /app.py?$args; }"
        "location = /app.py { @BODY@ }"))
    warning(line, 'SCRIPT_NAME "/app.py"', 'for "/x"', "try_files",
            "path_source = request_uri")


def test_nginx_rewrite(serve, front):
    warning(ask(serve, front, NginxLocation, "/x", LOCATION=(
        "location /x { rewrite ^/x(.*)$ /new/x$1 last; }"
        "location /new { @BODY@ }")), "nginx/", "rewrite")


def test_nginx_prefix_cut_off(serve, front):
    warning(ask(serve, front, NginxLocation, "/app/x", LOCATION=(
        "location /app/ { rewrite ^/app(/.*)$ $1 last; }"
        "location /x { @BODY@ }")), "only the end of the path",
        "set the pool's mount")


def test_nginx_outside_the_mount(serve, front):
    warning(ask(serve, front, fe.Nginx, "/x", "/app"), "answered with 404",
            "location ~ ^/app(?:/|$)", "correct the pool's mount")


def test_apache_rewrite(serve, front):
    warning(ask(serve, front, ApacheWith, "/x", PASSES=(
        "RewriteEngine On\n"
        "RewriteRule ^/x(.*)$ /new/x$1 [PT]\n"
        'ProxyPass "/new" "@BACKEND@new"')), "Apache/", "RewriteRule",
        "path_source = request_uri")


def test_apache_prefix_cut_off(serve, front):
    warning(ask(serve, front, ApacheWith, "/app/x", PASSES=(
        "RewriteEngine On\n"
        "RewriteRule ^/app/(.*)$ /$1 [PT]\n"
        'ProxyPass "/" "@BACKEND@"')), "only the end of the path")


def test_apache_outside_the_mount(serve, front):
    warning(ask(serve, front, fe.Apache, "/x", "/app"),
            'ProxyPass "/app" "...|fcgi://localhost/app"')


def test_lighttpd_outside_the_mount(serve, front):
    warning(ask(serve, front, fe.Lighttpd, "/x", "/app"), "lighttpd/",
            '$HTTP["url"] =~ "^/app(/|$)"')


def test_lighttpd_rewrite(serve, front):
    warning(ask(serve, front, fe.Lighttpd, "/x", EXTRA=(
        'server.modules += ( "mod_rewrite" )\n'
        'url.rewrite-once = ( "^/x(.*)$" => "/new/x$1" )')), "lighttpd/",
        "url.rewrite")


def test_haproxy_rewrite(serve, front):
    line = ask(serve, front, HaproxyRewrites, "/x")
    # HAProxy tells the new path as REQUEST_URI as well.
    info(line, "HAProxy ")


# Front ends that tests have no other configuration for

CADDY = """{
	admin off
	auto_https off
	storage file_system @RUN@/storage
}
:@PORT@ {
	root * @ROOT@
	@PASSES@
}
"""


class Caddy(fe.FrontEnd):
    program = "caddy"

    def make_config(self):
        with open(os.path.join(self.root, "index.php"), "w"):
            pass        # php_fastcgi looks for it
        with open(self.config, "w") as f:
            f.write(CADDY.replace("@PASSES@", self.extra["PASSES"])
                    .replace("@SOCKET@", "unix/" + self.address)
                    .replace("@RUN@", self.run).replace("@ROOT@", self.root)
                    .replace("@PORT@", str(self.port)))

    def command(self):
        return ["env", "HOME=" + self.run, fe.find("caddy"), "run",
                "--config", self.config, "--adapter", "caddyfile"]


def test_caddy_handle_path(serve, front):
    warning(ask(serve, front, Caddy, "/app/x", PASSES=(
        "handle_path /app/* {\nreverse_proxy @SOCKET@ {\n"
        "transport fastcgi\n}\n}")), "handle instead of handle_path",
        "set the pool's mount")


def test_caddy_php_fastcgi(serve, front):
    warning(ask(serve, front, Caddy, "/x", PASSES="php_fastcgi @SOCKET@"),
            "php_fastcgi", "path_source = request_uri")


def test_caddy_split(serve, front):
    info(ask(serve, front, Caddy, "/app/x", PASSES=(
        "reverse_proxy @SOCKET@ {\ntransport fastcgi {\nsplit /app\n}\n}")),
        'SCRIPT_NAME "/app" and PATH_INFO "/x"', "no split")


H2O = """%spid-file: @RUN@/h2o.pid
error-log: @RUN@/error.log
num-threads: 1
listen:
  host: 127.0.0.1
  port: @PORT@
hosts:
  default:
    paths:
      "/":
        fastcgi.connect:
          port: @SOCKET@
          type: unix
""" % ("user: root\n" if fe.ROOT else "")


class H2o(Caddy):
    program = "h2o"

    def make_config(self):
        with open(self.config, "w") as f:
            f.write(H2O.replace("@SOCKET@", self.address)
                    .replace("@RUN@", self.run)
                    .replace("@PORT@", str(self.port)))

    def command(self):
        return [fe.find("h2o"), "-m", "worker", "-c", self.config]


def test_h2o_outside_the_mount(serve, front):
    warning(ask(serve, front, H2o, "/x", "/app"), "h2o/", 'paths: "/app"')


# Without a front end

def test_with_path_source_request_uri(serve):
    server = serve(APP, path_source="request_uri")
    for extra in ({"SCRIPT_NAME": "/app.py"}, {"SCRIPT_NAME": "/x"}):
        assert server.request("/x", extra=extra,
                              drop=["PATH_INFO"]).status == 200
    server.stop()
    assert not server.log.find(LINE, 0)


def test_each_kind_once_also_after_the_workers_are_gone(serve):
    server = serve(APP, workers=2, max_requests=3, max_requests_jitter=0)
    for _ in range(20):
        assert server.request("/x", extra={"SCRIPT_NAME": "/x"},
                              drop=["PATH_INFO"]).status == 200
        assert server.request("/x", extra={
            "REQUEST_URI": "/y/x"}).status == 200
    server.stop()
    lines = server.log.find(LINE, 0)
    assert len(lines) == 2
    assert {" INFO " in n for n in lines} == {True, False}


def test_bytes_from_outside_are_escaped(serve):
    server = serve(APP)
    assert server.request("/x", extra={
        "SCRIPT_NAME": b"/\n\xff\x1b[31m", "SERVER_SOFTWARE": b"nginx\n\x07",
        "REQUEST_URI": b"/%0A\n"}, drop=["PATH_INFO"]).status == 200
    line, = server.log.wait(r"sends SCRIPT_NAME")
    assert r'"/\x0a\xff\x1b[31m"' in line
    assert r"nginx\x0a\x07 sends" in line
    assert re.search(r"^[ -~]+$", line)


def test_cgi_fcgi_without_a_path(serve):
    if fe.find("cgi-fcgi") is None:
        pytest.skip("no cgi-fcgi")
    server = serve(APP)
    params = fcgi.params_for("/x", drop=["SCRIPT_NAME", "PATH_INFO"])
    code, _, _ = fe.cgi_fcgi(server.address, params)
    assert code == 0
    info(server.log.wait(LINE)[0], "SCRIPT_NAME (absent) and PATH_INFO "
         "(absent)")
