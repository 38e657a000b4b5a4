# SPDX-License-Identifier: MIT
"""Machines on one wire: network namespaces joined by a bridge, which the
front end's machine has. This process is on the same wire."""

import os
import shutil
import subprocess

from .wait import wait_for

SBIN = os.pathsep.join([os.environ["PATH"], "/usr/sbin", "/sbin"])


def run(*words):
    return subprocess.run([str(w) for w in words], check=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          env=dict(os.environ, PATH=SBIN))


def why_not():
    """Why there can be no namespaces here, or None."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    for name in ("ip", "nsenter"):
        if shutil.which(name, path=SBIN) is None:
            return "%s is not installed" % name
    name = "fbprobe%d" % os.getpid()
    try:
        run("ip", "netns", "add", name)
        try:
            run("ip", "-n", name, "link", "set", "lo", "up")
            run("ip", "link", "add", name[:13] + "a", "type", "veth", "peer",
                "name", name[:13] + "b", "netns", name)
        finally:
            run("ip", "netns", "del", name)
    except subprocess.CalledProcessError as e:
        return "no network namespaces here: %s" % (
            e.stdout.decode(errors="replace").strip())
    return None


class Network:
    """with Network("one", "two") as net: machines "front", "one" and "two".
    net.address[name], and net.prefix(name): words in front of a command that
    runs there."""

    def __init__(self, *names):
        # The last two bytes of 10.0.0.0/8 addresses differ between runs.
        number = os.getpid()
        self.base = "10.%d.%d." % (200 + number % 50, number // 50 % 256)
        self.mark = "fb%d" % number
        self.names = ("front", *names)
        self.address = {name: self.base + str(10 + i)
                        for i, name in enumerate(self.names)}
        self.made = []

    def space(self, name):
        return "%s-%s" % (self.mark, name)

    def prefix(self, name):
        return ["nsenter", "--net=/run/netns/" + self.space(name), "--"]

    def inside(self, name, *words):
        run("ip", "-n", self.space(name), *words)

    def __enter__(self):
        try:
            self.build()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_):
        self.close()

    def build(self):
        for name in self.names:
            run("ip", "netns", "add", self.space(name))
            self.made.append(name)
            self.inside(name, "link", "set", "lo", "up")
        self.inside("front", "link", "add", "wire", "type", "bridge")
        self.inside("front", "addr", "add", self.address["front"] + "/24",
                    "dev", "wire")
        self.inside("front", "link", "set", "wire", "up")
        for name in self.names[1:]:
            self.plug(name, "-n", self.space(name))
            self.inside(name, "addr", "add", self.address[name] + "/24",
                        "dev", "net0")
            self.inside(name, "link", "set", "net0", "up")
        # This process.
        self.plug("self")
        run("ip", "addr", "add", self.base + "1/24", "dev", self.mark)
        run("ip", "link", "set", self.mark, "up")
        for name in self.names[1:]:
            wait_for(lambda n=name: self.reaches(n), name + " is on the wire")

    def plug(self, name, *where):
        """A cable from the bridge to a machine (without where: to us)."""
        run("ip", *where, "link", "add", "net0" if where else self.mark,
            "type", "veth", "peer", "name", "to-" + name, "netns",
            self.space("front"))
        self.inside("front", "link", "set", "to-" + name, "master", "wire",
                    "up")

    def reaches(self, name):
        """From the front end's machine: a refused connection is an answer."""
        probe = ("import socket, sys\n"
                 "s = socket.socket()\n"
                 "s.settimeout(1)\n"
                 "try:\n    s.connect((sys.argv[1], 1))\n"
                 "except ConnectionRefusedError:\n    sys.exit(0)\n"
                 "except OSError:\n    pass\n"
                 "sys.exit(1)\n")
        return subprocess.run([*self.prefix("front"), "/usr/bin/python3",
                               "-c", probe, self.address[name]]
                              ).returncode == 0

    def close(self):
        subprocess.run(["ip", "link", "del", self.mark],
                       env=dict(os.environ, PATH=SBIN),
                       stderr=subprocess.DEVNULL)
        for name in reversed(self.made):
            run("ip", "netns", "del", self.space(name))
        self.made = []
