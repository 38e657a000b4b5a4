# SPDX-License-Identifier: MIT
"""The run of scripts/compare. First each server by itself (start, memory,
system calls, reload), then all of them side by side: in each round every path
is loaded once at every concurrency, every second round backwards."""
import contextlib

from . import frontends, observe
from .frontends import Backend
from .generators import GENERATORS, Load
from .matrix import too_many
from .measure import difference_us
from .peers import PhpFpm
from .progress import Progress
from .results import Cell, ServerRow
from .servers import Failed

ALONE_S = 3.0           # what one server by itself takes, without reload
RELOAD_S = observe.RELOAD_MS / 1000 + 1
PATH_S = 1.5            # the first look at a path
OVERHEAD_S = 0.15       # of each run


class PathSetup:
    """A path whose servers run."""

    def __init__(self, path, server, front, address):
        self.path, self.server, self.front = path, server, front
        self.address = address
        self.syscalls = (None, None)

    @property
    def measured(self):
        """What answers: with the front end alone, nothing is behind it."""
        return self.server or self.front


class Comparison:
    """options: clients, rounds, duration_ms, generator, reload, syscalls.
    Results are in cells, servers and broken."""

    def __init__(self, setup, app, plan, options, progress_out):
        self.setup, self.app, self.plan = setup, app, plan
        self.options = options
        self.check = GENERATORS["forebay-load"]
        self.generate = GENERATORS[options.generator]
        self.cells, self.servers, self.broken = [], [], []
        self.notes = []
        self.progress = Progress(self.estimate_s(), progress_out)

    def estimate_s(self):
        o = self.options
        alone = ALONE_S + o.duration_ms / 1000 + (RELOAD_S if o.reload else 0)
        runs = len(self.plan.paths) * len(o.clients)
        return (len(self.plan.targets) * alone +
                len(self.plan.paths) * PATH_S +
                runs * (o.rounds + 0.3) * (o.duration_ms / 1000 +
                                           OVERHEAD_S))

    def note(self, text):
        if text and text not in self.notes:
            self.notes.append(text)

    # Each by itself

    def load_for(self, path, address, clients, keep=None):
        return Load(address, path.load_protocol,
                    path.keep if keep is None else keep, clients,
                    self.options.duration_ms, None, self.path_app(path))

    def path_app(self, path):
        """The application, with what PHP wants on the wire."""
        if path.target.kind and isinstance(path.target.kind, PhpFpm):
            return WithScript(self.app, PhpFpm.script)
        return self.app

    def alone(self, number, target):
        kind = target.kind
        server = kind.start("alone-%d" % number, self.setup, self.app,
                            target.shape)
        row = ServerRow(target)
        protocol = kind.protocols[0]
        with contextlib.ExitStack() as stack:
            stack.callback(server.stop)
            server.wait_ready()
            address = server.sockets[protocol]
            if protocol == "uwsgi":     # no generator speaks that
                front = frontends.nginx("alone-%d-front" % number, self.setup,
                                        {"": Backend(address, protocol)})
                stack.callback(front.stop)
                front.wait_ready()
                address, protocol = front.sockets[""], "http"
            self.look_at(server, target, row, address, protocol)
        self.servers.append(row)

    def look_at(self, server, target, row, address, protocol):
        kind = target.kind
        path = next(p for p in self.plan.paths if p.target is target)
        app = self.path_app(path)
        took_ms = observe.first_answer_ms(self.setup, server, address,
                                          protocol, app, self.check)
        if protocol in kind.protocols:      # else nginx's start is in it
            row.values["startup_ms"] = took_ms
        clients = max(self.options.clients)
        load = Load(address, protocol, False, clients,
                    self.options.duration_ms, None, app)

        def under_load():
            found = self.check(self.setup, load)
            row.values["processes"] = len(server.pids())
            if found["ok"] == 0:
                raise Failed("%s: no good answer under load: %s" % (
                    server.name, found["example"]))

        row.values.update(observe.memory(server, under_load))
        if self.options.reload and kind.reload_signal:
            row.values.update(observe.reload_gap(
                self.setup, server, load._replace(clients=4), self.check,
                kind.reload_signal))

    # Side by side

    @contextlib.contextmanager
    def running(self):
        """All servers and front ends; a list of PathSetup."""
        with contextlib.ExitStack() as stack:
            servers = {}
            for number, target in enumerate(self.plan.targets):
                if any(b[0] == target.label for b in self.broken):
                    continue
                servers[target] = server = target.kind.start(
                    "server-%d" % number, self.setup, self.app, target.shape)
                stack.callback(server.stop)
            for server in servers.values():
                server.wait_ready()
            yield self.fronts(stack, servers)

    def fronts(self, stack, servers):
        found = []
        for kind in dict.fromkeys(p.front for p in self.plan.paths):
            paths = [p for p in self.plan.paths if p.front == kind and
                     (p.target.kind is None or p.target in servers)]
            if kind in ("none", "itself"):
                found += [PathSetup(p, servers[p.target], None,
                                    servers[p.target].sockets[p.protocol])
                          for p in paths]
                continue
            backends = {}
            for p in paths:     # client keep-alive makes no difference here
                backends.setdefault(self.backend_name(p),
                                    self.backend(p, servers))
            front = frontends.make(kind, self.setup, backends)
            stack.callback(front.stop)
            front.wait_ready()
            found += [PathSetup(p, servers.get(p.target), front,
                                front.sockets[self.backend_name(p)])
                      for p in paths]
        order = {p: n for n, p in enumerate(self.plan.paths)}
        return sorted(found, key=lambda s: order[s.path])

    def backend_name(self, path):
        return "%d-%s" % (-1 if path.target.kind is None else
                          self.plan.targets.index(path.target),
                          path.protocol)

    def backend(self, path, servers):
        if path.target.kind is None:
            return Backend(self.app.body_file, "file")
        script = (PhpFpm.script if isinstance(path.target.kind, PhpFpm)
                  else None)
        return Backend(servers[path.target].sockets[path.protocol],
                       path.protocol, frontends.FRONT_ENDS[path.front][1],
                       script)

    def first_look(self, there):
        """One answer has to be right; then the system calls."""
        path = there.path
        load = self.load_for(path, there.address, 1)
        found = self.check(self.setup, load._replace(
            duration_ms=None, requests=3), 30000)
        if found["failed"]:
            raise Failed(found["example"].replace("\n", " | "))
        if self.options.syscalls and there.server:
            there.syscalls, why = observe.system_calls(
                self.setup, there.server, there.front, load, self.check)
            self.note(why and "system calls are not counted: " + why)

    def usable(self, setups):
        found = []
        for there in setups:
            self.progress.step("first look: " + there.path.text())
            try:
                self.first_look(there)
                found.append(there)
            except Failed as error:
                self.broken.append((there.path.text(), str(error)))
            self.progress.done(PATH_S)
        return found

    def make_cells(self, setups):
        for there in setups:
            for clients in self.options.clients:
                why = there.path.target.kind and too_many(
                    there.path.target.kind, there.path, clients)
                if why:
                    self.plan.leave_out("%s at %d connections" % (
                        there.path.kind_text(), clients), why)
                else:
                    yield Cell(there, clients)

    def run_once(self, cell, duration_ms):
        there = cell.there
        before = there.server.run_ns() if there.server else {}
        front = there.front.run_ns() if there.front else {}
        load = self.load_for(there.path, there.address, cell.clients)
        found = self.generate(self.setup,
                              load._replace(duration_ms=duration_ms))
        good = max(found["ok"], 1)
        found["cpu_us"] = found["front_us"] = 0.0
        if there.server:
            found["cpu_us"] = difference_us(before,
                                            there.server.run_ns()) / good
        if there.front:
            found["front_us"] = difference_us(front,
                                              there.front.run_ns()) / good
        return found

    def rounds(self, cells):
        o = self.options
        for number in range(-1, o.rounds):
            # Round -1 warms up and does not count.
            ms = o.duration_ms if number >= 0 else o.duration_ms * 3 // 10
            for cell in cells if number % 2 == 0 else cells[::-1]:
                self.progress.step("round %d of %d: %s, c=%d" % (
                    number + 1, o.rounds, cell.there.path.text(),
                    cell.clients))
                found = self.run_once(cell, ms)
                if number >= 0:
                    cell.results.append(found)
                self.progress.done((ms / 1000 + OVERHEAD_S))

    def rounds_until_interrupted(self, cells):
        """Ctrl-C ends the measuring; what is there is shown."""
        try:
            self.rounds(cells)
        except KeyboardInterrupt:
            self.note("Interrupted: some rows have fewer rounds than others, "
                      "or are missing.")
        self.cells = [c for c in cells if c.results]

    def run(self):
        try:
            for number, target in enumerate(self.plan.targets):
                self.progress.step("by itself: " + target.label)
                try:
                    self.alone(number, target)
                except Failed as error:
                    self.broken.append((target.label, str(error)))
                self.progress.done(
                    ALONE_S + self.options.duration_ms / 1000 +
                    (RELOAD_S if self.options.reload else 0))
            with self.running() as setups:
                self.cells = list(self.make_cells(self.usable(setups)))
                self.rounds_until_interrupted(self.cells)
        finally:
            self.progress.close()


class WithScript:
    """An application whose requests name a script, as PHP wants it."""

    def __init__(self, app, script):
        self.app = app
        self.more_options = ["--param", "SCRIPT_FILENAME=" + script]

    def __getattr__(self, name):
        return getattr(self.app, name)
