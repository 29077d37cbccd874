#!/usr/bin/env python3
"""Does the stated uncertainty hold? Cases with a known disturbance against the same cases undisturbed, on a real server, interleaved.

Each trial is one case of pgdyno with --runs runs of --seconds, next to which something disturbs the machine or the server. Six undisturbed
trials of each case come first and stay, so that pgdyno knows how far runs differ here; more are mixed in at random. The truth is the
median of all undisturbed runs with its own interval. Counted are

coverage    the truth's interval touches the range that the disturbed trial states: at least 90 %
sharpness   median of the range's half width over the distance of figure and truth: at most 3
doubts      of the trials that are called doubtful or void, how many were off by more than their range

Disturbances are processes of this script, ended by their ids: hogs (a share of a processor, pinned to one or not), a CHECKPOINT, a VACUUM,
a server that stands still for a second, a neighbour that syncs the same disk, other sessions, short runs. Needs python3, PostgreSQL's server
and psql. About 20 s for each trial.

    cargo build --profile dist
    bench/uncertainty.py --trials 150
    bench/uncertainty.py --trials 12 --cases read,8
"""

import argparse, contextlib, json, math, os, random, shutil, signal, statistics, subprocess, sys, tempfile, time

from driver_vs_pgbench import ROOT, Server

WORKLOADS = {"read": ["-w", "tpcb-select"], "write": ["-w", "tpcb"]}


def hog(share, core=None):
    """A process that uses a share of a processor, in turns of 20 ms."""
    pid = os.fork()
    if pid:
        return pid
    if core is not None:
        os.sched_setaffinity(0, {core})
    parent = os.getppid()
    while os.getppid() == parent:
        end = time.monotonic() + 0.02 * share
        while time.monotonic() < end:
            pass
        time.sleep(0.02 * (1 - share))
    os._exit(0)


def repeated(what, every_s):
    """A process that does something again and again."""
    pid = os.fork()
    if pid:
        return pid
    parent = os.getppid()
    while os.getppid() == parent:
        what()
        time.sleep(every_s)
    os._exit(0)


def syncing(place):
    path = os.path.join(place, f"neighbour-{os.getpid()}")
    fd = os.open(path, os.O_CREAT | os.O_WRONLY)
    os.unlink(path)
    for _ in range(20):
        os.pwrite(fd, b"x" * 65536, 0)
        os.fsync(fd)
    os.close(fd)


class Bench:
    def __init__(self, args):
        self.args = args
        self.place = tempfile.mkdtemp(prefix="pgdyno-uncertainty-")
        self.n_trials = 0
        os.mkdir(os.path.join(self.place, "results"))
        settings = ["shared_buffers=512MB", "max_wal_size=8GB", "checkpoint_timeout=30min", "autovacuum=off"]
        self.server = Server(args.bindir, settings)
        self.url = f"postgres://postgres@/postgres?host={self.server.dir}"

    def sql(self, text):
        psql = [os.path.join(self.args.bindir, "psql"), "-h", self.server.dir, "-U", "postgres", "-qAtX", "-d", "postgres", "-c", text]
        subprocess.run(psql, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def stop_backends(self):
        """All processes of the server stand still for a second."""
        children = open(f"/proc/{self.server.process.pid}/task/{self.server.process.pid}/children").read().split()
        pids = [int(pid) for pid in children]
        for signal_ in (signal.SIGSTOP, signal.SIGCONT):
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal_)
            time.sleep(1.0 if signal_ == signal.SIGSTOP else 0)

    def disturbances(self):
        sql = lambda text, every: [repeated(lambda: self.sql(text), every)]
        return {
            "hog 10 %": lambda: [hog(0.1)],
            "hog 30 %": lambda: [hog(0.3)],
            "hog 60 %": lambda: [hog(0.6)],
            "hog 60 % pinned": lambda: [hog(0.6, 0)],
            "hog 100 %": lambda: [hog(1.0)],
            "two hogs": lambda: [hog(0.5, 0), hog(0.5, 1)],
            "checkpoint": lambda: sql("CHECKPOINT", 6),
            "vacuum": lambda: sql("VACUUM pgbench_accounts", 5),
            "stall": lambda: [repeated(self.stop_backends, 9)],
            "disk": lambda: [repeated(lambda: syncing(self.place), 0.05)],
            "other sessions": lambda: sql("SELECT sum(abalance) FROM pgbench_accounts", 0.2),
            "short": lambda: [],
        }

    def trial(self, workload, clients, disturbance, is_kept=False):
        """Figure, range and grade of a case, and the throughput of its runs. What is kept tells later trials how far runs differ here."""
        seconds = 3 if disturbance == "short" else self.args.seconds
        self.n_trials += 1
        out = os.path.join(self.place, "results", f"trial-{self.n_trials:04}")
        command = [self.args.pgdyno, "run", *WORKLOADS[workload], "-s", str(self.args.scale), "-c", str(clients), "--server", self.url,
                   "--measure", f"{seconds}s", "--ramp-up", "1s", "--repeats", str(self.args.runs), "--set", "run.repeat_disturbed=0",
                   "--json", "-o", out]
        env = {**os.environ, "PGDYNO_CACHE": os.path.join(self.place, "cache")}
        pids = self.disturbances()[disturbance]() if disturbance else []
        try:
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)
        finally:
            for pid in pids:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
        if not is_kept:
            shutil.rmtree(out, ignore_errors=True)
        if not done.stdout.startswith("{"):
            raise SystemExit(f"{' '.join(command)}\nended with {done.returncode}:\n{done.stderr}")
        case = json.loads(done.stdout)["cases"][0]
        return case

    def close(self):
        self.server.stop()
        shutil.rmtree(self.place, ignore_errors=True)


