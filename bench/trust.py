#!/usr/bin/env python3
"""Can `pgdyno compare` be trusted? Comparisons of which the answer is known, against real servers: by pairs, and as duets.

A/A      a server with itself: what is called different is a false positive (at most 5 % of many; 20 with more than 3 have a
         chance of 1.6 %), and 19 of 20 intervals should hold a ratio of 1
A/B      B burns more processor time in each transaction (a longer series to add up). How much slower that makes it is measured
         by another program: pgbench with one client, both scripts in turns in random order. What is called slower is a hit

Both sides are servers that pgdyno starts with the binaries in --bindir. Prints each comparison, then false positives, hits, widths
and coverage; results and noise floors go to a directory that is removed. Needs python3, PostgreSQL's server and pgbench. About
two hours; --quick: six minutes, which shows that it works and little more.

    cargo build --profile dist
    bench/trust.py --quick
    bench/trust.py
"""

import argparse, contextlib, json, math, os, random, re, shutil, statistics, subprocess, sys, tempfile

from driver_vs_pgbench import ROOT, Server

SCRIPT = "SELECT sum(i) FROM generate_series(1, :burn) AS i;\n"
# Two-sided 95 % of Student's t by degrees of freedom; the next smaller one is taken.
T = {1: 12.71, 2: 4.30, 3: 3.18, 4: 2.78, 5: 2.57, 6: 2.45, 7: 2.36, 8: 2.31, 9: 2.26, 11: 2.20, 14: 2.14, 19: 2.09, 29: 2.05}


def shape(args, mode):
    """What each mode measures: six pairs, or as much time in rounds."""
    if mode == "pairs":
        return ["--pairs", str(args.pairs), "--measure", f"{args.seconds}s", "--ramp-up", "1s"]
    measure = max(args.pairs * args.seconds * 2 // args.rounds, 4)
    return ["--duet", "--rounds", str(args.rounds), "--measure", f"{measure}s", "--ramp-up", "1s", "--slice", str(args.slice),
            "--guard", str(args.guard)]


def compare(args, place, mode, burn_a, burn_b):
    """One comparison: ratio with its interval and verdict, if there is one, and what was found."""
    out = os.path.join(place, "out")
    command = [args.pgdyno, "compare", *shape(args, mode), "-c", str(args.clients), "-f", os.path.join(place, "burn.sql"),
               "--a", f"workload.defines.burn={burn_a}", "--b", f"workload.defines.burn={burn_b}",
               "--set", 'workload.data="none"', "--set", "run.repeat_disturbed=0", "--set", f'server.bin_dir="{args.bindir}"', "--margin", "0.5%",
               "--json", "-o", out]
    env = {**os.environ, "PGDYNO_CACHE": os.path.join(place, "cache")}
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)
    shutil.rmtree(out, ignore_errors=True)
    if not done.stdout.startswith("{"):
        raise SystemExit(f"{' '.join(command)}\nended with {done.returncode}:\n{done.stderr}")
    comparison = json.loads(done.stdout)["comparisons"][0]
    why = "; ".join(finding["evidence"] for finding in comparison["findings"])
    return comparison["figures"][0]["result"], why


def pgbench_tps(args, place, server, burn):
    command = [os.path.join(args.bindir, "pgbench"), "-h", server.dir, "-U", "postgres", "-n", "-M", "prepared", "-c", "1",
               "-T", "1", "-D", f"burn={burn}", "-f", os.path.join(place, "burn.sql"), "postgres"]
    text = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True).stdout
    return float(re.search(r"tps = ([\d.]+) \(without", text).group(1))


def truth(args, place, burn_a, burn_b):
    """The ratio of B to A as pgbench sees it, with an interval of 95 % (t on logarithms of pairs)."""
    logs = []
    server = Server(args.bindir, [])
    try:
        for _ in range(args.truth_pairs):
            tps = {burn: pgbench_tps(args, place, server, burn) for burn in random.sample([burn_a, burn_b], 2)}
            logs.append(math.log(tps[burn_b] / tps[burn_a]))
    finally:
        server.stop()
    t = T[max(n for n in T if n < len(logs))]
    error = t * statistics.stdev(logs) / math.sqrt(len(logs))
    middle = statistics.fmean(logs)
    return math.exp(middle), math.exp(middle - error), math.exp(middle + error)


