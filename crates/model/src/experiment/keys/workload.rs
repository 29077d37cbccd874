//! `[workload]`: the load.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::option::KeyOption;
use super::row::{Differs, KeyKind, SETTING, of_place, row};
use super::section;
use crate::directory::drawn::WorkloadFiles;
use crate::directory::{Replay, Speed};
use crate::experiment::case::workload::{WorkloadName, name};
use crate::experiment::case::{Calls, Isolation, OnLostConnection, PartitionMethod, Think};
use crate::experiment::keys::levels::Levels;
use crate::experiment::script::archive::RestoreFrom;
use crate::experiment::script::{DataChoice, ScriptEntry};
use crate::experiment::topology::Reads;
use crate::load::{Pace, PollerChoice, Protocol};
use crate::text::units::{Scale, SettingValue};

/// The files of each workload directory by its name without the variant.
pub type DirectoryTexts = BTreeMap<String, WorkloadFiles>;

/// The form of a directory's name: a path, or a word with a variant.
const DIRECTORY_FORM: &str = "[/:]";

section! {
    /// `[workload]`: the load.
    #[serde(deny_unknown_fields, default)]
    workload: WorkloadSection {
        /// `tpcb`, `tpcb-simple`, `tpcb-select`, `tpcc`, `tproc-c`, `scripts` for your own (see *Your own scripts*), or a workload
        /// directory: a built-in one, or yours by its path, which has a `/` (`./shop.workload`); with a variant as `ycsb:b`. pgbench's
        /// names are known, too: `tpcb-like`, `simple-update`, `select-only`
        KIND = kind: Levels<WorkloadName> = Levels::one(WorkloadName::default()),
            row(KeyKind::Or(&[KeyKind::Words(&name::NAMES), KeyKind::Pattern(DIRECTORY_FORM)]), "`tpcb`")
                .given_by(KeyOption::text("workload", "NAME,...", "What to run: tpcb, tpcb-simple, tpcb-select, tpcc, tproc-c, scripts; a name of pgbench's (simple-update); or a workload directory: ycsb, its variant ycsb:b, ./shop.workload").short('w')).whole();

        /// variant of the workload directory, such as the `b` of `ycsb:b`
        #[serde(skip_serializing_if = "Option::is_none")]
        VARIANT = variant: Option<Levels<String>>,
            row(KeyKind::Text, "the first one that the directory has").whole();

        /// value of an option of the workload directory (`pgdyno workload show` lists them); scripts see it as a variable
        #[serde(skip_serializing_if = "BTreeMap::is_empty")]
        OPTIONS = options: BTreeMap<String, Levels<SettingValue>>,
            of_place(SETTING, "that of the directory").whole();

        /// seed of the data of a workload directory, 0 to 999999999999999: another one makes other rows of the same kind
        #[serde(skip_serializing_if = "Option::is_none")]
        DATA_SEED = data_seed: Option<u64>,
            row(KeyKind::Whole(0, 999_999_999_999_999), "1");

        /// the files of workload directories as results have them, never read again: for each directory of `workload.kind` a table with the
        /// text of each file
        #[serde(skip_serializing_if = "BTreeMap::is_empty")]
        DIRECTORIES = directories: DirectoryTexts,
            of_place(KeyKind::Table, "");

        /// 1 to 1000000 scale units, `"fit"` (1 for a workload directory), or a multiple of memory such as `"3x RAM"` (see *Scale*)
        SCALE = scale: Levels<Scale> = Levels::one(Scale::Fit),
            row(KeyKind::Or(&[KeyKind::Whole(1, Scale::UNITS_MAX as u64), KeyKind::Text]), "`\"fit\"`")
                .given_by(KeyOption::quantity("scale", "N,...", "Scale units of data, `fit`, or a multiple of memory such as \"3x RAM\"").short('s').both("Scale units of data"));

        /// `simple`, `extended`, `prepared`
        #[serde(skip_serializing_if = "Option::is_none")]
        PROTOCOL = protocol: Option<Levels<Protocol>>,
            row(KeyKind::Words(&["simple", "extended", "prepared"]), "`prepared`, or `extended` behind a pooler that loses prepared statements")
                .given_by(KeyOption::text("protocol", "MODE,...", "How statements are sent: simple, extended, prepared").short('M'));

        /// number of clients, 1 to 100000
        CLIENTS = clients: Levels<u32> = Levels::one(1),
            row(KeyKind::Whole(1, 100_000), "1")
                .given_by(KeyOption::number("clients", "N,...", "1,16,64", "Numbers of clients; several make a factor: 1,8,32").short('c').both("Number of clients"));

        /// number of threads of each driver, at most one for each of its clients
        #[serde(skip_serializing_if = "Option::is_none")]
        THREADS = threads: Option<Levels<u32>>,
            row(KeyKind::Whole(1, 100_000), "one per 64 clients, at most half of the processors, at least 1")
                .given_by(KeyOption::number("threads", "N,...", "1,4", "Driver threads [default: one for every 64 clients, at most half of the processors]").both("Driver threads")).whole();

        /// how many drivers take part: the first ones of `[[driver]]`, or of the target's own
        #[serde(skip_serializing_if = "Option::is_none")]
        DRIVERS = drivers: Option<Levels<u32>>,
            of_place(KeyKind::Whole(1, u32::MAX as u64), "all").whole();

        /// how the driver waits for its connections: `auto` (io_uring where the kernel allows it, otherwise epoll),
        /// `io_uring`, `epoll`
        POLLER = poller: Levels<PollerChoice> = Levels::one(PollerChoice::Auto),
            row(KeyKind::Words(&PollerChoice::WORDS), "`auto`").whole();

        /// microseconds that a driver thread polls before it sleeps, and is awake before a due time, 0 to 1000000: more accurate latencies
        /// at the cost of a processor per thread ([METHODOLOGY](METHODOLOGY.md#our-own-bias))
        BUSY_POLL_US = busy_poll_us: Levels<u32> = Levels::one(0),
            // One second: the driver reports every second.
            row(KeyKind::Whole(0, 1_000_000), "0").whole();

        /// transactions per client, after which the run ends. There is no ramp-up, and a run that reaches the time limit `run.measure` is
        /// partial. Not in a duet, and not with `run.wal` on a server that pgdyno runs
        #[serde(skip_serializing_if = "Option::is_none")]
        TRANSACTIONS = transactions: Option<Levels<u64>>,
            row(KeyKind::Whole(1, i64::MAX as u64), "unlimited: time decides");

        /// `closed`, `"2000/s"` (Poisson arrivals; also `"poisson 2000/s"`), `"constant 2000/s"`, `"2000/s with p99 <= 10ms"`, whose report
        /// says first whether that latency was kept (p50, p90, p95, p99, p99.9), or `"max with p99 <= 10ms"`, a
        /// [search](METHODOLOGY.md#the-highest-rate) for the highest rate that meets a latency target (p50 to p99.9; us, ms, s), with
        /// `run.ramp_up` of at least 2s and `run.measure` of at least 26s. For a captured workload also `"x2"`, a multiple of its source's
        /// rate, with the default `"x1"`
        PACE = pace: Levels<Pace> = Levels::one(Pace::Closed),
            row(KeyKind::Text, "`closed`")
                .given_by(KeyOption::quantity("pace", "PACE,...", "When transactions are due: closed, 2000/s (random gaps), \"constant 2000/s\", \"500/s with p99 <= 20ms\" (which the report judges), \"max with p99 <= 10ms\" (a search)").both("When transactions are due, as for `run`: \"500/s\", \"constant 500/s\", \"500/s with p99 <= 20ms\", \"max with p99 <= 10ms\" [default: closed]"));

        /// whether sessions of a workload directory begin with `default_transaction_read_only`: a transaction that the server does not let
        /// write is left out and counted, and has not failed
        #[serde(skip_serializing_if = "Option::is_none")]
        ONLY_READS = only_reads: Option<bool>,
            row(KeyKind::Flag, "`false`")
                .given_by(KeyOption::switch("only-reads", true, "Only read: transactions of a workload directory that would write are left out and counted"));

        /// how a captured workload is run: `modelled` draws its transactions; `trace` runs each once in the sessions, in the order and at
        /// the pace of the source, and needs a trace (`pgdyno capture log --trace`)
        #[serde(skip_serializing_if = "Option::is_none")]
        REPLAY = replay: Option<Replay>,
            row(KeyKind::Words(&Replay::WORDS), "`modelled`")
                .given_by(KeyOption::text("replay", "HOW", "How a captured workload is run: modelled, or trace, each transaction once as at the source [default: modelled]"));

        /// how many times as fast as the source a trace is replayed, 0.001 to 1000
        #[serde(skip_serializing_if = "Option::is_none")]
        SPEED = speed: Option<Speed>,
            row(KeyKind::Or(&[KeyKind::Text, KeyKind::Number]), "1")
                .given_by(KeyOption::quantity("speed", "N", "How many times as fast as the source a trace is replayed [default: 1]"));

        /// number of partitions of `pgbench_accounts`, 0 to 10000; 0: not partitioned. PostgreSQL 11 or newer
        PARTITIONS = partitions: Levels<u32> = Levels::one(0),
            // PostgreSQL's documentation advises a few thousand at most.
            row(KeyKind::Whole(0, 10_000), "0");

        /// `range` or `hash`
        PARTITION_METHOD = partition_method: Levels<PartitionMethod> = Levels::one(PartitionMethod::Range),
            row(KeyKind::Words(&PartitionMethod::WORDS), "`range`").whole();

        /// whether the tables that pgdyno loads are UNLOGGED (pgbench's `--unlogged-tables`): changing them writes no WAL, and a crash of
        /// the server empties them. Each level has its own data. Your own SQL files say it in `create table`
        #[serde(skip_serializing_if = "Option::is_none")]
        UNLOGGED = unlogged: Option<Levels<bool>>,
            row(KeyKind::Flag, "`false`");

        /// the longest message accepted from the server, and the most memory for the rows of one statement, 1 to 1024 MiB
        #[serde(skip_serializing_if = "Option::is_none")]
        MAX_MESSAGE_MIB = max_message_mib: Option<u32>,
            // PostgreSQL's own limit for a field.
            row(KeyKind::Whole(1, 1024), "16");

        /// most tries of a transaction that fails with 40001 (serialization failure) or 40P01 (deadlock), as pgbench's `--max-tries`: the
        /// whole script again, with the same random numbers; 0: no limit. Latency includes all tries. Not for `tpcc` and `tproc-c`, which
        /// decide this themselves
        #[serde(skip_serializing_if = "Option::is_none")]
        MAX_TRIES = max_tries: Option<u32>,
            row(KeyKind::Whole(0, u32::MAX as u64), "1")
                .given_by(KeyOption::number("max-tries", "N", "5", "Most tries of a transaction after a serialization failure or a deadlock; 0: no limit [default: 1]"));

        /// what a client does that loses its connection: `abort`, which voids the run, or `reconnect`, to any host of the URL: at once if
        /// its session had committed something, else after 25 to 75 ms, drawn from the seed, until a transaction commits. Lost transactions
        /// count as failed or unknown, the outage as time without a connection
        #[serde(skip_serializing_if = "Option::is_none")]
        ON_DISCONNECT = on_disconnect: Option<OnLostConnection>,
            row(KeyKind::Words(&OnLostConnection::WORDS), "`abort`")
                .given_by(KeyOption::text("on-disconnect", "WHAT", "What a client does that loses its connection: abort, or reconnect to any host of the URL [default: abort]"));

        /// where transactions that only read go: `primary`, `standbys`, or `all` of them; each connection to one at random. In a mix with
        /// others, each client has a connection for either kind. A script with `to = "primary"` or `"reads"` says where it goes
        READS = reads: Levels<Reads> = Levels::one(Reads::Primary),
            row(KeyKind::Words(&Reads::WORDS), "`primary`").carried(Differs::Question).whole();

        /// whether each transaction writes a token of its client and its number, which counts the commits that an outage lost or doubled:
        /// `tpcb` and `tpcb-simple` into `pgbench_history.filler`, which pgbench leaves NULL; scripts with a transaction block into a table
        /// `pgdyno_ledger`, right before COMMIT. Other workloads have no ledger. A script that only reads needs none, but one that calls
        /// functions other than PostgreSQL's usual ones may write. Without an outage it shows what tokens cost
        #[serde(skip_serializing_if = "Option::is_none")]
        LEDGER = ledger: Option<Levels<bool>>,
            row(KeyKind::Flag, "`true` with an outage, if the workload can; else `false`").carried(Differs::Figures);

        /// number of sessions that load data concurrently, 1 to 256; the data do not depend on it
        #[serde(skip_serializing_if = "Option::is_none")]
        LOAD_STREAMS = load_streams: Option<u32>,
            // The server's processors limit loading, not the number of sessions.
            row(KeyKind::Whole(1, 256), "one per partition, for `tpcc` and `tproc-c` 3; at most one per processor");

        /// schema of the tables that pgdyno loads: every statement names it, and sessions of a workload directory have it as their search
        /// path. Not for your own data
        #[serde(skip_serializing_if = "Option::is_none")]
        SCHEMA = schema: Option<String>,
            row(KeyKind::Text, "the first schema of the search path that exists")
                .given_by(KeyOption::text("schema", "NAME", "Schema to load the tables into [default: the first existing one of the search path]"));

        /// existing tablespace of the tables, partitions and indexes that pgdyno loads, on a server by URL; the user needs CREATE on it.
        /// Each level has its own data. Not for your own data
        #[serde(skip_serializing_if = "Option::is_none")]
        TABLESPACE = tablespace: Option<Levels<String>>,
            of_place(KeyKind::Text, "the server's `default_tablespace`").whole();

        /// the first value of a variable of the scripts; a variable that nothing has set is never sent
        #[serde(skip_serializing_if = "BTreeMap::is_empty")]
        DEFINES = defines: BTreeMap<String, Levels<SettingValue>>,
            of_place(SETTING, "").whole();

        /// the data that scripts run on: `"tpcb"`, `"none"`, or `{files = ["schema.sql"]}`. Files whose statements reach programs or files of
        /// the server's machine only with `--allow-archive-as-superuser`
        #[serde(skip_serializing_if = "Option::is_none")]
        DATA = data: Option<DataChoice>,
            of_place(KeyKind::Or(&[KeyKind::Words(&["tpcb", "none"]), KeyKind::Files]), "`\"tpcb\"`; for a server by URL `\"none\"`");

        /// the data: an archive by `pg_dump -Fc` (a file) or `-Fd` (a directory), relative to the experiment file. On a server by URL, it
        /// needs an empty database that pgdyno made (`pgdyno init --create-database`) or that `--replace-database` names. As a superuser,
        /// also of a server that pgdyno runs, only with `--allow-archive-as-superuser`. With a built-in workload, `workload.scale` must be
        /// its number of branches or warehouses. Not with a workload directory that makes its own data
        #[serde(skip_serializing_if = "Option::is_none")]
        RESTORE_FROM = restore_from: Option<RestoreFrom>,
            of_place(KeyKind::Or(&[KeyKind::Text, KeyKind::Table]), "");

        /// SQL that runs after each run's restore and before its vacuum and analyze, as the owner of the data: an index, statistics, `ALTER
        /// TABLE … SET`. The next restore undoes it, so that it can be what B changes. On a server by URL only CREATE INDEX and CREATE
        /// STATISTICS on tables that pgdyno loads
        #[serde(skip_serializing_if = "Option::is_none")]
        APPLY = apply: Option<Levels<String>>,
            of_place(KeyKind::Text, "").carried(Differs::Figures).whole();

        /// scripts in pgbench's language, with weights
        #[serde(skip_serializing_if = "Vec::is_empty")]
        SCRIPTS = scripts: Vec<ScriptEntry>,
            of_place(KeyKind::List(&KeyKind::Or(&[KeyKind::Text, KeyKind::Script])), "required for `scripts`");

        /// for `tpcc` and `tproc-c`: `statements` (one round trip each; `tpcc` only), `functions`, or `procedures` (one call per
        /// transaction; procedures need PostgreSQL 11)
        #[serde(skip_serializing_if = "Option::is_none")]
        CALLS = calls: Option<Levels<Calls>>,
            row(KeyKind::Words(&Calls::WORDS), "`tpcc`: `statements`; `tproc-c`: `functions`").whole();

        /// for `tpcc`: `none`, or `spec` for keying times, think times and deferred deliveries
        #[serde(skip_serializing_if = "Option::is_none")]
        THINK = think: Option<Levels<Think>>,
            row(KeyKind::Words(&Think::WORDS), "`none`").whole();

        /// for `tpcc`: `read committed`, `repeatable read`, `serializable`
        #[serde(skip_serializing_if = "Option::is_none")]
        ISOLATION = isolation: Option<Levels<Isolation>>,
            row(KeyKind::Words(&Isolation::WORDS), "`read committed`").whole();

        /// for `tproc-c`: each client cycles through its share of all warehouses instead of staying in one
        #[serde(skip_serializing_if = "Option::is_none")]
        ALL_WAREHOUSES = all_warehouses: Option<Levels<bool>>,
            row(KeyKind::Flag, "`false`").whole();
    }
}
