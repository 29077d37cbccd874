#!/usr/bin/env python3
"""Does pgdyno name what limits a load? Builds each limiter for real, runs pgdyno on it by URL, and prints what it named.

Each situation is a throw-away server on a unix socket, in control groups (version 1) of its own and, where a disk is to
limit, on a file system of its own in a loop device with a throttle. Everything is removed at the end, also after Ctrl-C.
Needs root, python3, losetup, mkfs.ext4, ip and tc, PostgreSQL's server, and psql and pgbench of any version. Nothing
else may work on the machine.

    cargo build --profile dist
    bench/limiters.py --bindir /usr/lib/postgresql/15/bin --runs 3 --keep /tmp/kept
    bench/limiters.py --only wal-sync,network --keep /tmp/kept
    bench/limiters.py --only mixtures --runs 1
    bench/limiters.py --only unseen --runs 1 --lift
    bench/limiters.py --judge /tmp/kept

The last one measures nothing: it judges the kept results with the present pgdyno and prints the confusion table. --lift takes each limit of
the group unseen away and asks genuine pgbench what that gives: the truth that a name is held against.
"""

import argparse, collections, contextlib, dataclasses, fcntl, glob, json, os, shutil, signal, socket, subprocess, sys, tempfile, threading, time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CGROUP = "/sys/fs/cgroup"
RAMP_UP_S = 2
QUIET = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
# A command that a Ctrl-C of the terminal does not reach.
APART = {**QUIET, "start_new_session": True}


@dataclasses.dataclass
class Situation:
    """What is built: the limiter that must be named, the load, the server's settings, and the throttles."""

    expected: str
    load: list
    settings: list = dataclasses.field(default_factory=list)
    scale: int = 10
    # Throttles of the device: read_iops, write_iops, read_bps, write_bps. It holds everything, only "wal", only "data", or a "standby".
    device: dict = dataclasses.field(default_factory=dict)
    device_holds: str = "everything"
    # Options of the device's mount.
    mount: str = ""
    memory_mib: int = 0
    cpu_percent: int = 0
    # A quota that begins in the middle of each measurement.
    cpu_percent_later: int = 0
    # Statements after loading; those of a transaction that stays open; statements after it began.
    sql: list = dataclasses.field(default_factory=list)
    held: str = ""
    sql_after: list = dataclasses.field(default_factory=list)
    # A delay between driver and server; the bandwidth of a network between them; two processes that use the driver's processor.
    delay_ms: float = 0
    mbit: int = 0
    is_driver_pinned: bool = False
    # The processors that the server is bound to; a quota of the driver, alone or in the server's group; hogs on the server's processor.
    server_cpus: str = ""
    driver_percent: int = 0
    is_driver_inside: bool = False
    n_hogs: int = 0
    # A script that one more client runs meanwhile, who is not the load's.
    alongside: str = ""
    # Sessions of a pooler in between; bytes per second that the reader of the server's log takes.
    pool_size: int = 0
    log_bytes_per_s: int = 0
    # What takes the limit away: other values of these fields, for pgbench before and after.
    lift: dict = dataclasses.field(default_factory=dict)
    # What the sentence must have, and the name of what must be second.
    words: str = ""
    second: str = ""
    # Seconds of measurement that it needs at least.
    seconds: int = 0
    # Options of pgdyno.
    options: list = dataclasses.field(default_factory=list)
    # Other answers that are right as well, with the reason in METHODOLOGY.
    or_else: tuple = ()


HELD = "begin;\nupdate pgbench_branches set bbalance = bbalance + 1 where bid = 1;\n\\sleep 5 ms\nend;\n"
HOT = "begin;\nupdate pgbench_branches set bbalance = bbalance + 1 where bid = 1;\nselect count(*) from generate_series(1, 20000);\nend;\n"
WIDE = "\\set n random(1, 1000000)\ninsert into wide select :n, repeat(md5(:n::text), 2000);\n"
SORT = "select count(*) from (select g from generate_series(1, 3000) g order by md5(g::text) offset 1) s;\n"
PARTS = "\\set k random(1, 20000)\nselect count(*) from parts where b = :k;\n"
CHURN = ("\\set aid random(1, 6000000)\n\\set k random(1, 1000000)\nselect abalance from pgbench_accounts where aid = :aid;\n"
         + "".join(f"update churn{n} set n = n + 1 where id = :k;\n" for n in range(3)))
ONE_PAGE = "\\set k random(1, 20)\nupdate one_page set n = n + 1 where id = :k;\n"
MANY_XIDS = "select count(n) from many_xids where id = any (array(select (random() * 300000)::int from generate_series(1, 100)));\n"
BLOBS = "select repeat('x', 1000) from generate_series(1, 10000);\n"
ASYNC = ["synchronous_commit=off"]
# What pgdyno does before a run was done when the data were loaded; with the throttles it would last.
AS_LOADED = [word for what in ("vacuum", "analyze", "prewarm", "checkpoint", "settle") for word in ("--set", f"prepare.{what}=false")]
CACHED = ["shared_buffers=512MB"]

