//! What a committed transaction costs the server: figures that a neighbour's noise hardly moves.
//!
//! Each row of [`COSTS`] is one cost; it exists if and only if it is listed here. A cost is a counter's increase over the measurement,
//! divided by the transactions of the same time. Waiting, contention and the time of reads and writes are no cost: a change can
//! make each transaction cheaper and all of them slower.

use model::load::interval::Counts;
use model::run::RunData;

use crate::run::timeline::Timeline;
use crate::run::usage::Usage;
use crate::summary::cost::{CostFigure, WorkDone};
use crate::summary::{CounterSummary, Second};

/// One cost of a transaction.
#[derive(Debug, Clone, Copy)]
pub struct CostRow {
    /// Name: `wal`.
    pub id: &'static str,
    /// What it is, as in a table: `WAL`.
    pub title: &'static str,
    /// What a transaction does with it: `writes`.
    pub verb: &'static str,
    /// What there is more or less of, after the verb: `WAL`.
    pub noun: &'static str,
    /// Unit of its figures.
    pub unit: CostUnit,
    /// Below this on both sides, nobody asks whether it differs.
    pub least: f64,
    /// The largest difference that does not matter, as a share.
    pub margin: f64,
    /// Standard deviation of logarithms from run to run that is assumed where runs do not say. Our A/A runs.
    pub assumed_sd: f64,
    /// Where it comes from.
    pub source: &'static str,
    /// What it amounts to over the first so many transactions of a load, if that depends on their number.
    pub(crate) at_work: Option<fn(&WorkDone) -> Option<f64>>,
    of_run: fn(&CostContext) -> Option<f64>,
}

/// Unit of a cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CostUnit {
    /// Microseconds.
    Microseconds,
    /// Bytes.
    Bytes,
    /// A plain number.
    Count,
}

/// A run whose costs are computed.
pub(crate) struct CostContext<'a> {
    usage: &'a Usage<'a>,
    from_s: f64,
    to_s: f64,
    /// Transactions that the driver committed per second.
    committed_per_s: f64,
    counters: Option<&'a CounterSummary>,
}

/// All costs, in the order of tables.
pub const COSTS: &[CostRow] = &[
    CostRow {
        id: "cpu",
        title: "processor time",
        verb: "needs",
        noun: "processor time",
        unit: CostUnit::Microseconds,
        least: 1.0,
        margin: 0.02,
        assumed_sd: 0.03,
        source: "user and system time of the server's processes (/proc)",
        at_work: None,
        of_run: |run| {
            Some(1e6 * (run.per_transaction("server.cpu.user")? + run.per_transaction("server.cpu.system")?))
        },
    },
    CostRow {
        id: "instructions",
        title: "instructions",
        verb: "executes",
        noun: "instructions",
        unit: CostUnit::Count,
        least: 1.0,
        margin: 0.01,
        assumed_sd: 0.01,
        source: "instructions of the server's processes (perf_event_open), with run.counters",
        at_work: None,
        of_run: |run| run.counters?.event("instructions")?.per_transaction,
    },
    CostRow {
        id: "wal",
        title: "WAL",
        verb: "writes",
        noun: "WAL",
        unit: CostUnit::Bytes,
        least: 1.0,
        margin: 0.01,
        assumed_sd: 0.02,
        source: "bytes of WAL (pg_current_wal_lsn)",
        at_work: Some(|work| Some(work.wal_bytes)),
        of_run: |run| run.per_transaction("server.wal_bytes"),
    },
    CostRow {
        id: "wal-records",
        title: "WAL records",
        verb: "writes",
        noun: "WAL records",
        unit: CostUnit::Count,
        least: 0.01,
        margin: 0.005,
        assumed_sd: 0.005,
        source: "records of WAL (pg_stat_wal, 14 and later)",
        at_work: None,
        of_run: |run| run.per_commit("server.wal_records"),
    },
    CostRow {
        id: "images",
        title: "full-page images",
        verb: "writes",
        noun: "full-page images",
        unit: CostUnit::Count,
        least: 0.01,
        margin: 0.02,
        assumed_sd: 0.05,
        source: "full-page images in the WAL (pg_stat_wal, 14 and later; each page once after a checkpoint, so longer runs have fewer)",
        at_work: Some(|work| work.images),
        of_run: |run| run.per_commit("server.wal_full_page_images"),
    },
    CostRow {
        id: "wal-syncs",
        title: "WAL syncs",
        verb: "makes",
        noun: "WAL syncs",
        unit: CostUnit::Count,
        least: 0.001,
        margin: 0.02,
        assumed_sd: 0.05,
        source: "syncs of WAL (pg_stat_wal, 14 to 17; pg_stat_io, 18 and later)",
        at_work: None,
        of_run: |run| run.per_commit("server.wal_syncs").or_else(|| run.per_transaction_of_key(WAL_FSYNCS)),
    },
    CostRow {
        id: "blocks",
        title: "blocks touched",
        verb: "touches",
        noun: "blocks",
        unit: CostUnit::Count,
        least: 0.1,
        margin: 0.005,
        assumed_sd: 0.005,
        source: "blocks found in shared buffers or not (pg_stat_database)",
        at_work: None,
        of_run: |run| Some(run.per_commit("database.blocks_hit")? + run.per_commit("database.blocks_read")?),
    },
    CostRow {
        id: "reads",
        title: "blocks read",
        verb: "reads",
        noun: "blocks from outside shared buffers",
        unit: CostUnit::Count,
        least: 0.01,
        margin: 0.02,
        assumed_sd: 0.05,
        source: "blocks not found in shared buffers (pg_stat_database)",
        at_work: None,
        of_run: |run| run.per_commit("database.blocks_read"),
    },
    CostRow {
        id: "writes",
        title: "buffers written",
        verb: "writes",
        noun: "buffers",
        unit: CostUnit::Count,
        least: 0.01,
        margin: 0.05,
        assumed_sd: 0.1,
        source: "buffers that checkpointer, background writer and sessions wrote (pg_stat_bgwriter, pg_stat_checkpointer)",
        at_work: None,
        of_run: |run| run.per_transaction("server.buffers_written"),
    },
    CostRow {
        id: "temporary",
        title: "temporary files",
        verb: "writes",
        noun: "bytes of temporary files",
        unit: CostUnit::Bytes,
        least: 1.0,
        margin: 0.01,
        assumed_sd: 0.02,
        source: "bytes of temporary files (pg_stat_database)",
        at_work: None,
        of_run: |run| run.per_commit("database.temp_bytes"),
    },
];

