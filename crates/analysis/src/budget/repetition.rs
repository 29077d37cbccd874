//! How much runs differ: the part of the uncertainty that only repetition shows (GUM type A).

use model::run::RunData;
use model::telemetry::reading::Tick;
use stats::RepetitionError;

use super::{BudgetRow, RowBound};
use crate::findings::format::{percent, plural};
use crate::summary::CaseSummary;

/// Degrees of freedom of what is known of other cases, or assumed: worth two runs, so that three runs of the case itself outweigh it.
const DF_KNOWN: f64 = 2.0;
/// Largest deviation of one run in twenty, as a share: of machines that others share, and of quiet ones. Our study of identical runs.
const ASSUMED_SHARED: f64 = 0.15;
const ASSUMED_QUIET: f64 = 0.03;
/// The 97.5 % quantile of Student's t distribution with two degrees of freedom, which makes standard deviations of these shares.
const T_OF_TWO: f64 = 4.303;
/// Seconds of a run that the assumed shares are for; those of shorter ones grow with the root.
const ASSUMED_SECONDS: f64 = 10.0;
/// How much wider the spread of medians is than that of means: the root of pi / 2, from three runs on.
const OF_MEDIANS: f64 = 1.2533;
/// Other cases must have this many degrees of freedom to be asked.
const OTHERS_MIN: f64 = 2.0;
/// Runs are not believed to vary by less.
const SD_MIN: f64 = 0.001;
/// From this number of runs on, what they vary by is said alone.
const SPEAK_FOR_THEMSELVES: usize = 3;
/// Tails vary about twice as much as means.
const TAIL: f64 = 2.0;

pub(super) const RUNS_DIFFER: BudgetRow = BudgetRow {
    id: "runs-differ",
    title: "runs differ",
    formula: "Student's t around 0: the standard deviation of the runs' logarithms, averaged (by degrees of freedom) with the geometric mean of those of the \
              experiment's other cases, else of earlier experiments with this workload on this machine, or, unknown, with an assumed one (one run in twenty is off by 15 % on shared machines, by 3 % on quiet \
              ones; twice that for the 99th percentile), which counts as two degrees; over the root of n, times 1.25 for a median of three or more",
    source: "JCGM 100:2008, 4.2 and G.3; the assumed shares are those of our study of identical runs",
    remedy: "more runs",
    findings: &["spread", "spread-unknown", "too-short-to-judge"],
    bound: RowBound::Repetition,
};

/// A standard deviation of logarithms from run to run that is known before a case's own runs are looked at.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RunSpread {
    sd: f64,
    of_tail: f64,
    /// Where it comes from, to go on with after "runs".
    origin: String,
}

/// How much runs of one workload differed in earlier experiments on one machine.
#[derive(Debug, Clone, PartialEq)]
pub struct EarlierRuns {
    /// Throughputs of the runs of each case.
    pub cases: Vec<Vec<f64>>,
    /// Number of their experiments.
    pub n_experiments: usize,
    /// Mean length of their measurements, seconds.
    pub measure_s: f64,
}

impl EarlierRuns {
    /// The standard deviation of a run's logarithm of such a length; `None` if they are too few.
    fn spread(&self, measure_s: f64) -> Option<RunSpread> {
        let (sd, n_runs) = pooled(self.cases.iter().map(Vec::as_slice))?;
        let sd = sd * (self.measure_s / measure_s.max(1.0)).sqrt().max(1.0);
        let origin = format!(
            "vary by {} in {} of this workload on this machine ({n_runs} runs)",
            percent(sd),
            plural(self.n_experiments, "earlier experiment")
        );
        Some(RunSpread::new(sd, origin))
    }
}

/// The geometric mean of the standard deviations of several cases' logarithms, and how many runs it is from; `None` if they say too
/// little. One case that was disturbed must not speak for all.
fn pooled<'a>(cases: impl Iterator<Item = &'a [f64]>) -> Option<(f64, usize)> {
    let (mut logs_of_sd, mut df, mut n_runs) = (Vec::new(), 0.0, 0);
    for tps in cases {
        let logs = logarithms(tps);
        if let Some(sd) = stats::sd(&logs) {
            logs_of_sd.push(sd.max(SD_MIN).ln());
            df += logs.len() as f64 - 1.0;
            n_runs += logs.len();
        }
    }
    let sd = stats::mean(&logs_of_sd)?.exp();
    (df >= OTHERS_MIN).then_some((sd, n_runs))
}

