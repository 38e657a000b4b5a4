# SPDX-License-Identifier: MIT
"""A recommendation in words, from the numbers by these rules. Pure.

Rows are those of results.py. Each rule is a function of a View and returns
sentences. What the rules mean by
- "the same": two rates less than 5 % apart, or where the median of each lies
  within the rounds of the other;
- "waiting": with one request at a time, the part of its time in which no
  processor works for it (1 - CPU time of server and front end / p50);
- noisy: in more than a third of the rows the rounds are more than 30 % apart;
  then CPU times are compared instead of rates, and nothing is said of waiting;
- the place that is looked at: forebay's own cells behind the front end that
  has the highest rate among those measured (nginx-kept, nginx, ...; "none"
  only when there is no other), at the highest concurrency without a failure.
"""

SAME = 0.05
WAITS = 0.5             # more than this part is waiting
MUCH = 1.15             # a factor of memory that is worth a sentence
PLACES = ("nginx-kept", "nginx", "apache-kept", "apache", "lighttpd", "none")


def same(a, b, noisy=False):
    """Two cells: can the rounds tell their rates apart? When they are noisy,
    it is about CPU times."""
    if noisy:
        low, high = sorted((a["both_us"], b["both_us"]))
        return high == 0 or 1 - low / high < SAME
    inside = (a["rps_min"] <= b["rps"] <= a["rps_max"] and
              b["rps_min"] <= a["rps"] <= b["rps_max"])
    high, low = max(a["rps"], b["rps"]), min(a["rps"], b["rps"])
    return inside or high == 0 or 1 - low / high < SAME


def percent(part):
    return "%.0f %%" % (100 * part)


def times(factor):
    return "%.1f times" % factor


def front_text(front):
    return {"none": "without a front end",
            "nginx": "behind nginx",
            "nginx-kept": "behind nginx with kept connections",
            "lighttpd": "behind lighttpd",
            "apache": "behind Apache",
            "apache-kept": "behind Apache with kept connections",
            "itself": "as its own front end"}[front]


def is_good(cell):
    return cell["failed"] == 0 and cell["requests"] > 0


class View:
    """The rows, and the place that is looked at."""

    def __init__(self, cells, servers):
        self.cells, self.servers = cells, servers
        self.front = self.keep = self.clients = None
        self.wide = [c for c in cells if c["rps"] and
                     (c["rps_max"] - c["rps_min"]) / c["rps"] > 0.3]
        self.noisy = len(self.wide) * 3 > len(cells)
        ours = [c for c in cells if c["server"] == "forebay" and is_good(c)]
        for front in PLACES:
            here = [c for c in ours if c["front"] == front]
            if here:
                self.front = front
                self.keep = max(c["keep"] for c in here)
                self.clients = max(c["clients"] for c in here
                                   if c["keep"] == self.keep)
                break

    def here(self, **where):
        """Cells at the place; more conditions, or others, by name."""
        wanted = {"front": self.front, "keep": self.keep,
                  "clients": self.clients, **where}
        return [c for c in self.cells if is_good(c) and all(
            c[k] == v for k, v in wanted.items())]

    def best(self, **where):
        """Of forebay's cells there."""
        return self.pick(self.here(**{"server": "forebay", **where}))

    def pick(self, cells):
        """The one with the highest rate, or the least CPU time; or None."""
        return min(cells, key=lambda c: (
            c["both_us"] if self.noisy else -c["rps"]), default=None)

    def same(self, a, b):
        return same(a, b, self.noisy)

    def server(self, cell):
        return next((s for s in self.servers if all(
            s[k] == cell[k] for k in ("server", "mode", "workers",
                                      "threads", "socket"))), None)

    def memory(self, cell):
        row = self.server(cell)
        return row and row["pss_under_mb"]


def waiting_part(view, cell):
    """Of a request, with one client; None: not measured, or something else
    may have had the processor."""
    if view.noisy:
        return None
    alone = [c for c in view.here(clients=1, server="forebay")
             if c["label"] == cell["label"]]
    if not alone or not alone[0]["p50_us"]:
        return None
    return max(0.0, 1 - alone[0]["both_us"] / alone[0]["p50_us"])


def choose_shape(view):
    """Rule 1: the highest rate; of those that are the same, the least
    memory."""
    best = view.best()
    if best is None:
        return ["Nothing can be recommended: no path of forebay answered "
                "without a failure."]
    equal = [c for c in view.here(server="forebay") if view.same(c, best)]
    chosen = min(equal, key=lambda c: (view.memory(c) or 0, c["label"]))
    memory = view.memory(chosen)
    text = "Take %s: %s %s at %d connections" % (
        chosen["label"], "%.0f CPU microseconds for each request, with the "
        "front end's," % chosen["both_us"] if view.noisy else
        "%.0f requests per second" % chosen["rps"], front_text(view.front),
        view.clients)
    if memory:
        text += ", with %.0f MB under load" % memory
    return [text + also_good(view, equal, chosen, memory) + "."]


