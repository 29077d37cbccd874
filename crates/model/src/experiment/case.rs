//! One combination of factor levels with every value resolved: what a run measures.

pub mod carried;
pub mod encryption;
pub mod setting;
pub mod workload;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::directory::{AnalyticalSpec, WorkloadDirectory};
use crate::experiment::case::carried::Carried;
use crate::experiment::driver::DriverSpec;
use crate::experiment::hooks::HooksSpec;
use crate::experiment::keys;
use crate::experiment::keys::key::Key;
use crate::experiment::keys::value::KeyValue;
use crate::experiment::os::limits::Limits;
use crate::experiment::os::{OsSpec, WalPolicy};
use crate::experiment::plan::condition::Condition;
use crate::experiment::script::{CaseData, CaseScript};
use crate::experiment::target::{self, TargetSpec};
use crate::experiment::topology::outage::OutageSpec;
use crate::experiment::{Prepare, SpaceSpec};
use crate::load::course::Adapt;
use crate::load::{Pace, PollerChoice, Protocol, Window};
use crate::telemetry::import::Import;
use crate::text::prose::{plural, shown};
use crate::text::units::PgVersion;
use crate::text::word_enum::words;

pub use crate::directory;
pub use workload::WorkloadKind;

/// One combination of levels.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Case {
    /// Number of the case, from 1, in the order of the grid.
    pub id: u32,
    /// The levels of all factors as text, by key of the experiment file: `workload.clients` to `8`.
    pub levels: BTreeMap<String, String>,
    pub server: ServerSpec,
    /// The load.
    pub workload: WorkloadSpec,
    /// Durations of ramp-up, measurement window and grace.
    pub window: Window,
    /// Steps before the load.
    pub prepare: Prepare,
    /// Where the initial state is kept, for a server run by pgdyno.
    #[serde(default, skip_serializing_if = "SpaceSpec::is_default")]
    pub space: SpaceSpec,
    /// Values of the operating system.
    #[serde(default, skip_serializing_if = "OsSpec::is_empty")]
    pub os: OsSpec,
    /// Levels of what only hooks know, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub factors: BTreeMap<String, String>,
    /// Commands before and after the case and its runs.
    #[serde(default, skip_serializing_if = "HooksSpec::is_empty")]
    pub hooks: HooksSpec,
    /// The fault that is injected while the load runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outage: Option<OutageSpec>,
    /// Which checkpoints the run should have.
    #[serde(default, skip_serializing_if = "WalPolicy::is_as_is")]
    pub wal: WalPolicy,
    /// Which ends of the window are determined while the load runs.
    #[serde(default, skip_serializing_if = "Adapt::is_none")]
    pub adapt: Adapt,
    /// Time limit of each phase but the load, seconds; if absent, it depends on the size of the data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase_timeout_s: Option<u32>,
    /// What the machine's parts are declared to give.
    #[serde(default, skip_serializing_if = "Limits::is_empty")]
    pub limits: Limits,
    /// Whether host and server are not observed while the load runs.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_unobserved: bool,
    /// Values of keys as the experiment chose them, each by its name in its section.
    #[serde(flatten)]
    pub carried: Carried,
    /// Conditions of the study, which are no doubts about its numbers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Series that something else measures, which are taken into each run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub imports: Vec<Import>,
    /// The settings that the data is made under, if they are not those of the server: a change of one thing keeps its data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_settings: Option<BTreeMap<String, String>>,
}

impl Case {
    /// The only case of an experiment, with defaults for everything else.
    pub fn new(server: ServerSpec, workload: WorkloadSpec, window: Window) -> Case {
        Case {
            id: 1,
            levels: BTreeMap::new(),
            server,
            workload,
            window,
            prepare: Prepare::default(),
            space: SpaceSpec::default(),
            os: OsSpec::default(),
            factors: BTreeMap::new(),
            hooks: HooksSpec::default(),
            outage: None,
            wal: WalPolicy::default(),
            adapt: Adapt::default(),
            phase_timeout_s: None,
            limits: Limits::default(),
            is_unobserved: false,
            carried: Carried::default(),
            conditions: Vec::new(),
            imports: Vec::new(),
            data_settings: None,
        }
    }

    /// The value of a key that [cases carry](Carried).
    pub fn get<T: KeyValue>(&self, key: Key<T>) -> T::Chosen {
        self.carried.get(key)
    }

    /// Gives such a key a value.
    pub fn set<T: KeyValue>(&mut self, key: Key<T>, value: T::Chosen) {
        self.carried.set(key, &value);
    }

