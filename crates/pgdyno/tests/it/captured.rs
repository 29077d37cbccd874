//! Captured workloads end to end: their rows reach the server as they were captured, at the captured rate, on data that is there.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use model::load::Pace;
use testbed::{PASSWORD, Pg};

use crate::tool::{Ended, Place, expect_found, expect_sound};

const MANIFEST: &str = r#"format = 1
name = "shop"
title = "A shop, captured"
data = "existing"

[source]
server = "15.4"
system_identifier = "IDENTIFIER"
rate = 200.5
clients = 3

[[transaction]]
name = "pay"
draws = "pay"
[transaction.params]
key = "draw.k"
other = "choose(chance(0.2), near(draw.k, 1, 5000), draw.k)"
tenant = "draw.tenant"
name = "draw.name"
price = "draw.price"
at = "now() + seconds(draw.dt)"
rounds = "draw.items_rounds"
[transaction.each.items]
item = "draw.item"

[[transaction]]
name = "look"
draws = "pay"
params = {key = "draw.k"}

[[transaction]]
name = "drop"
draws = "drop"
draws_order = "once"
params = {gone = "draw.k"}

[[transaction]]
name = "fail"

[variants]
source = {weights = {pay = 150.25, look = 50.25}}
deleting = {weights = {drop = 1, look = 9}}
failing = {weights = {fail = 1, look = 99}}
"#;
const PAY: &str = "-- pgdyno: extended\nbegin;\ninsert into paid (k, other, tenant, name, price, at) values (:key, :other, :tenant, :name, :price, :at);\n\
                   \\repeat items :rounds\ninsert into item (k, item) values (:key, :item);\n\\endrepeat\nend;\n";
/// A text that is nowhere but in the captured rows.
const PERSONAL: &str = "quagga";
const N_ROWS: i64 = 100;
const N_DROPS: i64 = 6;

/// The captured rows: some keys are hot, and everything else follows from the key.
fn rows() -> Vec<(i64, i64, i64)> {
    (0..N_ROWS).map(|row| if row < 30 { 7 } else { 50 * row }).map(|key| (key, key % 9, key % 4)).collect()
}

fn place(pg: &Pg) -> (Place, String) {
    let place = Place::new();
    for dir in ["transactions", "draws"] {
        fs::create_dir_all(place.path(&format!("shop.workload/{dir}"))).unwrap();
    }
    let database = pg.database();
    pg.execute(
        &database,
        "set role bench; create table paid (n bigserial primary key, k int, other int, tenant int, name text, price numeric, at timestamptz, \
         made timestamptz default clock_timestamp()); create table item (k int, item int); \
         create table gone (k int primary key); insert into gone select generate_series(1, 6)",
    );
    let write = |name: &str, text: &str| drop(place.write(&format!("shop.workload/{name}"), text));
    write("workload.toml", MANIFEST);
    write("transactions/pay.sql", PAY);
    write("transactions/look.sql", "select count(*) from paid where n = :key;\n");
    write("transactions/drop.sql", "delete from gone where k = :gone;\n");
    write("transactions/fail.sql", "select 1 / 0;\n");
    write("statements.jsonl", "{}\n");
    let draws = |name: &str, text: &str| {
        let packed = zstd::encode_all(format!("pgdyno draws 1\n{text}").as_bytes(), 3).unwrap();
        fs::write(place.path(&format!("shop.workload/draws/{name}.zst")), packed).unwrap();
    };
    let pay = rows().into_iter().map(|(key, tenant, rounds)| {
        format!("{key}\t{tenant}\t{PERSONAL}-{key}\t{key}.5\t-{tenant}\t{rounds}\n")
    });
    draws(
        "pay",
        &format!(
            "k:int\ttenant:int\tname:text\tprice:decimal\tdt:int\titems_rounds:int\n{}",
            pay.collect::<String>()
        ),
    );
    let items = (0..).zip(rows()).flat_map(|(row, (key, _, rounds))| {
        (0..rounds).map(move |round| format!("{row}\t{}\n", key + round))
    });
    draws("pay.items", &format!("row:int\titem:int\n{}", items.collect::<String>()));
    draws("drop", &format!("k:int\n{}", (1..=N_DROPS).map(|key| format!("{key}\n")).collect::<String>()));
    write("workload.toml", &MANIFEST.replace("IDENTIFIER", "7"));
    (place, database)
}

