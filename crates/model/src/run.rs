//! The record of one run: `run.json`.

pub mod applied;
pub mod ceilings;
pub mod concurrent;
pub mod driver;
pub mod eyes;
pub mod fidelity;
pub mod fingerprint;
pub mod hooks;
pub use crate::telemetry::host;
pub mod now;
pub mod phase;
pub mod profile;
pub mod residency;
pub mod rights;
pub mod server;
pub mod touched;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::experiment::case::Case;
use crate::experiment::plan::{RunSpec, RunState};
use crate::experiment::repeat::Repeat;
use crate::experiment::script::ScriptSurvey;
use crate::load::course::LoadCourse;
use crate::load::drive::{Done, Ready};
use crate::load::{LoadSpec, Pace, Window};
use crate::run::applied::Applied;
use crate::run::ceilings::Ceilings;
use crate::run::concurrent::ConcurrentRun;
use crate::run::driver::DriverRecord;
use crate::run::eyes::HostObserverRecord;
use crate::run::fidelity::ReplayRecord;
use crate::run::fingerprint::Fingerprint;
use crate::run::hooks::HookRecord;
use crate::run::host::HostRecord;
use crate::run::phase::{Phase, PhaseRecord};
use crate::run::residency::Residency;
use crate::run::server::node::{NodeRecord, PoolerRecord};
use crate::run::server::outage::OutageRecord;
use crate::run::server::plans::StatementPlan;
use crate::run::server::{LoadConnections, ServerRecord};
use crate::run::touched::Touched;

/// The smallest length of an interval that counts as a whole second.
pub const WHOLE_SECOND_NS: u64 = 999_000_000;

/// Everything about a run, and how it ended. Written when the run starts, and again when it ends.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct RunRecord {
    /// Format version, [`crate::FORMAT`].
    pub format: u32,
    /// Version of the pgdyno that made the run.
    pub tool_version: String,
    pub spec: RunSpec,
    /// The planned run that it repeats; `None` for a planned run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeat: Option<Repeat>,
    /// The case, resolved.
    pub case: Case,
    pub state: RunState,
    /// The reason, unless the run completed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The load as given to the driver.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<LoadSpec>,
    /// The server before the load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<ServerRecord>,
    /// The standbys that pgdyno ran, `s1` first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<NodeRecord>,
    /// The pooler that pgdyno ran, which the load went through.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pooler: Option<PoolerRecord>,
    /// The machine: the server's if there were eyes on it or it is this one, otherwise this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<HostRecord>,
    /// The machine of pgdyno and its driver, if `host` is another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver_host: Option<HostRecord>,
    /// The eyes on the server's host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eyes: Option<HostObserverRecord>,
    /// Whether the server ran on the machine whose host telemetry was recorded.
    #[serde(default)]
    pub server_is_local: bool,
    /// The most that the machine's parts can give, as far as that was known before the load.
    #[serde(default, skip_serializing_if = "Ceilings::is_empty")]
    pub ceilings: Ceilings,
    /// Phases in their order.
    pub phases: Vec<PhaseRecord>,
    /// When the load began, nanoseconds since the Unix epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub go_unix_ns: Option<u64>,
    /// The outage that was injected while the load ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outage: Option<Box<OutageRecord>>,
    /// The driver's `ready`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready: Option<Ready>,
    /// Each driver; none if the only one is a child of pgdyno.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub drivers: Vec<DriverRecord>,
    /// The load's connections before it began, as our own server saw them; only if it listens for drivers elsewhere.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub connections: Vec<LoadConnections>,
    /// The driver's `done`; of several drivers, the sum.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub done: Option<Done>,
    /// The course of a search for the highest rate, if it was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub search: Option<crate::load::capacity::SearchRecord>,
    /// The resulting window, if its ends were determined while the load ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub course: Option<LoadCourse>,
    /// Row counts that prove the data's state, by table, before the load.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub rows_before: BTreeMap<String, u64>,
    /// Sizes, indexes and checksums of the data before vacuum and analyze.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<Fingerprint>,
    /// Row counts after the drain, by table: the history must have grown by the committed transactions.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub rows_after: BTreeMap<String, u64>,
    /// Consistency conditions violated before the load, each with an example; only cheap ones are verified.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub violations_before: BTreeMap<String, String>,
    /// Consistency conditions violated after the drain.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub violations_after: BTreeMap<String, String>,
    /// Rows of each table that the load read and changed, from ramp-up to drain; empty where the server does not count.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub touched: BTreeMap<String, Touched>,
    /// How much of these tables and their indexes was in memory, if that was looked at.
    #[serde(default, skip_serializing_if = "Residency::is_empty")]
    pub residency: Residency,
    /// What the server reported about the user's own scripts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub survey: Option<ScriptSurvey>,
    /// Generic plans of the statements, of the first runs of each case.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub plans: Vec<StatementPlan>,
    /// What `workload.apply` did after the restore.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applied: Option<Applied>,
    /// The answers of queries that were compared with expected ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub answers: Vec<crate::load::execution::AnswerRecord>,
    /// The user's commands that were called for this run or its case, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hooks: Vec<HookRecord>,
    /// Runs of other lanes that were under way while the load of this one ran.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub concurrent: Vec<ConcurrentRun>,
    /// Statements that telemetry names, by identifier: their text without literals and comments.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub statements: BTreeMap<String, String>,
    /// The statements of a captured workload, at its source and in this run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replay: Option<Box<ReplayRecord>>,
    /// Telemetry that was not available, with the reason.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub telemetry_unavailable: BTreeMap<String, String>,
}

