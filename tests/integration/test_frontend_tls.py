# SPDX-License-Identifier: MIT
"""HTTPS, wsgi.url_scheme and the port behind the files of conf/frontends, with
the lines that a user adds for TLS."""

import http.client
import json
import os
import shutil
import ssl
import subprocess

import pytest

from lib import shipped
from lib import server as srv
from lib.wait import TIMEOUT

APP = os.path.join(srv.APPS, "frontends", "seen.py")
HOST = "www.example.org"

# file: what a user changes in it. @PEM@ has certificate and key.
TLS = {
    "nginx/fastcgi.conf": (
        "listen 8080;", "listen 8080 ssl;\n    ssl_certificate @PEM@;\n"
        "    ssl_certificate_key @PEM@;"),
    "nginx/scgi.conf": (
        "listen 8080;", "listen 8080 ssl;\n    ssl_certificate @PEM@;\n"
        "    ssl_certificate_key @PEM@;"),
    "nginx/uwsgi.conf": (
        "listen 8080;", "listen 8080 ssl;\n    ssl_certificate @PEM@;\n"
        "    ssl_certificate_key @PEM@;"),
    "apache/proxy-fcgi.conf": (
        "ServerName www", "SSLEngine on\nSSLCertificateFile @PEM@\n"
        "ServerName www"),
    "apache/handler.conf": (
        "ServerName www", "SSLEngine on\nSSLCertificateFile @PEM@\n"
        "ServerName www"),
    "apache/proxy-scgi.conf": (
        "ServerName www", "SSLEngine on\nSSLCertificateFile @PEM@\n"
        "ServerName www"),
    "apache/fcgid.conf": (
        "ServerName www", "SSLEngine on\nSSLCertificateFile @PEM@\n"
        "ServerName www"),
    "haproxy/fastcgi.cfg": ("bind :8080", "bind :8080 ssl crt @PEM@"),
    "caddy/Caddyfile": (":8080 {", "https://:8080 {\n\ttls @PEM@ @PEM@"),
    "h2o/h2o.conf": ("  port: 8080", "  port: 8080\n  ssl:\n"
                     "    certificate-file: @PEM@\n    key-file: @PEM@"),
}


@pytest.fixture(scope="module")
def pem():
    if shutil.which("openssl") is None:
        pytest.skip("no openssl")
    folder = srv.temp_dir()
    key, cert = (os.path.join(folder, n) for n in ("key", "cert"))
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout",
         key, "-out", cert, "-days", "2", "-subj", "/CN=" + HOST, "-addext",
         "subjectAltName=DNS:" + HOST], check=True, stderr=subprocess.DEVNULL)
    path = os.path.join(folder, "pem")
    with open(path, "w") as out:
        for name in (cert, key):
            with open(name) as f:
                out.write(f.read())
    os.chmod(path, 0o644)
    yield path
    shutil.rmtree(folder)


@pytest.mark.parametrize("file", sorted(TLS))
def test_https(serve, pem, file):
    way = shipped.BY_FILE[file]
    if issubclass(way, shipped.Apache):
        way = type(way.__name__, (way,), {
            "modules": way.modules + ("ssl", "socache_shmcb")})
    why = way.why_not()
    if why:
        pytest.skip(why)
    backends = {}
    if not way.spawns:
        backends["/run/forebay/site.sock"] = serve(APP).address
    web = way(backends)
    old, new = TLS[file]
    web.edits = [(old, new.replace("@PEM@", pem))]
    try:
        web.start()
        context = ssl.create_default_context(cafile=pem)
        # The name is in the certificate, the address is not.
        context.check_hostname = False
        connection = http.client.HTTPSConnection(
            "127.0.0.1", web.port, context=context, timeout=4 * TIMEOUT)
        # Caddy wants a name from the client (SNI).
        connection.sock = context.wrap_socket(
            connection._create_connection(("127.0.0.1", web.port), 4 * TIMEOUT),
            server_hostname=HOST)
        connection.request("GET", "/x", headers={
            "Host": "%s:%d" % (HOST, web.port)})
        answer = connection.getresponse()
        text = answer.read()
        assert answer.status == 200, web.log()
        found = json.loads(text)
        connection.close()
        assert found["HTTPS"] == "on"
        assert found["wsgi.url_scheme"] == "https"
        assert found["SERVER_PORT"] == str(web.port)
        assert found["SERVER_NAME"] == HOST
        web.stop()
    finally:
        web.close()
