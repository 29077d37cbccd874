#!/usr/bin/env python3
"""Makes the same data under two values of each setting, and compares what the server stored.

Pages are compared without their LSN and their checksum (the first ten bytes). `acc` is a table like those of built-in workloads: COPY with FREEZE,
VACUUM, and then a primary key. The others are what own statements may make. A parallel scan yields rows in an order of its own each time, so `par` also
differs between two runs under the same settings; so do samples of ANALYZE.

    bench/settings.py [BIN_DIR]     as a user who may run a server (not root)
"""

import hashlib
import pathlib
import shutil
import subprocess
import sys
import tempfile

BIN = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "/usr/lib/postgresql/15/bin")
RELATIONS = "acc acc_pkey doc grp par gin gist brin hash".split()
SQL = """
begin;
create table acc(aid int not null, bid int, abalance int, filler char(84)) with (fillfactor = 90);
copy acc from '{rows}' with (freeze);
commit;
vacuum analyze acc;
alter table acc add primary key (aid);
create table doc as select g as id, repeat(md5((g % 1000)::text), 100) as big, array[g % 7, g % 11, g % 13] as a,
  point(g % 997, g % 991) as p from generate_series(1, 60000) g;
create table grp as select bid, count(*) n, sum(aid) s from acc group by bid;
create table par as select aid, bid from acc where aid % 3 = 0;
create index gin on doc using gin (a);
create index gist on doc using gist (p);
create index brin on doc using brin (id);
create index hash on doc using hash (id);
vacuum analyze doc;
checkpoint;
"""
LENGTHS = """select sum(coalesce(array_length(stanumbers1, 1), 0) + coalesce(array_length(stavalues1::text::text[], 1), 0))
  from pg_statistic s join pg_class c on c.oid = starelid where relname in ('acc', 'doc')"""
CATALOG = "select relname, relam, reltablespace, relallvisible, reltuples from pg_class where relname in ('acc', 'doc', 'grp') order by 1"
LEVELS = [
    "",
    "wal_level=minimal\nmax_wal_senders=0",
    "full_page_writes=off",
    "wal_log_hints=on",
    "wal_compression=on",
    "synchronous_commit=off",
    "shared_buffers=4GB",
    "shared_buffers=1MB",
    "maintenance_work_mem=1MB",
    "maintenance_work_mem=1GB",
    "max_parallel_maintenance_workers=0",
    "max_parallel_workers_per_gather=0",
    "work_mem=64kB",
    "effective_cache_size=8MB",
    "enable_hashagg=off",
    "random_page_cost=1.1",
    "gin_pending_list_limit=64kB",
    "synchronize_seqscans=off",
    "default_statistics_target=1000",
    "default_toast_compression=lz4",
    "autovacuum=on\nautovacuum_naptime=1s",
    "vacuum_freeze_min_age=0",
    "vacuum_cost_delay=1",
    "track_commit_timestamp=on",
    "checkpoint_timeout=30s",
    "bgwriter_delay=10ms",
    "jit=off",
]


def made(place, settings):
    """What the server stores under these settings, by name."""
    data = place / "data"
    shutil.rmtree(data, ignore_errors=True)
    shutil.copytree(place / "base", data, symlinks=True)
    with open(data / "postgresql.auto.conf", "a") as file:
        file.write(f"autovacuum=off\nfsync=off\nunix_socket_directories='{place}'\nlisten_addresses=''\nmax_wal_size=10GB\n{settings}\n")
    control = [BIN / "pg_ctl", "-D", data, "-w", "-l", place / "log"]
    subprocess.run([*control, "start"], check=True, stdout=subprocess.DEVNULL)

    def ask(sql):
        psql = [BIN / "psql", "-h", place, "-U", "postgres", "-XAtq", "-v", "ON_ERROR_STOP=1"]
        return subprocess.run(psql, input=sql, check=True, capture_output=True, text=True).stdout.strip()

    try:
        ask(SQL.format(rows=place / "rows"))
        found = {}
        for relation in RELATIONS:
            pages = bytearray((data / ask(f"select pg_relation_filepath('{relation}')")).read_bytes())
            for page in range(0, len(pages), 8192):
                pages[page : page + 10] = bytes(10)
            found[relation] = (len(pages) // 8192, hashlib.md5(pages).hexdigest()[:8])
        found["statistics"] = ask(LENGTHS)
        found["catalog"] = hashlib.md5(ask(CATALOG).encode()).hexdigest()[:8]
        return found
    finally:
        subprocess.run([*control, "-m", "fast", "stop"], check=True, stdout=subprocess.DEVNULL)


def main():
    with tempfile.TemporaryDirectory() as name:
        place = pathlib.Path(name)
        initdb = [BIN / "initdb", "-D", place / "base", "-E", "UTF8", "--locale=C", "-A", "trust", "-U", "postgres", "-N"]
        subprocess.run(initdb, check=True, stdout=subprocess.DEVNULL)
        with open(place / "rows", "w") as rows:
            rows.writelines(f"{n}\t{n % 50}\t0\t\n" for n in range(1, 200_001))
        base = made(place, "")
        for settings in LEVELS:
            found = made(place, settings)
            differs = {name: (base[name], value) for name, value in found.items() if base[name] != value}
            print(settings.replace("\n", ", ") or "the same again", differs or "equal", sep=": ", flush=True)


if __name__ == "__main__":
    main()
