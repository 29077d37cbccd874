#!/usr/bin/env python3
"""Time to connect many clients, pgdyno's driver against pgbench, interleaved.

Starts a throw-away PostgreSQL as `driver_vs_pgbench.py` does. pgbench tells its own time ("initial connection time"), the
driver `ready.connect_ns` with `ready.prepare_ns` in it: it has every statement parsed before the load begins, which
pgbench does during the load. Both figures are printed.

    cargo build --profile dist
    bench/connect_vs_pgbench.py --clients 512 --pairs 7
"""

import argparse, json, os, random, re, statistics, subprocess, sys, time

from driver_vs_pgbench import ROOT, SCRIPTS, Server


def pgbench(args, server):
    """Milliseconds to connect; it prepares later."""
    command = [os.path.join(args.bindir, "pgbench"), "-h", server.dir, "-U", "postgres", "-n", "-M", "prepared", "-S",
               "-c", str(args.clients), "-j", str(args.threads), "-t", "1", "postgres"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return float(re.search(r"initial connection time = ([\d.]+) ms", done.stdout).group(1)), 0.0


def pgdyno(args, server):
    """Milliseconds to connect, and to prepare after that."""
    load = {
        "format": 1, "target": {"host": server.dir, "port": "5432", "user": "postgres", "dbname": "postgres"},
        "scripts": [{"name": "select", "tag": "select", "weight": 1, "source": SCRIPTS["select"]}],
        "defines": {"scale": "1"}, "protocol": "prepared", "n_clients": args.clients, "n_threads": args.threads,
        "pace": "closed", "window": {"ramp_up_s": 0, "measure_s": 0, "grace_s": 10}, "seed": 1,
        "transactions_per_client": 1,
    }
    process = subprocess.Popen([args.pgdyno, "drive"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    tell = lambda value: (process.stdin.write(json.dumps(value) + "\n"), process.stdin.flush())
    tell({"load": load})
    ready = json.loads(process.stdout.readline())
    tell({"go": time.time_ns()})
    process.stdout.read()
    process.stdin.close()
    process.wait()
    prepare_ms = ready["ready"]["prepare_ns"] / 1e6
    return ready["ready"]["connect_ns"] / 1e6 - prepare_ms, prepare_ms


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bindir", default="/usr/lib/postgresql/15/bin")
    parser.add_argument("--pgdyno", default=os.path.join(ROOT, "target/dist/pgdyno"))
    parser.add_argument("--clients", type=int, default=512)
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    server = Server(args.bindir, ["max_connections=1000"])
    try:
        load = [os.path.join(args.bindir, "pgbench"), "-h", server.dir, "-U", "postgres", "-i", "-q", "postgres"]
        subprocess.run(load, check=True, stderr=subprocess.DEVNULL)
        pairs = []
        for _ in range(args.pairs):
            sides = [("pgbench", pgbench), ("pgdyno", pgdyno)]
            random.shuffle(sides)
            pair = {}
            for name, run in sides:
                pair[name] = run(args, server)
                time.sleep(0.5)  # The backends of one must be gone before the other begins.
            pairs.append(pair)
        median = lambda side: statistics.median(pair[side][0] for pair in pairs)
        ratio = statistics.median(pair["pgbench"][0] / pair["pgdyno"][0] for pair in pairs)
        print(f"{args.clients} connections, medians of {args.pairs} pairs: pgbench {median('pgbench'):.0f} ms, pgdyno "
              f"{median('pgdyno'):.0f} ms (and {statistics.median(pair['pgdyno'][1] for pair in pairs):.0f} ms to prepare); "
              f"pgdyno connects {ratio:.2f} times as fast")
    finally:
        server.stop()


if __name__ == "__main__":
    sys.exit(main())
