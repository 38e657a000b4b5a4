# SPDX-License-Identifier: MIT
"""What the shipped workloads read: a picture and a database."""
import os
import subprocess

from .servers import WORKLOADS

PICTURE_BYTES = 313 * 1024


def make(setup):
    picture, database = setup.path("picture.png"), setup.path("bench.sqlite3")
    setup.env.update(BENCH_PICTURE=picture, BENCH_DATABASE=database)
    with open(picture, "wb") as f:
        f.write(b"\x89PNG\r\n\x1a\n")
        f.write(os.urandom(PICTURE_BYTES - 8))


def fill_database(setup):
    """For django_page; BENCH_DATABASE says which."""
    subprocess.run(
        ["/usr/bin/python3", "django_page.py"], cwd=WORKLOADS, check=True,
        env={**os.environ, **setup.env, "PYTHONDONTWRITEBYTECODE": "1"})
