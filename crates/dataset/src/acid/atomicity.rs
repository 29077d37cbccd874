//! Atomicity tests (clause 3.2.2): a Payment that commits changes all of its rows; one that rolls back changes none.

use anyhow::{Context, Result};
use workload::tpcc::Trial;

use super::actor::Actor;
use super::{Observations, Scene, Test};

pub(super) const TESTS: [Test; 2] = [
    Test {
        clause: "3.2.2.1",
        title: "a Payment that commits changes customer, district and warehouse",
        is_of_phantoms: false,
        run: commits,
    },
    Test {
        clause: "3.2.2.2",
        title: "a Payment that rolls back changes none of them",
        is_of_phantoms: false,
        run: rolls_back,
    },
];

/// The values that a Payment changes, money in cents.
#[derive(Debug, PartialEq, Eq)]
struct Books {
    w_ytd: i64,
    d_ytd: i64,
    c_balance: i64,
    c_ytd_payment: i64,
    c_payment_cnt: i64,
    n_history: i64,
}

/// The amount paid, in cents.
const CENTS: i64 = 12_345;

fn commits(scene: &mut Scene) -> Result<Observations> {
    let before = books(scene)?;
    let mut session = scene.sessions.remove(0);
    Actor::new(&mut session, payment(scene)).finish()?;
    let expected = Books {
        w_ytd: before.w_ytd + CENTS,
        d_ytd: before.d_ytd + CENTS,
        c_balance: before.c_balance - CENTS,
        c_ytd_payment: before.c_ytd_payment + CENTS,
        c_payment_cnt: before.c_payment_cnt + 1,
        n_history: before.n_history + 1,
    };
    compare(scene, expected, "all rows have changed by the amount of the payment")
}

fn rolls_back(scene: &mut Scene) -> Result<Observations> {
    let before = books(scene)?;
    let mut session = scene.sessions.remove(0);
    let mut t1 = Actor::new(&mut session, payment(scene));
    t1.go_to_end()?;
    t1.roll_back()?;
    compare(scene, before, "no row has changed")
}

fn payment(scene: &Scene) -> Trial {
    Trial::payment(&scene.schema, scene.w_id, scene.d_id, scene.c_id, CENTS as u64)
}

fn compare(scene: &mut Scene, expected: Books, what: &str) -> Result<Observations> {
    let found = books(scene)?;
    let customer = format!("customer {} of district {} of warehouse {}", scene.c_id, scene.d_id, scene.w_id);
    let what = if found == expected { what } else { "the rows differ from the expected ones" };
    let mut seen = Observations { text: format!("{customer}: {what}"), faults: Vec::new() };
    seen.expect(found == expected, || format!("expected {expected:?}, found {found:?}"));
    Ok(seen)
}

fn books(scene: &mut Scene) -> Result<Books> {
    let Scene { observer, schema, w_id, d_id, c_id, .. } = scene;
    let sql = format!(
        "select (w_ytd * 100)::bigint as w_ytd, (d_ytd * 100)::bigint as d_ytd, \
         (c_balance * 100)::bigint as c_balance, (c_ytd_payment * 100)::bigint as c_ytd_payment, c_payment_cnt, \
         (select count(*) from @.history where h_c_w_id = c_w_id and h_c_d_id = c_d_id and h_c_id = c_id) as n_history \
         from @.customer join @.district on d_w_id = c_w_id and d_id = c_d_id join @.warehouse on w_id = c_w_id \
         where c_w_id = {w_id} and c_d_id = {d_id} and c_id = {c_id}"
    );
    let rows = observer.query(&schema.fill(&sql))?;
    let value = |column: &str| rows.parse(0, column).with_context(|| format!("the customer has no {column}"));
    Ok(Books {
        w_ytd: value("w_ytd")?,
        d_ytd: value("d_ytd")?,
        c_balance: value("c_balance")?,
        c_ytd_payment: value("c_ytd_payment")?,
        c_payment_cnt: value("c_payment_cnt")?,
        n_history: value("n_history")?,
    })
}
