# SPDX-License-Identifier: MIT
"""WSGI checklist B: the environ."""

import json
import os
import re

import pytest

from lib import fcgi
from lib import server as srv

ABSENT = object()


def environ_of(app, path="/", **how):
    return app.json("environ", path, **how)


def test_B1_a_new_dict_every_time(app):
    for n in range(4):
        found = app.json("B1")
        assert found == {"type": True, "leak": False, "method": "GET",
                         "same": False, "kept_intact": True, "kept": n}
    assert environ_of(app)["wsgi.version"] == "(1, 0)"


def test_B2_values_are_native_strings_of_bytes(app):
    raw = bytes(range(1, 256))
    found = app.json("B2", extra={
        "TEST_BYTES": raw, "TEST_UTF8": "日本".encode(), "TEST_EMPTY": b"",
        "DOCUMENT_ROOT": b"/srv/\xff", "SCRIPT_FILENAME": b"/\xe9.py",
        "HTTP_X_RAW": b"\x80\xff", "TEST_BAD": b"\xff\xfe\xc3("})
    assert found["wrong"] == []
    assert found["value"]["TEST_BYTES"] == raw.decode("latin-1")
    assert found["value"]["TEST_UTF8"] == "日本".encode().decode("latin-1")
    assert found["value"]["TEST_EMPTY"] == ""
    assert found["value"]["TEST_BAD"] == "\xff\xfe\xc3("


def test_B3_request_method(app):
    for method in ("GET", "POST", "PROPFIND", "X-FOO", "get", "M-SEARCH"):
        assert environ_of(app, method=method)["REQUEST_METHOD"] == method
    # Without one the application is not called with an empty method.
    for how in ({"drop": ["REQUEST_METHOD"]}, {"method": ""}):
        answer = app("environ", **how)
        if answer.status == 200:
            assert '"REQUEST_METHOD": "GET"' in answer.text
        else:
            assert answer.status in (400, 500)
            app.log(r"REQUEST_METHOD")


PATHS = [
    # SCRIPT_NAME, PATH_INFO as sent -> PATH_INFO of the environ
    (b"", b"/a/b", "/a/b"),
    (b"/a", b"/b", "/a/b"),
    (b"/a/b", ABSENT, "/a/b"),
    (b"/a/b", b"", "/a/b"),
    (b"/", ABSENT, "/"),
    (b"/", b"", "/"),
    (ABSENT, b"/a", "/a"),
    (b"", b"/", "/"),
    (b"", b"//x/y", "//x/y"),
    (b"", b"/a/../b", "/a/../b"),
]


@pytest.mark.parametrize("script, path, expected", PATHS)
def test_B4_script_name_and_path_info(app, script, path, expected):
    given = {"SCRIPT_NAME": script, "PATH_INFO": path}
    drop = [n for n, v in given.items() if v is ABSENT]
    extra = {n: v for n, v in given.items() if v is not ABSENT}
    found = environ_of(app, extra=extra, drop=drop)
    assert (found["SCRIPT_NAME"], found["PATH_INFO"]) == ("", expected)


def test_B4_neither_is_sent(app):
    drop = ["SCRIPT_NAME", "PATH_INFO"]
    found = environ_of(app, extra={"DOCUMENT_URI": "/from/document"},
                       drop=drop)
    assert found["SCRIPT_NAME"] == ""
    assert found["PATH_INFO"] == "/from/document"
    found = environ_of(app, extra={"REQUEST_URI": "/from%20uri?x=1"},
                       drop=drop)
    assert (found["SCRIPT_NAME"], found["PATH_INFO"]) == ("", "/from uri")
    found = environ_of(app, drop=drop + ["REQUEST_URI"])
    assert found["SCRIPT_NAME"] == ""
    assert found["PATH_INFO"] in ("", "/")


def test_B5_path_info_is_decoded_once(app):
    # The front end has decoded; nothing is decoded again.
    for raw in (b"/caf\xc3\xa9", b"/\xff", b"/%41", b"/a+b", b"/100%",
                b"/%zz", b"/a b"):
        found = environ_of(app, extra={"PATH_INFO": raw})
        assert found["PATH_INFO"] == raw.decode("latin-1")
    # Where it comes from REQUEST_URI it is decoded here, once.
    for uri, path in (("/caf%C3%A9", "/caf\xc3\xa9"), ("/%FF", "/\xff"),
                      ("/%2541", "/%41"), ("/a+b", "/a+b"),
                      ("/a%20b?x=%20", "/a b")):
        found = environ_of(app, extra={"REQUEST_URI": uri},
                           drop=["SCRIPT_NAME", "PATH_INFO"])
        assert found["PATH_INFO"] == path
        assert found["REQUEST_URI"] == uri


