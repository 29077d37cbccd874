//! Truncates and alters a table that was created for the rows, but not another one that got its name meanwhile.

use wire::quote_literal;
use workload::Schema;
use workload::objects::marker::mark_begins;

use crate::streams::Part;

/// The rows to remove.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rows {
    /// The table's own, not those of tables that somebody else made inherit from it.
    Own,
    /// Those of its partitions: a partitioned table has no other rows.
    OfPartitions,
}

/// Truncates a table, which the transaction then has to itself; if the schema is known, only if the table has the mark
/// of the workload. Tables of the search path are pgbench's, which marks none and truncates the children too.
pub(crate) fn truncate(schema: &Schema, workload: &str, table: &str, rows: Rows) -> Vec<Part> {
    let expected = expected(schema, workload, table);
    let only = if expected.is_some() && rows == Rows::Own { "only " } else { "" };
    let name = schema.sql_name(table);
    let truncate = Part::Execute(format!("truncate table {only}{name}"));
    // Locked before TRUNCATE, which would fire the triggers of another table.
    let lock = format!("lock table {only}{name} in access exclusive mode");
    let lock = expected.is_some().then_some(Part::Execute(lock));
    lock.into_iter().chain(expected).chain([truncate]).collect()
}

/// Alters a table or creates an index on it in a transaction; if the schema is known, only if the table has the mark of
/// the workload.
pub(crate) fn alter(schema: &Schema, workload: &str, table: &str, statement: String) -> Vec<Part> {
    let expected = expected(schema, workload, table);
    // From here on, nobody can give the name to another table. Locked before the statement, which may read all of it.
    let lock = format!("lock table only {} in share update exclusive mode", schema.sql_name(table));
    let lock = expected.is_some().then_some(Part::Execute(lock));
    lock.into_iter().chain(expected).chain([Part::Execute(statement)]).collect()
}

/// Checks that the locked table has the mark, and that a superuser's load fills no table of somebody else: who owns the schema can
/// drop a table in it and give its mark to another one, whose triggers would run with a superuser's rights. Tables of the search path
/// have no mark.
fn expected(schema: &Schema, workload: &str, table: &str) -> Option<Part> {
    if schema.name().is_empty() {
        return None;
    }
    let sql = format!(
        "select pg_catalog.strpos(pg_catalog.obj_description(c.oid, 'pg_class'), {}) = 1 \
         and exists (select 1 from pg_catalog.pg_roles o, pg_catalog.pg_roles u where o.oid = c.relowner \
           and u.rolname = current_user and (o.oid = u.oid or o.rolsuper or not u.rolsuper)) \
         from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace \
         where n.nspname = {} and c.relname = {}",
        quote_literal(&mark_begins(workload)),
        quote_literal(schema.name()),
        quote_literal(table)
    );
    Some(Part::Expect { table: schema.plain_name(table), sql })
}
