#!/usr/bin/env python3
"""What do replayers keep of a load? pgdyno (trace and model), pgreplay and pg-retest replay the same log on the same data.

pgbench runs TPC-B with prepared statements at a fixed rate on one database, with everything logged to CSV. Each program then replays the log
on a copy of the database as it was before. Counted by the server: rows that the load added (one for each transaction), executions of prepared
statements, errors; by the clock: how long it took. pgreplay reads a log of its own, with `log_statement = all` as its manual
asks for, of the same load. Rivals are given as programs; one that is not given is left out.

    bench/replay_rivals.py --pgdyno target/dist/pgdyno --pgreplay ./pgreplay --pg-retest ./pg-retest
"""

import argparse, os, re, shutil, subprocess, tempfile, time

from driver_vs_pgbench import Server

SETTINGS = ["shared_buffers=256MB", "fsync=off", "autovacuum=off", "logging_collector=on", "log_destination=csvlog", "log_rotation_age=0",
            "log_rotation_size=0", "log_filename=run.log", "log_min_messages=error", "log_min_error_statement=log", "lc_messages=C"]
# What pgreplay's manual asks for, and that of the others.
LOGGED_ALL = ["log_statement=all", "log_connections=on", "log_disconnections=on"]
LOGGED_TIMED = ["log_min_duration_statement=0"]
# What each program is called in the table.
TRACE, MODEL, PGREPLAY, PG_RETEST = "pgdyno, trace", "pgdyno, model", "pgreplay", "pg-retest"
# The role of the load.
ROLE = "app"
# A replay at the load's own pace that takes this many times as long, and 20 s more, does not end.
TIMES_MAX = 3


class Source:
    """A server with a load's database, and a copy of it for each replay."""

    def __init__(self, args):
        self.args, self.server = args, Server(args.bindir, SETTINGS)
        self.env = {**os.environ, "PGHOST": self.server.dir, "PGUSER": "postgres"}
        self.sql("postgres", f"create role {ROLE} login")
        self.sql("postgres", f"create database source owner {ROLE}")
        self.run([self.program("pgbench"), "-U", ROLE, "-i", "-q", "-s", str(args.scale), "source"])
        self.sql("postgres", f"create database before template source owner {ROLE}")

    def program(self, name):
        return os.path.join(self.args.bindir, name)

    def run(self, command, **more):
        return subprocess.run(command, capture_output=True, text=True, env=self.env, **more)

    def sql(self, database, text):
        command = [self.program("psql"), "-XAtq", "-v", "ON_ERROR_STOP=1", "-d", database]
        done = self.run(command, input=text)
        if done.returncode:
            raise SystemExit(f"{text}: {done.stderr}")
        return done.stdout.strip()

    def log_path(self):
        return os.path.join(self.server.dir, "data", "log", "run.csv")

    def log(self, settings, is_on):
        for setting in settings:
            name, value = setting.split("=")
            self.sql("postgres", f"alter system set {name} = '{value}'" if is_on else f"alter system reset {name}")
        self.sql("postgres", "select pg_reload_conf()")
        time.sleep(0.5)

    def load(self, settings, path):
        """Writes the log of a load to a file; returns how many transactions it had."""
        self.fresh()
        self.log(settings, True)
        begin = os.path.getsize(self.log_path())
        args = self.args
        options = ["-n", "-c", str(args.clients), "-M", "prepared", "-R", str(args.rate), "-T", str(args.seconds)]
        done = self.run([self.program("pgbench"), "-U", ROLE, *options, "source"])
        n = int(re.search(r"actually processed: (\d+)", done.stdout).group(1))
        self.log(settings, False)
        with open(self.log_path()) as file, open(path, "w") as copy:
            file.seek(begin)
            copy.write(file.read())
        return n

    def fresh(self):
        """The database of the load as it was before, under the load's name."""
        self.sql("postgres", "drop database if exists source with (force)")
        self.sql("postgres", f"create database source template before owner {ROLE}")

    def counted(self):
        """Rows that the load has added, one for each committed transaction."""
        return int(self.sql("source", "select count(*) from pgbench_history"))