/// Fsyncs of WAL where pg_stat_io counts them.
const WAL_FSYNCS: &str = "server.io.fsyncs";
/// A number of the server's commits per transaction of the load this close to a whole number is that number: sessions report theirs up to a
/// second late.
const WHOLE_WITHIN: f64 = 0.1;

/// The row of this name.
pub fn row(id: &str) -> Option<&'static CostRow> {
    COSTS.iter().find(|row| row.id == id)
}

impl CostRow {
    /// Whether what it is counted in is single things, of which there are fewer, not less.
    pub fn is_counted(&self) -> bool {
        self.unit == CostUnit::Count || self.id == "temporary"
    }
}

impl CostContext<'_> {
    /// A counter over the transactions that the driver committed.
    fn per_transaction(&self, metric: &str) -> Option<f64> {
        Some(self.usage.rate(metric, self.from_s, self.to_s)? / self.committed_per_s)
    }

    /// The WAL's part of a counter of pg_stat_io.
    fn per_transaction_of_key(&self, metric: &str) -> Option<f64> {
        let of_wal = |instance: &String| instance.split(':').nth(1) == Some("wal");
        let instances: Vec<String> = self.usage.instances(metric).into_iter().filter(of_wal).collect();
        let key = |instance: &String| model::telemetry::reading::key(metric, instance);
        let rates = instances.iter().map(|one| self.usage.rate_of_key(&key(one), self.from_s, self.to_s));
        let rates: Vec<f64> = rates.collect::<Option<_>>()?;
        (!rates.is_empty()).then(|| rates.iter().sum::<f64>() / self.committed_per_s)
    }

    /// A counter that sessions report together with their commits, up to a second late: over these commits, so that what is late is late in
    /// both.
    fn per_commit(&self, metric: &str) -> Option<f64> {
        let commits = self.commits_per_s()?;
        let per_transaction = commits / self.committed_per_s;
        let whole = per_transaction.round();
        let is_whole = whole >= 1.0 && (per_transaction - whole).abs() <= WHOLE_WITHIN;
        let n_commits = if is_whole { whole } else { per_transaction };
        Some(self.usage.rate(metric, self.from_s, self.to_s)? / commits * n_commits)
    }

    /// Commits in the load's database, without those of pgdyno's samples of waits.
    fn commits_per_s(&self) -> Option<f64> {
        let rate = |metric: &str| self.usage.rate(metric, self.from_s, self.to_s);
        let commits = rate("database.commits")? - rate("waits.queries").unwrap_or(0.0);
        (commits > 0.0).then_some(commits)
    }
}

/// The costs of a run, in the order of [`COSTS`]; none of a load that is spread over hosts, of which nobody knows what part was on the one that
/// was observed.
pub(crate) fn of_run(
    data: &RunData,
    line: &Timeline,
    usage: &Usage,
    counts: Counts,
    counters: Option<&CounterSummary>,
) -> Vec<CostFigure> {
    if counts.committed == 0 || data.record.spread_hosts().is_some() {
        return Vec::new();
    }
    let Some((from_s, to_s)) = line.measured_span() else { return Vec::new() };
    let committed_per_s = counts.committed as f64 / line.measured_s();
    let context = CostContext { usage, from_s, to_s, committed_per_s, counters };

    let figure = |row: &CostRow| {
        let value = (row.of_run)(&context).filter(|value| value.is_finite() && *value >= 0.0)?;
        Some(CostFigure { id: row.id, value })
    };
    COSTS.iter().filter_map(figure).collect()
}

/// What a run had written at the end of each second of its load, up to the end of the measurement: while clients drain, the server
/// goes on and hardly anything is committed.
pub(crate) fn work_done(data: &RunData, line: &Timeline, usage: &Usage, seconds: &[Second]) -> Vec<WorkDone> {
    if data.record.spread_hosts().is_some() {
        return Vec::new();
    }
    let Some((_, end_s)) = line.measured_span() else { return Vec::new() };
    let mut committed = 0.0;
    let mut work = Vec::new();
    for second in seconds.iter().filter(|second| f64::from(second.t) + 1.0 <= end_s) {
        committed += second.tps;
        let to_s = f64::from(second.t) + 1.0;
        let until = |metric: &str| usage.rate(metric, 0.0, to_s).map(|rate| rate * to_s);
        let Some(wal_bytes) = until("server.wal_bytes") else { continue };
        work.push(WorkDone { committed, wal_bytes, images: until("server.wal_full_page_images") });
    }
    work
}