SITUATIONS = {
    "wal-sync": Situation("wal-sync", ["-w", "tpcb", "-c", "16"], device={"write_iops": 200}, device_holds="wal"),
    # A device that is sold by its bandwidth: who uses it knows that, and declares it.
    "wal-volume": Situation("wal-volume", ["-f", WIDE, "-c", "8"], device={"write_bps": 8 << 20}, device_holds="wal",
                            settings=["max_wal_size=4GB"], options=["--set", "limits.wal_mb_s=8.4"],
                            sql=["create table wide (a int, b text)", "alter table wide alter b set storage external"]),
    "data-read": Situation("data-read", ["-w", "tpcb-select", "-c", "16"], scale=60, memory_mib=160, device={"read_iops": 300},
                           settings=["shared_buffers=32MB"]),
    # Buffers for a hundred pages, and writes that last until they are on the device.
    "data-write": Situation("data-write", ["-w", "tpcb-simple", "-c", "8"], scale=30, device={"write_iops": 400}, device_holds="data", mount="sync",
                            settings=["shared_buffers=1MB", "bgwriter_lru_maxpages=0", *ASYNC]),
    # Nearly all of WAL is pages of which the checkpoint before the last one had the images already; 70 MB of WAL would hold all of them once.
    "checkpoint": Situation("checkpoint", ["-w", "tpcb-simple", "-c", "8"], scale=5, device={"write_bps": 20 << 20}, device_holds="wal",
                            settings=["max_wal_size=32MB", "min_wal_size=32MB", "checkpoint_timeout=30s", "checkpoint_completion_target=0.1", *CACHED]),
    "row-lock": Situation("row-lock", ["-f", HOT, "-c", "16"], scale=1, settings=ASYNC),
    "client-held-lock": Situation("client-held-lock", ["-f", HELD, "-c", "16"], scale=1),
    "lwlock": Situation("lwlock", ["-f", PARTS, "-c", "48"], settings=["shared_buffers=256MB", "max_locks_per_transaction=64"], sql=[
        "create table parts (a int, b int) partition by hash (a)",
        *[f"create table parts{n} partition of parts for values with (modulus 200, remainder {n})" for n in range(200)], "insert into parts select g, g from generate_series(1, 20000) g"]),
    "server-cpu": Situation("server-cpu", ["-w", "tpcb-select", "-c", "16"], settings=CACHED),
    "quota": Situation("quota", ["-w", "tpcb-select", "-c", "16"], settings=CACHED, cpu_percent=40),
    "scheduling": Situation("scheduling", ["-w", "tpcb-select", "-c", "512", "--threads", "1"], settings=["max_connections=600", *CACHED],
                            # A machine with so many sessions answers the observer about once a second.
                            seconds=20,
                            or_else=("server-cpu",)),
    "driver": Situation("driver", ["-w", "tpcb-select", "-c", "16", "--threads", "1"], settings=CACHED, is_driver_pinned=True),
    "network": Situation("network", ["-w", "tpcb-select", "-c", "4"], settings=CACHED, delay_ms=3),
    # Three tables, each of which a vacuum reads the whole index of again and again, from the device that the load reads from.
    "autovacuum": Situation("autovacuum", ["-f", CHURN, "-c", "3"], scale=60, device={"read_bps": 16 << 20}, memory_mib=200, settings=[
        "autovacuum_naptime=1s", "autovacuum_vacuum_cost_delay=0", "shared_buffers=32MB", *ASYNC],
        sql=[statement for n in range(3) for statement in (
            f"create table churn{n} (id int primary key, n int, filler text) with (fillfactor=90, vacuum_index_cleanup=on, "
            "autovacuum_vacuum_threshold=10, autovacuum_vacuum_scale_factor=0)",
            f"insert into churn{n} select g, 0, '' from generate_series(1, 1000000) g")]),
    "memory": Situation("memory", ["-f", SORT, "-c", "4"], settings=["work_mem=64kB", "shared_buffers=64MB"], mount="sync", device={"write_iops": 3000}),
    "offered-load": Situation("offered-load", ["-w", "tpcb-select", "-c", "8", "--pace", "200/s"], settings=CACHED),
}

