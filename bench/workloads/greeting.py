# SPDX-License-Identifier: MIT
"""A greeting of 14 bytes by web.py."""
import web

web.config.debug = False


class Greeting:
    def GET(self, path):
        web.header("Content-Type", "text/plain")
        return "Hello, world!\n"


application = web.application(("/(.*)", "Greeting"), globals()).wsgifunc()
