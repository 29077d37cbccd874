//! What somebody changed about marked tables and routines that no statement of a load sets: owners, options, comments and rights. A
//! load makes each with the server's defaults, and cannot make the change again.
//!
//! Not here: tablespace and access method, which a load takes from the server's settings, and what has to do with definitions
//! ([`super::design`]).

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use wire::session::Session;

/// Whose objects may belong to another role than the session's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Owners {
    /// Nobody's: what a load makes belongs to the session's role. What the session cannot drop at all is reported by
    /// [`super::rights`].
    Session,
    /// Anybody's: nothing is made.
    Anybody,
}

/// Such changes of tables, their indexes, constraints and columns, where the load made them UNLOGGED or not.
///
/// # Errors
/// When the server fails.
pub(super) fn tables(
    session: &mut Session,
    tables: &BTreeSet<u32>,
    owners: Owners,
    are_unlogged: bool,
) -> Result<Vec<String>> {
    let mut facts = TABLE_FACTS.to_vec();
    facts.push(if are_unlogged { NO_LONGER_UNLOGGED } else { UNLOGGED });
    if owners == Owners::Session {
        facts.push((OWNER_WORDS, TABLE_OWNERS));
    }
    let select = |(words, from): (&str, &str)| {
        format!(
            "select {words} || ' of `' || n.nspname || '.' || r.relname || '`' as what from {from} \
               join pg_catalog.pg_class r on r.oid = x.tab join pg_catalog.pg_namespace n on n.oid = r.relnamespace"
        )
    };
    ask(session, facts.into_iter().map(select), tables)
}

/// Such changes of functions and procedures, with the statements that make them.
///
/// # Errors
/// When the server fails.
pub(super) fn routines(session: &mut Session, routines: &BTreeMap<u32, String>) -> Result<Vec<String>> {
    let is_strict = |statement: &str| {
        let head = statement.split_once(" as ").map_or(statement, |(head, _)| head);
        head.split_ascii_whitespace().any(|word| word == "strict")
    };
    let strict = routines.iter().filter(|(_, statement)| is_strict(statement)).map(|(oid, _)| *oid);
    let strict = list(&strict.collect());
    let select = |(words, from): (&str, &str)| {
        format!(
            "select {words} || ' of ' || case pg_catalog.to_jsonb(r) ->> 'prokind' when 'p' then 'procedure `' else 'function `' end \
               || n.nspname || '.' || r.proname || '(' || pg_catalog.oidvectortypes(r.proargtypes) || ')`' as what from {from} \
               join pg_catalog.pg_proc r on r.oid = x.routine join pg_catalog.pg_namespace n on n.oid = r.pronamespace"
        )
    };
    let selects = ROUTINE_FACTS.into_iter().map(select).map(|sql| sql.replace("(strict)", &strict));
    ask(session, selects, &routines.keys().copied().collect())
}

fn ask(
    session: &mut Session,
    selects: impl Iterator<Item = String>,
    oids: &BTreeSet<u32>,
) -> Result<Vec<String>> {
    if oids.is_empty() {
        return Ok(Vec::new());
    }
    let sql = selects.collect::<Vec<_>>().join(" union ").replace("(oids)", &list(oids));
    let rows = session.query(&format!("{sql} order by 1")).context("look for changes of what was loaded")?;
    Ok(rows.into_first_column())
}

/// OIDs after `in`; 0 is no object's.
fn list(oids: &BTreeSet<u32>) -> String {
    let oids = std::iter::once(0).chain(oids.iter().copied()).map(|oid| oid.to_string());
    format!("({})", oids.collect::<Vec<_>>().join(", "))
}

const OWNER_WORDS: &str = "'the owner `' || x.who || '`'";
const TABLE_OWNERS: &str = "(select c.oid as tab, pg_catalog.pg_get_userbyid(c.relowner) as who from pg_catalog.pg_class c \
     where c.oid in (oids) and pg_catalog.pg_has_role(c.relowner, 'usage') \
       and pg_catalog.pg_get_userbyid(c.relowner) <> current_user) x";

