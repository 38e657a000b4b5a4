# SPDX-License-Identifier: MIT
"""The common small site in Flask."""

from flask import Flask, Response, make_response, redirect, request

from plain_app import digest, read_all

application = Flask(__name__)


@application.route("/hello")
def hello():
    return Response("hello", mimetype="text/plain")


@application.route("/path/<path:rest>")
def path(rest):
    return Response(rest, mimetype="text/plain")


@application.route("/form", methods=["POST"])
def form():
    return " ".join("%s=%s" % i for i in sorted(request.form.items()))


@application.route("/body", methods=["POST", "PUT"])
def body():
    return digest(read_all(request.stream))


@application.route("/upload", methods=["POST"])
def upload():
    f = request.files["file"]
    return "%s %s" % (f.filename, digest(read_all(f.stream)))


@application.route("/stream")
def stream():
    n = int(request.query_string or b"10")
    return Response((b"chunk %d\n" % i for i in range(n)),
                    mimetype="text/plain")


@application.route("/cookies")
def cookies():
    answer = make_response(request.headers.get("Cookie", ""))
    answer.set_cookie("a", "1")
    answer.set_cookie("b", "2")
    return answer


@application.route("/redirect")
def elsewhere():
    return redirect("/hello")


@application.route("/error")
def error():
    raise LookupError("an error on purpose")
