# SPDX-License-Identifier: MIT
from django.urls import path

from . import views

urlpatterns = [
    path("", views.home, name="home"),
    path("upload", views.upload, name="upload"),
    path("guestbook", views.guestbook, name="guestbook"),
    path("stream", views.stream, name="stream"),
    path("stream/lines", views.stream_lines, name="stream-lines"),
    path("slow", views.slow, name="slow"),
    path("error", views.error, name="error"),
    path("environ", views.environ, name="environ"),
]
handler404 = views.not_found
handler500 = views.server_error
