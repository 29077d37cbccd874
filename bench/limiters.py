#!/usr/bin/env python3
"""Does pgdyno name what limits a load? Builds each limiter for real, runs pgdyno on it by URL, and prints what it named.

Each situation is a throw-away server on a unix socket, in control groups (version 1) of its own and, where a disk is to
limit, on a file system of its own in a loop device with a throttle. Everything is removed at the end, also after Ctrl-C.
Needs root, python3, losetup and mkfs.ext4, and PostgreSQL's binaries. Nothing else may work on the machine.

    cargo build --release
    bench/limiters.py --bindir /usr/lib/postgresql/15/bin --runs 3
    bench/limiters.py --only wal-sync,network --json-dir /tmp/studies
"""

import argparse, collections, contextlib, dataclasses, json, os, pwd, shutil, signal, socket, subprocess, sys, tempfile, threading, time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CGROUP = "/sys/fs/cgroup"
QUIET = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}


@dataclasses.dataclass
class Situation:
    """What is built: the limiter that must be named, the load, the server's settings, and the throttles."""

    expected: str
    load: list
    settings: list = dataclasses.field(default_factory=list)
    scale: int = 10
    # Throttles of the data's device: read_iops, write_iops, read_bps, write_bps.
    device: dict = dataclasses.field(default_factory=dict)
    # The WAL has that device, and the data has none.
    wal_apart: bool = False
    # Options of the device's mount.
    mount: str = ""
    memory_mib: int = 0
    cpu_percent: int = 0
    # Statements after loading, a delay between driver and server, processes that use the driver's processor.
    sql: list = dataclasses.field(default_factory=list)
    delay_ms: float = 0
    is_driver_pinned: bool = False
    # Other answers that are right as well, with the reason in METHODOLOGY.
    or_else: tuple = ()


HELD = "begin;\nupdate pgbench_branches set bbalance = bbalance + 1 where bid = 1;\n\\sleep 5 ms\nend;\n"
HOT = "begin;\nupdate pgbench_branches set bbalance = bbalance + 1 where bid = 1;\nselect count(*) from generate_series(1, 20000);\nend;\n"
WIDE = "\\set n random(1, 1000000)\ninsert into wide select :n, repeat(md5(:n::text), 60);\n"
SORT = "select count(*) from (select g from generate_series(1, 60000) g order by md5(g::text) offset 1) s;\n"
PARTS = "\\set k random(1, 1000000)\nselect * from parts where b = :k;\n"
ASYNC = ["synchronous_commit=off"]

