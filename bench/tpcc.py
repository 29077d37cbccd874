#!/usr/bin/env python3
"""TPC-C by pgdyno, and by the rivals that are there, on one server over TCP, interleaved.

Starts a throw-away PostgreSQL with the binaries in --bindir, loads --warehouses with each program and takes the time, then
runs rounds in random order: pgdyno with statements, functions and procedures, tproc-c with both, and the rivals. Prints medians of
New-Orders per minute, CPU seconds of the client and of the server for 1,000 New-Orders, and the client's largest memory.
Each program has a database of its own, which grows from round to round. Needs python3 and PostgreSQL's server programs.

    cargo build --profile dist
    go install github.com/pingcap/go-tpc/cmd/go-tpc@latest
    bench/tpcc.py --go-tpc ~/go/bin/go-tpc --benchbase ~/benchbase-postgres

With --hammerdb, HammerDB's own scripts load and run (Debian: tcl8.6, tcl-thread, libpgtcl, tcllib), and pgdyno also drives a
copy of the database that they have built.
"""

import argparse, json, os, random, re, resource, shutil, socket, statistics, subprocess, tempfile, time

from driver_vs_pgbench import ROOT, Server
from tpcc_rivals import BenchBase, GoTpc, HammerDb


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Bench:
    def __init__(self, args):
        self.args, self.port = args, free_port()
        settings = ["listen_addresses=127.0.0.1", f"port={self.port}", "shared_buffers=2GB", "max_wal_size=8GB",
                    "synchronous_commit=off", "checkpoint_timeout=30min", *args.set]
        os.environ["PGPORT"] = str(self.port)
        self.server = Server(args.bindir, settings)
        self.dir = tempfile.mkdtemp(prefix="pgdyno-tpcc-")
        self.env = {**os.environ, "HOME": self.dir, "PGDYNO_CACHE": self.dir}

    def target(self, database):
        return f"host=127.0.0.1 port={self.port} user=postgres dbname={database}"

    def sql(self, database, text):
        psql = [os.path.join(self.args.bindir, "psql"), "-h", self.server.dir, "-U", "postgres", "-qAtX", "-v", "ON_ERROR_STOP=1",
                "-d", database]
        return subprocess.run([*psql, "-f", "-"], input=text, check=True, capture_output=True, text=True).stdout.strip()

    def server_cpu(self):
        """CPU seconds of the postmaster and of its children, those included that have ended."""
        tick = os.sysconf("SC_CLK_TCK")
        fields = lambda pid: open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
        root = self.server.process.pid
        total = sum(int(n) for n in fields(root)[11:15])
        for pid in open(f"/proc/{root}/task/{root}/children").read().split():
            try:
                total += sum(int(n) for n in fields(pid)[11:13])
            except FileNotFoundError:
                pass
        return total / tick

    def timed(self, command, cwd=None):
        begun, before, server = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN), self.server_cpu()
        done = subprocess.run(["/usr/bin/time", "-f", "peak %M", *command], capture_output=True, text=True, env=self.env,
                              stdin=subprocess.DEVNULL, cwd=cwd or self.dir)
        if done.returncode != 0:
            raise SystemExit(f"{command}\n{done.stdout}\n{done.stderr}")
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        peak_kb = int(re.findall(r"peak (\d+)", done.stderr)[-1])
        return {"seconds": time.monotonic() - begun, "cpu": cpu, "server": self.server_cpu() - server,
                "peak_mb": peak_kb / 1024, "output": done.stdout, "told": done.stderr}

    def new_orders(self, database):
        return int(self.sql(database, "select sum(d_next_o_id) from district"))

    def load(self, database, workload):
        self.sql("postgres", f"create database {database}")
        init = [self.args.pgdyno, "init", "-w", workload, "-s", str(self.args.warehouses), "--server",
                self.target(database)]
        return self.timed(init)["seconds"]

    def run(self, database, workload, settings):
        out = os.path.join(self.dir, f"out{time.monotonic_ns()}")
        run = [self.args.pgdyno, "run", "-w", workload, "-s", str(self.args.warehouses), "-c", str(self.args.clients),
               "--measure", f"{self.args.seconds}s", "--ramp-up", "0s", "--repeats", "1", "--json", "-o", out, "--server",
               self.target(database)]
        off = ["restore", "vacuum", "analyze", "prewarm", "settle"]
        changes = [f"prepare.{name}=false" for name in off] + ["run.repeat_disturbed=0"] + settings
        done = self.timed([*run, *(word for change in changes for word in ("--set", change))])
        case = json.loads(done["output"])["cases"][0]["tpcc"]
        return {"nopm": case["nopm"], "cpu": case["driver_cpu_s"], "server": case["server_cpu_s"], "peak_mb": done["peak_mb"]}

    def stop(self):
        self.server.stop()
        shutil.rmtree(self.dir)


