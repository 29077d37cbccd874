//! Isolation tests 8 and 9 (clauses 3.4.2.8 and 3.4.2.9): a row that another transaction adds must not become visible.
//! At read committed it does, because each statement takes its own snapshot.

use anyhow::Result;
use workload::tpcc::{Trial, TrialStatement};

use super::actor::Actor;
use super::interaction::meet;
use super::isolation::{LAST_ORDER, sessions};
use super::{Observations, Scene, Test, stored_rows};

pub(super) const TESTS: [Test; 2] = [
    Test {
        clause: "3.4.2.8",
        title: "test 8: a New-Order while a Delivery finds nothing to deliver",
        is_of_phantoms: true,
        run: order_during_delivery,
    },
    Test {
        clause: "3.4.2.9",
        title: "test 9: a New-Order while an Order-Status looks at the customer",
        is_of_phantoms: true,
        run: order_during_status,
    },
];

/// The district has no rows in NEW-ORDER during the test; they are restored afterwards.
fn order_during_delivery(scene: &mut Scene) -> Result<Observations> {
    let taken = stored_rows::take_orders(&mut scene.keeper, &scene.schema, scene.w_id, scene.d_id);
    let seen = taken.and_then(|()| deliver_nothing(scene));
    stored_rows::put_back(&mut scene.keeper, &scene.schema)?;
    seen
}

fn deliver_nothing(scene: &mut Scene) -> Result<Observations> {
    let (order, d_id) = (scene.order(), scene.d_id.to_string());
    let is_of_district = |sent: &TrialStatement| {
        sent.sql.starts_with("select no_o_id")
            && sent.params.get(1).is_some_and(|d| d.as_ref() == Some(&d_id))
    };
    let (schema, observer, first, second) = sessions(scene)?;
    let mut t1 = Actor::new(first, Trial::delivery(schema, order.w_id, 3));
    t1.go_through(is_of_district)?;
    let mut t2 = Actor::new(second, Trial::new_order(schema, &order));
    look_again(observer, t1, &mut t2, "no order to deliver")
}

fn order_during_status(scene: &mut Scene) -> Result<Observations> {
    let order = scene.order();
    let (schema, observer, first, second) = sessions(scene)?;
    let mut t1 = Actor::new(first, Trial::order_status(schema, order.w_id, order.d_id, order.c_id));
    t1.go_through(|sent| sent.sql.starts_with(LAST_ORDER))?;
    let what = format!("order {} as the last", t1.number(LAST_ORDER, 0)?);
    let mut t2 = Actor::new(second, Trial::new_order(schema, &order));
    look_again(observer, t1, &mut t2, &what)
}

/// T1 has read; T2 commits, unless it waits for T1; T1 reads again.
fn look_again<'a>(
    observer: &mut wire::session::Session,
    mut t1: Actor<'a>,
    t2: &mut Actor<'a>,
    what: &str,
) -> Result<Observations> {
    let mut same = false;
    let meeting = meet(observer, &mut t1, t2, |t1| {
        same = t1.repeats()?;
        t1.finish_with_retries().map(drop)
    })?;
    let taken = t2.number("update @.district", 0)?;
    let mut seen = Observations::default();
    seen.expect(same, || format!("T1 found {what}, and order {taken} of T2 when it looked again (P3)"));
    seen.text = format!("T1 found {what}; {} for its order {taken}", meeting.text());
    if same {
        seen.text.push_str("; T1 then found the same");
    }
    Ok(seen)
}
