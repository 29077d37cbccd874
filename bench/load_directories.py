#!/usr/bin/env python3
"""Loading workload directories with one stream against what is piped into COPY, and `oltp` against `sysbench prepare`, interleaved.

Starts a throw-away PostgreSQL with the binaries in --bindir (unix socket only). Each repeat loads with every program once, in random
order, into an empty database and after a checkpoint. "COPY" is psql with the directory's schema.sql, its rows from files in COPY FREEZE
in one transaction with TRUNCATE, its after.sql, VACUUM ANALYZE and the directory's checks: all that pgdyno does, without making rows.
The files are what pgdyno has loaded before. sysbench has its own INSERTs, and makes the same table and index. With --threads 2, `oltp`
has two tables, pgdyno two streams and sysbench two threads.

Then the client's processor time per transaction of `oltp:point-select` against that of sysbench's oltp_point_select, interleaved too:
of pgdyno's driver as it says itself, of sysbench the whole program less a run of one event.
Needs python3, PostgreSQL's server and psql, sysbench 1.0, and disk for three times the tables.

    cargo build --profile dist
    bench/load_directories.py --repeats 3
"""

import argparse, csv, glob, os, random, re, shutil, statistics, subprocess, tempfile, time

from driver_vs_pgbench import ROOT, Server, children_cpu

DIRECTORIES = os.path.join(ROOT, "crates/workload/directories")
GOALS = {"COPY": 1 / 0.9, "sysbench": 1 / 3}


