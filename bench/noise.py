#!/usr/bin/env python3
"""Half widths of 95 % intervals when a server is compared with itself, in the same minutes by each program: what is smaller cannot be seen.

`pgdyno compare --aa` in pairs and as a duet, and pgbench as people use it: runs of --seconds on one server, A and B in random
order, judged by Student's t on the logarithms of pairs. Each takes about --minutes. pgbench counts no costs. Prints, for each figure,
the median of --repeats half widths with the least and the most. Needs python3, PostgreSQL's server and pgbench.

    cargo build --profile dist
    bench/noise.py
"""

import argparse, json, math, os, random, re, shutil, statistics, subprocess, sys, tempfile

from driver_vs_pgbench import ROOT, Server
from trust import T

WAYS = {"pgdyno, pairs": [], "pgdyno, duet": ["--duet"]}


def half_width(low, high):
    """Of a ratio, in per cent."""
    return 50 * (high - low)


def by_pgdyno(args, place, options):
    """Half widths by figure: the throughput's and each cost's."""
    out = os.path.join(place, "out")
    length = ["--rounds", "8", "--measure", f"{max(args.minutes * 60 // 8 - 4, 6)}s"] if options else ["--time", f"{args.minutes}min"]
    command = [args.pgdyno, "compare", "--aa", *options, *length, "-c", str(args.clients), "-s", str(args.scale), "--bin-dir", args.bindir,
               "--yes", "--json", "-o", out]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          env={**os.environ, "PGDYNO_CACHE": os.path.join(place, "cache")})
    shutil.rmtree(out, ignore_errors=True)
    if not done.stdout.startswith("{"):
        raise SystemExit(f"{' '.join(command)}\nended with {done.returncode}:\n{done.stderr}")
    compared = json.loads(done.stdout)["comparisons"][0]
    figures = [("throughput", compared["figures"][0]["result"])] + [(cost["id"], cost["result"]) for cost in compared["costs"]]
    return {name: half_width(result["low"], result["high"]) for name, result in figures if result}


def by_pgbench(args):
    """The half width of the throughput, by pairs of runs."""
    server, logs = Server(args.bindir, []), []
    run = [os.path.join(args.bindir, "pgbench"), "-h", server.dir, "-U", "postgres"]
    try:
        subprocess.run([*run, "-i", "-q", "-s", str(args.scale), "postgres"], check=True, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        for _ in range(args.minutes * 60 // (2 * args.seconds)):
            tps = {side: pgbench_tps(args, run) for side in random.sample("AB", 2)}
            logs.append(math.log(tps["B"] / tps["A"]))
    finally:
        server.stop()
    error = T[max(n for n in T if n < len(logs))] * statistics.stdev(logs) / math.sqrt(len(logs))
    middle = statistics.fmean(logs)
    return {"throughput": half_width(math.exp(middle - error), math.exp(middle + error))}


def pgbench_tps(args, run):
    options = ["-n", "-M", "prepared", "-c", str(args.clients), "-j", "2", "-T", str(args.seconds), "postgres"]
    text = subprocess.run([*run, *options], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True).stdout
    return float(re.search(r"tps = ([\d.]+) \(without", text).group(1))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pgdyno", default=os.path.join(ROOT, "target/dist/pgdyno"))
    parser.add_argument("--bindir", default="/usr/lib/postgresql/15/bin")
    parser.add_argument("--repeats", type=int, default=3, help="comparisons by each program")
    parser.add_argument("--minutes", type=int, default=3, help="of each comparison, about")
    parser.add_argument("--seconds", type=int, default=10, help="of each run of pgbench")
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--scale", type=int, default=10)
    args = parser.parse_args()
    widths = {}
    place = tempfile.mkdtemp(prefix="pgdyno-bench-")
    try:
        os.chmod(place, 0o755)
        os.mkdir(os.path.join(place, "cache"))
        for _ in range(args.repeats):
            ways = {way: (lambda options=options: by_pgdyno(args, place, options)) for way, options in WAYS.items()}
            ways["pgbench"] = lambda: by_pgbench(args)
            for way in random.sample(list(ways), len(ways)):
                for figure, width in ways[way]().items():
                    widths.setdefault((figure, way), []).append(width)
                    print(f"{way}: {figure} ±{width:.2f} %", flush=True)
    finally:
        shutil.rmtree(place)
    print()
    for (figure, way), of in sorted(widths.items()):
        print(f"{figure:<28} {way:<14} ±{statistics.median(of):.2f} % (±{min(of):.2f} to ±{max(of):.2f}), {len(of)} comparisons")


if __name__ == "__main__":
    sys.exit(main())
