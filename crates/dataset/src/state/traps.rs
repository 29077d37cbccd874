//! Code of another user that reading a workload's tables would run with our rights: a view's functions, casts of a column's type, and
//! expressions of indexes and constraints, which the server evaluates when it plans a query. The tables that pgdyno creates have
//! none of them.

use anyhow::{Context, Result, ensure};
use wire::session::{Session, quote_literal};
use workload::Schema;

use crate::kind::Dataset;

/// Limit for the message, which has one line.
const NAMED_MAX: usize = 5;

/// Fails if one of the workload's tables, or a part of it, has code of a user who is neither the session's own nor a superuser.
///
/// # Errors
/// Names what it is and whose, or when the server fails.
pub(super) fn expect_none(session: &mut Session, dataset: Dataset, schema: &Schema) -> Result<()> {
    let names: Vec<String> = dataset.tables().into_iter().map(quote_literal).collect();
    let sql = TRAPS.replace("{schema}", &quote_literal(schema.name())).replace("{tables}", &names.join(", "));
    let rows = session.query(&sql).context("look for code of others in the tables")?;
    let mut found: Vec<String> = rows.rows.into_iter().filter_map(|row| row.into_iter().next()?).collect();
    found.truncate(NAMED_MAX);
    ensure!(
        found.is_empty(),
        "pgdyno does not read what could run code of another user with the rights of this one: {}; connect as the owner, or \
         name another schema with --schema",
        found.join(", ")
    );
    Ok(())
}

/// OIDs from 16384 on are of objects that initdb did not make (`FirstNormalObjectId`). Domains are converted without a cast.
const TRAPS: &str = "with recursive t(oid) as ( \
       select c.oid from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace \
        where n.nspname = {schema} and c.relname in ({tables}) \
     union select i.inhrelid from pg_catalog.pg_inherits i join t on i.inhparent = t.oid), \
     trap(relation, what) as ( \
       select c.oid, 'a view' from pg_catalog.pg_class c where c.relkind = 'v' \
     union all select a.attrelid, 'the type of column `' || a.attname || '`' from pg_catalog.pg_attribute a \
         join pg_catalog.pg_type y on y.oid = a.atttypid \
        where a.attnum > 0 and not a.attisdropped and y.oid >= 16384 and y.typtype <> 'd' \
     union all select i.indrelid, 'an expression of index `' || x.relname || '`' from pg_catalog.pg_index i \
         join pg_catalog.pg_class x on x.oid = i.indexrelid where i.indexprs is not null or i.indpred is not null \
     union all select k.conrelid, 'constraint `' || k.conname || '`' from pg_catalog.pg_constraint k \
        where k.contype = 'c') \
     select trap.what || ' (`' || n.nspname || '.' || c.relname || '` of `' || r.rolname || '`)' as found \
       from t join trap on trap.relation = t.oid join pg_catalog.pg_class c on c.oid = t.oid \
       join pg_catalog.pg_namespace n on n.oid = c.relnamespace join pg_catalog.pg_roles r on r.oid = c.relowner \
      where not r.rolsuper and r.rolname <> current_user order by 1";
