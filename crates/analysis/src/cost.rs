//! What a committed transaction costs the server: figures that a neighbour's noise hardly moves.
//!
//! Each row of [`COSTS`] is one cost; it exists if and only if it is listed here. A cost is a counter's increase over the measurement,
//! divided by the transactions of the same time. Waiting, contention and the time of reads and writes are no cost: a change can
//! make each transaction cheaper and all of them slower.

use model::load::interval::Counts;
use model::run::RunData;

use crate::run::timeline::Timeline;
use crate::run::usage::Usage;
use crate::summary::Second;
use crate::summary::cost::{CostFigure, WorkDone};

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
    /// Whether the server counts it for each database; otherwise it counts for all that goes on in the cluster.
    is_of_database: bool,
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

impl CostUnit {
    /// The unit in files.
    pub fn as_str(self) -> &'static str {
        match self {
            CostUnit::Microseconds => "us",
            CostUnit::Bytes => "bytes",
            CostUnit::Count => "1",
        }
    }
}

/// A run whose costs are computed.
#[derive(Clone, Copy)]
pub(crate) struct CostContext<'a> {
    usage: &'a Usage<'a>,
    from_s: f64,
    to_s: f64,
    /// Transactions that the driver committed per second.
    committed_per_s: f64,
    /// Whether it is in recovery: its WAL is that of the primary.
    is_standby: bool,
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
        is_of_database: false,
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
        is_of_database: false,
        at_work: None,
        of_run: |run| run.per_transaction("counters.instructions"),
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
        is_of_database: false,
        at_work: Some(|work| Some(work.wal_bytes)),
        of_run: |run| if run.is_standby { None } else { run.per_transaction("server.wal_bytes") },
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
        is_of_database: false,
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
        is_of_database: false,
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
        is_of_database: false,
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
        is_of_database: true,
        at_work: None,
        of_run: |run| run.blocks_touched(),
    },
    CostRow {
        id: "reads",
        title: "blocks read",
        verb: "reads",
        noun: "blocks from outside shared buffers",
        unit: CostUnit::Count,
        // Less than one for twenty transactions is no work: 15 counts as reads what extends a table, 18 does not.
        least: 0.05,
        margin: 0.02,
        assumed_sd: 0.05,
        source: "blocks not found in shared buffers (pg_stat_database)",
        is_of_database: true,
        at_work: None,
        of_run: |run| run.per_commit("database.blocks_read"),
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
        is_of_database: true,
        at_work: None,
        of_run: |run| run.per_commit("database.temp_bytes"),
    },
];

/// Fsyncs of WAL where pg_stat_io counts them.
const WAL_FSYNCS: &str = "server.io.fsyncs";
/// Sessions report what they did up to so many seconds late (PGSTAT_MIN_INTERVAL, and a message before 15).
const LATE_S: f64 = 1.0;
/// The server's commits per transaction of the load are a whole number if what is late explains the difference, and at most this share.
const WHOLE_WITHIN: f64 = 0.1;

/// Each new session reads the catalogs into its caches, about a thousand blocks: counters of the database are taken from so many seconds after the
/// load's begin on.
const SESSIONS_BEGIN_S: f64 = 1.0;
/// A measurement of which less than this would be left keeps those seconds.
const WARM_S_MIN: f64 = 2.0;
/// What pgdyno's own questions touch in a second: 14 blocks, with pg_stat_statements 60 (measured on 15).
const OWN_BLOCKS_PER_S: f64 = 60.0;
/// Blocks are a cost only where pgdyno's own are at most this share of them.
const OWN_BLOCKS_SHARE: f64 = 0.05;

/// The row of this name.
pub fn row(id: &str) -> Option<&'static CostRow> {
    COSTS.iter().find(|row| row.id == id)
}

impl CostRow {
    /// Whether it depends on how many transactions a run made, so that only equal work can be compared.
    pub fn depends_on_throughput(&self) -> bool {
        self.at_work.is_some()
    }

    /// Whether what it is counted in is single things, of which there are fewer, not less.
    pub fn is_counted(&self) -> bool {
        self.unit == CostUnit::Count || self.id == "temporary"
    }
}

