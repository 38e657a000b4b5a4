# SPDX-License-Identifier: MIT
"""The sample site of forebay."""
