# SPDX-License-Identifier: MIT
"""What Flask makes of a mount: its own idea of the path, and a URL."""

from flask import Flask, jsonify, request, url_for

application = Flask(__name__)


@application.route("/other")
def other():
    return "other"


@application.route("/", defaults={"rest": ""})
@application.route("/<path:rest>")
def page(rest):
    return jsonify(script=request.script_root, path="/" + rest,
                   url_for=url_for("other"))
