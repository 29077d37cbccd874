//! Verifies the invariants of the TPC-B-like tables.

use anyhow::Result;
use model::workload::Dataset;
use wire::session::Session;
use workload::{Builtin, Schema, tpcb};

use crate::check::{CheckReport, run_checks};
use crate::state::complete_scale;

/// Verifies the TPC-B-like tables for a workload that ran on them.
///
/// # Errors
/// When the tables do not exist or are unfinished, or the server fails.
pub fn check(session: &mut Session, builtin: Builtin, schema: &Schema) -> Result<CheckReport> {
    let scale = complete_scale(session, Dataset::Tpcb, schema)?;
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

const SIMPLE: &str = "no teller and no branch was ever changed, as is normal for tpcb-simple: if that ran here, check \
                      with --workload tpcb-simple";
