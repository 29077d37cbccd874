//! The options of the command line, and their values. `parse.rs` reads them.

use model::load::{OnDisconnect, PollerChoice, Protocol};
use model::release::pgbench;
use workload::tpcb::Partitioning;

use super::getopt::Spec;
use crate::compat::Compat;
use crate::scripts::GivenScript;

/// What the command line asks for.
#[derive(Debug)]
pub(crate) enum Request {
    /// Create the tables.
    Init(ConnectionOptions, InitPlan),
    /// Offer load.
    Bench(ConnectionOptions, Box<BenchPlan>),
    /// Nothing more: help, a version or a list was printed.
    Nothing,
}

/// Where to connect.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ConnectionOptions {
    pub(crate) host: Option<String>,
    pub(crate) port: Option<String>,
    pub(crate) user: Option<String>,
    /// A name, a URL or a connection string; empty if the argument was empty.
    pub(crate) dbname: String,
}

/// How to create the tables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct InitPlan {
    /// Letters of `dtgGvpf` and spaces.
    pub(crate) steps: String,
    /// Scale units.
    pub(crate) scale: u32,
    /// Percent of each page.
    pub(crate) fillfactor: u8,
    /// A progress line every 5 s instead of every 100 000 rows.
    pub(crate) is_quiet: bool,
    /// Tables without WAL.
    pub(crate) unlogged: bool,
    /// Tablespace of tables.
    pub(crate) tablespace: Option<String>,
    /// Tablespace of primary keys.
    pub(crate) index_tablespace: Option<String>,
    /// How accounts are partitioned.
    pub(crate) partitioning: Option<Partitioning>,
    /// `--streams`, which pgbench does not have: sessions that fill and index partitions in parallel.
    pub(crate) n_streams: u32,
}

/// The load to offer.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct BenchPlan {
    /// At least one.
    pub(crate) scripts: Vec<GivenScript>,
    /// Whether one of them is built in.
    pub(crate) uses_builtin: bool,
    /// `-s`.
    pub(crate) scale: Option<u32>,
    /// `-D`.
    pub(crate) defines: Vec<(String, String)>,
    /// `-M`.
    pub(crate) protocol: Protocol,
    /// `-c`.
    pub(crate) n_clients: u32,
    /// `-j`, at most as many as clients.
    pub(crate) n_threads: u32,
    /// `-t` or `-T`.
    pub(crate) length: Length,
    /// `-C`.
    pub(crate) connect_each: bool,
    /// `-R`, transactions per second.
    pub(crate) rate_per_s: Option<f64>,
    /// `-L`, microseconds.
    pub(crate) latency_limit_us: Option<u64>,
    /// `--max-tries`; 0: no limit.
    pub(crate) max_tries: u32,
    /// Vacuum before the load: without `-n`.
    pub(crate) vacuums: bool,
    /// `-v`.
    pub(crate) vacuums_accounts: bool,
    /// `-P`, seconds; 0: no progress.
    pub(crate) progress_s: u32,
    /// `--progress-timestamp`.
    pub(crate) progress_timestamp: bool,
    /// `-r`.
    pub(crate) per_command: bool,
    /// `--failures-detailed`.
    pub(crate) failures_detailed: bool,
    /// `--verbose-errors`.
    pub(crate) verbose_errors: bool,
    /// `--exit-on-abort`.
    pub(crate) exit_on_abort: bool,
    /// `-l` and the options that go with it.
    pub(crate) log: Option<LogPlan>,
    /// Seed of all random numbers.
    pub(crate) seed: u64,
    /// Options that pgbench does not have.
    pub(crate) added: Added,
}

/// When the load ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Length {
    /// After this many transactions of each client.
    Transactions(u32),
    /// After this many seconds.
    Seconds(u32),
}

/// The transaction log.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LogPlan {
    /// `--log-prefix`.
    pub(crate) prefix: String,
    /// `--sampling-rate`.
    pub(crate) sampling_rate: f64,
    /// `--aggregate-interval`, seconds; 0: none.
    pub(crate) aggregate_interval_s: u32,
}

/// Options that pgbench does not have. None changes anything unless it is given.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Added {
    /// `--copy`.
    pub(crate) copy: bool,
    /// `--continue-on-error` of pgbench 19, with each release that is imitated.
    pub(crate) continue_on_error: bool,
    /// `--busy-poll`.
    pub(crate) busy_poll_us: u32,
    /// `--poller`.
    pub(crate) poller: PollerChoice,
    /// `--percentiles`.
    pub(crate) percentiles: bool,
    /// `--json`: a file, or `-`.
    pub(crate) json: Option<String>,
    /// `--on-disconnect`.
    pub(crate) on_disconnect: OnDisconnect,
    /// `--ramp-up`, seconds before the measurement.
    pub(crate) ramp_up_s: u32,
    /// `--grace`: seconds after the end at which running statements are cancelled.
    pub(crate) grace_s: Option<u32>,
    /// `--progress-last`: also the last, incomplete interval.
    pub(crate) progress_last: bool,
    /// `--stall-warning`: warn if no transaction ends for this many seconds.
    pub(crate) stall_warning_s: Option<u32>,
}

