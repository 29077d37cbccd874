//! Verifies a workload's invariants in a database, all in one snapshot.

use anyhow::{Context, Result, bail, ensure};
use model::experiment::case::WorkloadKind;
use wire::session::Session;
use workload::{Builtin, Schema, tpcb};

use crate::data::{self, DataState, inspect};
use crate::dataset::Dataset;
use crate::{schema, scripts, tpcc};

/// One invariant and what violates it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckResult {
    /// Short name.
    pub id: String,
    /// What must hold.
    pub title: String,
    /// Violating rows as `column=value` text; the query returns no more than 100.
    pub violations: Vec<String>,
}

/// What a check found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckReport {
    /// Scale of the data.
    pub scale: u32,
    /// Transactions recorded in the history.
    pub history_rows: u64,
    /// Every invariant.
    pub results: Vec<CheckResult>,
    /// What else may explain the violations.
    pub hint: Option<&'static str>,
}

impl CheckReport {
    /// Whether every invariant holds.
    pub fn is_sound(&self) -> bool {
        self.results.iter().all(|result| result.violations.is_empty())
    }
}

/// Whether there is anything to verify for a workload.
///
/// # Errors
/// Says what to do instead when there is not.
pub fn require_invariants(kind: WorkloadKind) -> Result<()> {
    ensure!(
        kind != WorkloadKind::Scripts,
        "what scripts of your own leave behind, only you know: pgdyno has no invariants to check; to check TPC-B-like \
         tables nevertheless, name what ran on them with --workload tpcb, tpcb-simple or tpcb-select"
    );
    Ok(())
}

/// Verifies the tables of a workload that ran on them, in the schema `asked` for or the first of the search path.
///
/// # Errors
/// When there are no such tables, they are unfinished, there is nothing to verify, or the server fails.
pub fn check(session: &mut Session, kind: WorkloadKind, asked: Option<&str>) -> Result<CheckReport> {
    require_invariants(kind)?;
    let schema = &schema::find(session, asked)?;
    match kind {
        WorkloadKind::Tpcc => tpcc::check(session, Dataset::Tpcc, schema),
        WorkloadKind::TprocC => tpcc::check(session, Dataset::TprocC, schema),
        _ => {
            let builtin = scripts::builtin(kind).context("TPC-B-like workloads are built in")?;
            check_tpcb(session, builtin, schema)
        }
    }
}

/// Verifies the TPC-B-like tables for a workload that ran on them.
///
/// # Errors
/// When there are no such tables, they are unfinished, or the server fails.
pub fn check_tpcb(session: &mut Session, builtin: Builtin, schema: &Schema) -> Result<CheckReport> {
    let scale = match inspect(session, Dataset::Tpcb, schema)? {
        DataState::Whole(marker) => marker.scale,
        DataState::Foreign { scale: Some(scale), .. } if scale > 0 => scale,
        DataState::Foreign { tables, .. } => {
            bail!("the tables {} are not a whole TPC-B-like set", tables.join(", "))
        }
        DataState::Half(marker) => bail!(
            "loading scale {} was begun by pgdyno {} and not finished; load again with pgdyno init",
            marker.scale,
            marker.tool_version
        ),
        DataState::Absent => bail!(data::absent(session, Dataset::Tpcb, schema)?),
    };
    session.execute("begin transaction isolation level repeatable read read only")?;
    let results = run_checks(session, &tpcb::balance_checks(schema, builtin, scale))?;
    let is_violated = results.iter().any(|result| !result.violations.is_empty());
    let is_hinted =
        is_violated && session.query(&tpcb::is_untouched_but_for_accounts(schema))?.scalar() == Some("t");
    let history = session.query(&tpcb::history_rows(schema))?;
    let history_rows = history.scalar().and_then(|n| n.parse().ok()).unwrap_or(0);
    session.execute("commit")?;
    Ok(CheckReport { scale, history_rows, results, hint: is_hinted.then_some(SIMPLE) })
}

const SIMPLE: &str = "no teller and no branch was ever changed, which is how tpcb-simple leaves them: if that ran here, check \
                      with --workload tpcb-simple";

/// Runs checks in the transaction that is open.
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