def replayed(source, command):
    """What one program does: seconds, rows, executions of prepared statements, errors, and what it says."""
    source.fresh()
    source.log(LOGGED_ALL, True)
    begin = os.path.getsize(source.log_path())
    began = time.monotonic()
    program = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=source.env)
    try:
        said, _ = program.communicate(timeout=source.args.seconds * TIMES_MAX + 20)
        is_ended = True
    except subprocess.TimeoutExpired:
        program.kill()
        said, is_ended = program.communicate()[0], False
    took_s = time.monotonic() - began
    source.log(LOGGED_ALL, False)
    with open(source.log_path()) as file:
        file.seek(begin)
        log = file.read()
    return {
        "seconds": took_s,
        "is_ended": is_ended,
        "rows": source.counted(),
        # A name means a prepared statement that is executed again.
        "prepared": len(re.findall(r"execute [^<\s:]+: [^\n]*pgbench_", log)),
        "errors": len(re.findall(r",ERROR,[^\n]*pgbench_", log)),
        "said": said.strip(),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bindir", default="/usr/lib/postgresql/15/bin")
    parser.add_argument("--pgdyno", default="target/dist/pgdyno")
    parser.add_argument("--pgreplay")
    parser.add_argument("--pg-retest")
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--rate", type=int, default=200)
    parser.add_argument("--scale", type=int, default=10)
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--verbose", action="store_true")
    args = parser.parse_args()
    place = tempfile.mkdtemp(prefix="pgdyno-bench-")
    source = Source(args)
    try:
        log, log_all = os.path.join(place, "load.csv"), os.path.join(place, "load-all.csv")
        n, n_all = source.load(LOGGED_TIMED, log), source.load(LOGGED_ALL, log_all) if args.pgreplay else 0
        target = f"host={source.server.dir} user={ROLE} dbname=source"
        found = {}
        if args.pgreplay:
            command = [args.pgreplay, "-c", "-h", source.server.dir, "-p", "5432", log_all]
            found[PGREPLAY] = replayed(source, command)
        if args.pg_retest:
            profile = os.path.join(place, "load.wkl")
            made = source.run([args.pg_retest, "capture", "--source-type", "pg-csv", "--source-log", log, "--output", profile])
            if made.returncode:
                print(f"pg-retest capture: {made.stdout}{made.stderr}")
            command = [args.pg_retest, "replay", "--workload", profile, "--target", target, "--tls-mode", "disable", "--output",
                       os.path.join(place, "out.wkl")]
            found[PG_RETEST] = replayed(source, command)
        source.fresh()
        captured = os.path.join(place, "captured")
        with_values = ["--privacy", "values", "--database", "source", "--application", "pgbench", "--trace"]
        made = source.run([args.pgdyno, "capture", "log", log, "--server", target, *with_values, "-o", captured])
        if made.returncode:
            raise SystemExit(f"capture: {made.stdout}{made.stderr}")
        run = [args.pgdyno, "run", "-w", captured, "--server", target, "--repeats", "1", "--ramp-up", "0s", "--this-is-a-copy", "--yes",
               "--set", "prepare.settle=false", "--set", "prepare.prewarm=false", "--set", "run.repeat_disturbed=0"]
        trace = [*run, "--replay", "trace", "-o", os.path.join(place, "trace")]
        found[TRACE] = replayed(source, trace)
        model = [*run, "-c", str(args.clients), "--measure", f"{args.seconds}s", "-o", os.path.join(place, "model")]
        found[MODEL] = replayed(source, model)

        of_all = f" ({n_all} in that of pgreplay)" if n_all else ""
        print(f"the load: {n}{of_all} transactions in {args.seconds} s, prepared, {args.clients} clients at {args.rate}/s")
        print("| program | whole command, s | rows added, of the load's | executions of prepared statements | errors |")
        print("|---|---|---|---|---|")
        for name, one in found.items():
            share = one["rows"] / (n_all if name == PGREPLAY else n)
            seconds = f"{one['seconds']:.1f}" if one["is_ended"] else f"ended by force after {one['seconds']:.0f}"
            print(f"| {name} | {seconds} | {one['rows']} ({share:.3f}) | {one['prepared']} | {one['errors']} |")
        if args.verbose:
            for name, one in found.items():
                print(f"\n{name}:\n{one['said']}")
    finally:
        source.server.stop()
        shutil.rmtree(place)


if __name__ == "__main__":
    main()