    /// The condition of the study about a setting that a server has with this value, if it states one.
    pub fn states(&self, setting: &str, value: &str) -> bool {
        self.conditions.iter().any(|condition| condition.names(setting) && condition.is_met_by(value))
    }

    /// The level of a factor by its whole key, or a label of the target: `target.provider`.
    pub fn level(&self, key: &str) -> Option<&str> {
        let label = || {
            let target = self.server.target.as_ref()?;
            target.labels.get(key.strip_prefix(target::LABEL)?)
        };
        self.levels.get(key).or_else(label).map(String::as_str)
    }

    /// All levels by whole keys, with the labels of the target.
    pub fn levels_and_labels(&self) -> BTreeMap<String, String> {
        let labels = self.server.target.iter().flat_map(|target| &target.labels);
        let mut all: BTreeMap<String, String> =
            labels.map(|(name, value)| (format!("{}{name}", target::LABEL), value.clone())).collect();
        all.extend(self.levels.clone());
        all
    }

    /// Short name for tables: the levels that vary, or the number of clients if nothing does.
    pub fn label(&self) -> String {
        if self.levels.is_empty() {
            return plural(self.workload.n_clients, "client");
        }
        let last = |key: &str| key.rsplit('.').next().map(str::to_string);
        let is_shared = |key: &str| self.levels.keys().filter(|other| last(other) == last(key)).count() > 1;
        let levels = self.levels.iter().map(|(key, level)| (key, shown(level)));
        let part = |(key, level): (&String, &str)| match key.rsplit('.').next().unwrap_or(key) {
            // `kind` alone would not say of what.
            _ if key == keys::pooler::KIND.name => format!("pooler {level}"),
            _ if is_shared(key) => format!("{key} {level}"),
            // As people say it.
            "clients" => plural(level, "client"),
            "transactions" => format!("{level} transactions"),
            "target" => level.to_string(),
            // The level is the whole connection string.
            "url" => self.server.source.with_sslmode(),
            name => format!("{name} {level}"),
        };
        levels.map(part).collect::<Vec<_>>().join(", ")
    }
}

/// Where the server comes from, and its settings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct ServerSpec {
    pub source: ServerSource,
    /// Settings (GUCs) that differ from the server's defaults; on a server by URL, those that are changed by ALTER SYSTEM.
    pub settings: BTreeMap<String, String>,
    /// Where it listens for drivers on other machines: an address of this machine, or an interface.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub listen: Option<String>,
    /// Whether the load's connections to it are encrypted.
    #[serde(default, skip_serializing_if = "Tls::is_off")]
    pub tls: Tls,
    /// Directory for the WAL on a separate device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wal_directory: Option<PathBuf>,
    /// Whether pages have checksums; `None`: the server's default (on since 18).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_checksums: Option<bool>,
    /// The target, in an experiment that names some.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<TargetSpec>,
    /// The host of a server by URL, if it lets us in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<DriverSpec>,
    /// The command that restarts a server by URL, for settings that change at a restart.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub restart: Vec<String>,
}

impl ServerSpec {
    /// A server with default settings.
    pub fn new(source: ServerSource) -> ServerSpec {
        ServerSpec {
            source,
            settings: BTreeMap::new(),
            listen: None,
            tls: Tls::Off,
            wal_directory: None,
            data_checksums: None,
            target: None,
            host: None,
            restart: Vec::new(),
        }
    }
}

words! {
    /// Whether the load's connections to a server that pgdyno runs are encrypted.
    Tls, "a choice for TLS" {
        /// None is.
        #[default]
        Off = "off",
        /// All are, and drivers verify the server's certificate.
        On = "on",
    }
}

impl Tls {
    /// Whether it is the default.
    pub fn is_off(&self) -> bool {
        *self == Tls::Off
    }
}

words! {
    /// What kind of binaries a version means.
    Build, "a kind of build" {
        /// Those that this machine has installed.
        #[default]
        Installed = "installed",
        /// Those that pgdyno fetches.
        Fetched = "fetched",
    }
}

/// Where a server comes from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ServerSource {
    /// Fetched by version and run by pgdyno.
    Version(PgVersion),
    /// Installed on this machine in this version, and run by pgdyno.
    Installed(PgVersion),
    /// The user's binaries, run by pgdyno.
    BinDir(PathBuf),
    /// Built from source by pgdyno, and run by it.
    Source {
        /// A directory or a git repository.
        tree: String,
        /// The revision of the repository; none for a directory as it is.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        revision: Option<String>,
    },
    /// A running server, as libpq keywords without the password.
    Url(BTreeMap<String, String>),
}