# Two at a time, one after the other, and what has no row in the table above.
MIXTURES = {
    "hot-rows-slow-wal": Situation("wal-sync", ["-w", "tpcb", "-c", "16"], scale=1, device={"write_iops": 200}, device_holds="wal"),
    "wal-buffers": Situation("wal-sync", ["-w", "tpcb-simple", "-c", "16"], device={"write_iops": 200}, device_holds="wal", settings=["wal_buffers=32kB", "wal_sync_method=open_datasync", *ASYNC]),
    "reads-in-a-quota": Situation("data-read", ["-w", "tpcb-select", "-c", "16"], scale=60, memory_mib=160, device={"read_iops": 300},
                                  settings=["shared_buffers=32MB"], cpu_percent=40),
    "then-a-quota": Situation("mixed", ["-w", "tpcb-select", "-c", "16"], settings=CACHED, cpu_percent_later=40),
    "standby": Situation("standby", ["-w", "tpcb", "-c", "16"], device={"write_iops": 100}, device_holds="standby"),
    "archiving": Situation("server-cpu", ["-w", "tpcb-simple", "-c", "16"], settings=["archive_mode=on", "archive_command=gzip -9 < %p > /dev/null", "shared_buffers=512MB", *ASYNC]),
    "one-page": Situation("server-cpu", ["-f", ONE_PAGE, "-c", "16"], settings=ASYNC, or_else=("row-lock",),
                          sql=["create table one_page as select g as id, 0 as n from generate_series(1, 20) g"]),
    "subtransactions": Situation("lwlock", ["-f", MANY_XIDS, "-c", "16"], settings=[*CACHED, *ASYNC], or_else=("server-cpu",),
                                 sql=["create table many_xids (id int primary key, n int)", "create table held (n int)",
                                      "create procedure fill() language plpgsql as $$ begin for i in 1..300000 loop insert into many_xids values (i, 0); commit; end loop; end $$"],
                                 held="begin; do $$ begin for i in 1..100 loop begin insert into held values (i); exception when others then null; end; end loop; end $$;",
                                 sql_after=["call fill()"]),
    "narrow-network": Situation("network", ["-f", BLOBS, "-c", "4"], settings=CACHED, mbit=200),
}
HOLD = "select pg_advisory_lock(7);\n\\sleep 30 ms\nselect pg_advisory_unlock(7);\n"
ADVISORY = "begin;\nselect pg_advisory_xact_lock(7);\nselect abalance from pgbench_accounts where aid = 1;\nend;\n"
TABLE = "begin;\nlock table pgbench_tellers in exclusive mode;\nselect count(*) from generate_series(1, 20000);\nend;\n"
UNLOCKED = TABLE.replace("lock table pgbench_tellers in exclusive mode;\n", "")
FAR = "begin;\nupdate pgbench_branches set bbalance = bbalance + 1 where bid = 1;\nselect 1;\nend;\n"
CIRCLES = ("\\set a random(1, 5)\n\\set b random(1, 5)\nbegin;\nupdate pgbench_tellers set tbalance = tbalance + 1 where tid = :a;\n"
           "update pgbench_tellers set tbalance = tbalance + 1 where tid = :b;\nend;\n")
ORDERED = CIRCLES.replace(":a;", ":c;").replace(":b;", ":d;").replace("begin;", "\\set c least(:a, :b)\n\\set d greatest(:a, :b)\nbegin;")
THINKING = "\\set aid random(1, 1000000)\nselect abalance from pgbench_accounts where aid = :aid;\n\\sleep 20 ms\n"
SPREAD = HOT.replace("bid = 1;", "bid = 1 + :client_id % 16;")

WORK = "select count(*) from generate_series(1, 3000);\n"

# Limits by affinity, quota, locks of other kinds and owners, poolers, logs and deadlocks, with what takes each away.
UNSEEN = {
    "pinned-server": Situation("server-cpu", ["-f", WORK, "-c", "8"], settings=CACHED, server_cpus="1", lift={"server_cpus": ""},
                               words="the one processor that the server may use"),
    "hog-on-its-core": Situation("foreign-cpu", ["-f", WORK, "-c", "8"], settings=CACHED, server_cpus="1", n_hogs=2, lift={"n_hogs": 0}),
    "driver-quota": Situation("driver", ["-w", "tpcb-select", "-c", "8", "--threads", "2"], settings=CACHED, driver_percent=10, lift={"driver_percent": 0}),
    "one-container": Situation("quota", ["-w", "tpcb-select", "-c", "8"], settings=CACHED, cpu_percent=60, is_driver_inside=True, lift={"cpu_percent": 0}),
    "foreign-advisory": Situation("client-held-lock", ["-f", ADVISORY, "-c", "8"], alongside=HOLD, lift={"alongside": ""}, words="not the load's"),
    "hot-row": Situation("row-lock", ["-f", HOT, "-c", "12"], scale=16, settings=ASYNC, lift={"load": ["-f", SPREAD, "-c", "12"]}, words="row locks",
                         or_else=("server-cpu",)),
    "table-lock": Situation("row-lock", ["-f", TABLE, "-c", "12"], settings=ASYNC, lift={"load": ["-f", UNLOCKED, "-c", "12"]}, words="table locks"),
    "small-pool": Situation("network", ["-f", THINKING.replace("\\sleep 20 ms", "select pg_sleep(0.01);"), "-c", "32"], settings=CACHED, pool_size=2,
                            lift={"pool_size": 32}, words="pooler"),
    "slow-log": Situation("unknown", ["-w", "tpcb-select", "-c", "8"], settings=[*CACHED, "log_statement=all"], log_bytes_per_s=300_000, seconds=12,
                          lift={"settings": CACHED}, words="log"),
    "deadlocks": Situation("row-lock", ["-f", CIRCLES, "-c", "8"], settings=ASYNC, lift={"load": ["-f", ORDERED, "-c", "8"]}, words="deadlocks", seconds=12),
    "read-only": Situation("server-cpu", ["-w", "tpcb-select", "-c", "12"], settings=CACHED, lift={"cpu_percent": 60}),
    "slow-flush": Situation("wal-sync", ["-w", "tpcb-simple", "-c", "8"], device={"write_iops": 300}, device_holds="wal", settings=CACHED,
                            lift={"settings": [*CACHED, *ASYNC]}),
    "think-time": Situation("offered-load", ["-f", THINKING, "-c", "8"], settings=CACHED, lift={"load": ["-f", THINKING, "-c", "16"]}),
    "far-holder": Situation("client-held-lock", ["-f", FAR, "-c", "8"], settings=ASYNC, delay_ms=3, lift={"delay_ms": 0}, second="network"),
}
ALL = {**SITUATIONS, **MIXTURES, **UNSEEN}


