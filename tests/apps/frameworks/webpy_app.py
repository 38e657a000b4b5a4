# SPDX-License-Identifier: MIT
"""The common small site in web.py."""

import web

from plain_app import digest, read_all

web.config.debug = False


class Hello:
    def GET(self):
        web.header("Content-Type", "text/plain")
        return "hello"

    HEAD = GET


class Path:
    def GET(self, rest):
        web.header("Content-Type", "text/plain; charset=utf-8")
        return rest


class Form:
    def POST(self):
        return " ".join("%s=%s" % i for i in sorted(web.input().items()))


class Body:
    def POST(self):
        return digest(read_all(web.ctx.env["wsgi.input"]))

    PUT = POST


class Upload:
    def POST(self):
        f = web.input(file={})["file"]
        return "%s %s" % (f.filename, digest(read_all(f.file)))


class Stream:
    def GET(self):
        web.header("Content-Type", "text/plain")
        n = int(web.ctx.env["QUERY_STRING"] or "10")
        for i in range(n):
            yield b"chunk %d\n" % i


class Cookies:
    def GET(self):
        web.setcookie("a", "1")
        web.setcookie("b", "2")
        return web.ctx.env.get("HTTP_COOKIE", "")


class Redirect:
    def GET(self):
        raise web.found("/hello")


class Error:
    def GET(self):
        raise LookupError("an error on purpose")


urls = ("/hello", "Hello", "/path/(.*)", "Path", "/form", "Form",
        "/body", "Body", "/upload", "Upload", "/stream", "Stream",
        "/cookies", "Cookies", "/redirect", "Redirect", "/error", "Error")

application = web.application(urls, globals()).wsgifunc()
