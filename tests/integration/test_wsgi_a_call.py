# SPDX-License-Identifier: MIT
"""WSGI checklist A: calling the application."""

import os

import pytest

from lib import server as srv

CHECKLIST = os.path.join(srv.APPS, "checklist")


@pytest.fixture
def serve_callable(serve, shape, notes):
    def start(name, **options):
        options = shape.options(**options)
        return serve(name, chdir=CHECKLIST, env=notes.env(), **options)
    return start


@pytest.fixture
def fails_callable(fails, shape, notes):
    def start(name, **options):
        options = shape.options(**options)
        return fails(name, chdir=CHECKLIST, env=notes.env(), **options)
    return start


def test_A1_two_positional_arguments(serve_callable):
    assert serve_callable("callables:positional_only").request().body == (
        b"positional only")
    assert serve_callable("callables:counting").request().body == b"2 0"


@pytest.mark.parametrize("name, body", [
    ("function", b"function"), ("instance", b"instance"), ("Class", b"class"),
    ("bound", b"bound method"), ("partial", b"partial"),
    ("lambda_", b"lambda")])
def test_A2_any_callable(serve_callable, name, body):
    server = serve_callable("callables:" + name)
    for _ in range(2):
        answer = server.request()
        assert (answer.status, answer.body) == (200, body)


@pytest.mark.parametrize("case, body", [
    ("A3_generator", b"from a generator"), ("A3_class", b"from __iter__")])
def test_A3_start_response_in_the_first_iteration(app, case, body):
    answer = app(case)
    assert answer.status_line == "200 OK"
    assert answer.header("Content-Type") == "text/plain"
    assert answer.body == body
    assert answer.complete


@pytest.mark.parametrize("kind", [
    "list", "tuple", "generator", "iterator", "getitem", "set", "dict",
    "dict_view", "map", "list_subclass"])
def test_A4_any_iterable(app, kind):
    answer = app("A4", query=kind)
    assert (answer.status, answer.body) == (200, b"abc")
    assert answer.complete


def test_A5_no_attribute_but_iteration_len_close(app):
    assert app("A5").body == b"watched"
    allowed = {"__iter__", "__next__", "__len__", "close"}
    assert set(app.notes.read("A5")) <= allowed


def test_A6_importing(serve_callable, notes):
    # Its real name, and "application" by default.
    assert serve_callable("callables").request().body == b"callables"
    # By path: the same name.
    path = os.path.join(CHECKLIST, "callables.py")
    assert serve_callable(path).request().body == b"callables"
    assert serve_callable(path + ":function").request().body == b"function"
    # A dotted attribute.
    assert serve_callable("callables:holder.inner").request().body == (
        b"instance")
    assert serve_callable("callables:holder.inner.method").request().body == (
        b"bound method")
    for line in notes.read("imports"):
        assert line.endswith(" callables"), "imported as " + line


@pytest.mark.parametrize("preload", ["on", "off"])
def test_A6_factory_and_import_once(serve_callable, notes, preload):
    server = serve_callable("callables:factory()", preload=preload, workers=2)
    for _ in range(4):
        assert server.request().body == b"function"
    workers = server.wait_workers(2)
    # Once in each worker, and never anew for a request.
    called = sorted(int(p) for p in notes.wait("factory", 2))
    assert called == workers
    importers = [line.split()[0] for line in notes.read("imports")]
    assert len(importers) == len(set(importers)), "imported twice"
    assert len(importers) == (1 if preload == "on" else 2)


@pytest.mark.parametrize("app_name, says", [
    ("callables:missing", r"missing"),
    ("callables:not_callable", r"not_callable.*(callable|int)"),
    ("callables:no_arguments", r"no_arguments.*argument"),
    ("callables:one_argument", r"one_argument.*argument"),
    ("callables:holder.outer", r"outer"),
    ("no_such_module_here", r"no_such_module_here"),
    ("callables:factory_of_nothing()", r"factory_of_nothing.*(callable|None)"),
    ("callables:factory_that_raises()", r"factory_that_raises"),
    ("no_such_file.py", r"no_such_file\.py"),
])
def test_A7_reported_at_start(fails_callable, app_name, says):
    code, log = fails_callable(app_name)
    assert code > 0
    import re
    lines = [line for line in log.splitlines() if srv.is_error(line)
             and re.search(says, line)]
    assert lines, log


def test_A8_a_fresh_context_for_each_request(app):
    for _ in range(3 * app.shape.threads):
        assert app("A8").body == b"unset"
    assert app("A8_iteration").body == b"of this request"
    assert app("A8").body == b"unset"