const UNLOGGED: (&str, &str) = (
    "'UNLOGGED'",
    "(select oid as tab from pg_catalog.pg_class where oid in (oids) and relpersistence = 'u') x",
);
/// A partitioned table has no storage.
const NO_LONGER_UNLOGGED: (&str, &str) = (
    "'LOGGED'",
    "(select oid as tab from pg_catalog.pg_class where oid in (oids) and relpersistence <> 'u' and relkind <> 'p') x",
);

/// Words, and whatever differs from what a load makes, as `x` with its table `tab`. Columns of catalogs that a release may lack are
/// read as JSON.
const TABLE_FACTS: [(&str, &str); 9] = [
    (
        "'the replica identity'",
        "(select oid as tab from pg_catalog.pg_class where oid in (oids) and relreplident <> 'd') x",
    ),
    (
        "'CLUSTER ON `' || x.name || '`'",
        "(select i.indrelid as tab, c.relname as name from pg_catalog.pg_index i join pg_catalog.pg_class c on c.oid = i.indexrelid \
           where i.indrelid in (oids) and i.indisclustered) x",
    ),
    (
        "'the options of column `' || x.name || '`'",
        // Builds of PostgreSQL keep books there: `pg_attver`.
        "(select a.attrelid as tab, a.attname as name from pg_catalog.pg_attribute a, pg_catalog.unnest(a.attoptions) o \
           where a.attrelid in (oids) and a.attnum > 0 and not a.attisdropped and o !~ '^pg_') x",
    ),
    (
        "'the storage of column `' || x.name || '`'",
        "(select a.attrelid as tab, a.attname as name from pg_catalog.pg_attribute a join pg_catalog.pg_type t on t.oid = a.atttypid \
           where a.attrelid in (oids) and a.attnum > 0 and not a.attisdropped and a.attstorage <> t.typstorage) x",
    ),
    (
        "'the compression of column `' || x.name || '`'",
        "(select a.attrelid as tab, a.attname as name from pg_catalog.pg_attribute a \
           where a.attrelid in (oids) and a.attnum > 0 and not a.attisdropped \
             and coalesce(pg_catalog.to_jsonb(a) ->> 'attcompression', '') <> '') x",
    ),
    (
        "'the collation of column `' || x.name || '`'",
        "(select a.attrelid as tab, a.attname as name from pg_catalog.pg_attribute a join pg_catalog.pg_type t on t.oid = a.atttypid \
           where a.attrelid in (oids) and a.attnum > 0 and not a.attisdropped and a.attcollation <> t.typcollation) x",
    ),
    (
        "'the comment on index `' || x.name || '`'",
        "(select i.indrelid as tab, c.relname as name from pg_catalog.pg_index i join pg_catalog.pg_class c on c.oid = i.indexrelid \
            join pg_catalog.pg_description d on d.objoid = c.oid and d.classoid = 'pg_catalog.pg_class'::pg_catalog.regclass \
           where i.indrelid in (oids) and d.description <> 'pgdyno applied oid=' || c.oid) x",
    ),
    (
        "'the comment on constraint `' || x.name || '`'",
        "(select k.conrelid as tab, k.conname as name from pg_catalog.pg_constraint k \
            join pg_catalog.pg_description d on d.objoid = k.oid and d.classoid = 'pg_catalog.pg_constraint'::pg_catalog.regclass \
           where k.conrelid in (oids)) x",
    ),
    (
        "'storage parameter `toast.' || x.name || '`'",
        "(select c.oid as tab, pg_catalog.unnest(t.reloptions) as name from pg_catalog.pg_class c \
            join pg_catalog.pg_class t on t.oid = c.reltoastrelid where c.oid in (oids)) x",
    ),
];

