# SPDX-License-Identifier: MIT
"""The application that is compared, under one name for every server."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))

from harness.loadapp import load_from_environment  # noqa: E402

application = load_from_environment()
