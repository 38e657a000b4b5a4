# SPDX-License-Identifier: MIT
"""tests/apps/manager/versions.py on a server, and what a test does to it."""

import json
import os
import signal

from . import fcgi, proc
from .server import APPS
from .wait import TIMEOUT, wait_for

MANAGER = os.path.join(APPS, "manager")


class Site:
    """The server and its notes; put() changes what the next import reads."""

    def __init__(self, server, notes):
        self.server, self.notes = server, notes

    def put(self, name, text):
        """Whole or not at all: a template may be reading it."""
        path = os.path.join(self.notes.dir, name)
        with open(path + ".new", "w") as f:
            f.write(text)
        os.rename(path + ".new", path)

    def ask(self, path="/", **how):
        answer = self.server.request(path, **how)
        assert answer.status == 200 and answer.complete, answer
        return json.loads(answer.body)

    def hup(self):
        self.server.process.send_signal(signal.SIGHUP)

    def ready(self):
        return len(self.server.log.find(r": ready\b", 0))

    def refused(self):
        return len(self.server.log.find("reload refused", 0))

    def wait_ready(self, count):
        wait_for(lambda: self.ready() >= count, lambda: "%d times ready:\n%s"
                 % (count, self.server.log.text()[-3000:]), 2 * TIMEOUT)

    def reload(self):
        """And wait until the new generation serves alone."""
        before = self.ready()
        self.hup()
        self.wait_ready(before + 1)
        self.wait_single()

    def wait_single(self):
        """The old generations have ended: one template is left."""
        wait_for(lambda: len(self.templates()) == 1,
                 lambda: "one template: %r" % self.server.ps(), 2 * TIMEOUT)

    def templates(self):
        return [p for p in proc.children(self.server.pid) if proc.alive(p)]

    def hold(self, path="/hold"):
        """A request that stays in the application until release()."""
        peer = self.server.peer(timeout=2 * TIMEOUT)
        before = len(self.notes.read("holding"))
        peer.send(fcgi.begin() + fcgi.stream(fcgi.PARAMS, fcgi.pairs(
            fcgi.params_for(path, "POST", body=b"go"))))
        self.notes.wait("holding", before + 1)
        return peer

    @staticmethod
    def release(peer):
        peer.send(fcgi.stream(fcgi.STDIN, b"go"))
        answer = peer.answer()
        peer.close()
        assert answer.status == 200 and answer.complete, answer
        return json.loads(answer.body)


def start(serve, notes, app="versions:application", **options):
    """Start it with the fixtures serve and notes."""
    env = dict(notes.env(), **options.pop("env", {}))
    site = Site(None, notes)
    site.put("version", "1")
    site.server = serve(app, env=env, **dict({"chdir": MANAGER}, **options))
    return site
