# SPDX-License-Identifier: MIT
"""flup_server.py fcgi|scgi threads|processes COUNT ADDRESS: the application
that is compared, served by flup."""
import importlib
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))), "shim"))


def bind_address(text):
    if text.startswith("unix:"):
        return text[5:]
    host, port = text.rsplit(":", 1)
    return host, int(port)


def main():
    protocol, kind, count, address = sys.argv[1:]
    count = int(count)
    name = "flup.server." + protocol + ("_fork" if kind == "processes" else "")
    server = importlib.import_module(name).WSGIServer
    from compared import application

    options = {"minSpare": count, "maxSpare": count}
    if kind == "processes":
        options["maxChildren"] = count
    else:
        options["maxThreads"] = count
    if protocol == "scgi":
        options["scriptName"] = ""
    server(application, bindAddress=bind_address(address), umask=0,
           **options).run()


main()
