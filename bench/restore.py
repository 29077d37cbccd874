#!/usr/bin/env python3
"""Time of putting a database back to its first state: pgdyno's two ways against `pg_restore -j 2`, per GB.

By URL: starts a throw-away PostgreSQL with the binaries in --bindir (unix socket only) and lets `pgdyno run` make short runs
on it; the seconds are those that each run recorded. Own server: the same with `--bin-dir`, on the file system of --dir if that is
given (XFS or btrfs share blocks). pg_restore: of a directory dump of the same database, into an empty one, as often.
Prints medians, seconds per GB, and the ratios (goal: at most 0.15). Needs python3 and PostgreSQL's server and programs.

    cargo build --profile dist
    bench/restore.py --scale 100 --repeats 3
"""

import argparse, glob, json, os, shutil, statistics, subprocess, sys, tempfile, time

from driver_vs_pgbench import ROOT, Server

GOAL = 0.15


def program(args, name):
    return os.path.join(args.bindir, name)


def short_runs(args, target, env):
    """Facts of the restore of each run, and the database's bytes; the first run loads and is left out."""
    out = tempfile.mkdtemp(prefix="pgdyno-bench-")
    results = os.path.join(out, "results")
    command = [args.pgdyno, "run", "-c", "8", "--scale", str(args.scale), "--repeats", str(args.repeats + 1), "--ramp-up", "0s",
               "--measure", f"{args.seconds}s", "--set", "prepare.prewarm=false", "--set", "run.repeat_disturbed=0", "-o", results, *target]
    try:
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ, **env})
        facts, size = [], 0
        for path in sorted(glob.glob(os.path.join(results, "runs/*/run.json")))[1:]:
            record = json.load(open(path))
            restore = next(phase for phase in record["phases"] if phase["phase"] == "restore")
            facts.append(restore["detail"])
            size = record["server"]["database_bytes"]
        return facts, size
    finally:
        shutil.rmtree(out)


def pg_restore(args, server):
    """Seconds of each pg_restore."""
    at = ["-h", server.dir, "-U", "postgres"]
    quiet = {"check": True, "stdout": subprocess.DEVNULL}
    subprocess.run([args.pgdyno, "init", "--server", f"host={server.dir} user=postgres dbname=bench", "--scale", str(args.scale)],
                   stderr=subprocess.DEVNULL, **quiet)
    dump = tempfile.mkdtemp(prefix="pgdyno-bench-")
    try:
        subprocess.run([program(args, "pg_dump"), *at, "-Fd", "-Z0", "-j2", "-f", os.path.join(dump, "d"), "bench"], **quiet)
        seconds = []
        for _ in range(args.repeats):
            sql = ["set client_min_messages = warning", "drop database if exists again", "create database again", "checkpoint"]
            subprocess.run([program(args, "psql"), *at, "-q", *(a for s in sql for a in ("-c", s)), "postgres"], **quiet)
            began = time.monotonic()
            subprocess.run([program(args, "pg_restore"), *at, "-j2", "-d", "again", os.path.join(dump, "d")], **quiet)
            seconds.append(time.monotonic() - began)
        return seconds
    finally:
        shutil.rmtree(dump)


def show(name, seconds, size, rival):
    median = statistics.median(seconds)
    ratio = "" if rival is None else f"{median / rival:.3f} (at most {GOAL})"
    print(f"{name:<58} {median:>7.2f} {median / (size / 1e9):>8.2f}   {ratio}", flush=True)


def show_facts(facts, size, rival):
    show(facts[-1]["method"], [float(fact["seconds"]) for fact in facts], size, rival)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bindir", default="/usr/lib/postgresql/15/bin")
    parser.add_argument("--pgdyno", default=os.path.join(ROOT, "target/dist/pgdyno"))
    parser.add_argument("--scale", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=5, help="load between two restores")
    parser.add_argument("--dir", help="where the clusters of the own server are kept")
    args = parser.parse_args()
    server = Server(args.bindir, ["shared_buffers=1GB", "max_wal_size=8GB"])
    try:
        subprocess.run([program(args, "createdb"), "-h", server.dir, "-U", "postgres", "bench"], check=True)
        by_url, size = short_runs(
            args, ["--server", f"host={server.dir} user=postgres dbname=bench", "--replace-database", "bench"], {}
        )
        restored = pg_restore(args, server)
    finally:
        server.stop()
    print(f"{size / 1e9:.2f} GB, scale {args.scale}, {args.seconds} s of TPC-B-like load in between")
    print(f"{'':<58} {'seconds':>7} {'s per GB':>8}   ratio")
    rival = statistics.median(restored)
    show("pg_restore -j 2", restored, size, None)
    show_facts(by_url, size, rival)
    cache = tempfile.mkdtemp(prefix="pgdyno-bench-", dir=args.dir)
    os.chmod(cache, 0o755)
    try:
        show_facts(short_runs(args, ["--bin-dir", args.bindir], {"PGDYNO_CACHE": cache})[0], size, rival)
    finally:
        shutil.rmtree(cache)


if __name__ == "__main__":
    sys.exit(main())
