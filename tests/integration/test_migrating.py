# SPDX-License-Identifier: MIT
"""docs/migrating.md: whoever writes the name that another server has for a
setting is told ours, the one that the page has."""

import os
import re
import subprocess

import pytest

from lib import server as srv

PAGE = os.path.join(srv.TOP, "docs", "migrating.md")
# Names of ours with another meaning, which no hint can tell, and what is no
# name of a setting there.
SAME_NAME = {"listen", "mount", "env"}
SECTIONS = ("php-fpm", "uWSGI")


def rows():
    """(section, their name, ours)"""
    section = None
    with open(PAGE) as page:
        for line in page:
            if line.startswith("## "):
                section = line[3:].strip()
            if section not in SECTIONS or not line.startswith("| `"):
                continue
            cells = [c.strip() for c in line.split("|")[1:-1]]
            theirs = re.findall(r"`([^`]*)`", cells[0])
            ours = re.match(r"`([a-z_]+)`", cells[-1])
            if len(theirs) == 1 and ours and re.fullmatch(r"[a-z._-]+",
                                                          theirs[0]):
                yield section, theirs[0], ours.group(1), "[forebay]" in line


ROWS = sorted(set(rows()))


def test_there_are_some():
    assert len(ROWS) > 40


@pytest.mark.parametrize("section,theirs,ours,manager", ROWS)
def test_hint(tmp_path, section, theirs, ours, manager):
    path = tmp_path / "forebay.conf"
    path.write_text("[%s]\n%s = x\n" % (
        "forebay" if manager else "pool main", theirs))
    found = subprocess.run([srv.program(), "check", "-c", str(path)],
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    text = found.stdout.decode()
    if theirs.replace("-", "_") == ours or theirs in SAME_NAME:
        assert "there is no setting" not in text
    else:
        assert re.search(r"\b%s\b" % ours, text), text
