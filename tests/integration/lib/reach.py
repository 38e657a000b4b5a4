# SPDX-License-Identifier: MIT
"""Where the programs and the applications are for everybody.

Some tests, run as root, start a front end or a pool that becomes another user.
In a checkout that only root can enter (below /root, say) that user could not
execute or read anything: then the tests use a copy below /tmp."""

import atexit
import os
import shutil
import stat
import tempfile

_VARIABLE = "FOREBAY_TEST_COPY"     # so that the processes of a run share one


def is_open(path):
    """Others may enter path and what is above it."""
    path = os.path.realpath(path)
    while True:
        if not os.stat(path).st_mode & stat.S_IXOTH:
            return False
        if path == "/":
            return True
        path = os.path.dirname(path)


def _remove(path, owner):
    if os.getpid() == owner:
        shutil.rmtree(path, ignore_errors=True)


def _copy(top, build):
    path = tempfile.mkdtemp(prefix="fb-copy-", dir="/tmp")
    atexit.register(_remove, path, os.getpid())
    os.chmod(path, 0o755)
    leave = shutil.ignore_patterns("CMakeFiles", "*.a", "*.o", "*.xml",
                                   "_deps", "Testing", "__pycache__")
    for name in ("tests/apps", "conf"):
        shutil.copytree(os.path.join(top, name), os.path.join(path, name),
                        ignore=leave, symlinks=True)
    shutil.copytree(build, os.path.join(path, "build",
                                        os.path.basename(build)),
                    ignore=leave, symlinks=True)
    return path


def reachable(top, build):
    """(top, build), or the copies of them that everybody can enter."""
    if os.geteuid() != 0 or (is_open(top) and is_open(build)):
        return top, build
    if _VARIABLE not in os.environ:
        if not os.path.isdir(build):
            return top, build
        os.environ[_VARIABLE] = _copy(top, build)
    path = os.environ[_VARIABLE]
    return path, os.path.join(path, "build", os.path.basename(build))
