//! Both pollers behave alike: big results, many clients, connections made and lost while the load runs.

use std::collections::BTreeSet;
use std::time::Duration;

use model::load::drive::DriveCommand;
use model::load::{LoadSpec, OnDisconnect, PollerChoice, Protocol, ReadTarget, Turns, Window};
use model::telemetry::event::EventKind;
use wire::Session;

use crate::cluster::Cluster;
use crate::driven::{Driven, drive, load, try_drive, try_drive_with};
use crate::logs::{lines, logged};

/// Runs the load with each poller. Without io_uring in the kernel, asking for it must fail.
fn with_each(spec: &LoadSpec, check: impl Fn(&Driven)) {
    for (choice, name) in [(PollerChoice::Epoll, "epoll"), (PollerChoice::IoUring, "io_uring")] {
        match try_drive(LoadSpec { poller: choice, ..spec.clone() }) {
            Ok(driven) => {
                assert_eq!(driven.ready.poller, name);
                check(&driven);
            }
            Err(message) => assert!(
                choice == PollerChoice::IoUring && message.contains("does not let this process use io_uring"),
                "{message}"
            ),
        }
    }
}

#[test]
fn results_and_messages_of_any_size_come_through() {
    let cluster = Cluster::shared();
    let long_reply = "SELECT repeat('x', 1000) FROM generate_series(1, 3000);";
    let long_message = format!("SELECT length('{}');", "y".repeat(5_000_000));
    let medium_message = format!("SELECT length('{}');", "z".repeat(4090));
    for protocol in [Protocol::Simple, Protocol::Prepared] {
        let mut spec = load(&cluster.conninfo(), &[long_reply, &long_message, &medium_message], 12);
        (spec.n_clients, spec.protocol) = (6, protocol);
        with_each(&spec, |driven| {
            assert_eq!((driven.done.counts.committed, driven.done.clients_lost), (72, 0));
        });
    }
}

#[test]
fn more_clients_than_buffers_starve_nobody() {
    let cluster = Cluster::shared();
    // Each reply needs several of the kernel's buffers, and there is only one per client.
    let mut spec = load(&cluster.conninfo(), &["SELECT repeat('x', 900) FROM generate_series(1, 400);"], 30);
    (spec.n_clients, spec.n_threads, spec.protocol) = (40, 1, Protocol::Extended);
    with_each(&spec, |driven| {
        assert_eq!(driven.done.counts.committed, 40 * 30);
        assert_eq!(driven.done.measured_by_client, vec![30; 40]);
    });
}

#[test]
fn long_pipelines_keep_their_order() {
    let cluster = Cluster::shared();
    let select = format!("SELECT length('{}') AS n;\n", "p".repeat(3000));
    let script = format!("\\startpipeline\n{}\\endpipeline\n", select.repeat(60));
    let mut spec = load(&cluster.conninfo(), &[&script], 5);
    (spec.n_clients, spec.protocol) = (4, Protocol::Extended);
    with_each(&spec, |driven| {
        assert_eq!((driven.done.counts.committed, driven.done.clients_lost), (20, 0));
        assert_eq!(driven.statements(), vec![20; 60]);
    });
}

#[test]
fn sessions_report_their_settings_after_the_load_if_they_are_asked() {
    let cluster = Cluster::shared();
    let mut spec = load(&cluster.conninfo(), &["SELECT set_config('work_mem', '5MB', false);"], 3);
    (spec.n_clients, spec.n_threads) = (5, 2);
    assert_eq!(drive(spec.clone()).done.sessions, None);
    spec.ask_settings = true;
    let timed = Window { ramp_up_s: 0, measure_s: 1, grace_s: 5 };
    for spec in [spec.clone(), LoadSpec { window: timed, transactions_per_client: None, ..spec }] {
        with_each(&spec, |driven| {
            let sessions = driven.done.sessions.as_ref().unwrap();
            let found: Vec<_> =
                sessions.values("work_mem").map(|s| (s.value.as_str(), s.source.as_str(), s.n)).collect();
            assert_eq!((sessions.n_answered, found), (2, vec![("5MB", "session", 2)]), "{sessions:?}");
            assert!(driven.done.counts.committed >= 15 && driven.done.clients_lost == 0);
        });
    }
}

