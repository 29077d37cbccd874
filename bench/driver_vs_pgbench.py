#!/usr/bin/env python3
"""Client CPU, throughput and fairness of `pgdyno drive` against pgbench, interleaved on one server.

Starts a throw-away PostgreSQL with the binaries in --bindir (unix socket only), loads pgbench tables, and runs
groups in random order: one run of pgbench and one of pgdyno with each poller, same clients, same protocol, same
seconds. Prints medians and the median of the groups' ratios (pgdyno / pgbench), and of the server's own CPU time.
Client CPU is that of the whole program less that of a run of one transaction for each client in the same group, which connects and
disconnects likewise; its transactions are taken off too. A disk that is busy with commits hides drivers from each other:
with --set synchronous_commit=off the processors are what is shared. With one client the cost of a wake-up depends on whether
cores sleep meanwhile, by as much as a half: --awake keeps them from it.
Needs python3 and PostgreSQL's server and pgbench.

    cargo build --profile dist
    bench/driver_vs_pgbench.py --clients 1,8,64 --pairs 7 --seconds 5
"""

import argparse, contextlib, functools, json, math, os, pwd, random, re, resource, shutil, signal, statistics, subprocess, sys, tempfile, time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BARE = os.path.join(ROOT, "target/dist/examples/bare_loop")
SCRIPTS = {
    "tpcb": r"""\set aid random(1, 100000 * :scale)
\set bid random(1, 1 * :scale)
\set tid random(1, 10 * :scale)
\set delta random(-5000, 5000)
BEGIN;
UPDATE pgbench_accounts SET abalance = abalance + :delta WHERE aid = :aid;
SELECT abalance FROM pgbench_accounts WHERE aid = :aid;
UPDATE pgbench_tellers SET tbalance = tbalance + :delta WHERE tid = :tid;
UPDATE pgbench_branches SET bbalance = bbalance + :delta WHERE bid = :bid;
INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES (:tid, :bid, :aid, :delta, CURRENT_TIMESTAMP);
END;
""",
    "select": r"""\set aid random(1, 100000 * :scale)
SELECT abalance FROM pgbench_accounts WHERE aid = :aid;
""",
}


class Server:
    """A cluster of its own in a temporary directory, ended by its process id."""

    def __init__(self, bindir, settings):
        self.dir = tempfile.mkdtemp(prefix="pgdyno-bench-")
        self.as_user = []
        if os.geteuid() == 0:
            user = pwd.getpwnam("postgres")
            os.chown(self.dir, user.pw_uid, user.pw_gid)
            self.as_user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups"]
        data = os.path.join(self.dir, "data")
        quiet = {"stdout": subprocess.DEVNULL, "cwd": self.dir}
        initdb = [os.path.join(bindir, "initdb"), "-D", data, "-A", "trust", "-U", "postgres"]
        subprocess.run(self.as_user + initdb, check=True, **quiet)
        options = [arg for setting in settings for arg in ("-c", setting)]
        postgres = [os.path.join(bindir, "postgres"), "-D", data, "-k", self.dir, "-c", "listen_addresses="]
        log = open(os.path.join(self.dir, "log"), "w")
        self.process = subprocess.Popen(
            self.as_user + postgres + options, stdout=log, stderr=log, cwd=self.dir, start_new_session=True
        )
        for _ in range(300):
            ready = [os.path.join(bindir, "pg_isready"), "-q", "-h", self.dir]
            if subprocess.run(ready).returncode == 0:
                return
            time.sleep(0.1)
        self.stop()
        raise SystemExit("the server did not start")

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        self.process.wait()
        shutil.rmtree(self.dir)


class AwakeCores:
    """A process of the idle class on each core. It yields to everything, but keeps a virtual machine from giving the
    core away: waking one up again takes 30 to 60 us, which would be measured instead of the driver."""

    def __enter__(self):
        self.pids = []
        for core in sorted(os.sched_getaffinity(0)):
            pid = os.fork()
            if pid == 0:
                os.sched_setaffinity(0, {core})
                os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
                parent = os.getppid()
                while os.getppid() == parent:
                    sum(range(10_000))
                os._exit(0)
            self.pids.append(pid)

    def __exit__(self, *_):
        for pid in self.pids:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def children_cpu():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def call_pgbench(args, server, script, clients, *length):
    """tps, number of transactions, and seconds of client CPU, connecting included."""
    select = ["-S"] if script == "select" else []
    command = [os.path.join(args.bindir, "pgbench"), "-h", server.dir, "-U", "postgres", "-n", "-M", "prepared",
               "-c", str(clients), "-j", str(args.threads), *length, *select, "postgres"]
    before = children_cpu()
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    cpu = children_cpu() - before
    n = int(re.search(r"actually processed: (\d+)", done.stdout).group(1))
    return float(re.search(r"tps = ([\d.]+)", done.stdout).group(1)), n, cpu


