# SPDX-License-Identifier: MIT
"""The common small site in Django, in one file."""

import os

import django
from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.http import (HttpResponse, HttpResponseRedirect,
                         StreamingHttpResponse)
from django.urls import path

from plain_app import digest, read_all

settings.configure(
    DEBUG=False, SECRET_KEY="only for tests", ROOT_URLCONF=__name__,
    ALLOWED_HOSTS=["*"], USE_TZ=True,
    FILE_UPLOAD_TEMP_DIR=os.environ.get("FOREBAY_TEST_NOTES") or None,
    DATA_UPLOAD_MAX_MEMORY_SIZE=None,
    MIDDLEWARE=["django.middleware.common.CommonMiddleware"])
django.setup()


def hello(request):
    return HttpResponse("hello", content_type="text/plain")


def rest_of_path(request, rest):
    return HttpResponse(rest, content_type="text/plain; charset=utf-8")


def form(request):
    return HttpResponse(" ".join("%s=%s" % i
                                 for i in sorted(request.POST.items())))


def body(request):
    return HttpResponse(digest(read_all(request)))


def upload(request):
    f = request.FILES["file"]
    return HttpResponse("%s %s" % (f.name, digest(f.chunks())))


def stream(request):
    n = int(request.META["QUERY_STRING"] or "10")
    return StreamingHttpResponse((b"chunk %d\n" % i for i in range(n)),
                                 content_type="text/plain")


def cookies(request):
    answer = HttpResponse(request.META.get("HTTP_COOKIE", ""))
    answer.set_cookie("a", "1")
    answer.set_cookie("b", "2")
    return answer


def redirect(request):
    return HttpResponseRedirect("/hello")


def error(request):
    raise LookupError("an error on purpose")


urlpatterns = [
    path("hello", hello), path("path/<path:rest>", rest_of_path),
    path("form", form), path("body", body), path("upload", upload),
    path("stream", stream), path("cookies", cookies),
    path("redirect", redirect), path("error", error)]

application = get_wsgi_application()
