//! Findings: what casts doubt on a number, or is worth knowing about it, with evidence and advice.

use serde::Serialize;

/// How much a finding weighs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Worth knowing; the number stands.
    Note,
    /// The number may be off; the finding says how.
    Doubt,
    /// The number does not mean what it seems to mean and must not be used.
    Void,
}

/// Whether a number can be trusted; follows from findings alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Grade {
    /// No finding above a note.
    Valid,
    /// At least one doubt.
    Doubtful,
    /// At least one finding voids it, or nothing was measured.
    Void,
}

impl Grade {
    /// The grade that follows from findings.
    pub fn from_findings<'a>(findings: impl IntoIterator<Item = &'a Finding>) -> Grade {
        match findings.into_iter().map(|finding| finding.severity).max() {
            Some(Severity::Void) => Grade::Void,
            Some(Severity::Doubt) => Grade::Doubtful,
            Some(Severity::Note) | None => Grade::Valid,
        }
    }

    /// The word for people.
    pub fn as_str(self) -> &'static str {
        match self {
            Grade::Valid => "valid",
            Grade::Doubtful => "doubtful",
            Grade::Void => "void",
        }
    }
}

/// One finding.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Finding {
    /// Identifier in the catalogue: `checkpoint-in-window`.
    pub id: &'static str,
    /// Severity.
    pub severity: Severity,
    /// What was found: one sentence with the measured figure.
    pub evidence: String,
    /// Advice: one sentence.
    pub advice: String,
    /// What it can have done to the throughput: it would be a doubt if the uncertainty's budget did not bound it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effect: Option<Effect>,
}

/// What a disturbance can have done to the throughput.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Effect {
    /// The row of the budget: `steal`.
    pub row: &'static str,
    /// The smallest ratio of the undisturbed throughput to the measured one.
    pub low: f64,
    /// The largest one.
    pub high: f64,
}

impl Effect {
    /// The largest part by which the throughput can have been changed.
    pub fn change(&self) -> f64 {
        (self.high - 1.0).max(1.0 - self.low)
    }
}
