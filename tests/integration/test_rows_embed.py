# SPDX-License-Identifier: MIT
"""What broke for users of other servers around the embedded Python: rows R077
and R094 to R139 of the reports."""

import json
import os
import re
import shutil
import signal
import subprocess

import pytest

from lib import server as srv
from lib.wait import wait_for

CHECKLIST = os.path.join(srv.APPS, "checklist")
EMBED = os.path.join(srv.APPS, "embed")


@pytest.fixture
def own(serve, shape, notes):
    def start(app="app:application", **options):
        options.setdefault("chdir", EMBED)
        env = dict(notes.env(), **options.pop("env", {}))
        more = {n: options.pop(n) for n in ("clean_env", "cwd", "words")
                if n in options}
        return serve(app, env=env, **more, **shape.options(**options))
    return start


def ask(server, case, **how):
    extra = dict(how.pop("extra", {}), TEST_CASE=case)
    return server.request(extra=extra, **how)


@pytest.mark.parametrize("preload", ["on", "off"])
def test_R077_children_of_the_application(own, preload):
    """Return codes are right at import, in a view, in a thread, in a hook."""
    server = own("children", preload=preload)
    found = json.loads(server.request().body)
    assert found == {"import": 7, "hook": 7, "view": 7, "thread": 7}


def test_R094_a_thread_in_the_template(own):
    """Somebody's sitecustomize starts a busy thread. Preload is then unsafe:
    `auto` says so and lets each worker import for itself."""
    server = own("busy_thread", workers=4)
    server.log.wait(r"(?i)thread", start=0)
    for _ in range(8):
        assert server.request().text != ""
    for _ in range(5):
        victim = server.workers()[0]
        os.kill(victim, signal.SIGKILL)
        server.wait_workers(4, without=[victim])
        assert server.request().status == 200
    server.errors_expected = True


def test_R094_preload_on_with_a_thread(own):
    """Asked for all the same: a warning, and it works."""
    server = own("busy_thread", preload="on", workers=2)
    server.log.wait(r"WARN.*thread", start=0)
    for _ in range(4):
        assert server.request().status == 200


def test_R095_threads_started_at_import_run(own):
    server = own("busy_thread")
    first = int(server.request().text)
    wait_for(lambda: int(server.request().text) > first,
             "the counter of the thread moves")


def test_R099_background_threads_while_idle(own, notes):
    server = own("stamps")
    assert server.request().text == "ok"
    notes.wait("stamps", 30)


@pytest.mark.parametrize("preload", ["on", "off", "auto"])
def test_R100_forking_at_import_and_in_threads(own, preload):
    server = own("forks", preload=preload)
    assert json.loads(server.request().body) == {
        "import": [3, 4, "out"], "view": [3, 4, "out"],
        "thread": [3, 4, "out"]}


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_R102_multiprocessing(own, method):
    server = own(chdir=CHECKLIST)
    assert json.loads(ask(server, "L1_multiprocessing",
                          query=method).body) == [1, 4, 9]


@pytest.mark.parametrize("module", [
    "_ssl", "_decimal", "_sqlite3", "_ctypes", "numpy", "lxml.etree",
    "psycopg2", "cryptography", "bcrypt", "google.protobuf", "django",
    "flask", "web", "pyramid"])
def test_R104_extension_modules_load(own, module):
    """Each in a pool of its own, imported by the application at import and
    used in a view."""
    found = subprocess.run([srv.base_python(), "-c", "import " + module],
                           stderr=subprocess.DEVNULL)
    if found.returncode != 0:
        pytest.skip("no module %s for %s" % (module, srv.base_python()))
    server = own("extension", env={"TEST_MODULE": module})
    assert server.request().text == "works"


def make_venv(path, *options):
    subprocess.run([srv.base_python(), "-m", "venv", "--without-pip",
                    *options, str(path)], check=True)
    return str(path)


def edit_cfg(venv, old, new):
    name = os.path.join(venv, "pyvenv.cfg")
    with open(name) as f:
        text = f.read()
    text, n = re.subn(old, new, text, flags=re.MULTILINE)
    assert n, text
    with open(name, "w") as f:
        f.write(text)


BAD_VENVS = ["missing", "no_cfg", "unreadable", "other_version", "no_home"]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_R105_a_virtualenv_of_somebody_else(fails, shape):
    """Readable by root, who reads it first, and not by the pool's user."""
    folder = srv.temp_dir()
    path = make_venv(os.path.join(folder, "v"))
    os.chmod(path, 0o700)
    try:
        code, log = fails("app:application", chdir=CHECKLIST, user="nobody",
                          virtualenv=path, **shape.options())
    finally:
        shutil.rmtree(folder)
    assert code > 0
    line = [x for x in log.splitlines() if srv.is_error(x) and path in x]
    assert line and "nobody" in line[0], log
    assert "Fatal Python error" not in log