def series(args, place, mode, name, n, burns, true):
    """A number of comparisons with one true ratio, and what became of them."""
    results = []
    for i in range(n):
        result, why = compare(args, place, mode, *burns)
        if result is None:
            print(f"{mode:<6} {name} {i + 1:>2}: no verdict ({why})", flush=True)
            continue
        results.append(result)
        change = lambda ratio: f"{100 * (ratio - 1):+.2f}"
        print(f"{mode:<6} {name} {i + 1:>2}: {change(result['ratio'])} % ({change(result['low'])} to {change(result['high'])}), "
              f"{result['verdict']}", flush=True)
    if n == 0:
        return f"{mode:<6} {name}: not asked for"
    if not results:
        return f"{mode:<6} {name}: {n} comparisons, none with a verdict"
    verdicts = [result["verdict"] for result in results]
    n_slower, n_faster = verdicts.count("slower"), verdicts.count("faster")
    # The true ratio has an error of its own, which adds to that of the comparison.
    log = math.log
    half = lambda low, high: (log(high) - log(low)) / 2
    near = lambda r: math.hypot(half(r["low"], r["high"]), half(true[1], true[2]))
    covered = sum(abs(log(r["low"] * r["high"]) / 2 - log(true[0])) <= near(r) for r in results)
    widths = sorted(50 * (result["high"] - result["low"]) for result in results)
    called = f"called different {n_slower + n_faster}" if name == "A/A" else f"called slower {n_slower}, faster {n_faster}"
    return (f"{mode:<6} {name}: {n} comparisons, {n - len(results)} without a verdict, {called}; interval ±{statistics.median(widths):.2f} % (±{widths[0]:.2f} to "
            f"±{widths[-1]:.2f}); holds the true ratio in {covered}")


@contextlib.contextmanager
def workplace():
    """A directory that the server's user can get to; removed with all that is in it."""
    place = tempfile.mkdtemp(prefix="pgdyno-bench-")
    try:
        os.chmod(place, 0o755)
        os.mkdir(os.path.join(place, "cache"))
        with open(os.path.join(place, "burn.sql"), "w") as file:
            file.write(SCRIPT)
        yield place
    finally:
        shutil.rmtree(place)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pgdyno", default=os.path.join(ROOT, "target/dist/pgdyno"))
    parser.add_argument("--bindir", default="/usr/lib/postgresql/15/bin")
    parser.add_argument("--modes", default="pairs,duet")
    parser.add_argument("--aa", type=int, default=20, help="comparisons of a server with itself, of each mode")
    parser.add_argument("--ab", type=int, default=10, help="comparisons with a slower B, of each mode")
    parser.add_argument("--pairs", type=int, default=6)
    parser.add_argument("--seconds", type=int, default=3, help="of each run of a pair")
    parser.add_argument("--rounds", type=int, default=8, help="of each duet")
    parser.add_argument("--slice", type=int, default=250, help="of a duet, milliseconds")
    parser.add_argument("--guard", type=int, default=25, help="of a duet, milliseconds")
    parser.add_argument("--clients", type=int, default=2)
    parser.add_argument("--burn", type=int, default=10_000, help="numbers that a transaction of A adds up")
    parser.add_argument("--slowdown", type=float, default=5, help="per cent more of them in B")
    parser.add_argument("--truth-pairs", type=int, default=30, help="pairs of pgbench runs of a second")
    parser.add_argument("--quick", action="store_true", help="one comparison of each kind, shorter")
    args = parser.parse_args()
    if args.quick:
        args.aa, args.ab, args.seconds, args.rounds, args.truth_pairs = 1, 1, 2, 6, 8
    slow = round(args.burn * (1 + args.slowdown / 100))
    summary = []
    with workplace() as place:
        true = truth(args, place, args.burn, slow)
        print(f"truth by pgbench: B to A {100 * (true[0] - 1):+.2f} % ({100 * (true[1] - 1):+.2f} to {100 * (true[2] - 1):+.2f})",
              flush=True)
        for mode in args.modes.split(","):
            summary.append(series(args, place, mode, "A/A", args.aa, (args.burn, args.burn), (1, 1, 1)))
            summary.append(series(args, place, mode, "A/B", args.ab, (args.burn, slow), true))
    print("\n".join(["", *summary]))


if __name__ == "__main__":
    sys.exit(main())
