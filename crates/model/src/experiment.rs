//! The experiment file: what to measure. A list makes its key a factor; unknown keys are errors.

pub mod agents;
pub mod case;
pub mod comparison;
pub mod driver;
pub mod hooks;
pub mod levels;
pub mod origin;
pub mod os;
pub mod plan;
pub mod prepare;
pub mod repeat;
pub mod script;
pub mod selector;
pub mod target;
pub mod wal;

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::experiment::agents::AgentsSection;
use crate::experiment::case::{
    Build, Calls, Isolation, OnLostConnection, PartitionMethod, Think, Tls, WorkloadKind,
};
use crate::experiment::driver::DriverSpec;
use crate::experiment::driver::inventory::DriverSection;
use crate::experiment::hooks::HooksSection;
use crate::experiment::levels::Levels;
use crate::experiment::os::limits::Limits;
use crate::experiment::os::{OsSection, WalPolicy};
use crate::experiment::plan::condition::Condition;
use crate::experiment::plan::figure::FigureSection;
use crate::experiment::plan::{Design, RunOrder};
use crate::experiment::script::archive::RestoreFrom;
use crate::experiment::script::{DataChoice, ScriptEntry};
use crate::experiment::selector::Selector;
use crate::experiment::target::TargetSection;
use crate::load::course::RampUp;
use crate::load::{Pace, PollerChoice, Protocol};
use crate::telemetry::import::Import;
use crate::text::share::Share;
use crate::text::units::{PgVersion, Scale, SettingValue, Span};
pub use prepare::{Prepare, PrepareSection, RestoreBy, SpaceSpec};

/// An experiment file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// Name, order, repeats.
    pub experiment: Header,
    /// The server under test.
    #[serde(default)]
    pub server: ServerSection,
    /// Servers in different places; a factor.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub target: Vec<TargetSection>,
    /// Drivers on other machines; without any, one child process.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub driver: Vec<DriverSection>,
    /// Drivers that wait at a NATS server: they become [`Experiment::driver`] when the experiment begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agents: Option<AgentsSection>,
    /// The load.
    #[serde(default)]
    pub workload: WorkloadSection,
    /// Durations of the phases.
    #[serde(default)]
    pub run: RunSection,
    /// Steps before each run.
    #[serde(default)]
    pub prepare: PrepareSection,
    /// What the server's devices and network are declared to give.
    #[serde(default, skip_serializing_if = "Limits::is_empty")]
    pub limits: Limits,
    /// Values of the operating system.
    #[serde(default, skip_serializing_if = "OsSection::is_empty")]
    pub os: OsSection,
    /// What pgdyno does not know, by name: only the user's hooks set it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub factors: BTreeMap<String, Levels<SettingValue>>,
    /// Commands before and after cases and runs.
    #[serde(default, skip_serializing_if = "HooksSection::is_empty")]
    pub hooks: HooksSection,
    /// Series that something else measures, which are taken into each run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub import: Vec<Import>,
    /// Figures of the study that the experiment repeats.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub figure: Vec<FigureSection>,
}

/// `[experiment]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// Short name: part of the results directory's name.
    pub name: String,
    /// Title for reports.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub title: String,
    /// The question that the experiment answers.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Seed of the order and of every random stream; if absent, it is drawn and recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// How often each case is run.
    #[serde(default = "three")]
    pub repeats: u32,
    /// Which combinations of levels become cases.
    #[serde(default)]
    pub design: Design,
    /// Order of the runs.
    #[serde(default)]
    pub order: RunOrder,
    /// Factors that vary together: their first levels form one combination, their second ones the next.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub zip: Vec<Vec<String>>,
    /// Combinations to leave out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exclude: Vec<Selector>,
    /// Conditions of the study: each run is held against them, and reports print them next to every figure.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// The case that reports compare the others with: the first one selected; by default the first case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub baseline: Option<Selector>,
}

fn three() -> u32 {
    3
}

