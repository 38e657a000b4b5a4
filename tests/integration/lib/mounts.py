# SPDX-License-Identifier: MIT
"""Tests that change what is mounted, in a mount namespace of their own."""

import functools
import os
import shutil
import subprocess


@functools.lru_cache()
def why_not():
    """Why there can be none here, or None. In a chroot, whose root folder is
    no mount, unshare(1) cannot keep the changes from the rest of the machine,
    and refuses."""
    if os.geteuid() != 0:
        return "mount namespaces need root"
    if shutil.which("unshare") is None:
        return "unshare is not installed"
    found = subprocess.run(["unshare", "--mount", "true"],
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if found.returncode != 0:
        return "no mount namespaces here: %s" % (
            found.stdout.decode(errors="replace").strip())
    return None
