# SPDX-License-Identifier: MIT
"""Several executor threads in one interpreter (wsgi checklist L11, L15)."""
import threading
import time

import driver
import forebay
from support import Case, main

THREADS, REQUESTS = 8, 200


class Threads(Case):
    def bodies(self, app, threads=THREADS, requests=REQUESTS):
        driver.setup(multithread=True)
        found = {}
        for number, raw in driver.threaded(app, threads, requests):
            found.setdefault(number, []).append(
                raw.partition(b"\r\n\r\n")[2].decode())
        self.assertEqual(sorted(found), list(range(threads)),
                         self.log_text())
        return found

    def test_L15_every_response_belongs_to_its_request(self):
        def app(environ, start_response):
            self.assertIs(environ["wsgi.multithread"], True)
            who = environ["WHO"]
            start_response("200 OK", [("X-Who", who)])
            time.sleep(0)  # lets another thread run
            yield who.encode()
            yield b"|" + environ["wsgi.input"].read()
            time.sleep(0)
            yield b"|" + environ["WHO"].encode()

        for number, bodies in self.bodies(app).items():
            who = ["%d-%d" % (number, i) for i in range(REQUESTS)]
            self.assertEqual(bodies, ["%s|%s|%s" % (w, w, w) for w in who])

    def test_L15_lists(self):
        def app(environ, start_response):
            start_response("200 OK", [("X-Who", environ["WHO"])])
            return [environ["WHO"].encode(), b"x" * 50000]

        for number, bodies in self.bodies(app).items():
            self.assertEqual(
                [b.rstrip("x") for b in bodies],
                ["%d-%d" % (number, i) for i in range(REQUESTS)])

    def test_L11_thread_local_data_persists(self):
        local = threading.local()
        threads = set()

        def app(environ, start_response):
            local.count = getattr(local, "count", 0) + 1
            threads.add(threading.get_ident())
            start_response("200 OK", [])
            return [b"%d" % local.count]

        for bodies in self.bodies(app).values():
            self.assertEqual(bodies,
                             [str(i + 1) for i in range(REQUESTS)])
        self.assertEqual(len(threads), THREADS)
        self.assertNotIn(threading.get_ident(), threads)

    def test_after_response_stays_with_its_thread(self):
        done = []

        def app(environ, start_response):
            me = threading.get_ident()
            forebay.after_response(
                lambda: done.append(me == threading.get_ident()))
            start_response("200 OK", [])
            return [b"ok"]

        self.bodies(app)
        self.assertEqual(done, [True] * THREADS * REQUESTS)

    def test_old_objects_of_other_threads(self):
        kept = []

        def app(environ, start_response):
            for old_start, old_write, old_input in kept[-3:]:
                for use in (lambda: old_start("404 Nowhere", []),
                            lambda: old_write(b"intruder"),
                            lambda: old_input.read()):
                    try:
                        use()
                    except (RuntimeError, ValueError, AssertionError):
                        pass
            write = start_response("200 OK", [])
            yield b""
            yield environ["WHO"].encode()
            kept.append((start_response, write, environ["wsgi.input"]))

        for number, bodies in self.bodies(app, 4, 100).items():
            self.assertEqual(bodies,
                             ["%d-%d" % (number, i) for i in range(100)])