SITUATIONS = {
    "wal-sync": Situation("wal-sync", ["-w", "tpcb", "-c", "16"], device={"write_iops": 200}, wal_apart=True),
    "wal-volume": Situation("wal-volume", ["-f", WIDE, "-c", "8"], device={"write_bps": 4 << 20}, wal_apart=True,
                            settings=["max_wal_size=4GB"], sql=["create table wide (a int, b text)", "alter table wide alter b set storage external"]),
    "data-read": Situation("data-read", ["-w", "tpcb-select", "-c", "16"], scale=60, memory_mib=160, device={"read_iops": 300},
                           settings=["shared_buffers=32MB"]),
    "data-write": Situation("data-write", ["-w", "tpcb-simple", "-c", "8"], scale=30, device={"write_iops": 400}, mount="sync",
                            settings=["shared_buffers=1MB", "bgwriter_lru_maxpages=0", *ASYNC]),
    "checkpoint": Situation("checkpoint", ["-w", "tpcb-simple", "-c", "8"], scale=40, device={"write_iops": 600},
                            settings=["max_wal_size=32MB", "min_wal_size=32MB", "checkpoint_timeout=30s", "checkpoint_completion_target=0.1", "shared_buffers=1GB", *ASYNC]),
    "row-lock": Situation("row-lock", ["-f", HOT, "-c", "16"], scale=1, settings=ASYNC),
    "client-held-lock": Situation("client-held-lock", ["-f", HELD, "-c", "16"], scale=1),
    "lwlock": Situation("lwlock", ["-f", PARTS, "-c", "48"], settings=["shared_buffers=256MB", "max_locks_per_transaction=64"], sql=[
        "create table parts (a int, b int) partition by hash (a)",
        *[f"create table parts{n} partition of parts for values with (modulus 200, remainder {n})" for n in range(200)]]),
    "server-cpu": Situation("server-cpu", ["-w", "tpcb-select", "-c", "16"], settings=["shared_buffers=512MB"]),
    "quota": Situation("quota", ["-w", "tpcb-select", "-c", "16"], settings=["shared_buffers=512MB"], cpu_percent=40),
    "scheduling": Situation("scheduling", ["-w", "tpcb-select", "-c", "512", "--threads", "1"], settings=["shared_buffers=512MB", "max_connections=600"],
                            or_else=("server-cpu",)),
    "driver": Situation("driver", ["-w", "tpcb-select", "-c", "16", "--threads", "1"], settings=["shared_buffers=512MB"], is_driver_pinned=True),
    "network": Situation("network", ["-w", "tpcb-select", "-c", "4"], settings=["shared_buffers=512MB"], delay_ms=3),
    "autovacuum": Situation("autovacuum", ["-w", "tpcb-simple", "-c", "4"], scale=60, device={"read_iops": 400, "write_iops": 400}, memory_mib=200, settings=[
        "autovacuum_naptime=1s", "autovacuum_vacuum_cost_delay=0", "shared_buffers=32MB", *ASYNC],
        sql=["alter table pgbench_accounts set (autovacuum_vacuum_threshold=10, autovacuum_vacuum_scale_factor=0)", "update pgbench_accounts set abalance=1 where aid % 3 = 0"]),
    "memory": Situation("memory", ["-f", SORT, "-c", "4"], settings=["work_mem=64kB", "shared_buffers=64MB"], mount="sync", device={"write_iops": 800}),
    "offered-load": Situation("offered-load", ["-w", "tpcb-select", "-c", "8", "--pace", "200/s"], settings=["shared_buffers=512MB"]),
}


def as_postgres(command):
    return ["setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups", *command]


def write(path, text):
    with open(path, "w") as file:
        file.write(text)


class Device:
    """An ext4 file system in a file, on a loop device."""

    def __init__(self, directory, mib, options):
        self.file, self.mount = os.path.join(directory, "disk"), os.path.join(directory, "mnt")
        os.makedirs(self.mount)
        with open(self.file, "wb") as file:
            file.truncate(mib << 20)
        subprocess.run(["mkfs.ext4", "-q", "-E", "lazy_itable_init=0", self.file], check=True)
        self.name = subprocess.run(["losetup", "--find", "--show", "--direct-io=on", self.file], check=True, capture_output=True, text=True).stdout.strip()
        subprocess.run(["mount", self.name, self.mount], check=True)
        self.options = options
        os.chmod(self.mount, 0o777)
        number = os.stat(self.name).st_rdev
        self.number = f"{os.major(number)}:{os.minor(number)}"

    def slow_down(self):
        if self.options:
            subprocess.run(["mount", "-o", f"remount,{self.options}", self.mount], check=True)

    def remove(self):
        for _ in range(50):
            if subprocess.run(["umount", self.mount], **QUIET).returncode == 0:
                break
            time.sleep(0.2)
        subprocess.run(["losetup", "-d", self.name], **QUIET)


class Groups:
    """Control groups of the server, by controller."""

    def __init__(self, name):
        self.name, self.made = name, []

    def path(self, controller):
        path = f"{CGROUP}/{controller}/{self.name}"
        if path not in self.made:
            os.makedirs(path, exist_ok=True)
            self.made.append(path)
        return path

    def limit(self, controller, file, value):
        write(f"{self.path(controller)}/{file}", str(value))

    def remove(self):
        for path in self.made:
            for _ in range(50):
                with contextlib.suppress(OSError):
                    os.rmdir(path)
                    break
                time.sleep(0.1)


