# SPDX-License-Identifier: MIT
"""The application that is measured, and what each answer of it has to be."""
import glob
import json
import os
import re
import subprocess

from .loadapp import split
from .servers import BENCH, WORKLOADS, Failed, Missing

SHIM = os.path.join(BENCH, "shim")


def shipped():
    return sorted(os.path.basename(path)[:-3]
                  for path in glob.glob(os.path.join(WORKLOADS, "*.py")))


class Application:
    """APP as forebay takes it, or the name of a shipped workload."""

    def __init__(self, spec, chdir=None, pythonpath=(), uri="/",
                 method=None, body_bytes=0, python="/usr/bin/python3"):
        self.name = spec
        self.chdir = os.path.abspath(chdir or os.curdir)
        self.pythonpath = [os.path.abspath(p) for p in pythonpath]
        self.uri = uri
        self.body_bytes = body_bytes
        self.method = method or ("POST" if body_bytes else "GET")
        self.python = python
        self.workload = split(spec)[0] in shipped() and not os.path.exists(
            os.path.join(self.chdir, split(spec)[0] + ".py"))
        if self.workload:
            self.pythonpath.insert(0, WORKLOADS)
        target, name = split(spec)
        if target.endswith(".py"):
            target = os.path.join(self.chdir, target)
        self.spec = target if name is None else target + ":" + name
        self.reference = None       # what reference.py printed
        self.body_file = None

    def environment(self):
        """For servers that load it by shim/compared.py."""
        return {"FOREBAY_COMPARE_APP": self.spec,
                "FOREBAY_COMPARE_CHDIR": self.chdir,
                "FOREBAY_COMPARE_PATH": ":".join(
                    [*self.pythonpath, self.chdir])}

    def ask(self, setup):
        """Call it once without a server, and keep what it answered."""
        self.body_file = setup.path("expected")
        done = subprocess.run(
            [self.python, "-B", os.path.join(SHIM, "reference.py"), self.uri,
             self.method, str(self.body_bytes), self.body_file],
            capture_output=True, text=True, timeout=120,
            env={**os.environ, **setup.env, **self.environment()})
        missing = re.search(r"^ModuleNotFoundError: No module named '(.*)'",
                            done.stderr, re.MULTILINE)
        if missing:
            raise Missing("%s needs the module %s, which %s does not have"
                          % (self.name, missing.group(1), self.python))
        if done.returncode != 0:
            raise Failed("%s cannot be called without a server:\n%s" % (
                self.name, done.stderr[-2000:]))
        self.reference = json.loads(done.stdout.splitlines()[-1])
        if not self.reference["same_status"]:
            raise Failed("%s answers %s with one status now and with another "
                         "then: nothing can be checked" % (self.name,
                                                           self.uri))

    @property
    def length(self):
        """Of each answer's body, or None when it changes."""
        return (self.reference["length"] if self.reference["same_length"]
                else None)

    def request_options(self):
        """Of forebay-load."""
        found = ["--uri", self.uri, "--method", self.method]
        if self.body_bytes:
            found += ["--body-size", self.body_bytes]
        return found

    def check_options(self):
        """Of forebay-load: as much of the answer as is always the same."""
        found = ["--check-status", self.reference["status"]]
        if self.reference["same_body"]:
            found += ["--check-file", self.body_file]
        elif self.length is not None:
            found += ["--check-length", self.length]
        return found

    def checked(self):
        """In words."""
        what = "status %d" % self.reference["status"]
        if self.reference["same_body"]:
            return what + ", all %d bytes of the body" % self.length
        if self.length is not None:
            return what + ", length (%d bytes); the bytes differ from " \
                "request to request" % self.length
        return what + ", announced length; the body differs from request " \
            "to request"
