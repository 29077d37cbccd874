//! How faithful a replay is to the source of its workload: one grade for each measure, and the worst of them.
//!
//! A constant factor between the times is a faster machine; the spread of these factors is infidelity. What nobody counted is unknown, and
//! unknown is no good grade. The thresholds are conventions; round trips of known workloads test them.

mod measures;
mod pairs;

use model::run::fidelity::{ReplayRecord, UNKNOWN_TRANSACTIONS};
use serde::Serialize;

use self::pairs::TwoSidedStatements;

/// Statements that are shown, those with the most time at the source first.
const SHOWN_MAX: usize = 20;

/// How well a replay stands for its source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FidelityGrade {
    /// As the source, as far as one looks.
    Faithful,
    /// Like the source, with differences that matter little.
    Approximate,
    /// Something else than the source.
    NotYourWorkload,
    /// Nobody knows.
    Unknown,
}

impl FidelityGrade {
    /// The words for people.
    pub fn as_str(self) -> &'static str {
        match self {
            FidelityGrade::Faithful => "faithful",
            FidelityGrade::Approximate => "approximate",
            FidelityGrade::NotYourWorkload => "not your workload",
            FidelityGrade::Unknown => "unknown",
        }
    }
}

/// The fidelity of a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Fidelity {
    /// The worst measure; at most approximate if one that matters is unknown, or which statements belonged together, and unknown without
    /// coverage and mix.
    pub grade: FidelityGrade,
    /// Each measure.
    pub measures: Vec<FidelityMeasure>,
    /// The time of a statement here over that at the source, the median: above 1, this machine is slower. `None` if it is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_factor: Option<f64>,
    /// Statements, those with the most time at the source first.
    pub statements: Vec<StatementFidelity>,
}

/// One measure.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FidelityMeasure {
    /// `coverage`, `mix`, `rows`, `work`, `cache`, `times`, `errors`, `arrivals`.
    pub name: &'static str,
    /// The meaning in a few words.
    pub what: &'static str,
    /// Its value: a share, or for `times` a spread of logarithms; `None` if it is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
    /// The value as people read it, or why it is unknown.
    pub text: String,
    /// Threshold of `faithful`.
    pub faithful: f64,
    /// Threshold of `approximate`.
    pub approximate: f64,
    /// The grade.
    pub grade: FidelityGrade,
}

/// A statement at the source and in the replay.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StatementFidelity {
    /// Identity: 16 hexadecimal digits.
    pub id: String,
    /// Text without literals.
    pub text: String,
    /// Its share of the source's time.
    pub time_share: f64,
    /// Share of the calls at the source, and in the replay.
    pub calls_share: [f64; 2],
    /// Rows per call.
    pub rows_per_call: [Option<f64>; 2],
    /// Blocks touched per call.
    pub blocks_per_call: [Option<f64>; 2],
    /// Records of WAL per call.
    pub wal_records_per_call: [Option<f64>; 2],
    /// Mean time, microseconds.
    pub mean_us: [Option<f64>; 2],
    /// The measures that it does not meet: `coverage`, `rows`, `work`.
    pub fails: Vec<&'static str>,
}

/// What the replay's driver counted.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ReplayOutcome {
    /// Transactions that ended, and those of them that failed.
    pub transactions: Option<(u64, u64)>,
    /// Variance of the transactions of a second over their mean.
    pub dispersion: Option<f64>,
}

/// Judges a replay.
pub fn judge(record: &ReplayRecord, outcome: ReplayOutcome) -> Fidelity {
    let pairs = TwoSidedStatements::new(&record.source, record.replay.as_ref());
    let uncounted = if record.replay.is_some() { None } else { Some(record.uncounted.as_str()) };
    let (times, time_factor) = measures::times(&pairs, uncounted);
    let measures = vec![
        measures::coverage(&pairs, uncounted),
        measures::mix(&pairs, uncounted),
        measures::rows(&pairs, uncounted),
        measures::work(&pairs, uncounted),
        measures::cache(&pairs, uncounted),
        times,
        measures::errors(outcome.transactions),
        measures::arrivals(record.source.dispersion, outcome.dispersion),
    ];
    let mut grade = worst(&measures);
    if grade == FidelityGrade::Faithful && record.source.unknown.contains_key(UNKNOWN_TRANSACTIONS) {
        grade = FidelityGrade::Approximate;
    }
    Fidelity { grade, measures, time_factor, statements: pairs.shown(SHOWN_MAX) }
}

/// Without arrivals, which only a complete log shows, a replay may still be faithful.
fn worst(measures: &[FidelityMeasure]) -> FidelityGrade {
    let is =
        |name: &str, grade: FidelityGrade| measures.iter().any(|one| one.name == name && one.grade == grade);
    let any = |grade: FidelityGrade| measures.iter().any(|one| one.grade == grade);
    if any(FidelityGrade::NotYourWorkload) {
        return FidelityGrade::NotYourWorkload;
    }
    if is("coverage", FidelityGrade::Unknown) || is("mix", FidelityGrade::Unknown) {
        return FidelityGrade::Unknown;
    }
    let is_unsure = measures.iter().any(|one| one.name != "arrivals" && one.grade == FidelityGrade::Unknown);
    if is_unsure || any(FidelityGrade::Approximate) {
        FidelityGrade::Approximate
    } else {
        FidelityGrade::Faithful
    }
}

#[cfg(test)]
mod tests;
