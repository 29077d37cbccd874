//! What scripts do: the same seed gives the same parameters in every protocol, weights, sleeps, paces, large replies.

use model::load::drive::LoadEnding;
use model::load::{Pace, Protocol, Window};
use testbed::{Pg, run};

use crate::order::{Driving, drive, load, script};

const PROTOCOLS: [Protocol; 3] = [Protocol::Simple, Protocol::Extended, Protocol::Prepared];

/// Rows of a query as text.
fn rows(pg: &Pg, database: &str, sql: &str) -> Vec<String> {
    let rows = pg.admin(database).query(sql).unwrap();
    rows.rows
        .iter()
        .map(|row| row.iter().map(|v| v.as_deref().unwrap_or("null")).collect::<Vec<_>>().join(" "))
        .collect()
}

#[test]
fn the_same_seed_commits_the_same_in_every_protocol_and_in_pgbench() {
    let pg = Pg::shared();
    let database = pg.database();
    run(pg.client("pgbench", &database).args(["-i", "-q", "-s", "1"]));
    let history = || {
        let found = rows(&pg, &database, "select tid, bid, aid, delta from pgbench_history order by ctid");
        pg.admin(&database).execute("truncate pgbench_history").unwrap();
        found
    };
    run(pg.client("pgbench", &database).args(["-n", "-c", "1", "-t", "300", "--random-seed=42"]));
    let expected = history();
    assert_eq!(expected.len(), 300);
    for protocol in PROTOCOLS {
        let mut load = load(&pg.socket(&database), workload::TpcbScript::Tpcb.source());
        load.protocol = protocol;
        let story = drive(load);
        let found = history();
        assert_eq!(story.done.counts.committed, found.len() as u64, "{protocol:?}");
        let n = found.len().min(expected.len());
        assert!(n >= 50, "{n} rows");
        assert_eq!(found[..n], expected[..n], "{protocol:?}");
    }
}

#[test]
fn each_client_has_its_own_stream_whatever_the_protocol() {
    let pg = Pg::shared();
    let database = pg.database();
    pg.admin(&database).execute("create table drawn (n serial, client int, a int, b int)").unwrap();
    let source = "\\set a random(1, 1000000)\n\\set b random_zipfian(1, 1000, 1.5)\n\
                  insert into drawn (client, a, b) values (:client_id, :a, :b);\n";
    let mut first: Option<Vec<Vec<String>>> = None;
    for protocol in PROTOCOLS {
        let mut load = load(&pg.socket(&database), source);
        (load.protocol, load.n_clients, load.n_threads) = (protocol, 5, 2);
        let story = drive(load);
        assert_eq!(story.done.measured_by_client.len(), 5);
        let of = |client: usize| {
            rows(&pg, &database, &format!("select a, b from drawn where client = {client} order by n"))
        };
        let drawn: Vec<Vec<String>> = (0..5).map(of).collect();
        assert_eq!(story.done.counts.committed, drawn.iter().map(|rows| rows.len() as u64).sum::<u64>());
        assert_ne!(drawn[0][..10], drawn[1][..10]);
        if let Some(first) = &first {
            for (mine, theirs) in drawn.iter().zip(first) {
                let n = mine.len().min(theirs.len());
                assert!(n >= 10, "{n}");
                assert_eq!(mine[..n], theirs[..n], "{protocol:?}");
            }
        }
        first.get_or_insert(drawn);
        pg.admin(&database).execute("truncate drawn").unwrap();
    }
}

#[test]
fn scripts_are_chosen_by_weight_and_counted_apart() {
    let pg = Pg::shared();
    let mut load = load(&pg.socket("postgres"), "");
    load.scripts = vec![
        script("often", 3, "select 1;"),
        script("seldom", 1, "select 2;\nselect 3;"),
        script("never", 0, "select 4;"),
    ];
    let story = drive(load);
    let committed = |script: u32| -> u64 {
        story.intervals.iter().filter(|i| i.script == script).map(|i| i.counts.committed).sum()
    };
    let (often, seldom) = (committed(0) as f64, committed(1) as f64);
    let n = often + seldom;
    // Five standard deviations of a binomial share.
    let tolerance = 5.0 * (0.25 * 0.75 / n).sqrt();
    assert!(n > 500.0 && (seldom / n - 0.25).abs() < tolerance, "{often} {seldom}");
    assert_eq!(committed(2), 0);
    for interval in story.intervals.iter().filter(|i| i.script == 1) {
        let n = &interval.statements;
        // One may be on each side of an end of an interval.
        assert!(n.len() == 2 && n[0].abs_diff(n[1]) <= 1, "{n:?}");
    }
}

