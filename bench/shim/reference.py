# SPDX-License-Identifier: MIT
"""Call the application without any server and print as JSON what it answers:
what every server has to answer. Arguments: URI, method, length of the body,
file for the answer's body.

It is called twice, as two clients of two servers would: what differs is not
compared."""
import io
import json
import sys

from compared import application


def request_body(length):
    """As forebay-load makes it."""
    return bytes(ord("!") + i % 89 for i in range(length))


def environ(uri, method, body, number):
    path, _, query = uri.partition("?")
    return {
        "REQUEST_METHOD": method, "SCRIPT_NAME": "", "PATH_INFO": path,
        "QUERY_STRING": query, "REQUEST_URI": uri,
        "CONTENT_LENGTH": str(len(body)) if body else "",
        "CONTENT_TYPE": "application/octet-stream" if body else "",
        "SERVER_NAME": ("www.example.com", "localhost")[number],
        "SERVER_PORT": ("80", "8080")[number],
        "SERVER_SOFTWARE": ("one/1.0", "two/2.0")[number],
        "REMOTE_ADDR": ("192.0.2.10", "127.0.0.1")[number],
        "REMOTE_PORT": ("32768", "40123")[number],
        "SERVER_PROTOCOL": "HTTP/1.1", "HTTP_HOST": "www.example.com",
        "HTTP_USER_AGENT": "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) "
                           "Gecko/20100101 Firefox/128.0",
        "HTTP_ACCEPT": "text/html,application/xhtml+xml,application/xml;"
                       "q=0.9,*/*;q=0.8",
        "HTTP_ACCEPT_LANGUAGE": "en-US,en;q=0.5",
        "HTTP_ACCEPT_ENCODING": "gzip, deflate, br",
        "HTTP_REFERER": "http://www.example.com/",
        "HTTP_COOKIE": "sessionid=k2xv8w1r5s0m3q7d9f4g6h1j2l5n8b3c; "
                       "theme=dark",
        "wsgi.version": (1, 0), "wsgi.url_scheme": "http",
        "wsgi.input": io.BytesIO(body), "wsgi.errors": sys.stderr,
        "wsgi.multithread": False, "wsgi.multiprocess": True,
        "wsgi.run_once": False,
        "wsgi.file_wrapper": lambda f, size=8192: iter(
            lambda: f.read(size), b""),
    }


def answer(*request):
    said, pieces = [], []

    def start_response(status, headers, exc_info=None):
        said[:] = [status]
        return pieces.append

    found = application(environ(*request), start_response)
    try:
        for piece in found:
            pieces.append(piece)
    finally:
        if hasattr(found, "close"):
            found.close()
    return int(said[0][:3]), b"".join(pieces)


def main():
    uri, method, length, path = sys.argv[1:]
    body = request_body(int(length))
    answer(uri, method, body, 0)        # whatever is only done once
    one, two = (answer(uri, method, body, n) for n in (0, 1))
    with open(path, "wb") as f:
        f.write(one[1])
    print(json.dumps({"status": one[0], "length": len(one[1]),
                      "same_status": one[0] == two[0],
                      "same_length": len(one[1]) == len(two[1]),
                      "same_body": one[1] == two[1]}))


main()
