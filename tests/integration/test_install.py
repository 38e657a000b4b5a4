# SPDX-License-Identifier: MIT
"""What `cmake --install` puts where, as a package would."""

import os
import re
import shutil
import subprocess

import pytest

from lib import server as srv

pytestmark = pytest.mark.skipif(shutil.which("cmake") is None,
                                reason="no cmake")


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The root folder of an installation, and its prefix below that."""
    with open(os.path.join(srv.build_dir(), "CMakeCache.txt")) as f:
        prefix = re.search(r"^CMAKE_INSTALL_PREFIX:PATH=(.*)$", f.read(),
                           re.MULTILINE).group(1)
    root = str(tmp_path_factory.mktemp("root"))
    subprocess.run(["cmake", "--install", srv.build_dir()], check=True,
                   env=dict(os.environ, DESTDIR=root),
                   stdout=subprocess.DEVNULL)
    return root, prefix


def there(installed, *parts):
    root, prefix = installed
    return os.path.join(root + prefix, *parts)


def test_programs(installed):
    program = there(installed, "sbin", "forebay")
    assert subprocess.run([program, "--help"],
                          stdout=subprocess.DEVNULL).returncode == 0
    workers = os.listdir(there(installed, "libexec", "forebay"))
    assert [n for n in workers if n.startswith("forebay-worker-3.")]
    # Another name, under which it takes other options.
    link = there(installed, "libexec", "forebay", "spawn-fcgi")
    assert os.readlink(link) == "../../sbin/forebay"
    found = subprocess.run([link, "-h"], stdout=subprocess.PIPE)
    assert found.stdout.startswith(b"usage: spawn-fcgi ")


@pytest.mark.parametrize("page", ["man8/forebay.8", "man5/forebay.conf.5",
                                  "man1/forebay-spawn.1"])
def test_manual(installed, page):
    assert os.path.getsize(there(installed, "share", "man", page)) > 1000


def test_units_name_what_is_installed(installed):
    root, _ = installed
    folder = there(installed, "lib", "systemd", "system")
    assert sorted(os.listdir(folder)) == [
        "forebay.service", "forebay@.service", "forebay@.socket"]
    for name in ("forebay.service", "forebay@.service"):
        with open(os.path.join(folder, name)) as f:
            text = f.read()
        assert "@CMAKE" not in text
        path = re.search(r"^ExecStart=(\S+)", text, re.MULTILINE).group(1)
        assert os.access(root + path, os.X_OK), path


def test_documentation(installed):
    """What the page of the front ends calls a neighbour is one, and scripts can
    be run."""
    folder = there(installed, "share", "doc", "forebay")
    for name in ("README.md", "CHANGELOG.md", "LICENSE", "forebay.conf",
                 "module.md", "migrating.md"):
        assert os.path.getsize(os.path.join(folder, name)) > 100, name
    with open(os.path.join(folder, "frontends.md")) as f:
        files = re.findall(r"^\|[^|]*\| `([a-z0-9-]+/[^`]+)` \|", f.read(),
                           re.MULTILINE)
    assert len(files) > 30
    for name in files:
        assert os.path.exists(os.path.join(folder, "frontends", name)), name
    assert os.access(os.path.join(folder, "frontends", "cgi-fcgi", "request"),
                     os.X_OK)
    # The sample is as it is used: nothing is set in it.
    found = subprocess.run(
        [srv.program(), "check", "-c", os.path.join(folder, "forebay.conf")],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert found.returncode == 78
    assert b"forebay.conf" in found.stdout
