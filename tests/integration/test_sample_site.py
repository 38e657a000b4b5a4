# SPDX-License-Identifier: MIT
"""The sample site behind nginx, as scripts/run serves it."""

import hashlib
import http.cookiejar
import os
import re
import shutil
import signal
import subprocess
import urllib.error
import urllib.parse
import urllib.request

import pytest

from lib import frontends as fe
from lib import proc
from lib import server as srv
from lib.wait import FACTOR, TIMEOUT, wait_for

SAMPLE = os.path.join(srv.TOP, "conf", "sample")


class SampleNginx(fe.Nginx):
    """The configuration that scripts/run uses."""

    def start(self):
        with open(os.path.join(SAMPLE, "nginx.conf.in")) as f:
            text = f.read()
        for name, value in (("USER", "user root;" if fe.ROOT else ""),
                            ("PORT", self.port), ("RUN", self.run),
                            ("SOCKET", self.address),
                            ("STATIC", os.path.join(SAMPLE, "static"))):
            text = text.replace("@%s@" % name, str(value))
        assert "@" not in re.sub(r"#.*", "", text)
        self.template = os.path.join(self.run, "filled")
        with open(self.template, "w") as f:
            f.write(text)
        return super().start()


class Visitor:
    """A browser: keeps cookies, follows redirects, sends forms."""

    def __init__(self, port):
        self.base = "http://127.0.0.1:%d" % port
        self.opener = urllib.request.build_opener(
            urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar()))

    def get(self, path, data=None, headers=()):
        request = urllib.request.Request(
            self.base + path, data, dict(headers, Origin=self.base))
        try:
            with self.opener.open(request, timeout=4 * TIMEOUT) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as e:
            return e.code, e.read().decode()

    def token(self, page):
        return re.search(r'name="csrfmiddlewaretoken" value="(\w+)"',
                         page).group(1)


def need_django():
    found = subprocess.run([srv.base_python(), "-c", "import django"],
                           stderr=subprocess.DEVNULL)
    if found.returncode != 0:
        pytest.skip("no Django for " + srv.base_python())
    why = fe.Nginx.why_not()
    if why:
        pytest.skip(why)


@pytest.fixture(scope="module")
def visited(epoll_shape):
    need_django()
    data = srv.temp_dir()
    server = srv.start("millpond.wsgi:application", chdir=SAMPLE,
                       env={"FOREBAY_SAMPLE_DATA": data},
                       **epoll_shape.options(workers=2, body_buffer=None,
                                             name="millpond"))
    web = SampleNginx(server.address)
    try:
        web.start()
        visitor = Visitor(web.port)
        visitor.server, visitor.shape = server, epoll_shape
        yield visitor
        web.stop()
        server.stop()
    finally:
        web.close()
        server.close()
        shutil.rmtree(data)


@pytest.fixture
def visitor(visited):
    visited.server.begin_test()
    yield visited
    visited.server.audit_running()


@pytest.mark.parametrize("path, says", [
    ("/", "a steady flow to every wheel"), ("/upload", "Upload"),
    ("/guestbook", "Guest book"), ("/stream", "Stream"), ("/slow", "Slow"),
    ("/environ", "wsgi.multithread")])
def test_pages(visitor, path, says):
    status, page = visitor.get(path)
    assert status == 200
    assert says in page
    assert "</html>" in page
    assert re.search(r"forebay \d", page)
    assert "pool millpond" in page


def test_nothing_comes_from_elsewhere(visitor):
    """No resource of another host: the pages work without the Internet."""
    for path in ("/", "/upload", "/guestbook", "/stream", "/environ"):
        page = visitor.get(path)[1]
        for target in re.findall(r'(?:src|href|action)="([^"]*)"', page):
            assert re.match(r"/|data:|#|\?", target), target


def test_style_sheet_from_nginx(visitor):
    status, text = visitor.get("/static/millpond.css")
    assert status == 200
    assert "prefers-color-scheme" in text


def test_environ_tells_the_mode(visitor):
    page = visitor.get("/environ")[1]
    mode = "threaded" if visitor.shape.threaded else "prefork"
    assert mode in page
    pid = re.search(r">pid</th><td>(\d+)<", page).group(1)
    assert int(pid) in visitor.server.workers()


@pytest.mark.parametrize("size", [0, 3, 100_000, 5_000_000])
def test_upload(visitor, size):
    page = visitor.get("/upload")[1]
    content = os.urandom(size)
    boundary = "------------------------boundary"
    parts = (
        '--%s\r\nContent-Disposition: form-data; '
        'name="csrfmiddlewaretoken"\r\n\r\n%s\r\n--%s\r\n'
        'Content-Disposition: form-data; name="file"; '
        'filename="a &amp; b.bin"\r\n'
        'Content-Type: application/octet-stream\r\n\r\n'
        % (boundary, visitor.token(page), boundary)).encode()
    body = parts + content + ("\r\n--%s--\r\n" % boundary).encode()
    status, page = visitor.get("/upload", body, {
        "Content-Type": "multipart/form-data; boundary=" + boundary})
    assert status == 200
    if size == 0:
        assert "empty" in page
        return
    assert "%d bytes" % size in page
    assert hashlib.sha256(content).hexdigest() in page


