//! The finding about a replay that does not stand for the source of its workload.

use super::super::format::list;
use super::super::{Rule, RuleCheck, RunContext};
use crate::fidelity::{Fidelity, FidelityGrade, FidelityMeasure};
use crate::finding::{Finding, Severity};

pub(in super::super) const NOT_YOUR_WORKLOAD: Rule = Rule {
    id: "not-your-workload",
    title: "The replay is not the captured workload",
    severity: "Doubt when a measure of fidelity is below approximate; Note when one is only approximate or unknown, unless only the arrivals are unknown",
    source: "our rule; thresholds tested by round trips",
    advice: "See `pgdyno capture fidelity`; restore more data, capture longer, or run `pgdyno capture stats` \
             at the source and load pg_stat_statements here.",
    evidence: "pg_stat_statements of the source's window, or its log; that of the run from ramp-up to drain; \
               the driver's counts.",
    why: "Statements that are missing, find no rows or touch other blocks are another load.",
    tested: "pgbench against itself, with a tenth of the data, with uniform keys, and without one of its statements, by pg_stat_statements of a real server.",
    check: RuleCheck::Run(not_your_workload),
};

fn not_your_workload(context: &RunContext) -> Option<Finding> {
    let fidelity = context.summary.fidelity.as_ref()?;
    let (severity, grades) = match fidelity.grade {
        FidelityGrade::Faithful => return None,
        FidelityGrade::NotYourWorkload => (Severity::Doubt, vec![FidelityGrade::NotYourWorkload]),
        FidelityGrade::Approximate => {
            (Severity::Note, vec![FidelityGrade::Approximate, FidelityGrade::Unknown])
        }
        FidelityGrade::Unknown => (Severity::Note, vec![FidelityGrade::Unknown]),
    };
    let evidence = format!("{}: {}", fidelity.grade.as_str(), list(&worst(fidelity, &grades), 4));
    Some(NOT_YOUR_WORKLOAD.finds(severity, evidence))
}

/// The measures with one of these grades, in words.
fn worst(fidelity: &Fidelity, grades: &[FidelityGrade]) -> Vec<String> {
    let is_one = |one: &&FidelityMeasure| grades.contains(&one.grade);
    fidelity.measures.iter().filter(is_one).map(|one| format!("{} {}", one.name, one.text)).collect()
}
