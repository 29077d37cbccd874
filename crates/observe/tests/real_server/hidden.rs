//! What a role cannot see, and what a server does not count, is absent from the readings: a zero would be a claim.

use std::thread::sleep;
use std::time::Duration;

use model::telemetry::event::EventKind;
use model::telemetry::reading::{Tick, TickSource, split_key};
use observe::{ObserveSpec, OurBackends};
use testbed::{ClusterOptions, TestServer};
use wire::Conninfo;

use crate::{Seen, check_keys, spec};

/// Vacuums begin within a second.
const OPTIONS: ClusterOptions = ClusterOptions {
    settings: &["autovacuum_naptime=1s", "track_io_timing=off", "track_wal_io_timing=off"],
    hba: None,
    has_tcp: false,
    certificate: None,
    is_on_disk: false,
    bin_dir: None,
};

/// The observation of a server by a role that it has; nothing is read of its log.
fn by(server: &TestServer, role: &str) -> ObserveSpec {
    let word = role.to_string();
    ObserveSpec {
        server: Some(Conninfo { user: role.to_string(), ..server.socket("postgres") }),
        log_path: None,
        backends: Some(OurBackends { load: [].into(), others: [].into(), word }),
        ..spec(server)
    }
}

fn has(ticks: &[Tick], metric: &str) -> bool {
    ticks.iter().any(|tick| tick.values.keys().any(|key| split_key(key).0 == metric))
}

fn most(ticks: &[Tick], metric: &str) -> f64 {
    ticks.iter().filter_map(|tick| tick.values.get(metric)).fold(0.0, |most, n| most.max(n))
}

fn reason<'a>(unavailable: &'a std::collections::BTreeMap<String, String>, metric: &str) -> &'a str {
    let found = unavailable.iter().find(|(what, _)| what.split(", ").any(|one| one == metric));
    found.map_or("", |(_, reason)| reason)
}

#[test]
fn work_of_others_is_unknown_to_a_role_that_cannot_see_it_and_their_vacuums_are_seen() {
    let server = TestServer::start(&OPTIONS);
    server.execute("postgres", "create role watcher login");
    // A vacuum that takes its time.
    server.execute(
        "postgres",
        "create table slow (a int) with (autovacuum_vacuum_cost_delay = 100, autovacuum_vacuum_cost_limit = 1, \
         autovacuum_vacuum_insert_threshold = 10); insert into slow select generate_series(1, 50000)",
    );
    let (all, own) = (Seen::default(), Seen::default());
    let observers = [all.observe(by(&server, "postgres")), own.observe(by(&server, "watcher"))];
    all.wait_for_tick();
    own.wait_for_tick();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            server.execute(
                "postgres",
                "do $$ begin while clock_timestamp() < now() + '4 s' loop null; end loop; end $$",
            )
        });
        own.wait_for(EventKind::AutovacuumSeen);
        sleep(Duration::from_secs(3));
    });
    observers.into_iter().for_each(observe::Observer::stop);

    let (all_ticks, own_ticks) = (all.ticks(TickSource::Server), own.ticks(TickSource::Server));
    check_keys(&own_ticks);
    for metric in ["server.foreign_working", "server.on_cpu"] {
        assert!(most(&all_ticks, metric) >= 1.0, "{metric}: {all_ticks:?}");
        let of_hidden = own_ticks
            .iter()
            .filter(|tick| tick.values.get("server.connections[hidden]").is_some_and(|n| n > 0.0));
        let claims: Vec<&Tick> = of_hidden.filter(|tick| tick.values.get(metric).is_some()).collect();
        assert!(claims.is_empty(), "{metric}: {claims:?}");
        assert!(
            reason(&own.unavailable(), metric).contains("grant it pg_read_all_stats"),
            "{:?}",
            own.unavailable()
        );
    }
    assert!(most(&own_ticks, "server.foreign_sessions") >= 1.0, "that they are there is known");
    assert!(most(&own_ticks, "server.autovacuum_workers") >= 1.0, "{own_ticks:?}");
    assert!(has(&own_ticks, "waits.processes"));
    let at_work = "waits.processes[autovacuum worker/CPU]";
    assert_eq!(most(&own_ticks, at_work), 0.0, "what a hidden process does is unknown");
    let hidden =
        own_ticks.iter().filter_map(|tick| tick.values.get("waits.processes[autovacuum worker/hidden]"));
    assert!(hidden.sum::<f64>() > 0.0, "{own_ticks:?}");
    let seen = own.wait_for(EventKind::AutovacuumSeen);
    assert!(!seen.text.contains("insufficient privilege"), "{seen:?}");
}