def as_postgres(command):
    return ["setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups", *command]


def write(path, text):
    with open(path, "w") as file:
        file.write(text)


def remove_tree(path):
    shutil.rmtree(path, ignore_errors=True)


class Device:
    """An ext4 file system in a file, on a loop device."""

    def __init__(self, directory, mib, options, stack):
        self.file, self.mount = os.path.join(directory, "disk"), os.path.join(directory, "mnt")
        os.makedirs(self.mount)
        with open(self.file, "wb") as file:
            file.truncate(mib << 20)
        subprocess.run(["mkfs.ext4", "-q", "-E", "lazy_itable_init=0", self.file], check=True)
        # By its file, so that it is found also if a signal came before its name.
        stack.callback(self.detach)
        self.name = subprocess.run(["losetup", "--find", "--show", "--direct-io=on", self.file], check=True, capture_output=True, text=True).stdout.strip()
        stack.callback(self.unmount)
        subprocess.run(["mount", self.name, self.mount], check=True)
        self.options = options
        os.chmod(self.mount, 0o777)
        number = os.stat(self.name).st_rdev
        self.number = f"{os.major(number)}:{os.minor(number)}"

    def slow_down(self):
        if self.options:
            subprocess.run(["mount", "-o", f"remount,{self.options}", self.mount], check=True)

    def unmount(self):
        for _ in range(50):
            if not os.path.ismount(self.mount) or subprocess.run(["umount", self.mount], **APART).returncode == 0:
                return
            time.sleep(0.2)

    def detach(self):
        found = subprocess.run(["losetup", "-j", self.file, "-n", "-O", "NAME"], capture_output=True, text=True, start_new_session=True)
        for name in found.stdout.split():
            subprocess.run(["losetup", "-d", name], **APART)


class Groups:
    """Control groups of the server, by controller."""

    def __init__(self, name):
        self.name, self.made = name, []

    def path(self, controller):
        path = f"{CGROUP}/{controller}/{self.name}"
        if path not in self.made:
            self.made.append(path)
            os.makedirs(path, exist_ok=True)
        return path

    def limit(self, controller, file, value):
        write(f"{self.path(controller)}/{file}", str(value))

    def remove(self):
        for path in self.made:
            for _ in range(50):
                if not os.path.isdir(path):
                    break
                with contextlib.suppress(OSError):
                    os.rmdir(path)
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


class Network:
    """A network namespace for the server, whose only way out has a token bucket."""

    address = "10.87.55.2"

    def __init__(self, mbit, stack):
        self.name, near, far = f"pgdyno-{os.getpid()}", f"pgd{os.getpid()}a", f"pgd{os.getpid()}b"
        stack.callback(subprocess.run, ["ip", "netns", "del", self.name], **APART)
        stack.callback(subprocess.run, ["ip", "link", "del", near], **APART)
        inside = f"ip netns exec {self.name}"
        for command in (f"ip netns add {self.name}", f"ip link add {near} type veth peer name {far} netns {self.name}",
                        f"ip addr add 10.87.55.1/30 dev {near}", f"ip link set {near} up",
                        f"{inside} ip addr add {self.address}/30 dev {far}", f"{inside} ip link set {far} up", f"{inside} ip link set lo up",
                        f"{inside} tc qdisc add dev {far} root tbf rate {mbit}mbit burst 32kbit latency 50ms"):
            subprocess.run(command.split(), check=True)
        self.prefix = inside.split()


class Pooler:
    """pgbouncer in front of the server, with so many sessions."""

    def __init__(self, server, size):
        self.dir = tempfile.mkdtemp(dir=server.dir)
        shutil.chown(self.dir, "postgres", "postgres")
        os.chmod(self.dir, 0o755)
        lines = ["[databases]", f"postgres = host={server.sockets} pool_size={size} user=postgres", "[pgbouncer]", "listen_port = 5432", f"unix_socket_dir = {self.dir}",
                 "auth_type = any", "pool_mode = transaction", "max_client_conn = 200", f"logfile = {self.dir}/log", "ignore_startup_parameters = extra_float_digits,options"]
        write(f"{self.dir}/ini", "\n".join(lines) + "\n")
        self.process = subprocess.Popen([*server.args.prefix, *as_postgres(["pgbouncer", "-q", f"{self.dir}/ini"])], start_new_session=True, **QUIET)
        for _ in range(100):
            if os.path.exists(f"{self.dir}/.s.PGSQL.5432"):
                return
            time.sleep(0.1)
        with open(f"{self.dir}/log") as log:
            raise SystemExit(f"the pooler did not start: {log.read()[-1000:]}")

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()


