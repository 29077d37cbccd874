#!/usr/bin/env python3
"""What sysbench sends against what `pgdyno run -w oltp` sends, and YCSB's keys and choices against its formulas.

Starts a throw-away PostgreSQL with the binaries in --bindir (unix socket only) that logs every statement. For each test of sysbench, both programs
make their tables and run with one client. Compared are: columns and indexes of the tables; the kinds of transactions, each a multiset of
statements whose literals, parameters and numbers of tables are replaced by `?`; and the ids that are drawn, by the test of Kolmogorov and
Smirnov. For YCSB: the keys of the loaded records, and how often the hottest are read, against formulas written here from YCSB's documentation.
Prints a table; ends with status 1 when something differs. Needs python3, PostgreSQL's server and programs, and sysbench 1.0.

    cargo build --profile dist
    bench/equality.py --seconds 5
"""

import argparse, collections, csv, io, json, math, os, random, re, shutil, subprocess, sys, tempfile, time

from driver_vs_pgbench import ROOT, Server

TESTS = {"read-write": "oltp_read_write", "read-only": "oltp_read_only", "point-select": "oltp_point_select",
         "write-only": "oltp_write_only", "update-index": "oltp_update_index", "update-non-index": "oltp_update_non_index",
         "insert": "oltp_insert", "delete": "oltp_delete"}
DISTRIBUTIONS = ["uniform", "special"]  # sysbench 1.0 has no Zipf
TABLES, ROWS = 3, 10_000
# A session with fewer loads or checks.
STATEMENTS_LEAST = 200
# Columns of the log (PostgreSQL's documentation, 20.8.4).
DATABASE, SESSION, MESSAGE, DETAIL, WIDTH = 2, 5, 13, 14, 23
STATEMENT = re.compile(r"^(?:statement|execute [^:]*): (.*)$", re.S)
CATALOGUE = """select string_agg(line, E'\n' order by line) from (
    select format('column %s %s %s', attname, format_type(atttypid, atttypmod), attnotnull) as line
    from pg_attribute where attrelid = 'sbtest1'::regclass and attnum > 0
    union all select 'index ' || replace(indexdef, 'public.', '') from pg_indexes where tablename = 'sbtest1') as t"""


class Bench:
    def __init__(self, args):
        self.args = args
        self.server = Server(args.bindir, ["log_statement=all", "log_destination=csvlog", "logging_collector=on", "log_directory=logs",
                                           "log_rotation_age=0", "log_rotation_size=0", "log_filename=all.log", "fsync=off"])
        self.out = tempfile.mkdtemp(prefix="pgdyno-bench-")
        self.n_runs = self.n_read = 0
        self.logged = collections.defaultdict(lambda: collections.defaultdict(list))
        csv.field_size_limit(sys.maxsize)

    def sql(self, database, sql):
        at = [os.path.join(self.args.bindir, "psql"), "-h", self.server.dir, "-U", "postgres", "-XqAt", "-d", database, "-c", sql]
        return subprocess.run(at, check=True, capture_output=True, text=True).stdout.strip()

    def call(self, command):
        done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PGDYNO_CACHE": os.path.join(self.out, "cache")})
        if done.returncode != 0:
            raise SystemExit(f"{' '.join(command)}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")

    def database(self, name):
        self.sql("postgres", f"create database {name}")

    def sysbench(self, test, database, phase, distribution):
        at = ["--db-driver=pgsql", f"--pgsql-host={self.server.dir}", "--pgsql-user=postgres", f"--pgsql-db={database}"]
        sizes = [f"--tables={TABLES}", f"--table-size={ROWS}", f"--rand-type={distribution}", f"--time={self.args.seconds}"]
        self.call([self.args.sysbench, test, *at, *sizes, "--threads=1", "--report-interval=0", phase])

    def pgdyno(self, workload, database, options):
        self.n_runs += 1
        sets = [word for key, value in options.items() for word in ("--set", f"workload.options.{key}={json.dumps(value)}")]
        command = [self.args.pgdyno, "run", "-w", workload, "-s", "1", "-c", "1", "--repeats", "1", "--ramp-up", "0s", "--measure",
                   f"{self.args.seconds}s", "--set", "prepare.prewarm=false", "--set", "run.repeat_disturbed=0", *sets,
                   "--server", f"host={self.server.dir} user=postgres dbname={database}", "-o", os.path.join(self.out, str(self.n_runs))]
        self.call(command)

    def log(self, database):
        """Statements by session, in order, each with its parameters."""
        time.sleep(0.5)  # the collector writes what it was sent
        with open(os.path.join(self.server.dir, "data/logs/all.csv"), newline="") as file:
            file.seek(self.n_read)
            text = file.read()
            self.n_read = file.tell()
        for row in csv.reader(io.StringIO(text, newline="")):
            found = STATEMENT.match(row[MESSAGE]) if len(row) >= WIDTH else None
            if found:
                self.logged[row[DATABASE]][row[SESSION]].append((found.group(1), row[DETAIL]))
        return {session: list(rows) for session, rows in self.logged[database].items()}


