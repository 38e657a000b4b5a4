# SPDX-License-Identifier: MIT
"""A bar with an estimate of the time left, on standard error: redrawn on a
terminal, a line now and then elsewhere."""
import sys
import time

WIDTH = 30
LINE_S = 30


def duration_text(seconds):
    seconds = int(seconds + 0.5)
    if seconds < 60:
        return "%d s" % seconds
    if seconds < 3600:
        return "%d min %02d s" % divmod(seconds, 60)
    return "%d h %02d min" % divmod(seconds // 60, 60)


class Progress:
    """total_s: how long all steps should take. As they are done, it is
    learnt how long they take on this machine."""

    def __init__(self, total_s, out=sys.stderr, clock=time.monotonic):
        self.total_s, self.out, self.clock = max(total_s, 0.001), out, clock
        self.done_s = 0.0
        self.began = self.said = clock()
        self.terminal = out is not None and out.isatty()
        self.text = ""

    def left_s(self):
        left = max(self.total_s - self.done_s, 0)
        if self.done_s <= 0:
            return left
        return left * (self.clock() - self.began) / self.done_s

    def step(self, text):
        """What is done next."""
        self.text = text
        self.show()

    def done(self, expected_s):
        """A step that should have taken so long is over."""
        self.done_s += expected_s
        self.show()

    def show(self):
        if self.out is None:
            return
        part = min(self.done_s / self.total_s, 1)
        left = "%3d %%, %s left" % (part * 100, duration_text(self.left_s()))
        if self.terminal:
            bar = "#" * int(part * WIDTH)
            self.out.write("\r\x1b[K[%s] %s: %s" % (
                bar.ljust(WIDTH, "."), left, self.text[:60]))
        elif self.clock() - self.said > LINE_S:
            self.said = self.clock()
            self.out.write("%s: %s\n" % (left, self.text))
        self.out.flush()

    def close(self):
        if self.terminal:
            self.out.write("\r\x1b[K")
            self.out.flush()
