#!/usr/bin/env python3
"""What does observing cost? The throughput of runs with telemetry over that of runs without it, in randomized pairs.

The load is `tpcb-select` on data that are cached: nothing waits for a device, the driver and the server use all processors, and each
look at the server takes its time from the load. Prints the ratio for each number of clients, with the 95 % interval of Student's t on the
logarithms of the pairs. Pairs can be added: --keep saves the ratios and counts those that are there. Needs python3 and PostgreSQL's server.
Nothing else may work on the machine.

With --processors, how much of the processors' time observing takes is counted instead: pgdyno's own, and that of its sessions' processes in
the server. Where the processors limit, that is what the load loses; other work on the machine does not disturb it much.

    cargo build --profile dist
    bench/telemetry_cost.py
    bench/telemetry_cost.py --clients 64 --pairs 40 --keep /tmp/ratios.json
    bench/telemetry_cost.py --processors --measure 20
"""

import argparse, json, math, os, statistics, subprocess, tempfile, time

from driver_vs_pgbench import ROOT, Server
from trust import T


def url(server):
    return f"host={server.dir} user=postgres dbname=postgres"


# Each run on the data as they are, at once, and once.
AS_IT_IS = [word for setting in ("run.wal=\"as-is\"", "run.repeat_disturbed=0", "prepare.vacuum=false", "prepare.analyze=false",
                                 "prepare.checkpoint=false", "prepare.settle=false") for word in ("--set", setting)]


def measured(args, server, clients):
    """The ratio of each pair: transactions a second with telemetry over those without."""
    with tempfile.TemporaryDirectory() as place:
        command = [args.pgdyno, "run", "--server", url(server), "--no-restore", "-w", "tpcb-select", "-s", "10",
                   "-c", str(clients), "--ramp-up", "1s", "--measure", f"{args.measure}s", "--repeats", str(args.pairs),
                   "--set", "run.telemetry=[true, false]", *AS_IT_IS, "--json", "-q", "-y", "-o", os.path.join(place, "results")]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if not done.stdout.startswith("{"):
        raise SystemExit(f"{' '.join(command)}\nended with {done.returncode}:\n{done.stderr}")
    study = json.loads(done.stdout)
    observed = {case["case"]["id"]: "false" not in case["label"] for case in study["cases"]}
    if sorted(observed.values()) != [False, True]:
        raise SystemExit(f"expected a case with telemetry and one without: {[case['label'] for case in study['cases']]}")
    blocks = {}
    for run in study["runs"]:
        if run["tps"]:
            blocks.setdefault(run["block"], {})[observed[run["case"]]] = run["tps"]
    return [pair[True] / pair[False] for pair in blocks.values() if len(pair) == 2]


def observers(args, server):
    """Process ids of the server's processes for the sessions that observe."""
    query = "select pid from pg_stat_activity where application_name like 'pgdyno observer%'"
    psql = [os.path.join(args.bindir, "psql"), "-XAt", "-h", server.dir, "-U", "postgres", "-d", "postgres", "-c", query]
    return [int(pid) for pid in subprocess.run(psql, check=True, capture_output=True, text=True).stdout.split()]


def spent(pids):
    """Seconds of processors that processes took so far (/proc/PID/schedstat)."""
    total = 0
    for pid in pids:
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/schedstat") as file:
                total += int(file.read().split()[0])
    return total / 1e9


def processors(args, server, clients):
    """Shares of the processors' time that pgdyno and each of its sessions in the server take under load."""
    with tempfile.TemporaryDirectory() as place:
        command = [args.pgdyno, "run", "--server", url(server), "--no-restore", "-w", "tpcb-select", "-s", "10", "-c", str(clients),
                   "--ramp-up", "2s", "--measure", f"{args.measure + 8}s", "--repeats", "1", *AS_IT_IS, "-q", "-y", "-o", os.path.join(place, "results")]
        running = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            live = os.path.join(place, "results", "runs", "0001", "intervals.jsonl")
            while running.poll() is None and not (os.path.exists(live) and os.path.getsize(live)):
                time.sleep(0.2)
            time.sleep(3)
            pids = [running.pid, *observers(args, server)]
            began, before = time.monotonic(), [spent([pid]) for pid in pids]
            time.sleep(args.measure)
            took = time.monotonic() - began
            return [(spent([pid]) - old) / took / os.cpu_count() for pid, old in zip(pids, before)]
        finally:
            running.wait()


def interval(ratios):
    logs = [math.log(ratio) for ratio in ratios]
    mean, df = statistics.mean(logs), len(logs) - 1
    half = T[max(known for known in T if known <= df)] * statistics.stdev(logs) / math.sqrt(len(logs))
    return tuple(math.exp(mean + by) for by in (0, -half, half))


def loaded_server(args):
    """A server with data that fit into its shared buffers."""
    server = Server(args.bindir, ["shared_buffers=512MB", "max_connections=600", "fsync=off"])
    try:
        subprocess.run([args.pgdyno, "init", "--server", url(server), "-w", "tpcb", "-s", "10"], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    except BaseException:
        server.stop()
        raise
    return server


def read_kept(file, otherwise):
    """The ratios of earlier calls."""
    if not file or not os.path.exists(file):
        return otherwise
    with open(file) as kept:
        return json.load(kept)


def keep(file, ratios):
    if file:
        with open(file, "w") as kept:
            json.dump(ratios, kept)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bindir", default="/usr/lib/postgresql/15/bin")
    parser.add_argument("--pgdyno", default=os.path.join(ROOT, "target/dist/pgdyno"))
    parser.add_argument("--clients", default="8,64,512")
    parser.add_argument("--pairs", type=int, default=16)
    parser.add_argument("--measure", type=int, default=4, help="seconds of each run")
    parser.add_argument("--processors", action="store_true", help="count processors' time instead of comparing throughput")
    parser.add_argument("--keep", help="file of ratios, to which these are added")
    args = parser.parse_args()
    kept = read_kept(args.keep, {})
    server = loaded_server(args)
    try:
        for clients in args.clients.split(","):
            if args.processors:
                shares = sorted((processors(args, server, int(clients)) for _ in range(3)), key=sum)
                own, *sessions = shares[1]
                print(f"{clients:>4} clients: {100 * sum(shares[1]):.2f} % of the processors ({100 * sum(shares[0]):.2f} to {100 * sum(shares[2]):.2f}), "
                      f"{100 * own:.2f} by pgdyno, {100 * sum(sessions):.2f} by its sessions in the server", flush=True)
                continue
            ratios = kept.setdefault(clients, [])
            ratios += measured(args, server, int(clients))
            ratio, low, high = interval(ratios)
            print(f"{clients:>4} clients: {ratio:.3f} ({low:.3f} to {high:.3f}), {len(ratios)} pairs, median {statistics.median(ratios):.3f}", flush=True)
    finally:
        server.stop()
        keep(args.keep, kept)


if __name__ == "__main__":
    main()
