//! What a test must have out of the way: kept in tables of its own meanwhile, so that it comes back whatever becomes of
//! this process. A test that was cut off is repaired when the tests are begun the next time.

use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result};
use wire::Conninfo;
use wire::session::Session;
use workload::Schema;
use workload::objects::marker::{comment_literal, part_mark};

use super::ANSWER_TIMEOUT;
use crate::clearance::Clearance;
use crate::kind::Dataset;
use crate::session;

/// Orders to be delivered, of one district.
const ORDERS: &str = "pgdyno_acid_new_order";
/// Prices of items.
const PRICES: &str = "pgdyno_acid_item";

/// Never raised: a wish to stop must not keep rows from coming back.
static NEVER: AtomicBool = AtomicBool::new(false);

/// A session that takes aside and puts back.
pub(super) fn keeper(conninfo: &Conninfo) -> Result<Session> {
    let mut session = session::open(conninfo, &NEVER)?;
    session.set_timeout(Some(ANSWER_TIMEOUT));
    Ok(session)
}

/// Takes the orders of a district out of NEW-ORDER.
pub(super) fn take_orders(keeper: &mut Session, schema: &Schema, w_id: u32, d_id: u32) -> Result<()> {
    let of_district = format!("no_w_id = {w_id} and no_d_id = {d_id}");
    let sql = format!(
        "begin; create table @.{ORDERS} as select * from @.new_order where {of_district}; {}; \
         delete from @.new_order where {of_district}; commit",
        mark(ORDERS)
    );
    Ok(keeper.execute(&schema.fill(&sql))?)
}

/// Notes the prices of the items that meet a condition.
pub(super) fn note_prices(keeper: &mut Session, schema: &Schema, condition: &str) -> Result<()> {
    let sql = format!(
        "begin; create table @.{PRICES} as select i_id, i_price from @.item where {condition}; {}; commit",
        mark(PRICES)
    );
    Ok(keeper.execute(&schema.fill(&sql))?)
}

/// The statement that marks a table as pgdyno's.
fn mark(table: &str) -> String {
    let mark = part_mark(Dataset::Tpcc.name(), table);
    format!("comment on table @.{table} is {}", comment_literal(&mark))
}

/// Puts back what a test has taken or changed, this one or one that was cut off.
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
        // After an error a transaction may be open.
        keeper.execute("rollback").ok();
        keeper.execute("begin")?;
        put_back_one(keeper, schema, table, &schema.fill(&sql))
            .with_context(|| format!("put back what is in the table `{}`", schema.plain_name(table)))?;
        keeper.execute("commit")?;
    }
    Ok(())
}

/// Only from a table with pgdyno's mark, which it drops.
fn put_back_one(keeper: &mut Session, schema: &Schema, table: &str, sql: &str) -> Result<()> {
    let tables = [table.to_string()];
    let clearance = Clearance { dataset: Dataset::Tpcc, schema, tables: &tables, replace: false };
    let held = clearance.hold(keeper)?;
    if !held.is_empty() {
        keeper.execute(sql)?;
    }
    clearance.drop_held(keeper, &held)
}
