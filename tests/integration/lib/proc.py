# SPDX-License-Identifier: MIT
"""Looking at processes through /proc."""

import os


def stat(pid):
    """(state, parent's pid, start time), or None when there is no such
    process."""
    try:
        with open("/proc/%d/stat" % pid, "rb") as f:
            rest = f.read().rpartition(b")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return rest[0].decode(), int(rest[1]), int(rest[19])


def pids():
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def children(pid):
    """Direct children, in the order of their pids."""
    found = []
    for p in pids():
        s = stat(p)
        if s is not None and s[1] == pid:
            found.append(p)
    return sorted(found)


def descendants(pid):
    parents = {}
    for p in pids():
        s = stat(p)
        if s is not None:
            parents.setdefault(s[1], []).append(p)
    found, todo = [], [pid]
    while todo:
        for child in parents.get(todo.pop(), []):
            found.append(child)
            todo.append(child)
    return sorted(found)


def alive(pid, start_time=None):
    """True while the process runs (a zombie does not)."""
    s = stat(pid)
    if s is None or s[0] in "ZX":
        return False
    return start_time is None or s[2] == start_time


def _bytes_of(pid, name):
    try:
        with open("/proc/%d/%s" % (pid, name), "rb") as f:
            return f.read()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return b""


def cmdline(pid):
    return _bytes_of(pid, "cmdline").replace(b"\0", b" ").decode(
        "utf-8", "backslashreplace").strip()


def comm(pid):
    return _bytes_of(pid, "comm").decode("utf-8", "backslashreplace").strip()


def environ_contains(pid, item):
    return item in _bytes_of(pid, "environ").split(b"\0")


def with_environ(item):
    """All processes that were started with NAME=VALUE."""
    item = item.encode()
    return [p for p in pids()
            if stat(p) is not None and environ_contains(p, item)]


def fds(pid):
    """{number: what it is}"""
    found = {}
    try:
        names = os.listdir("/proc/%d/fd" % pid)
    except (FileNotFoundError, ProcessLookupError):
        return found
    for name in names:
        try:
            found[int(name)] = os.readlink("/proc/%d/fd/%s" % (pid, name))
        except (FileNotFoundError, ProcessLookupError):
            pass
    return found


def _status(pid):
    values = {}
    for line in _bytes_of(pid, "status").decode().splitlines():
        name, _, value = line.partition(":")
        values[name] = value.strip()
    return values


def rss_bytes(pid):
    return int(_status(pid).get("VmRSS", "0 kB").split()[0]) * 1024


def threads(pid):
    try:
        return len(os.listdir("/proc/%d/task" % pid))
    except (FileNotFoundError, ProcessLookupError):
        return 0


def signals(pid, which):
    """The set in SigBlk, SigIgn or SigCgt."""
    mask = int(_status(pid)[which], 16)
    return {n + 1 for n in range(64) if mask >> n & 1}


def cpu_ticks(pid):
    """User and system time used so far, in clock ticks."""
    rest = _bytes_of(pid, "stat").rpartition(b")")[2].split()
    return int(rest[11]) + int(rest[12]) if rest else 0
