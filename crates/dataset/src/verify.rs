//! Verifies a workload's invariants in a database, all in one snapshot.

pub mod count;

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use model::experiment::case::WorkloadKind;
use wire::session::Session;
use workload::catalogue::maker;

use crate::check::{self, CheckReport};
use crate::schema;
use crate::state::{WorkloadTables, is_filtered, quoted_name};

/// Checks that a workload has invariants to verify.
///
/// # Errors
/// If it has none, says what to do instead.
pub fn require_invariants(kind: WorkloadKind) -> Result<()> {
    ensure!(
        !kind.is_own(),
        "pgdyno has no invariants to check for your own scripts; to check TPC-B-like \
         tables nevertheless, name the workload that ran on them with --workload tpcb, tpcb-simple or tpcb-select"
    );
    Ok(())
}

/// Verifies the tables of a workload, in the schema `asked` for or the first of the search path.
///
/// # Errors
/// When the tables do not exist or are unfinished, there is nothing to verify, or the server fails.
pub fn check(session: &mut Session, kind: WorkloadKind, asked: Option<&str>) -> Result<CheckReport> {
    require_invariants(kind)?;
    let schema = &schema::find(session, asked)?;
    check::run(session, kind, schema)
}

/// Cheap consistency conditions that are violated, each with an example; none if policies of row security show the user
/// only some of the rows.
///
/// # Errors
/// When the server fails.
pub fn quick_check(session: &mut Session, home: Option<&WorkloadTables>) -> Result<BTreeMap<String, String>> {
    let Some(WorkloadTables { dataset, schema }) = home else { return Ok(BTreeMap::new()) };
    if maker(*dataset).checks.quick.is_empty() {
        return Ok(BTreeMap::new());
    }
    let names = dataset.tables().into_iter();
    let names: Vec<String> = names.map(|table| quoted_name(schema.name(), table)).collect();
    if is_filtered(session, &names)? {
        Ok(BTreeMap::new())
    } else {
        check::run_quick(session, *dataset, schema)
    }
}
