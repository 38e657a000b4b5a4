# SPDX-License-Identifier: MIT
"""Waiting for a condition, the only way these tests ever wait."""

import os
import threading
import time

# Sanitizers and valgrind are slower; a test that waits for something gives it
# this many times longer. Nothing ever asserts that something was quick.
FACTOR = float(os.environ.get("FOREBAY_TEST_FACTOR", "1"))
TIMEOUT = 15.0 * FACTOR

# Hundreds of reloads and a minute of kills, instead of some: by hand.
LONG = os.environ.get("FOREBAY_TEST_LONG", "0") not in ("", "0")

_never = threading.Event()


class TimedOut(AssertionError):
    pass


def wait_for(condition, what, timeout=None):
    """Call condition() until it returns something true, and return that."""
    end = time.monotonic() + (TIMEOUT if timeout is None else timeout)
    pause = 0.002
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise TimedOut("waited in vain for: %s"
                           % (what() if callable(what) else what))
        _never.wait(pause)
        pause = min(pause * 1.5, 0.05)


def holds_for(condition, seconds, what):
    """condition() stays true for a while: for "X does not happen", where there
    is nothing to wait for but X itself."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        assert condition(), "no longer true: %s" % what
        _never.wait(0.02)
