# SPDX-License-Identifier: MIT
"""What the kernel says of a process and everything that it started."""
import os


def children(pid):
    found = []
    try:
        tasks = os.listdir("/proc/%d/task" % pid)
    except FileNotFoundError:
        return found
    for task in tasks:
        try:
            with open("/proc/%d/task/%s/children" % (pid, task)) as f:
                found += [int(word) for word in f.read().split()]
        except (FileNotFoundError, ProcessLookupError):
            pass
    return found


def tree(pid):
    """The process and all below it."""
    found = [pid]
    for child in children(pid):
        found += tree(child)
    return found


def run_ns(pid):
    """Nanoseconds that the threads of one process have run (schedstat counts
    them exactly, /proc/PID/stat only in ticks)."""
    total = 0
    try:
        for task in os.listdir("/proc/%d/task" % pid):
            with open("/proc/%d/task/%s/schedstat" % (pid, task)) as f:
                total += int(f.read().split()[0])
    except (FileNotFoundError, ProcessLookupError):
        pass
    return total


def tree_run_ns(pid):
    return {p: run_ns(p) for p in tree(pid)}


def pss_kb(pid):
    """Memory of one process; what several share is divided among them."""
    try:
        with open("/proc/%d/smaps_rollup" % pid) as f:
            for line in f:
                if line.startswith("Pss:"):
                    return int(line.split()[1])
    except (FileNotFoundError, ProcessLookupError):
        pass
    return 0
