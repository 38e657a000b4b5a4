# SPDX-License-Identifier: MIT
"""Finding and importing the application (wsgi checklist A6, A7, L2)."""
import importlib
import json
import os
import pickle
import shutil
import sys
import tempfile

import driver
from support import Case, main

HELLO = """
def application(environ, start_response):
    start_response("200 OK", [])
    return [__name__.encode()]
"""


class Parse(Case):
    def parsed(self, text, **expected):
        found = driver.parse_app(text)
        for key, value in expected.items():
            self.assertEqual(found[key], value, (text, found))
        return found

    def refused(self, text, *words):
        with self.assertRaises(ValueError) as caught:
            driver.parse_app(text)
        for word in words:
            self.assertIn(word, str(caught.exception))

    def test_modules(self):
        self.parsed("mod", module="mod", attribute="", file="", dir="",
                    factory=False)
        self.parsed("pkg.mod:app", module="pkg.mod", attribute="app")
        self.parsed("m:a.b.c", attribute="a.b.c", factory=False)
        self.parsed("m:make()", attribute="make", factory=True)
        self.parsed("m:a.make()", attribute="a.make", factory=True)
        self.parsed("m\xf6d:\xe4pp", module="m\xf6d", attribute="\xe4pp")

    def test_refused(self):
        for text in ("", ":", ":app", "m:", "m:()", "m:a b", "m:a.", "m:.a",
                     "m:1a", "m:a(1)", "m:a()()", "a b", "a..b", ".a", "a.",
                     "1a", "m-n", "-", "m:a-b"):
            self.refused(text)
        self.refused("m:" + "a" * 300, "too long")
        self.refused("no-such/file.py", "no-such/file.py", "No such file")
        self.refused("nosuch.py:app", "nosuch.py", "No such file")
        self.refused("/tmp/", "/tmp", "no file")
        self.refused("x" * 5000)


