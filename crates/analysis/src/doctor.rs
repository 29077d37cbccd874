//! Whether a host and a server are fit to measure and sensibly set: a table of rows, each with what was found, what is
//! wanted, why, who says so and how to mend it; and a table of what pgdyno cannot see or do there.
//!
//! Pure: whoever asks has looked at the host and the server before. What a number suffered from is judged after a run, by
//! `findings`.

mod data;
mod fix;
mod host;
mod log;
mod memory;
mod planner;
pub mod sight;
mod truth;
mod value;
mod wal;

use std::collections::BTreeMap;

use model::run::host::{HostRecord, MountRecord};
use model::run::rights::RoleRights;
use model::run::server::ServerRecord;
use serde::Serialize;

use crate::doctor::sight::{SIGHTS, Sighted};

/// How much a row weighs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DoctorVerdict {
    /// As it should be.
    Fine,
    /// It cannot be seen from here.
    Unseen,
    /// It could be better; numbers stand.
    Advice,
    /// Numbers that are measured like this are doubtful.
    Doubt,
    /// No number that is measured like this would count.
    Void,
}

/// Subject of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RowScope {
    /// The machine.
    Host,
    /// File systems and devices of data and WAL.
    Data,
    /// The server and the way to it.
    Server,
}

/// Owner of the host that was examined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum HostOf {
    /// No server was named: this machine, for a server that pgdyno would run on it.
    ThisMachine,
    /// The server's.
    Server,
    /// The driver's alone; the server is elsewhere.
    Driver,
}

/// All that is judged.
#[derive(Debug, Clone, Copy)]
pub struct Examined<'a> {
    /// The host.
    pub host: &'a HostRecord,
    /// Owner of the host.
    pub host_of: HostOf,
    /// What of the host could not be seen, with the reason.
    pub missing: &'a BTreeMap<String, String>,
    /// Time of reading the clock there, seconds, if it was measured.
    pub clock_s: Option<f64>,
    /// The server, if one was named.
    pub server: Option<&'a ServerRecord>,
    /// Rights of the role on it.
    pub rights: &'a RoleRights,
    /// Client sessions on it, those of this look included.
    pub n_sessions: Option<u32>,
    /// Names that fixes need.
    pub names: &'a FixNames,
}

/// Role, database and schema of the session that looked, which stand in statements that mend something. What is not known stays a
/// placeholder: `ROLE`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FixNames {
    /// Name of the role.
    pub role: Option<String>,
    /// Name of the database, as the server has it.
    pub database: Option<String>,
    /// Name of the schema in which tables would be created.
    pub schema: Option<String>,
}

/// A value that pgdyno can set for a row: the key of `[os]`, and values of which the first that the machine offers is set.
pub type Knob = (&'static str, &'static [&'static str]);

/// Whether the value that a kernel file has is one that the row wants. A row fails if one device of several does; the others
/// stay as they are.
pub fn is_as_wanted((key, values): Knob, now: &str) -> bool {
    if key == "read_ahead_kb" { data::is_read_ahead_enough(now) } else { values.contains(&now) }
}

/// One row: what is looked at, and the function that judges.
#[derive(Debug, Clone, Copy)]
pub struct DoctorRow {
    /// Identifier: `swappiness`.
    pub id: &'static str,
    /// Subject.
    pub scope: RowScope,
    /// Whether it matters on a machine that only drives.
    pub for_driver: bool,
    /// Wanted value.
    pub wanted: &'static str,
    /// What it does to a number or a server.
    pub why: &'static str,
    /// Who says so.
    pub source: &'static str,
    /// How to mend it.
    pub fix: &'static str,
    /// Value that `--apply` sets.
    pub knob: Option<Knob>,
    pub(crate) judge: fn(&Examined) -> RowVerdict,
}

/// Verdict of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RowVerdict {
    pub(crate) verdict: DoctorVerdict,
    pub(crate) found: String,
    /// How to mend it here, if that is more than the row's words.
    pub(crate) fix: Option<String>,
}

/// A row of one examination.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DoctorOutcome {
    /// Identifier of the row.
    pub id: &'static str,
    /// Subject.
    pub scope: RowScope,
    /// How much it weighs.
    pub verdict: DoctorVerdict,
    /// What was found, or why nothing was.
    pub found: String,
    /// Wanted value.
    pub wanted: &'static str,
    /// What it does to a number or a server.
    pub why: &'static str,
    /// Who says so.
    pub source: &'static str,
    /// How to mend it.
    pub fix: String,
    /// Findings of runs that it leads to.
    pub findings: Vec<&'static str>,
    /// Value that `--apply` sets.
    #[serde(skip)]
    pub knob: Option<Knob>,
}

/// A whole examination.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Diagnosis {
    /// Rows, the worst first; rows of equal weight as in [`COSTLY`], then as in [`ROWS`].
    pub rows: Vec<DoctorOutcome>,
    /// What pgdyno can see and do there, as in [`SIGHTS`]; empty without a server.
    pub sights: Vec<Sighted>,
}

