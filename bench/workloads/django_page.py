# SPDX-License-Identifier: MIT
"""A Django page that asks a database 15 times: SQLite, BENCH_DATABASE is its
path, or PostgreSQL, when BENCH_POSTGRES_HOST and the like are set.
`python3 django_page.py` fills it."""
import os

import django
from django.conf import settings

if "BENCH_POSTGRES_HOST" in os.environ:
    DATABASE = {"ENGINE": "django.db.backends.postgresql",
                **{name: os.environ["BENCH_POSTGRES_" + name]
                   for name in ("HOST", "PORT", "USER", "NAME")}}
else:
    DATABASE = {"ENGINE": "django.db.backends.sqlite3",
                "NAME": os.environ["BENCH_DATABASE"]}

if not settings.configured:
    settings.configure(
        ALLOWED_HOSTS=["*"], SECRET_KEY="no secret", ROOT_URLCONF=__name__,
        DATABASES={"default": {**DATABASE, "CONN_MAX_AGE": None}},
        INSTALLED_APPS=["django.contrib.contenttypes", "django.contrib.auth",
                        "django.contrib.sessions"],
        MIDDLEWARE=["django.middleware.security.SecurityMiddleware",
                    "django.contrib.sessions.middleware.SessionMiddleware",
                    "django.middleware.common.CommonMiddleware",
                    "django.middleware.csrf.CsrfViewMiddleware",
                    "django.contrib.auth.middleware."
                    "AuthenticationMiddleware"],
        TEMPLATES=[{"BACKEND": "django.template.backends.django."
                               "DjangoTemplates",
                    "DIRS": [os.path.dirname(os.path.abspath(__file__))]}])
    django.setup()

from django.core.wsgi import get_wsgi_application  # noqa: E402
from django.db import connection, models  # noqa: E402
from django.shortcuts import render  # noqa: E402
from django.urls import path  # noqa: E402

GROUPS = 13


class Group(models.Model):
    name = models.CharField(max_length=40)

    class Meta:
        app_label = "bench"


class Entry(models.Model):
    group = models.ForeignKey(Group, on_delete=models.CASCADE)
    title = models.CharField(max_length=80)
    score = models.IntegerField(db_index=True)

    class Meta:
        app_label = "bench"


def page(request):
    """1 query for the groups, 13 for their entries, 1 for the number."""
    groups = list(Group.objects.order_by("name"))
    sections = [(group, list(Entry.objects.filter(group=group)
                             .order_by("-score")[:5])) for group in groups]
    return render(request, "django_page.html",
                  {"sections": sections, "count": Entry.objects.count()})


urlpatterns = [path("", page)]
application = get_wsgi_application()


def fill():
    with connection.schema_editor() as editor:
        editor.create_model(Group)
        editor.create_model(Entry)
    for number in range(GROUPS):
        group = Group.objects.create(name="Group %02d" % number)
        Entry.objects.bulk_create(
            Entry(group=group, title="Entry %d of %d" % (i, number),
                  score=i * 31 % 97) for i in range(20))


if __name__ == "__main__":
    fill()
