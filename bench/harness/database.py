# SPDX-License-Identifier: MIT
"""A PostgreSQL of its own, in the temporary folder; near, or far away."""
import glob
import os
import pwd
import shutil
import signal
import subprocess

from .servers import BENCH, Failed, Missing, Server, free_port

USER = "bench"
ROOT = os.geteuid() == 0
FAR = "198.18.%d.%d"    # of RFC 2544: for benchmarks only


def find_postgres():
    """The folder of the newest server's programs."""
    found = glob.glob("/usr/lib/postgresql/*/bin/initdb")
    if found:
        newest = max(found, key=lambda p: int(p.split("/")[4]))
        return os.path.dirname(newest)
    program = shutil.which("initdb")
    if program is None:
        raise Missing("PostgreSQL is not installed (postgresql)")
    return os.path.dirname(os.path.realpath(program))


def as_postgres(argv):
    """PostgreSQL refuses to run as root."""
    if not ROOT:
        return argv
    try:
        pwd.getpwnam("postgres")
    except KeyError:
        raise Missing("there is no user postgres") from None
    return ["setpriv", "--reuid=postgres", "--regid=postgres",
            "--init-groups", "--", *argv]


def run(argv):
    done = subprocess.run(argv, capture_output=True, text=True, cwd="/")
    if done.returncode != 0:
        raise Failed("%s: %s" % (" ".join(argv),
                                 (done.stderr or done.stdout).strip()))


class PostgresServer(Server):
    stop_signal = signal.SIGINT     # SIGTERM waits for its clients


class Postgres:
    """host, port: where it listens."""

    def __init__(self, setup, name, host="127.0.0.1", inside=()):
        """inside: what the command line begins with, to run it in a
        namespace."""
        programs = find_postgres()
        self.host, self.port = host, free_port()
        folder = setup.folder_for(name)
        data = os.path.join(folder, "data")
        run(as_postgres([os.path.join(programs, "initdb"), "-D", data, "-A",
                         "trust", "-U", USER, "--no-sync", "-E", "UTF8",
                         "--locale=C.UTF-8"]))
        if inside:
            with open(os.path.join(data, "pg_hba.conf"), "a") as f:
                f.write("host all all 198.18.0.0/15 trust\n")
        # Nothing of it has to survive; what is compared is not its disk.
        self.server = PostgresServer(
            name, [*inside, *as_postgres([
                os.path.join(programs, "postgres"), "-D", data, "-k", folder,
                "-p", str(self.port), "-c", "listen_addresses=" + host,
                "-c", "max_connections=300", "-c", "fsync=off"])],
            {"sql": "%s:%d" % (host, self.port)}, setup.folder)

    def wait_ready(self):
        self.server.wait_ready()

    def stop(self):
        self.server.stop()


def environment(host, port):
    """For django_page."""
    return {"BENCH_POSTGRES_HOST": host, "BENCH_POSTGRES_PORT": str(port),
            "BENCH_POSTGRES_USER": USER, "BENCH_POSTGRES_NAME": "postgres"}


class Namespace:
    """A network of its own, which a cable with so many milliseconds of delay
    leads to. Raises Missing when this kernel or user cannot make it."""

    def __init__(self, delay_ms):
        if not ROOT:
            raise Missing("a network namespace needs root")
        for program in ("ip", "tc"):
            if shutil.which(program) is None:
                raise Missing("%s is not installed (iproute2)" % program)
        number = os.getpid() % 250
        self.name = "forebay-compare-%d" % os.getpid()
        self.near, self.far = (FAR % (number, n) for n in (1, 2))
        self.cable = "fbc%d" % os.getpid()
        self.inside = ["ip", "netns", "exec", self.name]
        try:
            run(["ip", "netns", "add", self.name])
            self.lay_cable(delay_ms)
        except Failed as error:
            self.remove()
            raise Missing(str(error)) from None

    def lay_cable(self, delay_ms):
        run(["ip", "link", "add", self.cable, "type", "veth", "peer", "name",
             "far", "netns", self.name])
        run(["ip", "addr", "add", self.near + "/30", "dev", self.cable])
        run(["ip", "link", "set", self.cable, "up"])
        run([*self.inside, "ip", "addr", "add", self.far + "/30", "dev",
             "far"])
        run([*self.inside, "ip", "link", "set", "far", "up"])
        run([*self.inside, "tc", "qdisc", "add", "dev", "far", "root",
             "netem", "delay", "%gms" % delay_ms])

    def remove(self):
        """The cable goes with it."""
        subprocess.run(["ip", "netns", "del", self.name],
                       capture_output=True)


def relay(setup, postgres, delay_ms):
    """For kernels without netem: (server, port)."""
    port = free_port()
    server = Server("delay", [
        "/usr/bin/python3", os.path.join(BENCH, "peers", "delay.py"),
        str(port), "127.0.0.1:%d" % postgres.port, "%g" % delay_ms],
        {"sql": "127.0.0.1:%d" % port}, setup.folder)
    return server, port
