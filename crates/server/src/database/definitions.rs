//! How tables are defined: everything of a table that changes what a statement on it costs, by name.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use model::release::{Feature, Release, catalogs};
use wire::{Session, quote_literal};

use crate::database::relations::{Missing, with_parts};

/// Definitions of a table's objects by kind and name, `trigger audit` for example; the table itself is `table`.
pub type Definitions = BTreeMap<String, String>;

/// The definitions of each table (`table` or `schema.table`), with its partitions and children.
///
/// # Errors
/// When a table is missing, or the server fails or lacks one of PostgreSQL's catalogs.
pub fn of_tables(session: &mut Session, tables: &[&str]) -> Result<BTreeMap<String, Definitions>> {
    tables.iter().map(|table| Ok((table.to_string(), of_table(session, table)?))).collect()
}

fn of_table(session: &mut Session, table: &str) -> Result<Definitions> {
    let sql = sql(table, session.server_version_num());
    let rows = session.query(&sql).with_context(|| format!("read the definition of `{table}`"))?;
    let mut definitions = Definitions::new();
    for i in 0..rows.len() {
        let field = |name: &str| rows.get(i, name).unwrap_or_default();
        let definition = without_schema(field("definition"), field("schema"));
        definitions.insert(field("object").to_string(), definition);
    }
    Ok(definitions)
}

/// Makes equal tables of two schemas have equal definitions, and those of releases before and since 11, which renamed a keyword.
fn without_schema(definition: &str, schema: &str) -> String {
    definition.replace(&format!("{schema}."), "").replace("EXECUTE PROCEDURE", "EXECUTE FUNCTION")
}

/// One row per object: its name, its definition, and the schema that the definition may name.
fn sql(table: &str, version_num: u32) -> String {
    let release = Release::new(version_num);
    let mut parts = vec![tables(table, release), columns(), constraints(release), INDEXES.to_string()];
    parts.extend([TRIGGERS, RULES].map(str::to_string));
    if release.has(catalogs::ROW_SECURITY) {
        parts.push(POLICIES.to_string());
    }
    if release.has(catalogs::PARTITIONS) {
        parts.extend([publications(release), STATISTICS.to_string()]);
    }
    // Before 12, an oid is a system column, which `k.*` lacks.
    format!(
        "{}, c as (
             select k.oid as id, k.*, pg_catalog.quote_ident(n.nspname) as schema
               from t join pg_catalog.pg_class k on k.oid = t.oid
               join pg_catalog.pg_namespace n on n.oid = k.relnamespace
         )
         {}",
        with_parts(&[table], Missing::Fails),
        parts.join(" union all ")
    )
}

/// Only the named table is called `table`; a part of it has its own name.
fn tables(table: &str, release: Release) -> String {
    let plain = quote_literal(table.rsplit('.').next().unwrap_or(table));
    let if_it_has = |feature: Feature, condition: &str, words: &str| {
        if release.has(feature) {
            format!("case when {condition} then {words} end")
        } else {
            "null".to_string()
        }
    };
    format!(
        "select case when c.relname = {plain} then 'table' else 'part ' || c.relname end as object,
                pg_catalog.concat_ws(', ',
                    case c.relpersistence when 'p' then 'logged' when 'u' then 'UNLOGGED' else 'temporary' end,
                    case c.relkind when 'p' then 'partitioned' when 'f' then 'foreign' when 'v' then 'view'
                                   when 'm' then 'materialized view' end,
                    {method}, {security}, {identity},
                    nullif(pg_catalog.array_to_string(c.reloptions, ', '), ''),
                    (select 'tablespace ' || s.spcname from pg_catalog.pg_tablespace s where s.oid = c.reltablespace)
                ) as definition,
                c.schema as schema
           from c",
        method = if_it_has(
            catalogs::TABLE_ACCESS_METHODS,
            "c.relkind = 'r'",
            "(select 'using ' || a.amname from pg_catalog.pg_am a where a.oid = c.relam and a.amname <> 'heap')"
        ),
        security = if_it_has(catalogs::ROW_SECURITY, "c.relrowsecurity", "'row security'"),
        identity = if_it_has(catalogs::REPLICA_IDENTITY, "c.relreplident = 'f'", "'replica identity full'"),
    )
}