impl CostContext<'_> {
    /// Unknown where few blocks are touched in a second: of a load of long sleeps, most of them are pgdyno's own.
    fn blocks_touched(&self) -> Option<f64> {
        let rate = |metric| self.usage.rate(metric, self.from_s, self.to_s);
        let per_s = rate("database.blocks_hit")? + rate("database.blocks_read")?;
        if per_s * OWN_BLOCKS_SHARE < OWN_BLOCKS_PER_S {
            return None;
        }
        Some(self.per_commit("database.blocks_hit")? + self.per_commit("database.blocks_read")?)
    }

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
    /// both. Where more commits are missing, or there are others, than that explains, over those of the driver.
    fn per_commit(&self, metric: &str) -> Option<f64> {
        let commits = self.commits_per_s()?;
        let per_transaction = commits / self.committed_per_s;
        let whole = per_transaction.round();
        let late = (LATE_S / (self.to_s - self.from_s)).min(WHOLE_WITHIN);
        let is_whole = whole >= 1.0 && (per_transaction - whole).abs() <= late * whole;
        let n_commits = if is_whole { whole } else { per_transaction };
        Some(self.usage.rate(metric, self.from_s, self.to_s)? / commits * n_commits)
    }

    /// Commits in the load's database, without those of pgdyno's own questions: one for each sample of waits and for each tick.
    fn commits_per_s(&self) -> Option<f64> {
        let (from_s, to_s) = (self.from_s, self.to_s);
        let ticks = self.usage.with_metric("database.commits");
        let n_ticks: f64 = ticks.map(|placed| placed.share_within(from_s, to_s)).sum();
        let own = self.usage.own_queries(from_s, to_s) + n_ticks / (to_s - from_s);
        let commits = self.usage.rate("database.commits", from_s, to_s)? - own;
        (commits > 0.0).then_some(commits)
    }
}

/// The costs of a run, in the order of [`COSTS`]; none of a load that is spread over hosts, of which nobody knows what part was on the one that
/// was observed. `partner` is the other side of a duet: what the server counts for the whole cluster belongs to neither if both are in one.
pub(crate) fn of_run(
    data: &RunData,
    partner: Option<&RunData>,
    line: &Timeline,
    usage: &Usage,
    counts: Counts,
) -> Vec<CostFigure> {
    if counts.committed == 0 || data.record.spread_hosts().is_some() {
        return Vec::new();
    }
    let Some((from_s, to_s)) = line.measured_span() else { return Vec::new() };
    let committed_per_s = counts.committed as f64 / line.measured_s();
    let context = CostContext { usage, from_s, to_s, committed_per_s, is_standby: is_standby(data) };
    let warm_s = from_s.max(SESSIONS_BEGIN_S);
    let has_time = to_s - warm_s >= WARM_S_MIN;
    let of_database = CostContext { from_s: if has_time { warm_s } else { from_s }, ..context };
    let is_alone = !partner.is_some_and(|partner| are_of_one_cluster(data, partner));

    let figure = |row: &CostRow| {
        let context = if row.is_of_database { &of_database } else { &context };
        let value = (row.of_run)(context).filter(|value| value.is_finite() && *value >= 0.0)?;
        Some(CostFigure { id: row.id, value })
    };
    COSTS.iter().filter(|row| is_alone || row.is_of_database).filter_map(figure).collect()
}

fn is_standby(data: &RunData) -> bool {
    data.record.server.as_ref().is_some_and(|server| server.in_recovery)
}

/// Whether two runs loaded one cluster; so too if that is not known.
fn are_of_one_cluster(a: &RunData, b: &RunData) -> bool {
    let cluster = |data: &RunData| {
        let server = data.record.server.as_ref()?;
        Some((server.system_identifier.clone(), server.postmaster_start.clone()))
    };
    cluster(a).zip(cluster(b)).is_none_or(|(a, b)| a == b)
}

/// What a run had written at the end of each second of its load, up to the end of the measurement: while clients drain, the server
/// goes on and hardly anything is committed.
pub(crate) fn work_done(data: &RunData, line: &Timeline, usage: &Usage, seconds: &[Second]) -> Vec<WorkDone> {
    if data.record.spread_hosts().is_some() || is_standby(data) {
        return Vec::new();
    }
    let Some((_, end_s)) = line.measured_span() else { return Vec::new() };
    let (mut committed, mut from_s, mut work) = (0.0, 0.0, Vec::new());
    let mut done = WorkDone { committed, wal_bytes: 0.0, images: Some(0.0) };
    for second in seconds.iter().filter(|second| f64::from(second.t) + 1.0 <= end_s) {
        committed += second.tps;
        let to_s = f64::from(second.t) + 1.0;
        let grown = |metric: &str| usage.rate(metric, from_s, to_s).map(|rate| rate * (to_s - from_s));
        // What a second wrote in which nobody looked is known with the next one.
        let Some(wal_bytes) = grown("server.wal_bytes") else { continue };
        let images = done.images.zip(grown("server.wal_full_page_images"));
        let images = images.map(|(before, more)| before + more);
        done = WorkDone { committed, wal_bytes: done.wal_bytes + wal_bytes, images };
        work.push(done);
        from_s = to_s;
    }
    work
}
