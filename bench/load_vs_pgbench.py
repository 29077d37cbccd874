#!/usr/bin/env python3
"""Wall time and client CPU of loading the TPC-B-like tables: `pgdyno init` against `pgbench -i`, interleaved.

Starts a throw-away PostgreSQL with the binaries in --bindir (unix socket only). Each repeat loads with every program
once, in random order, into a database without such tables and after a checkpoint. Prints medians, and the medians of the
repeats' ratios: one stream against the faster of pgbench's two ways in the same repeat, two partitions over two streams
against pgbench with two partitions. Needs python3 and PostgreSQL's server and pgbench.

    cargo build --profile dist
    bench/load_vs_pgbench.py --scale 100 --repeats 3
"""

import argparse, os, random, statistics, subprocess, sys, time

from driver_vs_pgbench import ROOT, Server, children_cpu

TABLES = "pgbench_accounts, pgbench_branches, pgbench_history, pgbench_tellers"
ROWS = "select count(*), sum(aid), sum(bid), sum(abalance), min(filler) = max(filler) from pgbench_accounts"
GOALS = {"pgdyno, 1 stream": 0.9, "pgdyno, 2 partitions, 2 streams": 0.65}


def programs(args, server):
    pgbench = [os.path.join(args.bindir, "pgbench"), "-h", server.dir, "-U", "postgres", "-i", "-q", "-s", str(args.scale)]
    target = f"host={server.dir} user=postgres dbname=postgres"
    pgdyno = [args.pgdyno, "init", "--server", target, "--scale", str(args.scale)]
    return {
        "pgbench -I dtgvp": [*pgbench, "-I", "dtgvp", "postgres"],
        "pgbench -I dtGvp": [*pgbench, "-I", "dtGvp", "postgres"],
        "pgdyno, 1 stream": [*pgdyno, "--streams", "1"],
        "pgbench --partitions=2": [*pgbench, "--partitions=2", "postgres"],
        "pgdyno, 2 partitions, 2 streams": [*pgdyno, "--partitions", "2", "--streams", "2"],
    }


def ask(args, server, sql):
    psql = [os.path.join(args.bindir, "psql"), "-h", server.dir, "-U", "postgres", "-XAtqc", sql, "postgres"]
    return subprocess.run(psql, check=True, capture_output=True, text=True).stdout.strip()


def load(args, server, command):
    ask(args, server, f"drop table if exists {TABLES}")
    ask(args, server, "checkpoint")
    cpu, began = children_cpu(), time.monotonic()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return {"seconds": time.monotonic() - began, "cpu": children_cpu() - cpu}


def rivals(times):
    """The time that ours is compared with in a repeat."""
    plain = min(times["pgbench -I dtgvp"]["seconds"], times["pgbench -I dtGvp"]["seconds"])
    return {"pgdyno, 1 stream": plain, "pgdyno, 2 partitions, 2 streams": times["pgbench --partitions=2"]["seconds"]}


def show(repeats):
    print(f"{'':<32} | {'seconds':>8} {'least':>7} | client CPU, s | ratio (goal)")
    for name in repeats[0]:
        of = lambda key: [times[name][key] for times in repeats]
        ratio = ""
        if name in GOALS:
            ratios = [times[name]["seconds"] / rivals(times)[name] for times in repeats]
            ratio = f"{statistics.median(ratios):.2f} (at most {GOALS[name]})"
        print(f"{name:<32} | {statistics.median(of('seconds')):>8.2f} {min(of('seconds')):>7.2f}"
              f" | {statistics.median(of('cpu')):>13.2f} | {ratio}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bindir", default="/usr/lib/postgresql/15/bin")
    parser.add_argument("--pgdyno", default=os.path.join(ROOT, "target/dist/pgdyno"))
    parser.add_argument("--scale", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--set", action="append", default=[], help="server setting, name=value")
    args = parser.parse_args()
    server = Server(args.bindir, ["shared_buffers=1GB", "max_wal_size=8GB", *args.set])
    try:
        repeats, rows = [], set()
        for n in range(args.repeats):
            commands = list(programs(args, server).items())
            times = {}
            for name, command in random.sample(commands, len(commands)):
                times[name] = load(args, server, command)
                if n == 0:
                    rows.add(ask(args, server, ROWS))
            if len(rows) != 1:
                raise SystemExit(f"the loaded rows differ: {rows}")
            repeats.append({name: times[name] for name, _ in commands})
            seconds = ", ".join(f"{name} {times[name]['seconds']:.2f}" for name, _ in commands)
            print(f"repeat {n + 1}: {seconds}", file=sys.stderr, flush=True)
        print(f"scale {args.scale}, medians of {args.repeats} repeats, PostgreSQL in {args.bindir}")
        show(repeats)
    finally:
        server.stop()


if __name__ == "__main__":
    sys.exit(main())