@pytest.mark.parametrize("kind", BAD_VENVS)
def test_R105_a_wrong_virtualenv(fails, shape, tmp_path, kind):
    path = str(tmp_path / "v")
    if kind == "no_cfg":
        os.mkdir(path)
    elif kind == "unreadable":
        if os.geteuid() == 0:
            pytest.skip("root can read everything")
        make_venv(path)
        os.chmod(path, 0)
    elif kind == "other_version":
        make_venv(path)
        edit_cfg(path, r"^version = .*$", "version = 3.2.1")
    elif kind == "no_home":
        make_venv(path)
        edit_cfg(path, r"^home = .*$", "home = /nowhere/bin")
    try:
        code, log = fails("app:application", chdir=CHECKLIST,
                          virtualenv=path, **shape.options())
    finally:
        if kind == "unreadable":
            os.chmod(path, 0o700)
    assert code > 0
    line = [x for x in log.splitlines() if srv.is_error(x) and path in x]
    assert line, log
    assert "Fatal Python error" not in log
    if kind == "other_version":
        assert "3.2" in log
        assert "%d.%d" % srv.python_version() in log


@pytest.mark.parametrize("kind", ["plain", "slash", "symlink", "system_site"])
def test_R105_right_virtualenvs(own, tmp_path, kind):
    path = make_venv(tmp_path / "v", *(["--system-site-packages"]
                                       if kind == "system_site" else []))
    given = path
    if kind == "slash":
        given = path + "/"
    elif kind == "symlink":
        given = str(tmp_path / "link")
        os.symlink(path, given)
    server = own(chdir=CHECKLIST, virtualenv=given)
    found = json.loads(ask(server, "L1").body)
    assert found["prefix"] != found["base_prefix"]
    assert os.path.realpath(found["prefix"]) == path


@pytest.mark.parametrize("env", [
    {}, {"LANG": "C"}, {"LANG": "xx"}, {"LC_ALL": "POSIX"},
    {"PYTHONIOENCODING": "ascii"}])
def test_R106_encodings(own, env):
    server = own(chdir=CHECKLIST, env=env, clean_env=True)
    assert json.loads(ask(server, "L4").body)[0] == "utf-8"
    assert ask(server, "D2").text == "ok"
    assert ask(server, "J7", query="surrogate").status == 500
    server.errors_expected = True


def test_R107_output_before_a_crash(own, shape):
    server = own("crashes", workers=2)
    answer = server.request(query="die")
    assert not answer.complete
    # With threads a line is put together per thread, so that lines never mix;
    # what SIGKILL finds half done is lost.
    if not shape.threaded:
        server.log.wait(r"without a newline$")
    server.wait_workers(2)
    server.errors_expected = True


def test_R107_warnings_as_errors(own):
    server = own("crashes", env={"PYTHONWARNINGS": "error"})
    assert server.request(query="raise").status == 500
    server.expect_error("LookupError")
    assert server.request(query="fine").text == "fine"


@pytest.mark.parametrize("preload", ["on", "off"])
def test_R111_random_state(own, preload):
    server = own(workers=4, preload=preload, chdir=CHECKLIST)
    found = {}

    def ask_all():
        from test_protocol import parallel
        for answer in parallel(8, lambda n: ask(server, "L10")):
            pid, *values = json.loads(answer.body)
            found.setdefault(pid, values)
        return len(found) >= 2
    wait_for(ask_all, "answers of several workers")
    for n in range(3):
        assert len({v[n] for v in found.values()}) == len(found)


@pytest.mark.parametrize("text, name", [
    ("single", "single"), ("package.views:application", "package.views"),
    ("package/views.py", "package.views"),
    ("package.views:make()", "package.views"),
    ("package.views:holder.app", "package.views"),
    ("blog.wsgi", "blog_wsgi"), ("single.py:application", "single")])
def test_R112_import_paths(own, tmp_path, text, name):
    """Also with a blank in the folder's name; relative imports and pickles
    work, and nothing is imported twice."""
    folder = str(tmp_path / "with blank")
    shutil.copytree(os.path.join(EMBED, "imports"), folder)
    server = own(text, chdir=folder)
    found = json.loads(server.request().body)
    assert found["name"] == name
    assert found["times"] == 1
    assert found["pickle"] == 5


def test_R117_objects_kept_after_their_request(own):
    """wsgi.errors, wsgi.input, write and environ of an old request, used in
    the next one and in __del__."""
    server = own("keeps")
    assert server.request(method="POST", body=b"secret").text == "kept"
    found = json.loads(server.request(method="POST", body=b"mine").body)
    assert found["input"] == "ValueError"
    assert found["write"] == "RuntimeError"
    assert found["errors"] == "fine"
    assert found["environ"] == "POST"
    for _ in range(20):
        assert server.request(query="del").text == "deleted"


def test_R139_standard_streams_are_real(own):
    server = own("real_streams")
    found = json.loads(server.request().body)
    assert found == {"run": 0, "captured": "captured\n", "redirected": "r\n",
                     "input": "EOFError", "pid": True}
    server.log.wait(r"from a child$")
    server.log.wait(r"os.write$")


def test_R096_daemon_threads_and_extensions_at_the_end(own):
    """A daemon thread in a tight loop, and exit codes stay 0."""
    for _ in range(5):
        server = own("busy_thread", workers=2)
        assert server.request().status == 200
        server.stop()
