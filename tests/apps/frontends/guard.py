# SPDX-License-Identifier: MIT
"""An authorizer: who names himself comes in, and the site learns his name."""

from urllib.parse import unquote_to_bytes


def application(environ, start_response):
    assert environ["forebay.role"] == "authorizer"
    assert environ["wsgi.input"].read() == b""
    path = unquote_to_bytes(environ["REQUEST_URI"].partition("?")[0])
    name = environ.get("HTTP_X_NAME")
    if name is None and not path.startswith(b"/open"):
        start_response("403 Forbidden", [("Content-Type", "text/plain"),
                                         ("X-Guard", "yes")])
        return [b"who are you?"]
    start_response("200 OK", [("Variable-AUTH_NAME", name or "nobody")])
    return []
