//! Code of another user that reading a workload's tables would run with our rights: a view's functions, what a foreign table's server
//! runs for us, casts of a column's type, and expressions of indexes, constraints, statistics and partition keys, which the server
//! evaluates when it plans a query. The tables that pgdyno creates have none of them.
//!
//! Policies of row security are not here: a session that administers has `row_security` off, so that the server refuses to read
//! instead of calling them.

use anyhow::{Context, Result, ensure};
use model::release::{Release, catalogs};
use wire::session::{Session, quote_literal};
use workload::Schema;

use model::workload::Dataset;

/// Limit for the message, which has one line.
const NAMED_MAX: usize = 5;

/// Fails if one of the workload's tables, or a part of it, has code of a user who is neither the session's own nor a superuser.
///
/// # Errors
/// Names what it is and whose, or when the server fails.
pub(super) fn expect_none(session: &mut Session, dataset: Dataset, schema: &Schema) -> Result<()> {
    let names: Vec<String> = dataset.tables().into_iter().map(quote_literal).collect();
    let release = Release::new(session.server_version_num());
    let newer = if release.has(catalogs::PARTITIONS) { NEWER } else { "" };
    let sql = TRAPS.replace("{newer}", newer).replace("{schema}", &quote_literal(schema.name()));
    let sql = sql.replace("{tables}", &names.join(", "));
    let rows = session.query(&sql).context("look for code of others in the tables")?;
    let mut found = rows.into_first_column();
    found.truncate(NAMED_MAX);
    ensure!(
        found.is_empty(),
        "pgdyno does not read what could run code of another user with the rights of this one: {}; connect as the owner, or \
         name another schema with --schema",
        found.join(", ")
    );
    Ok(())
}

/// OIDs from 16384 on are of objects that initdb did not make (`FirstNormalObjectId`). A domain has no casts of its own, but its
/// values have those of the type below it. Tables of the session's user are left out, but not those of the role that the session has
/// taken (`SET ROLE`), which `ALTER DATABASE` may have chosen: code of that role could take the user's rights back.
const TRAPS: &str = "with recursive t(oid) as ( \
       select c.oid from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace \
        where n.nspname = {schema} and c.relname in ({tables}) \
     union select i.inhrelid from pg_catalog.pg_inherits i join t on i.inhparent = t.oid), \
     typed(relation, attname, type) as ( \
       select a.attrelid, a.attname, a.atttypid from pg_catalog.pg_attribute a join t on t.oid = a.attrelid \
        where a.attnum > 0 and not a.attisdropped \
     union select d.relation, d.attname, y.typbasetype from typed d join pg_catalog.pg_type y on y.oid = d.type \
        where y.typtype = 'd'), \
     trap(relation, what) as ( \
       select c.oid, case c.relkind when 'v' then 'a view' else 'a foreign table' end \
         from pg_catalog.pg_class c where c.relkind in ('v', 'f') \
     union all select d.relation, 'the type of column `' || d.attname || '`' from typed d \
         join pg_catalog.pg_type y on y.oid = d.type where y.oid >= 16384 and y.typtype <> 'd' \
     union all select i.indrelid, 'an expression of index `' || x.relname || '`' from pg_catalog.pg_index i \
         join pg_catalog.pg_class x on x.oid = i.indexrelid where i.indexprs is not null or i.indpred is not null \
     union all select k.conrelid, 'constraint `' || k.conname || '`' from pg_catalog.pg_constraint k \
        where k.contype = 'c'{newer}) \
     select trap.what || ' (`' || n.nspname || '.' || c.relname || '` of `' || r.rolname || '`)' as found \
       from t join trap on trap.relation = t.oid join pg_catalog.pg_class c on c.oid = t.oid \
       join pg_catalog.pg_namespace n on n.oid = c.relnamespace join pg_catalog.pg_roles r on r.oid = c.relowner \
      where not r.rolsuper and r.rolname <> session_user order by 1";

/// What releases before 10 do not have. Statistics have expressions since 14.
const NEWER: &str = " union all select p.partrelid, 'an expression of the partition key' \
         from pg_catalog.pg_partitioned_table p where p.partexprs is not null \
     union all select e.stxrelid, 'an expression of statistics `' || e.stxname || '`' from pg_catalog.pg_statistic_ext e \
        where pg_catalog.to_jsonb(e) ->> 'stxexprs' is not null";