def test_B6_query_string(app):
    for raw in ("", "a=b", "a=%20%zz&b=+", "??", "x=" + "y" * 2000):
        assert environ_of(app, query=raw)["QUERY_STRING"] == raw
    assert environ_of(app, drop=["QUERY_STRING"])["QUERY_STRING"] == ""
    found = environ_of(app, extra={"REQUEST_URI": "/?", "QUERY_STRING": ""})
    assert found["QUERY_STRING"] == ""
    found = environ_of(app, extra={"QUERY_STRING": b"\xff=\xe9"})
    assert found["QUERY_STRING"] == "\xff=\xe9"


def test_B7_content_length_and_type(app):
    found = environ_of(app, method="POST", body=b"12345",
                       extra={"CONTENT_TYPE": "text/x; a=\"b\""})
    assert found["CONTENT_LENGTH"] == "5"
    assert found["CONTENT_TYPE"] == "text/x; a=\"b\""
    for value in ("", "-1"):
        found = environ_of(app, method="POST",
                           extra={"CONTENT_LENGTH": value, "CONTENT_TYPE": ""})
        assert "CONTENT_LENGTH" not in found
    # Not a number: never seen by the application.
    for value in ("abc", "1 2", "0x10", "+5", "5,5", "1" * 40):
        answer = app("environ", method="POST",
                     extra={"CONTENT_LENGTH": value})
        if answer.status == 200:
            assert "CONTENT_LENGTH\": " not in answer.text.replace(
                "HTTP_CONTENT_LENGTH", "")
        else:
            assert answer.status == 400 or answer.status == 413
            app.server.errors_expected = True


def test_B8_no_http_content_headers(app):
    found = environ_of(app, method="POST", body=b"x", extra={
        "HTTP_CONTENT_TYPE": "text/plain", "HTTP_CONTENT_LENGTH": "1",
        "CONTENT_TYPE": "text/plain"})
    assert "HTTP_CONTENT_TYPE" not in found
    assert "HTTP_CONTENT_LENGTH" not in found
    assert found["CONTENT_TYPE"] == "text/plain"


def test_B9_server_name_port_protocol(app):
    found = environ_of(app, extra={"SERVER_NAME": "www.example.org",
                                   "SERVER_PORT": "8443",
                                   "SERVER_PROTOCOL": "HTTP/2.0"})
    assert found["SERVER_NAME"] == "www.example.org"
    assert found["SERVER_PORT"] == "8443"
    assert found["SERVER_PROTOCOL"] == "HTTP/2.0"
    for how in ({"drop": ["SERVER_NAME", "SERVER_PORT", "SERVER_PROTOCOL"]},
                {"extra": {"SERVER_NAME": "", "SERVER_PORT": "",
                           "SERVER_PROTOCOL": ""}}):
        found = environ_of(app, **how)
        assert found["SERVER_NAME"] == "localhost"
        assert found["SERVER_PORT"] == "80"
        assert re.fullmatch(r"HTTP/\d(\.\d)?", found["SERVER_PROTOCOL"])


def test_B9_from_the_settings(serve, shape):
    server = serve_checklist(serve, shape, server_name="pool.example",
                             server_port="8081")
    found = server_environ(server, drop=["SERVER_NAME", "SERVER_PORT"])
    assert (found["SERVER_NAME"], found["SERVER_PORT"]) == (
        "pool.example", "8081")
    found = server_environ(server)
    assert found["SERVER_NAME"] == "localhost"


def test_B10_headers(app):
    found = environ_of(app, headers=[("X-One", "1"), ("x-two-three", "v v"),
                                     ("X-Empty", "")])
    assert found["HTTP_X_ONE"] == "1"
    assert found["HTTP_X_TWO_THREE"] == "v v"
    assert found["HTTP_X_EMPTY"] == ""
    assert "HTTP_ACCEPT" not in found


def test_B11_repeated(app):
    params = list(app.params("environ").items()) + [
        ("HTTP_X_MANY", "a"), ("HTTP_X_MANY", "b, c"), ("HTTP_X_MANY", "d"),
        ("HTTP_COOKIE", "a=1"), ("HTTP_COOKIE", "b=2"),
        ("DOCUMENT_ROOT", "/first"), ("DOCUMENT_ROOT", "/last"),
        ("QUERY_STRING", "first"), ("QUERY_STRING", "last"),
        ("SCRIPT_NAME", "/script"), ("SCRIPT_NAME", "")]
    found = json.loads(fcgi.request(app.server.address, params).body)
    assert found["HTTP_X_MANY"] == "a, b, c, d"
    assert found["HTTP_COOKIE"] == "a=1; b=2"
    assert found["DOCUMENT_ROOT"] == "/last"
    assert found["QUERY_STRING"] == "last"
    assert found["PATH_INFO"] == "/"


