#!/usr/bin/env python3
"""How true the driver's own numbers are, against `pgdyno null`, which records when each statement came and went.

ceiling      transactions per second and per core of the driver, by clients (one thread)
             and the driver's memory, and the time to make its connections
error        recorded minus true latency of each transaction at programmed service times; the median is what counts
open loop    achieved rate against the asked one, and gaps between the moments when transactions were due, were sent, and
             came to the look-alike, against an exponential distribution (Kolmogorov-Smirnov, with the limit at 1 %)
arrivals     TPC-B-like on a real PostgreSQL at half of what the program reaches with 8 clients: gaps between the moments when
             transactions were due, and when they were sent, by pgdyno and by pgbench
machine      how often, and for which share of the time, a program that only reads the clock is kept from it, while the other
             core is busy: nothing that stays awake here can do better
stall        the server is stopped for 1 s of 10: the 99th percentile of an open and of a closed loop

Needs python3; arrivals needs PostgreSQL's server and pgbench in --bindir.

    cargo build --profile dist
    bench/driver_truth.py
"""

import argparse, base64, contextlib, glob, json, math, os, random, re, shutil, signal, statistics, struct, subprocess, sys
import tempfile, threading, time, zlib

from driver_vs_pgbench import ROOT, AwakeCores, Server

SELECT = "\\set aid random(1, 100000)\nSELECT abalance FROM pgbench_accounts WHERE aid = :aid;\n"


def on_core(core):
    """The prefix that pins a process to a core, if the machine has several: two processes that never sleep must not share one."""
    cores = sorted(os.sched_getaffinity(0))
    if core is False or len(cores) < 2:
        return None
    return lambda: os.sched_setaffinity(0, {cores[core]})


class Null:
    """The look-alike in a directory of its own."""

    def __init__(self, args, service="0", spin=False):
        self.dir = tempfile.mkdtemp(prefix="pgdyno-bench-")
        self.record, self.log = os.path.join(self.dir, "record"), os.path.join(self.dir, "log")
        command = [args.pgdyno, "null", "--socket-dir", self.dir, "--service", service, "--record", self.record]
        command += ["--spin"] if spin else []
        self.spins = spin
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, preexec_fn=on_core(spin and 0))
        while not os.path.exists(os.path.join(self.dir, ".s.PGSQL.5431")):
            time.sleep(0.01)

    def stop(self):
        """Connection, arrival and answer of each statement, nanoseconds."""
        self.process.send_signal(signal.SIGINT)
        self.process.wait()
        with open(self.record, "rb") as file:
            passages = [(n, arrived, answered) for n, arrived, _, answered in struct.iter_unpack("<QQQQ", file.read())]
        shutil.rmtree(self.dir)
        return passages