fn run(place: &Place, pg: &Pg, database: &str, args: &str) -> Ended {
    let server = format!("host=127.0.0.1 port={} user=bench dbname={database}", pg.port);
    let quick = "--ramp-up 0s --repeats 1 --set prepare.settle=false --set prepare.prewarm=false";
    let mut command = vec!["run", "--server", &server];
    command.extend(args.split_whitespace().chain(quick.split(' ')));
    let mut command = place.command(&command);
    command.env("PGPASSWORD", PASSWORD);
    place.start(command).wait()
}

#[test]
fn what_was_captured_reaches_the_server_with_its_frequencies_and_correlations_at_its_rate() {
    // Its clients are as many as the directory wants, more than tests that share a server leave.
    let pg = Pg::start();
    let (place, database) = place(&pg);
    run(&place, &pg, &database, "-w ./shop.workload -o out --measure 10s --this-is-a-copy").expect(0);
    let out = place.first_run("out");
    expect_sound(&out);
    let load = out.record.load.as_ref().unwrap();
    assert_eq!((load.pace, load.n_clients), (Pace::Poisson { rate_per_s: 200.5 }, 16));
    let started = out.record.done.as_ref().unwrap().counts.started as f64;
    assert!((started - 2005.0).abs() < 5.0 * 2005f64.sqrt(), "{started} transactions of 2005");

    let mut admin = pg.admin(&database);
    let found = admin.query("select k, tenant, name, price, count(*), count(*) filter (where other <> k), \
                             count(*) filter (where abs(extract(epoch from at - made) + tenant) > 5) from paid group by 1, 2, 3, 4 order by 1");
    let found = found.unwrap();
    let number =
        |row: usize, column: usize| found.rows[row][column].as_deref().unwrap().parse::<i64>().unwrap();
    let mut counts: BTreeMap<i64, i64> = BTreeMap::new();
    rows().into_iter().for_each(|(key, ..)| *counts.entry(key).or_default() += 1);
    let n_paid: i64 = (0..found.len()).map(|row| number(row, 4)).sum();
    let n_near: i64 = (0..found.len()).map(|row| number(row, 5)).sum();
    let within = |n: i64, of: i64, p: f64| {
        let expected = of as f64 * p;
        (n as f64 - expected).abs() < 5.0 * (expected * (1.0 - p)).sqrt() + 1.0
    };
    assert_eq!(found.len(), counts.len(), "all keys were drawn, and no others");
    for row in 0..found.len() {
        let key = number(row, 0);
        let text = |column: usize| found.rows[row][column].clone().unwrap();
        assert_eq!(
            (number(row, 1), text(2), text(3)),
            (key % 9, format!("{PERSONAL}-{key}"), format!("{key}.5"))
        );
        assert_eq!(number(row, 6), 0, "the clock is that of now");
        assert!(
            within(number(row, 4), n_paid, counts[&key] as f64 / N_ROWS as f64),
            "{key}: {}",
            number(row, 4)
        );
    }
    assert!(within(n_near, n_paid, 0.2), "{n_near} of {n_paid}");
    assert!(within(n_paid, started as i64, 150.25 / 200.5), "{n_paid} of {started}");
    let captured: Vec<String> = counts.keys().map(i64::to_string).collect();
    let new = format!(
        "select count(*) from paid where other <> k and (other not between 1 and 5000 or other in ({}))",
        captured.join(",")
    );
    assert_eq!(pg.ask(&database, &new), "0", "a key that is near was never captured");
    // Each execution has the rounds of its row.
    assert_eq!(pg.ask(&database, "select count(*) from item where item not between k and k + 3"), "0");
    assert_eq!(pg.ask(&database, "select (select count(*) from item) = (select sum(k % 4) from paid)"), "t");
    expect_nowhere(&place.path("out"), PERSONAL);
    place.expect_clean();
}

