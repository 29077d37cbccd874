#!/usr/bin/env python3
"""A day of an application, from its log to the answer what another release of PostgreSQL will do to it.

Starts a throw-away PostgreSQL with the binaries in --bindir (unix socket only), with Debian's default settings for the log plus one line:
log_min_duration_statement = 0. Makes the small shop of bench/application (six tables, 210,000 rows), dumps it, and lets pgbench be its
customers: eight kinds of transactions, at --rate, in the extended protocol. Then, as a user would: `pgdyno capture log`, `run`, and
`compare` of this release with another one, on copies of the dump. Prints what each step took, how many transactions of each kind pgbench
ran and how many the capture found. Needs python3 and PostgreSQL's server and programs.

    cargo build --release
    bench/application.py --seconds 60
"""

import argparse, os, re, shutil, subprocess, sys, tempfile, time

from driver_vs_pgbench import ROOT, Server

SHOP = os.path.join(ROOT, "bench/application")
# How often each kind of transaction is asked for, of 100.
KINDS = {"product_page": 40, "category_page": 15, "sign_in": 12, "add_to_cart": 10, "history": 9, "search": 8, "checkout": 5, "open_orders": 1}
# The log of Debian's packages, and the one line that capturing needs.
LOG = ["log_line_prefix=%m [%p] %q%u@%d ", "log_min_duration_statement=0"]


class Day:
    def __init__(self, args):
        self.args = args
        self.out = args.out or tempfile.mkdtemp(prefix="pgdyno-bench-")
        self.server = Server(args.bindir, [*LOG, "shared_preload_libraries=pg_stat_statements", "pg_stat_statements.track=top"])
        self.url = f"host={self.server.dir} user=postgres dbname=shop"

    def program(self, name, *arguments):
        command = [os.path.join(self.args.bindir, name), "-h", self.server.dir, "-U", "postgres", *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def make(self):
        self.program("createdb", "shop")
        self.program("psql", "-Xq", "-d", "shop", "-v", "ON_ERROR_STOP=1", "-f", os.path.join(SHOP, "schema.sql"))
        self.program("psql", "-Xq", "-d", "shop", "-c", "create extension pg_stat_statements")
        self.program("pg_dump", "-Fc", "-d", "shop", "-f", os.path.join(self.out, "shop.dump"))

    def live(self):
        """The customers: counts of transactions by kind."""
        scripts = [word for kind, weight in KINDS.items() for word in ("-f", f"{SHOP}/{kind}.sql@{weight}")]
        load = ["-n", "-M", "extended", "-c", "20", "-j", "2", "-R", str(self.args.rate), "-T", str(self.args.seconds)]
        said = self.program("pgbench", *load, *scripts, "shop")
        counts = re.findall(r"SQL script \d+: .*/(\w+)\.sql\n.*\n - (\d+) transactions", said)
        return {kind: int(count) for kind, count in counts}

    def pgdyno(self, *arguments):
        began = time.monotonic()
        done = subprocess.run([self.args.pgdyno, *arguments], cwd=self.out, capture_output=True, text=True)
        print(f"\n$ pgdyno {' '.join(arguments)}    # {time.monotonic() - began:.0f} s, status {done.returncode}\n{done.stdout}{done.stderr}", flush=True)
        return done


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--bindir", default="/usr/lib/postgresql/15/bin")
    parser.add_argument("--pgdyno", default=os.path.join(ROOT, "target/release/pgdyno"))
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--rate", type=int, default=300)
    parser.add_argument("--other", default="18", help="the release to compare with")
    parser.add_argument("--out", help="keep everything in this directory")
    args = parser.parse_args()
    if args.out:
        os.makedirs(args.out, exist_ok=True)
    day = Day(args)
    try:
        day.make()
        began = time.gmtime(time.time() + 1)
        counts = day.live()
        window = f"{time.strftime('%H:%M:%S', began)}/{time.strftime('%H:%M:%S', time.gmtime())}"
        shutil.copy(os.path.join(day.server.dir, "log"), os.path.join(day.out, "shop.log"))
    finally:
        day.server.stop()
    print("pgbench:", counts, "log:", os.path.getsize(os.path.join(day.out, "shop.log")), "bytes")
    began = time.monotonic()
    data = ["--set", 'workload.restore_from="shop.dump"', "--allow-archive-as-superuser", "--set", "run.repeat_disturbed=0"]
    day.pgdyno("capture", "log", "shop.log", "--privacy", "values", "--window", window, "-o", "shop.workload")
    ours = re.search(r"(\d+)/bin", args.bindir).group(1)
    day.pgdyno("run", "-w", "./shop.workload", *data, "--set", f"server.version={ours}", "--measure", "10s", "--repeats", "2", "-o", "alone")
    sides = ["--a", f"server.version={ours}", "--b", f"server.version={args.other}"]
    day.pgdyno("compare", "-w", "./shop.workload", *data, *sides, "--pairs", "6", "--measure", "10s", "-y", "-o", "releases")
    print(f"\nfrom the log to the answer: {time.monotonic() - began:.0f} s; everything is in {day.out}")
    if not args.out:
        shutil.rmtree(day.out)


if __name__ == "__main__":
    sys.exit(main())