#[test]
fn each_transaction_can_have_a_connection_of_its_own() {
    let cluster = Cluster::shared();
    let mut spec = load(&cluster.conninfo(), &["SELECT 1;", "SELECT 2;"], 20);
    (spec.n_clients, spec.connect_each) = (3, true);
    with_each(&spec, |driven| assert_eq!((driven.done.counts.committed, driven.done.clients_lost), (60, 0)));
}

#[test]
fn lost_connections_are_replaced_and_old_input_is_not_mistaken_for_new() {
    let cluster = Cluster::start();
    // Every client kills itself in one of eight transactions.
    let script = "\\set dies random(1, 8)\nSELECT 1;\n\\if :dies = 1\n\
                  SELECT pg_terminate_backend(pg_backend_pid());\n\\endif\nSELECT 2;\n";
    let mut spec = load(&cluster.conninfo(), &[script], 20);
    (spec.n_clients, spec.protocol, spec.on_disconnect) = (8, Protocol::Simple, OnDisconnect::Reconnect);
    spec.window = Window { ramp_up_s: 0, measure_s: 60, grace_s: 5 };
    with_each(&spec, |driven| {
        let counts = &driven.done.counts;
        assert_eq!(counts.committed + counts.failed + counts.unknown, 160, "{counts:?}");
        assert!(counts.failed + counts.unknown > 0, "{counts:?}");
        let messages = driven.texts(EventKind::ConnectionLost);
        assert!(messages.iter().all(|m| m.contains("terminating connection")), "{messages:?}");
    });
}

#[test]
fn an_open_loop_is_on_time() {
    let cluster = Cluster::shared();
    let mut spec = load(&cluster.conninfo(), &["SELECT 1;"], 1);
    spec.transactions_per_client = None;
    spec.window = Window { ramp_up_s: 0, measure_s: 2, grace_s: 5 };
    (spec.n_clients, spec.pace) = (4, "500/s".parse().unwrap());
    with_each(&spec, |driven| {
        let counts = &driven.done.counts;
        // Slots that are due as the load ends may be skipped on a busy machine.
        assert_eq!(counts.committed + counts.skipped, counts.due);
        // Five standard deviations of a Poisson count.
        assert!(counts.due.abs_diff(1000) < 160, "{counts:?}");
        let lag: Duration = Duration::from_nanos(driven.latency().min as u64);
        assert!(lag < Duration::from_millis(50), "{lag:?}");
    });
}

/// A closed loop, a rate that the one client cannot keep, and one that it can: slots that waited under the second are
/// skipped, so the third has nothing to catch up with.
#[test]
fn the_rate_of_a_search_can_be_changed() {
    let cluster = Cluster::shared();
    let mut spec = load(&cluster.conninfo(), &["SELECT pg_sleep(0.01);"], 1);
    spec.transactions_per_client = None;
    spec.window = Window { ramp_up_s: 1, measure_s: 4, grace_s: 5 };
    (spec.n_clients, spec.pace) = (1, "max with p95 <= 300ms".parse().unwrap());
    let at = |ms: u64, rate: f64| (Duration::from_millis(ms), DriveCommand::Rate(rate));
    let driven = try_drive_with(spec, &[at(1000, 1000.0), at(3000, 20.0)]).unwrap();
    let counts = |t: u32| driven.intervals.iter().find(|interval| interval.t == t).unwrap().counts;
    assert!(counts(0).committed > 20 && counts(0).late * 10 < counts(0).committed, "{:?}", counts(0));
    assert!(counts(2).late * 10 > counts(2).committed * 9, "{:?}", counts(2));
    let skipped = driven.done.counts.skipped;
    assert!((1000..2500).contains(&skipped), "about 900 of each second at 1000/s: {skipped}");
    // Five standard deviations of a Poisson count of 20.
    assert!(counts(4).started < 45 && counts(4).late * 2 < counts(4).committed, "{:?}", counts(4));
}