impl RunRecord {
    /// Whether the run was a side of a duet.
    pub fn took_turns(&self) -> bool {
        self.load.as_ref().is_some_and(|load| load.turns.is_some())
    }

    /// The record of a run that has just started, with nothing but its specification.
    pub fn new(spec: RunSpec, case: Case, tool_version: &str) -> RunRecord {
        RunRecord {
            format: crate::FORMAT,
            tool_version: tool_version.to_string(),
            spec,
            repeat: None,
            case,
            state: RunState::Started,
            reason: String::new(),
            load: None,
            server: None,
            nodes: Vec::new(),
            pooler: None,
            host: None,
            driver_host: None,
            eyes: None,
            server_is_local: false,
            ceilings: Ceilings::default(),
            phases: Vec::new(),
            go_unix_ns: None,
            outage: None,
            ready: None,
            drivers: Vec::new(),
            connections: Vec::new(),
            done: None,
            search: None,
            course: None,
            rows_before: BTreeMap::new(),
            fingerprint: None,
            rows_after: BTreeMap::new(),
            violations_before: BTreeMap::new(),
            violations_after: BTreeMap::new(),
            touched: BTreeMap::new(),
            residency: Residency::default(),
            survey: None,
            plans: Vec::new(),
            applied: None,
            answers: Vec::new(),
            hooks: Vec::new(),
            concurrent: Vec::new(),
            statements: BTreeMap::new(),
            replay: None,
            telemetry_unavailable: BTreeMap::new(),
        }
    }

    /// Whether pgdyno and its driver shared the processors of the machine that `host` describes.
    pub fn driver_is_on_host(&self) -> bool {
        self.eyes.as_ref().is_none_or(|eyes| eyes.is_here)
    }

    /// Whether every driver was on another machine than pgdyno.
    pub fn is_driven_from_elsewhere(&self) -> bool {
        !self.drivers.is_empty() && self.drivers.iter().all(|driver| !driver.is_here)
    }

    /// The hosts to which the load's connections went, if there were several: in random order, or one for each kind of transactions.
    /// Everything else went to the first that answered.
    pub fn spread_hosts(&self) -> Option<Vec<String>> {
        let load = self.load.as_ref()?;
        let mut hosts = places(&load.target);
        if let Some(reads) = &load.reads {
            let mut others = places(&reads.target);
            others.retain(|host| !hosts.contains(host));
            hosts.extend(others);
            return Some(hosts);
        }
        let is_random = load.target.get("load_balance_hosts").is_some_and(|value| value == "random");
        (is_random && hosts.len() > 1).then_some(hosts)
    }

    /// The machine of pgdyno and its driver.
    pub fn our_host(&self) -> Option<&HostRecord> {
        if self.driver_is_on_host() { self.host.as_ref() } else { self.driver_host.as_ref() }
    }

    /// The machine of the server, if it was observed.
    pub fn server_host(&self) -> Option<&HostRecord> {
        if self.server_is_local { self.host.as_ref() } else { None }
    }