def test_B12_authorization(app):
    found = environ_of(app, headers=[("Authorization", "Basic dTpw")])
    assert found["HTTP_AUTHORIZATION"] == "Basic dTpw"


def test_B13_http_proxy_is_dropped(app):
    found = environ_of(app, headers=[("Proxy", "http://evil:80"),
                                     ("Proxy-Connection", "x")])
    assert "HTTP_PROXY" not in found
    assert found["HTTP_PROXY_CONNECTION"] == "x"


def test_B13_option_to_pass(serve, shape):
    server = serve_checklist(serve, shape, pass_http_proxy=True)
    found = server_environ(server, headers=[("Proxy", "p")])
    assert found["HTTP_PROXY"] == "p"


def test_B14_wsgi_version(app):
    assert app.json("B14") == [True, True]


def test_B15_url_scheme(app):
    def scheme(**extra):
        return environ_of(app, extra=extra)["wsgi.url_scheme"]
    assert scheme() == "http"
    assert scheme(HTTPS="on") == "https"
    assert scheme(HTTPS="ON") == "https"
    assert scheme(HTTPS="1") == "https"
    assert scheme(HTTPS="off") == "http"
    assert scheme(HTTPS="") == "http"
    assert scheme(REQUEST_SCHEME="https") == "https"
    assert scheme(REQUEST_SCHEME="http") == "http"
    assert scheme(SERVER_PORT="443") == "http"


@pytest.mark.parametrize("setting", ["http", "https"])
def test_B15_setting(serve, shape, setting):
    server = serve_checklist(serve, shape, url_scheme=setting)
    for extra in ({}, {"HTTPS": "on"}, {"REQUEST_SCHEME": "http"}):
        assert server_environ(server, extra=extra)["wsgi.url_scheme"] == (
            setting)


@pytest.mark.parametrize("workers", [1, 2])
def test_B16_flags(serve, shape, workers):
    server = serve_checklist(serve, shape, workers=workers)
    found = json.loads(server.request(extra={"TEST_CASE": "B16"}).body)
    assert found == [[True, shape.threaded], [True, workers > 1],
                     [True, False]]


@pytest.mark.parametrize("scaling, most", [("dynamic", 2), ("dynamic", 1),
                                           ("ondemand", 2), ("static", 2)])
def test_B16_where_the_number_of_workers_changes(serve, shape, scaling, most):
    """One worker, and there may be more."""
    server = serve_checklist(serve, shape, workers=1, scaling=scaling,
                             max_workers=most)
    found = json.loads(server.request(extra={"TEST_CASE": "B16"}).body)
    assert found[1] == [True, most > 1]


def test_B17_input_terminated(app):
    assert app("B17").body == b"True"


def test_B18_never_none(app):
    found = environ_of(app, drop=["QUERY_STRING", "REMOTE_ADDR"],
                       extra={"REMOTE_USER": "", "AUTH_TYPE": "",
                              "CONTENT_TYPE": "", "CONTENT_LENGTH": ""})
    assert None not in found.values()
    for name in ("REMOTE_USER", "AUTH_TYPE", "CONTENT_TYPE", "CONTENT_LENGTH",
                 "REMOTE_ADDR"):
        assert name not in found


def test_B19_own_keys(app):
    found = environ_of(app)
    standard = {"wsgi.version", "wsgi.url_scheme", "wsgi.input", "wsgi.errors",
                "wsgi.multithread", "wsgi.multiprocess", "wsgi.run_once",
                "wsgi.input_terminated", "wsgi.file_wrapper"}
    dotted = {n for n in found if "." in n}
    assert standard <= dotted
    with open(os.path.join(srv.TOP, "docs", "module.md")) as f:
        page = f.read().partition("## In the environ")[2].partition("\n## ")[0]
    documented = set(re.findall(r"^\| `(forebay\.[a-z_]+)` \|", page,
                                re.MULTILINE))
    assert dotted - standard <= documented
    for role, name in ((fcgi.AUTHORIZER, "authorizer"),
                       (fcgi.FILTER, "filter")):
        answer = fcgi.request(app.server.address, app.params(
            "environ", extra={"FCGI_DATA_LENGTH": "0"}), role=role, data=b"")
        found = json.loads(answer.body)
        assert {n for n in found if "." in n} - standard == documented - (
            {"forebay.data"} if role == fcgi.AUTHORIZER else set())
        assert found["forebay.role"] == name


