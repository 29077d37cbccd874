//! What the catalogs say of a column, and between which values it lies.

use std::collections::HashMap;

use anyhow::Result;
use wire::session::{Rows, Session, quote_ident};

use super::plan::{ColumnName, ParameterUse};
use super::{ColumnFacts, ColumnUse, InquiryLimits};
use crate::session::undone_if_failed;

/// A column of the topmost table of a partition, with its uniqueness. An index over some of the rows, or on expressions, makes nothing unique.
const COLUMN_SQL: &str = "\
with recursive up(oid, n) as ( \
  select c.oid, 0 from pg_catalog.pg_class c join pg_catalog.pg_namespace s on s.oid = c.relnamespace \
    where s.nspname = $1 and c.relname = $2 \
  union all select i.inhparent, up.n + 1 from up join pg_catalog.pg_class c on c.oid = up.oid and c.relispartition \
    join pg_catalog.pg_inherits i on i.inhrelid = up.oid where up.n < 100), \
top as (select oid from up order by n desc limit 1), \
named as (select a.attname from pg_catalog.pg_attribute a join up on up.oid = a.attrelid and up.n = 0 \
    where a.attnum > 0 and not a.attisdropped and (a.attname = $3 or a.attnum = $4::pg_catalog.int2)), \
keys as (select i.indnkeyatts as n, i.indkey[0] as first, \
    array(select i.indkey[k] from pg_catalog.generate_series(0, i.indnkeyatts - 1) k) as members, \
    i.indisunique and i.indpred is null and i.indexprs is null as is_unique \
  from pg_catalog.pg_index i join top on top.oid = i.indrelid where i.indisvalid) \
select s.nspname, c.relname, a.attname, a.atthasdef or a.attidentity <> '' as has_default, \
  coalesce(pg_catalog.bool_or(k.is_unique and k.n = 1 and k.first = a.attnum), false) as is_unique, \
  coalesce(pg_catalog.bool_or(k.is_unique and k.n > 1 and a.attnum = any (k.members)), false) as in_unique, \
  coalesce(pg_catalog.bool_or(k.first = a.attnum), false) as is_indexed, \
  a.atttypid in (20, 21, 23) as is_whole \
from top join pg_catalog.pg_class c on c.oid = top.oid join pg_catalog.pg_namespace s on s.oid = c.relnamespace \
  join pg_catalog.pg_attribute a on a.attrelid = c.oid join named on named.attname = a.attname left join keys k on true \
group by 1, 2, 3, 4, 8, a.attnum";

/// The columns that were asked for.
#[derive(Debug, Default)]
pub(super) struct KnownColumns {
    known: HashMap<(String, String, String), Option<ColumnFacts>>,
}

impl KnownColumns {
    /// A column, as a parameter meets it that does nothing with it; `None` if the server does not know it. The transaction goes on.
    pub(super) fn find(
        &mut self,
        session: &mut Session,
        used: &ParameterUse,
        limits: InquiryLimits,
    ) -> Result<Option<ColumnFacts>> {
        let (schema, table) = (used.schema.as_str(), used.table.as_str());
        let (name, number) = match &used.column {
            ColumnName::Name(name) => (name.clone(), "0".to_string()),
            ColumnName::Number(number) => (String::new(), number.min(&2000).to_string()),
        };
        let key = (schema.to_string(), table.to_string(), format!("{name} {number}"));
        if let Some(known) = self.known.get(&key) {
            return Ok(known.clone());
        }
        let params = [Some(schema), Some(table), Some(name.as_str()), Some(number.as_str())];
        let rows = undone_if_failed(session, |session| session.query_params(COLUMN_SQL, &params))?;
        let mut found = rows.ok().as_ref().and_then(facts);
        if let Some((column, true)) = &mut found {
            look_for_range(session, column, limits)?;
        }
        let found = found.map(|(column, _)| column);
        self.known.insert(key, found.clone());
        Ok(found)
    }
}

/// The column of the answer, and whether it has a range that an index knows.
fn facts(rows: &Rows) -> Option<(ColumnFacts, bool)> {
    let is = |name: &str| rows.get(0, name) == Some("t");
    let column = ColumnFacts {
        schema: rows.get(0, "nspname")?.to_string(),
        table: rows.get(0, "relname")?.to_string(),
        column: rows.get(0, "attname")?.to_string(),
        unique: is("is_unique"),
        in_unique: is("in_unique"),
        indexed: is("is_indexed"),
        has_default: is("has_default"),
        reads: ColumnUse::None,
        is_bare: true,
        least: None,
        most: None,
    };
    let has_range = column.indexed && is("is_whole");
    Some((column, has_range))
}

/// Asks for the smallest and the largest value, which an index has at its ends. What takes too long, or is forbidden, stays unknown.
fn look_for_range(session: &mut Session, column: &mut ColumnFacts, limits: InquiryLimits) -> Result<()> {
    let name = quote_ident(&column.column);
    let sql = format!(
        "select pg_catalog.set_config('statement_timeout', '{}', true); \
         select pg_catalog.min({name}), pg_catalog.max({name}) from {}.{}",
        limits.range_max.as_millis().max(1),
        quote_ident(&column.schema),
        quote_ident(&column.table)
    );
    let rows = undone_if_failed(session, |session| session.query(&sql))?;
    session.execute(&format!(
        "select pg_catalog.set_config('statement_timeout', '{}', true)",
        limits.statement_max.as_millis().max(1)
    ))?;
    if let Ok(rows) = rows {
        (column.least, column.most) = (rows.parse(0, "min"), rows.parse(0, "max"));
    }
    Ok(())
}
