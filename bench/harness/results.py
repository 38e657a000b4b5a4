# SPDX-License-Identifier: MIT
"""What was measured, as rows of plain values: for the terminal, CSV, JSON, the
report and the recommendation alike."""
import csv
import json
import statistics


class Cell:
    """One path at one concurrency; a result for each round."""

    def __init__(self, there, clients):
        self.there, self.clients = there, clients
        self.results = []


class ServerRow:
    """One server by itself."""

    def __init__(self, target):
        self.target = target
        self.values = {}


def median_curve(results):
    """Of each percent the median of the rounds' values."""
    points = {}
    for found in results:
        for percent, us in found["latency_us"]["curve"]:
            points.setdefault(percent, []).append(us)
    return [[p, statistics.median(points[p])] for p in sorted(points)]


def cell_row(cell):
    path, target = cell.there.path, cell.there.path.target
    shape = target.shape
    row = {
        "label": path.label, "server": target.name,
        "mode": shape.mode if shape else None,
        "workers": shape.workers if shape else None,
        "threads": shape.threads if shape else None,
        "protocol": path.protocol, "socket": shape.socket if shape else None,
        "front": path.front, "keep": path.keep, "clients": cell.clients,
        "rounds": len(cell.results),
        "requests": sum(r["requests"] for r in cell.results),
        "failed": sum(r["failed"] for r in cell.results),
        "failures": total_failures(cell.results)}
    for name, values in (
            ("rps", [r["rps"] for r in cell.results]),
            ("cpu_us", [r["cpu_us"] for r in cell.results]),
            ("front_us", [r["front_us"] for r in cell.results]),
            ("p50_us", [r["latency_us"]["p50"] for r in cell.results]),
            ("p90_us", [r["latency_us"]["p90"] for r in cell.results]),
            ("p99_us", [r["latency_us"]["p99"] for r in cell.results])):
        row[name] = statistics.median(values)
        row[name + "_min"], row[name + "_max"] = min(values), max(values)
    row["both_us"] = statistics.median(
        r["cpu_us"] + r["front_us"] for r in cell.results)
    row["max_us"] = max(r["latency_us"]["max"] for r in cell.results)
    row["syscalls"], row["front_syscalls"] = cell.there.syscalls
    row["curve"] = median_curve(cell.results)
    return row


def total_failures(results):
    found = {}
    for result in results:
        for name, count in result["failures"].items():
            found[name] = found.get(name, 0) + count
    return found


SERVER_VALUES = (
    "startup_ms", "processes", "pss_before_mb", "pss_under_mb",
    "pss_after_mb", "rss_before_mb", "rss_under_mb", "rss_after_mb",
    "reload_gap_ms", "reload_failed", "reload_done")


def server_row(row):
    shape = row.target.shape
    found = {"label": row.target.label, "server": row.target.name,
             "mode": shape.mode, "workers": shape.workers,
             "threads": shape.threads, "socket": shape.socket}
    found.update({name: row.values.get(name) for name in SERVER_VALUES})
    return found


def document(comparison, machine, settings, recommendation):
    """Everything, for JSON and for the report."""
    cells = [cell_row(c) for c in comparison.cells]
    servers = [server_row(s) for s in comparison.servers]
    return {
        "format": 1, "machine": machine, "settings": settings,
        "cells": cells, "servers": servers,
        "left_out": [list(x) for x in comparison.plan.left_out],
        "broken": [list(x) for x in comparison.broken],
        "notes": list(comparison.notes),
        "recommendation": recommendation(cells, servers)}


# The columns of the CSV file: one row for each cell, with what is known of its
# server besides.
CELL_COLUMNS = (
    "label", "server", "mode", "workers", "threads", "protocol", "socket",
    "front", "keep", "clients", "rounds", "requests", "failed", "rps",
    "rps_min", "rps_max", "p50_us", "p90_us", "p99_us", "max_us", "cpu_us",
    "cpu_us_min", "cpu_us_max", "front_us", "both_us", "syscalls",
    "front_syscalls")


def find_server(cell, servers):
    """The row of the server that answered a cell, or None."""
    return next((s for s in servers if all(
        s[k] == cell[k] for k in ("server", "mode", "workers", "threads",
                                  "socket"))), None)


def csv_rows(doc):
    for cell in doc["cells"]:
        server = find_server(cell, doc["servers"]) or {}
        yield [cell[c] for c in CELL_COLUMNS] + [
            server.get(c) for c in SERVER_VALUES]


def write_csv(doc, path):
    with open(path, "w", newline="") as f:
        out = csv.writer(f)
        out.writerow(CELL_COLUMNS + SERVER_VALUES)
        for row in csv_rows(doc):
            out.writerow("" if v is None else v for v in row)


def write_json(doc, path):
    with open(path, "w") as f:
        json.dump(doc, f, indent=1)
        f.write("\n")
