# SPDX-License-Identifier: MIT
"""Fails while it is imported."""

1 / 0


def application(environ, start_response):
    raise AssertionError("never called")
