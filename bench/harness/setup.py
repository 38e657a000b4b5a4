# SPDX-License-Identifier: MIT
"""Where programs and files of a measurement are."""
import os

from .servers import BENCH, Failed

TOP = os.path.dirname(BENCH)


class Setup:
    """The built programs and a temporary folder, which the caller makes and
    removes."""

    def __init__(self, folder):
        build = os.environ.get("FOREBAY_BUILD",
                               os.path.join(TOP, "build", "release"))
        self.folder = folder
        self.env = {}               # what servers get besides our own
        self.python = "/usr/bin/python3"    # runs servers made of Python
        self.virtualenv = None
        self.forebay_options = []   # more settings of every pool
        os.chmod(folder, 0o755)     # servers may be other users
        self.forebay = self.program(build, "forebay")
        self.load = self.program(build, "bench/forebay-load")
        self.libfcgi = self.program(build, "bench/forebay-bench-libfcgi")
        self.bare = self.program(build, "bench/forebay-bench-bare")

    @staticmethod
    def program(build, name):
        path = os.path.join(build, name)
        if not os.access(path, os.X_OK):
            raise Failed(
                "%s is not there: build first (cmake --preset release && "
                "cmake --build --preset release), or set FOREBAY_BUILD"
                % path)
        return path

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text):
        """A file of that name in the folder; its path."""
        with open(self.path(name), "w") as f:
            f.write(text)
        return self.path(name)

    def folder_for(self, name):
        """A folder of that name in the folder, for any user's files."""
        os.makedirs(self.path(name), exist_ok=True)
        os.chmod(self.path(name), 0o777)
        return self.path(name)
