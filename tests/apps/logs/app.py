# SPDX-License-Identifier: MIT
"""What applications write, and where: the path says what to do, the query how
much of it ("who=a&size=1024&count=3")."""

import ctypes
import os
import sys
import threading
import urllib.parse

libc = ctypes.CDLL(None)


def long_line(who, size):
    """"a:xxx...x:a" of that size, without the newline."""
    return "%s:%s:%s" % (who, "x" * (size - 2 * len(who) - 2), who)


def lines(environ, who="w", size="100", count="1"):
    for _ in range(int(count)):
        print(long_line(who, int(size)))


def numbered(environ, who="w", first="0", count="1"):
    for n in range(int(first), int(first) + int(count)):
        print("N", who, n, "end")


def binary(environ):
    sys.stdout.buffer.write(b"B" + bytes(range(256)) * 2 + b"E\n")
    sys.stdout.buffer.flush()


def no_newline(environ, who="w"):
    sys.stdout.write("P %s stdout" % who)
    environ["wsgi.errors"].write("P %s errors" % who)


def descriptors(environ, who="w"):
    """Past Python's streams: system calls, and C."""
    os.write(2, b"D os.write 2 %s\n" % who.encode())
    os.write(1, b"D os.write 1 %s\n" % who.encode())
    text = b"D write %s\n" % who.encode()
    libc.write(2, text, len(text))
    libc.dprintf(2, b"D dprintf %s\n", who.encode())
    libc.puts(b"D puts %s" % who.encode())
    libc.fflush(None)


def unfinished(environ, who="w"):
    os.write(2, b"U %s and no more" % who.encode())


def threads(environ, count="100"):
    """8 threads print at once, each line in several pieces."""
    def say(letter):
        for n in range(int(count)):
            print("T", letter * 100, end=" ")
            print(letter * 100, n, "end")
    started = [threading.Thread(target=say, args=(c,)) for c in "abcdefgh"]
    for t in started:
        t.start()
    for t in started:
        t.join()


def fails(environ):
    raise LookupError("failed on purpose")


def waits(environ):
    """Until somebody opens that FIFO."""
    with open(environ["QUERY_STRING"]) as f:
        f.read()


def errors_begin(environ):
    for n in range(100):
        environ["wsgi.errors"].write("before %d\n" % n)


def body_of_errors(environ):
    for n in range(50):
        environ["wsgi.errors"].write("between %d\n" % n)
        yield b"%d\n" % n
    environ["wsgi.errors"].write("after, without newline")


def endless(environ):
    while True:
        yield b"x" * 65536


PLAIN = {f.__name__: f for f in (
    lines, numbered, binary, no_newline, descriptors, unfinished, threads,
    fails)}


def application(environ, start_response):
    what = environ["PATH_INFO"].strip("/")
    query = dict(urllib.parse.parse_qsl(environ["QUERY_STRING"]))
    status, body = "200 OK", [b"done"]
    if what in PLAIN:
        PLAIN[what](environ, **query)
    elif what == "waits":
        waits(environ)
    elif what == "errors":
        errors_begin(environ)
        body = body_of_errors(environ)
    elif what == "endless":
        body = endless(environ)
    elif what == "status":
        status = query["status"] + " Status"
        body = [b"x" * int(query.get("bytes", "0"))]
    elif what == "after":
        import forebay
        forebay.after_response(print, "printed after the response")
    start_response(status, [("Content-Type", "text/plain")])
    return body