#[test]
fn a_driver_that_stays_awake_counts_the_same_and_says_what_it_spent() {
    let cluster = Cluster::shared();
    cluster.session().execute("create table seen (id int)").unwrap();
    let mut spec = load(&cluster.conninfo(), &["INSERT INTO seen VALUES (1);"], 1);
    spec.transactions_per_client = None;
    spec.window = Window { ramp_up_s: 0, measure_s: 2, grace_s: 5 };
    // Longer than the gaps: it never sleeps.
    (spec.n_clients, spec.pace, spec.busy_poll_us) = (2, "constant 200/s".parse().unwrap(), 20_000);
    with_each(&spec, |driven| {
        let counts = &driven.done.counts;
        assert_eq!((counts.committed + counts.skipped, counts.due), (400, 400));
        let of = |name: &str| driven.ticks.iter().filter_map(|tick| tick.values.get(name)).sum::<f64>();
        let (cpu, polling) = (of("driver.thread_cpu[0]"), of("driver.thread_polling[0]"));
        // Its rehearsals do not reach the server.
        assert!(driven.ready.rehearses);
        let mut session = cluster.session();
        let rows = session.query("select count(*) from seen").unwrap();
        assert_eq!(rows.scalar(), Some(counts.committed.to_string().as_str()));
        session.execute("truncate seen").unwrap();
        // Time passes too while others have the processor; CPU time does not.
        assert!(polling > 1.0 && polling <= 2.1 && cpu > 0.1, "{polling} s of polling, {cpu} s of CPU");
    });
}

#[test]
fn a_load_begins_transactions_only_in_its_own_turns() {
    let cluster = Cluster::shared();
    let mut spec = load(&cluster.conninfo(), &["SELECT 1;"], 1);
    spec.transactions_per_client = None;
    spec.window = Window { ramp_up_s: 0, measure_s: 2, grace_s: 5 };
    (spec.n_clients, spec.protocol) = (2, Protocol::Prepared);
    spec.turns = Some(Turns { slice_ns: 250_000_000, guard_ns: 50_000_000, slices: "01100100".into() });
    let log = logged(&mut spec, 0, 1.0);
    with_each(&spec, |driven| {
        let committed = &driven.done.committed_by_slice;
        let ours: Vec<bool> = committed.iter().map(|n| *n > 0).collect();
        assert_eq!(ours, [false, true, true, false, false, true, false, false], "{committed:?}");
        // Commits within guards are in the total, but in no slice.
        assert!(driven.done.counts.committed > committed.iter().sum(), "{committed:?}");
        let go_us = (driven.intervals[0].start_unix_ns / 1000) as f64;
        let texts = lines(&log, "log.77");
        assert!(texts.len() > 10, "{texts:?}");
        for line in texts {
            let fields: Vec<f64> = line.split(' ').map(|field| field.parse().unwrap()).collect();
            // Both its end and its latency are rounded to microseconds.
            let begun_s = (fields[4] * 1e6 + fields[5] - fields[2] - go_us) / 1e6;
            let is_ours = |from_s, to_s| begun_s >= from_s - 2e-6 && begun_s < to_s + 2e-6;
            assert!(is_ours(0.25, 0.75) || is_ours(1.25, 1.5), "a transaction begun at {begun_s} s");
        }
    });
}