/// Fails if a file of a directory has a text.
fn expect_nowhere(dir: &Path, text: &str) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            expect_nowhere(&path, text);
        } else {
            let bytes = fs::read(&path).unwrap();
            let is_there = bytes.windows(text.len()).any(|part| part == text.as_bytes());
            assert!(!is_there, "{} has captured values", path.display());
        }
    }
}

#[test]
fn the_captured_rate_is_multiplied_and_readers_run_alone_where_the_server_refuses_to_write() {
    let pg = Pg::shared();
    let (place, database) = place(&pg);
    pg.execute(&database, "insert into paid (k) select 0 from generate_series(1, 5000)");
    run(
        &place,
        &pg,
        &database,
        "-w ./shop.workload -o out -c 6 --measure 4s --pace x2 --only-reads --this-is-a-copy",
    )
    .expect(0);
    let out = place.first_run("out");
    assert_eq!(out.record.load.as_ref().unwrap().pace, Pace::Poisson { rate_per_s: 401.0 });
    let counts = out.record.done.as_ref().unwrap().counts;
    assert_eq!((counts.failed, counts.unknown), (0, 0));
    assert!(counts.expected > 900 && counts.committed > 250, "{counts:?}");
    assert_eq!(pg.ask(&database, "select count(*) from paid"), "5000");
    expect_found(&place, "out", &["left-out-by-reading"]);
    place.expect_clean();
}

#[test]
fn rows_that_run_out_and_errors_that_the_source_did_not_have_are_found() {
    let pg = Pg::shared();
    let (place, database) = place(&pg);
    run(&place, &pg, &database, "-w ./shop.workload:deleting -o out -c 6 --measure 3s --this-is-a-copy")
        .expect(0);
    let out = place.first_run("out");
    expect_sound(&out);
    assert_eq!(pg.ask(&database, "select count(*) from gone"), "0");
    expect_found(&place, "out", &["draws-reused"]);
    run(
        &place,
        &pg,
        &database,
        "-w ./shop.workload:failing -o failed -c 6 --measure 3s --pace 400/s --this-is-a-copy",
    );
    expect_found(&place, "failed", &["new-errors"]);
    place.expect_clean();
}

#[test]
fn a_captured_workload_stays_away_from_its_source_and_from_data_that_is_not_there() {
    let pg: Arc<Pg> = Pg::shared();
    let (place, database) = place(&pg);
    let identifier = pg.ask(&database, "select system_identifier from pg_control_system()");
    place.write("shop.workload/workload.toml", &MANIFEST.replace("IDENTIFIER", &identifier));
    let refused = run(&place, &pg, &database, "-w ./shop.workload -o out --measure 2s").expect(1);
    assert!(refused.stderr.contains("that workload `shop` was captured from"), "{}", refused.stderr);
    assert!(refused.stderr.contains("--this-is-a-copy"), "{}", refused.stderr);
    run(&place, &pg, &database, "-w ./shop.workload -o copy -c 6 --measure 2s --this-is-a-copy").expect(0);

    pg.execute(&database, "alter table paid drop column tenant");
    let refused =
        run(&place, &pg, &database, "-w ./shop.workload -o out --measure 2s --this-is-a-copy").expect(1);
    assert!(refused.stderr.contains("tenant"), "{}", refused.stderr);
    let own = place.run(&["run", "-w", "./shop.workload", "-o", "own"]).expect(1);
    assert!(own.stderr.contains("is for data that is there"), "{}", own.stderr);
    place.expect_clean();
}
