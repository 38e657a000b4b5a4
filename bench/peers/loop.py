# SPDX-License-Identifier: MIT
"""loop.py APP COUNT: call APP:application COUNT times in a loop, without any
server, and print the CPU time of one call in microseconds. What the
application itself costs under the interpreter that runs this."""
import gc
import importlib
import io
import sys
import time

ENVIRON = {
    "REQUEST_METHOD": "GET", "SCRIPT_NAME": "", "PATH_INFO": "/",
    "QUERY_STRING": "", "SERVER_NAME": "localhost", "SERVER_PORT": "80",
    "SERVER_PROTOCOL": "HTTP/1.1", "HTTP_HOST": "localhost",
    "wsgi.version": (1, 0), "wsgi.url_scheme": "http",
    "wsgi.input": io.BytesIO(), "wsgi.errors": sys.stderr,
    "wsgi.multithread": False, "wsgi.multiprocess": True,
    "wsgi.run_once": False}


def start_response(status, headers, exc_info=None):
    return None


def main():
    application = importlib.import_module(sys.argv[1]).application
    count = int(sys.argv[2])

    def run(times):
        for _ in range(times):
            result = application(dict(ENVIRON), start_response)
            for _ in result:
                pass
            if hasattr(result, "close"):
                result.close()

    run(max(count // 10, 20))
    gc.collect()
    gc.freeze()
    begin = time.process_time()
    run(count)
    print((time.process_time() - begin) / count * 1e6)


if __name__ == "__main__":
    main()