class Server:
    """The server of a situation, with all that was made for it. `stack` takes it away again."""

    def __init__(self, args, situation, stack):
        self.args, self.situation, self.stack = args, situation, stack
        self.dir = tempfile.mkdtemp(prefix="pgdyno-limiter-", dir=args.tmp)
        stack.callback(remove_tree, self.dir)
        os.chmod(self.dir, 0o755)
        self.groups, self.device, self.network = Groups(f"pgdyno-limiter-{os.getpid()}"), None, None
        stack.callback(self.groups.remove)
        self.sockets = self.directory("sockets")

    def directory(self, name):
        path = os.path.join(self.dir, name)
        os.makedirs(path)
        shutil.chown(path, "postgres", "postgres")
        return path

    def build(self):
        of, base, wal = self.situation, self.dir, None
        if of.mbit:
            self.network = Network(of.mbit, self.stack)
        if of.device or of.mount:
            self.device = Device(self.dir, 4096, of.mount, self.stack)
            base = self.device.mount if of.device_holds in ("everything", "data") else self.dir
            wal = {"wal": os.path.join(self.device.mount, "wal"), "data": os.path.join(self.dir, "wal")}.get(of.device_holds)
        data = os.path.join(base, "data")
        os.makedirs(data)
        shutil.chown(data, "postgres", "postgres")
        initdb = [os.path.join(self.args.bindir, "initdb"), "-D", data, "-A", "trust", "-U", "postgres"]
        if wal:
            os.makedirs(wal)
            shutil.chown(wal, "postgres", "postgres")
            initdb += ["-X", wal]
        subprocess.run(as_postgres(initdb), check=True, cwd="/", **QUIET)
        if self.network:
            with open(os.path.join(data, "pg_hba.conf"), "a") as file:
                file.write("host all all 10.87.55.0/30 trust\n")
        settings = [f"listen_addresses={self.network.address if self.network else ''}", "max_connections=200", "max_wal_size=4GB", "log_checkpoints=on", *of.settings]
        self.start("primary", data, self.sockets, settings)
        self.load()
        if of.device_holds == "standby":
            self.add_standby(data, settings)

    def start(self, name, data, sockets, settings):
        options = [word for setting in settings for word in ("-c", setting)]
        command = as_postgres([os.path.join(self.args.bindir, "postgres"), "-D", data, "-k", sockets, *options])
        paths = [self.groups.path(controller) for controller in ("cpu", "blkio", "memory")]

        def enter():
            for path in paths:
                write(f"{path}/cgroup.procs", str(os.getpid()))

        log_path = os.path.join(self.dir, f"{name}.log")
        if self.situation.log_bytes_per_s:
            read_end, log = os.pipe()
        else:
            log = os.open(log_path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        process = subprocess.Popen([*self.args.prefix, *(self.network.prefix if self.network else []), *command], stdout=log, stderr=log, cwd="/",
                                   start_new_session=True, preexec_fn=enter)
        os.close(log)
        self.postmaster = process.pid
        self.stack.callback(self.end, process)
        if self.situation.log_bytes_per_s:
            self.log_rate = [0]
            threading.Thread(target=self.read_log, args=(read_end, log_path), daemon=True).start()
        for _ in range(300):
            if subprocess.run([self.args.tool("pg_isready"), "-q", "-h", sockets]).returncode == 0:
                return process
            time.sleep(0.1)
        with open(log_path) as log:
            raise SystemExit(f"the server did not start: {log.read()[-2000:]}")

    def end(self, process):
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGQUIT)
                process.wait()

    def add_standby(self, data, settings):
        """A copy of the stopped server that follows it, on the device. Commits wait for it."""
        with open(os.path.join(data, "postmaster.pid")) as file:
            pid = int(file.readline())
        os.kill(pid, signal.SIGINT)
        while os.path.exists(os.path.join(data, "postmaster.pid")):
            time.sleep(0.1)
        copy = os.path.join(self.device.mount, "data")
        subprocess.run(["cp", "-a", data, copy], check=True)
        write(os.path.join(copy, "standby.signal"), "")
        sockets = self.directory("standby-sockets")
        self.start("primary-again", data, self.sockets, settings)
        self.start("standby", copy, sockets, [*settings, f"primary_conninfo=host={self.sockets} user=postgres", "hot_standby=on"])
        self.sql("alter system set synchronous_standby_names = '*'")
        self.sql("select pg_reload_conf()")

    def read_log(self, pipe, path):
        fcntl.fcntl(pipe, 1031, 4096)
        with open(path, "wb") as log:
            while data := os.read(pipe, 4096):
                log.write(data)
                if self.log_rate[0]:
                    time.sleep(len(data) / self.log_rate[0])

    def url(self, directory=None):
        host = directory or (self.network.address if self.network else self.sockets)
        return f"host={host} user=postgres dbname=postgres"

    def psql(self, *words):
        return [self.args.tool("psql"), "-X", "-q", "-A", "-t", "-h", self.sockets, "-U", "postgres", *words, "postgres"]

    def sql(self, sql):
        return subprocess.run(self.psql("-c", sql), check=True, stdout=subprocess.PIPE, text=True).stdout

    def load(self):
        of = self.situation
        pgbench = [self.args.tool("pgbench"), "-h", self.sockets, "-U", "postgres", "-i", "-q", "-s", str(of.scale), "postgres"]
        subprocess.run(pgbench, check=True, **QUIET)
        for sql in of.sql:
            self.sql(sql)
        self.sql("vacuum analyze")
        if of.held:
            held = subprocess.Popen(self.psql(), stdin=subprocess.PIPE, text=True, start_new_session=True, **QUIET)
            self.stack.callback(lambda: (held.kill(), held.wait()))
            held.stdin.write(of.held + "\n")
            held.stdin.flush()
            time.sleep(1)
        for sql in [*of.sql_after, "checkpoint"]:
            self.sql(sql)

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
        self.quota(self.situation.cpu_percent)
        if self.situation.server_cpus:
            subprocess.run(["taskset", "-a", "-p", "-c", self.situation.server_cpus, str(self.postmaster)], check=True, **QUIET)
        if self.situation.log_bytes_per_s:
            self.log_rate[0] = self.situation.log_bytes_per_s

    def quota(self, percent):
        self.groups.limit("cpu", "cpu.cfs_quota_us", 1000 * percent if percent else -1)

    def free(self):
        """Takes the throttles away, so that the server stops soon."""
        self.quota(0)
        if self.situation.log_bytes_per_s:
            self.log_rate[0] = 0
        for what in self.situation.device:
            with contextlib.suppress(OSError):
                self.groups.limit("blkio", f"blkio.throttle.{what}_device", f"{self.device.number} 0")
        if self.situation.mount and os.path.ismount(self.device.mount):
            subprocess.run(["mount", "-o", "remount,async", self.device.mount], **APART)


