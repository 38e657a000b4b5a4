# SPDX-License-Identifier: MIT
"""Import an application as it is named to forebay: module:callable, module,
path/to/file.py[:callable]; "name()" is a factory. For the servers that it is
compared with, and for the reference answer."""
import importlib
import importlib.util
import os
import sys


def split(spec):
    """(module or file, callable or None)"""
    left, colon, right = spec.rpartition(":")
    return (left, right) if colon else (spec, None)


def import_target(target):
    if not target.endswith(".py"):
        return importlib.import_module(target)
    path = os.path.abspath(target)
    sys.path.insert(0, os.path.dirname(path))
    name = os.path.splitext(os.path.basename(path))[0]
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def load(spec):
    target, name = split(spec)
    module = import_target(target)
    if name is None:
        name = next((n for n in ("application", "app")
                     if hasattr(module, n)), "application")
    found = module
    for part in name.removesuffix("()").split("."):
        found = getattr(found, part)
    return found() if name.endswith("()") else found


def load_from_environment():
    """What scripts/compare has put there."""
    os.chdir(os.environ["FOREBAY_COMPARE_CHDIR"])
    for path in reversed(os.environ["FOREBAY_COMPARE_PATH"].split(":")):
        if path not in sys.path:
            sys.path.insert(0, path)
    return load(os.environ["FOREBAY_COMPARE_APP"])
