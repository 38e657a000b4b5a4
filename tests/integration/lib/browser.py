# SPDX-License-Identifier: MIT
"""A page in headless Chromium: what it looks like, and what it complains of."""

import os
import re
import shutil
import struct
import subprocess
import zlib

from .server import temp_dir
from .wait import FACTOR


def chromium():
    return shutil.which("chromium") or shutil.which("chromium-browser")


def screenshot(path, png, width=1000, height=900, dark=False):
    """Write png; what the page logged, as lines."""
    profile = temp_dir()
    argv = [chromium(), "--headless", "--no-sandbox", "--disable-gpu",
            "--hide-scrollbars", "--no-first-run", "--disable-extensions",
            "--disable-dev-shm-usage", "--host-resolver-rules=MAP * ~NOTFOUND",
            "--window-size=%d,%d" % (width, height),
            "--user-data-dir=" + profile, "--enable-logging=stderr", "--v=0",
            "--screenshot=" + png, "file://" + path]
    if dark:
        argv.insert(1, "--blink-settings=preferredColorScheme=0")
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True,
                              errors="replace", timeout=120 * FACTOR,
                              env=dict(os.environ, HOME=profile))
    finally:
        shutil.rmtree(profile, ignore_errors=True)
    assert os.path.exists(png), done.stderr[-3000:]
    return re.findall(r"^\[.*CONSOLE.*$", done.stderr, re.MULTILINE)


def png_rows(path):
    """Bytes of each row of an 8 bit RGB or RGBA picture, and bytes of a
    pixel."""
    with open(path, "rb") as f:
        data = f.read()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    width, height, bits, colour = struct.unpack(">IIBB", data[16:26])
    assert bits == 8 and colour in (2, 6), (bits, colour)
    at, packed = 8, b""
    while at < len(data):
        length, = struct.unpack(">I", data[at:at + 4])
        if data[at + 4:at + 8] == b"IDAT":
            packed += data[at + 8:at + 8 + length]
        at += length + 12
    size = 3 if colour == 2 else 4
    return unfilter(zlib.decompress(packed), width * size, height, size), size


def unfilter(raw, stride, height, size):
    before, rows = bytearray(stride), []
    for number in range(height):
        start = number * (stride + 1)
        row = bytearray(raw[start + 1:start + 1 + stride])
        unfilter_row(raw[start], row, before, size)
        rows.append(bytes(row))
        before = row
    return rows


def unfilter_row(kind, row, above, size):
    """PNG, section 9: what was subtracted is added again."""
    if kind == 2:
        row[:] = bytes((a + b) & 255 for a, b in zip(row, above))
        return
    for i in range(len(row) if kind else 0):
        left = row[i - size] if i >= size else 0
        if kind == 1:
            add = left
        elif kind == 3:
            add = (left + above[i]) // 2
        else:
            corner = above[i - size] if i >= size else 0
            guess = left + above[i] - corner
            add = min((left, above[i], corner),
                      key=lambda v: abs(guess - v))
        row[i] = (row[i] + add) & 255


def colours(path):
    """{(r, g, b): part of the picture}, of every fourth row."""
    rows, size = png_rows(path)
    found, total = {}, 0
    for row in rows[::4]:
        for i in range(0, len(row), size * 2):
            pixel = row[i:i + 3]
            found[pixel] = found.get(pixel, 0) + 1
            total += 1
    return {tuple(pixel): n / total for pixel, n in found.items()}
