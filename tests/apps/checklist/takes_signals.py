# SPDX-License-Identifier: MIT
"""Ignores or handles every signal it can, and blocks them all."""

import signal

for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD,
               signal.SIGUSR1, signal.SIGUSR2, signal.SIGQUIT):
    try:
        signal.signal(number, signal.SIG_IGN)
    except ValueError:
        pass


def application(environ, start_response):
    signal.pthread_sigmask(signal.SIG_BLOCK, set(signal.Signals))
    try:
        signal.signal(signal.SIGTERM, lambda *args: None)
    except ValueError:
        pass
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"ok"]
