//! An experiment, explained.

use model::experiment::plan::Plan;
use serde::Serialize;

use super::case::CaseSummary;
use super::run::RunSummary;
use super::scalability::Scalability;
use crate::finding::{Finding, Grade, Severity};

/// An experiment, explained.
#[derive(Debug, Clone, Serialize)]
pub struct Study {
    /// The plan that was followed.
    pub plan: Plan,
    /// Each case over its runs, in the order of the plan.
    pub cases: Vec<CaseSummary>,
    /// Each run that was started, in the order of execution.
    pub runs: Vec<RunSummary>,
    /// Throughput by number of clients, for each combination of the other factors.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub scalability: Vec<Scalability>,
    /// Findings about the experiment as a whole; those of a run or a case are with them.
    pub findings: Vec<Finding>,
    /// The servers that pgdyno fetched, with how they were compiled: `PostgreSQL 18.6 (fetched build, -Os)`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fetched: Option<String>,
    /// Whether the connections of loads by TCP were encrypted, and how.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub encryption: Option<String>,
    /// Why the experiment is incomplete (`2 of 9 runs are missing: interrupted`), if it is.
    pub partial: Option<String>,
}

impl Study {
    /// Whether a finding voids a reported number: of a run for which no other attempt counts, of a case, or of the
    /// experiment.
    pub fn is_void(&self) -> bool {
        let is_void = |finding: &Finding| finding.severity == Severity::Void;
        self.runs.iter().any(|run| run.grade == Grade::Void && run.replaced_by.is_none())
            || self.cases.iter().any(|case| case.grade == Grade::Void)
            || self.findings.iter().any(is_void)
    }

    /// Whether there is any result; that no search of a case found a rate is a result, too.
    pub fn has_result(&self) -> bool {
        self.cases.iter().any(|case| {
            let mut searched =
                self.runs.iter().filter(|run| run.case == case.case.id).filter(|run| run.is_censored());
            case.tps_median.is_some() || (case.n_runs == 0 && searched.next().is_some())
        })
    }
}
