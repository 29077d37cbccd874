//! Sums over the intervals that a driver reports: of the whole load, of each script, of a period.

use std::collections::BTreeMap;

use model::load::histogram::HistogramSum;
use model::load::interval::{CommandTally, Connects, Counts, HistogramLine, Interval, Moments};

/// The sums behind pgbench's figures.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sums {
    /// Transactions, counted.
    pub(crate) counts: Counts,
    /// Failed transactions by SQLSTATE.
    pub(crate) errors: BTreeMap<String, u64>,
    /// Those that failed with another error, where that ends no client (`--continue-on-error`).
    pub(crate) other_failures: u64,
    /// Connections made or lost.
    pub(crate) connects: Connects,
    /// Latency of committed transactions.
    pub(crate) latency: Moments,
    /// Lag behind the schedule.
    pub(crate) lag: Moments,
}

impl Sums {
    /// Transactions that succeeded.
    pub(crate) fn processed(&self) -> u64 {
        self.counts.committed
    }

    /// Transactions that ended with 40001.
    pub(crate) fn serialization_failures(&self) -> u64 {
        self.errors.get("40001").copied().unwrap_or(0)
    }

    /// Transactions that ended with 40P01.
    pub(crate) fn deadlock_failures(&self) -> u64 {
        self.errors.get("40P01").copied().unwrap_or(0)
    }

    /// What pgbench calls failed: where another error ends its client, the transaction is not counted.
    pub(crate) fn failures(&self) -> u64 {
        self.serialization_failures() + self.deadlock_failures() + self.other_failures
    }

    /// All transactions that pgbench counts.
    pub(crate) fn total(&self) -> u64 {
        self.processed() + self.counts.skipped + self.failures()
    }

    /// Adds an interval; `has_others` says whether clients go on after errors of other kinds.
    pub(crate) fn add(&mut self, interval: &Interval, has_others: bool) {
        self.counts += interval.counts;
        if has_others {
            let own = ["40001", "40P01"].map(|state| interval.errors.get(state).copied().unwrap_or(0));
            self.other_failures += interval.counts.failed.saturating_sub(own.iter().sum());
        }
        for (sqlstate, n) in &interval.errors {
            *self.errors.entry(sqlstate.clone()).or_default() += n;
        }
        self.connects += interval.connects;
        self.latency += interval.latency;
        self.lag += interval.lag;
    }
}

/// Totals of one script.
#[derive(Debug, Clone, Default)]
pub(crate) struct ScriptTotals {
    pub(crate) sums: Sums,
    /// Counts of the commands, in order.
    pub(crate) commands: Vec<CommandTally>,
    /// Latency, if asked for.
    pub(crate) latency: HistogramSum,
    /// Service times of the statements, by statement number, if asked for.
    pub(crate) statements: BTreeMap<usize, HistogramSum>,
}

/// Totals of the whole load.
#[derive(Debug, Clone, Default)]
pub(crate) struct Totals {
    /// All scripts together.
    pub(crate) all: Sums,
    /// Each script.
    pub(crate) scripts: Vec<ScriptTotals>,
}

impl Totals {
    /// Empty totals of this many scripts.
    pub(crate) fn new(n_scripts: usize) -> Totals {
        Totals { all: Sums::default(), scripts: vec![ScriptTotals::default(); n_scripts] }
    }

    /// See [`Sums::add`].
    pub(crate) fn add(&mut self, interval: &Interval, has_others: bool) {
        self.all.add(interval, has_others);
        let Some(script) = self.scripts.get_mut(interval.script as usize) else { return };
        script.sums.add(interval, has_others);
        if script.commands.len() < interval.commands.len() {
            script.commands.resize(interval.commands.len(), CommandTally::default());
        }
        for (sum, tally) in script.commands.iter_mut().zip(&interval.commands) {
            *sum += *tally;
        }
    }

    /// Subtracts `n` slots that were due when the load ended and that no client took: pgbench does not count them as
    /// skipped.
    pub(crate) fn leave_out_backlog(&mut self, n: u64) {
        let first = self.scripts.first_mut().map(|script| &mut script.sums);
        for sums in first.into_iter().chain([&mut self.all]) {
            sums.counts.skipped = sums.counts.skipped.saturating_sub(n);
        }
    }

    /// Adds the histograms of an interval of script number `script`, whose tag is `tag`. Unreadable ones are left out,
    /// which cannot happen with a driver of the same build.
    pub(crate) fn add_histograms(&mut self, script: usize, tag: &str, lines: &[HistogramLine]) {
        let Some(totals) = self.scripts.get_mut(script) else { return };
        for line in lines {
            let Some(rest) = line.tag.strip_prefix(tag) else { continue };
            let target = match rest.strip_prefix('.').map(str::parse::<usize>) {
                None if rest.is_empty() => &mut totals.latency,
                Some(Ok(statement)) => totals.statements.entry(statement).or_default(),
                _ => continue,
            };
            if let Ok(sum) = HistogramSum::read(line) {
                target.add(&sum);
            }
        }
    }

    /// Latency of all scripts.
    pub(crate) fn latency(&self) -> HistogramSum {
        self.scripts.iter().fold(HistogramSum::new(), |mut sum, script| {
            sum.add(&script.latency);
            sum
        })
    }
}
