//! Invariants of a workload, and the rows that violate them.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use model::workload::{Dataset, WorkloadKind};
use wire::quote_literal;
use wire::session::{Session, SessionError};
use workload::catalogue::{self, maker};
use workload::{Invariant, Schema};

use crate::state::complete_scale;

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
    /// Transactions recorded in the history; `None` if the tables have none.
    pub history_rows: Option<u64>,
    pub results: Vec<CheckResult>,
    /// Another possible explanation of the violations.
    pub hint: Option<&'static str>,
}

/// Larger tables are not checked after each run: about 100 warehouses, and some seconds.
const QUICK_BYTES_MAX: u64 = 512 << 20;

impl CheckReport {
    /// Whether every invariant holds.
    pub fn is_sound(&self) -> bool {
        self.results.iter().all(|result| result.violations.is_empty())
    }
}

/// Verifies what must hold in the tables of a workload after it ran, and before its first transaction what must hold then,
/// all in one snapshot.
///
/// # Errors
/// When the tables do not exist or are unfinished, or the server fails.
pub(crate) fn run(session: &mut Session, kind: WorkloadKind, schema: &Schema) -> Result<CheckReport> {
    let dataset = kind.row().data;
    let scale = complete_scale(session, dataset, schema)?;
    let checks = &maker(dataset).checks;
    let mut asked = catalogue::checks(kind);

    session.execute("begin transaction isolation level repeatable read read only")?;
    if let Some(fresh) = &checks.fresh
        && session.query(&schema.fill(fresh.is_changed))?.is_empty()
    {
        asked.extend(fresh.checks);
    }
    let results = run_checks(session, &asked, schema, scale)?;

    let is_violated = results.iter().any(|result| !result.violations.is_empty());
    let hint = match checks.hint.filter(|_| is_violated) {
        Some(hint) if session.query(&schema.fill(hint.sql))?.scalar() == Some("t") => Some(hint.text),
        _ => None,
    };
    let count = |table| -> Result<u64> {
        let rows = session.query(&format!("select count(*) from {}", schema.sql_name(table)))?;
        Ok(rows.scalar().and_then(|n| n.parse().ok()).unwrap_or(0))
    };
    let history_rows = dataset.row().history_table.map(count).transpose()?;
    session.execute("commit")?;
    Ok(CheckReport { scale, history_rows, results, hint })
}

/// The cheap invariants of tables that are violated, each with an example; none for tables so large that even these would
/// take long.
///
/// # Errors
/// When the server fails.
pub(crate) fn run_quick(
    session: &mut Session,
    dataset: Dataset,
    schema: &Schema,
) -> Result<BTreeMap<String, String>> {
    let checks = &maker(dataset).checks;
    let large: Vec<String> = checks.quick_reads.iter().map(|table| quote_literal(table)).collect();
    let sql = format!(
        "select sum(pg_catalog.pg_relation_size(c.oid)) from pg_catalog.pg_class c \
         join pg_catalog.pg_namespace n on n.oid = c.relnamespace \
         where n.nspname = {} and c.relname in ({})",
        quote_literal(schema.name()),
        large.join(", ")
    );
    let size = session.query(&sql)?;
    let bytes: u64 = size.scalar().and_then(|n| n.parse().ok()).context("a relation has a size")?;
    if bytes > QUICK_BYTES_MAX {
        return Ok(BTreeMap::new());
    }

    session.execute("begin transaction isolation level repeatable read read only")?;
    let quick: Vec<&Invariant> =
        checks.always.iter().filter(|check| checks.quick.contains(&check.id)).collect();
    // None of them counts rows by the scale.
    let results = run_checks(session, &quick, schema, 1)?;
    session.execute("commit")?;
    let broken = results.into_iter().filter_map(|result| {
        let example = result.violations.first()?;
        Some((result.id, format!("{}: {example}", result.title)))
    });
    Ok(broken.collect())
}

/// Runs checks in the open transaction.
fn run_checks(
    session: &mut Session,
    checks: &[&Invariant],
    schema: &Schema,
    scale: u32,
) -> Result<Vec<CheckResult>> {
    let run = |check: &&Invariant| {
        let rows = session.query(&check.query(schema, scale)).map_err(|error| {
            let needs = match &error {
                SessionError::Server(server) if server.is_denied() => {
                    format!(" needs SELECT on all tables of schema `{}`", schema.name())
                }
                _ => String::new(),
            };
            anyhow::Error::from(error).context(format!("check `{}`{needs}", check.id))
        })?;
        let violations = rows.rows.iter().map(|row| violation(&rows.columns, row)).collect();
        Ok(CheckResult { id: check.id.to_string(), title: check.title.to_string(), violations })
    };
    checks.iter().map(run).collect()
}

pub(crate) fn violation(columns: &[String], row: &[Option<String>]) -> String {
    let pairs = columns
        .iter()
        .zip(row)
        .map(|(column, value)| format!("{column}={}", value.as_deref().unwrap_or("null")));
    pairs.collect::<Vec<_>>().join(" ")
}
