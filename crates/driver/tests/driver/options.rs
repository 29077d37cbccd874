//! Options: numbers of transactions, retries, limits, connections, timed commands.

use std::time::Duration;

use model::load::interval::Moments;
use model::load::{LoadSpec, OnDisconnect, OnError, Protocol, Window};
use model::telemetry::event::EventKind;

use crate::cluster::Cluster;
use crate::driven::{drive, load};

#[test]
fn each_client_makes_its_transactions() {
    let cluster = Cluster::shared();
    let mut spec = load(&cluster.conninfo(), &["SELECT 1;", "SELECT 2;\n\\sleep 1 ms"], 25);
    (spec.n_clients, spec.n_threads) = (5, 2);
    let driven = drive(spec.clone());
    assert_eq!((driven.done.counts.committed, driven.done.measured_by_client), (125, vec![25; 5]));
    let n: Vec<u64> = (0..2)
        .map(|script| driven.intervals.iter().filter(|i| i.script == script).map(|i| i.latency.n).sum())
        .collect();
    assert!(n[0] > 0 && n[1] > 0 && n[0] + n[1] == 125, "{n:?}");
    // Scripts that send nothing.
    spec.scripts.truncate(1);
    spec.scripts[0].source = "\\set x 1".into();
    spec.transactions_per_client = Some(10_000);
    assert_eq!(drive(spec).done.counts.committed, 50_000);
}

#[test]
fn moments_agree_with_the_counts() {
    let cluster = Cluster::shared();
    let mut spec = load(&cluster.conninfo(), &["\\sleep 5 ms\nSELECT 1;"], 40);
    spec.pace = "100/s".parse().unwrap();
    let driven = drive(spec);
    let latency = driven.latency();
    assert_eq!((latency.n, driven.done.counts.committed), (40, 40));
    assert!(latency.min >= 5e6 && latency.mean() >= latency.min && latency.max >= latency.mean());
    assert!(latency.sd() <= latency.max - latency.min);
    assert_eq!(driven.intervals.iter().map(|i| i.lag.n).sum::<u64>(), 40);
}

#[test]
fn lag_is_that_of_committed_transactions() {
    let cluster = Cluster::shared();
    // One in four commits. One client takes 20 ms for each, and one is due every 10 ms.
    let source = "\\set n :n + 1\n\\sleep 20 ms\n\\if :n % 4\nSELECT 1 / (:n % 4 - :n % 4);\n\\endif";
    let mut spec = load(&cluster.conninfo(), &[source], 20);
    spec.defines.insert("n".into(), "0".into());
    (spec.pace, spec.on_error, spec.n_clients) = ("constant 100/s".parse().unwrap(), OnError::Continue, 1);
    let driven = drive(spec);
    let counts = driven.done.counts;
    let lag = driven.intervals.iter().fold(Moments::default(), |mut sum, interval| {
        sum += interval.lag;
        sum
    });
    assert_eq!((counts.committed, counts.failed, lag.n), (5, 15, 5), "{counts:?}");
    // The first to commit is the fourth: it is due after 30 ms, and starts after three times 20 ms.
    assert!(lag.min >= 25e6 && lag.max <= driven.latency().max, "{lag:?}");
}

/// Two clients that collide: each takes both rows, in opposite orders.
fn deadlocking(cluster: &Cluster) -> LoadSpec {
    cluster
        .session()
        .execute("drop table if exists pair; create table pair as select g as i, 0 as n from generate_series(0, 1) g")
        .unwrap();
    let script = "\\set r random(1, 1000000000)\nBEGIN;\n\
                  UPDATE pair SET n = n + 1 WHERE i = :client_id;\n\\sleep 5 ms\n\
                  UPDATE pair SET n = n + 1 WHERE i = 1 - :client_id;\nSELECT debug_line(:r);\nEND;";
    let mut spec =
        load(&cluster.conninfo(), &[&script.replace("SELECT debug_line(:r);", "\\set x debug(:r)")], 5);
    (spec.n_clients, spec.n_threads, spec.time_commands, spec.verbose_errors) = (2, 2, true, true);
    spec
}

