# SPDX-License-Identifier: MIT
"""The common small site in Pyramid."""

from pyramid.config import Configurator
from pyramid.httpexceptions import HTTPFound
from pyramid.response import Response

from plain_app import digest, read_all


def plain(text):
    return Response(text, content_type="text/plain", charset="utf-8")


def hello(request):
    return plain("hello")


def path(request):
    return plain("/".join(request.matchdict["rest"]))


def form(request):
    return plain(" ".join("%s=%s" % i for i in sorted(request.POST.items())))


def body(request):
    return plain(digest(read_all(request.body_file)))


def upload(request):
    f = request.POST["file"]
    return plain("%s %s" % (f.filename, digest(read_all(f.file))))


def stream(request):
    n = int(request.query_string or "10")
    return Response(app_iter=(b"chunk %d\n" % i for i in range(n)),
                    content_type="text/plain")


def cookies(request):
    answer = plain(request.headers.get("Cookie", ""))
    answer.set_cookie("a", "1")
    answer.set_cookie("b", "2")
    return answer


def redirect(request):
    return HTTPFound("/hello")


def error(request):
    raise LookupError("an error on purpose")


config = Configurator()
for name, pattern, view in (
        ("hello", "/hello", hello), ("path", "/path/*rest", path),
        ("form", "/form", form), ("body", "/body", body),
        ("upload", "/upload", upload), ("stream", "/stream", stream),
        ("cookies", "/cookies", cookies), ("redirect", "/redirect", redirect),
        ("error", "/error", error)):
    config.add_route(name, pattern)
    config.add_view(view, route_name=name)
application = config.make_wsgi_app()