def beyond(args, short, n, cpu):
    """Microseconds of client CPU per transaction beyond those of a `short` run: its transactions and CPU."""
    n_short, cpu_short = short
    if n <= n_short:
        raise SystemExit(f"in {args.seconds} s a driver got no further than connecting its clients: use longer runs (--seconds)")
    return (cpu - cpu_short) * 1e6 / (n - n_short)


def pgbench(args, server, script, clients, short):
    tps, n, cpu = call_pgbench(args, server, script, clients, "-T", str(args.seconds))
    return {"tps": tps, "cpu_us": beyond(args, short, n, cpu), "n": n}


def tree_cpu(pid):
    """CPU seconds of a process, its children and its ended children, from /proc."""
    ticks = 0
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat") as file:
                fields = file.read().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if name == str(pid):
            ticks += sum(int(n) for n in fields[11:15])
        elif fields[1] == str(pid):
            ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def host():
    """Context switches since boot, and processor time by state, from /proc/stat."""
    with open("/proc/stat") as file:
        lines = {line.split()[0]: [int(n) for n in line.split()[1:]] for line in file if not line.startswith("intr")}
    return lines["ctxt"][0], lines["cpu"]


def watched(server, run):
    """A run's result, with the server's CPU per transaction, and what the host did meanwhile."""
    before, (switches, times) = tree_cpu(server.process.pid), host()
    result = run()
    switches_after, times_after = host()
    spent = [after - before for before, after in zip(times, times_after)]
    result["server_us"] = (tree_cpu(server.process.pid) - before) * 1e6 / result["n"]
    result["switches"] = (switches_after - switches) / result["n"]
    result["idle"] = 100 * (spent[3] + spent[4]) / max(1, sum(spent[:8]))
    return result


