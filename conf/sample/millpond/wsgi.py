# SPDX-License-Identifier: MIT
"""forebay serve millpond.wsgi:application"""

import fcntl
import os

from django.core.management import call_command
from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "millpond.settings")
application = get_wsgi_application()


def prepare_database():
    """Make or update the tables; one process at a time. Nothing stays open:
    forked workers must not share a connection."""
    from django.conf import settings
    from django.db import connections

    with open(os.path.join(settings.DATA, "lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        call_command("migrate", verbosity=0, interactive=False)
        connections.close_all()


prepare_database()
