# SPDX-License-Identifier: MIT
"""What makes the load: forebay-load, which speaks FastCGI, SCGI and HTTP and
checks every byte, and for HTTP also wrk, ab and h2load. Each takes a Load and
returns what forebay-load prints, as far as it knows it."""
import collections
import csv
import json
import os
import re
import subprocess

from .servers import Failed, find

# The parts, in percent, that forebay-load prints.
CURVE = (0, 1, 5, 10, 20, 25, 30, 40, 50, 60, 66, 70, 75, 80, 85, 90, 95, 98,
         99, 99.5, 99.9, 100)

# What forebay-load sends for a browser; an application may look at it.
HEADERS = (
    ("Host", "www.example.com"),
    ("User-Agent", "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) "
     "Gecko/20100101 Firefox/128.0"),
    ("Accept", "text/html,application/xhtml+xml,application/xml;q=0.9,"
     "*/*;q=0.8"),
    ("Accept-Language", "en-US,en;q=0.5"),
    ("Accept-Encoding", "gzip, deflate, br"),
    ("Referer", "http://www.example.com/"),
    ("Cookie", "sessionid=k2xv8w1r5s0m3q7d9f4g6h1j2l5n8b3c; theme=dark"))

# One run. duration_ms or requests is None. options: of the application, for
# forebay-load (request_options and check_options).
Load = collections.namedtuple(
    "Load", "address protocol keep clients duration_ms requests app")


def run(argv, timeout):
    try:
        return subprocess.run([str(a) for a in argv], capture_output=True,
                              text=True, timeout=timeout)
    except subprocess.TimeoutExpired:
        raise Failed("%s does not end within %d s" % (argv[0],
                                                      timeout)) from None


def limit_s(load):
    return 120 + (load.duration_ms or 0) / 1000 + (load.requests or 0) / 20


def latencies(count, curve):
    """From pairs (percent, microseconds)."""
    at = dict(curve)
    return {"count": count, "p50": at.get(50, 0), "p90": at.get(90, 0),
            "p99": at.get(99, 0), "max": at.get(100, 0),
            "curve": [list(pair) for pair in curve]}


def result(ok, failed, seconds, curve, failures=None):
    return {"requests": ok + failed, "ok": ok, "failed": failed,
            "failures": failures or ({"other": failed} if failed else {}),
            "seconds": seconds, "rps": ok / seconds if seconds else 0.0,
            "reconnects": 0, "latency_us": latencies(ok, curve)}


class ForebayLoad:
    name = "forebay-load"
    protocols = ("fcgi", "scgi", "http")

    def require(self):
        pass

    def __call__(self, setup, load, timeout_ms=10000):
        argv = [setup.load, "--connect", load.address, "--protocol",
                load.protocol, "-c", load.clients, "--timeout", timeout_ms,
                *load.app.request_options(), *load.app.check_options()]
        if load.duration_ms:
            argv += ["--duration", load.duration_ms, "-n",
                     load.requests or 2000000]
        else:
            argv += ["-n", load.requests]
        if load.keep:
            argv.append("--keep")
        argv += getattr(load.app, "more_options", [])
        done = run(argv, limit_s(load))
        if done.returncode not in (0, 1):
            raise Failed("%s:\n%s" % (" ".join(map(str, argv)), done.stderr))
        found = json.loads(done.stdout)
        found["example"] = done.stderr.strip()
        return found


class HttpOnly:
    protocols = ("http",)

    def require(self):
        find(self.name, self.package)

    @staticmethod
    def headers():
        return [word for pair in HEADERS for word in ("-H", "%s: %s" % pair)]

    @staticmethod
    def url(load):
        return "http://%s%s" % (load.address, load.app.uri)

    @staticmethod
    def only_get(load):
        if load.app.method != "GET":
            raise Failed("only forebay-load sends %s" % load.app.method)


class Ab(HttpOnly):
    """Counts answers of another length and of another status than 2xx."""
    name, package = "ab", "apache2-utils"

    def __call__(self, setup, load):
        self.only_get(load)
        table = setup.path("ab.csv")
        argv = ["ab", "-q", "-r", "-s", 30, *self.headers(), "-c",
                load.clients, "-e", table]
        if load.keep:
            argv.append("-k")
        if load.duration_ms:
            argv += ["-t", max(1, round(load.duration_ms / 1000)), "-n",
                     load.requests or 2000000]
        else:
            argv += ["-n", load.requests]
        if load.app.length is None:
            argv.append("-l")
        done = run([*argv, self.url(load)], limit_s(load))
        if done.returncode != 0:
            raise Failed("%s: %s" % (" ".join(map(str, argv)), done.stderr))
        return self.parse(done.stdout, table, load)

    @staticmethod
    def number(text, name):
        m = re.search(r"^%s:\s+([\d.]+)" % re.escape(name), text,
                      re.MULTILINE)
        return float(m.group(1)) if m else 0

    def parse(self, text, table, load):
        complete = int(self.number(text, "Complete requests"))
        failures = {"ab": int(self.number(text, "Failed requests")),
                    "status": 0}
        if load.app.reference["status"] // 100 == 2:
            failures["status"] = int(self.number(text, "Non-2xx responses"))
        length = load.app.length
        if length is not None and complete and int(
                self.number(text, "Document Length")) != length:
            failures["length"] = complete       # the first one is its measure
        failures = {k: v for k, v in failures.items() if v}
        failed = min(sum(failures.values()), complete)
        with open(table) as f:
            rows = list(csv.reader(f))[1:]
        # With few requests ab reads behind the end of its list.
        curve = [(int(percent), float(ms if int(percent) == 100 or int(
            0.5 + complete * int(percent) / 100) < complete else
            rows[-1][1]) * 1000) for percent, ms in rows]
        found = result(complete - failed, failed,
                       self.number(text, "Time taken for tests"),
                       [p for p in curve if p[0] in CURVE], failures)
        found["percentiles_ms"] = [[p, us / 1000] for p, us in curve]
        found["text"] = text
        return found


