# SPDX-License-Identifier: MIT
"""Imports the module TEST_MODULE, and does something with it (R104)."""

import importlib
import os

NAME = os.environ["TEST_MODULE"]
module = importlib.import_module(NAME)


def use():
    if NAME == "_ssl":
        import hashlib
        import ssl
        ssl.create_default_context()
        return hashlib.new("sha256", b"x").digest()
    if NAME == "_decimal":
        import decimal
        return decimal.Decimal(1) / 3
    if NAME == "_sqlite3":
        import sqlite3
        with sqlite3.connect(":memory:") as c:
            return c.execute("select 1").fetchone()
    if NAME == "_ctypes":
        import ctypes
        return ctypes.CDLL(None).getpid() == os.getpid()
    if NAME == "numpy":
        return module.ones((100, 100)).dot(module.ones((100, 100))).sum()
    if NAME == "lxml.etree":
        return module.fromstring("<a><b/></a>").find("b").tag
    if NAME == "cryptography":
        from cryptography.fernet import Fernet
        f = Fernet(Fernet.generate_key())
        return f.decrypt(f.encrypt(b"x")) == b"x"
    if NAME == "bcrypt":
        return module.checkpw(b"x", module.hashpw(b"x", module.gensalt(4)))
    if NAME == "google.protobuf":
        from google.protobuf.timestamp_pb2 import Timestamp
        return Timestamp.FromString(Timestamp(seconds=5).SerializeToString())
    if NAME == "psycopg2":
        try:
            module.connect("host=/nowhere")
        except module.OperationalError:
            return True
    return module


def application(environ, start_response):
    assert use() is not None
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"works"]