class Histogram:
    """Counts by value, read from HdrHistogram's exchange format (V2, deflate): three digits, from one nanosecond."""

    HALF = 1024

    def __init__(self):
        self.counts = {}

    def add(self, text):
        data = zlib.decompress(base64.b64decode(text)[8:])
        n_bytes = struct.unpack(">i", data[4:8])[0]
        payload, at, index = data[40:40 + n_bytes], 0, 0
        while at < len(payload):
            number, shift = 0, 0
            for n_read in range(9):
                byte = payload[at]
                at += 1
                number |= (byte if n_read == 8 else byte & 0x7F) << shift
                shift += 7
                if n_read == 8 or byte < 0x80:
                    break
            count = (number >> 1) ^ -(number & 1)
            if count < 0:
                index -= count
            else:
                self.counts[index] = self.counts.get(index, 0) + count
                index += 1

    def value(self, index):
        bucket, sub = (index // self.HALF) - 1, index % self.HALF + self.HALF
        return index if bucket < 0 else sub << bucket

    def quantile(self, q):
        """Nanoseconds."""
        left = q * sum(self.counts.values())
        for index in sorted(self.counts):
            left -= self.counts[index]
            if left <= 0:
                return self.value(index)
        return 0


def drive(args, null, clients, seconds, poller, pace="closed", ramp_up=0, during=None, log=False):
    """Counts, latencies, CPU and memory of one load; with `log`, each transaction in a log that ends with the look-alike."""
    load = {
        "format": 1, "target": {"host": null.dir, "port": "5431", "user": "postgres", "dbname": "postgres"},
        "scripts": [{"name": "select", "tag": "select", "weight": 1, "source": SELECT}],
        "defines": {"scale": "1"}, "protocol": "prepared", "n_clients": clients, "n_threads": 1, "pace": pace,
        "window": {"ramp_up_s": ramp_up, "measure_s": seconds, "grace_s": 10}, "seed": 7, "poller": poller,
        "busy_poll_us": args.busy_poll,
    }
    if log:
        load["log"] = {"prefix": null.log, "sampling_rate": 1.0, "aggregate_interval_s": 0, "failures_detailed": False, "pid": 0}
    process = subprocess.Popen([args.pgdyno, "drive"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                               preexec_fn=on_core(null.spins and 1))
    tell = lambda value: (process.stdin.write(json.dumps(value) + "\n"), process.stdin.flush())
    tell({"load": load})
    ready = json.loads(process.stdout.readline())
    if "ready" not in ready:
        raise SystemExit(ready)
    tell({"go": time.time_ns() + 20_000_000})
    if during:
        threading.Thread(target=during).start()
    counts, cpu_s, length_ns, latency, done = {}, 0, 0, Histogram(), None
    # As the driver's ticks have it: the kernel's figure for a child includes what this program had when it forked.
    memory = 0
    # All lines first: understanding them takes milliseconds of a processor that driver and look-alike need.
    for line in process.stdout.readlines():
        value = json.loads(line)
        if "interval" in value:
            interval = value["interval"]["interval"]
            if ramp_up <= interval["t"] < ramp_up + seconds:
                length_ns += interval["length_ns"]
                for name, n in interval["counts"].items():
                    counts[name] = counts.get(name, 0) + n
                for histogram in value["interval"]["histograms"]:
                    if histogram["tag"] == "select":
                        latency.add(histogram["data"])
        elif "tick" in value:
            cpu_s += value["tick"]["values"]["driver.thread_cpu[0]"]
            memory = max(memory, value["tick"]["values"].get("driver.memory", 0))
        elif "done" in value:
            done = value["done"]
    process.stdin.close()
    process.wait()
    return {"counts": counts, "seconds": length_ns / 1e9, "done": done, "latency": latency, "thread_cpu_s": cpu_s,
            "memory_mb": memory / 2**20, "connect_s": ready["ready"]["connect_ns"] / 1e9}


def ceiling(args, poller):
    for clients in (1, 8, 64, 512, 5000):
        null = Null(args)
        try:
            result = drive(args, null, clients, args.seconds, poller)
        finally:
            null.stop()
        n = result["done"]["counts"]["committed"]
        cpu_us = result["thread_cpu_s"] * 1e6 / n
        print(f"ceiling  {poller:<8} {clients:>5} clients: {n / result['seconds']:>8.0f} tps, {cpu_us:5.2f} us of driver CPU per "
              f"transaction = {1e6 / cpu_us:>8.0f} per core; {result['memory_mb']:.0f} MB, connected in "
              f"{result['connect_s']:.2f} s", flush=True)


def wall_clock_ns():
    """Wall clock minus monotonic clock, from the reading of several that took least time."""
    readings = []
    for _ in range(50):
        before, wall, after = time.monotonic_ns(), time.time_ns(), time.monotonic_ns()
        readings.append((after - before, wall - (before + after) // 2))
    return min(readings)[1]


def log_lines(prefix):
    """The numbers of each line of pgbench's log: client, transaction, latency, script, end in s and us, and perhaps lag."""
    for path in glob.glob(prefix + ".*"):
        for line in open(path):
            yield [int(field) for field in line.split()]


def spans(prefix):
    """Begin and end of each client's transactions as the driver logged them, nanoseconds of the monotonic clock."""
    offset, by_client = wall_clock_ns(), {}
    for client, _, latency_us, _, s, us in log_lines(prefix):
        # Whole microseconds were logged: on the average half of one is missing from the end.
        end = s * 1_000_000_000 + us * 1000 + 500 - offset
        by_client.setdefault(client, []).append((end - latency_us * 1000, end))
    return by_client


def meet(spans, passages):
    """Of each transaction in order: until its statement had arrived, and after its answer had gone, nanoseconds."""
    by_connection = {}
    for connection, arrived, answered in passages:
        by_connection.setdefault(connection, []).append((arrived, answered))
    for mine in spans.values():
        # A client's connection is the one whose statements arrived when the client sent some.
        apart = lambda theirs: sum(abs(a[0] - b[0]) for a, b in zip(mine[:50], theirs))
        for (begin, end), (arrived, answered) in zip(mine, min(by_connection.values(), key=apart)):
            yield arrived - begin, end - answered


def error(args, poller):
    for service in ("50us", "200us", "1ms", "5ms", "50ms"):
        for clients in (1, 4):
            null = Null(args, service, spin=True)
            try:
                drive(args, null, clients, max(args.seconds, 5), poller, log=True)
                by_client = spans(null.log)
            finally:
                passages = null.stop()
            parts = [(before / 1e3, after / 1e3) for before, after in meet(by_client, passages)]
            errors = sorted(before + after for before, after in parts)
            before, after = (statistics.median(part) for part in zip(*parts))
            print(f"error    {poller:<8} service {service:>5}, {clients} client(s): median {statistics.median(errors):+6.1f} us "
                  f"({before:+.1f} until the statement had arrived, {after:+.1f} after the answer had gone), 99th percentile "
                  f"{errors[int(0.99 * len(errors))]:+7.1f} us, n {len(errors)}", flush=True)


def distance(gaps):
    """Of Kolmogorov and Smirnov, from an exponential distribution of the same mean, with its limit at 1 %."""
    gaps, mean, n = sorted(gaps), statistics.fmean(gaps), len(gaps)
    furthest = max(abs(1 - math.exp(-gap / mean) - (i + 0.5) / n) for i, gap in enumerate(gaps))
    return f"KS distance {furthest:.4f}, limit {1.63 / math.sqrt(n):.4f} (n {n})"


def logged(prefix):
    """When each transaction of an open loop's log was due, and when it was sent, microseconds."""
    due, sent = [], []
    for _, _, latency, _, end_s, end_us, lag in log_lines(prefix):
        due.append(end_s * 1_000_000 + end_us - latency)
        sent.append(due[-1] + lag)
    return {"due": sorted(due), "sent": sorted(sent)}


def logged_distance(moments):
    """Whole microseconds were logged: the truncated part is replaced by a random one."""
    return distance([max(b - a + random.uniform(-0.5, 0.5), 0) for a, b in zip(moments, moments[1:])])


def open_loop(args, poller):
    null = Null(args)
    try:
        capacity = drive(args, null, 8, 3, poller)["counts"]["committed"] / 3
    finally:
        null.stop()
    rate = round(min(capacity / 2, args.rate), -2)
    for pace in (f"constant {rate:.0f}/s", f"{rate:.0f}/s"):
        null = Null(args, spin=True)
        try:
            result = drive(args, null, 64, args.open_seconds, poller, pace, log=True)
            moments = logged(null.log)
        finally:
            passages = null.stop()
        counts = result["counts"]
        achieved = result["done"]["counts"]["committed"] / args.open_seconds
        # What was due differs from the rate by chance when gaps are exponential.
        due = counts["due"] / args.open_seconds
        print(f"open     {poller:<8} {pace:>16}: due {due:.1f}/s ({100 * (due / rate - 1):+.3f} % of asked), achieved "
              f"{achieved:.1f}/s ({100 * (achieved / due - 1):+.3f} % of due)", flush=True)
        if "constant" in pace:
            continue
        came = sorted(arrived for _, arrived, _ in passages)
        distances = {what: logged_distance(at) for what, at in moments.items()}
        distances["came"] = distance([b - a for a, b in zip(came, came[1:])])
        for what, text in distances.items():
            print(f"open     {poller:<8} {pace:>16}, {what}: {text}", flush=True)


def arrivals(args, poller):
    server = Server(args.bindir, ["shared_buffers=1GB", "max_wal_size=8GB"])
    at = ["-h", server.dir, "-U", "postgres"]

    def call(program, *options):
        command = [*program, *at, *options, "postgres"]
        return subprocess.run(command, check=True, capture_output=True, text=True, cwd=server.dir).stdout

    ours, theirs = [args.pgdyno, "pgbench"], [os.path.join(args.bindir, "pgbench")]
    try:
        call(ours, "-i", "-q", "-s", "20")
        for name, program in (("pgdyno", [*ours, "--poller", poller]), ("pgbench", theirs)):
            most = call(program, "-n", "-M", "prepared", "-c", "8", "-T", str(args.seconds))
            rate, prefix = float(re.search(r"tps = ([\d.]+)", most).group(1)) / 2, os.path.join(server.dir, name)
            call(program, "-n", "-M", "prepared", "-c", "64", "-T", str(args.open_seconds), "-R", str(rate), "-l",
                 "--log-prefix", prefix)
            for what, moments in logged(prefix).items():
                print(f"arrivals {poller:<8} {name:<7} {rate:>5.0f}/s, {what:<4}: {logged_distance(moments)}", flush=True)
    finally:
        server.stop()


def machine():
    neighbour = subprocess.Popen([sys.executable, "-c", "while True: pass"], preexec_fn=on_core(0))
    own, seconds = os.sched_getaffinity(0), 5
    os.sched_setaffinity(0, {sorted(own)[-1]})
    try:
        gaps, now = [], time.monotonic_ns()
        end = now + seconds * 1_000_000_000
        while now < end:
            before, now = now, time.monotonic_ns()
            if now - before > 10_000:
                gaps.append((now - before) / 1e3)
    finally:
        os.sched_setaffinity(0, own)
        neighbour.kill()
        neighbour.wait()
    print(f"machine  away for 10 us or more {len(gaps) / seconds:.0f} times a second, {sum(gaps) / seconds / 1e4:.2f} % of the "
          f"time, median {statistics.median(gaps or [0]):.0f} us", flush=True)


def stall(args, poller):
    for pace in (f"{args.stall_rate}/s", "closed"):
        null = Null(args, "1ms")

        def freeze():
            time.sleep(4)
            null.process.send_signal(signal.SIGSTOP)
            time.sleep(1)
            null.process.send_signal(signal.SIGCONT)

        try:
            result = drive(args, null, 8, 10, poller, pace, during=freeze)
        finally:
            null.stop()
        ms = lambda q: result["latency"].quantile(q) / 1e6
        print(f"stall    {poller:<8} {pace:>16}: p50 {ms(0.5):.2f} ms, p90 {ms(0.9):.1f} ms, p99 {ms(0.99):.1f} ms, max "
              f"{ms(1):.0f} ms, n {result['counts']['committed']}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pgdyno", default=os.path.join(ROOT, "target/dist/pgdyno"))
    parser.add_argument("--bindir", default="/usr/lib/postgresql/15/bin")
    parser.add_argument("--pollers", default="io_uring,epoll")
    parser.add_argument("--parts", default="machine,ceiling,error,open,arrivals,stall")
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("--open-seconds", type=int, default=30)
    parser.add_argument("--rate", type=float, default=2_000, help="most that the open loop asks for, per second")
    parser.add_argument("--stall-rate", type=int, default=1000)
    parser.add_argument("--busy-poll", type=int, default=0, help="microseconds that the driver stays awake (busy_poll_us)")
    parser.add_argument("--sleepy", action="store_true", help="let idle cores sleep, as a quiet machine does")
    args = parser.parse_args()
    parts = {"ceiling": ceiling, "error": error, "open": open_loop, "arrivals": arrivals, "stall": stall}
    for part in args.parts.split(","):
        if part == "machine":
            machine()
            continue
        for poller in args.pollers.split(","):
            with contextlib.nullcontext() if args.sleepy or args.busy_poll or part in ("ceiling", "arrivals") else AwakeCores():
                parts[part](args, poller)


if __name__ == "__main__":
    sys.exit(main())
