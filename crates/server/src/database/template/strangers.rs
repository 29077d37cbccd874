//! Contents of a database that pgdyno did not load: other tables and the like, and large
//! objects. An [`super::inventory`] shows that such an object is the same as before, not that its rows are.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use wire::Session;

use super::inventory::FIRST_OID;
use crate::database::relations::{Missing, with_parts};

/// The objects that pgdyno loaded.
#[derive(Debug, Clone, Copy)]
pub enum LoadedObjects<'a> {
    /// These tables, with their partitions and the sequences of their columns.
    Tables(&'a [&'a str]),
    /// Everything that [`holders`] did not find before.
    NotThereBefore(&'a BTreeSet<u32>),
}

/// An object in the session's database with data that was not loaded, for messages.
///
/// # Errors
/// When the server fails.
pub fn stranger(session: &mut Session, load: LoadedObjects) -> Result<Option<String>> {
    let (tables, before): (&[&str], _) = match load {
        LoadedObjects::Tables(tables) => (tables, None),
        LoadedObjects::NotThereBefore(before) => (&[], Some(before)),
    };
    let rows = session.query(&holders_sql(tables)).context("list the contents of the database")?;
    let is_strange = |row: &&Vec<Option<String>>| {
        let oid = row.first().and_then(Option::as_deref).and_then(|oid| oid.parse().ok());
        before.is_none_or(|before| oid.is_none_or(|oid| before.contains(&oid)))
    };
    Ok(rows.rows.iter().find(is_strange).and_then(|row| row.get(1).cloned().flatten()))
}

/// OIDs of all objects with data in the session's database.
///
/// # Errors
/// When the server fails.
pub fn holders(session: &mut Session) -> Result<BTreeSet<u32>> {
    let rows = session.query(&holders_sql(&[])).context("list the contents of the database")?;
    Ok(rows.rows.iter().filter_map(|row| row.first()?.as_deref()?.parse().ok()).collect())
}

/// An extension's tables count, because their rows may be the user's. So do tables that inherit from loaded ones, which
/// have only partitions. Temporary ones belong to nobody once nobody is connected.
fn holders_sql(tables: &[&str]) -> String {
    let ours = with_parts(tables, Missing::IsLeftOut);
    format!(
        "{ours}
         select c.oid, pg_catalog.pg_describe_object('pg_catalog.pg_class'::regclass, c.oid, 0) as what
           from pg_catalog.pg_class c
          where c.relkind in ('r', 'p', 'm', 'f', 'S') and c.relpersistence <> 't' and c.oid >= {FIRST_OID}
            and (not exists (select 1 from t where t.oid = c.oid)
                 or (pg_catalog.to_jsonb(c) ->> 'relispartition' is distinct from 'true'
                     and exists (select 1 from pg_catalog.pg_inherits i where i.inhrelid = c.oid)))
            and not exists (select 1 from pg_catalog.pg_depend d join t on t.oid = d.refobjid
                             where c.relkind = 'S' and d.objid = c.oid and d.deptype in ('a', 'i')
                               and d.classid = 'pg_catalog.pg_class'::regclass
                               and d.refclassid = 'pg_catalog.pg_class'::regclass)
         union all
         select l.oid, 'large object ' || l.oid from pg_catalog.pg_largeobject_metadata l
          order by 2"
    )
}

/// What a database contains in addition to the loaded data, shown to the user before a run begins.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Others {
    /// The number of objects.
    pub n: usize,
    /// Names of the first few.
    pub first: Vec<String>,
}

/// Number of objects that are named.
const N_NAMED: usize = 3;

/// A routine of a database, by which its loader recognizes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoutineFacts<'a> {
    /// Whether it is a procedure.
    pub is_procedure: bool,
    /// Name without the schema.
    pub name: &'a str,
    /// Types of the arguments, as `oidvectortypes` has them.
    pub types: &'a str,
    /// Source text.
    pub body: &'a str,
    /// The comment on it.
    pub comment: &'a str,
}

/// Relations, routines, schemas and large objects in the session's database that were not loaded and belong to no
/// extension. Routines with a comment that begins with `pgdyno` are left out if `is_loaded`: anybody can write a comment.
///
/// # Errors
/// When the server fails.
pub fn others(
    session: &mut Session,
    tables: &[&str],
    is_loaded: &dyn Fn(&RoutineFacts) -> bool,
) -> Result<Others> {
    let rows = session.query(&others_sql(tables)).context("list the contents of the database")?;
    let is_other = |row: &&Vec<Option<String>>| {
        let text = |column: usize| row.get(column).and_then(Option::as_deref).unwrap_or_default();
        let has_comment = !text(1).is_empty();
        !has_comment
            || !is_loaded(&RoutineFacts {
                comment: text(1),
                is_procedure: text(2) == "p",
                name: text(3),
                types: text(4),
                body: text(5),
            })
    };
    let others: Vec<&Vec<Option<String>>> = rows.rows.iter().filter(is_other).collect();
    let first = others.iter().filter_map(|row| row.first().cloned().flatten()).take(N_NAMED);
    Ok(Others { n: others.len(), first: first.collect() })
}

/// Rows of what there is; of a routine with a comment like ours also comment, kind, name, types and body.
fn others_sql(tables: &[&str]) -> String {
    let holders = holders_sql(tables);
    let of_extension = |class: &str, oid: &str| {
        format!(
            "exists (select 1 from pg_catalog.pg_depend d where d.deptype = 'e' and d.objid = {oid} \
              and d.classid = 'pg_catalog.{class}'::regclass)"
        )
    };
    let (of_relation, of_routine, of_schema) = (
        of_extension("pg_class", "h.oid"),
        of_extension("pg_proc", "p.oid"),
        of_extension("pg_namespace", "n.oid"),
    );
    format!(
        "select o.what, p.comment, p.kind, p.name, p.types, p.body from (
           select 1 as place, h.what, null::oid as routine from ({holders}) h where not {of_relation}
           union all
           select 2, pg_catalog.pg_describe_object('pg_catalog.pg_class'::regclass, h.oid, 0), null
             from pg_catalog.pg_class h where h.relkind = 'v' and h.oid >= {FIRST_OID} and not {of_relation}
           union all
           select 3, pg_catalog.pg_describe_object('pg_catalog.pg_proc'::regclass, p.oid, 0), p.oid
             from pg_catalog.pg_proc p where p.oid >= {FIRST_OID} and not {of_routine}
           union all
           select 4, pg_catalog.pg_describe_object('pg_catalog.pg_namespace'::regclass, n.oid, 0), null
             from pg_catalog.pg_namespace n where n.oid >= {FIRST_OID} and n.nspname !~ '^pg_(toast_)?temp_' and not {of_schema}
         ) o left join lateral (
           select pg_catalog.obj_description(r.oid, 'pg_proc') as comment, pg_catalog.to_jsonb(r) ->> 'prokind' as kind,
                  r.proname as name, pg_catalog.oidvectortypes(r.proargtypes) as types, r.prosrc as body
             from pg_catalog.pg_proc r
            where r.oid = o.routine and pg_catalog.obj_description(r.oid, 'pg_proc') like 'pgdyno%'
         ) p on true order by o.place, o.what"
    )
}
