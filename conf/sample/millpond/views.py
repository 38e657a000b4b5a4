# SPDX-License-Identifier: MIT
"""The pages. Each shows one thing that an application server has to do."""

import hashlib
import os
import sys
import threading
import time

import django
from django.http import HttpResponseRedirect, StreamingHttpResponse
from django.shortcuts import render
from django.urls import reverse

from .forms import EntryForm, UploadForm
from .models import Entry

PAGES = [("home", "Pond"), ("upload", "Upload"), ("guestbook", "Guest book"),
         ("stream", "Stream"), ("slow", "Slow"), ("environ", "Environ")]
MAX_SECONDS = 30
LINES = 40


def navigation(request):
    return {"pages": PAGES, "process": process(request.environ)}


def process(environ):
    """Who answers: worth seeing on every page."""
    found = {
        "pid": os.getpid(),
        "mode": "threaded" if environ["wsgi.multithread"] else "prefork",
        "thread": threading.current_thread().name,
        "python": "%d.%d.%d" % sys.version_info[:3],
        "django": django.get_version(),
    }
    try:
        import forebay
    except ImportError:     # under another server
        found.update(server="another server", worker="-", pool="-")
    else:
        found.update(server="forebay " + forebay.__version__,
                     worker=forebay.worker_id(), pool=forebay.pool())
    return found


def home(request):
    return render(request, "home.html", {"entries": Entry.objects.count()})


def upload(request):
    form = UploadForm(request.POST or None, request.FILES or None)
    result = None
    if request.method == "POST" and form.is_valid():
        file = form.cleaned_data["file"]
        digest = hashlib.sha256()
        for chunk in file.chunks():
            digest.update(chunk)
        result = {"name": file.name, "size": file.size,
                  "sha256": digest.hexdigest()}
    return render(request, "upload.html", {"form": form, "result": result})


def guestbook(request):
    form = EntryForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        form.save()
        return HttpResponseRedirect(reverse("guestbook"))
    return render(request, "guestbook.html",
                  {"form": form, "entries": Entry.objects.all()[:50]})


def stream(request):
    return render(request, "stream.html", {"lines": LINES})


def stream_lines(request):
    """Plain text, a line every tenth of a second; each leaves at once."""
    def lines():
        begun = time.monotonic()
        for n in range(1, LINES + 1):
            yield "%5.2f s   drop %2d of %d, from process %d\n" % (
                time.monotonic() - begun, n, LINES, os.getpid())
            time.sleep(0.1)
        yield "The pond is full.\n"
    answer = StreamingHttpResponse(
        lines(), content_type="text/plain; charset=utf-8")
    answer["X-Accel-Buffering"] = "no"      # nginx: pass each piece on
    answer["Cache-Control"] = "no-store"
    return answer


def slow(request):
    try:
        seconds = float(request.GET.get("seconds", "0"))
    except ValueError:
        seconds = 0.0
    if not 0.0 <= seconds <= MAX_SECONDS:   # also for nan
        seconds = 0.0
    time.sleep(seconds)
    return render(request, "slow.html", {"seconds": seconds,
                                         "max_seconds": MAX_SECONDS})


def error(request):
    raise RuntimeError("the visitor pressed the button marked Error")


def environ(request):
    rows = sorted((k, v if isinstance(v, (str, bool, tuple)) else
                   type(v).__name__) for k, v in request.environ.items())
    return render(request, "environ.html", {
        "rows": rows, "sys_path": sys.path, "executable": sys.executable})


def not_found(request, exception):
    return render(request, "message.html", {
        "title": "Nothing here",
        "text": "There is no page at %s." % request.path}, status=404)


def server_error(request):
    return render(request, "message.html", {
        "title": "Something broke",
        "text": "The view raised an exception. The visitor sees this page; "
                "the traceback is in the log of the server, and the worker "
                "goes on."}, status=500)