impl RunSpread {
    /// That of the other cases of an experiment; where they say too little, of earlier experiments, or an assumed one of the machine.
    pub(crate) fn for_case(
        index: usize,
        cases: &[CaseSummary],
        earlier: Option<&EarlierRuns>,
        runs: &[&RunData],
    ) -> RunSpread {
        let others = cases.iter().enumerate().filter(|(i, _)| *i != index);
        RunSpread::known(others.map(|(_, other)| other.tps.as_slice()), earlier, runs)
    }

    /// The same, given the throughputs of the other cases' runs.
    pub(crate) fn known<'a>(
        others: impl Iterator<Item = &'a [f64]>,
        earlier: Option<&EarlierRuns>,
        runs: &[&RunData],
    ) -> RunSpread {
        if let Some((sd, _)) = pooled(others) {
            let origin = format!("of the other cases vary by {}", percent(sd));
            return RunSpread::new(sd, origin);
        }
        earlier
            .and_then(|earlier| earlier.spread(shortest(runs, earlier.measure_s)))
            .unwrap_or_else(|| RunSpread::assumed(runs))
    }

    /// A standard deviation that is known from somewhere.
    pub(super) fn new(sd: f64, origin: impl Into<String>) -> RunSpread {
        RunSpread { sd, of_tail: TAIL * sd, origin: origin.into() }
    }

    fn assumed(runs: &[&RunData]) -> RunSpread {
        let is_quiet = !runs.is_empty() && runs.iter().all(|run| is_of_its_own(run));
        let (share, whose) =
            if is_quiet { (ASSUMED_QUIET, "a quiet machine") } else { (ASSUMED_SHARED, "shared machines") };
        let sd = share / T_OF_TWO * (ASSUMED_SECONDS / shortest(runs, ASSUMED_SECONDS)).sqrt();
        let origin = format!("on {whose} are assumed to be off by {} one time in twenty", percent(share));
        RunSpread::new(sd, origin)
    }

    /// The error of the median of a case's runs, and what it comes from.
    pub(super) fn error_of(&self, values: &[f64], is_tail: bool) -> SpreadError {
        let logs = logarithms(values);
        let known = if is_tail { self.of_tail } else { self.sd };
        let own_df = (logs.len() as f64 - 1.0).max(0.0);
        let own = stats::sd(&logs);
        let df = DF_KNOWN + own_df;
        let variance = (DF_KNOWN * known * known + own_df * own.unwrap_or(0.0).powi(2)) / df;
        let evidence = match own {
            Some(sd) if logs.len() < SPEAK_FOR_THEMSELVES => {
                format!("{} vary by {}; runs {}", plural(logs.len(), "run"), percent(sd), self.origin)
            }
            Some(sd) => format!("{} vary by {}", plural(logs.len(), "run"), percent(sd)),
            None => format!("one run; runs {}", self.origin),
        };
        SpreadError { sd: variance.sqrt(), n: logs.len().max(1), df, evidence }
    }
}

/// The spread of a case's runs.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct SpreadError {
    sd: f64,
    n: usize,
    df: f64,
    pub(super) evidence: String,
}

impl SpreadError {
    /// The error of the median of so many more runs that spread alike.
    pub(super) fn with_more(&self, more: usize) -> RepetitionError {
        let n = self.n + more;
        let of_median = if n < 3 { 1.0 } else { OF_MEDIANS };
        RepetitionError { scale: of_median * self.sd / (n as f64).sqrt(), df: self.df + more as f64 }
    }

    /// The error of one of the runs.
    pub(super) fn of_one(&self) -> RepetitionError {
        RepetitionError { scale: self.sd, df: self.df }
    }

    /// How many more runs are proposed: as many as there are, and two at least.
    pub(super) fn proposed(&self) -> usize {
        self.n.max(2)
    }
}

/// Length of the shortest measurement, seconds, and `most` at most.
fn shortest(runs: &[&RunData], most: f64) -> f64 {
    runs.iter().map(|run| f64::from(run.record.window().measure_s)).fold(most, f64::min).max(1.0)
}

fn logarithms(values: &[f64]) -> Vec<f64> {
    values.iter().filter(|value| **value > 0.0).map(|value| value.ln()).collect()
}

/// Whether the server's machine is known, is no virtual one, and nobody took its processors.
fn is_of_its_own(run: &RunData) -> bool {
    let fact = run.record.host.as_ref().and_then(|host| host.facts.get("hypervisor_flag"));
    let is_real = run.record.server_is_local && fact.is_some_and(|flag| flag == "false");
    let steals =
        |tick: &Tick| tick.values.starting_with("host.cpu.steal").iter().any(|(_, steal)| *steal > 0.0);
    is_real && !run.ticks.iter().any(steals)
}