impl Diagnosis {
    /// The heaviest verdict.
    pub fn worst(&self) -> DoctorVerdict {
        self.rows.iter().map(|row| row.verdict).max().unwrap_or(DoctorVerdict::Fine)
    }

    /// Rows of a verdict.
    pub fn of(&self, verdict: DoctorVerdict) -> impl Iterator<Item = &DoctorOutcome> {
        self.rows.iter().filter(move |row| row.verdict == verdict)
    }
}

/// Rows whose value costs most loads several percent of their throughput or latency in the studies that the rows name, the dearest first: our
/// order. What the others cost depends on a rare load, or they show more of a server and make it no faster.
pub const COSTLY: &[&str] = &[
    "shared-buffers",
    "max-wal-size",
    "wal-compression",
    "huge-pages",
    "checkpoint-timeout",
    "checkpoint-target",
    "wal-apart",
    "wal-buffers",
    "thp",
    "cpu-governor",
    "random-page-cost",
    "effective-cache-size",
    "autovacuum",
    "io-concurrency",
    "io-method",
    "bgwriter",
    "jit",
    "swappiness",
    "dirty-background",
    "dirty",
];

/// All rows: of the host, of data and WAL, of the server.
pub const ROWS: &[DoctorRow] = &[
    host::QUIET,
    host::CPU_QUOTA,
    host::MEMORY_LIMIT,
    host::CPU_GOVERNOR,
    host::CPU_IDLE,
    host::CLOCK,
    host::SCHED_AUTOGROUP,
    host::NUMA_BALANCING,
    host::OPEN_FILES,
    host::SOMAXCONN,
    host::REMOVE_IPC,
    memory::HUGE_PAGES,
    memory::THP,
    memory::THP_DEFRAG,
    memory::SWAPPINESS,
    memory::OVERCOMMIT,
    memory::DIRTY_BACKGROUND,
    memory::DIRTY,
    memory::ZONE_RECLAIM,
    memory::MAX_MAP_COUNT,
    data::FILE_SYSTEM,
    data::BARRIERS,
    data::DISK_SPACE,
    data::ATIME,
    data::READ_AHEAD,
    data::IO_SCHEDULER,
    data::WAL_APART,
    truth::WRITABLE,
    truth::FREE_SESSIONS,
    truth::ROUTE,
    truth::FSYNC,
    truth::FULL_PAGE_WRITES,
    truth::SYNCHRONOUS_COMMIT,
    truth::CHECKSUMS,
    truth::ASSERTIONS,
    truth::BUILD,
    log::STATEMENT_LOGGING,
    log::LOG_HOSTNAME,
    memory::SHARED_BUFFERS,
    wal::MAX_WAL_SIZE,
    wal::CHECKPOINT_TIMEOUT,
    wal::CHECKPOINT_TARGET,
    wal::WAL_BUFFERS,
    wal::WAL_COMPRESSION,
    planner::EFFECTIVE_CACHE_SIZE,
    planner::RANDOM_PAGE_COST,
    planner::IO_CONCURRENCY,
    planner::IO_METHOD,
    planner::JIT,
    planner::WORK_MEM,
    planner::PLANNER_METHODS_ON,
    planner::AUTOVACUUM,
    planner::AUTOVACUUM_NAPTIME,
    planner::BGWRITER,
    log::TRACK_IO_TIMING,
    log::TRACK_WAL_IO_TIMING,
    log::LOG_CHECKPOINTS,
    log::LOG_LOCK_WAITS,
    log::LOG_AUTOVACUUM,
    log::LOG_TEMP_FILES,
];

/// Judges what was seen.
pub fn diagnose(examined: &Examined) -> Diagnosis {
    let is_asked = |row: &&DoctorRow| row.scope != RowScope::Server || examined.server.is_some();
    let mut rows: Vec<DoctorOutcome> =
        ROWS.iter().filter(is_asked).map(|row| row.outcome(examined.judged(row), examined)).collect();
    let rank = |row: &DoctorOutcome| COSTLY.iter().position(|id| *id == row.id).unwrap_or(COSTLY.len());
    // A stable sort: the table's order stays for what costs little.
    rows.sort_by_key(|row| (std::cmp::Reverse(row.verdict), rank(row)));
    let sights = match examined.server {
        Some(server) => SIGHTS.iter().map(|sight| sight.seen(examined, server)).collect(),
        None => Vec::new(),
    };
    Diagnosis { rows, sights }
}

impl DoctorRow {
    fn outcome(&self, judged: RowVerdict, examined: &Examined) -> DoctorOutcome {
        let findings = crate::findings::DOCTOR_ROWS.iter().filter(|(_, row)| *row == self.id);
        DoctorOutcome {
            id: self.id,
            scope: self.scope,
            verdict: judged.verdict,
            found: judged.found,
            wanted: self.wanted,
            why: self.why,
            source: self.source,
            fix: fix::effective(self.id, judged.fix.unwrap_or_else(|| self.fix.to_string()), examined),
            findings: findings.map(|(finding, _)| *finding).collect(),
            knob: self.knob,
        }
    }
}