#[test]
fn waits_for_locks_of_another_database_are_not_those_of_the_load() {
    let server = TestServer::start(&OPTIONS);
    server.execute("postgres", "create database other");
    let locked = |database: &str, seconds: f64| {
        server.execute(database, "create table if not exists one (a int)");
        let hold = format!("begin; lock table one; select pg_sleep({seconds}); commit");
        std::thread::scope(|scope| {
            scope.spawn(|| server.execute(database, &hold));
            sleep(Duration::from_millis(500));
            scope.spawn(|| server.execute(database, "insert into one values (1)"));
        });
    };
    let seen = Seen::default();
    let observer = seen.observe(by(&server, "postgres"));
    seen.wait_for_tick();
    locked("other", 3.0);
    let waits = |ticks: &[Tick]| most(ticks, "waits.processes[client/Lock:relation]");
    let of_other = waits(&seen.ticks(TickSource::Server));
    locked("postgres", 3.0);
    sleep(Duration::from_millis(1200));
    observer.stop();
    assert_eq!(of_other, 0.0, "they queue for what the load does not lock");
    assert!(waits(&seen.ticks(TickSource::Server)) > 0.0, "those of the load's own database are seen");
}

#[test]
fn times_that_a_server_does_not_take_are_absent() {
    let server = TestServer::start(&OPTIONS);
    let seen = Seen::default();
    let observer = seen.observe(by(&server, "postgres"));
    seen.wait_for_tick();
    server.execute("postgres", "create table t as select generate_series(1, 100000) a; checkpoint");
    sleep(Duration::from_millis(2300));
    observer.stop();
    let (ticks, unavailable) = (seen.ticks(TickSource::Server), seen.unavailable());
    for (metric, setting) in [
        ("database.read_time", "track_io_timing is off"),
        ("database.write_time", "track_io_timing is off"),
        ("server.wal_write_time", "track_wal_io_timing is off"),
        ("server.wal_sync_time", "track_wal_io_timing is off"),
    ] {
        assert!(!has(&ticks, metric), "{metric}: {ticks:?}");
        assert!(reason(&unavailable, metric).contains(setting), "{metric}: {unavailable:?}");
    }
    assert!(has(&ticks, "database.blocks_hit"), "{ticks:?}");
}

#[test]
fn what_a_server_without_counts_would_have_counted_is_absent() {
    let settings = &["track_counts=off", "track_activities=off", "autovacuum=off"];
    let server = TestServer::start(&ClusterOptions { settings, ..OPTIONS });
    let seen = Seen::default();
    let observer = seen.observe(by(&server, "postgres"));
    seen.wait_for_tick();
    server
        .execute("postgres", "create table t as select generate_series(1, 100000) a; select count(*) from t");
    sleep(Duration::from_millis(2300));
    observer.stop();
    let (ticks, unavailable) = (seen.ticks(TickSource::Server), seen.unavailable());
    assert!(most(&ticks, "database.commits") > 0.0, "transactions are counted: {ticks:?}");
    for metric in [
        "database.blocks_hit",
        "database.blocks_read",
        "database.rows_inserted",
        "database.temp_files",
        "database.deadlocks",
        "database.hot_updates",
    ] {
        assert!(!has(&ticks, metric), "{metric}: {ticks:?}");
        assert!(reason(&unavailable, metric).contains("track_counts is off"), "{metric}: {unavailable:?}");
    }
}
