# SPDX-License-Identifier: MIT
"""What scripts/bench is made of: start servers, load them, count, compare."""
