#!/usr/bin/env python3
"""Client CPU per transaction of two builds of `pgdyno drive`, in pairs of random order on one server.

Answers whether a change made the driver dearer. With --null both talk to `pgdyno null`, which costs next to nothing
and never waits for a disk; otherwise to a throw-away PostgreSQL as in driver_vs_pgbench.py, whose options apply.
What connecting costs is measured by a run of one transaction for each client and taken off. Prints the median of the
pairs' ratios (after / before) and a 95 % interval for it by the sign test's order statistics.

    bench/driver_before_after.py OLD/target/dist/pgdyno target/dist/pgdyno --null --clients 16 --pairs 50 --seconds 1
"""

import argparse, copy, math, os, random, shutil, statistics, subprocess, sys, tempfile, time

import driver_vs_pgbench as bench


class Null:
    """`pgdyno null` of the newer build, ended by its process id."""

    def __init__(self, program):
        self.dir = tempfile.mkdtemp(prefix="pgdyno-bench-")
        self.process = subprocess.Popen([program, "null", "--socket-dir", self.dir, "-p", "5432"], stdout=subprocess.DEVNULL)
        for _ in range(100):
            if os.path.exists(os.path.join(self.dir, ".s.PGSQL.5432")):
                return
            time.sleep(0.05)
        raise SystemExit("pgdyno null did not start")

    def stop(self):
        self.process.terminate()
        self.process.wait()
        shutil.rmtree(self.dir, ignore_errors=True)


def cpu_us(args, server, script, clients, poller, seed):
    done, _, cpu = bench.call_pgdyno(args, server, script, clients, seed, poller)
    short = bench.short_pgdyno(args, server, script, clients, poller)
    return bench.beyond(args, short, done["counts"]["committed"], cpu)


def interval(ratios):
    """The widest order statistics that cover the median with at least 95 % (sign test); the whole range below 6 pairs."""
    n, ordered = len(ratios), sorted(ratios)
    k, below = 0, 0.5**n
    while below <= 0.025:
        k += 1
        below += math.comb(n, k) * 0.5**n
    return ordered[max(0, k - 1)], ordered[min(n - 1, n - k)]


def pair(args, server, script, poller, seed):
    figures = {}
    for side in random.sample(["before", "after"], 2):
        of_side = copy.copy(args)
        of_side.pgdyno = getattr(args, side)
        figures[side] = cpu_us(of_side, server, script, args.clients, poller, seed)
    return figures


def row(args, server, script, poller):
    pairs = [pair(args, server, script, poller, n + 1) for n in range(args.pairs)]
    ratios = [figures["after"] / figures["before"] for figures in pairs]
    low, high = interval(ratios)
    before, after = (statistics.median(figures[side] for figures in pairs) for side in ("before", "after"))
    return (f"{script:<7} {args.clients:>4} clients {poller:<8} us/tx {before:6.2f} -> {after:6.2f}, "
            f"ratio {statistics.median(ratios):.3f} ({low:.3f} to {high:.3f}, {args.pairs} pairs)")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before")
    parser.add_argument("after")
    parser.add_argument("--null", action="store_true")
    parser.add_argument("--bindir", default="/usr/lib/postgresql/15/bin")
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--pollers", default="io_uring,epoll")
    parser.add_argument("--scripts", default="select")
    parser.add_argument("--pairs", type=int, default=12)
    parser.add_argument("--seconds", type=int, default=4)
    parser.add_argument("--scale", type=int, default=20)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    server = Null(args.after) if args.null else bench.Server(args.bindir, ["shared_buffers=1GB", "synchronous_commit=off"])
    try:
        if not args.null:
            load = [os.path.join(args.bindir, "pgbench"), "-h", server.dir, "-U", "postgres", "-i", "-q", "-s", str(args.scale), "postgres"]
            subprocess.run(load, check=True, stderr=subprocess.DEVNULL)
        for script in args.scripts.split(","):
            for poller in args.pollers.split(","):
                print(row(args, server, script, poller), flush=True)
    finally:
        server.stop()


if __name__ == "__main__":
    sys.exit(main())
