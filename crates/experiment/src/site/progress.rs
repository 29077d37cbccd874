//! Progress of an experiment: values, never text for a screen.

use super::referee::RunFigures;
use model::experiment::plan::RunState;
use model::load::interval::HistogramLine;
use model::run::phase::Phase;
use model::text::prose::joined;
use server::FetchProgress;

use dataset::load::LoadProgress;

/// An event that may interest a waiting person.
#[allow(missing_docs, reason = "the names say it")]
#[derive(Debug, Clone, PartialEq)]
pub enum ProgressEvent {
    Fetch(FetchProgress),
    /// Work outside of runs, in words: `loading scale 32`, `snapshot: 480 MiB in 1.2 s`.
    Step(String),
    Load(LoadProgress),
    /// A note that is not an error.
    Note(String),
    RunBegins {
        /// Number of the run, from 1.
        run: u32,
        n_runs: u32,
        /// Label of its case.
        label: String,
    },
    /// Progress of one of the lanes that are measured side by side, from 0.
    OfLane {
        lane: usize,
        progress: Box<ProgressEvent>,
    },
    /// Progress of a side of a duet: 0 for A, 1 for B.
    OfSide {
        side: usize,
        progress: Box<ProgressEvent>,
    },
    PhaseBegins(Phase),
    /// A second of load is over.
    Second {
        /// Seconds since the load began.
        t: u32,
        /// Seconds of load in total.
        n: u32,
        /// Transactions committed in this second.
        committed: u64,
        /// Its histograms, as the driver reports them.
        histograms: Vec<HistogramLine>,
        /// Whether the second is part of the measurement.
        is_measured: bool,
    },
    /// The turn that has ended, a run or a pair, was disturbed and is worth a repeat.
    RunRepeats(Repeated),
    RunEnds {
        /// Number of the run.
        run: u32,
        n_runs: u32,
        state: RunState,
        /// Committed transactions per second of the measurement; `None` for a side of a duet, which only has its slices, and for a search.
        tps: Option<f64>,
        /// What else is known of its figures.
        figures: RunFigures,
        /// Share of the transactions that failed, of those that committed or failed.
        failed: f64,
        /// Why it did not complete, if it did not.
        reason: String,
        /// Seconds that the remaining runs will take, estimated from those made so far.
        left_s: f64,
    },
}

/// The repeat of a disturbed run, or of all runs that belong together with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repeated {
    /// Each run of the turn, with the number of the run that repeats it.
    pub again: Vec<(u32, u32)>,
    /// The runs that are worth a repeat, and why.
    pub worth: Vec<(u32, String)>,
}

impl Repeated {
    /// In words.
    pub fn words(&self) -> String {
        let reasons: Vec<String> = self.worth.iter().map(|(run, why)| format!("run {run}: {why}")).collect();
        match (self.again.as_slice(), self.worth.as_slice()) {
            ([(run, by)], [(_, why)]) => format!("repeating run {run} as run {by}: {why}"),
            (again, _) => format!(
                "repeating runs {}, which belong together, as runs {}: {}",
                numbers(again.iter().map(|(run, _)| *run)),
                numbers(again.iter().map(|(_, by)| *by)),
                reasons.join("; ")
            ),
        }
    }
}

fn numbers(runs: impl Iterator<Item = u32>) -> String {
    joined(&runs.map(|run| run.to_string()).collect::<Vec<_>>())
}

impl ProgressEvent {
    /// The event, whichever lane or side it is of.
    pub fn itself(&self) -> &ProgressEvent {
        match self {
            ProgressEvent::OfLane { progress, .. } | ProgressEvent::OfSide { progress, .. } => {
                progress.itself()
            }
            other => other,
        }
    }
}

/// Receives progress.
pub type Watch<'a> = dyn FnMut(ProgressEvent) + 'a;