def kind(statement):
    """A statement without what differs from one execution to the next."""
    text = re.sub(r"'(?:[^']|'')*'", "?", statement.lower())
    text = re.sub(r"\bsbtest\d+", "sbtest#", text)
    text = re.sub(r"\$\d+|\b\d+\b", "?", text)
    text = re.sub(r"\s*([(),=+])\s*", r"\1", text.strip().rstrip(";"))
    text = re.sub(r"\s+", " ", text)
    return {"end": "commit"}.get(text, text)


def transactions(sessions):
    """How often each kind of transaction came: its statements as a multiset, written as a sorted tuple."""
    found = collections.Counter()
    for statements in sessions.values():
        kinds = [kind(text) for text, _ in statements]
        if not any("sbtest#" in text for text in kinds):
            continue
        one = None
        for text in kinds:
            if text == "begin":
                one = [text]
            elif one is not None:
                one.append(text)
                if text in ("commit", "rollback"):
                    found[tuple(sorted(one))] += 1
                    one = None
            elif "sbtest#" in text:
                found[(text,)] += 1
    return found


def ids(sessions):
    """The id of each point select."""
    found = []
    for statements in sessions.values():
        for text, detail in statements:
            number = re.search(r"\$1 = '(\d+)'", detail) or re.search(r"where id ?= ?'?(\d+)", text.lower())
            if number and "sbtest" in text:
                found.append(int(number.group(1)))
    return found


def kolmogorov(one, other):
    """Greatest distance of two samples' distributions over what 1 of 1,000 pairs of equal ones exceed (asymptotically; less with ties)."""
    counts = sorted(set(one) | set(other))
    a, b = collections.Counter(one), collections.Counter(other)
    n_a = n_b = 0
    distance = 0.0
    for value in counts:
        n_a, n_b = n_a + a[value], n_b + b[value]
        distance = max(distance, abs(n_a / len(one) - n_b / len(other)))
    limit = math.sqrt(-0.5 * math.log(0.0005)) * math.sqrt(1 / len(one) + 1 / len(other))
    return distance / limit


def oltp(bench):
    """Rows of the table: what was compared, what both did, and whether it is equal."""
    for variant, test in TESTS.items():
        name = variant.replace("-", "_")
        theirs, ours = f"sysbench_{name}", f"pgdyno_{name}"
        for database in (theirs, ours):
            bench.database(database)
        bench.sysbench(test, theirs, "prepare", "special")
        before = bench.log(theirs)
        bench.sysbench(test, theirs, "run", "special")
        a = transactions(without(bench.log(theirs), before))
        bench.pgdyno(f"oltp:{variant}", ours, {"tables": TABLES})
        b = transactions(clients(bench.log(ours), "sbtest"))
        if variant == "read-write":
            yield from schema(bench, theirs, ours)
        yield f"{test}: kinds of transactions", shown(a), shown(b), set(a) == set(b) and len(a) > 0
        for kind_of in sorted(set(a) ^ set(b))[:4]:
            print(f"<!-- only {'there' if kind_of in a else 'here'}: {kind_of} -->", file=sys.stderr)
    for distribution in DISTRIBUTIONS:
        database = f"ids_{distribution}"
        bench.database(database)
        before = bench.log("sysbench_point_select")
        bench.sysbench("oltp_point_select", "sysbench_point_select", "run", distribution)
        theirs = ids(without(bench.log("sysbench_point_select"), before))
        bench.pgdyno("oltp:point-select", database, {"tables": TABLES, "distribution": distribution})
        ours = ids(clients(bench.log(database), "sbtest"))
        ratio = kolmogorov(theirs, ours)
        yield f"ids by --rand-type={distribution}", f"{len(theirs):,} draws", f"{len(ours):,} draws, distance {ratio:.2f} of the limit", ratio < 1


def without(sessions, others):
    return {session: rows for session, rows in sessions.items() if session not in others}


