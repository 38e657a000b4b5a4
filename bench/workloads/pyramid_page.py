# SPDX-License-Identifier: MIT
"""A page of 10 KB by Pyramid and Jinja2, as the home page of a small site."""
import os

from jinja2 import Environment, FileSystemLoader
from pyramid.config import Configurator
from pyramid.response import Response

HERE = os.path.dirname(os.path.abspath(__file__))
TEMPLATE = Environment(loader=FileSystemLoader(HERE), autoescape=True,
                       auto_reload=False).get_template("page.html")
ARTICLES = [
    {"title": "Article %d & more" % i, "slug": "article-%d" % i,
     "author": ("Ada", "Grace", "Edsger")[i % 3], "comments": i * 7 % 40,
     "tags": ["python", "wsgi", "fastcgi"][:1 + i % 3],
     "text": "The quick brown fox jumps over the lazy dog, <%d> times. " % i
             * 3}
    for i in range(22)]


def page(request):
    return Response(TEMPLATE.render(articles=ARTICLES, request=request,
                                    user=request.cookies.get("theme")))


with Configurator() as config:
    config.add_route("page", "/")
    config.add_view(page, route_name="page")
    application = config.make_wsgi_app()