class Hogs:
    """Processes that never sleep, on one processor, by default the last one."""

    def __init__(self, cpu=None, n=2):
        self.processes, self.cpu, self.n = [], cpu, n

    def __enter__(self):
        last = max(os.sched_getaffinity(0)) if self.cpu is None else self.cpu
        spin = f"import os; os.sched_setaffinity(0, {{{last}}})\nwhile True: pass"
        for _ in range(self.n):
            self.processes.append(subprocess.Popen([sys.executable, "-c", spin], start_new_session=True))
        return ["taskset", "-c", str(last)]

    def __exit__(self, *_):
        for process in self.processes:
            process.kill()
            process.wait()


class Later:
    """Sets a quota in the middle of each run's measurement, and takes it away when the run's clients are gone."""

    def __init__(self, args, server):
        self.args, self.server, self.stopped = args, server, threading.Event()
        self.thread = threading.Thread(target=self.work, daemon=True)
        self.thread.start()

    def n_clients(self):
        return int(self.server.sql("select count(*) from pg_stat_activity where backend_type = 'client backend'"))

    def wait_until(self, is_true):
        while not self.stopped.wait(0.3) and not is_true():
            pass

    def work(self):
        with contextlib.suppress(subprocess.CalledProcessError, OSError):
            while not self.stopped.is_set():
                self.wait_until(lambda: self.n_clients() > 12)
                self.stopped.wait(RAMP_UP_S + self.args.measure / 2)
                self.server.quota(self.server.situation.cpu_percent_later)
                self.stopped.wait(self.args.measure / 2)
                self.wait_until(lambda: self.n_clients() < 6)
                self.server.quota(0)

    def stop(self):
        self.stopped.set()
        self.thread.join()


@contextlib.contextmanager
def surroundings(args, server):
    """What is around a load: other processes, a pooler, a delay, the driver's control group. Yields the load, the address, and what runs first."""
    situation, load = server.situation, []
    for word in situation.load:
        if "\n" in word:
            path = os.path.join(server.dir, "script.sql")
            write(path, word)
            word = path
        load.append(word)
    with contextlib.ExitStack() as stack:
        prefix = stack.enter_context(Hogs()) if situation.is_driver_pinned else []
        if situation.n_hogs:
            stack.enter_context(Hogs(int(situation.server_cpus), situation.n_hogs))
        directory, enter = None, None
        if situation.delay_ms:
            directory = tempfile.mkdtemp(dir=server.dir)
            os.chmod(directory, 0o755)
            stack.callback(Delay(directory, server.sockets, situation.delay_ms / 1e3).stop)
        if situation.pool_size:
            pooler = Pooler(server, situation.pool_size)
            stack.callback(pooler.stop)
            directory = pooler.dir
        if situation.cpu_percent_later:
            stack.callback(Later(args, server).stop)
        if situation.alongside:
            path = os.path.join(server.dir, "alongside.sql")
            write(path, situation.alongside)
            other = subprocess.Popen([*args.prefix, args.tool("pgbench"), "-n", "-h", server.sockets, "-U", "postgres", "-f", path, "-T", "600", "postgres"],
                                     start_new_session=True, env={**os.environ, "PGAPPNAME": "somebody else"}, **QUIET)
            stack.callback(lambda: (other.kill(), other.wait()))
        if situation.driver_percent or situation.is_driver_inside:
            groups = server.groups if situation.is_driver_inside else Groups(f"pgdyno-driver-{os.getpid()}")
            if situation.driver_percent:
                groups.limit("cpu", "cpu.cfs_quota_us", 1000 * situation.driver_percent)
                stack.callback(groups.remove)
            group = f"{groups.path('cpu')}/cgroup.procs"
            enter = lambda: write(group, str(os.getpid()))
        yield load, server.url(directory), [*args.prefix, *prefix], enter


