//! Isolation tests 1 to 7 (clauses 3.4.2.1 to 3.4.2.7). The clauses describe the behaviour of locking: where a reader
//! waits there, PostgreSQL's reader sees the previous state, which clause 3.4.2 allows for schemes other than locking.

use anyhow::{Context, Result, ensure};
use wire::session::Session;
use workload::Schema;
use workload::tpcc::{NewOrderInputs, OrderedItem, Trial, UNUSED_ITEM};

use super::actor::Actor;
use super::interaction::{Interaction, meet};
use super::{Observations, Scene, Test, stored_rows};

macro_rules! test {
    ($clause:literal, $title:literal, $run:ident) => {
        Test { clause: $clause, title: $title, is_of_phantoms: false, run: $run }
    };
}

pub(super) const TESTS: [Test; 7] = [
    test!("3.4.2.1", "test 1: Order-Status during a New-Order that commits", status_and_commit),
    test!("3.4.2.2", "test 2: Order-Status during a New-Order that rolls back", status_and_rollback),
    test!("3.4.2.3", "test 3: two New-Orders, both commit", two_orders),
    test!("3.4.2.4", "test 4: two New-Orders, the first rolls back", two_orders_one_undone),
    test!("3.4.2.5", "test 5: Payment during a Delivery that commits", payment_and_delivery),
    test!("3.4.2.6", "test 6: Payment during a Delivery that rolls back", payment_and_undone_delivery),
    test!("3.4.2.7", "test 7: New-Order while prices of its items change", repeatable_prices),
];

/// The statement of an Order-Status that finds the last order.
pub(super) const LAST_ORDER: &str = "select o_id, o_entry_d";
const ORDER_LINES: &str = "select ol_i_id";
/// The statement of a New-Order that assigns its number.
const TAKE_NUMBER: &str = "update @.district";
const READ_PRICES: &str = "select i_id, i_price";

/// The schema, and the sessions of the observer, T1 and T2.
pub(super) fn sessions(scene: &mut Scene) -> Result<(&Schema, &mut Session, &mut Session, &mut Session)> {
    let Scene { schema, observer, sessions, .. } = scene;
    let [first, second, ..] = sessions.as_mut_slice() else { anyhow::bail!("a test needs two sessions") };
    Ok((schema, observer, first, second))
}

/// An Order-Status during an open New-Order: T0 has returned the customer's last order before, T1 has executed a
/// New-Order up to its last statement, and T2 runs while T1 is ended.
struct ConcurrentStatus {
    /// Result of T0: order and lines.
    before: (i64, Vec<[u32; 3]>),
    /// Number of T1's order.
    taken: i64,
    /// Result of T2.
    found: (i64, Vec<[u32; 3]>),
    meeting: Interaction,
}

fn concurrent_status(scene: &mut Scene, order: &NewOrderInputs) -> Result<ConcurrentStatus> {
    let (schema, observer, first, second) = sessions(scene)?;
    let before = shown(schema, second, order)?;
    let mut t1 = Actor::new(first, Trial::new_order(schema, order));
    t1.go_to_end()?;
    let taken = t1.number(TAKE_NUMBER, 0)?;
    let mut t2 = Actor::new(second, status_of(schema, order));
    let meeting = meet(observer, &mut t1, &mut t2, Actor::finish)?;
    let found = (t2.number(LAST_ORDER, 0)?, lines_of(&t2)?);
    Ok(ConcurrentStatus { before, taken, found, meeting })
}

/// An Order-Status of the order's customer.
fn status_of(schema: &Schema, order: &NewOrderInputs) -> Trial {
    Trial::order_status(schema, order.w_id, order.d_id, order.c_id)
}

/// Result of an Order-Status that runs alone: the customer's last order and its lines.
fn shown(schema: &Schema, session: &mut Session, order: &NewOrderInputs) -> Result<(i64, Vec<[u32; 3]>)> {
    let mut status = Actor::new(session, status_of(schema, order));
    status.finish()?;
    Ok((status.number(LAST_ORDER, 0)?, lines_of(&status)?))
}

fn status_and_commit(scene: &mut Scene) -> Result<Observations> {
    let order = scene.order();
    let ConcurrentStatus { before: (last, _), taken, found: (found, _), meeting } =
        concurrent_status(scene, &order)?;
    let mut seen = Observations::default();
    // A T2 that waited for the commit returns the new order; one that did not wait returns the last committed one.
    let expected = if meeting.waited { taken } else { last };
    seen.expect(found == expected, || format!("T2 found order {found}, not {expected}"));

    let (schema, _, _, second) = sessions(scene)?;
    let (after, lines) = shown(schema, second, &order)?;
    seen.expect(after == taken, || format!("after T1 the last order is {after}, not {taken}"));
    seen.expect(lines == asked(&order), || {
        format!("T1 entered {:?}, but the order has {lines:?}", asked(&order))
    });
    seen.text = format!(
        "{} and saw order {found}; after T1's commit, its order {taken} is there as entered",
        meeting.text()
    );
    Ok(seen)
}