def also_good(view, equal, chosen, memory):
    others = [c["label"] for c in equal if c is not chosen]
    if not others:
        return ""
    one = len(others) == 1
    if view.noisy:
        text = "less than %s is between them" % percent(SAME)
    else:
        text = "the rounds cannot tell them apart, or less than %s is " \
            "between them" % percent(SAME)
    text = ". %s %s as good (%s)" % (", ".join(others),
                                     "is" if one else "are", text)
    if memory:
        text += ", and need%s no less memory" % ("s" if one else "")
    return text


def threads_or_processes(view):
    """Rule 2: what threads cost or bring, and what memory it is."""
    prefork, threaded = (view.best(mode=m) for m in ("prefork", "threaded"))
    if prefork is None or threaded is None:
        return []
    waits = waiting_part(view, prefork)
    names = ("Threads (%s)" % threaded["label"],
             "processes (%s)" % prefork["label"])
    if view.noisy:
        text = cpu_of_threads(prefork, threaded, names)
    elif same(prefork, threaded):
        text = "%s and %s answer equally fast here." % names
    elif threaded["rps"] < prefork["rps"]:
        text = threads_lose(prefork, threaded, names)
    else:
        text = threads_win(prefork, threaded, names, waits)
    return [text] + memory_of_modes(view, prefork, threaded, waits)


def cpu_of_threads(prefork, threaded, names):
    a, b = prefork["cpu_us"], threaded["cpu_us"]
    if abs(a - b) <= SAME * max(a, b):
        return "%s and %s need the same CPU time here." % names
    return "%s need %s %s CPU time than %s here: %.0f against %.0f " \
        "microseconds for each request." % (
            names[0], percent(abs(b / a - 1)), "more" if b > a else "less",
            names[1], b, a)


def threads_lose(prefork, threaded, names):
    text = "%s cost you %s of the rate here" % (
        names[0], percent(1 - threaded["rps"] / prefork["rps"]))
    extra = threaded["cpu_us"] - prefork["cpu_us"]
    if extra > SAME * prefork["cpu_us"]:
        text += (" because they pass Python's lock to each other: %.0f "
                 "instead of %.0f CPU microseconds for each request"
                 % (threaded["cpu_us"], prefork["cpu_us"]))
    elif prefork["workers"] > threaded["workers"]:
        text += (" because only one thread of a process runs Python at a "
                 "time, and there are %d processes instead of %d"
                 % (threaded["workers"], prefork["workers"]))
    return text + "."


def threads_win(prefork, threaded, names, waits):
    text = "%s answer %s as much as %s" % (
        names[0], times(threaded["rps"] / prefork["rps"]), names[1])
    if waits is not None and waits > WAITS:
        text += (" because a request waits for %s of its time, and %d "
                 "requests can wait at once instead of %d" % (
                     percent(waits),
                     threaded["workers"] * threaded["threads"],
                     prefork["workers"]))
    return text + "."


def memory_of_modes(view, prefork, threaded, waits):
    a, b = view.memory(prefork), view.memory(threaded)
    found = []
    if a and b and max(a, b) / min(a, b) >= MUCH:
        more, less = (("Processes", "threads") if a > b
                      else ("Threads", "processes"))
        found.append("%s need %s the memory of %s: %.0f MB against %.0f MB "
                     "under load." % (more, times(max(a, b) / min(a, b)),
                                      less, max(a, b), min(a, b)))
    if waits is not None and waits > WAITS:
        found.append(
            "Your application waits for %s of a request's time (for a "
            "database, another service or a disk): more threads or processes "
            "than processors help it." % percent(waits))
    return found


def keep_upstream(view):
    """Rule 3: kept connections between nginx and the server."""
    found = []
    for new, kept, how in (
            ("nginx", "nginx-kept", "`keepalive` in the upstream and "
             "`fastcgi_keep_conn on`"),
            ("apache", "apache-kept", "`enablereuse=on`")):
        a, b = view.best(front=new), view.best(front=kept)
        if a is None or b is None or a["both_us"] <= 0:
            continue
        saved = 1 - b["both_us"] / a["both_us"]
        if saved > SAME:
            found.append(
                "Keep the connections between the front end and forebay "
                "(%s): that saves %s of the CPU time of both together, %.0f "
                "instead of %.0f microseconds for each request." % (
                    how, percent(saved), b["both_us"], a["both_us"]))
    return found


