//! Several drivers share a load: together they offer what one driver with all their threads offers.

use model::load::drive::{DriveOrder, DriverPart};
use model::load::{LoadSpec, OnError};
use testbed::Pg;

use crate::order::{Driving, load};

const SOURCE: &str = "\\set r random(1, 1000000000)\ninsert into seen values (:client_id, :r);\n";

/// Runs each part to its end, and returns what all inserted, and the transactions of each part.
fn offered(load: &LoadSpec, parts: &[DriverPart], pg: &Pg, database: &str) -> (String, Vec<u64>) {
    pg.execute(database, "create table seen (client int, r int)");
    let committed = parts
        .iter()
        .map(|&part| {
            let order = DriveOrder { part, ..DriveOrder::new(load.clone(), None) };
            let mut driving = Driving::start_with(&serde_json::to_string(&order).unwrap());
            driving.go();
            driving.story(Vec::new()).done
        })
        .map(|done| {
            assert_eq!(done.measured_by_client.len(), load.n_clients as usize, "one place for each client");
            done.counts.committed
        })
        .collect();
    let seen = pg.ask(database, "select string_agg(client || ' ' || r, ',' order by client, r) from seen");
    pg.execute(database, "drop table seen");
    (seen, committed)
}

#[test]
fn parts_of_a_load_are_together_the_load_of_as_many_threads() {
    let pg = Pg::shared();
    let database = pg.database();
    let mut load = load(&pg.socket(&database), SOURCE);
    load.n_clients = 5;
    load.transactions_per_client = Some(7);
    load.window.measure_s = 20;
    load.on_error = OnError::EndLoad;
    load.lazy_parse = true;
    let of_two_threads = LoadSpec { n_threads: 2, ..load.clone() };
    let (whole, _) = offered(&of_two_threads, &[DriverPart::WHOLE], &pg, &database);
    let parts = [DriverPart { index: 0, of: 2 }, DriverPart { index: 1, of: 2 }];
    let (together, committed) = offered(&load, &parts, &pg, &database);
    assert_eq!(whole.split(',').count(), 35);
    assert_eq!(together, whole);
    let mut committed = committed;
    committed.sort_unstable();
    assert_eq!(committed, [14, 21], "clients are spread evenly");
}

#[test]
fn a_part_that_the_load_does_not_have_is_refused() {
    let pg = Pg::shared();
    let part = DriverPart { index: 2, of: 2 };
    let order = DriveOrder { part, ..DriveOrder::new(load(&pg.socket("postgres"), "select 1;"), None) };
    let message = Driving::start_with(&serde_json::to_string(&order).unwrap()).failure();
    assert_eq!(message, "the order is for driver 2 of 2");
}
