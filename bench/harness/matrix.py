# SPDX-License-Identifier: MIT
"""Which servers are started, and on which paths they are loaded: the options
of scripts/compare, multiplied, without what cannot be. Pure."""
from .frontends import FRONT_ENDS
from .peers import FOREBAY, FRONT_ALONE, PEERS, Shape


class Target:
    """A server that is started once and loaded on several paths. kind None:
    the front end alone."""

    def __init__(self, name, kind, shape):
        self.name = name        # "forebay" or as --peers has it
        self.kind = kind
        self.shape = shape
        self.label = kind.label(shape) if kind else "front end alone"


class Path:
    """How requests reach a target."""

    def __init__(self, target, protocol, front, keep):
        self.target = target
        self.protocol = protocol    # what the target is spoken to
        self.front = front          # "none", "itself", or of FRONT_ENDS
        self.keep = keep            # the client keeps its connections
        self.label = target.label

    @property
    def load_protocol(self):
        return self.protocol if self.front == "none" else "http"

    def kind_text(self):
        """Without its shape."""
        kind = self.target.kind
        words = [kind.name]
        if len(kind.protocols) > 1:
            words.append({"fcgi": "FastCGI", "scgi": "SCGI"}[self.protocol])
        words.append({"none": "directly", "itself": "alone"}
                     .get(self.front, "behind " + self.front))
        return " ".join(words)

    def text(self):
        """For a person."""
        return "%s, %s, %s" % (
            self.label, {"none": "direct by " + self.protocol,
                         "itself": "by itself"}.get(
                             self.front, "behind " + self.front),
            "kept connections" if self.keep else "new connections")


class Plan:
    def __init__(self):
        self.targets, self.paths = [], []
        self.left_out = []          # (what, why)

    def leave_out(self, what, why):
        if (what, why) not in self.left_out:
            self.left_out.append((what, why))


def shapes(modes, workers, threads, socket):
    found = []
    if "prefork" in modes:
        found += [Shape(w, 1, socket) for w in workers]
    if "threaded" in modes:
        found += [Shape(w, t, socket) for w in workers for t in threads
                  if t > 1]
    if "interpreters" in modes:
        found += [Shape(w, t, socket, "interpreters") for w in workers
                  for t in threads]
    return found


def why_not(kind, protocol, front, keep):
    """Why a path cannot be, or None. "" means: not worth a word."""
    if kind.itself != (front == "itself"):
        return ""
    if front == "itself":
        return None
    if kind.fronts is not None and front not in kind.fronts:
        return "" if front == "none" else "it is not set up there"
    if front == "none":
        if protocol == "uwsgi":
            return ""
        if keep and protocol == "scgi":
            return "its protocol has no kept connections"
        if keep and not kind.keeps:
            return "it closes each connection"
    elif FRONT_ENDS[front][1]:
        if protocol == "scgi" or protocol == "uwsgi":
            return "its protocol has no kept connections"
        if not kind.keeps:
            return "it closes each connection"
        if kind.pins:
            return ("a kept connection owns a worker of it: others would "
                    "time out")
    return None


def too_many(kind, path, clients):
    """A direct connection that is kept owns a worker of some servers."""
    workers = path.target.shape.workers * path.target.shape.threads
    if kind.pins and path.front == "none" and path.keep and clients > workers:
        return "a kept connection owns a worker of it: others would time out"
    return None


def add_target(plan, options, name, kind, shape, protocols):
    target = Target(name, kind, shape)
    if len(options.sockets) > 1 and name == "forebay":
        target.label += " " + shape.socket
    before = len(plan.paths)
    for front in [*options.fronts, "itself"]:
        for protocol in protocols:
            for keep in options.keeps:
                why = why_not(kind, protocol, front, keep)
                path = Path(target, protocol, front, keep)
                if len(protocols) > 1:
                    path.label += " " + protocol.upper()
                if why:
                    plan.leave_out(path.kind_text(), why)
                if why is None:
                    plan.paths.append(path)
    if len(plan.paths) > before:
        plan.targets.append(target)


def add_front_alone(plan, options):
    target = Target(FRONT_ALONE, None, None)
    for front in options.fronts:
        if front != "none" and not FRONT_ENDS[front][1]:
            for keep in options.keeps:
                plan.paths.append(Path(target, "file", front, keep))


def peer_shapes(kind, options):
    socket = next((s for s in options.sockets if s in kind.sockets),
                  kind.sockets[0])
    for shape in options.shapes:
        if shape.mode == "interpreters":    # nobody else has that
            continue
        if kind.threads if shape.threads > 1 else kind.processes:
            yield Shape(shape.workers, shape.threads, socket)


def make(options, peers):
    """options: shapes (without socket), sockets, protocols, fronts, keeps,
    hello (the hello workload, or one like it). peers: names of PEERS that are
    installed."""
    plan = Plan()
    for socket in options.sockets:
        for shape in options.shapes:
            add_target(plan, options, "forebay", FOREBAY,
                       Shape(shape.workers, shape.threads, socket,
                             shape.mode), options.protocols)
    for name in peers:
        if name == FRONT_ALONE:
            add_front_alone(plan, options)
            continue
        kind = PEERS[name]
        if kind.hello_only and not options.hello:
            plan.leave_out(name, "it answers the hello workload only")
            continue
        for shape in peer_shapes(kind, options):
            add_target(plan, options, name, kind, shape, kind.protocols)
        if not any(t.name == name for t in plan.targets):
            plan.leave_out(name, "it has none of the shapes of this run")
    return plan