/// PostgreSQL's own repository.
pub const REPOSITORY: &str = "https://git.postgresql.org/git/postgresql.git";

impl ServerSource {
    /// A version as it can be had: 9.4 and 9.5, of which there are no binaries, are built from PostgreSQL's repository.
    pub fn of_version(version: PgVersion) -> ServerSource {
        match version.source_tag().filter(|_| version.last_before_binaries().is_some()) {
            Some(tag) => ServerSource::Source { tree: REPOSITORY.to_string(), revision: Some(tag) },
            None => ServerSource::Version(version),
        }
    }

    /// The version, if it is known by that.
    pub fn version(&self) -> Option<&PgVersion> {
        match self {
            ServerSource::Version(version) | ServerSource::Installed(version) => Some(version),
            ServerSource::BinDir(_) | ServerSource::Source { .. } | ServerSource::Url(_) => None,
        }
    }

    /// Whether pgdyno runs the server itself.
    pub fn is_embedded(&self) -> bool {
        !matches!(self, ServerSource::Url(_))
    }
}

impl fmt::Display for ServerSource {
    /// As people say it. For a server by URL only who connects to what, not how.
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            ServerSource::Version(version) | ServerSource::Installed(version) => {
                write!(f, "PostgreSQL {version}")
            }
            ServerSource::BinDir(dir) => write!(f, "binaries in {}", dir.display()),
            ServerSource::Source { tree, revision: Some(revision) } => {
                write!(f, "built from `{tree}` at {revision}")
            }
            ServerSource::Source { tree, revision: None } => write!(f, "built from `{tree}`"),
            ServerSource::Url(keywords) => {
                let of = |key: &str| keywords.get(key).map(String::as_str).unwrap_or_default();
                write!(f, "{}@{}:{}/{}", of("user"), of("host"), of("port"), of("dbname"))
            }
        }
    }
}

/// The load of a case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WorkloadSpec {
    /// Kind of the workload.
    pub kind: WorkloadKind,
    /// Scale units of data.
    pub scale: u32,
    /// How statements are sent.
    pub protocol: Protocol,
    /// Clients, each with one connection.
    pub n_clients: u32,
    /// Threads of each driver.
    pub n_threads: u32,
    /// Drivers on other machines that share the clients; none: one child process.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub drivers: Vec<DriverSpec>,
    /// When transactions are due.
    pub pace: Pace,
    /// Transactions of each client, if their number ends the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transactions: Option<u64>,
    /// How the driver waits for its connections.
    #[serde(default)]
    pub poller: PollerChoice,
    /// How long the driver polls before it sleeps, and how long before a due time it wakes up; microseconds.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub busy_poll_us: u32,
    /// Settings (GUCs) of the load's sessions alone, which they ask for when they connect.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub session_settings: BTreeMap<String, String>,
    /// How much later than it came the driver takes in each reply, microseconds.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub reply_delay_us: u32,
    /// Layout of the data.
    #[serde(default, skip_serializing_if = "Layout::is_plain")]
    pub layout: Layout,
    /// The longest message accepted from the server, and the most that is kept of one statement's rows; MiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_message_mib: Option<u32>,
    /// Most tries of a transaction that fails with 40001 or 40P01, if given; 0: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tries: Option<u32>,
    /// What a client does when it loses its connection.
    #[serde(default, skip_serializing_if = "OnLostConnection::is_default")]
    pub on_disconnect: OnLostConnection,
    /// Sessions that load the data in parallel, if given. The data does not depend on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load_streams: Option<u32>,
    /// Schema of the tables that pgdyno loads, if given; else the first of the search path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<String>,
    /// Tablespace of the tables and indexes that pgdyno loads, if given; else the server's `default_tablespace`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tablespace: Option<String>,
    /// The data it runs on.
    #[serde(default, skip_serializing_if = "CaseData::is_default")]
    pub data: CaseData,
    /// The scripts of the workload `scripts`; a built-in workload has its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scripts: Vec<CaseScript>,
    /// Variables given to the scripts, besides `scale`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub defines: BTreeMap<String, String>,
    /// The workload directory of which `scripts` and the data are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directory: Option<Box<WorkloadDirectory>>,
    /// Whether sessions only read, and transactions that would write are left out.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub only_reads: bool,
    /// Options of TPC-C.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tpcc: Option<TpccSpec>,
    /// TPROC-C: transactions are procedures instead of functions.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub procedures: bool,
    /// TPROC-C: each client cycles through its share of all warehouses.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub all_warehouses: bool,
}