def protocol_and_socket(view):
    """Rule 4: FastCGI or SCGI, unix socket or TCP, when both were measured at
    some place; by the CPU time of both sides."""
    found = []
    for column, values, names in (
            ("protocol", ("fcgi", "scgi"), ("FastCGI", "SCGI")),
            ("socket", ("unix", "tcp"), ("a unix socket", "TCP"))):
        for front in PLACES:
            pairs = [view.best(front=front, keep=keep, **{column: v})
                     for keep in (True, False) for v in values]
            a, b = pairs[:2] if pairs[0] and pairs[1] else pairs[2:]
            if not a or not b or min(a["both_us"], b["both_us"]) <= 0:
                continue
            gain = 1 - min(a["both_us"], b["both_us"]) / max(a["both_us"],
                                                             b["both_us"])
            if gain > SAME:
                better = names[a["both_us"] > b["both_us"]]
                other = names[a["both_us"] <= b["both_us"]]
                found.append("%s costs %s less CPU time than %s %s." % (
                    better[0].upper() + better[1:], percent(gain), other,
                    front_text(front)))
            break
    return found


def saturation(view):
    """Rule 5: the concurrency from which more connections only wait."""
    best = view.best()
    if best is None or view.noisy:
        return []
    curve = sorted((c for c in view.cells if is_good(c) and all(
        c[k] == best[k] for k in ("label", "front", "keep", "socket",
                                  "protocol"))),
        key=lambda c: c["clients"])
    for low, high in zip(curve, curve[1:]):
        if low["clients"] == 1 or high["p50_us"] <= low["p50_us"]:
            continue
        if high["rps"] < (1 + SAME) * low["rps"]:
            return ["More than %d connections at once bring nothing more: at "
                    "%d the rate is %s, and half of the requests take %.1f "
                    "ms or longer instead of %.1f ms." % (
                        low["clients"], high["clients"],
                        "%+.0f %%" % (100 * (high["rps"] / low["rps"] - 1)),
                        high["p50_us"] / 1000, low["p50_us"] / 1000)]
    return []


def family(front):
    """The program, with or without kept connections behind it."""
    return front.partition("-")[0]


def comparable(view, peer):
    """(forebay's best cell, the peer's best cell) behind the same front end,
    where the recommendation looks if the peer was measured there; or None. A
    server that is its own front end is compared with forebay behind one."""
    theirs = [c for c in view.cells if c["server"] == peer and is_good(c) and
              c["clients"] == view.clients and c["keep"] == view.keep]
    ours = [c for c in view.cells if c["server"] == "forebay" and
            is_good(c) and c["clients"] == view.clients and
            c["keep"] == view.keep]
    places = [family(view.front), *(family(p) for p in PLACES)]
    for place in dict.fromkeys(places):
        a = [c for c in ours if family(c["front"]) == place]
        b = [c for c in theirs if family(c["front"]) == place or
             c["front"] == "itself" and place != "none"]
        if a and b:
            return view.pick(a), view.pick(b)
    return None


def against_others(view):
    """Rule 6: each peer's best cell against forebay's best, behind the same
    front end."""
    found = []
    for peer in dict.fromkeys(c["server"] for c in view.cells):
        pair = None
        if peer not in ("forebay", "front-alone"):
            pair = comparable(view, peer)
        if pair is None or not pair[1]["rps"]:
            continue
        found.append(against(view, *pair))
    return found


def against(view, ours, theirs):
    who = "%s (%s)" % (theirs["label"], front_text(theirs["front"]))
    cpu = ours["both_us"] / theirs["both_us"] if theirs["both_us"] else None
    if view.noisy:
        return "forebay needs %.2f of the CPU time of %s, with the front " \
            "end's." % (cpu or 0, who)
    factor = ours["rps"] / theirs["rps"]
    if same(ours, theirs):
        text = "forebay and %s answer equally fast" % who
    elif factor > 1:
        text = "forebay answers %s as many requests as %s" % (times(factor),
                                                              who)
    else:
        text = "forebay answers %s fewer requests than %s" % (
            percent(1 - factor), who)
    if cpu:
        text += "; its CPU time, with the front end's, is %.2f of theirs" % cpu
    return text + "."


def failures(view):
    """Rule 7: every failure is named."""
    return ["%s failed %d of %d requests %s at %d connections (%s)." % (
        c["label"], c["failed"], c["requests"], front_text(c["front"]),
        c["clients"], ", ".join("%s: %d" % pair
                                for pair in sorted(c["failures"].items())))
            for c in view.cells if c["failed"]]


def noise(view):
    """Rule 8: when the rounds are far apart, say so first."""
    if not view.noisy:
        return []
    return ["The rounds are far apart (more than 30 %% in %d of %d rows): "
            "something else ran on this machine. What follows is therefore "
            "about CPU times, not about rates; measure again." % (
                len(view.wide), len(view.cells))]


RULES = (noise, choose_shape, threads_or_processes, keep_upstream,
         protocol_and_socket, saturation, against_others, failures)


def recommend(cells, servers):
    """Sentences, most important first."""
    if not cells:
        return []
    view = View(cells, servers)
    if view.front is None:
        return choose_shape(view) + failures(view)
    return [s for rule in RULES for s in rule(view)]
