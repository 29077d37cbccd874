//! One second of one script: counts that obey their identity, and histograms.

use std::collections::BTreeMap;
use std::ops::AddAssign;

use serde::{Deserialize, Serialize};

use crate::bounds::{SECONDS_MAX, UNIX_NS_MAX};

/// Counts of transactions.
///
/// Identity, over any span from the start of the load: `due = skipped + started` and
/// `started = committed + failed + expected + unknown + aborted + in flight at the end of the span`. Each event is counted in the
/// interval in which it happened; a slot of an open loop's schedule counts as due when it is started or skipped, and
/// until then is part of the gauge `driver.backlog`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Transactions that were due, by the schedule or in a closed loop because the client was free, and were started or
    /// skipped.
    pub due: u64,
    /// Transactions that were due but never sent: later than the latency limit, or waiting when the load ended.
    pub skipped: u64,
    /// Transactions whose first byte was sent.
    pub started: u64,
    /// Transactions that ended with every statement acknowledged.
    pub committed: u64,
    /// Transactions that ended with an error of the server (see `errors` for the SQLSTATE).
    pub failed: u64,
    /// Transactions that ended with an error of the server that their workload directory expects.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub expected: u64,
    /// Transactions without an answer to the deciding statement: the server may or may not have committed.
    pub unknown: u64,
    /// Transactions in flight when the load ended that were cancelled or abandoned.
    pub aborted: u64,
    /// Transactions with more than one try.
    pub retried: u64,
    /// Tries beyond the first, over all transactions.
    #[serde(default)]
    pub retries: u64,
    /// Transactions committed later than the latency limit.
    #[serde(default)]
    pub late: u64,
}

impl Counts {
    /// Transactions that have ended, one way or another.
    pub fn ended(&self) -> u64 {
        self.committed + self.failed + self.expected + self.unknown + self.aborted
    }

    /// Ended transactions that were committed later than the limit, or not committed although they were to be.
    pub fn not_in_time(&self) -> u64 {
        self.late + self.failed + self.unknown + self.aborted
    }

    /// The counts by name, in the order in which people read them.
    pub fn named(&self) -> [(&'static str, u64); 11] {
        let Counts {
            due,
            skipped,
            started,
            committed,
            failed,
            expected,
            unknown,
            aborted,
            retried,
            retries,
            late,
        } = *self;
        [
            ("due", due),
            ("skipped", skipped),
            ("started", started),
            ("committed", committed),
            ("failed", failed),
            ("expected", expected),
            ("unknown", unknown),
            ("aborted", aborted),
            ("retried", retried),
            ("retries", retries),
            ("late", late),
        ]
    }

    /// Whether the identity holds for totals with `in_flight` transactions still open.
    pub fn identity_holds(&self, in_flight: u64) -> bool {
        self.due == self.skipped + self.started && self.started == self.ended() + in_flight
    }
}

fn is_zero(n: &u64) -> bool {
    *n == 0
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Counts) {
        self.due += other.due;
        self.skipped += other.skipped;
        self.started += other.started;
        self.committed += other.committed;
        self.failed += other.failed;
        self.expected += other.expected;
        self.unknown += other.unknown;
        self.aborted += other.aborted;
        self.retried += other.retried;
        self.retries += other.retries;
        self.late += other.late;
    }
}

/// One second of one script: a line of `intervals.jsonl`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Interval {
    /// Number of the interval: whole seconds since `go`.
    pub t: u32,
    /// Index of the script in the load.
    pub script: u32,
    /// Start, nanoseconds since the Unix epoch.
    pub start_unix_ns: u64,
    /// Length in nanoseconds (1e9, except the last one).
    pub length_ns: u64,
    pub counts: Counts,
    /// Failed and unknown transactions by SQLSTATE; `lost` for a connection that ended without one.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub errors: BTreeMap<String, u64>,
    /// Statements acknowledged, by their index in the script.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub statements: Vec<u64>,
    /// Rows that acknowledged statements returned or changed, by their index in the script.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub statement_rows: Vec<u64>,
    /// Errors of statements, of every try, whether or not the transaction failed in the end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub statement_errors: Vec<StatementErrors>,
    /// Sums of the committed transactions' latencies, nanoseconds.
    #[serde(default)]
    pub latency: Moments,
    /// Sums of the committed transactions' lag, nanoseconds; open loop only.
    #[serde(default)]
    pub lag: Moments,
    /// Connections that were made or lost while the load ran.
    #[serde(default, skip_serializing_if = "Connects::is_none")]
    pub connects: Connects,
    /// The commands of the script, if asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub commands: Vec<CommandTally>,
    /// Facts about the committed transactions, by name: of built-in ones `rolled_back`, `remote_lines`, of others what their
    /// workload directory counts.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub facts: BTreeMap<String, u64>,
}

