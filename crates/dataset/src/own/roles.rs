//! Roles that the user's data needs on a server of our own: a dump names them and has none of them.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use wire::quote_ident;
use wire::session::Session;
use workload::script::sqlfile::dump::RolesHere;

/// Most roles that are made: a file that names more is no dump of an application.
const ROLES_MAX: usize = 1000;

/// The roles of a server of our own before any data is in it.
///
/// # Errors
/// When the server fails.
pub fn at_first(session: &mut Session) -> Result<RolesHere> {
    let rows = session.query("select rolname::text as name from pg_catalog.pg_roles")?;
    let before = (0..rows.len()).filter_map(|row| rows.get(row, "name")).map(str::to_string).collect();
    Ok(RolesHere { before, ..RolesHere::default() })
}

/// Makes those of the roles that do not exist, without login and without any privilege. Returns their names.
///
/// # Errors
/// When there are too many, or the server refuses one.
pub fn make_missing(session: &mut Session, needed: &BTreeSet<String>) -> Result<Vec<String>> {
    let rows = session.query("select rolname::text as name from pg_catalog.pg_roles")?;
    let known: BTreeSet<&str> = (0..rows.len()).filter_map(|row| rows.get(row, "name")).collect();
    let missing: Vec<String> = needed.iter().filter(|name| !known.contains(name.as_str())).cloned().collect();
    anyhow::ensure!(
        missing.len() <= ROLES_MAX,
        "the data names {} roles, more than {ROLES_MAX}",
        missing.len()
    );
    for name in &missing {
        let sql = format!("create role {} nologin", quote_ident(name));
        session
            .execute(&sql)
            .with_context(|| format!("cannot make the role `{name}`, which the data names"))?;
    }
    Ok(missing)
}
