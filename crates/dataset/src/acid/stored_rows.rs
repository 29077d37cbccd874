//! Rows that a test needs out of the way: stored in tables of their own in the meantime, so that they can be restored
//! whatever happens to this process. The next tests repair what an interrupted test has left behind, unless the tables have been loaded
//! again, or somebody else has set a price.

use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result};
use model::workload::Dataset;
use wire::Conninfo;
use wire::session::{Session, quote_literal};
use workload::Schema;
use workload::objects::marker::{comment_literal, part_mark};

use super::ANSWER_TIMEOUT;
use crate::clearance::{Clearance, LoadConsent};
use crate::session;

/// Undelivered orders of one district.
const ORDERS: &str = "pgdyno_acid_new_order";
/// Prices of items.
const PRICES: &str = "pgdyno_acid_item";

/// The prices that the test sets.
pub(super) const RAISED: &str = "i_price * 1.1";

/// Never set: a request to stop must not keep rows from being restored.
static NEVER: AtomicBool = AtomicBool::new(false);

/// A session that sets rows aside and restores them.
pub(super) fn keeper(conninfo: &Conninfo) -> Result<Session> {
    let mut session = session::open(conninfo, &NEVER)?;
    session.set_timeout(Some(ANSWER_TIMEOUT));
    Ok(session)
}

/// Moves the orders of a district out of NEW-ORDER.
pub(super) fn take_orders(keeper: &mut Session, schema: &Schema, w_id: u32, d_id: u32) -> Result<()> {
    let of_district = format!("no_w_id = {w_id} and no_d_id = {d_id}");
    let sql = format!(
        "begin; create table @.{ORDERS} as select *, {} as of_table from @.new_order where {of_district}; {}; \
         delete from @.new_order where {of_district}; commit",
        oid_of(schema, "new_order"),
        mark(ORDERS)
    );
    Ok(keeper.execute(&schema.fill(&sql))?)
}

/// Saves the prices of the items that meet a condition, and what the test is going to set, which is [`RAISED`].
pub(super) fn note_prices(keeper: &mut Session, schema: &Schema, condition: &str) -> Result<()> {
    let sql = format!(
        "begin; create table @.{PRICES} as select i_id, i_price, ({RAISED})::numeric(5,2) as raised, {} as of_table \
         from @.item where {condition}; {}; commit",
        oid_of(schema, "item"),
        mark(PRICES)
    );
    Ok(keeper.execute(&schema.fill(&sql))?)
}

/// The expression of a table's OID.
fn oid_of(schema: &Schema, table: &str) -> String {
    format!(
        "(select c.oid from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace \
         where n.nspname = {} and c.relname = '{table}')",
        quote_literal(schema.name())
    )
}

/// What an interrupted test has left in this schema, in words; `None` if nothing.
///
/// # Errors
/// When the server fails.
pub(super) fn left_behind(session: &mut Session, schema: &Schema) -> Result<Option<String>> {
    let sql =
        format!("select {} is not null, {} is not null", oid_of(schema, ORDERS), oid_of(schema, PRICES));
    let found = session.query(&sql)?;
    let is_there = found.rows.first().map(|row| row.iter().map(|value| value.as_deref() == Some("t")));
    let tables = [ORDERS, PRICES].into_iter().zip(is_there.into_iter().flatten());
    let names: Vec<String> = tables
        .filter(|(_, is_there)| *is_there)
        .map(|(table, _)| format!("`{}`", schema.plain_name(table)))
        .collect();
    Ok((!names.is_empty()).then(|| {
        format!(
            "an interrupted ACID test has left rows in {}, which the workload's tables lack: the next `pgdyno check --acid` puts them back",
            names.join(" and ")
        )
    }))
}

/// The statement that marks a table as pgdyno's.
fn mark(table: &str) -> String {
    let mark = part_mark(Dataset::Tpcc.name(), table, None);
    format!("comment on table @.{table} is {}", comment_literal(&mark))
}

/// Restores the rows that a test has moved or changed, this test or an interrupted one.
pub(super) fn put_back(keeper: &mut Session, schema: &Schema) -> Result<()> {
    let statements = [
        (
            ORDERS,
            format!(
                "insert into @.new_order (no_o_id, no_d_id, no_w_id) select no_o_id, no_d_id, no_w_id from @.{ORDERS} \
                 where of_table = {}",
                oid_of(schema, "new_order")
            ),
        ),
        (
            PRICES,
            format!(
                "update @.item set i_price = kept.i_price from @.{PRICES} kept \
                 where item.i_id = kept.i_id and item.i_price = kept.raised and kept.of_table = {}",
                oid_of(schema, "item")
            ),
        ),
    ];
    for (table, sql) in statements {
        // After an error, a transaction may still be open.
        keeper.execute("rollback").ok();
        keeper.execute("begin")?;
        put_back_one(keeper, schema, table, &schema.fill(&sql))
            .with_context(|| {
                let name = schema.plain_name(table);
                format!("put back the rows that an interrupted test has set aside in table `{name}` (drop that table if they are of no use)")
            })?;
        keeper.execute("commit")?;
    }
    Ok(())
}

/// Restores rows only from a table with pgdyno's mark, and drops that table.
fn put_back_one(keeper: &mut Session, schema: &Schema, table: &str, sql: &str) -> Result<()> {
    let tables = [table.to_string()];
    let clearance =
        Clearance { dataset: Dataset::Tpcc, schema, tables: &tables, consent: LoadConsent::default() };
    let held = clearance.hold(keeper)?;
    if !held.is_empty() {
        keeper.execute(sql)?;
    }
    clearance.drop_held(keeper, &held)
}
