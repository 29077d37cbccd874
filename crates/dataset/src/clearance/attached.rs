//! What DROP TABLE silently drops or changes although it belongs to others: a sequence that is owned by a column but is
//! not its default, and rows that another table shows as its own.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use wire::session::Session;
use workload::Schema;

/// Fails if something of that kind is attached to one of the tables.
///
/// # Errors
/// Names all of it and says what to do, or when the server fails.
pub(super) fn expect_none(session: &mut Session, schema: &Schema, tables: &BTreeSet<u32>) -> Result<()> {
    let found = to(session, tables)?;
    ensure!(
        found.is_empty(),
        "nothing was dropped, because that would also drop what pgdyno did not create: {}; detach that yourself, or name another \
         schema than `{}` with --schema",
        found.join(", "),
        schema.name()
    );
    Ok(())
}

/// What of that kind is attached to one of the tables.
///
/// # Errors
/// When the server fails.
pub(super) fn to(session: &mut Session, tables: &BTreeSet<u32>) -> Result<Vec<String>> {
    if tables.is_empty() {
        return Ok(Vec::new());
    }
    let rows = session.query(&attached_sql(tables)).context("look for objects attached to the tables")?;
    Ok(rows.into_first_column())
}

fn attached_sql(tables: &BTreeSet<u32>) -> String {
    let oids = tables.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
    let name = |oid: &str| {
        format!(
            "(select n.nspname || '.' || c.relname from pg_catalog.pg_class c \
               join pg_catalog.pg_namespace n on n.oid = c.relnamespace where c.oid = {oid})"
        )
    };
    let [sequence, table, child, parent] = ["d.objid", "d.refobjid", "i.inhrelid", "i.inhparent"].map(name);
    format!(
        "select 'sequence `' || {sequence} || '`, which is owned by `' || {table} || '`' as what \
           from pg_catalog.pg_depend d join pg_catalog.pg_class s on s.oid = d.objid and s.relkind = 'S' \
          where d.classid = 'pg_catalog.pg_class'::regclass and d.refclassid = 'pg_catalog.pg_class'::regclass \
            and d.deptype = 'a' and d.refobjid in ({oids}) \
            and not exists (select 1 from pg_catalog.pg_depend u \
                              join pg_catalog.pg_attrdef f on f.oid = u.objid and f.adrelid in ({oids}) \
                             where u.classid = 'pg_catalog.pg_attrdef'::regclass \
                               and u.refclassid = 'pg_catalog.pg_class'::regclass and u.refobjid = s.oid) \
         union all \
         select 'rows of `' || {parent} || '`, which are in its part `' || {child} || '`' \
           from pg_catalog.pg_inherits i where i.inhrelid in ({oids}) and i.inhparent not in ({oids}) \
          order by 1"
    )
}
