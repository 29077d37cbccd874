//! Rows that a test needs out of the way: stored in tables of their own in the meantime, so that they can be restored
//! whatever happens to this process. The next tests repair what an interrupted test has left behind.

use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result};
use model::workload::Dataset;
use wire::Conninfo;
use wire::session::Session;
use workload::Schema;
use workload::objects::marker::{comment_literal, part_mark};

use super::ANSWER_TIMEOUT;
use crate::clearance::{Clearance, Consent};
use crate::session;

/// Undelivered orders of one district.
const ORDERS: &str = "pgdyno_acid_new_order";
/// Prices of items.
const PRICES: &str = "pgdyno_acid_item";

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
        "begin; create table @.{ORDERS} as select * from @.new_order where {of_district}; {}; \
         delete from @.new_order where {of_district}; commit",
        mark(ORDERS)
    );
    Ok(keeper.execute(&schema.fill(&sql))?)
}

/// Saves the prices of the items that meet a condition.
pub(super) fn note_prices(keeper: &mut Session, schema: &Schema, condition: &str) -> Result<()> {
    let sql = format!(
        "begin; create table @.{PRICES} as select i_id, i_price from @.item where {condition}; {}; commit",
        mark(PRICES)
    );
    Ok(keeper.execute(&schema.fill(&sql))?)
}

/// The statement that marks a table as pgdyno's.
fn mark(table: &str) -> String {
    let mark = part_mark(Dataset::Tpcc.name(), table, None);
    format!("comment on table @.{table} is {}", comment_literal(&mark))
}

/// Restores the rows that a test has moved or changed, this test or an interrupted one.
pub(super) fn put_back(keeper: &mut Session, schema: &Schema) -> Result<()> {
    let statements = [
        (ORDERS, format!("insert into @.new_order select * from @.{ORDERS}")),
        (
            PRICES,
            format!(
                "update @.item set i_price = kept.i_price from @.{PRICES} kept where item.i_id = kept.i_id"
            ),
        ),
    ];
    for (table, sql) in statements {
        // After an error, a transaction may still be open.
        keeper.execute("rollback").ok();
        keeper.execute("begin")?;
        put_back_one(keeper, schema, table, &schema.fill(&sql))
            .with_context(|| format!("restore the rows in table `{}`", schema.plain_name(table)))?;
        keeper.execute("commit")?;
    }
    Ok(())
}

/// Restores rows only from a table with pgdyno's mark, and drops that table.
fn put_back_one(keeper: &mut Session, schema: &Schema, table: &str, sql: &str) -> Result<()> {
    let tables = [table.to_string()];
    let clearance =
        Clearance { dataset: Dataset::Tpcc, schema, tables: &tables, consent: Consent::default() };
    let held = clearance.hold(keeper)?;
    if !held.is_empty() {
        keeper.execute(sql)?;
    }
    clearance.drop_held(keeper, &held)
}
