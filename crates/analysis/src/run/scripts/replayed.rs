//! How faithful a run is to the source of its workload: what its driver counted, put to the judge.

use model::run::RunRecord;

use crate::fidelity::{Fidelity, ReplayOutcome, judge};
use crate::summary::Second;

/// Seconds without which a variance says little.
const SECONDS_MIN: usize = 30;

/// That of a run of a captured workload; `None` of others.
pub(crate) fn of_run(record: &RunRecord, seconds: &[Second]) -> Option<Fidelity> {
    let replay = record.replay.as_deref()?;
    let counts = record.done.as_ref().map(|done| &done.counts);
    let transactions = counts.map(|counts| {
        let ended = counts.committed + counts.failed + counts.expected + counts.unknown;
        (ended, counts.failed + counts.unknown)
    });
    Some(judge(replay, ReplayOutcome { transactions, dispersion: dispersion(seconds) }))
}

/// Variance of the transactions of a measured second over their mean.
fn dispersion(seconds: &[Second]) -> Option<f64> {
    let rates: Vec<f64> = seconds.iter().filter(|second| second.measured).map(|second| second.tps).collect();
    if rates.len() < SECONDS_MIN {
        return None;
    }
    let (mean, sd) = stats::mean(&rates).zip(stats::sd(&rates))?;
    (mean > 0.0).then_some(sd * sd / mean)
}
