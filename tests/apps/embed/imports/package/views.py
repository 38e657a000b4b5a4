# SPDX-License-Identifier: MIT
import json
import pickle

from . import imported
from .other import Thing

imported.append(__name__)


def application(environ, start_response):
    found = {"name": __name__, "times": len(imported),
             "pickle": pickle.loads(pickle.dumps(Thing())).value}
    start_response("200 OK", [("Content-Type", "application/json")])
    return [json.dumps(found).encode()]


def make():
    return application


class holder:
    app = staticmethod(application)