#[test]
fn sleeps_are_kept() {
    let pg = Pg::shared();
    let mut load = load(&pg.socket("postgres"), "select 1;\n\\sleep 20 ms\nselect 2;\n");
    load.n_clients = 3;
    let story = drive(load);
    let (committed, ..) = story.outcomes();
    assert!((60..=150).contains(&committed), "{committed} in 1 s by 3 clients that sleep 20 ms");
}

#[test]
fn an_open_loop_offers_what_the_schedule_says() {
    let pg = Pg::shared();
    let mut load = load(&pg.socket("postgres"), "select 1;");
    (load.n_clients, load.n_threads) = (4, 2);
    load.pace = Pace::Constant { rate_per_s: 300.0 };
    load.window.measure_s = 2;
    let counts = drive(load.clone()).done.counts;
    assert_eq!(counts.due, 600);
    assert_eq!((counts.started + counts.skipped, counts.committed), (600, counts.started), "{counts:?}");
    // A busy machine sends the last ones too late.
    assert!(counts.skipped <= 60, "{counts:?}");

    // Clients that are too slow: what was due and never sent is counted, not forgotten.
    load.scripts[0].source = "select pg_sleep(0.1);".to_string();
    let counts = drive(load).done.counts;
    assert_eq!(counts.due, 600);
    assert!((60..=84).contains(&counts.committed) && counts.skipped >= 500, "{counts:?}");
}

#[test]
fn large_replies_and_many_rows_are_read_to_their_end() {
    let pg = Pg::shared();
    for source in [
        "select repeat('x', 1000000);",
        "select generate_series(1, 20000);",
        "select 1; select 2 \\; select 3;",
    ] {
        for protocol in PROTOCOLS {
            if source.contains("\\;") && protocol != Protocol::Simple {
                continue;
            }
            let mut load = load(&pg.socket("postgres"), source);
            (load.protocol, load.n_clients) = (protocol, 2);
            let story = drive(load);
            assert_eq!(story.done.ending, LoadEnding::Completed);
            assert!(
                story.outcomes().0 > 10 && story.outcomes().1 == 0,
                "{source} {protocol:?} {:?}",
                story.done
            );
        }
    }
}

#[test]
fn scripts_that_no_driver_can_run_are_refused_before_the_load() {
    let pg = Pg::shared();
    let refused = |protocol: Protocol, source: &str| {
        let mut load = load(&pg.socket("postgres"), source);
        load.protocol = protocol;
        Driving::start(load).failure()
    };
    let check = |protocol: Protocol, source: &str, expected: &[&str]| {
        let message = refused(protocol, source);
        for part in expected {
            assert!(message.contains(part), "{message}\nexpected: {part}");
        }
    };
    for protocol in [Protocol::Extended, Protocol::Prepared] {
        check(
            protocol,
            "select 1;\n\nselect * from acounts;\n",
            &["q.sql:3:", "42P01", "\"acounts\"", "nothing was run"],
        );
        check(protocol, "select 1;\nselct 2;\n", &["q.sql:2:", "42601"]);
    }
    for protocol in PROTOCOLS {
        check(protocol, "\\set a 1 +\nselect :a;", &["q.sql:1:"]);
        check(protocol, "select 1;\n\\set a randm(1, 2)\n", &["q.sql:2:", "randm"]);
        check(protocol, "\\if 1\nselect 1;\n", &["q.sql", "\\if"]);
        check(protocol, "-- nothing\n", &["q.sql"]);
    }
    let message = Driving::start_with("{\"load\": 1}").failure();
    assert!(message.contains("the order is not understood"), "{message}");
    let mut newer = load(&pg.socket("postgres"), "select 1;");
    newer.format = model::FORMAT + 1;
    let message = Driving::start(newer).failure();
    assert!(message.contains("the order has format"), "{message}");
    // A server of its own: the other tests need connections of the shared one.
    let full = Pg::start();
    let mut crowd = load(&full.socket("postgres"), "select 1;");
    (crowd.n_clients, crowd.window) = (100, Window { ramp_up_s: 0, measure_s: 1, grace_s: 0 });
    let message = Driving::start(crowd).failure();
    assert!(message.contains("client ") && message.contains("too many clients already"), "{message}");
}