    /// The window of the load: the resulting one, else the driver's, else the planned one.
    pub fn window(&self) -> Window {
        let course = self.course.map(|course| course.window);
        course.or(self.load.as_ref().map(|load| load.window)).unwrap_or(self.case.window)
    }

    /// The pace of the load: the driver's, else the planned one.
    pub fn pace(&self) -> Pace {
        self.load.as_ref().map_or(self.case.workload.pace, |load| load.pace)
    }

    /// Whether a search had time for its probes, so that figures can be computed of them. A results file may contain anything.
    ///
    /// # Errors
    /// Names what is impossible.
    pub fn check(&self) -> Result<(), String> {
        let load_s = self.window().load_s().max(self.case.window.load_s());
        self.search.as_ref().map_or(Ok(()), |search| search.check(load_s))
    }

    /// Whether second `t` of a run that lasted to the end of its window counts: the whole seconds of the window; a load that ends
    /// with its last transaction is complete then, not at the end of a second.
    pub fn measures(&self, t: u32, length_ns: u64) -> bool {
        self.window().measures(t)
            && (length_ns >= WHOLE_SECOND_NS || self.case.workload.transactions.is_some())
    }

    /// The record of a phase, if the run reached it.
    pub fn phase(&self, phase: Phase) -> Option<&PhaseRecord> {
        self.phases.iter().find(|record| record.phase == phase)
    }
}

/// A histogram and its interval.
#[derive(Debug, Clone, PartialEq)]
pub struct StampedHistogram {
    /// Number of the interval: whole seconds since `go`.
    pub t: u32,
    /// The histogram.
    pub line: crate::load::interval::HistogramLine,
}

/// All that is stored of one run, as read back from its directory.
#[derive(Debug, Clone, PartialEq)]
pub struct RunData {
    /// `run.json`.
    pub record: RunRecord,
    /// `intervals.jsonl`.
    pub intervals: Vec<crate::load::interval::Interval>,
    /// `latency.hlog.zst`, or `latency.hlog` of a run that has not ended. Statements have one histogram of each second, or one of
    /// the measurement ([`MEASURED`](crate::load::interval::MEASURED)), which is the rule for completed runs.
    pub histograms: Vec<StampedHistogram>,
    /// `readings.jsonl`.
    pub ticks: Vec<crate::telemetry::reading::Tick>,
    /// `events.jsonl`.
    pub events: Vec<crate::telemetry::event::Event>,
    /// `imports.jsonl`.
    pub imports: Vec<crate::telemetry::import::Imported>,
    /// `executions.jsonl`.
    pub executions: Vec<crate::load::execution::Execution>,
    /// `plans.jsonl`.
    pub plans: Vec<crate::load::execution::QueryPlan>,
    /// What could not be read (the torn last line of a run that was cut off is not damage).
    pub damage: Vec<String>,
}

impl RunData {
    /// What is needed of a run after it has been explained: its record and its damage.
    pub fn without_measurements(self) -> RunData {
        RunData {
            intervals: Vec::new(),
            histograms: Vec::new(),
            ticks: Vec::new(),
            events: Vec::new(),
            imports: Vec::new(),
            executions: Vec::new(),
            plans: Vec::new(),
            ..self
        }
    }
}

/// All that is stored of one experiment.
#[derive(Debug, Clone, PartialEq)]
pub struct ExperimentData {
    /// `plan.json`.
    pub plan: crate::experiment::plan::Plan,
    /// `experiment.toml`, verbatim.
    pub experiment_toml: String,
    /// `state.jsonl`.
    pub state: Vec<crate::experiment::plan::StateLine>,
    /// The runs that were started, in order.
    pub runs: Vec<RunData>,
    /// Profiles of cases, by extra runs that are not among `runs`.
    pub profiles: Vec<crate::run::profile::StoredProfile>,
}

/// Hosts and ports of connection keywords.
fn places(target: &BTreeMap<String, String>) -> Vec<String> {
    let list = |key: &str| target.get(key).into_iter().flat_map(|value| value.split(','));
    let ports: Vec<&str> = list("port").collect();
    let name = |(n, host): (usize, &str)| match ports.get(n).or(ports.first()) {
        Some(port) => format!("{host}:{port}"),
        None => host.to_string(),
    };
    list("host").enumerate().map(name).collect()
}
