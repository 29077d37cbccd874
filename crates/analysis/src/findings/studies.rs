//! Findings about an experiment as a whole.

use model::load::Pace;
use model::run::ExperimentData;

use super::Rule;
use crate::finding::{Finding, Severity};

pub(super) const INCOMPLETE: Rule = Rule {
    id: "incomplete",
    title: "The experiment is not whole",
    severity: "Doubt when planned runs are missing",
    source: "design: cases of one block belong together, and a missing block weakens every comparison",
    advice: "Resume the experiment, or read its numbers as provisional.",
};

pub(super) fn incomplete(partial: Option<&str>) -> Option<Finding> {
    partial.map(|sentence| INCOMPLETE.finds(Severity::Doubt, sentence))
}

pub(super) const CLOSED_LOOP: Rule = Rule {
    id: "closed-loop",
    title: "Closed loop: latency excludes waiting",
    severity: "Note, once, when any case has the pace `closed`",
    source: "G. Tene, coordinated omission; wrk2: latency counts from when a request was due",
    advice: "For latency as users would see it, run again with an open pace at 50 to 90 % of the measured throughput.",
};

pub(super) fn closed_loop(data: &ExperimentData) -> Option<Finding> {
    let closed = data.plan.cases.iter().filter(|case| case.workload.pace == Pace::Closed).count();
    let evidence = format!(
        "{closed} of {} cases use a closed loop: a client sends nothing while it waits, so stalls are under-counted in \
         the latency",
        data.plan.cases.len()
    );
    (closed > 0).then(|| CLOSED_LOOP.finds(Severity::Note, evidence))
}