/// Largest count of an interval: more than any machine does in a second, yet small enough that the sum over the longest
/// file does not overflow.
pub const COUNT_MAX: u64 = 100_000_000_000;
/// Largest sum of a fact over an interval. Facts are sums of what a workload directory counts, and may be bytes or times.
pub const FACT_MAX: u64 = 1_000_000_000_000_000;
/// Largest sum of times, and of their squares.
pub const SUM_MAX: f64 = 1e40;
/// Longest interval: a day.
pub const LENGTH_MAX_NS: u64 = 86_400_000_000_000;

impl Interval {
    /// Whether every number is possible in a run, so that any number of intervals can be added up. A results file may
    /// contain anything.
    ///
    /// # Errors
    /// Names the number that is too large.
    pub fn check(&self) -> Result<(), String> {
        let most = |name: &str, values: &[u64], max: u64| match values.iter().max() {
            Some(&value) if value > max => Err(format!("{name} of {value} is more than {max}")),
            _ => Ok(()),
        };
        let of_commands: Vec<u64> = self.commands.iter().flat_map(|c| [c.n, c.failed, c.retries]).collect();
        most("a count", &self.counts.named().map(|(_, n)| n), COUNT_MAX)?;
        most("a count", &self.errors.values().copied().collect::<Vec<u64>>(), COUNT_MAX)?;
        most("a fact", &self.facts.values().copied().collect::<Vec<u64>>(), FACT_MAX)?;
        most("a count", &self.statements, COUNT_MAX)?;
        most("a count", &of_commands, COUNT_MAX)?;
        most("a number of rows", &self.statement_rows, FACT_MAX)?;
        let of_errors: Vec<u64> = self.statement_errors.iter().map(|errors| errors.n).collect();
        most("a count", &of_errors, COUNT_MAX)?;
        most("a count", &[self.latency.n, self.lag.n], COUNT_MAX)?;
        let Connects { opened, lost, failed, .. } = self.connects;
        most("a count", &[opened, lost, failed], COUNT_MAX)?;
        let Connects { sum_ns, outage_ns, .. } = self.connects;
        let moments = |m: Moments| [m.sum, m.sum_squares, m.min, m.max];
        let sums = self.commands.iter().map(|command| command.sum_ns).chain([sum_ns, outage_ns]);
        let mut sums = sums.chain(moments(self.latency)).chain(moments(self.lag));
        if let Some(sum) = sums.find(|sum| !(0.0..=SUM_MAX).contains(sum)) {
            return Err(format!("a sum of {sum:e} is not within 0 and {SUM_MAX:e}"));
        }
        most("a length", &[self.length_ns], LENGTH_MAX_NS)?;
        most("a second", &[self.t.into()], SECONDS_MAX.into())?;
        most("a start", &[self.start_unix_ns], UNIX_NS_MAX)
    }
}

/// Errors of one statement with one SQLSTATE.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct StatementErrors {
    /// Index of the statement in the script.
    pub statement: u32,
    pub sqlstate: String,
    pub n: u64,
}

/// Connections of the clients of one script in one interval, made or lost while the load ran.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Connects {
    /// Connections opened.
    pub opened: u64,
    /// Time taken to open and to close them, nanoseconds.
    pub sum_ns: f64,
    /// Connections lost.
    pub lost: u64,
    /// Transactions that failed because their connection was lost.
    pub failed: u64,
    /// Time without a connection after a loss, nanoseconds.
    pub outage_ns: f64,
}