WRK_SCRIPT = """
local wrong, seen = 0, {}
local threads = {}
function setup(thread) table.insert(threads, thread) end
function init(args)
   bad_status, bad_length = 0, 0
   wanted_status, wanted_length = tonumber(args[1]), tonumber(args[2])
   if args[3] == "close" then wrk.headers["Connection"] = "close" end
end
function response(status, headers, body)
   if status ~= wanted_status then bad_status = bad_status + 1
   elseif wanted_length >= 0 and #body ~= wanted_length then
      bad_length = bad_length + 1 end
end
function done(summary, latency, requests)
   local status, length, curve = 0, 0, {}
   for _, t in ipairs(threads) do
      status = status + t:get("bad_status")
      length = length + t:get("bad_length")
   end
   for _, p in ipairs({%s}) do
      local us = p == 0 and latency.min or p == 100 and latency.max
         or latency:percentile(p)
      table.insert(curve, string.format("[%%g, %%d]", p, us))
   end
   local e = summary.errors
   io.write(string.format(
      '\\nJSON {"requests": %%d, "us": %%d, "bad_status": %%d, ' ..
      '"bad_length": %%d, "errors": %%d, "curve": [%%s]}\\n',
      summary.requests, summary.duration, status, length,
      e.connect + e.read + e.write + e.timeout, table.concat(curve, ", ")))
end
""" % ", ".join("%g" % p for p in CURVE)


class Wrk(HttpOnly):
    """Its script looks at status and length of every answer."""
    name, package = "wrk", "wrk"

    def __call__(self, setup, load):
        self.only_get(load)
        if not load.duration_ms:
            raise Failed("wrk runs for a time, not for a number of requests")
        script = setup.write("wrk.lua", WRK_SCRIPT)
        length = -1 if load.app.length is None else load.app.length
        argv = ["wrk", "-t", 1, "-c", load.clients, "-d",
                "%ds" % max(1, round(load.duration_ms / 1000)), "--timeout",
                "30s", *self.headers(), "-s", script, self.url(load), "--",
                load.app.reference["status"], length,
                "keep" if load.keep else "close"]
        done = run(argv, limit_s(load))
        line = re.search(r"^JSON (.*)$", done.stdout, re.MULTILINE)
        if done.returncode != 0 or line is None:
            raise Failed("wrk: %s%s" % (done.stdout, done.stderr))
        said = json.loads(line.group(1))
        failures = {"status": said["bad_status"],
                    "length": said["bad_length"], "socket": said["errors"]}
        failures = {k: v for k, v in failures.items() if v}
        wrong = said["bad_status"] + said["bad_length"]
        return result(said["requests"] - wrong, sum(failures.values()),
                      said["us"] / 1e6, said["curve"], failures)


class H2load(HttpOnly):
    """HTTP/1.1 of h2load, which always keeps connections. It counts the
    status of each answer, and the bytes of all of them."""
    name, package = "h2load", "nghttp2-client"

    def __call__(self, setup, load):
        self.only_get(load)
        if not load.keep:
            raise Failed("h2load always keeps its connections")
        log = setup.path("h2load.tsv")
        if os.path.exists(log):
            os.unlink(log)
        # A second Host would be one too many: it sends :authority as that.
        headers = [w.replace("Host:", ":authority:") for w in self.headers()]
        argv = ["h2load", "--h1", *headers, "-c", load.clients, "-t", 1,
                "--log-file", log]
        if load.duration_ms:
            argv += ["-D", max(1, round(load.duration_ms / 1000))]
        else:
            argv += ["-n", load.requests]
        done = run([*argv, self.url(load)], limit_s(load))
        if done.returncode != 0:
            raise Failed("h2load: %s%s" % (done.stdout, done.stderr))
        return self.parse(done.stdout, log, load)

    @staticmethod
    def parse(text, log, load):
        counts = dict((word, int(number)) for number, word in re.findall(
            r"(\d+) (total|succeeded|failed|errored|timeout)\b", text))
        seconds = re.search(r"finished in ([\d.]+)(ms|us|s)\b", text)
        scale = {"s": 1, "ms": 1e-3, "us": 1e-6}[seconds.group(2)]
        sent = re.search(r"\((\d+)\) data", text)
        with open(log) as f:
            rows = [line.split("\t") for line in f]
        wanted = str(load.app.reference["status"])
        good = sorted(float(r[2]) for r in rows if r[1] == wanted)
        wrong = len(rows) - len(good)
        failures = {"status": wrong, "failed": max(
            0, counts.get("errored", 0) + counts.get("timeout", 0))}
        # Nothing is known of single answers' lengths, but of their sum.
        if (load.app.length is not None and load.requests and not wrong and
                sent and int(sent.group(1)) != load.app.length * len(rows)):
            failures["length"], good = len(rows), []
        failures = {k: v for k, v in failures.items() if v}
        curve = [(p, good[min(int(p / 100 * len(good)), len(good) - 1)])
                 for p in CURVE] if good else []
        return result(len(good), sum(failures.values()),
                      float(seconds.group(1)) * scale, curve, failures)


GENERATORS = {g.name: g for g in (ForebayLoad(), Wrk(), Ab(), H2load())}