# What pgdyno does: the workload, which names its database too, and settings.
OURS = {
    "statements": ("tpcc", ["workload.calls=statements"]),
    "functions": ("tpcc", ["workload.calls=functions"]),
    "procedures": ("tpcc", ["workload.calls=procedures"]),
    "tproc-c": ("tproc-c", []),
    "tproc-c, procedures": ("tproc-c", ["workload.calls=procedures"]),
}
HAMMERDBS = "tproc-c, HammerDB's database"


def rivals(args):
    """The programs that were named, by name."""
    named = [("go-tpc", args.go_tpc, lambda: GoTpc(args.go_tpc)),
             ("BenchBase", args.benchbase, lambda: BenchBase(args.benchbase, args.java)),
             ("HammerDB", args.hammerdb, lambda: HammerDb(args.hammerdb, args.tclsh))]
    return {name: make() for name, where, make in named if where}


def chosen(parser, args, names):
    """Those of `names` that take part."""
    only = args.only.split(";") if args.only else names
    unknown = [name for name in only if name not in names]
    if unknown:
        parser.error(f"--only names what is not there: {', '.join(unknown)}; there are: {'; '.join(names)}")
    if HAMMERDBS in only and "HammerDB" not in only:
        parser.error(f"{HAMMERDBS} is built by HammerDB, which must take part")
    return only


def load(bench, names, others):
    """Fills the databases of those that take part, and tells the seconds; gives what makes one run of each."""
    sides, seconds = {}, {}
    database = lambda name: name.lower().replace("-", "")
    for workload in dict.fromkeys(OURS[name][0] for name in names if name in OURS):
        seconds[f"pgdyno, {workload}"] = bench.load(database(workload), workload)
    for name in names:
        if name in OURS:
            workload, settings = OURS[name]
            sides[name] = lambda workload=workload, settings=settings: bench.run(database(workload), workload, settings)
        elif name in others:
            seconds[name] = others[name].load(bench, database(name))
            sides[name] = lambda name=name: others[name].run(bench, database(name))
    if HAMMERDBS in names:
        bench.sql("postgres", "create database theirs template hammerdb")
        sides[HAMMERDBS] = lambda: bench.run("theirs", "tproc-c", [])
    told = "; ".join(f"{name} {s:.1f}" for name, s in seconds.items())
    print(f"load of {bench.args.warehouses} warehouses, s: {told}", flush=True)
    return sides


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bindir", default="/usr/lib/postgresql/15/bin")
    parser.add_argument("--pgdyno", default=os.path.join(ROOT, "target/dist/pgdyno"))
    parser.add_argument("--go-tpc", help="the program go-tpc")
    parser.add_argument("--benchbase", help="directory with benchbase.jar")
    parser.add_argument("--java", default="java", help="that runs BenchBase")
    parser.add_argument("--hammerdb", help="directory with HammerDB's src and modules")
    parser.add_argument("--tclsh", default="tclsh8.6", help="that runs HammerDB's scripts")
    parser.add_argument("--warehouses", type=int, default=10)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--only", help="what takes part, by the names in the table, joined by semicolons")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--set", action="append", default=[], help="server setting, name=value")
    args = parser.parse_args()
    others = rivals(args)
    names = chosen(parser, args, [*OURS, *([HAMMERDBS] if args.hammerdb else []), *others])
    bench = Bench(args)
    try:
        sides = load(bench, names, others)
        results = {name: [] for name in sides}
        for _ in range(args.rounds):
            for name in random.sample(list(sides), len(sides)):
                results[name].append(sides[name]())
                one = results[name][-1]
                print(f"    {name}: {one['nopm']:.0f} NOPM, client {one['cpu'] or 0:.3f} s", flush=True)
        print(f"medians of {args.rounds} rounds of {args.seconds} s, {args.clients} clients, TCP, synchronous_commit off")
        print(f"{'':<30} {'NOPM':>9} {'client CPU s':>13} {'server CPU s':>13}   for 1,000 New-Orders; peak MB")
        for name, rounds in results.items():
            median = lambda key: statistics.median(one[key] or 0 for one in rounds)
            print(f"{name:<30} {median('nopm'):>9.0f} {median('cpu'):>13.3f} {median('server'):>13.2f} {median('peak_mb'):>9.0f}")
    finally:
        bench.stop()


if __name__ == "__main__":
    main()