class Delay:
    """A unix socket that forwards to the server's, each way later by a fixed time."""

    def __init__(self, directory, server_dir, delay_s):
        self.dir, self.to, self.delay_s = directory, os.path.join(server_dir, ".s.PGSQL.5432"), delay_s
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.bind(os.path.join(directory, ".s.PGSQL.5432"))
        os.chmod(os.path.join(directory, ".s.PGSQL.5432"), 0o777)
        self.socket.listen(64)
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                near, _ = self.socket.accept()
                far = socket.socket(socket.AF_UNIX)
                far.connect(self.to)
                for source, sink in ((near, far), (far, near)):
                    threading.Thread(target=self.copy, args=(source, sink), daemon=True).start()

    def copy(self, source, sink):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                time.sleep(self.delay_s)
                sink.sendall(data)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def stop(self):
        self.socket.close()


class Server:
    def __init__(self, args, situation, name):
        self.args, self.situation = args, situation
        self.dir = tempfile.mkdtemp(prefix="pgdyno-limiter-", dir=args.tmp)
        os.chmod(self.dir, 0o755)
        self.groups, self.device, self.process = Groups(f"pgdyno-limiter-{os.getpid()}"), None, None

    def start(self):
        sockets = os.path.join(self.dir, "sockets")
        os.makedirs(sockets)
        shutil.chown(sockets, "postgres", "postgres")
        base = self.dir
        if self.situation.device or self.situation.mount:
            self.device = Device(self.dir, 4096, self.situation.mount)
            base = self.device.mount
        data = os.path.join(self.dir if self.situation.wal_apart else base, "data")
        os.makedirs(data)
        shutil.chown(data, "postgres", "postgres")
        initdb = [os.path.join(self.args.bindir, "initdb"), "-D", data, "-A", "trust", "-U", "postgres"]
        if self.situation.wal_apart:
            initdb += ["-X", os.path.join(base, "wal")]
        subprocess.run(as_postgres(initdb), check=True, cwd="/", **QUIET)
        settings = ["listen_addresses=", "max_connections=200", "max_wal_size=4GB", "log_checkpoints=on", *self.situation.settings]
        options = [word for setting in settings for word in ("-c", setting)]
        log = open(os.path.join(self.dir, "log"), "w")
        command = as_postgres([os.path.join(self.args.bindir, "postgres"), "-D", data, "-k", sockets, *options])
        controllers = ["cpu", "blkio", "memory"]
        paths = [self.groups.path(controller) for controller in controllers]

        def enter():
            for path in paths:
                write(f"{path}/cgroup.procs", str(os.getpid()))

        self.process = subprocess.Popen(command, stdout=log, stderr=log, cwd="/", start_new_session=True, preexec_fn=enter)
        for _ in range(300):
            if subprocess.run([os.path.join(self.args.bindir, "pg_isready"), "-q", "-h", sockets]).returncode == 0:
                self.sockets = sockets
                return
            time.sleep(0.1)
        raise SystemExit(f"the server did not start: {open(log.name).read()[-2000:]}")

    def url(self, directory=None):
        return f"host={directory or self.sockets} user=postgres dbname=postgres"

    def load(self):
        pgbench = [os.path.join(self.args.bindir, "pgbench"), "-h", self.sockets, "-U", "postgres", "-i", "-q", "-s", str(self.situation.scale), "postgres"]
        subprocess.run(pgbench, check=True, **QUIET)
        for sql in [*self.situation.sql, "vacuum analyze", "checkpoint"]:
            psql = [os.path.join(self.args.bindir, "psql"), "-X", "-q", "-h", self.sockets, "-U", "postgres", "-c", sql, "postgres"]
            subprocess.run(psql, check=True)

    def limit(self):
        if self.device:
            self.device.slow_down()
        for what, value in self.situation.device.items():
            self.groups.limit("blkio", f"blkio.throttle.{what}_device", f"{self.device.number} {value}")
        if self.situation.memory_mib:
            for _ in range(20):
                with contextlib.suppress(OSError):
                    self.groups.limit("memory", "memory.limit_in_bytes", self.situation.memory_mib << 20)
                    break
                with contextlib.suppress(OSError):
                    self.groups.limit("memory", "memory.force_empty", 0)
                time.sleep(0.5)
        if self.situation.cpu_percent:
            self.groups.limit("cpu", "cpu.cfs_quota_us", 1000 * self.situation.cpu_percent)

    def stop(self):
        for what in self.situation.device:
            with contextlib.suppress(OSError):
                self.groups.limit("blkio", f"blkio.throttle.{what}_device", f"{self.device.number} 0")
        if self.device and self.situation.mount:
            subprocess.run(["mount", "-o", "remount,async", self.device.mount], **QUIET)
        if self.process:
            self.process.send_signal(signal.SIGINT)
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.process.send_signal(signal.SIGQUIT)
                self.process.wait()
        if self.device:
            self.device.remove()
        self.groups.remove()
        shutil.rmtree(self.dir, ignore_errors=True)


