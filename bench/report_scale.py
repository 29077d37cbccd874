#!/usr/bin/env python3
"""How much do the time, the memory and the page of `pgdyno report` grow with the number of runs? Takes real results, and makes of
them an experiment of many runs: each case many times, each run a copy of one that was measured. The goals for 1,000 runs are 4 s, 400 MB
and 5 MB.

    cargo build --profile dist
    target/dist/pgdyno run -c 1,2,4,8 --measure 60s --repeats 2 -y -o /var/tmp/measured
    bench/report_scale.py /var/tmp/measured --runs 1000
"""

import argparse, json, os, shutil, statistics, sys, tempfile, time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def grow(source, directory, n_runs, n_cases):
    """Writes an experiment of `n_runs` runs and `n_cases` cases: copies of the measured runs under new numbers."""
    with open(os.path.join(source, "plan.json")) as file:
        plan = json.load(file)
    measured = sorted(name for name in os.listdir(os.path.join(source, "runs")) if name.isdigit())
    records = {}
    for name in measured:
        with open(os.path.join(source, "runs", name, "run.json")) as file:
            records[name] = json.load(file)
    measured = [name for name in measured if not records[name].get("repeat")]
    old_cases, cases = plan["cases"], []
    for n in range(n_cases):
        case = json.loads(json.dumps(old_cases[n % len(old_cases)]))
        case["id"] = n + 1
        clients = case["workload"]["n_clients"] + 16 * (n // len(old_cases))
        case["workload"]["n_clients"] = clients
        case["levels"] = {key: str(clients) if key.endswith("clients") else value for key, value in case.get("levels", {}).items()}
        cases.append(case)
    os.makedirs(os.path.join(directory, "runs"))
    specs = []
    for run in range(1, n_runs + 1):
        case = cases[(run - 1) % n_cases]
        like = [name for name in measured if records[name]["spec"]["case"] == old_cases[(case["id"] - 1) % len(old_cases)]["id"]]
        name = like[(run // n_cases) % len(like)]
        spec = {**records[name]["spec"], "run": run, "block": (run - 1) // n_cases + 1, "case": case["id"]}
        specs.append(spec)
        to = os.path.join(directory, "runs", f"{run:04}")
        shutil.copytree(os.path.join(source, "runs", name), to)
        with open(os.path.join(to, "run.json"), "w") as file:
            json.dump({**records[name], "spec": spec, "case": case}, file)
    plan = {**plan, "cases": cases, "runs": specs, "repeats": n_runs // n_cases}
    with open(os.path.join(directory, "plan.json"), "w") as file:
        json.dump(plan, file)
    shutil.copy(os.path.join(source, "experiment.toml"), directory)


def report(pgdyno, directory):
    """Seconds, seconds of processors, MB of memory at most."""
    began = time.monotonic()
    nowhere = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_WRONLY, 0) for fd in (1, 2)]
    pid = os.posix_spawn(pgdyno, [pgdyno, "report", directory], os.environ, file_actions=nowhere)
    _, status, used = os.wait4(pid, 0)
    seconds = time.monotonic() - began
    if status != 0:
        sys.exit(f"`{pgdyno} report {directory}` failed")
    return seconds, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024 / 1e6


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source")
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--cases", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--pgdyno", default=os.path.join(ROOT, "target/dist/pgdyno"))
    parser.add_argument("--keep", help="directory that gets the experiment, new")
    args = parser.parse_args()
    directory = args.keep or tempfile.mkdtemp(prefix="pgdyno-report-")
    try:
        inner = os.path.join(directory, "grown")
        grow(args.source, inner, args.runs, args.cases)
        reports = []
        for _ in range(args.repeats):
            reports.append(report(args.pgdyno, inner))
            print("{:.2f} s, {:.2f} s of processors, {:.0f} MB".format(*reports[-1]), flush=True)
        page = os.path.getsize(os.path.join(inner, "report.html")) / 1e6
        medians = [statistics.median(figures) for figures in zip(*reports)]
        print("{} runs, {} cases, median of {}: {:.2f} s, {:.2f} s of processors, {:.0f} MB, page {:.2f} MB".format(
            args.runs, args.cases, args.repeats, *medians, page))
    finally:
        if not args.keep:
            shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