fn status_and_rollback(scene: &mut Scene) -> Result<Observations> {
    let order = undone(scene.order());
    let ConcurrentStatus { before: (last, lines), taken, found, meeting } = concurrent_status(scene, &order)?;
    let mut seen = Observations::default();
    seen.expect(found.0 == last, || format!("T2 found order {}, not {last}", found.0));
    seen.expect(found.1 == lines, || "T2 and T0 found different lines".to_string());
    seen.text = format!(
        "{}; order {taken} of T1 was never visible, T2 saw order {} as T0 did",
        meeting.text(),
        found.0
    );
    Ok(seen)
}

fn two_orders(scene: &mut Scene) -> Result<Observations> {
    let order = scene.order();
    take_two_numbers(scene, order, true)
}

fn two_orders_one_undone(scene: &mut Scene) -> Result<Observations> {
    let order = undone(scene.order());
    take_two_numbers(scene, order, false)
}

/// T1 with `order`, and T2 of the same customer while T1 is open.
fn take_two_numbers(scene: &mut Scene, order: NewOrderInputs, commits: bool) -> Result<Observations> {
    let other = scene.order();
    let sql = scene.schema.fill(&format!(
        "select d_next_o_id from @.district where d_w_id = {} and d_id = {}",
        order.w_id, order.d_id
    ));
    let next = |observer: &mut Session| number(observer, &sql);
    let (schema, observer, first, second) = sessions(scene)?;
    let before = next(observer)?;
    let mut t1 = Actor::new(first, Trial::new_order(schema, &order));
    t1.go_to_end()?;
    let one = t1.number(TAKE_NUMBER, 0)?;
    let mut t2 = Actor::new(second, Trial::new_order(schema, &other));
    let meeting = meet(observer, &mut t1, &mut t2, Actor::finish)?;
    let two = t2.number(TAKE_NUMBER, 0)?;
    let after = next(observer)?;
    let mut seen = Observations::default();
    seen.expect(meeting.waited, || "T2 did not wait for T1".to_string());
    seen.expect(one == before, || format!("T1 took order {one}, the district's next was {before}"));
    let expected = before + i64::from(commits);
    seen.expect(two == expected, || format!("T2 took order {two}, not {expected}"));
    seen.expect(after == expected + 1, || format!("D_NEXT_O_ID is {after}, not {}", expected + 1));
    seen.text = format!("{}; D_NEXT_O_ID {before}, T1 took {one}, T2 {two}, then {after}", meeting.text());
    Ok(seen)
}

fn payment_and_delivery(scene: &mut Scene) -> Result<Observations> {
    pay_during_delivery(scene, true)
}

fn payment_and_undone_delivery(scene: &mut Scene) -> Result<Observations> {
    pay_during_delivery(scene, false)
}

/// T1 delivers an order; T2 is a payment of its customer while T1 is open.
fn pay_during_delivery(scene: &mut Scene, commits: bool) -> Result<Observations> {
    const CENTS: i64 = 32_109;
    let sql = "select no_w_id, no_d_id, o_c_id, (select (sum(ol_amount) * 100)::bigint from @.order_line \
               where ol_w_id = no_w_id and ol_d_id = no_d_id and ol_o_id = no_o_id) as cents \
               from (select no_w_id, no_d_id, min(no_o_id) as no_o_id from @.new_order group by 1, 2) n \
               join @.orders on o_w_id = no_w_id and o_d_id = no_d_id and o_id = no_o_id order by random() limit 1";
    let oldest = scene.observer.query(&scene.schema.fill(sql))?;
    ensure!(!oldest.is_empty(), "no undelivered order is left; load the tables again with pgdyno init");
    let value = |column: &str| oldest.parse::<i64>(0, column).with_context(|| format!("no {column}"));
    let (w_id, d_id, c_id) = (value("no_w_id")? as u32, value("no_d_id")? as u32, value("o_c_id")? as u32);
    let delivered = if commits { value("cents")? } else { 0 };
    let sql = scene.schema.fill(&format!(
        "select (c_balance * 100)::bigint from @.customer where c_w_id = {w_id} and c_d_id = {d_id} and c_id = {c_id}"
    ));
    let balance = |observer: &mut Session| number(observer, &sql);
    let (schema, observer, first, second) = sessions(scene)?;
    let before = balance(observer)?;
    let mut t1 = Actor::new(first, Trial::delivery(schema, w_id, 7));
    t1.go_to_end()?;
    let mut t2 = Actor::new(second, Trial::payment(schema, w_id, d_id, c_id, CENTS as u64));
    let end = if commits { Actor::finish } else { Actor::roll_back };
    let meeting = meet(observer, &mut t1, &mut t2, end)?;
    let after = balance(observer)?;
    let mut seen = Observations::default();
    seen.expect(meeting.waited, || "T2 did not wait for T1".to_string());
    let expected = before + delivered - CENTS;
    seen.expect(after == expected, || format!("C_BALANCE is {after} cents, not {expected}"));
    seen.text = format!("{}; C_BALANCE {before} + {delivered} - {CENTS} is {after} cents", meeting.text());
    Ok(seen)
}

