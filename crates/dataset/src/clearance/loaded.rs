//! Tables of a database that carry pgdyno's mark: what `clean` leaves, because somebody may want their data.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use model::workload::Dataset;
use wire::session::Session;
use workload::Schema;
use workload::objects::marker::{Marker, workload_of};

use crate::clearance::{Clearance, Consent};

/// Tables of one workload in one schema, with the marks of a load.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Loaded {
    /// At least one.
    pub tables: Vec<LoadedTable>,
    /// What others made or changed: it would be lost with the tables, or keeps them from being dropped.
    pub belongings: Vec<String>,
}

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
pub fn loaded_tables(session: &mut Session) -> Result<Vec<Loaded>> {
    let sql = "select pg_catalog.format('%I.%I', n.nspname, c.relname) as name, n.nspname as schema, c.relname as relation, \
               pg_catalog.obj_description(c.oid, 'pg_class') as comment, \
               pg_catalog.pg_get_userbyid(c.relowner) as owner, \
               pg_catalog.pg_has_role(c.relowner, 'USAGE') or pg_catalog.pg_has_role(n.nspowner, 'USAGE') as is_droppable \
               from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace \
               where c.relkind in ('r', 'p') and pg_catalog.obj_description(c.oid, 'pg_class') like 'pgdyno%' \
               order by 1 limit 100";
    let rows = session.query(sql).context("look for tables that pgdyno loaded")?;
    let mut by_load = BTreeMap::<_, (Loaded, Vec<String>)>::new();
    for i in 0..rows.len() {
        let text = |column: &str| rows.get(i, column).unwrap_or_default();
        let comment = text("comment");
        if matches!(Marker::parse(comment), Ok(None)) {
            continue;
        }
        let workload = workload_of(comment).and_then(Dataset::named).map(Dataset::name);
        let (loaded, names) = by_load.entry((text("schema").to_string(), workload)).or_default();
        names.push(text("relation").to_string());
        loaded.tables.push(LoadedTable {
            name: text("name").to_string(),
            owner: text("owner").to_string(),
            is_droppable: text("is_droppable") == "t",
        });
    }
    let judged = by_load.into_iter().map(|((schema, workload), (loaded, names))| {
        // What only a newer version knows, this one cannot judge.
        let Some(dataset) = workload.and_then(Dataset::named) else { return Ok(loaded) };
        let schema = Schema::named(&schema);
        let clearance = Clearance { dataset, schema: &schema, tables: &names, consent: Consent::default() };
        let is_droppable = loaded.tables.iter().all(|table| table.is_droppable);
        Ok(Loaded { belongings: clearance.belongings(session, is_droppable)?, ..loaded })
    });
    judged.collect()
}