def measure(args, server, name):
    situation = server.situation
    with surroundings(args, server) as (load, url, prefix, enter):
        if "-w" in load:
            load += ["-s", str(situation.scale)]
        results = os.path.join(server.dir, "results")
        command = [*prefix, args.pgdyno, "run", "--server", url, "--no-restore", *load, "--ramp-up", f"{RAMP_UP_S}s", "--measure", f"{max(args.measure, situation.seconds)}s",
                   "--repeats", str(args.runs), "--set", "run.repeat_disturbed=0", *AS_LOADED, *situation.options, "--json", "-q", "-y", "-o", results]
        done = subprocess.run(command, capture_output=True, text=True, preexec_fn=enter)
    if not done.stdout.startswith("{"):
        raise SystemExit(f"{name}: {done.stderr}")
    if args.keep:
        kept = os.path.join(args.keep, args.version, name)
        remove_tree(kept)
        shutil.copytree(results, kept)
    return json.loads(done.stdout)


def pgbench(args, server):
    """What genuine pgbench does with the load, transactions per second."""
    with surroundings(args, server) as (load, url, prefix, enter):
        kinds = {"tpcb-select": ["-S"], "tpcb": [], "tpcb-simple": ["-N"]}
        words = kinds[load[1]] if load[0] == "-w" else load[:2]
        n_clients = load[load.index("-c") + 1]
        n_threads = load[load.index("--threads") + 1] if "--threads" in load else "2"
        command = [*prefix, args.tool("pgbench"), "-n", *words, "-c", n_clients, "-j", n_threads, "-T", str(args.measure), "-M", "prepared" if not server.situation.pool_size else "simple", url]
        done = subprocess.run(command, capture_output=True, text=True, preexec_fn=enter)
    rates = [line.split()[2] for line in done.stdout.splitlines() if line.startswith("tps = ")]
    return float(rates[-1]) if rates else 0.0


def judged(study):
    """The limiters of the runs that have one."""
    return [run["limiter"] for run in study["runs"] if run.get("limiter")]


def is_right(name, limiter):
    """The name is right, and, where the situation has them, words of the sentence and the runner-up."""
    of, second = ALL[name], (limiter.get("runner_up") or [""])[0]
    is_said = limiter["name"] != of.expected or of.words in limiter.get("evidence", of.words)
    return limiter["name"] in (of.expected, *of.or_else) and is_said and ("evidence" not in limiter or of.second in ("", second))


def show(name, study, is_verbose, took_s=None):
    found = judged(study)
    n_right = sum(is_right(name, limiter) for limiter in found)
    tps = study["cases"][0].get("tps_median") or 0.0
    print(f"{name:<18} {n_right}/{len(found)} right: {names(found)}  {tps:.0f} tps" + (f", {took_s:.0f} s" if took_s else ""), flush=True)
    for limiter in found if is_verbose else found[:1]:
        second = limiter.get("runner_up")
        print(f"    {limiter['evidence']}" + (f"; second {second[0]}: {second[1]}" if second else ""), flush=True)


def names(found, mark=lambda _, words: words):
    """`2 x wal-sync (medium), 1 x server-cpu (low)`."""
    counted = collections.Counter((limiter["name"], limiter["confidence"]) for limiter in found)
    return ", ".join(f"{n} x {mark(limiter, limiter)} ({confidence})" for (limiter, confidence), n in counted.most_common())


def row(args, name):
    """Builds a situation and measures: what pgdyno says, and, if asked for it, what genuine pgbench gives with the limit and without."""
    study = built(args, ALL[name], lambda server: (measure(args, server, name), args.lift and pgbench(args, server)))
    if args.lift and ALL[name].lift:
        lifted = built(args, dataclasses.replace(ALL[name], **ALL[name].lift), lambda server: pgbench(args, server))
        print(f"{name}: pgbench {study[1]:.0f} tps, and {lifted:.0f} with {', '.join(ALL[name].lift)} changed ({lifted / max(study[1], 0.1):.2f}x)", flush=True)
    return study[0]