def test_a_form_without_its_token_is_refused(visitor):
    status, _ = visitor.get("/guestbook", b"name=x&text=y", {
        "Content-Type": "application/x-www-form-urlencoded"})
    assert status == 403
    visitor.server.errors_expected = True


def test_guestbook(visitor):
    """An entry is there for all workers."""
    page = visitor.get("/guestbook")[1]
    form = urllib.parse.urlencode({
        "csrfmiddlewaretoken": visitor.token(page), "name": "M\xfcller",
        "text": "<b>grind & grist</b> \u65e5\u672c"}).encode()
    status, page = visitor.get("/guestbook", form, {
        "Content-Type": "application/x-www-form-urlencoded"})
    assert status == 200
    for _ in range(6):
        page = visitor.get("/guestbook")[1]
        assert "M\xfcller" in page
        assert "&lt;b&gt;grind &amp; grist&lt;/b&gt; \u65e5\u672c" in page


def test_stream(visitor):
    status, text = visitor.get("/stream/lines")
    assert status == 200
    assert len(re.findall(r"drop +\d+ of 40, from process \d+", text)) == 40
    assert text.endswith("The pond is full.\n")


def test_slow(visitor):
    assert "took 0.2 seconds" in visitor.get("/slow?seconds=0.2")[1]
    for wrong in ("nan", "-1", "1e9", "x", "inf"):
        assert "took 0.0 seconds" in visitor.get("/slow?seconds=" + wrong)[1]


def test_error(visitor):
    status, page = visitor.get("/error")
    assert status == 500
    assert "Something broke" in page
    assert "Traceback" not in page and "RuntimeError" not in page
    visitor.server.log.wait("RuntimeError: the visitor pressed")
    status, page = visitor.get("/no/such/page")
    assert status == 404 and "Nothing here" in page


def test_without_a_data_folder_it_says_so(fails, epoll_shape):
    need_django()
    code, log = fails("millpond.wsgi:application", chdir=SAMPLE,
                      env={"FOREBAY_SAMPLE_DATA": "/no/such/folder"},
                      **epoll_shape.options())
    assert code > 0
    assert "FOREBAY_SAMPLE_DATA must name a folder" in log


def run_script(*words, **how):
    environ = dict(os.environ, FOREBAY_SKIP_INSTALL="1")
    environ.pop("ASAN_OPTIONS", None)
    return subprocess.Popen(
        [os.path.join(srv.TOP, "scripts", "run"), *words],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, env=environ, **how)


@pytest.mark.skipif(not srv.build_dir().endswith(("gcc", "release")),
                    reason="builds another preset; once is enough")
def test_scripts_run_check():
    need_django()
    process = run_script("--check", "--port", str(srv.free_port()))
    out = process.communicate(timeout=900)[0].decode()
    assert process.returncode == 0, out
    assert re.search(r"http://127\.0\.0\.1:\d+/ works", out)
    # Nothing is wrong with the front end that the sample comes with.
    assert "the front end sends" not in out, out


@pytest.mark.skipif(not srv.build_dir().endswith(("gcc", "release")),
                    reason="builds another preset; once is enough")
def test_scripts_run_until_interrupted(tmp_path):
    """It prints the address; an interrupt stops both, and nothing stays."""
    need_django()
    mark = "FOREBAY_TEST_ID=run-%d" % os.getpid()
    os.environ["FOREBAY_TEST_ID"] = mark.partition("=")[2]
    os.environ["FOREBAY_SAMPLE_DATA"] = str(tmp_path)
    try:
        # A shell that started us in the background had SIGINT ignored.
        process = run_script(
            "--port", str(srv.free_port()), start_new_session=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
    finally:
        del os.environ["FOREBAY_TEST_ID"], os.environ["FOREBAY_SAMPLE_DATA"]
    out = b""
    try:
        while not re.search(rb"http://127\.0\.0\.1:(\d+)/", out):
            data = os.read(process.stdout.fileno(), 4096)
            assert data, out.decode()
            out += data
        port = int(re.search(rb"127\.0\.0\.1:(\d+)/", out).group(1))
        assert "Millpond" in Visitor(port).get("/")[1]
        process.send_signal(signal.SIGINT)
        assert process.wait(60 * FACTOR) == 130
        wait_for(lambda: not [p for p in proc.with_environ(mark)
                              if proc.alive(p)], "nothing of it is left")
    finally:
        for pid in proc.with_environ(mark):
            os.kill(pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()