/// `[server]`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ServerSection {
    /// Versions to run: those that are installed here, else fetched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<Levels<PgVersion>>,
    /// What kind of build a version means; by default an installed one, if all versions are installed here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub build: Option<Build>,
    /// Directories with the user's own binaries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bin_dir: Option<Levels<PathBuf>>,
    /// PostgreSQL source trees or git repositories to build and run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<Levels<String>>,
    /// Tags, branches or commits of the repository.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<Levels<String>>,
    /// A running server, as libpq takes it: URL, key=value, or empty for the PG* environment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Its host, if it lets us in: its processors, disks and networks are observed there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<DriverSpec>,
    /// The command that restarts a server by URL, for settings that change at a restart.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub restart: Vec<String>,
    /// Where a server run by pgdyno listens for drivers on other machines: a private address of this machine, or the name
    /// of an interface; without it, on a unix socket only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub listen: Option<String>,
    /// Whether the load's connections are encrypted; only with `listen`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<Levels<Tls>>,
    /// Directory for the WAL on a separate device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wal_directory: Option<Levels<PathBuf>>,
    /// Whether pages have checksums; by default as the server's initdb decides (on since 18).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data_checksums: Option<Levels<bool>>,
    /// Settings (GUCs) by name; `25%` of memory for settings that are sizes.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub settings: BTreeMap<String, Levels<SettingValue>>,
}

/// `[workload]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct WorkloadSection {
    /// Kind of the workload.
    pub kind: Levels<WorkloadKind>,
    /// Amount of data.
    pub scale: Levels<Scale>,
    /// How statements are sent.
    pub protocol: Levels<Protocol>,
    /// Numbers of clients.
    pub clients: Levels<u32>,
    /// Driver threads, of each driver; by default one for every 64 of its clients, at most half of the processors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threads: Option<Levels<u32>>,
    /// How many of the drivers take part, the first ones; by default all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drivers: Option<Levels<u32>>,
    /// How the driver waits for its connections: `auto`, `io_uring` or `epoll`.
    pub poller: Levels<PollerChoice>,
    /// How long the driver polls before it sleeps, and how long before a due time it wakes up; microseconds.
    pub busy_poll_us: Levels<u32>,
    /// Transactions of each client: the run ends when all are done. Without it, the run ends by time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transactions: Option<Levels<u64>>,
    /// When transactions are due.
    pub pace: Levels<Pace>,
    /// Number of partitions of the largest table; 0: not partitioned.
    pub partitions: Levels<u32>,
    /// How rows are assigned to partitions.
    pub partition_method: Levels<PartitionMethod>,
    /// The longest message accepted from the server, and the most that is kept of one statement's rows; MiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_message_mib: Option<u32>,
    /// Most tries of a transaction that fails with 40001 or 40P01; 0: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tries: Option<u32>,
    /// What a client does when it loses its connection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_disconnect: Option<OnLostConnection>,
    /// Sessions that load data in parallel; by default one per partition, at most one per processor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load_streams: Option<u32>,
    /// Schema of the tables that pgdyno loads; by default the first existing one of the search path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schema: Option<String>,
    /// Variables of the scripts, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub defines: BTreeMap<String, Levels<SettingValue>>,
    /// The data that the scripts run on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<DataChoice>,
    /// An archive of `pg_dump -Fc` or `-Fd` that is the data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restore_from: Option<RestoreFrom>,
    /// The scripts of the workload `scripts`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub scripts: Vec<ScriptEntry>,
    /// TPC-C: how a transaction's SQL is sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calls: Option<Levels<Calls>>,
    /// TPC-C: whether terminals wait between transactions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub think: Option<Levels<Think>>,
    /// TPC-C: isolation level of all transactions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub isolation: Option<Levels<Isolation>>,
    /// TPROC-C: each client cycles through its share of all warehouses, instead of using one drawn at the beginning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub all_warehouses: Option<Levels<bool>>,
}