class Bench:
    def __init__(self, args):
        self.args = args
        self.server = Server(args.bindir, ["shared_buffers=1GB", "max_wal_size=8GB", *args.set])
        self.scratch = tempfile.mkdtemp(prefix="pgdyno-bench-")
        self.env = {**os.environ, "PGDYNO_CACHE": os.path.join(self.scratch, "cache")}
        self.n_runs = 0

    def end(self):
        self.server.stop()
        shutil.rmtree(self.scratch)

    def psql(self, database, sql):
        command = [os.path.join(self.args.bindir, "psql"), "-h", self.server.dir, "-U", "postgres", "-XAtq", "-v", "ON_ERROR_STOP=1", "-d", database]
        return subprocess.run(command, input=sql, check=True, capture_output=True, text=True).stdout.strip()

    def call(self, command):
        """Seconds, and seconds of processor time of the program."""
        cpu, began = children_cpu(), time.monotonic()
        done = subprocess.run(command, capture_output=True, text=True, env=self.env)
        if done.returncode != 0:
            raise SystemExit(f"{' '.join(command)}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        return {"seconds": time.monotonic() - began, "cpu": children_cpu() - cpu}

    def again(self, database):
        self.psql("postgres", f"drop database if exists {database};")
        self.psql("postgres", f"create database {database};")
        self.psql("postgres", "checkpoint;")

    def target(self, database):
        return f"host={self.server.dir} user=postgres dbname={database}"

    def pgdyno(self, name, scale, streams):
        command = [self.args.pgdyno, "init", "-w", name, "-s", str(scale), "--streams", str(streams), "--server", self.target("loaded")]
        if "/" in name:
            # It is trusted by the hash that the refusal names.
            refused = subprocess.run(command, capture_output=True, text=True, env=self.env).stderr
            command += ["--trust-workload", re.search(r"--trust-workload (\w+)", refused).group(1)]
        return self.call(command)

    def with_two_tables(self):
        """A copy of `oltp` with two tables by default."""
        place = os.path.join(self.scratch, "oltp")
        self.call([self.args.pgdyno, "workload", "show", "oltp", "--to", place])
        manifest = os.path.join(place, "workload.toml")
        with open(manifest) as file:
            text = file.read()
        changed = text.replace("tables = {default = 1,", "tables = {default = 2,")
        assert changed != text
        with open(manifest, "w") as file:
            file.write(changed)
        return place

    def sysbench(self, tables, rows, *more):
        return self.call([self.args.sysbench, "oltp_point_select", "--db-driver=pgsql", f"--pgsql-host={self.server.dir}",
                          "--pgsql-user=postgres", "--pgsql-db=loaded", f"--tables={tables}", f"--table-size={rows}",
                          "--report-interval=0", *more])

    def keep_rows(self):
        """The rows of each table in a file, and their numbers."""
        counts = {}
        for table in self.psql("loaded", "select relname from pg_class where relkind = 'r' and relnamespace = 'public'::regnamespace order by relname;").split():
            counts[table] = int(self.psql("loaded", f"select count(*) from {table};"))
            self.psql("loaded", f"\\copy {table} to '{self.file(table)}'\n")
        return counts

    def file(self, table):
        return os.path.join(self.scratch, f"{table}.copy")

    def copy(self, name, counts, n):
        """The directory by hand, each table's rows from its file."""
        read = lambda file: open(os.path.join(DIRECTORIES, name, file)).read()
        expand = lambda sql: re.sub(r"\{n\}", "1", sql)
        assert n == 1 or "{n}" not in read("schema.sql")
        # As pgdyno: the largest first.
        tables = sorted(counts, key=lambda table: -os.path.getsize(self.file(table)))
        loads = "".join(f"begin;\ntruncate {table};\n\\copy {table} from '{self.file(table)}' with (freeze on)\ncommit;\n" for table in tables)
        checks = "".join(read(f"checks/{os.path.basename(path)}") for path in sorted(glob.glob(os.path.join(DIRECTORIES, name, "checks/*.sql"))))
        checks = re.sub(r"(?<!:):rows_(\w+)", lambda found: str(counts[expand(found.group(1))]), expand(checks).replace("{name}", "sbtest1"))
        checks = re.sub(r"(?<!:):(committed|unknown)_\w+", "0", checks)
        vacuum = "".join(f"vacuum (analyze) {table};\n" for table in tables)
        script = os.path.join(self.scratch, "load.sql")
        with open(script, "w") as file:
            file.write(expand(read("schema.sql")) + loads + expand(read("after.sql")) + vacuum + checks)
        return self.call([os.path.join(self.args.bindir, "psql"), "-h", self.server.dir, "-U", "postgres", "-XAtq", "-v", "ON_ERROR_STOP=1",
                          "-d", "loaded", "-f", script])


def compare(bench, name, scale, rivals, streams):
    """Loads with pgdyno and its rivals in random order; prints medians and the median of the repeats' ratios."""
    repeats = []
    for _ in range(bench.args.repeats):
        programs = {"pgdyno": lambda: bench.pgdyno(name, scale, streams), **rivals}
        times = {}
        for program in random.sample(list(programs), len(programs)):
            bench.again("loaded")
            times[program] = programs[program]()
        repeats.append(times)
    for program in repeats[0]:
        of = lambda key: statistics.median(times[program][key] for times in repeats)
        ratio = ""
        if program in GOALS:
            ratios = [times["pgdyno"]["seconds"] / times[program]["seconds"] for times in repeats]
            ratio = f"pgdyno takes {statistics.median(ratios):.2f} of it, {min(ratios):.2f} to {max(ratios):.2f} (at most {GOALS[program]:.2f})"
        print(f"{os.path.basename(name):<10} | {scale:>5} | {streams:>7} | {program:<8} | {of('seconds'):>8.2f} s | {of('cpu'):>6.2f} s | {ratio}", flush=True)
    share = statistics.median(times["pgdyno"]["cpu"] / times["pgdyno"]["seconds"] / streams for times in repeats)
    print(f"{'':<10}   pgdyno's processor time, rows made and sent, is {share:.2f} of a stream's time (rows alone: at most 0.25)")


def point_select(bench, rows):
    """Client microseconds per transaction of pgdyno and of sysbench, in pairs."""
    args = bench.args
    for clients in args.clients:
        pairs = []
        for _ in range(args.repeats):
            pair = {}
            for program in random.sample(["pgdyno", "sysbench"], 2):
                pair[program] = (drive if program == "pgdyno" else sysbench_run)(bench, rows, clients)
            pairs.append(pair)
        ratios = [pair["pgdyno"]["us"] / pair["sysbench"]["us"] for pair in pairs]
        of = lambda program, key: statistics.median(pair[program][key] for pair in pairs)
        print(f"point-select, {clients} clients: pgdyno {of('pgdyno', 'us'):.2f} us of client and {of('pgdyno', 'tps'):,.0f} tps, sysbench"
              f" {of('sysbench', 'us'):.2f} us and {of('sysbench', 'tps'):,.0f} tps; client {statistics.median(ratios):.2f} (at most 0.6)", flush=True)


def drive(bench, rows, clients):
    bench.n_runs += 1
    args, out = bench.args, os.path.join(bench.scratch, str(bench.n_runs))
    command = [args.pgdyno, "run", "-w", "oltp:point-select", "-s", str(rows // 10_000), "-c", str(clients), "--repeats", "1", "--ramp-up", "1s",
               "--measure", f"{args.seconds}s", "--set", "run.repeat_disturbed=0", "--set", "prepare.settle=false",
               "--server", bench.target("loaded"), "-o", out]
    bench.call(command)
    with open(os.path.join(out, "runs.csv"), newline="") as file:
        [run] = csv.DictReader(file)
    return {"us": float(run["driver_cpu_us_per_transaction"]), "tps": float(run["tps"])}


def sysbench_run(bench, rows, clients):
    args = bench.args
    base = [f"--threads={clients}", "--rand-type=special"]
    short = bench.sysbench(1, rows, *base, "--events=1", "--time=0", "run")
    command = [args.sysbench, "oltp_point_select", "--db-driver=pgsql", f"--pgsql-host={bench.server.dir}", "--pgsql-user=postgres",
               "--pgsql-db=loaded", "--tables=1", f"--table-size={rows}", f"--time={args.seconds}", *base, "run"]
    cpu = children_cpu()
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    cpu = children_cpu() - cpu - short["cpu"]
    found = re.search(r"transactions:\s+(\d+)\s+\(([\d.]+) per sec", said)
    return {"us": cpu * 1e6 / int(found.group(1)), "tps": float(found.group(2))}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bindir", default="/usr/lib/postgresql/15/bin")
    parser.add_argument("--pgdyno", default=os.path.join(ROOT, "target/dist/pgdyno"))
    parser.add_argument("--sysbench", default="sysbench")
    parser.add_argument("--rows", type=int, default=2_000_000, help="rows of each of oltp's tables")
    parser.add_argument("--scales", default="tpch-like=20,ycsb=30", help="other directories, with their scales")
    parser.add_argument("--clients", type=lambda text: [int(n) for n in text.split(",")], default=[1, 8, 64])
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--set", action="append", default=[], help="server setting, name=value")
    args = parser.parse_args()
    bench = Bench(args)
    try:
        print("directory  | scale | streams | program  |    seconds | client CPU | ratio of seconds (goal)")
        others = [(name, int(scale)) for name, scale in (pair.split("=") for pair in args.scales.split(",") if pair)]
        for name, scale in [("oltp", args.rows // 10_000), *others]:
            bench.again("loaded")
            bench.pgdyno(name, scale, 1)
            counts = bench.keep_rows()
            rivals = {"COPY": lambda: bench.copy(name, counts, 1)}
            if name == "oltp":
                rivals["sysbench"] = lambda: bench.sysbench(1, args.rows, "--threads=1", "prepare")
            compare(bench, name, scale, rivals, 1)
            for table in counts:
                os.remove(bench.file(table))
        two = {"sysbench": lambda: bench.sysbench(2, args.rows, "--threads=2", "prepare")}
        compare(bench, bench.with_two_tables(), args.rows // 10_000, two, 2)
        bench.again("loaded")
        bench.pgdyno("oltp", args.rows // 10_000, 1)
        point_select(bench, args.rows)
    finally:
        bench.end()


if __name__ == "__main__":
    main()