#[test]
fn deadlocks_are_tried_again_with_the_same_random_numbers() {
    let cluster = Cluster::start();
    let mut spec = deadlocking(&cluster);
    spec.max_tries = 0;
    let driven = drive(spec.clone());
    let counts = driven.done.counts;
    assert_eq!((counts.committed, counts.failed, counts.started), (10, 0, 10));
    assert!(counts.retries >= 1 && counts.retried >= 1 && counts.retried <= counts.retries, "{counts:?}");
    let commands = driven.commands(0);
    assert_eq!(commands.iter().map(|c| c.retries).sum::<u64>(), counts.retries);
    assert_eq!((commands[6].n, commands[6].failed), (10, 0));
    assert!(commands[3].sum_ns >= 10.0 * 5e6, "the sleeps are timed");
    assert_eq!(driven.texts(EventKind::ErrorRetried).len() as u64, counts.retries);
    let first = &driven.texts(EventKind::ErrorReported)[0];
    assert!(
        first.contains(" got an error in command ") && first.contains("(SQL) of script 0; ERROR:  deadlock"),
        "{first}"
    );
    let total = cluster.session().query("select sum(n) from pair").unwrap().scalar().unwrap().to_owned();
    assert_eq!(total, "20");
    // The values are those of a load without any deadlock.
    let mut seen = driven.texts(EventKind::ScriptDebug);
    (spec.max_tries, spec.scripts[0].source) = (1, "\\set r random(1, 1000000000)\n\\set y debug(:r)".into());
    let mut undisturbed = drive(spec).texts(EventKind::ScriptDebug);
    for lines in [&mut seen, &mut undisturbed] {
        lines.iter_mut().for_each(|line| *line = line.rsplit_once(' ').unwrap().1.to_string());
        lines.sort();
    }
    assert_eq!(seen, undisturbed);
}

#[test]
fn deadlocks_fail_when_no_try_is_left() {
    let cluster = Cluster::start();
    let mut spec = deadlocking(&cluster);
    (spec.max_tries, spec.latency_limit_ns) = (1, Some(3_600_000_000_000));
    let driven = drive(spec);
    let counts = driven.done.counts;
    assert_eq!(counts.committed + counts.failed, 10);
    assert!(counts.failed > 0 && driven.done.errors["40P01"] == counts.failed, "{counts:?}");
    assert_eq!((counts.retries, counts.retried, driven.done.clients_lost), (0, 0, 0));
    let texts = driven.texts(EventKind::ErrorFailed);
    assert_eq!(texts.len() as u64, counts.failed);
    assert!(texts[0].contains(" ends the failed transaction (try 1/1, 0.00"), "{}", texts[0]);
}

#[test]
fn a_pipeline_that_fails_is_tried_again() {
    let cluster = Cluster::start();
    cluster.session().execute("create table once (n int); insert into once values (0)").unwrap();
    // The first try of each transaction fails; what it did is rolled back, but not the sequence.
    cluster
        .session()
        .execute(
            "create sequence tries; create function fail_first() returns int language plpgsql as
             $$ begin if nextval('tries') % 2 = 1 then raise sqlstate '40001'; end if; return 1; end $$",
        )
        .unwrap();
    for protocol in [Protocol::Extended, Protocol::Prepared] {
        let source =
            "\\startpipeline\nBEGIN;\nUPDATE once SET n = n + 1;\nSELECT fail_first();\nEND;\n\\endpipeline";
        let mut spec = load(&cluster.conninfo(), &[source], 4);
        (spec.max_tries, spec.protocol, spec.time_commands) = (3, protocol, true);
        let driven = drive(spec);
        let counts = driven.done.counts;
        assert_eq!((counts.committed, counts.retries, counts.failed), (4, 4, 0), "{:?}", driven.events);
        assert_eq!(driven.commands(0)[5].retries, 4, "\\endpipeline finds the error");
    }
    assert_eq!(cluster.session().query("select n from once").unwrap().scalar(), Some("8"));
}

#[test]
fn slots_later_than_the_limit_are_skipped() {
    let cluster = Cluster::shared();
    let mut spec = load(&cluster.conninfo(), &["\\sleep 30 ms"], 1);
    spec.transactions_per_client = None;
    (spec.pace, spec.latency_limit_ns) = ("constant 200/s".parse().unwrap(), Some(20_000_000));
    spec.window = Window { ramp_up_s: 0, measure_s: 1, grace_s: 1 };
    let counts = drive(spec.clone()).done.counts;
    assert_eq!((counts.due, counts.late), (200, counts.committed), "{counts:?}");
    assert!((25..=34).contains(&counts.committed) && counts.skipped == 200 - counts.committed, "{counts:?}");
    // The limit is long: nothing is skipped by a client, and slots that it never reached are counted separately.
    spec.latency_limit_ns = Some(60_000_000_000);
    let done = drive(spec.clone()).done;
    assert_eq!((done.backlog, done.counts.skipped), (200 - done.counts.committed, done.backlog));
    assert!(done.backlog > 100, "{done:?}");
    spec.latency_limit_ns = Some(20_000_000);
    // Skipped slots count as transactions of the client.
    (spec.transactions_per_client, spec.window.measure_s) = (Some(60), 0);
    let counts = drive(spec).done.counts;
    assert_eq!(counts.due, 60, "{counts:?}");
    assert!(counts.skipped > 30 && counts.committed >= 5, "{counts:?}");
}

