#!/usr/bin/env python3
"""Answers of `tpch-like`'s 22 queries at scale factor 1, compared with those that the TPC publishes with its generator.

Starts a throw-away PostgreSQL with the binaries in --bindir (unix socket only), loads scale 100 with pgdyno, runs each script of
the workload directory with the specification's values for validation (clause 2.4), and compares rows with the answers that the
library `tpchgen` has from the TPC's tools: texts without padding, numbers to half a unit of the answer's last digit, rows in their
order. Two exceptions: the library's keys of query 11 lack their last two characters, so their beginnings are compared; and query 17's
sum is compared to 100, as the specification allows (clause 2.1.3.5), because the answer was computed with other averages. Needs python3, PostgreSQL's server and psql, cargo's copy of `tpchgen`, 3 GB of disk and some minutes.

    cargo build --release
    bench/tpch_answers.py
"""

import argparse, csv, io, os, re, subprocess, time
from decimal import Decimal, InvalidOperation

from driver_vs_pgbench import ROOT, Server

SCRIPTS = os.path.join(ROOT, "crates/workload/directories/tpch-like/transactions")
SIZES = dict(zip((f"size{n}" for n in range(1, 9)), (49, 14, 23, 45, 19, 3, 36, 9)))
CODES = dict(zip((f"code{n}" for n in range(1, 8)), ("13", "31", "23", "29", "30", "18", "17")))
VALUES = {
    1: {"days": 90},
    2: {"size": 15, "material": "BRASS", "region": "EUROPE"},
    3: {"segment": "BUILDING", "day": "1995-03-15"},
    4: {"day": "1993-07-01"},
    5: {"region": "ASIA", "day": "1994-01-01"},
    6: {"day": "1994-01-01", "discount": 0.06, "quantity": 24},
    7: {"nation1": "FRANCE", "nation2": "GERMANY"},
    8: {"nation": "BRAZIL", "region": "AMERICA", "type": "ECONOMY ANODIZED STEEL"},
    9: {"colour": "green"},
    10: {"day": "1993-10-01"},
    11: {"nation": "GERMANY", "scale": 100},
    12: {"mode1": "MAIL", "mode2": "SHIP", "day": "1994-01-01"},
    13: {"word1": "special", "word2": "requests"},
    14: {"day": "1995-09-01"},
    15: {"day": "1996-01-01"},
    16: {"brand": "Brand#45", "type": "MEDIUM POLISHED", **SIZES},
    17: {"brand": "Brand#23", "container": "MED BOX"},
    18: {"quantity": 300},
    19: {"brand1": "Brand#12", "brand2": "Brand#23", "brand3": "Brand#34", "quantity1": 1, "quantity2": 10, "quantity3": 20},
    20: {"colour": "forest", "day": "1994-01-01", "nation": "CANADA"},
    21: {"nation": "SAUDI ARABIA"},
    22: CODES,
}


def published():
    """Rows of each answer, from the library's sources."""
    host = re.search(r"host: (\S+)", subprocess.run(["rustc", "-vV"], check=True, capture_output=True, text=True).stdout).group(1)
    command = ["cargo", "metadata", "--format-version", "1", "--locked", "--offline", "--filter-platform", host]
    packages = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT).stdout
    manifest = re.search(r'"manifest_path":"([^"]*/tpchgen-[^"/]*/Cargo.toml)"', packages).group(1)
    with open(os.path.join(os.path.dirname(manifest), "src/q_and_a/answers_sf1.rs")) as source:
        found = re.findall(r'const Q(\d+)_ANSWER: &str = r#"\n(.*?)\n?"#;', source.read(), re.S)
    fields = lambda line: [field.strip() for field in line.split("|")]
    return {int(number): [fields(line) for line in text.split("\n")[1:] if line.strip()] for number, text in found}


def psql(args, server):
    return [os.path.join(args.bindir, "psql"), "-h", server.dir, "-U", "postgres", "-XAtq", "-v", "ON_ERROR_STOP=1", "-d", "postgres"]


def answer(args, server, number):
    with open(os.path.join(SCRIPTS, f"q{number}.sql")) as file:
        script = file.read()
    for name, value in VALUES[number].items():
        script, n = re.subn(rf"(?<!:):{name}\b", f"'{value}'", script)
        assert n > 0, (number, name)
    began = time.monotonic()
    command = [*psql(args, server), "--csv"]
    text = subprocess.run(command, input=script, check=True, capture_output=True, text=True).stdout
    return [[field.strip() for field in row] for row in csv.reader(io.StringIO(text))], time.monotonic() - began


def is_same(number, column, expected, found):
    if expected == found or (number, column) == (11, 0) and found[:-2] == expected:
        return True
    try:
        expected, found = Decimal(expected), Decimal(found)
    except InvalidOperation:
        return False
    return abs(expected - found) <= (100 if number == 17 else Decimal("0.5").scaleb(expected.as_tuple().exponent))


def difference(number, expected, found):
    if len(expected) != len(found):
        return f"{len(found)} rows instead of {len(expected)}"
    for n, (one, other) in enumerate(zip(expected, found), 1):
        if len(one) != len(other) or not all(is_same(number, column, *pair) for column, pair in enumerate(zip(one, other))):
            return f"row {n}: {other} instead of {one}"
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bindir", default="/usr/lib/postgresql/15/bin")
    parser.add_argument("--pgdyno", default=os.path.join(ROOT, "target/release/pgdyno"))
    parser.add_argument("--queries", default=",".join(map(str, VALUES)))
    args = parser.parse_args()
    answers = published()
    server = Server(args.bindir, ["shared_buffers=1GB", "max_wal_size=8GB", "work_mem=128MB", "fsync=off"])
    try:
        target = f"host={server.dir} user=postgres dbname=postgres"
        began = time.monotonic()
        subprocess.run([args.pgdyno, "init", "-w", "tpch-like", "-s", "100", "--server", target], check=True)
        print(f"loaded in {time.monotonic() - began:.0f} s")
        n_wrong = 0
        for number in map(int, args.queries.split(",")):
            found, seconds = answer(args, server, number)
            why = difference(number, answers[number], found)
            n_wrong += why is not None
            print(f"query {number:>2}: {len(found):>5} rows, {seconds:6.1f} s, {why or 'as published'}", flush=True)
    finally:
        server.stop()
    raise SystemExit(f"{n_wrong} answers differ" if n_wrong else 0)


if __name__ == "__main__":
    main()