class Files(Case):
    def setUp(self):
        super().setUp()
        self.dir = os.path.realpath(tempfile.mkdtemp())
        self.cwd = os.getcwd()
        self.path = list(sys.path)
        self.modules = set(sys.modules)
        os.chdir(self.dir)
        sys.path.insert(0, self.dir)

    def tearDown(self):
        os.chdir(self.cwd)
        sys.path[:] = self.path
        for name in set(sys.modules) - self.modules:
            del sys.modules[name]
        shutil.rmtree(self.dir)

    def write(self, name, text=HELLO):
        path = os.path.join(self.dir, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as f:
            f.write(text)
        importlib.invalidate_caches()
        return path

    def parse(self, text):
        return driver.parse_app(text)

    def name_seen(self, text):
        """What __name__ the application has that is loaded from text."""
        return self.run_app(driver.load_app(text)).body.decode()

    def refused(self, text, *words, log=()):
        driver.log()
        with self.assertRaises(ValueError) as caught:
            driver.load_app(text)
        why = str(caught.exception)
        for word in words:
            self.assertIn(word, why)
        self.assertNotIn("\n", why)
        logged = self.log_text()
        for word in log:
            self.assertIn(word, logged)
        if not log:
            self.assertEqual(logged, "")
        return why

    def test_file_names(self):
        path = self.write("plain_app.py")
        for text in ("plain_app.py", "./plain_app.py", path,
                     "../%s/plain_app.py" % os.path.basename(self.dir),
                     ".//plain_app.py"):
            found = self.parse(text)
            self.assertEqual(found["module"], "plain_app")
            self.assertTrue(os.path.samefile(found["file"], path))
            self.assertTrue(os.path.samefile(found["dir"], self.dir))
        found = self.parse(path + ":make()")
        self.assertEqual((found["attribute"], found["factory"]),
                         ("make", True))
        self.write("with:colon/app.py")
        self.assertEqual(self.parse("with:colon/app.py:x")["attribute"], "x")
        self.assertEqual(self.parse("with:colon/app.py")["attribute"], "")
        self.write("with space/my app.wsgi")
        self.assertEqual(self.parse("with space/my app.wsgi")["module"],
                         "my_app_wsgi")
        self.write("script")
        self.assertEqual(self.parse("script")["module"], "script")
        self.assertEqual(self.parse("./script")["file"],
                         os.path.join(self.dir, "script"))

    def test_files_in_packages(self):
        self.write("pkg/__init__.py", "")
        self.write("pkg/sub/__init__.py", HELLO)
        self.write("pkg/sub/mod.py")
        for text, module in (("pkg/sub/mod.py", "pkg.sub.mod"),
                             ("pkg/sub/__init__.py", "pkg.sub"),
                             ("pkg/__init__.py", "pkg")):
            found = self.parse(text)
            self.assertEqual(found["module"], module)
            self.assertEqual(found["dir"], self.dir)
        self.assertEqual(self.name_seen("pkg/sub/mod.py"), "pkg.sub.mod")
        self.assertEqual(self.name_seen("pkg/sub/__init__.py"), "pkg.sub")
        self.write("not-a-name/__init__.py", "")
        self.write("not-a-name/mod2.py")
        self.assertEqual(self.parse("not-a-name/mod2.py")["module"], "mod2")

    def test_A6_real_name_and_once(self):
        self.write("once_app.py", "import once_helper\n" + HELLO)
        self.write("once_helper.py", "import once_app\ncount = 0\ncount += 1\n")
        self.assertEqual(self.name_seen("once_app.py"), "once_app")
        self.assertEqual(self.name_seen("once_app"), "once_app")
        self.assertEqual(self.name_seen("once_app:application"), "once_app")
        self.assertEqual(sys.modules["once_helper"].count, 1)
        self.assertIs(sys.modules["once_helper"].once_app,
                      sys.modules["once_app"])
        self.assertIn(self.dir, sys.path)

    def test_A6_relative_import_in_a_package(self):
        self.write("rel/__init__.py", "")
        self.write("rel/helper.py", "value = 1\n")
        self.write("rel/app.py", "from .helper import value\n" + HELLO)
        self.assertEqual(self.name_seen("rel/app.py"), "rel.app")

    def test_A6_attributes(self):
        self.write("attrs.py", HELLO + """
class Holder:
    class inner:
        application = staticmethod(application)
app = None
made = []
def make():
    made.append(1)
    return application
class Site:
    def make(self):
        return self.application
    def application(self, environ, start_response):
        return application(environ, start_response)
site = Site()
""")
        for attribute in ("", ":application", ":Holder.inner.application",
                          ":make()", ":site.make()", ":site.application"):
            self.assertEqual(self.name_seen("attrs.py" + attribute), "attrs")
        self.assertEqual(sys.modules["attrs"].made, [1])

    def test_A6_default_names(self):
        self.write("only_app.py", HELLO.replace("application", "app"))
        self.assertEqual(self.name_seen("only_app.py"), "only_app")

    def test_files_without_an_import_name(self):
        self.write("my-app.py")
        self.assertEqual(self.name_seen("my-app.py"), "my_app")
        self.assertIn("my_app", sys.modules)
        self.write("json.wsgi", "import json\n" + HELLO + "\njson.dumps(1)\n")
        self.assertEqual(self.name_seen("json.wsgi"), "json_wsgi")
        self.write("2nd.py")
        self.assertEqual(self.name_seen("2nd.py"), "_2nd")
        self.write("my-own.py")
        self.write("my_own.py", "other = 1")
        self.assertEqual(self.name_seen("my-own.py"), "my_own_")
        self.assertEqual(__import__("my_own").other, 1)

    def test_L2_pickle(self):
        self.write("my-pickle.py", HELLO + "\nclass Thing:\n    pass\n")
        self.name_seen("my-pickle.py")
        thing = sys.modules["my_pickle"].Thing()
        self.assertIs(type(pickle.loads(pickle.dumps(thing))), type(thing))

    def test_a_file_that_fails_is_not_left_behind(self):
        self.write("half-done.wsgi", "raise ValueError('x')\n")
        self.refused("half-done.wsgi", "half-done.wsgi", "ValueError: x",
                     log=["Traceback", "half-done.wsgi"])
        self.assertNotIn("half_done_wsgi", sys.modules)

    def test_shadowed_by_another_module(self):
        self.assertTrue(json.loads)
        self.write("json.py")
        self.refused("json.py", "json.py", "another module", "rename")
        self.write("sys.py")
        self.refused("sys.py", "another module")

    def test_A7_not_found(self):
        why = self.refused("no_such_module", "no module no_such_module",
                           "sys.path")
        self.assertIn(sys.path[-1], why)
        self.refused("no_such.sub:app", "no_such")
        self.write("here.py", "")
        self.refused("here.sub:app", "here.sub", "not a package")

    def test_A7_error_inside(self):
        self.write("broken_a.py", "import no_such_dependency\n")
        self.refused("broken_a", "importing broken_a",
                     "no_such_dependency", log=["Traceback", "broken_a.py"])
        self.write("broken_b.py", "1 // 0\n")
        self.refused("broken_b.py", "ZeroDivisionError", log=["broken_b.py"])
        self.write("broken_c.py", "def f(:\n")
        self.refused("broken_c.py", "SyntaxError", log=["broken_c.py"])
        self.write("broken_d.py", "raise SystemExit(3)\n")
        self.refused("broken_d", "SystemExit: 3", log=["Traceback"])
        self.write("broken_e.py", "raise KeyboardInterrupt\n")
        self.refused("broken_e", "KeyboardInterrupt", log=["Traceback"])
        # Its own name, but from inside it.
        self.write("broken_f/__init__.py", "import broken_f.missing\n")
        self.refused("broken_f", "broken_f.missing", log=["Traceback"])

    def test_A7_attribute(self):
        self.write("attr_app.py", HELLO + "\nother = 5\n")
        self.refused("attr_app:aplication", "aplication", "application")
        self.refused("attr_app:zzz", "zzz")
        self.refused("attr_app:application.zzz", "application.zzz")
        self.refused("attr_app:other", "int", "cannot be called")
        self.refused("attr_app:other()", "int", "cannot be called")
        self.write("none_app.py", "def view(): pass\nclass Site: pass\nx = 1")
        self.refused("none_app", "application", "view", "Site")
        self.write("getattr_app.py",
                   "def __getattr__(name):\n    raise ValueError(name)\n")
        self.refused("getattr_app:x", "ValueError", log=["Traceback"])

    def test_A7_signature(self):
        self.write("sig_app.py", """
def none(): pass
def one(environ): pass
def three(a, b, c): pass
def keyword(environ, *, start_response): pass
def good(environ, start_response, extra=None): pass
def star(*args): pass
async def asgi(scope, receive, send): pass
async def asgi2(environ, start_response): pass
class Asgi:
    async def __call__(self, scope, receive, send): pass
class Bad:
    def __init__(self, environ): pass
class Good:
    def __init__(self, environ, start_response): pass
class GoodCall:
    def __call__(self, environ, start_response): pass
class OddSignature:
    @property
    def __signature__(self): raise KeyError
    def __call__(self, *args): pass
asgi_object = Asgi()
good_object = GoodCall()
odd_object = OddSignature()
builtin = dict.update
""")
        for name in ("none", "one", "three", "keyword", "Bad"):
            self.refused("sig_app:" + name, '"%s"' % name, "sig_app",
                         "environ")
        self.refused("sig_app:none", "with ()")
        for name in ("asgi", "asgi_object", "asgi2"):
            self.refused("sig_app:" + name, "async", "WSGI")
        for name in ("good", "star", "Good", "good_object", "odd_object",
                     "builtin"):
            self.assertTrue(driver.load_app("sig_app:" + name))
        self.assert_quiet()

    def test_A7_factory(self):
        self.write("fact.py", """
def bad(): raise ValueError("in the factory")
def returns_none(): return None
def needs_argument(x): pass
def make():
    return lambda environ, start_response: None
""")
        self.refused("fact:bad()", "bad()", "ValueError", log=["Traceback"])
        self.refused("fact:returns_none()", "NoneType")
        self.refused("fact:needs_argument()", "TypeError", log=["TypeError"])
        self.refused("fact:make", "with ()")
        self.assertTrue(callable(driver.load_app("fact:make()")))