def built(args, situation, work):
    """Builds a situation, works, and takes everything away again, whatever happens meanwhile."""
    stack = contextlib.ExitStack()
    try:
        server = Server(args, situation, stack)
        server.build()
        stack.callback(server.free)
        server.limit()
        return work(server)
    finally:
        handlers = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM)}
        stack.close()
        for number, handler in handlers.items():
            signal.signal(number, handler)


def table(studies):
    """The confusion table in Markdown: what was built, and what was named on each version. Wrong names are bold."""
    versions = sorted(studies, key=float)
    lines = ["| built | right | " + " | ".join(f"named on {version}" for version in versions) + " |", "|---|---|" + "---|" * len(versions)]
    for name in ALL:
        if not any(name in studies[version] for version in versions):
            continue
        right = " or ".join(f"`{limiter}`" for limiter in (ALL[name].expected, *ALL[name].or_else))
        mark = lambda limiter, words: f"`{words}`" if is_right(name, {"name": limiter}) else f"**`{words}`**"
        cells = [names(judged(studies[version][name]), mark) if name in studies[version] else "" for version in versions]
        lines.append(f"| {name} | {right} | " + " | ".join(cells) + " |")
    for version in versions:
        for title, group in (("of the table", SITUATIONS), ("of the mixtures", MIXTURES), ("of the unseen", UNSEEN)):
            known = [(name, judged(studies[version][name])) for name in group if name in studies[version]]
            n_right = sum(2 * sum(is_right(name, one) for one in found) > len(found) for name, found in known)
            wrong = [one["confidence"] for name, found in known for one in found if not is_right(name, one)]
            if known:
                sure = sum(confidence != "low" for confidence in wrong)
                lines.append(f"\n{version}: {n_right} of {len(known)} {title} are right in most runs; {len(wrong)} of {sum(len(found) for _, found in known)} runs are wrong, "
                             f"{sure} of them with more than low confidence.")
    return "\n".join(lines)


def judge(args):
    """Judges kept results with the present pgdyno."""
    studies = collections.defaultdict(dict)
    for path in glob.glob(os.path.join(args.judge, "*", "*")):
        version, name = path.split(os.sep)[-2:]
        if name in ALL and name in args.names:
            done = subprocess.run([args.pgdyno, "report", "--json", path], capture_output=True, text=True)
            if not done.stdout.startswith("{"):
                raise SystemExit(f"{path}: {done.stderr}")
            studies[version][name] = json.loads(done.stdout)
    for version, of in sorted(studies.items(), key=lambda item: float(item[0])):
        print(f"version {version}")
        for name in (name for name in ALL if name in of):
            show(name, of[name], args.verbose)
    return studies


def chosen(words):
    groups = {"table": SITUATIONS, "mixtures": MIXTURES, "unseen": UNSEEN, "all": ALL}
    chosen = [name for word in words.split(",") for name in groups.get(word, [word])]
    unknown = [name for name in chosen if name not in ALL]
    if unknown:
        raise SystemExit(f"no situation is called {', '.join(unknown)}; there are {', '.join(ALL)}, and the groups table, mixtures, unseen, all")
    return chosen


def tool(bindir):
    """The path of a client program: the server's own, or that of any version."""
    def find(name):
        places = [os.path.join(bindir, name), *sorted(glob.glob(f"/usr/lib/postgresql/*/bin/{name}"), reverse=True), shutil.which(name) or ""]
        found = next((path for path in places if os.access(path, os.X_OK)), None)
        return found or sys.exit(f"{name} is missing")
    return find


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bindir", default="/usr/lib/postgresql/15/bin", help="directory of the server's programs")
    parser.add_argument("--pgdyno", default=os.path.join(ROOT, "target/dist/pgdyno"))
    parser.add_argument("--only", default="table", help="situations, or the groups table, mixtures, all (default: table)")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--measure", type=int, default=10, help="seconds of each run")
    parser.add_argument("--tmp", default="/var/tmp")
    parser.add_argument("--keep", help="directory that gets the results, by version and situation")
    parser.add_argument("--judge", help="such a directory, whose results are judged again; nothing is measured")
    parser.add_argument("--lift", action="store_true", help="measure with pgbench what taking the limit away gives")
    parser.add_argument("--prefix", type=str.split, default=[], help="words before each command of a load: `nice -n -20` on a busy machine")
    parser.add_argument("--verbose", action="store_true", help="the evidence of each run, not only of the first")
    args = parser.parse_args()
    args.names, args.tool = chosen("all" if args.judge and args.only == "table" else args.only), tool(args.bindir)
    if args.judge:
        print(f"\n{table(judge(args))}")
        return
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    words = subprocess.run([os.path.join(args.bindir, "postgres"), "--version"], check=True, capture_output=True, text=True).stdout.split()
    args.version = words[2].split(".")[0] if int(words[2].split(".")[0]) >= 10 else ".".join(words[2].split(".")[:2])
    studies = {}
    for name in args.names:
        begin = time.monotonic()
        studies[name] = row(args, name)
        show(name, studies[name], args.verbose, time.monotonic() - begin)
    print(f"\n{table({args.version: studies})}")


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("interrupted; everything that was made is removed")
