#!/usr/bin/env python3
"""Reads logs of pgbench in three formats and three protocols, and prints megabytes per second of processor time, the least and the most, and the most memory.

The server is started here with its collector, and logs everything. `read_log` is the example of crate `capture`, built with `--release`.

    cargo build --release -p capture --example read_log
    bench/capture_log.py [BIN_DIR]     as a user who may run a server (not root)
"""

import os
import pathlib
import resource
import subprocess
import sys
import tempfile

BIN = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "/usr/lib/postgresql/15/bin")
READER = pathlib.Path(__file__).parent.parent / "target/release/examples/read_log"
SETTINGS = """
listen_addresses = ''
fsync = off
logging_collector = on
log_destination = 'stderr,csvlog,jsonlog'
log_filename = 'run.log'
log_line_prefix = '%m [%p] %c %v %q%u@%d '
log_min_duration_statement = 0
log_rotation_size = 0
compute_query_id = on
"""
SECONDS = 20
REPEATS = 3


def run(*command, **options):
    return subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True, **options)


def log_of(directory, protocol):
    """Files of a run of pgbench, in a cluster of its own."""
    data = directory / protocol
    run(BIN / "initdb", "-N", "-A", "trust", "-U", "postgres", "-D", data)
    with open(data / "postgresql.conf", "a") as conf:
        conf.write(SETTINGS + f"unix_socket_directories = '{directory}'\n")
    run(BIN / "pg_ctl", "-D", data, "-w", "-l", directory / "out", "start")
    try:
        env = {**os.environ, "PGHOST": str(directory), "PGUSER": "postgres", "PGDATABASE": "postgres"}
        run(BIN / "pgbench", "-i", "-q", "-s", 10, env=env)
        out = run(BIN / "pgbench", "-n", "-c", 8, "-T", SECONDS, "-M", protocol, env=env).stdout
    finally:
        run(BIN / "pg_ctl", "-D", data, "-m", "fast", "stop")
    done = next(line.split(":")[1].strip() for line in out.splitlines() if "actually processed" in line)
    return data / "log", done


def main():
    with tempfile.TemporaryDirectory() as name:
        for protocol in ["simple", "extended", "prepared"]:
            log, done = log_of(pathlib.Path(name), protocol)
            for ending in ["csv", "json", "log"]:
                file = log / f"run.{ending}"
                rates = []
                for _ in range(REPEATS):
                    before = resource.getrusage(resource.RUSAGE_CHILDREN)
                    text = run(READER, file).stdout
                    after = resource.getrusage(resource.RUSAGE_CHILDREN)
                    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
                    rates.append(file.stat().st_size / seconds / 1e6)
                kib = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
                print(f"{protocol} {ending}: {file.stat().st_size / 1e6:.0f} MB, {min(rates):.0f} to {max(rates):.0f} MB/s, children at most {kib} KiB")
                print(f"  pgbench: {done}; {text.splitlines()[1]}")


main()
