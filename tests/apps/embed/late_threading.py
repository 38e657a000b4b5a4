# SPDX-License-Identifier: MIT
"""threading is imported by a request, in whatever thread that runs."""


def application(environ, start_response):
    import threading
    start_response("200 OK", [])
    found = threading.current_thread() is threading.main_thread()
    return [b"main" if found else b"other"]