#[test]
fn a_lost_connection_ends_only_its_client() {
    let cluster = Cluster::start();
    let script = "\\if :client_id = 0\nSELECT pg_terminate_backend(pg_backend_pid());\n\\endif\nSELECT 1;\n";
    let mut spec = load(&cluster.conninfo(), &[script], 10);
    (spec.n_clients, spec.protocol) = (3, Protocol::Simple);
    with_each(&spec, |driven| {
        assert_eq!((driven.done.counts.committed, driven.done.clients_lost), (20, 1));
        let texts = driven.texts(EventKind::ClientAborted);
        assert!(texts.len() == 1 && texts[0].contains("terminating connection"), "{texts:?}");
    });
}

/// A load of which `s1` reads from another database, as it would from a standby.
fn with_reads(cluster: &Cluster, scripts: &[&str], n: u64) -> LoadSpec {
    let reads =
        ReadTarget { target: cluster.socket("reads").keywords(), scripts: BTreeSet::from(["s1".into()]) };
    LoadSpec { reads: Some(reads), ..load(&cluster.conninfo(), scripts, n) }
}

#[test]
fn transactions_that_read_go_over_a_connection_of_their_own() {
    let cluster = Cluster::start();
    cluster.session().execute("create database reads").unwrap();
    let sessions = || [cluster.session(), Session::connect(&cluster.socket("reads")).unwrap()];
    for mut session in sessions() {
        session.execute("create table seen (script int)").unwrap();
    }
    let scripts = ["INSERT INTO seen VALUES (0);", "BEGIN;\nINSERT INTO seen VALUES (1);\nEND;"];
    for (protocol, connect_each) in
        [(Protocol::Simple, false), (Protocol::Prepared, false), (Protocol::Extended, true)]
    {
        let mut spec = with_reads(&cluster, &scripts, 40);
        (spec.n_clients, spec.protocol, spec.connect_each) = (3, protocol, connect_each);
        (spec.ask_settings, spec.lazy_parse) = (true, false);
        with_each(&spec, |driven| {
            assert_eq!((driven.done.counts.committed, driven.done.clients_lost), (120, 0));
            let n_connections = if connect_each { 0 } else { 6 };
            assert_eq!(driven.ready.backend_pids.len(), n_connections);
            let seen = sessions().each_mut().map(|session| {
                let rows = session.query("delete from seen returning script").unwrap();
                rows.rows.iter().map(|row| row[0].clone().unwrap()).collect::<Vec<_>>()
            });
            assert!(seen[0].iter().all(|script| script == "0") && seen[1].iter().all(|script| script == "1"));
            assert_eq!(seen[0].len() + seen[1].len(), 120);
            assert!(seen[0].len().abs_diff(seen[1].len()) < 60, "{} and {}", seen[0].len(), seen[1].len());
        });
    }
}

#[test]
fn a_connection_that_is_lost_while_it_rests_is_missed_when_it_is_needed() {
    let cluster = Cluster::start();
    cluster.session().execute("create database reads").unwrap();
    let ends_other =
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'reads';\n\\sleep 20 ms\n";
    let mut spec = with_reads(&cluster, &[ends_other, "SELECT 1;"], 20);
    let is_said = |driven: &Driven| {
        let texts = driven.texts(EventKind::ConnectionLost);
        assert!(
            !texts.is_empty() && texts.iter().all(|text| text.contains("terminating connection")),
            "{texts:?}"
        );
    };
    with_each(&spec, |driven| {
        is_said(driven);
        assert_eq!((driven.done.clients_lost, driven.done.counts.failed), (1, 0));
        assert!(driven.done.counts.committed < 20);
    });
    spec.on_disconnect = OnDisconnect::Reconnect;
    with_each(&spec, |driven| {
        is_said(driven);
        let counts = &driven.done.counts;
        assert_eq!((counts.committed + counts.unknown, driven.done.clients_lost), (20, 0), "{counts:?}");
    });
}

#[test]
fn a_poller_is_chosen_unless_one_is_named() {
    let cluster = Cluster::shared();
    let driven = drive(load(&cluster.conninfo(), &["SELECT 1;"], 1));
    assert!(["epoll", "io_uring"].contains(&driven.ready.poller.as_str()), "{}", driven.ready.poller);
}
