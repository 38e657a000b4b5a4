# SPDX-License-Identifier: MIT
import json
import pickle

TIMES = []
TIMES.append(1)


class Thing:
    value = 5


def application(environ, start_response):
    found = {"name": __name__, "times": len(TIMES),
             "pickle": pickle.loads(pickle.dumps(Thing())).value}
    start_response("200 OK", [("Content-Type", "application/json")])
    return [json.dumps(found).encode()]