def test_B20_everything_else_passes(app):
    sent = {"REMOTE_USER": "u", "AUTH_TYPE": "Basic", "DOCUMENT_ROOT": "/d",
            "HTTPS": "on", "SSL_PROTOCOL": "TLSv1.3", "OWN_VALUE": "x=y",
            "lower_case": "l", "PATH_TRANSLATED": "/d/x", "SERVER_ADDR": "::1",
            "REDIRECT_STATUS": "200", "proxy-nokeepalive": "1", "PATH": "/bin"}
    found = environ_of(app, extra=sent)
    for name, value in sent.items():
        assert found[name] == value
    assert found["REMOTE_ADDR"] == "127.0.0.1"
    assert found["REQUEST_URI"] == "/"


def test_B21_parameters_and_os_environ_stay_apart(app):
    for _ in range(2):
        found = app.json("B21", headers=[("X-Leak", "1"), ("Proxy", "x")],
                         extra={"TEST_LEAK": "1"})
        assert found == {"params_in_os": [], "os_in_environ": []}


def test_B22_many_and_big_parameters(app):
    names = {"TEST_N%d" % i: "v" * 20 + "TEST_N%d" % i for i in range(1000)}
    assert app.json("B22", extra=names) == {
        "count": 1000, "right": True,
        "bytes": sum(len(v) for v in names.values())}
    found = environ_of(app, extra={"TEST_BIG": "b" * 65536})
    assert found["TEST_BIG"] == "b" * 65536


def test_B22_over_a_limit(serve, shape):
    server = serve_checklist(serve, shape, max_params=40,
                             max_params_size="8k")
    assert server_environ(server)["PATH_INFO"] == "/"
    answer = server.request(extra={"TEST_CASE": "environ",
                                   "HTTP_X_TOO_BIG": "b" * 9000})
    assert answer.status in (400, 431)
    server.expect_error(r"HTTP_X_TOO_BIG.*\d")
    many = {"TEST_N%d" % i: "v" for i in range(50)}
    answer = server.request(extra=dict(many, TEST_CASE="environ"))
    assert answer.status in (400, 431)
    server.expect_error(r"parameters.*\b40\b|\b40\b.*parameters")
    assert server_environ(server)["PATH_INFO"] == "/"


def test_B23_any_bytes_in_names(app):
    base = list(app.params("environ").items())
    odd = [(b"", b"empty name"), (b"TEST_NUL", b"a\0b"),
           (b"TEST_\xff\x80", b"high"), (b"TEST=EQ", b"v"),
           (b"TEST\0NUL", b"v"), (b"HTTP_", b"v"), (b"HTTP_X.DOT", b"v"),
           (b"HTTP_X\nLF", b"v"), (b" ", b"blank"), (b"TEST_E", b"")]
    answer = fcgi.request(app.server.address, base + odd)
    assert answer.status == 200
    found = json.loads(answer.body)
    assert "" not in found
    # FCGX keeps parameters as C strings.
    assert found["TEST_NUL"] == ("a" if app.shape.libfcgi else "a\0b")
    assert found["TEST_\xff\x80"] == "high"
    assert found["TEST_E"] == ""
    assert not [n for n in found if "=" in n or "\0" in n or "\n" in n]
    assert "HTTP_" not in found
    if not app.shape.libfcgi:   # there a name ends at the first "="
        app.server.log.wait(r"TEST=EQ")
        app.server.log.wait(r"TEST\\x00NUL|TEST\\0NUL")
    app.server.errors_expected = True


def test_B24_wsgiref_validate(app):
    assert app("B24").body == b"GET "
    answer = app("B24", method="POST", body=b"a body\nin parts\nand more",
                 extra={"CONTENT_TYPE": "text/plain",
                        "HTTP_CONTENT_TYPE": "text/plain",
                        "HTTP_CONTENT_LENGTH": "24"})
    assert answer.body == b"POST a body\nin parts\nand more"
    answer = app("B24", method="HEAD")
    assert (answer.status, answer.body) == (200, b"")
    answer = app("B24", extra={"SCRIPT_NAME": "/", "CONTENT_LENGTH": "-1"},
                 drop=["PATH_INFO"])
    assert answer.body == b"GET "


# Servers of their own

def serve_checklist(serve, shape, **options):
    return serve("app:application", chdir=os.path.join(srv.APPS, "checklist"),
                 **shape.options(**options))


def server_environ(server, extra=(), **how):
    extra = dict(extra)
    extra["TEST_CASE"] = "environ"
    return json.loads(server.request(extra=extra, **how).body)
