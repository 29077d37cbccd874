//! What a test must have out of the way: kept in tables of its own meanwhile, so that it comes back whatever becomes of
//! this process. A test that was cut off is repaired when the tests are begun the next time.

use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result};
use wire::Conninfo;
use wire::session::Session;

use super::ANSWER_TIMEOUT;
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
pub(super) fn take_orders(keeper: &mut Session, w_id: u32, d_id: u32) -> Result<()> {
    let of_district = format!("no_w_id = {w_id} and no_d_id = {d_id}");
    let sql = format!(
        "begin; create table {ORDERS} as select * from new_order where {of_district}; \
         delete from new_order where {of_district}; commit"
    );
    Ok(keeper.execute(&sql)?)
}

/// Notes the prices of the items that meet a condition.
pub(super) fn note_prices(keeper: &mut Session, condition: &str) -> Result<()> {
    let sql = format!("create table {PRICES} as select i_id, i_price from item where {condition}");
    Ok(keeper.execute(&sql)?)
}

/// Puts back what a test has taken or changed, this one or one that was cut off.
pub(super) fn put_back(keeper: &mut Session) -> Result<()> {
    // After an error the transaction of `take_orders` may be open.
    keeper.execute("rollback").ok();
    let sql = format!(
        "do $$ begin \
         if to_regclass('{ORDERS}') is not null then \
           insert into new_order select * from {ORDERS}; drop table {ORDERS}; end if; \
         if to_regclass('{PRICES}') is not null then \
           update item set i_price = kept.i_price from {PRICES} kept where item.i_id = kept.i_id; \
           drop table {PRICES}; end if; end $$"
    );
    keeper.execute(&sql).with_context(|| format!("put back what is in the tables `{ORDERS}` and `{PRICES}`"))
}
