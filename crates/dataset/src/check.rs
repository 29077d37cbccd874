//! Invariants of a workload, and the rows that violate them.

use anyhow::{Context, Result};
use wire::session::Session;

/// One invariant and its violations.
#[allow(missing_docs, reason = "the names say it")]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckResult {
    pub id: String,
    /// The invariant.
    pub title: String,
    /// Violating rows as `column=value` text; the query returns no more than 100.
    pub violations: Vec<String>,
}

/// Result of a check.
#[allow(missing_docs, reason = "the names say it")]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckReport {
    pub scale: u32,
    /// Transactions recorded in the history.
    pub history_rows: u64,
    pub results: Vec<CheckResult>,
    /// Another possible explanation of the violations.
    pub hint: Option<&'static str>,
}

impl CheckReport {
    /// Whether every invariant holds.
    pub fn is_sound(&self) -> bool {
        self.results.iter().all(|result| result.violations.is_empty())
    }
}

/// Runs checks in the open transaction.
pub(crate) fn run_checks(session: &mut Session, checks: &[workload::Check]) -> Result<Vec<CheckResult>> {
    let run = |check: &workload::Check| {
        let rows = session.query(&check.sql).with_context(|| format!("check `{}`", check.id))?;
        let violations = rows.rows.iter().map(|row| violation(&rows.columns, row)).collect();
        Ok(CheckResult { id: check.id.to_string(), title: check.title.to_string(), violations })
    };
    checks.iter().map(run).collect()
}

fn violation(columns: &[String], row: &[Option<String>]) -> String {
    let pairs = columns
        .iter()
        .zip(row)
        .map(|(column, value)| format!("{column}={}", value.as_deref().unwrap_or("null")));
    pairs.collect::<Vec<_>>().join(" ")
}