#[test]
fn a_slot_that_found_its_client_waiting_is_not_skipped() {
    let cluster = Cluster::shared();
    // A client for each slot: one waits for it, however long the machine stalls.
    let mut spec = load(&cluster.conninfo(), &["SELECT 1;"], 1);
    (spec.n_clients, spec.transactions_per_client) = (15, None);
    // No thread wakes up within a nanosecond.
    (spec.pace, spec.latency_limit_ns) = ("constant 15/s".parse().unwrap(), Some(1));
    spec.window = Window { ramp_up_s: 0, measure_s: 1, grace_s: 5 };
    let done = drive(spec).done;
    let counts = done.counts;
    assert_eq!((counts.due, counts.skipped), (15, done.backlog), "{counts:?}");
    assert!(done.backlog < 10 && counts.late == counts.committed, "{done:?}");
}

#[test]
fn each_transaction_may_have_its_own_connection() {
    let cluster = Cluster::shared();
    for (protocol, pace) in [(Protocol::Simple, "closed"), (Protocol::Prepared, "300/s")] {
        let source = "\\set a 1\nSELECT pg_backend_pid() AS p, :a AS a \\gset\n\\set x debug(:p)";
        let mut spec = load(&cluster.conninfo(), &[source], 10);
        (spec.connect_each, spec.n_clients, spec.protocol) = (true, 3, protocol);
        spec.pace = pace.parse().unwrap();
        let driven = drive(spec);
        let mut pids = driven.texts(EventKind::ScriptDebug);
        pids.sort();
        pids.dedup();
        assert_eq!((pids.len(), driven.done.n_connects, driven.done.counts.committed), (30, 30, 30));
        let mean_ns = driven.done.connect_ns_total / 30.0;
        assert!((5e4..1e9).contains(&mean_ns), "{mean_ns}");
    }
    let mut spec = load(&cluster.conninfo(), &["SELECT 1;"], 10);
    spec.connect_each = true;
    spec.target.insert("dbname".into(), "missing".into());
    let driven = drive(spec);
    let texts = driven.texts(EventKind::ClientAborted);
    assert!(texts[0].ends_with("| client 0 aborted while establishing connection"), "{texts:?}");
    assert_eq!((driven.done.counts.due, driven.done.clients_lost), (0, 1));
}

#[test]
fn clients_connect_again_after_a_restart() {
    let cluster = Cluster::start();
    let mut spec = load(&cluster.conninfo(), &["SELECT 1;\n\\sleep 1 ms"], 1);
    (spec.transactions_per_client, spec.n_clients) = (None, 4);
    (spec.on_disconnect, spec.on_error, spec.protocol) =
        (OnDisconnect::Reconnect, OnError::Continue, Protocol::Prepared);
    spec.time_commands = true;
    spec.window = Window { ramp_up_s: 0, measure_s: 4, grace_s: 1 };
    let driven = std::thread::scope(|scope| {
        let load = scope.spawn(|| drive(spec.clone()));
        std::thread::sleep(Duration::from_millis(800));
        cluster.restart(Duration::from_millis(700));
        load.join().unwrap()
    });
    assert_eq!(driven.texts(EventKind::ConnectionLost).len(), 4);
    let restored: Vec<f64> = driven
        .events
        .iter()
        .filter(|event| event.kind == EventKind::ConnectionRestored)
        .map(|event| event.number("outage_s").unwrap())
        .collect();
    assert!(restored.len() == 4 && restored.iter().all(|s| (0.5..3.0).contains(s)), "{restored:?}");
    assert_eq!((driven.done.clients_lost, driven.done.n_connects), (0, 4));
    assert!((driven.done.outage_ns_total / 1e9 - restored.iter().sum::<f64>()).abs() < 0.1);
    let last = driven.intervals.iter().find(|interval| interval.t == 3).unwrap();
    assert!(last.counts.committed > 100, "{:?}", last.counts);
    // A command fails with its transaction; if the outcome is unknown, it does not count.
    let failed: u64 = driven.intervals.iter().flat_map(|i| &i.commands).map(|command| command.failed).sum();
    assert_eq!(failed, driven.done.counts.failed, "{:?}", driven.done);
    // Without `Reconnect`, every client ends.
    spec.on_disconnect = OnDisconnect::EndClient;
    let driven = std::thread::scope(|scope| {
        let load = scope.spawn(|| drive(spec.clone()));
        std::thread::sleep(Duration::from_millis(500));
        cluster.restart(Duration::ZERO);
        load.join().unwrap()
    });
    assert_eq!((driven.done.clients_lost, driven.texts(EventKind::ClientAborted).len()), (4, 4));
}

#[test]
fn a_load_without_an_end_is_refused() {
    let cluster = Cluster::shared();
    let mut spec = load(&cluster.conninfo(), &["SELECT 1;"], 1);
    spec.transactions_per_client = None;
    let error = crate::driven::try_drive(spec).err();
    assert_eq!(error.as_deref(), Some("the load has no end: give it a time or a number of transactions"));
}