class Hogs:
    """Two processes that never sleep, on the last processor."""

    def __enter__(self):
        last = max(os.sched_getaffinity(0))
        spin = f"import os; os.sched_setaffinity(0, {{{last}}})\nwhile True: pass"
        self.processes = [subprocess.Popen([sys.executable, "-c", spin]) for _ in range(2)]
        return ["taskset", "-c", str(last)]

    def __exit__(self, *_):
        for process in self.processes:
            process.kill()
            process.wait()


def measure(args, server, name):
    situation = server.situation
    load = []
    for word in situation.load:
        if "\n" in word:
            path = os.path.join(server.dir, "script.sql")
            write(path, word)
            word = path
        load.append(word)
    with contextlib.ExitStack() as stack:
        prefix = stack.enter_context(Hogs()) if situation.is_driver_pinned else []
        url = server.url()
        if situation.delay_ms:
            directory = tempfile.mkdtemp(dir=server.dir)
            os.chmod(directory, 0o755)
            stack.callback(Delay(directory, server.sockets, situation.delay_ms / 1e3).stop)
            url = server.url(directory)
        if "-w" in load:
            load += ["-s", str(situation.scale)]
        results = os.path.join(server.dir, "results")
        command = [*prefix, args.pgdyno, "run", "--server", url, "--no-restore", *load, "--ramp-up", "3s", "--measure", f"{args.measure}s",
                   "--repeats", str(args.runs), "--set", "prepare.settle=false", "--json", "-q", "-y", "-o", results]
        done = subprocess.run(command, capture_output=True, text=True)
    if not done.stdout.startswith("{"):
        raise SystemExit(f"{name}: {done.stderr}")
    if args.keep:
        shutil.copytree(results, os.path.join(args.keep, name), dirs_exist_ok=True)
    return json.loads(done.stdout)


def judged(study):
    """Name, confidence and evidence of each run that counts."""
    runs = [run["limiter"] for run in study["runs"] if run.get("limiter")]
    return [(limiter["name"], limiter["confidence"], limiter) for limiter in runs]


def row(args, name):
    situation = SITUATIONS[name]
    server = Server(args, situation, name)
    try:
        server.start()
        server.load()
        server.limit()
        study = measure(args, server, name)
    finally:
        server.stop()
    found = judged(study)
    names = collections.Counter(f"{limiter} ({confidence})" for limiter, confidence, _ in found)
    right = sum(limiter == situation.expected or limiter in situation.or_else for limiter, _, _ in found)
    case = study["cases"][0]
    tps = (case.get("tps") or {}).get("median") if isinstance(case.get("tps"), dict) else None
    print(f"{name:<18} {right}/{len(found)} right: {', '.join(f'{n} x {what}' for what, n in names.most_common())}  tps {tps}", flush=True)
    for limiter, _, all_of_it in found[: 1 if not args.verbose else None]:
        second = all_of_it.get("runner_up")
        print(f"    {all_of_it['evidence']}" + (f"; second {second[0]}: {second[1]}" if second else ""), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bindir", default="/usr/lib/postgresql/15/bin")
    parser.add_argument("--pgdyno", default=os.path.join(ROOT, "target/release/pgdyno"))
    parser.add_argument("--only", default=",".join(SITUATIONS))
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--measure", type=int, default=10)
    parser.add_argument("--tmp", default="/var/tmp")
    parser.add_argument("--keep", help="directory that gets the results")
    parser.add_argument("--verbose", action="store_true")
    args = parser.parse_args()
    for name in args.only.split(","):
        row(args, name)


if __name__ == "__main__":
    sys.exit(main())
