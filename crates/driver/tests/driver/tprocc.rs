//! TPROC-C on a real server: HammerDB's interface, and the defects that are part of its number.

use std::sync::atomic::AtomicBool;

use loader::Streams;
use model::load::{LoadSpec, OnError, Profiles, Protocol, ScriptSpec, Window};
use workload::tpcc::{self, Population, Style};
use workload::{Builtins, tprocc};

use crate::driven::drive;
use crate::tpcc::{Supplier, committed};

/// Conditions that HammerDB's transactions keep.
const KEPT: [&str; 10] = [
    "3.3.2.1", "3.3.2.2", "3.3.2.3", "3.3.2.4", "3.3.2.5", "3.3.2.6", "3.3.2.7", "3.3.2.8", "3.3.2.9",
    "lines",
];

fn load_database(supplier: &Supplier, name: &str) {
    supplier.cluster.session().execute(&format!("create database {name}")).unwrap();
    let mut session = supplier.session(name);
    for sql in [tprocc::create_tables(), tprocc::create_routines()].concat() {
        session.execute(&sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
    let population = Population {
        warehouses: 1,
        seed: 1,
        style: Style::HammerDb,
        at: "2026-11-21 12:00:00+00".to_string(),
    };
    let streams = Streams { sessions: vec![&mut session], stop: &AtomicBool::new(false) };
    streams.run(loader::tpcc::fill(&population), &mut |_| {}).unwrap();
}

#[test]
fn transactions_do_to_the_tables_what_hammerdbs_do() {
    let supplier = Supplier::shared();
    load_database(&supplier, "hammer");
    let mut session = supplier.session("hammer");
    let mut ask = |sql: &str| -> f64 {
        let rows = session.query(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
        rows.scalar().unwrap_or("nothing").parse().unwrap_or(f64::NAN)
    };
    // Half of the customers have bad credit, delivered lines have amounts, and some customers have no order.
    assert!((0.48..0.52).contains(&ask("select avg((c_credit = 'BC')::int) from customer")));
    assert_eq!(ask("select count(*) from order_line where (ol_o_id < 2101) = (ol_amount = 0)"), 0.0);
    assert!(ask("select count(distinct o_c_id) from orders where o_d_id = 1") < 2500.0);

    let builtins = Builtins::TprocC(tprocc::Config { warehouses: 1, clients: 1, all_warehouses: false });
    let script = |(program, weight): (workload::Program, u32)| ScriptSpec {
        tag: program.name.clone(),
        name: program.name,
        weight,
        source: String::new(),
    };
    let driven = drive(LoadSpec {
        target: supplier.conninfo("hammer").keywords(),
        scripts: builtins.programs().into_iter().map(script).collect(),
        profiles: Some(Profiles::TprocC),
        defines: builtins.defines(),
        protocol: Protocol::Prepared,
        window: Window { ramp_up_s: 0, measure_s: 0, grace_s: 5 },
        seed: 42,
        transactions_per_client: Some(1000),
        on_error: OnError::EndLoad,
        ..LoadSpec::default()
    });
    assert_eq!(driven.done.counts.committed, 1000, "{:?}", driven.done);
    let (new_orders, payments) = (committed(&driven, 0) as f64, committed(&driven, 1) as f64);
    assert!((380.0..490.0).contains(&new_orders) && (380.0..490.0).contains(&payments));

    // Every New-Order counts, those too that should have been rolled back.
    assert_eq!(ask("select sum(d_next_o_id - 3001) from district"), new_orders);
    let without_price = ask("select count(*) from order_line where ol_i_id = 100001");
    assert!(without_price > 0.0, "a seed without unused items proves nothing");
    assert!(ask("select count(*) from order_line where ol_o_id > 3000 and ol_amount is null") > 0.0);
    // Payments by name set a balance to what was paid; nobody's payments are counted.
    assert_eq!(ask("select count(*) - 30000 from history"), payments);
    assert!(
        ask("select count(*) from customer where c_balance between -5000 and -1 and c_balance <> -10") > 0.0
    );
    assert_eq!(ask("select count(*) from customer where c_payment_cnt <> 1 or c_ytd_payment <> 10"), 0.0);
    assert_eq!(ask("select count(*) from stock where s_ytd <> 0"), 0.0);
    assert!(
        ask("select count(*) from orders where o_id between 2101 and 3000 and o_carrier_id is not null")
            > 0.0
    );
    for check in tpcc::checks(1).into_iter().filter(|check| KEPT.contains(&check.id)) {
        let rows = session.query(&check.sql).unwrap();
        assert!(rows.is_empty(), "{}: {:?} {:?}", check.id, rows.columns, rows.rows[0]);
    }
}
