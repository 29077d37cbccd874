#!/usr/bin/env python3
"""What does logging for a capture cost the source? Processor time of the server and bytes of log per transaction, against no logging.

pgbench's TPC-B at a fixed rate, so that all cases do the same work. A round is a short load with each setting, in random order: no logging,
1 % of the transactions sampled, all of them sampled, and `log_min_duration_statement = 0`. The ratio of the server's processor time per
transaction is taken within each round, with the 95 % interval of Student's t on the logarithms. All processes of the server count, the
collector of the log and backends that have ended included. Other work on the machine disturbs it: caches are shared.

    bench/capture_cost.py
    bench/capture_cost.py --rounds 12 --seconds 10 --rate 400
"""

import argparse, os, random, re, statistics, subprocess, time

from driver_vs_pgbench import Server
from telemetry_cost import interval

SETTINGS = ["shared_buffers=256MB", "fsync=off", "autovacuum=off", "logging_collector=on", "log_destination=csvlog", "log_filename=run.log",
            "log_rotation_age=0", "log_rotation_size=0", "compute_query_id=on"]
CASES = {
    "off": "",
    "1 % of transactions": "-c log_transaction_sample_rate=0.01",
    "100 % of transactions": "-c log_transaction_sample_rate=1",
    "log_min_duration_statement = 0": "-c log_min_duration_statement=0",
}
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def times(pid):
    """Processor time of a process, and of its children that have ended, in ticks."""
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return sum(int(fields[n]) for n in (11, 12)), sum(int(fields[n]) for n in (13, 14))


def spent_s(postmaster):
    """Processor time of all of a server's processes so far, seconds."""
    own, ended = times(postmaster)
    total = own + ended
    with open(f"/proc/{postmaster}/task/{postmaster}/children") as file:
        children = file.read().split()
    for child in children:
        try:
            total += sum(times(child))
        except FileNotFoundError:
            # It ended meanwhile, and would be counted with its parent's next reading.
            pass
    return total / TICKS_PER_S


def log_bytes(server):
    place = os.path.join(server.dir, "data", "log")
    return sum(os.path.getsize(os.path.join(place, name)) for name in os.listdir(place) if name.endswith(".csv"))


def load(args, server, options):
    """Processor time in microseconds, and bytes of log, for each transaction."""
    env = {**os.environ, "PGHOST": server.dir, "PGUSER": "postgres", "PGDATABASE": "postgres", "PGOPTIONS": options}
    command = [os.path.join(args.bindir, "pgbench"), "-n", "-c", "4", "-M", args.protocol, "-R", str(args.rate), "-T", str(args.seconds)]
    before_s, before_bytes = spent_s(server.pid), log_bytes(server)
    out = subprocess.run(command, check=True, capture_output=True, text=True, env=env).stdout
    time.sleep(0.5)
    took_s, written = spent_s(server.pid) - before_s, log_bytes(server) - before_bytes
    n = int(re.search(r"actually processed: (\d+)", out).group(1))
    return 1e6 * took_s / n, written / n


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bindir", default="/usr/lib/postgresql/15/bin")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--rate", type=int, default=300)
    parser.add_argument("--protocol", default="prepared")
    args = parser.parse_args()
    server = Server(args.bindir, SETTINGS)
    found = {case: [] for case in CASES}
    try:
        with open(os.path.join(server.dir, "data", "postmaster.pid")) as file:
            server.pid = int(file.readline())
        env = {**os.environ, "PGHOST": server.dir, "PGUSER": "postgres", "PGDATABASE": "postgres"}
        subprocess.run([os.path.join(args.bindir, "pgbench"), "-i", "-q", "-s", "10"], check=True, capture_output=True, env=env)
        load(args, server, "")
        for _ in range(args.rounds):
            order = list(CASES)
            random.shuffle(order)
            for case in order:
                found[case].append(load(args, server, CASES[case]))
    finally:
        server.stop()
    base = [cpu for cpu, _ in found["off"]]
    print(f"off: {statistics.median(base):.0f} us of processor time per transaction; {args.rounds} rounds of {args.seconds} s at {args.rate}/s, {args.protocol}")
    for case in list(CASES)[1:]:
        ratio, low, high = interval([cpu / of for (cpu, _), of in zip(found[case], base)])
        volume = statistics.median(n for _, n in found[case])
        print(f"{case}: {ratio:.3f} times the processor time ({low:.3f} to {high:.3f}), {volume:.0f} bytes of log per transaction")


if __name__ == "__main__":
    main()
