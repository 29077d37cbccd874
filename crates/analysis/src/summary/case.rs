//! A case over its runs.

use model::experiment::case::Case;
use model::experiment::keys;
use model::text::share::Share;
use serde::Serialize;

use super::capacity::CaseCapacity;
use super::cost::CaseCost;
use super::counters::CounterSummary;
use super::limiter::Limiter;
use super::run::outage::CaseOutages;
use super::run::query::AnalyticalSummary;
use super::run::script::{MeasureSummary, ScriptSummary};
use super::run::{LatencySummary, StatementSummary};
use super::top_statement::TopStatement;
use super::tpcc::TpccSummary;
use super::uncertainty::{CaseUncertainty, PRECISION};
use super::variation::Variation;
use crate::finding::{Finding, Grade};

/// A case over its runs. Only completed runs count; void ones are shown but left out of the numbers.
#[derive(Debug, Clone, Serialize)]
pub struct CaseSummary {
    /// The case.
    pub case: Case,
    /// Label for tables and axes.
    pub label: String,
    /// Runs that were started.
    pub n_started: usize,
    /// Runs that count.
    pub n_runs: usize,
    /// Throughput of the runs that count, transactions per second, in the order of execution.
    pub tps: Vec<f64>,
    /// Median of `tps`; `None` without a run that counts.
    pub tps_median: Option<f64>,
    /// Coefficient of variation of `tps` (standard deviation over mean); `None` below two runs.
    pub tps_cv: Option<f64>,
    /// How far off its figures can be; `None` without a run that counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uncertainty: Option<CaseUncertainty>,
    /// How much `tps` varies, and why.
    pub variation: Variation,
    /// Latency over all runs that count, from added histograms; for searches, from the confirming probes that did not
    /// miss the target.
    pub latency: Option<LatencySummary>,
    /// Service time over the same runs.
    pub service: Option<LatencySummary>,
    /// Scripts over all runs that count.
    pub scripts: Vec<ScriptSummary>,
    /// Ratios of facts that its workload directory names, over all scripts and all runs that count.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub measures: Vec<MeasureSummary>,
    /// Statements over all runs that count.
    pub statements: Vec<StatementSummary>,
    /// The queries of an analytical workload, over all runs that count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub analytical: Option<AnalyticalSummary>,
    /// The outages that were injected into its runs that count; the other figures are of the measurements before them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outages: Option<CaseOutages>,
    /// TPC-C figures over all runs that count, if it is TPC-C.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tpcc: Option<TpccSummary>,
    /// The highest rate that meets a latency target, if there was a search.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity: Option<CaseCapacity>,
    /// Counters of processor and kernel over its runs that count, if they were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub counters: Option<CounterSummary>,
    /// What a committed transaction cost the server, as far as it is known.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub costs: Vec<CaseCost>,
    /// What limited its runs that count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limiter: Option<Limiter>,
    /// The statements that its runs that count spent their time in, as the server saw it; those with the most sessions first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub top_statements: Vec<TopStatement>,
    /// Findings that belong to the case (such as the spread of its runs).
    pub findings: Vec<Finding>,
    /// The worst grade that follows from `findings` and the counting runs' findings.
    pub grade: Grade,
}

impl CaseSummary {
    /// How far off a figure may be to be precise enough, as a share.
    pub fn precision(&self) -> f64 {
        self.case.get(keys::run::PRECISION).map_or(PRECISION, Share::value)
    }

    /// The grade in words; `not measured` for a case of which no run was started, whose grade is void.
    pub fn verdict(&self) -> &'static str {
        if self.n_started == 0 { "not measured" } else { self.grade.as_str() }
    }

    /// Whether a rate was asked for, so that latency is the result and throughput the same, disturbed or not.
    pub fn has_given_rate(&self) -> bool {
        self.case.workload.pace.is_open() && self.capacity.is_none()
    }
}
