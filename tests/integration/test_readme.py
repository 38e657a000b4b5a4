# SPDX-License-Identifier: MIT
"""The commands of the README do what it says."""

import os
import re
import shutil
import signal
import subprocess

from lib import proc
from lib import server as srv
from lib.wait import wait_for


def commands():
    with open(os.path.join(srv.TOP, "README.md")) as f:
        text = f.read()
    block = re.search(r"test_readme\.py runs this block -->\n```sh\n(.*?)```",
                      text, re.DOTALL).group(1)
    return block.splitlines()


def test_five_commands_to_a_served_request():
    lines = commands()
    assert len(lines) == 5
    install, build, write, serve, ask = lines
    assert install == "scripts/install-packages build"
    assert re.fullmatch(r"cmake --preset release && "
                        r"cmake --build --preset release", build)
    folder = srv.temp_dir()
    mark = "FOREBAY_TEST_ID=readme-%d" % os.getpid()
    environ = dict(os.environ, FOREBAY_TEST_ID=mark.partition("=")[2])

    def run(line, **how):
        assert "/tmp/hello" in line
        line = line.replace("/tmp/hello", folder + "/hello").replace(
            "build/release/", srv.build_dir() + "/")
        return subprocess.run(line, shell=True, cwd=srv.TOP, env=environ,
                              stdin=subprocess.DEVNULL, **how)
    try:
        assert run(write).returncode == 0
        assert serve.endswith(" &")
        with open(os.path.join(folder, "log"), "wb") as log:
            run(serve, stdout=log, stderr=log)
        wait_for(lambda: os.path.exists(folder + "/hello.sock"),
                 "the socket of the server")
        found = run(ask, stdout=subprocess.PIPE)
        assert (found.returncode, found.stdout) == (0, b"It works.\n")
        for pid in proc.with_environ(mark):
            if "serve" in proc.cmdline(pid).split():
                os.kill(pid, signal.SIGTERM)
        wait_for(lambda: not [p for p in proc.with_environ(mark)
                              if proc.alive(p)], "the end of the server")
    finally:
        for pid in proc.with_environ(mark):
            os.kill(pid, signal.SIGKILL)
        shutil.rmtree(folder)


def test_the_files_it_names_are_there():
    for name in ("README.md", "CONTRIBUTING.md"):
        with open(os.path.join(srv.TOP, name)) as f:
            text = f.read()
        paths = re.findall(r"`((?:scripts|conf|docs|tests|bench|protocol|"
                           r"server|python)/[\w./-]+)`", text)
        assert paths
        for path in paths:
            if "build/" not in path:
                assert os.path.exists(os.path.join(srv.TOP, path)), path
