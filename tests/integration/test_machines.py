# SPDX-License-Identifier: MIT
"""Several machines: a web server on one, pools on two others, each in a network
of its own. One is killed, one drained, one comes back, all under load, and no
idempotent request fails (docs/several-machines.md)."""

import collections
import errno
import os
import signal
import socket
import threading

import pytest

from lib import ctl, fcgi, network, proc, shipped
from lib import server as srv
from lib.load import Http, Load
from lib.wait import TIMEOUT, wait_for

APP = os.path.join(srv.APPS, "frontends", "small.py")
PORT = 9000


@pytest.fixture(scope="module")
def wire():
    why = network.why_not()
    if why:
        pytest.skip(why)
    with network.Network("one", "two") as net:
        yield net


class Machines:
    """The pools of both machines, and who answered how often."""

    def __init__(self, net, notes):
        self.net = net
        self.notes = notes
        self.folder = srv.temp_dir()
        self.servers = {}
        self.started = []
        self.answers = collections.Counter()

    def control(self, name):
        return os.path.join(self.folder, name + ".control")

    def start(self, name):
        server = srv.start(
            APP, address=(self.net.address[name], PORT),
            prefix=self.net.prefix(name), listen="0.0.0.0:%d" % PORT,
            allow=self.net.address["front"],
            control=self.control(name), workers=2, name=name,
            env=dict(self.notes.env(), FOREBAY_TEST_HOST=name))
        self.servers[name] = server
        self.started.append(server)

    def kill(self, name):
        """All at once, as if the power were gone."""
        server = self.servers.pop(name)
        server.remember()
        for pid in [server.pid] + proc.descendants(server.pid):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        wait_for(lambda: not server.strays(), "its end")

    def drain(self, name):
        server = self.servers.pop(name)
        ctl.Ctl(self.control(name))("drain")
        assert server.wait_exit() == 0

    def seen(self, body):
        self.answers[body.decode()] += 1

    def wait_seen(self, name, load, count=20):
        """Until that machine has answered so often from now on."""
        end = self.answers[name] + count

        def there():
            load.audit()
            return self.answers[name] >= end
        wait_for(there, lambda: "answers of %s: %r" % (name, self.answers),
                 4 * TIMEOUT)

    def close(self):
        try:
            for server in self.servers.values():
                server.stop()
        finally:
            for server in self.started:
                server.close()
            for name in os.listdir(self.folder):
                os.unlink(os.path.join(self.folder, name))
            os.rmdir(self.folder)


@pytest.fixture
def machines(wire, notes):
    found = Machines(wire, notes)
    try:
        for name in ("one", "two"):
            found.start(name)
        yield found
    finally:
        found.close()


@pytest.fixture
def front(request, machines):
    """The web server on its own machine, with the file as it is."""
    way = request.param
    why = way.why_not()
    if why:
        pytest.skip(why)
    net = machines.net
    web = way({"10.0.0.11": net.address["one"],
               "10.0.0.12": net.address["two"]})
    web.host = net.address["front"]
    web.prefix = net.prefix("front")
    try:
        yield web.start()
        web.stop()
    finally:
        web.close()


each = pytest.mark.parametrize("front", shipped.MACHINES, indirect=True,
                               ids=lambda w: w.file)


@each
def test_no_request_fails_while_machines_come_and_go(machines, front):
    with Load(lambda: Http(front, "/x"), 6, seen=machines.seen) as load:
        machines.wait_seen("one", load)
        machines.wait_seen("two", load)
        machines.kill("two")
        machines.wait_seen("one", load, 100)
        machines.start("two")
        machines.wait_seen("two", load)
        machines.drain("one")
        machines.wait_seen("two", load, 100)
        machines.start("one")
        machines.wait_seen("one", load)
        machines.wait_seen("two", load)


@each
def test_a_drained_machine_finishes_what_it_does(machines, front, notes):
    results = []

    def client():
        connection = front.connect()
        connection.request("GET", "/hold")
        results.append(connection.getresponse().read())
        connection.close()
    threads = [threading.Thread(target=client) for _ in range(2)]
    for t in threads:
        t.start()
    name = notes.wait("hold", 2)[0]
    server = machines.servers[name]
    drain = threading.Thread(target=machines.drain, args=[name])
    drain.start()
    server.log.wait("drain")
    with Load(lambda: Http(front, "/x"), 2, seen=machines.seen) as load:
        # What was on its way there is answered; then there is nothing more.
        def without():
            before = machines.answers[name]
            load.wait(20)
            return machines.answers[name] == before
        wait_for(without, lambda: repr(machines.answers))
    assert server.running() and not results
    with open(os.path.join(notes.dir, "gate"), "w"):
        pass
    for t in threads:
        t.join()
    assert name.encode() in results and len(results) == 2
    drain.join()
    assert not server.running()


@pytest.mark.parametrize("order", ["drain", "stop"])
@pytest.mark.parametrize("waiting", [False, True])
def test_a_busy_pool_that_ends_refuses_connections(serve, notes, order,
                                                   waiting):
    """Its only worker is busy and still has the listening socket: a front end
    must not be told "connected". One that already was, is not left waiting for
    the whole of the request either."""
    control = os.path.join(notes.dir, "control")
    server = serve(APP, tcp=True, workers=1, control=control,
                   env=notes.env(), graceful_timeout="60s")
    server.graceful = 60
    busy = server.peer(timeout=4 * TIMEOUT)
    busy.send(fcgi.encode(fcgi.params_for("/hold")))
    notes.wait("hold")
    other = server.peer(timeout=4 * TIMEOUT) if waiting else None
    ending = ctl.Ctl(control).start(order)

    def refused():
        with socket.socket() as s:
            return s.connect_ex(server.address) == errno.ECONNREFUSED
    wait_for(refused, "connections are refused")
    if waiting:
        with pytest.raises(ConnectionResetError):
            while other.sock.recv(100):
                pass
            raise ConnectionResetError
        other.close()
    assert server.running()
    with open(os.path.join(notes.dir, "gate"), "w"):
        pass
    assert busy.answer().status == 200
    assert ending.wait(4 * TIMEOUT) == 0
    ending.communicate()
    assert server.wait_exit() == 0