fn columns() -> String {
    "select 'columns of ' || c.relname,
            (select pg_catalog.string_agg(a.attname || ' ' || pg_catalog.format_type(a.atttypid, a.atttypmod)
                        || case when a.attnotnull then ' not null' else '' end, ', ' order by a.attnum)
               from pg_catalog.pg_attribute a where a.attrelid = c.id and a.attnum > 0 and not a.attisdropped),
            c.schema
       from c"
        .to_string()
}

/// Leaves out the constraints that 18 has for NOT NULL and the copies of foreign keys that partitions have; includes foreign
/// keys of other tables that refer to this one, because a change here checks their rows.
fn constraints(release: Release) -> String {
    let is_own = if release.has(catalogs::CONSTRAINT_PARENTS) { "o.conparentid = 0" } else { "true" };
    format!(
        "select case when o.conrelid = c.id then 'constraint ' else 'foreign key of others ' end || o.conname,
                pg_catalog.pg_get_constraintdef(o.oid), c.schema
           from c join pg_catalog.pg_constraint o
             on o.conrelid = c.id or (o.confrelid = c.id and o.conrelid not in (select oid from t))
          where o.contype <> 'n' and (o.contype <> 'f' or {is_own})"
    )
}

const INDEXES: &str = "select 'index ' || i.relname,
            pg_catalog.pg_get_indexdef(x.indexrelid) || case when x.indisvalid then '' else ' (invalid)' end, c.schema
       from c join pg_catalog.pg_index x on x.indrelid = c.id join pg_catalog.pg_class i on i.oid = x.indexrelid";

const TRIGGERS: &str = "select 'trigger ' || g.tgname,
            pg_catalog.pg_get_triggerdef(g.oid) || case g.tgenabled when 'O' then '' else ' (' || g.tgenabled::text || ')' end,
            c.schema
       from c join pg_catalog.pg_trigger g on g.tgrelid = c.id where not g.tgisinternal";

const RULES: &str = "select 'rule ' || r.rulename, pg_catalog.pg_get_ruledef(r.oid), c.schema
       from c join pg_catalog.pg_rewrite r on r.ev_class = c.id where r.rulename <> '_RETURN'";

const POLICIES: &str = "select 'policy ' || p.polname,
            pg_catalog.concat_ws(' ', p.polcmd, pg_catalog.pg_get_expr(p.polqual, p.polrelid),
                                 pg_catalog.pg_get_expr(p.polwithcheck, p.polrelid)),
            c.schema
       from c join pg_catalog.pg_policy p on p.polrelid = c.id";

fn publications(release: Release) -> String {
    let by_schema = if release.has(catalogs::PUBLISHED_SCHEMAS) {
        "or exists (select 1 from pg_catalog.pg_publication_namespace n
                             where n.pnpubid = p.oid and n.pnnspid = c.relnamespace)"
    } else {
        ""
    };
    format!(
        "select 'publication ' || p.pubname, 'published', c.schema
           from c join pg_catalog.pg_publication p
             on p.puballtables or exists (select 1 from pg_catalog.pg_publication_rel r
                                           where r.prpubid = p.oid and r.prrelid = c.id) {by_schema}
          where c.relkind in ('r', 'p')"
    )
}

const STATISTICS: &str =
    "select 'statistics ' || s.stxname, pg_catalog.pg_get_statisticsobjdef(s.oid), c.schema
       from c join pg_catalog.pg_statistic_ext s on s.stxrelid = c.id";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_version_is_queried_for_what_it_has() {
        let check = |version_num, word: &str, expected| {
            assert_eq!(sql("a.b", version_num).contains(word), expected, "{version_num} {word}");
        };
        check(90_624, "pg_publication", false);
        check(140_000, "pg_publication_namespace", false);
        check(150_000, "pg_publication_namespace", true);
        check(90_424, "pg_policy", false);
        check(110_000, "relam", false);
        check(120_000, "relam", true);
        check(180_000, "conparentid", true);
    }

    #[test]
    fn tables_of_two_schemas_and_versions_are_alike() {
        let of = |text: &str, schema: &str| without_schema(text, schema);
        assert_eq!(of("CREATE INDEX i ON one.t (a)", "one"), of("CREATE INDEX i ON two.t (a)", "two"));
        assert_eq!(of("EXECUTE PROCEDURE f()", "s"), "EXECUTE FUNCTION f()");
    }
}
