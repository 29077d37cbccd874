#!/usr/bin/env python3
"""What many drivers cost the process that conducts them, and what several reach together, against `pgdyno null`.

scale        1 to 200 drivers on this machine, each behind `sh -c` with one client and a few transactions per second: seconds
             until all have answered and are ready, the parent's processor time per driver until then and per driver and
             second of load, its memory, threads and open files, and how late the drivers began
throughput   a closed loop of the same clients over 1, 2 and 4 drivers of one thread: transactions per second

    cargo build --profile dist
    cargo build --profile dist -p fleet --example coordinator
    bench/drivers_scale.py
"""

import argparse, json, os, random, shutil, signal, statistics, subprocess, tempfile, time

from driver_vs_pgbench import ROOT


class Null:
    """The look-alike in a directory of its own."""

    def __init__(self, args):
        self.dir = tempfile.mkdtemp(prefix="pgdyno-bench-")
        command = [args.pgdyno, "null", "--socket-dir", self.dir]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        while not os.path.exists(os.path.join(self.dir, ".s.PGSQL.5431")):
            time.sleep(0.01)

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        self.process.wait()
        shutil.rmtree(self.dir)


def coordinate(args, null, drivers, clients, seconds, pace):
    """What the coordinator prints."""
    words = [args.coordinator, args.pgdyno, null.dir, str(drivers), str(clients), str(seconds), pace]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300)
    if done.returncode != 0:
        raise SystemExit(f"{drivers} drivers: {done.stderr.strip()}")
    return json.loads(done.stdout)


def scale(args, null):
    print("| drivers | all have answered | all are ready | CPU until ready, per driver | CPU of the load, per driver and second "
          "| memory | threads | open files | began late: median | worst |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for drivers in args.drivers:
        found = coordinate(args, null, drivers, drivers, args.seconds, f"constant {drivers * args.rate}/s")
        late_ms = sorted(ns / 1e6 for ns in found["late_ns"])
        print(f"| {drivers} | {found['greeted_s']:.2f} s | {found['ready_s']:.2f} s "
              f"| {found['cpu_ready_s'] / drivers * 1e3:.2f} ms "
              f"| {found['cpu_load_s'] / drivers / args.seconds * 1e3:.2f} ms | {found['rss_max_kib'] / 1024:.1f} MiB "
              f"| {found['n_threads']} | {found['n_files']} | {statistics.median(late_ms):.2f} ms | {late_ms[-1]:.2f} ms |",
              flush=True)
        asked = drivers * args.rate * args.seconds
        if abs(found["committed"] - asked) > 0.02 * asked:
            print(f"of {asked} transactions only {found['committed']} were committed", flush=True)


def throughput(args, null):
    reached = {drivers: [] for drivers in (1, 2, 4)}
    for _ in range(args.repeats):
        for drivers in random.sample(list(reached), len(reached)):
            found = coordinate(args, null, drivers, args.clients, args.seconds, "closed")
            reached[drivers].append(found["committed"] / args.seconds)
    print("\n| drivers | transactions per second, median | lowest | highest |")
    print("|---|---|---|---|")
    for drivers, each in reached.items():
        print(f"| {drivers} | {statistics.median(each):,.0f} | {min(each):,.0f} | {max(each):,.0f} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    dist = os.path.join(ROOT, "target", "dist")
    parser.add_argument("--pgdyno", default=os.path.join(dist, "pgdyno"))
    parser.add_argument("--coordinator", default=os.path.join(dist, "examples", "coordinator"))
    parser.add_argument("--drivers", default="1,10,50,100,200", type=lambda text: [int(n) for n in text.split(",")])
    parser.add_argument("--rate", default=10, type=int, help="transactions per second of each driver")
    parser.add_argument("--clients", default=64, type=int, help="clients of the closed loop")
    parser.add_argument("--seconds", default=5, type=int)
    parser.add_argument("--repeats", default=5, type=int)
    parser.add_argument("--parts", default="scale,throughput")
    args = parser.parse_args()
    null = Null(args)
    try:
        for part in args.parts.split(","):
            {"scale": scale, "throughput": throughput}[part](args, null)
    finally:
        null.stop()


if __name__ == "__main__":
    main()