/// How a TPC-C workload is run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TpccSpec {
    /// How a transaction's SQL is sent.
    pub calls: Calls,
    /// Whether terminals wait between transactions.
    pub think: Think,
    /// Isolation level of all transactions.
    pub isolation: Isolation,
}

words! {
    /// How a transaction's SQL is sent.
    Calls, "a way to call" {
        /// Statement by statement, with a round trip for each.
        #[default]
        Statements = "statements",
        /// One call of a PL/pgSQL function.
        Functions = "functions",
        /// One CALL of a PL/pgSQL procedure, which ends its transaction itself (PostgreSQL 11 and later).
        Procedures = "procedures",
    }
}

words! {
    /// Whether terminals wait between transactions.
    Think, "a think time" {
        /// Without waits: this departs from the specification, but most measurements do it.
        #[default]
        None = "none",
        /// Keying and think times of clause 5.2.5, and deliveries deferred (clause 2.7.2).
        Spec = "spec",
    }
}

words! {
    /// An isolation level.
    Isolation, "an isolation level" {
        /// The server's usual default.
        #[default]
        ReadCommitted = "read committed",
        /// Snapshot isolation.
        RepeatableRead = "repeatable read",
        /// Serializable.
        Serializable = "serializable",
    }
}

/// Layout of the tables. The default is plain: the largest is one table, and all write WAL.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Layout {
    /// Number of partitions; 0: not partitioned.
    pub partitions: u32,
    /// How rows are assigned to partitions.
    #[serde(default)]
    pub partition_method: PartitionMethod,
    /// Whether the tables are UNLOGGED: changing them writes no WAL, and a crash of the server empties them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unlogged: bool,
}

impl Layout {
    /// Whether it is the default.
    pub fn is_plain(&self) -> bool {
        self.partitions == 0 && !self.unlogged
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match (self.partitions, self.unlogged) {
            (0, false) => f.write_str("one table"),
            (0, true) => f.write_str("UNLOGGED tables"),
            (n, false) => write!(f, "{n} partitions by {}", self.partition_method.as_str()),
            (n, true) => write!(f, "UNLOGGED tables, {n} partitions by {}", self.partition_method.as_str()),
        }
    }
}

words! {
    /// How rows are assigned to partitions.
    PartitionMethod, "a partition method" {
        /// Ranges of the key.
        #[default]
        Range = "range",
        /// Hash of the key.
        Hash = "hash",
    }
}

impl WorkloadSpec {
    /// The workload directory that makes the data; `None` if the data is of another kind.
    pub fn data_directory(&self) -> Option<&WorkloadDirectory> {
        if self.data == CaseData::Directory { self.directory.as_deref() } else { None }
    }

    /// What an analytical workload asks of a load; `None` of all others.
    pub fn analytical(&self) -> Option<&AnalyticalSpec> {
        self.directory.as_deref()?.analytical.as_ref()
    }

    /// One client in a closed loop with prepared statements: a placeholder where no load is meant.
    pub fn new(kind: WorkloadKind, scale: u32) -> WorkloadSpec {
        WorkloadSpec {
            kind,
            scale,
            protocol: Protocol::Prepared,
            n_clients: 1,
            n_threads: 1,
            drivers: Vec::new(),
            pace: Pace::Closed,
            only_reads: false,
            transactions: None,
            poller: PollerChoice::Auto,
            busy_poll_us: 0,
            session_settings: BTreeMap::new(),
            reply_delay_us: 0,
            layout: Layout::default(),
            max_message_mib: None,
            max_tries: None,
            on_disconnect: OnLostConnection::default(),
            load_streams: None,
            schema: None,
            tablespace: None,
            data: kind.data(),
            scripts: Vec::new(),
            defines: BTreeMap::new(),
            directory: None,
            tpcc: None,
            procedures: false,
            all_warehouses: false,
        }
    }

    /// What people call the workload: its kind, or its directory with the variant.
    pub fn name(&self) -> String {
        self.directory.as_ref().map_or_else(|| self.kind.to_string(), |directory| directory.label())
    }
}

words! {
    /// What a client does when it loses its connection.
    OnLostConnection, "what a client does without its connection" {
        /// Ends, which voids the run.
        #[default]
        Abort = "abort",
        /// Connects again, to any host of the URL.
        Reconnect = "reconnect",
    }
}

impl OnLostConnection {
    fn is_default(&self) -> bool {
        *self == OnLostConnection::default()
    }
}

fn is_zero(n: &u32) -> bool {
    *n == 0
}
