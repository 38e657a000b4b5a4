# SPDX-License-Identifier: MIT
"""x"""
def write(doc, path):
    open(path, "w").write(repr(doc))
