"""Other programs' TPC-C, each in the directory or file that the user names, driven for `tpcc.py`.

A rival has `load(bench, database)`, which fills an empty database and gives seconds, and `run(bench, database)`, which gives
New-Orders per minute and CPU seconds for 1,000 New-Orders. These are counted in the tables (`district.d_next_o_id`); CPU seconds
of a client are those of the whole program, its start included.
"""

import os


def for_thousand(done, new_orders):
    """What a run of `new_orders` cost."""
    return {"cpu": done["cpu"] * 1000 / new_orders, "server": done["server"] * 1000 / new_orders, "peak_mb": done["peak_mb"]}


class GoTpc:
    def __init__(self, program):
        self.program = program

    def command(self, bench, database, *rest):
        args = bench.args
        return [self.program, "tpcc", "-d", "postgres", "-H", "127.0.0.1", "-P", str(bench.port), "-U", "postgres", "-D", database,
                "--conn-params", "sslmode=disable", "--warehouses", str(args.warehouses), "-T", str(args.clients), *rest]

    def load(self, bench, database):
        bench.sql("postgres", f"create database {database}")
        return bench.timed(self.command(bench, database, "prepare", "--no-check"))["seconds"]

    def run(self, bench, database):
        before = bench.new_orders(database)
        done = bench.timed(self.command(bench, database, "run", "--time", f"{bench.args.seconds}s"))
        n = bench.new_orders(database) - before
        return {"nopm": n * 60 / bench.args.seconds, **for_thousand(done, n)}


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


class BenchBase:
    """`directory` holds benchbase.jar and its lib, as its PostgreSQL archive unpacks; `java` runs it."""

    def __init__(self, directory, java):
        self.directory, self.java = os.path.abspath(directory), java

    def command(self, bench, database, *rest):
        args, config = bench.args, os.path.join(bench.dir, "benchbase.xml")
        types = "".join(f"<transactiontype><name>{name}</name></transactiontype>" for name in TYPES)
        with open(config, "w") as file:
            file.write(BENCHBASE.format(port=bench.port, database=database, warehouses=args.warehouses, clients=args.clients,
                                        seconds=args.seconds, types=types))
        out = os.path.join(bench.dir, "benchbase")
        return [self.java, "-jar", os.path.join(self.directory, "benchbase.jar"), "-b", "tpcc", "-c", config, "-d", out, *rest]

    def load(self, bench, database):
        bench.sql("postgres", f"create database {database}")
        command = self.command(bench, database, "--create=true", "--load=true", "--execute=false")
        return bench.timed(command, cwd=self.directory)["seconds"]

    def run(self, bench, database):
        before = bench.new_orders(database)
        command = self.command(bench, database, "--create=false", "--load=false", "--execute=true")
        done = bench.timed(command, cwd=self.directory)
        n = bench.new_orders(database) - before
        return {"nopm": n * 60 / bench.args.seconds, **for_thousand(done, n)}
