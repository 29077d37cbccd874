//! Truncates and alters a table that was created for the rows, but not another one that got its name meanwhile.

use model::workload::Dataset;
use wire::quote_literal;
use workload::Schema;
use workload::objects::marker::names_oid;

use crate::kind::is_mark;
use crate::streams::TransactionPart;

/// The rows to remove.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum RowsToRemove {
    /// The table's own, not those of tables that somebody else made inherit from it.
    Own,
    /// Those of its partitions: a partitioned table has no other rows.
    OfPartitions,
}

/// Truncates a table, which the transaction then has to itself; if the schema is known, only if the table has the mark
/// of the workload. Tables of the search path are pgbench's, which marks none and truncates the children too.
pub(crate) fn truncate(
    schema: &Schema,
    dataset: Dataset,
    table: &str,
    rows: RowsToRemove,
) -> Vec<TransactionPart> {
    let expected = expected(schema, dataset, table);
    let only = if expected.is_some() && rows == RowsToRemove::Own { "only " } else { "" };
    let name = schema.sql_name(table);
    let truncate = TransactionPart::Execute(format!("truncate table {only}{name}"));
    // Locked before TRUNCATE, which would fire the triggers of another table.
    let lock = format!("lock table {only}{name} in access exclusive mode");
    let lock = expected.is_some().then_some(TransactionPart::Execute(lock));
    lock.into_iter().chain(expected).chain([truncate]).collect()
}

/// Alters a table or creates an index on it in a transaction; if the schema is known, only if the table has the mark of
/// the workload.
pub(crate) fn alter(
    schema: &Schema,
    dataset: Dataset,
    table: &str,
    statement: String,
) -> Vec<TransactionPart> {
    let expected = expected(schema, dataset, table);
    // From here on, nobody can give the name to another table. Locked before the statement, which may read all of it.
    let lock = format!("lock table only {} in share update exclusive mode", schema.sql_name(table));
    let lock = expected.is_some().then_some(TransactionPart::Execute(lock));
    lock.into_iter().chain(expected).chain([TransactionPart::Execute(statement)]).collect()
}

/// What the locked table has to be; tables of the search path have no mark.
fn expected(schema: &Schema, dataset: Dataset, table: &str) -> Option<TransactionPart> {
    let is_named = !schema.name().is_empty();
    is_named.then(|| {
        TransactionPart::Expect(MarkedTable {
            proof: Proof::MarkOf(dataset),
            schema: schema.clone(),
            table: table.to_string(),
        })
    })
}

/// A table with the mark that the load in progress gave it, which belongs to the role that made it, or to a superuser. Who owns the schema can
/// drop a table in it and give its mark to another one, whose triggers would run with the rights of whoever loads.
pub struct MarkedTable {
    proof: Proof,
    schema: Schema,
    table: String,
}

/// What shows that it is that table.
enum Proof {
    /// The mark of a load of this dataset.
    MarkOf(Dataset),
    /// The OID that it had when it was made.
    Oid(u32),
}

impl MarkedTable {
    /// The table that was made with this OID.
    pub(crate) fn with_oid(schema: &Schema, table: &str, oid: u32) -> MarkedTable {
        MarkedTable { proof: Proof::Oid(oid), schema: schema.clone(), table: table.to_string() }
    }

    pub(super) fn plain_name(&self) -> String {
        self.schema.plain_name(&self.table)
    }

    pub(super) fn sql(&self) -> String {
        format!(
            "select c.oid, pg_catalog.obj_description(c.oid, 'pg_class') as comment, \
             exists (select 1 from pg_catalog.pg_roles o, pg_catalog.pg_roles u where o.oid = c.relowner \
               and u.rolname = current_user and (o.oid = u.oid or o.rolsuper)) as may_be_filled \
             from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace \
             where n.nspname = {} and c.relname = {}",
            quote_literal(self.schema.name()),
            quote_literal(&self.table)
        )
    }

    /// Whether the answer to [`MarkedTable::sql`] shows that table.
    pub(super) fn is_met(&self, found: &wire::session::Rows) -> bool {
        let Some(oid) = found.parse(0, "oid") else { return false };
        let is_proved = match self.proof {
            // A load just now named the OID, as older versions did not.
            Proof::MarkOf(dataset) => found.get(0, "comment").is_some_and(|comment| {
                is_mark(dataset, comment, &self.table, oid) && names_oid(comment, oid)
            }),
            Proof::Oid(made) => oid == made,
        };
        is_proved && found.get(0, "may_be_filled") == Some("t")
    }
}
