# SPDX-License-Identifier: MIT
"""What the kernel says of a process and everything that it started."""
import os

TICK_NS = 1000000000 // os.sysconf("SC_CLK_TCK")
GONE = (FileNotFoundError, ProcessLookupError)


def children(pid):
    found = []
    try:
        tasks = os.listdir("/proc/%d/task" % pid)
    except GONE:
        return found
    for task in tasks:
        try:
            with open("/proc/%d/task/%s/children" % (pid, task)) as f:
                found += [int(word) for word in f.read().split()]
        except GONE:
            pass
    return found


def tree(pid):
    """The process and all below it."""
    found = [pid]
    for child in children(pid):
        found += tree(child)
    return found


def times_ns(pid):
    """(time of the process, time of the children it has waited for), from
    /proc/PID/stat: threads that have ended are in it, but in ticks."""
    try:
        with open("/proc/%d/stat" % pid, "rb") as f:
            words = f.read().rpartition(b")")[2].split()
    except GONE:
        return 0, 0
    user, system, c_user, c_system = (int(w) for w in words[11:15])
    return (user + system) * TICK_NS, (c_user + c_system) * TICK_NS


def run_ns(pid):
    """Nanoseconds that one process has run, and the children that it has
    waited for. schedstat counts its living threads exactly; a server that
    starts a thread for each request shows in its ticks only."""
    exact = 0
    try:
        for task in os.listdir("/proc/%d/task" % pid):
            with open("/proc/%d/task/%s/schedstat" % (pid, task)) as f:
                exact += int(f.read().split()[0])
    except GONE:
        pass
    own, waited_for = times_ns(pid)
    return max(exact, own) + waited_for


def tree_run_ns(pid):
    return {p: run_ns(p) for p in tree(pid)}


def memory_kb(pid):
    """(PSS, RSS) of one process. PSS: what several share is divided among
    them."""
    found = {}
    try:
        with open("/proc/%d/smaps_rollup" % pid) as f:
            for line in f:
                words = line.split()
                if words[0] in ("Pss:", "Rss:"):
                    found[words[0]] = int(words[1])
    except GONE:
        pass
    return found.get("Pss:", 0), found.get("Rss:", 0)


def tree_memory_kb(pid):
    pairs = [memory_kb(p) for p in tree(pid)]
    return sum(p[0] for p in pairs), sum(p[1] for p in pairs)


def threads(pid):
    try:
        return [int(name) for name in os.listdir("/proc/%d/task" % pid)]
    except GONE:
        return []


def tracer(pid):
    """The process that traces this one, or 0."""
    try:
        with open("/proc/%d/status" % pid) as f:
            for line in f:
                if line.startswith("TracerPid:"):
                    return int(line.split()[1])
    except GONE:
        pass
    return 0
