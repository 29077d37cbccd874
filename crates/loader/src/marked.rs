//! Emptying a table that was made for the rows that follow, and no other that somebody gave its name meanwhile.

use wire::quote_literal;
use workload::Schema;
use workload::marker::mark_begins;

use crate::streams::Part;

/// Which rows go.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rows {
    /// The table's own, not those of tables that somebody else let inherit from it.
    Own,
    /// Those of its partitions: a partitioned table has no others.
    OfPartitions,
}

/// Empties a table, which the transaction then has to itself; where the schema is known, only if the table has the mark of
/// the workload. Tables of the search path are pgbench's, which marks none and empties the children too.
pub(crate) fn truncate(schema: &Schema, workload: &str, table: &str, rows: Rows) -> Vec<Part> {
    let is_known = !schema.name().is_empty();
    let only = if is_known && rows == Rows::Own { "only " } else { "" };
    let mut parts = vec![Part::Execute(format!("truncate table {only}{}", schema.sql_name(table)))];
    if is_known {
        let sql = format!(
            "select pg_catalog.strpos(pg_catalog.obj_description(c.oid, 'pg_class'), {}) = 1 \
             from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace \
             where n.nspname = {} and c.relname = {}",
            quote_literal(&mark_begins(workload)),
            quote_literal(schema.name()),
            quote_literal(table)
        );
        parts.push(Part::Expect { table: schema.plain_name(table), sql });
    }
    parts
}