impl Connects {
    /// Whether nothing happened.
    pub fn is_none(&self) -> bool {
        *self == Connects::default()
    }
}

impl AddAssign for Connects {
    fn add_assign(&mut self, other: Connects) {
        self.opened += other.opened;
        self.sum_ns += other.sum_ns;
        self.lost += other.lost;
        self.failed += other.failed;
        self.outage_ns += other.outage_ns;
    }
}

/// Exact sums over a set of times, which give mean and standard deviation without a histogram's rounding.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Moments {
    /// Number of values.
    pub n: u64,
    /// Sum of all values, nanoseconds.
    pub sum: f64,
    /// Sum of the squares.
    pub sum_squares: f64,
    /// Smallest value, nanoseconds; 0 without values.
    pub min: f64,
    /// Largest value, nanoseconds.
    pub max: f64,
}

impl Moments {
    /// Adds one time.
    #[inline]
    pub fn record(&mut self, ns: u64) {
        let x = ns as f64;
        self.min = if self.n == 0 { x } else { self.min.min(x) };
        self.max = self.max.max(x);
        self.n += 1;
        self.sum += x;
        self.sum_squares += x * x;
    }

    /// Arithmetic mean in nanoseconds; 0 without values.
    pub fn mean(&self) -> f64 {
        if self.n == 0 { 0.0 } else { self.sum / self.n as f64 }
    }

    /// Standard deviation of the population in nanoseconds, as pgbench computes it.
    pub fn sd(&self) -> f64 {
        if self.n == 0 {
            0.0
        } else {
            (self.sum_squares / self.n as f64 - self.mean().powi(2)).max(0.0).sqrt()
        }
    }
}

impl AddAssign for Moments {
    fn add_assign(&mut self, other: Moments) {
        if other.n == 0 {
            return;
        }
        self.min = if self.n == 0 { other.min } else { self.min.min(other.min) };
        self.max = self.max.max(other.max);
        self.n += other.n;
        self.sum += other.sum;
        self.sum_squares += other.sum_squares;
    }
}

/// One command of a script in one interval.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct CommandTally {
    /// How often it was executed.
    pub n: u64,
    /// Total time, nanoseconds.
    pub sum_ns: f64,
    /// How often it failed the transaction.
    pub failed: u64,
    /// How often it caused a retry of the transaction.
    pub retries: u64,
}

impl AddAssign for CommandTally {
    fn add_assign(&mut self, other: CommandTally) {
        self.n += other.n;
        self.sum_ns += other.sum_ns;
        self.failed += other.failed;
        self.retries += other.retries;
    }
}

/// End of the tag of a sum over the seconds that count: `TAG.N.measured`.
pub const MEASURED: &str = ".measured";

/// Whether a tag is that of a statement in one second, `TAG.N`.
pub fn is_of_statement(tag: &str) -> bool {
    let number = tag.split_once('.').map(|(_, number)| number);
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// One histogram of one interval: a line of `latency.hlog`.
///
/// Tags: `TAG` latency (end minus due), `TAG.service` (end minus sent), `TAG.lag` (sent minus due; open
/// loop only), `TAG.N` service time of the script's statement number N (from 0), where TAG is the script's. `TAG.N.measured` is
/// the sum over the seconds that count.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct HistogramLine {
    pub tag: String,
    /// Largest recorded value in nanoseconds.
    pub max_ns: u64,
    /// HdrHistogram V2 with deflate, base64; values in nanoseconds.
    pub data: String,
}

/// Largest latency of a histogram: one hour. Larger values are counted there.
pub const HISTOGRAM_MAX_NS: u64 = 3_600_000_000_000;
/// Smallest distinguishable latency. One nanosecond, so that three digits are exact even at 20 microseconds: a larger
/// value would be the resolution of everything below a thousand times it.
pub const HISTOGRAM_MIN_NS: u64 = 1;
/// Significant decimal digits kept by every histogram.
pub const HISTOGRAM_DIGITS: u8 = 3;