def interval_of_median(values):
    """The median with its interval of about 95 % by order statistics; the extremes below six values."""
    ordered = sorted(values)
    n = len(ordered)
    rank = max(int(math.floor(n / 2 - 0.98 * math.sqrt(n))), 0)
    return statistics.median(ordered), ordered[rank], ordered[n - 1 - rank]


def judge(trials, truths):
    rows, ratios, doubtful = [], [], []
    for (case, disturbance, found) in trials:
        true, low, high = truths[case]
        if found.get("tps_median") is None:
            doubtful.append(True)
            continue
        known, figure = found["uncertainty"]["throughput"], found["tps_median"]
        stated = figure * known["low"], figure * known["high"]
        covers = stated[0] <= high and low <= stated[1]
        half = max(figure - stated[0], stated[1] - figure)
        off = abs(true - figure)
        if found["grade"] != "valid":
            doubtful.append(not covers)
        ratios.append(half / max(off, 0.003 * true))
        rows.append(covers)
        mostly = known["budget"][0]["id"]
        print(f"{case[0]} {case[1]:>2} clients  {disturbance:<16} {figure:8.0f} tps, {100 * (figure / true - 1):+6.1f} % off, stated "
              f"{100 * (known['low'] - 1):+.1f} to {100 * (known['high'] - 1):+.1f} % ({mostly}){'' if covers else '  MISSED'}"
              f"{'' if found['grade'] == 'valid' else '  ' + found['grade']}")
    print(f"coverage {sum(rows)} of {len(rows)}: {100 * sum(rows) / max(len(rows), 1):.0f} %")
    print(f"sharpness {statistics.median(ratios):.1f} (median of half width over the distance to the truth)")
    print(f"doubtful or void {len(doubtful)}, of which off by more than the range {sum(doubtful)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pgdyno", default=os.path.join(ROOT, "target/dist/pgdyno"))
    parser.add_argument("--bindir", default="/usr/lib/postgresql/15/bin")
    parser.add_argument("--trials", type=int, default=150, help="disturbed ones")
    parser.add_argument("--cases", default="read,8 read,64 write,8 write,64", help="workload,clients ...")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--scale", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    random.seed(args.seed)
    cases = [(name, int(clients)) for name, clients in (case.split(",") for case in args.cases.split())]
    bench = Bench(args)
    try:
        names = list(bench.disturbances())
        disturbed = [(cases[i % len(cases)], names[(i // len(cases) + i) % len(names)]) for i in range(args.trials)]
        # Six of each case undisturbed before, as a machine is known by, and as many as disturbed ones for every six in between.
        before = [(case, None) for _ in range(6) for case in cases]
        between = [(case, None) for case in cases for _ in range(max(3, args.trials // (6 * len(cases))))]
        order = disturbed + between
        random.shuffle(order)
        order = before + order
        found = []
        for n, (case, disturbance) in enumerate(order, 1):
            result = bench.trial(*case, disturbance, is_kept=n <= len(before))
            found.append((case, disturbance, result))
            print(f"{n}/{len(order)} {case} {disturbance or 'undisturbed'}: {result['tps_median']}", file=sys.stderr, flush=True)
        runs = {case: [tps for other, disturbance, one in found if other == case and not disturbance for tps in one["tps"]] for case in cases}
        truths = {case: interval_of_median(values) for case, values in runs.items()}
        for case, (true, low, high) in truths.items():
            print(f"truth {case[0]} {case[1]} clients: {true:.0f} tps ({low:.0f} to {high:.0f}, {len(runs[case])} runs)")
        judge([one for one in found if one[1]], truths)
        print("undisturbed:")
        judge([(case, "undisturbed", one) for case, disturbance, one in found if not disturbance], truths)
    finally:
        bench.close()


if __name__ == "__main__":
    main()
