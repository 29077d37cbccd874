//! Which runs the page draws in full: all of a small experiment, of a large one those that say most.

use std::collections::BTreeSet;

use analysis::finding::Grade;
use analysis::summary::{CaseSummary, RunSummary, Study};

/// Most runs whose telemetry is drawn. Of more, a page would take long to open.
pub(crate) const N_DRAWN_MAX: usize = 60;

/// The numbers of the runs drawn in full: for each case the run closest to its median, then runs with a void or a doubt, then the
/// others, in the order of execution.
pub(crate) fn drawn(study: &Study) -> BTreeSet<u32> {
    let with_seconds = || study.runs.iter().filter(|run| !run.seconds.is_empty());
    let typical = study.cases.iter().filter_map(|case| typical_of(study, case));
    let doubtful = with_seconds().filter(|run| run.grade != Grade::Valid);
    let mut chosen = BTreeSet::new();
    for run in typical.chain(doubtful).chain(with_seconds()) {
        if chosen.len() == N_DRAWN_MAX {
            break;
        }
        chosen.insert(run.run);
    }
    chosen
}

/// The run of a case whose throughput is closest to the median.
pub(crate) fn typical_of<'a>(study: &'a Study, case: &CaseSummary) -> Option<&'a RunSummary> {
    let median = case.tps_median?;
    let distance = |run: &&RunSummary| (run.tps.unwrap_or(f64::INFINITY) - median).abs();
    study
        .runs
        .iter()
        .filter(|run| !run.seconds.is_empty() && run.case == case.case.id && run.counts())
        .min_by(|a, b| distance(a).total_cmp(&distance(b)))
}
