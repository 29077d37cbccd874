#!/usr/bin/env python3
"""Drives a server of our own from client hosts that are network namespaces of this machine, each with an sshd, and prints how well
their clocks were known and how late they began.

    sudo bench/drivers_elsewhere.py --program target/dist/pgdyno --runs 5

Needs root, iproute2 and openssh-server; PostgreSQL comes from --bin-dir. The clients log in as the user `postgres`, and see another boot id
than the database's host, so that pgdyno takes them for other machines: it reaches them by the network alone, and compares their clocks (which
are the same clock: an offset is an error). All is removed at the end.
"""
import argparse
import json
import os
import pathlib
import pwd
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

DB, NET = "pgdyno-db", "10.99.7"
USER = "postgres"


def run(*words, **more):
    return subprocess.run([str(word) for word in words], check=True, **more)


class Hosts:
    """The namespaces: the database's host holds a bridge, each client one end of a pair."""

    def __init__(self, n_clients, place):
        self.clients = [f"client{n + 1}" for n in range(n_clients)]
        self.place, self.daemons = place, []

    def __enter__(self):
        run("ip", "netns", "add", DB)
        self.inside(DB, "ip", "link", "add", "br0", "type", "bridge")
        self.inside(DB, "ip", "addr", "add", f"{NET}.1/24", "dev", "br0")
        for link in ("lo", "br0"):
            self.inside(DB, "ip", "link", "set", link, "up")
        for key in ("host", "user"):
            run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.place / key)
        shutil.chown(self.place / "host", USER)
        etc = pathlib.Path("/etc/netns") / DB
        (etc / "ssh").mkdir(parents=True)
        names = [f"{NET}.{n + 2} {name}" for n, name in enumerate(self.clients)]
        (etc / "hosts").write_text("127.0.0.1 localhost\n" + "\n".join(names) + "\n")
        (etc / "ssh/ssh_config").write_text(
            f"Host *\n  User {USER}\n  IdentityFile {self.place}/user\n  UserKnownHostsFile {self.place}/known\n"
        )
        known = (self.place / "host.pub").read_text()
        (self.place / "known").write_text("".join(f"{name} {known}" for name in self.clients))
        for n, name in enumerate(self.clients):
            self.client(n, name)
        return self

    def client(self, n, name):
        space = f"pgdyno-{name}"
        run("ip", "netns", "add", space)
        run("ip", "link", "add", f"pgd{n}a", "netns", DB, "type", "veth", "peer", "name", "eth0", "netns", space)
        self.inside(DB, "ip", "link", "set", f"pgd{n}a", "master", "br0", "up")
        self.inside(space, "ip", "addr", "add", f"{NET}.{n + 2}/24", "dev", "eth0")
        for link in ("lo", "eth0"):
            self.inside(space, "ip", "link", "set", link, "up")
        own = self.place / name
        own.mkdir()
        shutil.chown(own, USER)
        (own / "boot_id").write_text(f"{name}\n")
        (own / "sshd_config").write_text(
            f"Port 22222\nListenAddress {NET}.{n + 2}\nHostKey {self.place}/host\n"
            f"AuthorizedKeysFile {self.place}/user.pub\nSetEnv XDG_CACHE_HOME={own}\nPidFile none\nUsePAM no\n"
            "StrictModes no\nPermitRootLogin no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n"
        )
        with open(pathlib.Path("/etc/netns") / DB / "ssh/ssh_config", "a") as config:
            config.write(f"Host {name}\n  Port 22222\n  HostKeyAlias {name}\n")
        user = pwd.getpwnam(USER)
        script = (
            f"mount --bind {own}/boot_id /proc/sys/kernel/random/boot_id; hostname {name}; "
            f"exec setpriv --reuid {user.pw_uid} --regid {user.pw_gid} --clear-groups "
            f"/usr/sbin/sshd -D -f {own}/sshd_config"
        )
        words = ["ip", "netns", "exec", space, "unshare", "--mount", "--uts", "sh", "-c", script]
        self.daemons.append(subprocess.Popen(words))
        for _ in range(100):
            done = subprocess.run(
                ["ip", "netns", "exec", DB, "ssh", "-oBatchMode=yes", name, "true"], stderr=subprocess.DEVNULL
            )
            if done.returncode == 0:
                return
            time.sleep(0.1)
        sys.exit(f"nobody can log in to {name}")

    def inside(self, space, *words, **more):
        return run("ip", "netns", "exec", space, *words, **more)

    def __exit__(self, *_):
        for daemon in self.daemons:
            daemon.terminate()
            daemon.wait()
        for space in [DB] + [f"pgdyno-{name}" for name in self.clients]:
            subprocess.run(["ip", "netns", "delete", space], stderr=subprocess.DEVNULL)
        shutil.rmtree(f"/etc/netns/{DB}", ignore_errors=True)


def rows(out):
    for path in sorted(out.glob("runs/[0-9]*/run.json")):
        if not path.parent.name.isdigit():
            continue
        record = json.loads(path.read_text())
        done, seconds = record.get("done"), record["case"]["window"]["measure_s"]
        tps = sum(done["measured_by_client"]) / seconds if done else 0
        for driver in record.get("drivers", []):
            before, after = driver["clock_before"], driver["clock_after"]
            yield {
                "run": record["spec"]["run"],
                "state": record["state"],
                "tps": tps,
                "driver": driver["name"],
                "committed": driver["counts"]["committed"],
                "late_ms": driver["late_ns"] / 1e6,
                "offset_ms": max((abs(c["offset_ns"]) for c in (before, after)), default=0) / 1e6,
                "bound_ms": max(c["bound_ns"] for c in (before, after)) / 1e6,
                "drift_ms": abs(after["offset_ns"] - before["offset_ns"]) / 1e6,
            }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True, type=pathlib.Path)
    parser.add_argument("--bin-dir", default="/usr/lib/postgresql/15/bin")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--hosts", type=int, default=2)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--scale", default="20")
    parser.add_argument("--measure", default="10s")
    parser.add_argument("more", nargs="*", help="more options of `pgdyno run`")
    args = parser.parse_args()
    place = pathlib.Path(tempfile.mkdtemp(prefix="pgdyno-hosts-", dir="/var/tmp"))
    place.chmod(0o755)
    try:
        with Hosts(args.hosts, place) as hosts:
            drivers = [word for name in hosts.clients for word in ("--driver", f"ssh:{name}")]
            words = [args.program.resolve(), "run", "--bin-dir", args.bin_dir, "--set", f"server.listen={NET}.1"]
            words += drivers + ["--upload", "-c", args.clients, "-s", args.scale, "--measure", args.measure]
            words += ["--ramp-up", "2s", "--repeats", args.runs, "-o", place / "out", *args.more]
            environment = dict(os.environ, PGDYNO_CACHE=str(place / "cache"))
            hosts.inside(DB, *words, env=environment, stdout=subprocess.DEVNULL, timeout=1200)
            found = list(rows(place / "out"))
    finally:
        shutil.rmtree(place, ignore_errors=True)
    print("| run | tps | driver | committed | began late, ms | offset, ms | bound, ms | drift, ms |\n|---|---|---|---|---|---|---|---|")
    for row in found:
        print(
            "| {run} | {tps:,.0f} | {driver} | {committed:,} | {late_ms:.2f} | {offset_ms:.3f} | {bound_ms:.3f} | {drift_ms:.3f} |".format(**row)
        )
    for key in ("late_ms", "bound_ms"):
        values = [row[key] for row in found]
        print(f"{key}: median {statistics.median(values):.3f}, worst {max(values):.3f}")


main()
