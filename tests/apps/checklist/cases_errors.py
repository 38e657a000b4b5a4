# SPDX-License-Identifier: MIT
"""D: wsgi.errors and the log."""

import os
import sys
import threading

from app import as_json, case, note, text


@case
def D1(environ, start_response):
    errors = environ["wsgi.errors"]
    errors.write("D1 write\n")
    errors.writelines(["D1 line one\n", "D1 line two\n"])
    errors.flush()
    return text(start_response, "ok")


@case
def D2(environ, start_response):
    errors = environ["wsgi.errors"]
    errors.write("D2 latin \xe9\n")
    errors.write("D2 emoji \U0001f600\n")
    errors.write("D2 surrogate \udc80\n")
    errors.write("D2 no newline")
    errors.flush()
    errors.write(" until now\n")
    return text(start_response, "ok")


@case
def D3(environ, start_response):
    """Lines of 200 characters from everybody at once."""
    who = environ["QUERY_STRING"]
    for i in range(50):
        environ["wsgi.errors"].write(
            "D3 %s %03d %s end\n" % (who, i, who[-1] * 200))
    return text(start_response, os.getpid())


kept = {}


@case
def D4(environ, start_response):
    errors = environ["wsgi.errors"]
    found = []
    for value in (b"bytes", 5, None):
        try:
            errors.write(value)
            found.append("taken")
        except TypeError:
            found.append("TypeError")
    kept["errors"] = errors

    def later():
        done.wait()
        errors.write("D4 after the request\n")
        errors.flush()
        note("D4", "written")
    done = threading.Event()
    thread = threading.Thread(target=later, daemon=True)
    thread.start()

    class Body:
        def __iter__(self):
            start_response("200 OK", [("Content-Type", "text/plain")])
            return iter([(" ".join(found)).encode()])

        def close(self):
            import forebay
            forebay.after_response(done.set)
    return Body()


@case
def D5(environ, start_response):
    def innermost():
        raise LookupError("D5 went wrong")
    innermost()


@case
def D6(environ, start_response):
    print("D6 print")
    print("D6 stderr", file=sys.stderr)
    sys.stdout.write("D6 without newline")
    sys.stdout.flush()
    sys.stdout.write("\n")
    return text(start_response, "only this")


@case
def D7(environ, start_response):
    environ["wsgi.errors"].write("D7 a\rb\x1b[31mc\x00d\n")
    return text(start_response, "ok")


@case
def D8(environ, start_response):
    environ["wsgi.errors"].write("x" * 10_000_000 + "\n")
    note("D8", "written")
    return text(start_response, "ok")


@case
def stream_api(environ, start_response):
    """The text-stream interface of wsgi.errors and the sys streams (R039)."""
    import faulthandler
    found = {}
    for name, s in (("errors", environ["wsgi.errors"]),
                    ("stderr", sys.stderr), ("stdout", sys.stdout)):
        s.writelines(["R039 ", name, "\n"])
        s.buffer.write(memoryview(b"R039 buffer " + name.encode() + b"\n"))
        s.flush()
        found[name] = [s.isatty(), s.fileno(), bool(s.name), s.writable(),
                       s.encoding.lower().replace("-", "")]
    faulthandler.enable()
    faulthandler.disable()
    return as_json(start_response, found)


@case
def talks(environ, start_response):
    """A line in the log before, between and behind the chunks."""
    errors = environ["wsgi.errors"]
    start_response("200 OK", [("Content-Type", "text/plain")])
    n = int(environ["QUERY_STRING"])

    def items():
        for i in range(n):
            errors.write("R014 line %d\n" % i)
            yield b"chunk %d\n" % i
        errors.write("R014 the end\n")
    return items()
