"""Other programs' TPC-C, each in the directory or file that the user names, driven for `tpcc.py`.

A rival has `load(bench, database)`, which fills an empty database and gives seconds, and `run(bench, database)`, which gives
New-Orders per minute and CPU seconds for 1,000 New-Orders. These are counted in the tables (`district.d_next_o_id`); CPU seconds
of a client are those of the whole program, its start included (of pgdyno those of its driver in the measure).
"""

import os, shlex, shutil, subprocess

# Rows that each warehouse has (TPC-C, 1.3 and 4.3.3).
ROWS = {"warehouse": 1, "district": 10, "customer": 30_000, "stock": 100_000}


def check_load(bench, database, done):
    """Ends the bench with what a rival said if it did not fill the database: some report success all the same."""
    found = {}
    for table in ROWS:
        try:
            found[table] = int(bench.sql(database, f"select count(*) from {table}"))
        except subprocess.CalledProcessError as error:
            found[table] = error.stderr.splitlines()[0]
    expected = {table: n * bench.args.warehouses for table, n in ROWS.items()}
    if found != expected:
        raise SystemExit(f"{database} was not loaded: there are {found}, not {expected}, after\n{done['output']}\n{done['told']}")


class Rival:
    """`command(bench, database, phase)` is its command line to `load` or to `run`; `directory` is where it must be called."""

    directory = None
    makes_database = False

    def load(self, bench, database):
        if not self.makes_database:
            bench.sql("postgres", f"create database {database}")
        done = bench.timed(self.command(bench, database, "load"), cwd=self.directory)
        check_load(bench, database, done)
        return done["seconds"]

    def run(self, bench, database):
        before = bench.new_orders(database)
        done = bench.timed(self.command(bench, database, "run"), cwd=self.directory)
        n = bench.new_orders(database) - before
        if n == 0:
            raise SystemExit(f"no New-Order was made by\n{done['told']}")
        return {"nopm": n * 60 / bench.args.seconds, "cpu": done["cpu"] * 1000 / n, "server": done["server"] * 1000 / n,
                "peak_mb": done["peak_mb"]}


class GoTpc(Rival):
    def __init__(self, program):
        # A name is looked for where the shell would, and a path starts here, not where the program is called.
        self.program = os.path.abspath(shutil.which(program) or program)

    def command(self, bench, database, phase):
        args = bench.args
        phases = {"load": ["prepare", "--no-check"], "run": ["run", "--time", f"{args.seconds}s"]}
        return [self.program, "tpcc", "-d", "postgres", "-H", "127.0.0.1", "-P", str(bench.port), "-U", "postgres", "-D", database,
                "--conn-params", "sslmode=disable", "--warehouses", str(args.warehouses), "-T", str(args.clients), *phases[phase]]


BENCHBASE = """<?xml version="1.0"?>
<parameters>
  <type>POSTGRES</type>
  <driver>org.postgresql.Driver</driver>
  <url>jdbc:postgresql://127.0.0.1:{port}/{database}?sslmode=disable&amp;reWriteBatchedInserts=true</url>
  <username>postgres</username>
  <password>none</password>
  <isolation>TRANSACTION_READ_COMMITTED</isolation>
  <batchsize>128</batchsize>
  <scalefactor>{warehouses}</scalefactor>
  <terminals>{clients}</terminals>
  <works><work><time>{seconds}</time><rate>unlimited</rate><weights>45,43,4,4,4</weights></work></works>
  <transactiontypes>{types}</transactiontypes>
</parameters>
"""
TYPES = ("NewOrder", "Payment", "OrderStatus", "Delivery", "StockLevel")


class BenchBase(Rival):
    """`directory` holds benchbase.jar and its lib, as its PostgreSQL archive unpacks; `java` runs it."""

    def __init__(self, directory, java):
        self.directory, self.java = os.path.abspath(directory), java

    def command(self, bench, database, phase):
        args, config = bench.args, os.path.join(bench.dir, "benchbase.xml")
        types = "".join(f"<transactiontype><name>{name}</name></transactiontype>" for name in TYPES)
        with open(config, "w") as file:
            file.write(BENCHBASE.format(port=bench.port, database=database, warehouses=args.warehouses, clients=args.clients,
                                        seconds=args.seconds, types=types))
        phases = {"load": ["--create=true", "--load=true", "--execute=false"],
                  "run": ["--create=false", "--load=false", "--execute=true"]}
        return [self.java, "-jar", os.path.join(self.directory, "benchbase.jar"), "-b", "tpcc", "-c", config,
                "-d", os.path.join(bench.dir, "benchbase"), *phases[phase]]


class HammerDb(Rival):
    """`hammerdb` is a directory with HammerDB's src and modules; hammerdb.tcl is one virtual user, and one of them loads."""

    makes_database = True

    def __init__(self, hammerdb, tclsh):
        self.hammerdb, self.tclsh = os.path.abspath(hammerdb), tclsh

    def command(self, bench, database, phase):
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "hammerdb.tcl")
        user = [self.tclsh, script, self.hammerdb, phase, str(bench.port), database, str(bench.args.warehouses)]
        if phase == "load":
            return user
        limited = shlex.join(["timeout", str(bench.args.seconds), *user])
        return ["sh", "-c", f"for user in $(seq {bench.args.clients}); do {limited} & done; wait"]
