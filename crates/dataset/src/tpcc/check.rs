//! Verifies the consistency conditions of TPC-C on its tables.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use model::workload::Dataset;
use wire::quote_literal;
use wire::session::Session;
use workload::{Schema, tpcc};

use crate::check::{CheckReport, run_checks};
use crate::state::complete_scale;

/// The cheap conditions that are violated, each with an example; none for tables so large that even these would take
/// long.
///
/// # Errors
/// When the server fails.
pub(crate) fn quick_check(session: &mut Session, schema: &Schema) -> Result<BTreeMap<String, String>> {
    let sql = format!(
        "select sum(pg_catalog.pg_relation_size(c.oid)) from pg_catalog.pg_class c \
         join pg_catalog.pg_namespace n on n.oid = c.relnamespace \
         where n.nspname = {} and c.relname in ('history', 'orders')",
        quote_literal(schema.name())
    );
    let size = session.query(&sql)?;
    let bytes: u64 = size.scalar().and_then(|n| n.parse().ok()).context("a relation has a size")?;
    if bytes > QUICK_BYTES_MAX {
        return Ok(BTreeMap::new());
    }
    session.execute("begin transaction isolation level repeatable read read only")?;
    let mut checks = tpcc::checks(schema, 1);
    checks.retain(|check| tpcc::QUICK.contains(&check.id));
    let results = run_checks(session, &checks)?;
    session.execute("commit")?;
    let broken = results.into_iter().filter_map(|result| {
        let example = result.violations.first()?;
        Some((result.id, format!("{}: {example}", result.title)))
    });
    Ok(broken.collect())
}

/// Verifies the consistency conditions, and before the first transaction the population too.
///
/// # Errors
/// When the tables do not exist or are unfinished, or the server fails.
pub(crate) fn check(
    session: &mut Session,
    (dataset, kept): (Dataset, Option<&[&str]>),
    schema: &Schema,
) -> Result<CheckReport> {
    let scale = complete_scale(session, dataset, schema)?;
    session.execute("begin transaction isolation level repeatable read read only")?;
    let mut checks = tpcc::checks(schema, scale);
    match kept {
        Some(kept) => checks.retain(|check| kept.contains(&check.id)),
        None if session.query(&tpcc::is_fresh(schema))?.is_empty() => {
            checks.extend(tpcc::fresh_checks(schema, scale));
        }
        None => {}
    }
    let results = run_checks(session, &checks)?;
    let history = session.query(&schema.fill("select count(*) from @.history"))?;
    let history_rows = history.scalar().and_then(|n| n.parse().ok()).unwrap_or(0);
    session.execute("commit")?;
    Ok(CheckReport { scale, history_rows, results, hint: None })
}

/// Larger tables are not checked after each run: about 100 warehouses, and some seconds.
const QUICK_BYTES_MAX: u64 = 512 << 20;
