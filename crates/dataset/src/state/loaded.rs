//! Tables of a database that carry pgdyno's mark: what `clean` leaves, because somebody may want their data.

use anyhow::{Context, Result};
use wire::session::Session;
use workload::objects::marker::Marker;

/// A table with the mark of a load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadedTable {
    /// With its schema, quoted.
    pub name: String,
    /// The name of its owner.
    pub owner: String,
    /// Whether the session's role may drop it: it has the rights of its owner or of its schema's owner.
    pub is_droppable: bool,
}

/// Tables of this database whose comment is the marker of a load. At most a hundred.
///
/// # Errors
/// When the server fails.
pub fn loaded_tables(session: &mut Session) -> Result<Vec<LoadedTable>> {
    let sql = "select pg_catalog.format('%I.%I', n.nspname, c.relname) as name, \
               pg_catalog.obj_description(c.oid, 'pg_class') as comment, \
               pg_catalog.pg_get_userbyid(c.relowner) as owner, \
               pg_catalog.pg_has_role(c.relowner, 'USAGE') or pg_catalog.pg_has_role(n.nspowner, 'USAGE') as is_droppable \
               from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace \
               where c.relkind in ('r', 'p') and pg_catalog.obj_description(c.oid, 'pg_class') like 'pgdyno%' \
               order by 1 limit 100";
    let rows = session.query(sql).context("look for tables that pgdyno loaded")?;
    let mut tables = Vec::new();
    for i in 0..rows.len() {
        let (Some(name), Some(comment)) = (rows.get(i, "name"), rows.get(i, "comment")) else { continue };
        if !matches!(Marker::parse(comment), Ok(None)) {
            tables.push(LoadedTable {
                name: name.to_string(),
                owner: rows.get(i, "owner").unwrap_or_default().to_string(),
                is_droppable: rows.get(i, "is_droppable") == Some("t"),
            });
        }
    }
    Ok(tables)
}