/// All options.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "named as on the command line")]
pub(crate) enum Opt {
    Builtin,
    Client,
    Connect,
    Dbname,
    Debug,
    Define,
    File,
    Fillfactor,
    Host,
    Initialize,
    InitSteps,
    Jobs,
    Log,
    LatencyLimit,
    NoVacuum,
    Port,
    Progress,
    Protocol,
    Quiet,
    ReportPerCommand,
    Rate,
    Scale,
    SelectOnly,
    SkipSomeUpdates,
    Time,
    Transactions,
    Username,
    VacuumAll,
    UnloggedTables,
    Tablespace,
    IndexTablespace,
    SamplingRate,
    AggregateInterval,
    ProgressTimestamp,
    LogPrefix,
    ForeignKeys,
    RandomSeed,
    ShowScript,
    Partitions,
    PartitionMethod,
    FailuresDetailed,
    MaxTries,
    VerboseErrors,
    ExitOnAbort,
    ContinueOnError,
    Compat,
    Copy,
    Poller,
    Percentiles,
    Json,
    OnDisconnect,
    RampUp,
    BusyPoll,
    Grace,
    ProgressLast,
    StallWarning,
    Streams,
}

/// The options of a release, and ours, in the order in which ambiguous names are listed.
pub(crate) fn specs(compat: Compat) -> Vec<Spec<Opt>> {
    const VALUE: bool = true;
    const FLAG: bool = false;
    let spec = |short, long, takes_value, id| Spec { short, long, takes_value, is_added: false, id };
    let mut specs = vec![
        spec(Some('b'), "builtin", VALUE, Opt::Builtin),
        spec(Some('c'), "client", VALUE, Opt::Client),
        spec(Some('C'), "connect", FLAG, Opt::Connect),
        spec(Some('D'), "define", VALUE, Opt::Define),
        spec(Some('f'), "file", VALUE, Opt::File),
        spec(Some('F'), "fillfactor", VALUE, Opt::Fillfactor),
        spec(Some('h'), "host", VALUE, Opt::Host),
        spec(Some('i'), "initialize", FLAG, Opt::Initialize),
        spec(Some('I'), "init-steps", VALUE, Opt::InitSteps),
        spec(Some('j'), "jobs", VALUE, Opt::Jobs),
        spec(Some('l'), "log", FLAG, Opt::Log),
        spec(Some('L'), "latency-limit", VALUE, Opt::LatencyLimit),
        spec(Some('n'), "no-vacuum", FLAG, Opt::NoVacuum),
        spec(Some('p'), "port", VALUE, Opt::Port),
        spec(Some('P'), "progress", VALUE, Opt::Progress),
        spec(Some('M'), "protocol", VALUE, Opt::Protocol),
        spec(Some('q'), "quiet", FLAG, Opt::Quiet),
        spec(Some('r'), "report-per-command", FLAG, Opt::ReportPerCommand),
        spec(Some('R'), "rate", VALUE, Opt::Rate),
        spec(Some('s'), "scale", VALUE, Opt::Scale),
        spec(Some('S'), "select-only", FLAG, Opt::SelectOnly),
        spec(Some('N'), "skip-some-updates", FLAG, Opt::SkipSomeUpdates),
        spec(Some('T'), "time", VALUE, Opt::Time),
        spec(Some('t'), "transactions", VALUE, Opt::Transactions),
        spec(Some('U'), "username", VALUE, Opt::Username),
        spec(Some('v'), "vacuum-all", FLAG, Opt::VacuumAll),
        spec(None, "unlogged-tables", FLAG, Opt::UnloggedTables),
        spec(None, "tablespace", VALUE, Opt::Tablespace),
        spec(None, "index-tablespace", VALUE, Opt::IndexTablespace),
        spec(None, "sampling-rate", VALUE, Opt::SamplingRate),
        spec(None, "aggregate-interval", VALUE, Opt::AggregateInterval),
        spec(None, "progress-timestamp", FLAG, Opt::ProgressTimestamp),
        spec(None, "log-prefix", VALUE, Opt::LogPrefix),
        spec(None, "foreign-keys", FLAG, Opt::ForeignKeys),
        spec(None, "random-seed", VALUE, Opt::RandomSeed),
        spec(None, "show-script", VALUE, Opt::ShowScript),
        spec(None, "partitions", VALUE, Opt::Partitions),
        spec(None, "partition-method", VALUE, Opt::PartitionMethod),
        spec(None, "failures-detailed", FLAG, Opt::FailuresDetailed),
        spec(None, "max-tries", VALUE, Opt::MaxTries),
        spec(None, "verbose-errors", FLAG, Opt::VerboseErrors),
    ];
    if compat.has(pgbench::DBNAME_OPTION) {
        // After `--connect`, where the lists of these releases have it.
        specs.insert(before_define(&specs), spec(Some('d'), "dbname", VALUE, Opt::Dbname));
        specs.push(spec(None, "debug", FLAG, Opt::Debug));
        specs.push(spec(None, "exit-on-abort", FLAG, Opt::ExitOnAbort));
    } else {
        specs.insert(before_define(&specs), spec(Some('d'), "debug", FLAG, Opt::Debug));
    }
    let added = |long, takes_value, id| Spec { short: None, long, takes_value, is_added: true, id };
    specs.extend([
        added("compat", VALUE, Opt::Compat),
        added("copy", FLAG, Opt::Copy),
        added("continue-on-error", FLAG, Opt::ContinueOnError),
        added("poller", VALUE, Opt::Poller),
        added("busy-poll", VALUE, Opt::BusyPoll),
        added("percentiles", FLAG, Opt::Percentiles),
        added("json", VALUE, Opt::Json),
        added("on-disconnect", VALUE, Opt::OnDisconnect),
        added("ramp-up", VALUE, Opt::RampUp),
        added("grace", VALUE, Opt::Grace),
        added("progress-last", FLAG, Opt::ProgressLast),
        added("stall-warning", VALUE, Opt::StallWarning),
        added("streams", VALUE, Opt::Streams),
    ]);
    specs
}

fn before_define(specs: &[Spec<Opt>]) -> usize {
    specs.iter().take_while(|spec| spec.long != "define").count()
}