impl Default for WorkloadSection {
    fn default() -> WorkloadSection {
        WorkloadSection {
            kind: Levels::one(WorkloadKind::Tpcb),
            scale: Levels::one(Scale::Fit),
            protocol: Levels::one(Protocol::Prepared),
            clients: Levels::one(1),
            threads: None,
            drivers: None,
            poller: Levels::one(PollerChoice::Auto),
            busy_poll_us: Levels::one(0),
            transactions: None,
            pace: Levels::one(Pace::Closed),
            partitions: Levels::one(0),
            partition_method: Levels::one(PartitionMethod::Range),
            max_message_mib: None,
            max_tries: None,
            on_disconnect: None,
            load_streams: None,
            schema: None,
            defines: BTreeMap::new(),
            data: None,
            restore_from: None,
            scripts: Vec::new(),
            calls: None,
            think: None,
            isolation: None,
            all_warehouses: None,
        }
    }
}

/// `[run]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RunSection {
    /// Load before the measurement window, in whole seconds, or `auto`: until it is steady.
    pub ramp_up: Levels<RampUp>,
    /// The longest ramp-up with `auto`; by default two minutes, or the measurement window if that is longer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ramp_up_max: Option<Span>,
    /// Length of the measurement window in whole seconds; with `workload.transactions`, the longest it may take.
    pub measure: Levels<Span>,
    /// How much the measurement window may grow while the load in it is not steady, in whole seconds.
    #[serde(skip_serializing_if = "is_zero")]
    pub extend: Span,
    /// Time that transactions in flight get at the end.
    pub grace: Levels<Span>,
    /// Time limit of each phase but the load; by default it depends on the size of the data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase_timeout: Option<Span>,
    /// How often a run is repeated that something else on the machine disturbed; 0: never.
    pub repeat_disturbed: u32,
    /// The share of failed transactions above which a run is doubtful; above ten times that it is void. By default 1 %.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_failed: Option<Share>,
    /// Which checkpoints a run should have.
    pub wal: Levels<WalPolicy>,
    /// Whether host and server are observed while the load runs.
    pub telemetry: Levels<bool>,
    /// Whether counters of processor and kernel are read over the server's processes.
    #[serde(skip_serializing_if = "is_only_off")]
    pub counters: Levels<bool>,
    /// Whether an extra run of each case, which does not count, records where the server spends its processor time.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub perf: bool,
    /// Whether the ceilings of devices, processors and network are measured before the first run, unless they are known.
    pub calibrate: bool,
    /// How many servers run by pgdyno may have their data on disk at the same time: 1, or all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub servers_at_a_time: Option<u32>,
    /// Whether targets of different hosts are measured side by side.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub parallel_targets: bool,
}

impl Default for RunSection {
    fn default() -> RunSection {
        RunSection {
            ramp_up: Levels::one(RampUp::For(Span::from_s(10))),
            ramp_up_max: None,
            measure: Levels::one(Span::from_s(60)),
            extend: Span::from_s(0),
            grace: Levels::one(Span::from_s(10)),
            phase_timeout: None,
            repeat_disturbed: 2,
            max_failed: None,
            wal: Levels::one(WalPolicy::AsIs),
            telemetry: Levels::one(true),
            counters: Levels::one(false),
            perf: false,
            calibrate: false,
            servers_at_a_time: None,
            parallel_targets: false,
        }
    }
}

impl RunSection {
    /// The longest ramp-up before a measurement window of this length.
    pub fn ramp_up_longest(&self, ramp_up: RampUp, measure: Span) -> Span {
        match ramp_up {
            RampUp::For(span) => span,
            RampUp::Auto => self.ramp_up_max.unwrap_or(RAMP_UP_MAX.max(measure)),
        }
    }
}

/// How long `auto` waits for a steady load by default: longer than most caches take to fill, short enough to wait in
/// every run.
const RAMP_UP_MAX: Span = Span::from_s(120);

fn is_only_off(levels: &Levels<bool>) -> bool {
    *levels == Levels::one(false)
}

fn is_zero(span: &Span) -> bool {
    span.ms == 0
}