def clients(sessions, word):
    """The sessions that carry the load: they send thousands of statements, and what is not of a transaction on these tables is left out."""
    found = {}
    for session, rows in sessions.items():
        kept = [row for row in rows if word in row[0] or kind(row[0]) in ("begin", "commit", "rollback")]
        if len(kept) >= STATEMENTS_LEAST:
            found[session] = kept
    return found


def schema(bench, theirs, ours):
    one, other = bench.sql(theirs, CATALOGUE), bench.sql(ours, CATALOGUE)
    yield "columns and indexes of sbtest1", f"{len(one.splitlines())} lines", f"{len(other.splitlines())} lines", one == other
    sizes = "select count(*), min(id), max(id), min(length(c)), max(length(c)), min(length(pad)), max(length(pad)) from sbtest1"
    one, other = bench.sql(theirs, sizes), bench.sql(ours, sizes)
    yield "rows, ids and lengths", one, other, one == other


def shown(found):
    most = found.most_common(1)[0] if found else ((), 0)
    return f"{len(found)} kinds, {sum(found.values()):,} transactions, {len(most[0])} statements"


# YCSB: com.yahoo.ycsb's documentation of CoreWorkload and of its scrambled Zipf distribution.
ITEMS, THETA, ZETAN = 10_000_000_000_000_001, 0.99, 26.46902820178302


def fnv(number):
    """FNV-1a, 64 bits, over the eight bytes of a number from the lowest on, as a positive number."""
    value = 0xCBF29CE484222325
    for octet in number.to_bytes(8, "little"):
        value = ((value ^ octet) * 1099511628211) & 0xFFFFFFFFFFFFFFFF
    return abs(value - (1 << 64) if value >> 63 else value)


def scrambled(n, draw):
    """A record, by the method of Gray et al. (SIGMOD 1994) over 10^16 items, hashed."""
    eta = (1 - (2 / ITEMS) ** (1 - THETA)) / (1 - (1 + 0.5 ** THETA) / ZETAN)
    u = draw()
    if u * ZETAN < 1:
        item = 0
    elif u * ZETAN < 1 + 0.5 ** THETA:
        item = 1
    else:
        item = int(ITEMS * (eta * u - eta + 1) ** (1 / (1 - THETA)))
    return fnv(item) % n


def ycsb(bench):
    bench.database("ycsb")
    bench.pgdyno("ycsb:c", "ycsb", {})
    keys = [f"user{fnv(row)}" for row in range(10_000)]
    loaded = bench.sql("ycsb", "select ycsb_key from usertable order by ctid").splitlines()
    yield "ycsb: keys of 10,000 records, in order", keys[0], loaded[0] if loaded else "none", keys == loaded
    row_of = {key: row for row, key in enumerate(keys)}
    read = [found.group(1) for rows in clients(bench.log("ycsb"), "usertable").values() for text, detail in rows
            if "ycsb_key" in text and (found := re.search(r"\$1 = '(user\d+)'", detail))]
    draw = random.Random(1).random
    theirs = collections.Counter(scrambled(10_000, draw) for _ in range(1_000_000))
    ours = collections.Counter(row_of[key] for key in read)
    n = sum(ours.values())
    square = rest = 0.0
    n_classes = 200
    for row, count in theirs.most_common(n_classes):
        expected = n * count / 1_000_000
        square += (ours[row] - expected) ** 2 / (expected * (1 + n / 1_000_000))
        rest += count
    deviations = (square - n_classes) / math.sqrt(2 * n_classes)
    hottest = theirs.most_common(1)[0]
    yield "ycsb: requests of the hottest record", f"{hottest[1] / 10_000:.2f} %", f"{100 * ours[hottest[0]] / max(n, 1):.2f} %", True
    yield "ycsb: requests of the 200 hottest", f"{rest / 10_000:.1f} %", f"chi-square {deviations:+.1f} deviations, {n:,} reads", n > 0 and abs(deviations) < 4


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bindir", default="/usr/lib/postgresql/15/bin")
    parser.add_argument("--pgdyno", default=os.path.join(ROOT, "target/dist/pgdyno"))
    parser.add_argument("--sysbench", default="sysbench")
    parser.add_argument("--seconds", type=int, default=5)
    args = parser.parse_args()
    bench, is_equal = Bench(args), True
    try:
        print("| compared | there | here | equal |\n|---|---|---|---|")
        for compared in (oltp, ycsb):
            for what, there, here, same in compared(bench):
                is_equal &= same
                print(f"| {what} | {there} | {here} | {'yes' if same else 'NO'} |", flush=True)
    finally:
        bench.server.stop()
        shutil.rmtree(bench.out)
    sys.exit(0 if is_equal else 1)


if __name__ == "__main__":
    main()