impl<'a> Examined<'a> {
    fn judged(&self, row: &DoctorRow) -> RowVerdict {
        let is_elsewhere = self.host_of == HostOf::Driver && !row.for_driver && row.scope != RowScope::Server;
        if is_elsewhere {
            return RowVerdict::unseen(ELSEWHERE);
        }
        let judged = (row.judge)(self);
        let is_idle =
            IDLE_ON_STANDBYS.contains(&row.id) && self.server.is_some_and(|server| server.in_recovery);
        if is_idle && judged.verdict > DoctorVerdict::Unseen {
            return RowVerdict::fine(format!("{}; a standby neither vacuums nor writes WAL", judged.found));
        }
        judged
    }

    /// A fact of the host, or the verdict that it is not visible.
    fn fact(&self, name: &str) -> Result<&'a str, RowVerdict> {
        let value = self.host.facts.get(name).map(String::as_str);
        value.ok_or_else(|| RowVerdict::unseen("the kernel does not show it here"))
    }

    /// A fact of the host that is a number.
    fn number(&self, name: &str) -> Result<f64, RowVerdict> {
        let text = self.fact(name)?;
        text.parse().map_err(|_| RowVerdict::unseen(format!("`{text}` is no number")))
    }

    /// A setting of the server, or the verdict that it has none.
    fn setting(&self, name: &str) -> Result<&'a str, RowVerdict> {
        let server = self.server.ok_or_else(|| RowVerdict::unseen("no server was named"))?;
        match server.setting(name) {
            Some(value) => Ok(value),
            None if server.hides(name) => Err(RowVerdict::unseen(format!("{name} is hidden from this role"))),
            None => Err(RowVerdict::fine(format!("PostgreSQL {} has no {name}", server.release()))),
        }
    }

    /// A setting that is a number.
    fn number_setting(&self, name: &str) -> Result<f64, RowVerdict> {
        let text = self.setting(name)?;
        text.parse().map_err(|_| RowVerdict::unseen(format!("`{text}` is no number")))
    }

    /// A setting that is a size, as the server writes it and in bytes.
    fn size(&self, name: &str) -> Result<(&'a str, f64), RowVerdict> {
        let text = self.setting(name)?;
        let bytes = value::bytes(text).ok_or_else(|| RowVerdict::unseen(format!("`{text}` is no size")))?;
        Ok((text, bytes))
    }

    /// The server's host, if it was seen.
    fn server_host(&self) -> Option<&'a HostRecord> {
        (self.host_of == HostOf::Server).then_some(self.host)
    }

    /// Memory that the server may use, bytes.
    fn server_memory(&self) -> Option<f64> {
        let host = self.server_host()?;
        let limit = host.facts.get("server_cgroup_memory_max_bytes").and_then(|bytes| bytes.parse().ok());
        let bytes = limit.unwrap_or(u64::MAX).min(host.memory_bytes);
        (bytes > 0).then_some(bytes as f64)
    }

    /// The file systems of data and WAL, or why they are not seen.
    fn mounts(&self) -> Result<Vec<(&'a str, &'a MountRecord)>, RowVerdict> {
        let all = ["data", "wal"].into_iter();
        let found: Vec<_> = all.filter_map(|role| Some((role, self.host.mounts.get(role)?))).collect();
        let reason =
            || self.missing.get("disk (data)").map_or("no directory of data is known", String::as_str);
        if found.is_empty() { Err(RowVerdict::unseen(reason())) } else { Ok(found) }
    }
}

/// Rows of work that a standby does not do: it takes WAL and replays it (PostgreSQL's documentation, hot standby).
const IDLE_ON_STANDBYS: [&str; 5] =
    ["autovacuum", "autovacuum-naptime", "log-autovacuum", "wal-compression", "wal-buffers"];

/// Why rows of the server's host are not seen.
const ELSEWHERE: &str = "the server was not found on this machine: --host ssh:HOST looks there";

impl RowVerdict {
    fn new(verdict: DoctorVerdict, found: impl Into<String>) -> RowVerdict {
        RowVerdict { verdict, found: found.into(), fix: None }
    }

    fn fine(found: impl Into<String>) -> RowVerdict {
        RowVerdict::new(DoctorVerdict::Fine, found)
    }

    fn unseen(reason: impl Into<String>) -> RowVerdict {
        RowVerdict::new(DoctorVerdict::Unseen, reason)
    }

    /// Fine, or else this verdict.
    fn unless(is_fine: bool, verdict: DoctorVerdict, found: impl Into<String>) -> RowVerdict {
        RowVerdict::new(if is_fine { DoctorVerdict::Fine } else { verdict }, found)
    }

    fn fix(self, fix: impl Into<String>) -> RowVerdict {
        RowVerdict { fix: Some(fix.into()), ..self }
    }
}

/// What a function of a row returns: a verdict either way, the second as soon as something is missing.
type Look = Result<RowVerdict, RowVerdict>;

fn either(look: Look) -> RowVerdict {
    look.unwrap_or_else(|verdict| verdict)
}

#[cfg(test)]
mod tests;