/// T2 orders item x twice and item y. It reads the prices of all its items with one statement, and is stopped after it;
/// then T3 raises both prices (case D of the clause: nobody waits and nobody fails).
fn repeatable_prices(scene: &mut Scene) -> Result<Observations> {
    let seen = charge_while_prices_rise(scene);
    // Whatever has happened: the consistency conditions require amounts of quantity times price.
    stored_rows::put_back(&mut scene.keeper, &scene.schema)?;
    seen
}

fn charge_while_prices_rise(scene: &mut Scene) -> Result<Observations> {
    let mut order = scene.order();
    let [x, y, again, ..] = order.lines.as_mut_slice() else { anyhow::bail!("an order has five lines") };
    if x.i_id == y.i_id {
        y.i_id = x.i_id % 100_000 + 1;
    }
    again.i_id = x.i_id;
    let items = format!("i_id in ({}, {})", x.i_id, y.i_id);
    let prices =
        format!("select string_agg(i_id || ' ' || i_price, ', ' order by i_id) from @.item where {items}");
    stored_rows::note_prices(&mut scene.keeper, &scene.schema, &items)?;
    let (schema, observer, first, _) = sessions(scene)?;
    let prices = schema.fill(&prices);
    let before = text(observer, &prices)?;
    let mut t2 = Actor::new(first, Trial::new_order(schema, &order));
    t2.go_through(|sent| sent.sql.starts_with(READ_PRICES))?;
    let raise = format!("update @.item set i_price = {} where {items}", stored_rows::RAISED);
    observer.execute(&schema.fill(&raise))?;
    let raised = text(observer, &prices)?;
    let n_retries = t2.finish_with_retries()?;
    let o_id = t2.number(TAKE_NUMBER, 0)?;
    let charged = format!(
        "select string_agg(distinct ol_i_id || ' ' || (ol_amount / ol_quantity)::numeric(5,2), ', ') \
         from (select * from @.order_line where ol_w_id = {} and ol_d_id = {} and ol_o_id = {o_id} \
         and ol_{items} order by ol_i_id) lines",
        order.w_id, order.d_id
    );
    let charged = text(observer, &schema.fill(&charged))?;
    let mut seen = Observations::default();
    seen.expect(raised != before, || format!("T3 left the prices at {before}"));
    let sorted = |list: &str| {
        let mut pairs: Vec<String> = list.split(", ").map(str::to_string).collect();
        pairs.sort_unstable();
        pairs
    };
    let expected = if n_retries == 0 { &before } else { &raised };
    seen.expect(sorted(&charged) == sorted(expected), || format!("T2 charged {charged}, T1 read {before}"));
    seen.text =
        format!("T1 read {before}; T3 did not wait and raised it to {raised}; T2 charged {charged} (case D)");
    Ok(seen)
}

/// The same order with an unused item in the last line.
fn undone(mut order: NewOrderInputs) -> NewOrderInputs {
    if let Some(last) = order.lines.last_mut() {
        last.i_id = UNUSED_ITEM;
    }
    order
}

/// Lines that an order asks for, sorted.
fn asked(order: &NewOrderInputs) -> Vec<[u32; 3]> {
    let mut lines: Vec<[u32; 3]> = order
        .lines
        .iter()
        .map(|OrderedItem { i_id, supply_w_id, quantity }| [*i_id, *supply_w_id, *quantity])
        .collect();
    lines.sort_unstable();
    lines
}

/// Lines of the order that an Order-Status returned, sorted.
fn lines_of(status: &Actor<'_>) -> Result<Vec<[u32; 3]>> {
    let line = |row: &Vec<Option<String>>| -> Option<[u32; 3]> {
        let value = |at: usize| row.get(at)?.as_deref()?.parse().ok();
        Some([value(0)?, value(1)?, value(2)?])
    };
    let lines: Option<Vec<[u32; 3]>> = status.rows(ORDER_LINES)?.rows.iter().map(line).collect();
    let mut lines = lines.context("an order's line has an item, a warehouse and a quantity")?;
    lines.sort_unstable();
    Ok(lines)
}

fn number(session: &mut Session, sql: &str) -> Result<i64> {
    text(session, sql)?.parse().with_context(|| format!("`{sql}` returns a number"))
}

fn text(session: &mut Session, sql: &str) -> Result<String> {
    let rows = session.query(sql)?;
    rows.scalar().map(str::to_string).with_context(|| format!("`{sql}` returns nothing"))
}