def call_pgdyno(args, server, script, clients, seed, poller, **more):
    """What `pgdyno drive` said when it was done, its transactions while it measured and for how long, and seconds of its CPU."""
    load = {
        "format": 1, "target": {"host": server.dir, "port": "5432", "user": "postgres", "dbname": "postgres"},
        "scripts": [{"name": script, "tag": script, "weight": 1, "source": SCRIPTS[script]}],
        "defines": {"scale": str(args.scale)}, "protocol": "prepared", "n_clients": clients,
        "n_threads": args.threads, "pace": "closed",
        "window": {"ramp_up_s": 0, "measure_s": args.seconds, "grace_s": 10}, "seed": seed,
        "poller": poller, **more,
    }
    before = children_cpu()
    process = subprocess.Popen([args.pgdyno, "drive"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    tell = lambda value: (process.stdin.write(json.dumps(value) + "\n"), process.stdin.flush())
    tell({"load": load})
    ready = json.loads(process.stdout.readline())
    if "ready" not in ready:
        raise SystemExit(ready)
    tell({"go": time.time_ns() + 20_000_000})
    measured = length_ns = 0
    for line in process.stdout:
        value = json.loads(line)
        if "interval" in value and value["interval"]["interval"]["t"] < args.seconds:
            measured += value["interval"]["interval"]["counts"]["committed"]
            length_ns += value["interval"]["interval"]["length_ns"]
        elif "done" in value:
            done = value["done"]
    process.stdin.close()
    process.wait()
    return done, (measured, length_ns / 1e9), children_cpu() - before


def short_pgdyno(args, server, script, clients, poller):
    """Transactions and CPU of a run of one transaction for each client."""
    done, _, cpu = call_pgdyno(args, server, script, clients, 1, poller, transactions_per_client=1)
    return done["counts"]["committed"], cpu


def pgdyno(args, server, script, clients, seed, poller, short):
    done, (measured, seconds), cpu = call_pgdyno(args, server, script, clients, seed, poller)
    by_client = done["measured_by_client"]
    jain = sum(by_client) ** 2 / (len(by_client) * max(1, sum(n * n for n in by_client)))
    n = done["counts"]["committed"]
    return {"tps": measured / seconds, "cpu_us": beyond(args, short, n, cpu), "jain": jain, "n": n}


def bare(args, server, script, clients):
    """The control: a loop that only sends and receives, from `cargo build --profile dist -p driver --example bare_loop`."""
    command = [args.bare, server.dir, script, str(clients), str(args.seconds), str(args.scale)]
    n, cpu_us = map(int, subprocess.run(command, check=True, capture_output=True, text=True).stdout.split())
    return {"tps": n / args.seconds, "cpu_us": cpu_us / n, "jain": math.nan, "n": n}


def sides_of(args, server, script, clients, seed):
    """The sides of a group, pgbench first, each ready to be run. What a run costs beyond its load is measured here."""
    short = call_pgbench(args, server, script, clients, "-t", "1")[1:]
    sides = {"pgbench": lambda: pgbench(args, server, script, clients, short)}
    for poller in args.pollers.split(","):
        short_run = short_pgdyno(args, server, script, clients, poller)
        sides[poller] = functools.partial(pgdyno, args, server, script, clients, seed, poller, short_run)
    if args.bare:
        sides["bare"] = lambda: bare(args, server, script, clients)
    return sides


def compare(args, server, script, clients):
    groups = []
    for n in range(args.pairs):
        sides = sides_of(args, server, script, clients, n + 1)
        order = random.sample(list(sides), len(sides))
        groups.append({name: watched(server, sides[name]) for name in order})
    median = lambda side, key: statistics.median(group[side][key] for group in groups)
    for poller in list(sides)[1:]:
        ratio = lambda key: statistics.median(group[poller][key] / group["pgbench"][key] for group in groups)
        cells = [f"{median('pgbench', key):>8.{digits}f} {median(poller, key):>8.{digits}f} {ratio(key):>6.2f}"
                 for key, digits in [("tps", 0), ("cpu_us", 1), ("server_us", 1), ("switches", 2)]]
        cells.append(f"{median('pgbench', 'idle'):>3.0f} {median(poller, 'idle'):>3.0f}")
        print(f"{script:<7} {clients:>5} {poller:<8} | {' | '.join(cells)} | {median(poller, 'jain'):.3f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bindir", default="/usr/lib/postgresql/15/bin")
    parser.add_argument("--pgdyno", default=os.path.join(ROOT, "target/dist/pgdyno"))
    parser.add_argument("--clients", default="1,8,64,512")
    parser.add_argument("--pollers", default="io_uring,epoll")
    parser.add_argument("--bare", nargs="?", const=BARE, help="also run the bare loop: the floor on this machine")
    parser.add_argument("--scripts", default="select,tpcb")
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--scale", type=int, default=20)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--awake", action="store_true", help="keep cores from sleeping while both programs wait")
    parser.add_argument("--set", action="append", default=[], help="server setting, name=value")
    args = parser.parse_args()
    settings = ["shared_buffers=1GB", "max_connections=1000", "max_wal_size=8GB", *args.set]
    server = Server(args.bindir, settings)
    try:
        load = [os.path.join(args.bindir, "pgbench"), "-h", server.dir, "-U", "postgres", "-i", "-q",
                "-s", str(args.scale), "postgres"]
        subprocess.run(load, check=True, stderr=subprocess.DEVNULL)
        print(f"medians of {args.pairs} groups of {args.seconds} s, {args.threads} thread(s), prepared, scale {args.scale}")
        print("                        | transactions/s           | client CPU, us/tx        | server CPU, us/tx        | context switches/tx      | idle %  |")
        print("script clients poller   |  pgbench   pgdyno  ratio |  pgbench   pgdyno  ratio |  pgbench   pgdyno  ratio |  pgbench   pgdyno  ratio |         | Jain")
        for script in args.scripts.split(","):
            for clients in args.clients.split(","):
                with AwakeCores() if args.awake else contextlib.nullcontext():
                    compare(args, server, script, int(clients))
    finally:
        server.stop()


if __name__ == "__main__":
    sys.exit(main())