/// The same of routines, as `x` with its `routine`. The statements of a load say nothing but the language, PL/pgSQL, and perhaps STRICT
/// (`(strict)`: the routines that do). Privileges are those that a
/// new routine gets: the server's, or what default privileges have put in their place, and those for its schema.
const ROUTINE_FACTS: [(&str, &str); 6] = [
    (
        OWNER_WORDS,
        "(select p.oid as routine, pg_catalog.pg_get_userbyid(p.proowner) as who from pg_catalog.pg_proc p \
           where p.oid in (oids) and pg_catalog.pg_has_role(p.proowner, 'usage') \
             and pg_catalog.pg_get_userbyid(p.proowner) <> current_user) x",
    ),
    (
        "'privileges of ' || x.who",
        "(select p.oid as routine, coalesce(pg_catalog.pg_get_userbyid(nullif(a.grantee, 0)), 'everybody') as who \
            from pg_catalog.pg_proc p, pg_catalog.aclexplode(p.proacl) a \
           where p.oid in (oids) and a.grantee <> p.proowner and not exists ( \
             select 1 from pg_catalog.aclexplode(coalesce( \
                 (select d.defaclacl from pg_catalog.pg_default_acl d \
                   where d.defaclrole = p.proowner and d.defaclobjtype = 'f' and d.defaclnamespace = 0), \
                 pg_catalog.acldefault('f', p.proowner))) e \
              where e.grantee = a.grantee and (e.is_grantable or not a.is_grantable)) \
             and not exists ( \
             select 1 from pg_catalog.pg_default_acl d, pg_catalog.aclexplode(d.defaclacl) e \
              where d.defaclrole = p.proowner and d.defaclobjtype = 'f' and d.defaclnamespace = p.pronamespace \
                and e.grantee = a.grantee and (e.is_grantable or not a.is_grantable))) x",
    ),
    (
        "'the revoked EXECUTE of everybody'",
        "(select p.oid as routine from pg_catalog.pg_proc p where p.oid in (oids) and p.proacl is not null \
             and not exists (select 1 from pg_catalog.aclexplode(p.proacl) a where a.grantee = 0) \
             and exists (select 1 from pg_catalog.aclexplode(coalesce( \
                 (select d.defaclacl from pg_catalog.pg_default_acl d \
                   where d.defaclrole = p.proowner and d.defaclobjtype = 'f' and d.defaclnamespace = 0), \
                 pg_catalog.acldefault('f', p.proowner))) e where e.grantee = 0)) x",
    ),
    (
        "x.what",
        "(select * from (select p.oid as routine, pg_catalog.unnest(array[ \
              case when p.prosecdef then 'SECURITY DEFINER' end, \
              case when p.provolatile <> 'v' then 'the volatility' end, \
              case when p.proisstrict <> (p.oid in (strict)) then 'STRICT' end, \
              case when p.proleakproof then 'LEAKPROOF' end, \
              case when p.procost <> 100 then 'COST' end, \
              case when coalesce(pg_catalog.to_jsonb(p) ->> 'proparallel', 'u') <> 'u' then 'PARALLEL' end, \
              case when coalesce(pg_catalog.to_jsonb(p) ->> 'prosupport', '-') <> '-' then 'SUPPORT' end]) as what \
            from pg_catalog.pg_proc p where p.oid in (oids)) y where y.what is not null) x",
    ),
    (
        // Not the value, which may be a secret.
        "'SET ' || pg_catalog.split_part(x.setting, '=', 1)",
        "(select p.oid as routine, pg_catalog.unnest(p.proconfig) as setting from pg_catalog.pg_proc p where p.oid in (oids)) x",
    ),
    (
        "'the security label'",
        "(select s.objoid as routine from pg_catalog.pg_seclabel s \
           where s.objoid in (oids) and s.classoid = 'pg_catalog.pg_proc'::pg_catalog.regclass) x",
    ),
];
