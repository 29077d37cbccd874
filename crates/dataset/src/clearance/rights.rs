//! What keeps the user from dropping tables and routines: owners whose rights the user lacks, and objects that depend on
//! them. Read from the catalogs before anything is announced or begun; the drop itself is judged by the server.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use wire::session::Session;
use workload::Schema;

/// Limit per kind, because each problem has one line.
const NAMED_MAX: usize = 10;

/// The problem that the user has not the rights of an owner of these relations and routines, if so. Ownership is needed
/// to drop, `TRUNCATE` and `VACUUM`.
///
/// # Errors
/// When the server fails.
pub(super) fn of_others(
    session: &mut Session,
    relations: &BTreeSet<u32>,
    routines: &BTreeSet<u32>,
) -> Result<Option<String>> {
    let sql = format!(
        "select 'table `' || n.nspname || '.' || c.relname || '`', pg_catalog.pg_get_userbyid(c.relowner) \
           from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace \
          where c.oid in ({}) and not pg_catalog.pg_has_role(c.relowner, 'usage') \
         union all \
         select 'function `' || n.nspname || '.' || p.proname || '`', pg_catalog.pg_get_userbyid(p.proowner) \
           from pg_catalog.pg_proc p join pg_catalog.pg_namespace n on n.oid = p.pronamespace \
          where p.oid in ({}) and not pg_catalog.pg_has_role(p.proowner, 'usage') order by 1",
        list(relations),
        list(routines)
    );
    let rows = session.query(&sql).context("look for the owners of the tables")?;
    let (mut names, mut owners) = (Vec::new(), BTreeSet::new());
    for row in 0..rows.len() {
        let text = |column: usize| rows.rows[row].get(column).cloned().flatten();
        let (Some(name), Some(owner)) = (text(0), text(1)) else { continue };
        names.push(name);
        owners.insert(format!("`{owner}`"));
    }
    if names.is_empty() {
        return Ok(None);
    }
    let user = session.query("select current_user")?.scalar().unwrap_or_default().to_string();
    Ok(Some(format!(
        "`{user}` cannot replace {}, which {} to {}; connect as that role, use another database, name another schema \
         with --schema, or add --no-restore to a run, which measures the data as it is (a role that may only read: with -w tpcb-select, or -f and your own script)",
        named(&names),
        if names.len() == 1 { "belongs" } else { "belong" },
        owners.into_iter().collect::<Vec<_>>().join(", ")
    )))
}

/// The problem that objects of others depend on these relations, if so: without CASCADE, which pgdyno never uses, the
/// server refuses to drop them. Views and foreign keys are the usual ones.
///
/// # Errors
/// When the server fails.
pub(super) fn dependents(
    session: &mut Session,
    schema: &Schema,
    relations: &BTreeSet<u32>,
) -> Result<Option<String>> {
    let names = dependent(session, relations)?;
    if names.is_empty() {
        return Ok(None);
    }
    Ok(Some(format!(
        "the tables in schema `{}` cannot be loaded again, because {} {} on them; drop that yourself, name another schema \
         with --schema, or add --no-restore to a run, which measures the data as it is",
        schema.name(),
        named(&names),
        if names.len() == 1 { "depends" } else { "depend" }
    )))
}

/// The names of these objects.
///
/// # Errors
/// When the server fails.
pub(super) fn dependent(session: &mut Session, relations: &BTreeSet<u32>) -> Result<Vec<String>> {
    if relations.is_empty() {
        return Ok(Vec::new());
    }
    let rows = session.query(&dependents_sql(relations)).context("look for what depends on the tables")?;
    Ok(rows.into_first_column())
}

/// Normal dependencies on the tables, their indexes (foreign keys refer to these) and their row types, of objects that
/// are not parts of the tables themselves.
fn dependents_sql(relations: &BTreeSet<u32>) -> String {
    let oids = list(relations);
    format!(
        "with tables as (select oid, reltype from pg_catalog.pg_class where oid in ({oids})), \
          referenced(class, id) as ( \
            select 'pg_catalog.pg_class'::regclass::oid, oid from tables \
            union all select 'pg_catalog.pg_class'::regclass, i.indexrelid from pg_catalog.pg_index i \
              where i.indrelid in (select oid from tables) \
            union all select 'pg_catalog.pg_constraint'::regclass, c.oid from pg_catalog.pg_constraint c \
              where c.conrelid in (select oid from tables) \
            union all select 'pg_catalog.pg_type'::regclass, t.oid from pg_catalog.pg_type t \
              where t.oid in (select reltype from tables) \
                 or t.oid in (select y.typarray from pg_catalog.pg_type y where y.oid in (select reltype from tables))), \
          dependent(class, id, relation) as ( \
            select distinct d.classid, d.objid, coalesce(r.ev_class, c.conrelid, a.adrelid, i.indrelid, g.tgrelid, p.polrelid, \
                     case when d.classid = 'pg_catalog.pg_class'::regclass then d.objid end) \
              from pg_catalog.pg_depend d join referenced f on d.refclassid = f.class and d.refobjid = f.id \
              left join pg_catalog.pg_rewrite r on d.classid = 'pg_catalog.pg_rewrite'::regclass and r.oid = d.objid \
              left join pg_catalog.pg_constraint c on d.classid = 'pg_catalog.pg_constraint'::regclass and c.oid = d.objid \
              left join pg_catalog.pg_attrdef a on d.classid = 'pg_catalog.pg_attrdef'::regclass and a.oid = d.objid \
              left join pg_catalog.pg_index i on d.classid = 'pg_catalog.pg_class'::regclass and i.indexrelid = d.objid \
              left join pg_catalog.pg_trigger g on d.classid = 'pg_catalog.pg_trigger'::regclass and g.oid = d.objid \
              left join pg_catalog.pg_policy p on d.classid = 'pg_catalog.pg_policy'::regclass and p.oid = d.objid \
             where d.deptype = 'n') \
         select distinct case when d.class = 'pg_catalog.pg_rewrite'::regclass \
                     then pg_catalog.pg_describe_object('pg_catalog.pg_class'::regclass, d.relation, 0) \
                     else pg_catalog.pg_describe_object(d.class, d.id, 0) end as what \
           from dependent d where d.relation is null or d.relation not in (select oid from tables) order by 1"
    )
}

fn named(names: &[String]) -> String {
    let more = names.len().saturating_sub(NAMED_MAX);
    let first = names.iter().take(NAMED_MAX).cloned().collect::<Vec<_>>().join(", ");
    if more == 0 { first } else { format!("{first} and {more} more") }
}

/// OIDs for `in (…)`; 0 is no object's.
fn list(oids: &BTreeSet<u32>) -> String {
    if oids.is_empty() {
        return "0".to_string();
    }
    oids.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")
}
