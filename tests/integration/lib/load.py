# SPDX-License-Identifier: MIT
"""Requests in a loop on several threads, while a test does something else:
each answer has to be whole and right, and the first that is not is told."""

import http.client
import threading

from . import fcgi
from .wait import TIMEOUT, wait_for


class Wrong(AssertionError):
    pass


def check(answer, what):
    if not answer.complete or answer.status != 200:
        raise Wrong("%s: %r" % (what, answer))
    return answer


class Direct:
    """One client that speaks FastCGI to the server, kept or not."""

    def __init__(self, address, path="/", keep=False, **how):
        self.address, self.keep = address, keep
        params = fcgi.params_for(path, **how)
        self.bytes = fcgi.encode(params, how.get("body") or b"",
                                 flags=fcgi.KEEP_CONN if keep else 0)
        self.peer = None

    def __call__(self):
        if self.peer is None:
            self.peer = fcgi.Peer(self.address, timeout=2 * TIMEOUT)
        self.peer.send(self.bytes)
        answer = check(self.peer.answer(keep=self.keep),
                       "kept" if self.keep else "not kept")
        if not self.keep:
            self.close()
        return answer.body

    def close(self):
        if self.peer is not None:
            self.peer.close()
            self.peer = None


class Http:
    """One client of a front end, on a connection that it keeps."""

    def __init__(self, web, path="/", method="GET", body=None):
        self.web, self.path = web, path
        self.method, self.body = method, body
        self.connection = None

    def __call__(self):
        if self.connection is None:
            self.connection = self.web.connect()
        self.connection.request(self.method, self.path, self.body)
        try:
            response = self.connection.getresponse()
            body = response.read()
        except http.client.HTTPException as e:
            raise Wrong("%s: %r" % (self.web.program, e)) from e
        if response.status != 200:
            raise Wrong("%s: %d %r\n%s" % (
                self.web.program, response.status, body[:200],
                self.web.log()[-2000:]))
        return body

    def close(self):
        if self.connection is not None:
            self.connection.close()
            self.connection = None


class Load:
    """with Load(make, 4) as load: every thread has a client of make() and
    asks until the end. bearable(exception) says which failures do not count;
    the client begins anew after one."""

    def __init__(self, make, threads=4, bearable=None, seen=None):
        self.make, self.bearable, self.seen = make, bearable, seen
        self.answered = 0
        self.borne = 0
        self.failure = None
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._run, daemon=True)
                         for _ in range(threads)]

    def _run(self):
        client = self.make()
        try:
            while not self._stop.is_set() and self.failure is None:
                self._ask(client)
        except BaseException as e:
            self.failure = self.failure or e
        finally:
            client.close()

    def _ask(self, client):
        try:
            body = client()
        except (AssertionError, OSError) as e:
            client.close()
            if self.bearable is None or not self.bearable(e):
                raise
            self.borne += 1
            self._stop.wait(0.005)
            return
        with self._lock:
            self.answered += 1
            if self.seen is not None:
                self.seen(body)

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        self.wait(len(self._threads))
        return self

    def __exit__(self, kind, value, trace):
        self._stop.set()
        for thread in self._threads:
            thread.join(4 * TIMEOUT)
        if kind is None:
            self.audit()
            assert not any(t.is_alive() for t in self._threads), (
                "clients that wait for ever")

    def audit(self):
        if self.failure is not None:
            raise AssertionError("after %d answers: %r" % (
                self.answered, self.failure)) from self.failure

    def wait(self, more=20):
        """Until so many more requests were answered."""
        end = self.answered + more

        def there():
            self.audit()
            return self.answered >= end
        wait_for(there, lambda: "%d answers more than %d" % (
            end - self.answered, self.answered), 2 * TIMEOUT)
