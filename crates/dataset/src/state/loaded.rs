//! Tables of a database that carry pgdyno's mark: what `clean` leaves, because somebody may want their data.

use anyhow::{Context, Result};
use wire::session::Session;
use workload::objects::marker::Marker;

/// Tables of this database whose comment is the marker of a load, qualified and quoted. At most a hundred.
///
/// # Errors
/// When the server fails.
pub fn loaded_tables(session: &mut Session) -> Result<Vec<String>> {
    let sql = "select pg_catalog.format('%I.%I', n.nspname, c.relname), \
               pg_catalog.obj_description(c.oid, 'pg_class') as comment \
               from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace \
               where c.relkind in ('r', 'p') and pg_catalog.obj_description(c.oid, 'pg_class') like 'pgdyno%' \
               order by 1 limit 100";
    let rows = session.query(sql).context("look for tables that pgdyno loaded")?;
    let mut names = Vec::new();
    for row in rows.rows {
        let [Some(name), Some(comment)] = row.as_slice() else { continue };
        if !matches!(Marker::parse(comment), Ok(None)) {
            names.push(name.clone());
        }
    }
    Ok(names)
}
