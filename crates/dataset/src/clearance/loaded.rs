//! Tables and routines of a database that carry pgdyno's mark: what `clean` leaves, because somebody could still need the data.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use model::workload::Dataset;
use wire::session::Session;
use workload::Schema;
use workload::objects::marker::{Marker, workload_of};

use crate::clearance::{Clearance, LoadConsent};

/// Tables and routines of one workload in one schema, with the marks of a load.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LoadedTables {
    /// None where only the routines are left.
    pub tables: Vec<LoadedObject>,
    /// Functions and procedures.
    pub routines: Vec<LoadedObject>,
    /// What others made or changed: it would be lost with the tables, or keeps them from being dropped.
    pub belongings: Vec<String>,
}

/// A table or a routine with the mark of a load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadedObject {
    /// With its schema, quoted; a routine with its kind and the types of its arguments, as DROP takes it.
    pub name: String,
    /// The name of its owner.
    pub owner: String,
    /// Whether the session's role may drop it: it has the rights of its owner or of its schema's owner.
    pub is_droppable: bool,
}

/// Tables of this database whose comment is the marker of a load, at most a hundred, and routines with the mark of a load.
///
/// # Errors
/// When the server fails.
pub fn loaded_objects(session: &mut Session) -> Result<Vec<LoadedTables>> {
    let sql = "select pg_catalog.format('%I.%I', n.nspname, c.relname) as name, n.nspname as schema, c.relname as relation, \
               pg_catalog.obj_description(c.oid, 'pg_class') as comment, \
               pg_catalog.pg_get_userbyid(c.relowner) as owner, \
               pg_catalog.pg_has_role(c.relowner, 'USAGE') or pg_catalog.pg_has_role(n.nspowner, 'USAGE') as is_droppable \
               from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace \
               where c.relkind in ('r', 'p') and pg_catalog.obj_description(c.oid, 'pg_class') like 'pgdyno%' \
               order by 1 limit 100";
    let rows = session.query(sql).context("look for tables that pgdyno loaded")?;
    let mut by_load = BTreeMap::<_, (LoadedTables, Vec<String>)>::new();
    for i in 0..rows.len() {
        let text = |column: &str| rows.get(i, column).unwrap_or_default();
        let comment = text("comment");
        if matches!(Marker::parse(comment), Ok(None)) {
            continue;
        }
        let workload = workload_of(comment).and_then(Dataset::named).map(Dataset::name);
        let (loaded, names) = by_load.entry((text("schema").to_string(), workload)).or_default();
        names.push(text("relation").to_string());
        loaded.tables.push(LoadedObject {
            name: text("name").to_string(),
            owner: text("owner").to_string(),
            is_droppable: text("is_droppable") == "t",
        });
    }
    for schema in with_routines(session)? {
        for dataset in Dataset::ALL {
            by_load.entry((schema.clone(), Some(dataset.name()))).or_default();
        }
    }
    let mut found = Vec::new();
    for ((schema, workload), (mut loaded, names)) in by_load {
        // What only a newer version knows, this one cannot judge.
        if let Some(dataset) = workload.and_then(Dataset::named) {
            let schema = Schema::named(&schema);
            let clearance =
                Clearance { dataset, schema: &schema, tables: &names, consent: LoadConsent::default() };
            loaded.routines = routines(session, &clearance)?;
            if !loaded.tables.is_empty() {
                let is_droppable = loaded.tables.iter().all(|table| table.is_droppable);
                loaded.belongings = clearance.belongings(session, is_droppable)?;
            }
        }
        if !loaded.tables.is_empty() || !loaded.routines.is_empty() {
            found.push(loaded);
        }
    }
    Ok(found)
}

/// Schemas in which a routine has a comment like a mark.
fn with_routines(session: &mut Session) -> Result<BTreeSet<String>> {
    let sql = "select distinct n.nspname from pg_catalog.pg_proc p join pg_catalog.pg_namespace n on n.oid = p.pronamespace \
               where pg_catalog.obj_description(p.oid, 'pg_proc') like 'pgdyno%'";
    let rows = session.query(sql).context("look for routines that pgdyno made")?;
    Ok(rows.into_first_column().into_iter().collect())
}

/// Those that a load of this dataset has made, as they are now.
fn routines(session: &mut Session, clearance: &Clearance) -> Result<Vec<LoadedObject>> {
    let own = clearance.routines(session)?.into_iter();
    let own: Vec<_> = own.filter(|routine| routine.marked_by == Some(clearance.dataset)).collect();
    if own.is_empty() {
        return Ok(Vec::new());
    }
    let oids: Vec<String> = own.iter().map(|routine| routine.oid.to_string()).collect();
    let sql = format!(
        "select p.oid, pg_catalog.quote_ident(n.nspname) as schema, pg_catalog.pg_get_userbyid(p.proowner) as owner, \
         pg_catalog.pg_has_role(p.proowner, 'USAGE') or pg_catalog.pg_has_role(n.nspowner, 'USAGE') as is_droppable \
         from pg_catalog.pg_proc p join pg_catalog.pg_namespace n on n.oid = p.pronamespace where p.oid in ({})",
        oids.join(", ")
    );
    let rows = session.query(&sql).context("look for the owners of routines")?;
    let owned = own.iter().filter_map(|routine| {
        let row = (0..rows.len()).find(|row| rows.parse(*row, "oid") == Some(routine.oid))?;
        let kind = if routine.signature.is_procedure { "PROCEDURE" } else { "FUNCTION" };
        Some(LoadedObject {
            name: format!("{kind} {}.{}", rows.get(row, "schema")?, routine.signature.text()),
            owner: rows.get(row, "owner")?.to_string(),
            is_droppable: rows.get(row, "is_droppable") == Some("t"),
        })
    });
    Ok(owned.collect())
}
