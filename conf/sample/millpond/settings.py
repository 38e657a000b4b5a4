# SPDX-License-Identifier: MIT
"""Settings of the sample site; the data folder comes from the environment."""

import os
import secrets

from django.core.exceptions import ImproperlyConfigured

HERE = os.path.dirname(os.path.abspath(__file__))
DATA = os.environ.get("FOREBAY_SAMPLE_DATA", "")
if not os.access(DATA or "/nonexistent", os.W_OK | os.X_OK):
    raise ImproperlyConfigured(
        "FOREBAY_SAMPLE_DATA must name a folder that this process can write "
        "to; it is %r" % DATA)


def secret_key():
    """Made once, kept in the data folder, the same for all workers."""
    path = os.path.join(DATA, "secret-key")
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        pass
    else:
        with os.fdopen(fd, "w") as f:
            f.write(secrets.token_urlsafe(48))
    with open(path) as f:
        return f.read()


SECRET_KEY = secret_key()
DEBUG = False
ALLOWED_HOSTS = ["*"]
ROOT_URLCONF = "millpond.urls"
INSTALLED_APPS = ["millpond"]
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True
TIME_ZONE = "UTC"
LANGUAGE_CODE = "en-gb"
APPEND_SLASH = False
X_FRAME_OPTIONS = "SAMEORIGIN"     # the page of the stream shows it in a frame
STATIC_URL = "/static/"

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]
TEMPLATES = [{
    "BACKEND": "django.template.backends.django.DjangoTemplates",
    "APP_DIRS": True,
    "OPTIONS": {"context_processors": [
        "django.template.context_processors.request",
        "millpond.views.navigation"]},
}]
DATABASES = {"default": {
    "ENGINE": "django.db.backends.sqlite3",
    "NAME": os.path.join(DATA, "millpond.sqlite3"),
    "OPTIONS": {"timeout": 20},
}}
# The traceback of a view goes to the log, which is descriptor 2.
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "handlers": {"log": {"class": "logging.StreamHandler"}},
    "loggers": {"django": {"handlers": ["log"], "level": "ERROR",
                           "propagate": False}},
}
