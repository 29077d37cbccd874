//! Additions to a table that DROP TABLE drops as a part of it: triggers, rules, policies, statistics, publication
//! memberships, privileges and the like. Loading creates none of these, so it cannot create them again.
//!
//! Not here: columns, constraints, indexes and storage parameters, of which loading creates some ([`super::design`]), and what every
//! table has ([`super::altered`]).

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use model::release::{Release, catalogs};
use wire::session::Session;
use workload::Schema;

use crate::own::apply::is_applied_sql;

/// Limit per kind, because the message has one line.
const NAMED_MAX: usize = 20;

/// Such additions to the tables.
///
/// # Errors
/// When the server fails.
pub(super) fn additions(session: &mut Session, tables: &BTreeSet<u32>) -> Result<Vec<String>> {
    let sql = hung_sql(tables, session.server_version_num());
    let rows = session.query(&sql).context("look for additions to the tables")?;
    Ok(rows.into_first_column())
}

/// Fails if something was found.
///
/// # Errors
/// Names it and says what to do.
pub(super) fn refuse(mut found: Vec<String>, schema: &Schema) -> Result<()> {
    let n_more = found.len().saturating_sub(NAMED_MAX);
    found.truncate(NAMED_MAX);
    let more = if n_more == 0 { String::new() } else { format!(" and {n_more} more") };
    ensure!(
        found.is_empty(),
        "nothing was dropped, because that would also drop what somebody added or changed: {}{more}; undo that yourself, \
         name another schema than `{}` with --schema, or pass --replace to drop it",
        found.join(", "),
        schema.name()
    );
    Ok(())
}

fn hung_sql(tables: &BTreeSet<u32>, version_num: u32) -> String {
    let release = Release::new(version_num);
    let oids = tables.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
    // Those that `workload.apply` has made are pgdyno's.
    let is_applied = is_applied_sql("s", "pg_statistic_ext");
    let statistics = format!("pg_catalog.pg_statistic_ext s where not ({is_applied})");
    let mut kinds = vec![
        ("tgrelid", "'trigger `' || x.tgname || '`'", "pg_catalog.pg_trigger t where not t.tgisinternal"),
        (
            "ev_class",
            "'rule `' || x.rulename || '`'",
            "pg_catalog.pg_rewrite r where r.rulename <> '_RETURN'",
        ),
        ("objoid", "'the comment on a column'", DESCRIBED),
        ("objoid", "'the security label'", LABELLED),
        ("oid", "'privileges of ' || x.who", GRANTED),
        ("attrelid", "'privileges on column `' || x.attname || '`'", GRANTED_COLUMNS),
    ];
    if release.has(catalogs::ROW_SECURITY) {
        kinds.extend([
            ("polrelid", "'policy `' || x.polname || '`'", "pg_catalog.pg_policy"),
            ("oid", "'row-level security'", SECURED),
        ]);
    }
    if release.has(catalogs::PARTITIONS) {
        kinds.extend([
            ("stxrelid", "'statistics `' || x.stxname || '`'", statistics.as_str()),
            ("prrelid", "'publication `' || x.pubname || '`'", PUBLISHED),
            ("srrelid", "'a subscription'", "pg_catalog.pg_subscription_rel"),
        ]);
    }
    let select = |(table, what, from): (&str, &str, &str)| {
        format!(
            "select {what} || ' of `' || n.nspname || '.' || c.relname || '`' as what \
               from (select * from {from}) x join pg_catalog.pg_class c on c.oid = x.{table} \
               join pg_catalog.pg_namespace n on n.oid = c.relnamespace where c.oid in ({oids})",
            from = from.replace("(oids)", &format!("({oids})"))
        )
    };
    let all: Vec<String> = kinds.into_iter().map(select).collect();
    format!("{} order by 1", all.join(" union "))
}

const DESCRIBED: &str =
    "pg_catalog.pg_description d where d.classoid = 'pg_catalog.pg_class'::regclass and d.objsubid > 0";
const LABELLED: &str = "pg_catalog.pg_seclabel s where s.classoid = 'pg_catalog.pg_class'::regclass";
const SECURED: &str = "(select r.oid, pg_catalog.to_jsonb(r) j from pg_catalog.pg_class r where r.oid in (oids)) r \
     where j ->> 'relrowsecurity' = 'true' or j ->> 'relforcerowsecurity' = 'true'";
const PUBLISHED: &str = "(select m.prrelid, p.pubname from pg_catalog.pg_publication_rel m join pg_catalog.pg_publication p on p.oid = m.prpubid) m";
/// Privileges other than those that default privileges grant to the new table anyway.
const GRANTED: &str = "(select r.oid, coalesce(pg_catalog.pg_get_userbyid(nullif(a.grantee, 0)), 'everybody') as who \
       from pg_catalog.pg_class r, pg_catalog.aclexplode(r.relacl) a \
      where r.oid in (oids) and a.grantee <> r.relowner and not exists ( \
        select 1 from pg_catalog.pg_default_acl d, pg_catalog.aclexplode(d.defaclacl) e \
         where d.defaclrole = r.relowner and d.defaclobjtype = 'r' and d.defaclnamespace in (0, r.relnamespace) \
           and e.grantee = a.grantee and e.privilege_type = a.privilege_type and (e.is_grantable or not a.is_grantable))) a";
const GRANTED_COLUMNS: &str = "pg_catalog.pg_attribute a where a.attacl is not null and a.attrelid in (oids)";
