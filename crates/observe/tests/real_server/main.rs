//! The observer with a real PostgreSQL.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail by panic")]

mod hidden;
mod statements;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::sleep;
use std::time::{Duration, Instant};

use model::telemetry::event::{Event, EventKind};
use model::telemetry::metric::{self, MetricKind};
use model::telemetry::reading::{Tick, TickSource, split_key};
use nix::sys::signal::Signal;
use observe::{Observation, ObserveSpec, Observer, OurBackends};
use testbed::{ClusterOptions, QuotaGroup, TestServer, as_server_user};
use wire::{Conninfo, Session};

/// Which of its acts the server logs.
const OPTIONS: ClusterOptions = ClusterOptions {
    settings: &[
        "log_line_prefix=%n [%p] ",
        "log_checkpoints=on",
        "log_autovacuum_min_duration=0",
        "autovacuum_naptime=1s",
    ],
    hba: None,
    has_tcp: false,
    certificate: None,
    is_on_disk: false,
    bin_dir: None,
};

fn pgbench(server: &TestServer, args: &[&str]) -> Command {
    let mut command = server.client("pgbench", "postgres");
    command.args(args).stdout(Stdio::null()).stderr(Stdio::null());
    as_server_user(&mut command);
    command
}

fn spec(server: &TestServer) -> ObserveSpec {
    ObserveSpec {
        server: Some(server.socket("postgres")),
        database: "postgres".to_string(),
        server_pid: Some(server.pid()),
        dirs: BTreeMap::from([("data".to_string(), server.path("data"))]),
        log_path: Some(server.path("log")),
        log_offset: server.log().len() as u64,
        ..ObserveSpec::of_host()
    }
}

#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<Observation>>>);

impl Seen {
    fn observe(&self, spec: ObserveSpec) -> Observer {
        let samples = Arc::clone(&self.0);
        Observer::start(spec, Box::new(move |sample| samples.lock().unwrap().push(sample))).unwrap()
    }

    fn ticks(&self, source: TickSource) -> Vec<Tick> {
        let samples = self.0.lock().unwrap();
        let ticks = samples.iter().filter_map(|sample| match sample {
            Observation::Tick(tick) if tick.source == source => Some(tick.clone()),
            _ => None,
        });
        ticks.collect()
    }

    fn events(&self) -> Vec<Event> {
        let samples = self.0.lock().unwrap();
        let events = samples.iter().filter_map(|sample| match sample {
            Observation::Event(event) => Some(event.clone()),
            _ => None,
        });
        events.collect()
    }

    fn unavailable(&self) -> BTreeMap<String, String> {
        let samples = self.0.lock().unwrap();
        let all = samples.iter().filter_map(|sample| match sample {
            Observation::Unavailable { what, reason } => Some((what.clone(), reason.clone())),
            _ => None,
        });
        all.collect()
    }

    /// Waits for the first tick of the server's statistics: everything that happens from then on is counted.
    fn wait_for_tick(&self) {
        let begin = Instant::now();
        while self.ticks(TickSource::Server).is_empty() {
            assert!(begin.elapsed() < Duration::from_secs(20), "no tick");
            sleep(Duration::from_millis(50));
        }
    }

    fn wait_for(&self, kind: EventKind) -> Event {
        self.wait_for_that(kind, |_| true)
    }

    fn wait_for_that(&self, kind: EventKind, is_wanted: impl Fn(&Event) -> bool) -> Event {
        let begin = Instant::now();
        loop {
            if let Some(event) =
                self.events().into_iter().find(|event| event.kind == kind && is_wanted(event))
            {
                return event;
            }
            assert!(begin.elapsed() < Duration::from_secs(20), "no {kind:?} in {:?}", self.events());
            sleep(Duration::from_millis(50));
        }
    }
}

/// Sum of a counter over ticks and instances.
fn sum(ticks: &[Tick], metric: &str) -> f64 {
    let values = ticks.iter().flat_map(|tick| tick.values.iter());
    values.filter(|(key, _)| split_key(key).0 == metric).map(|(_, value)| value).sum()
}

fn check_keys(ticks: &[Tick]) {
    for (key, value) in ticks.iter().flat_map(|tick| tick.values.iter()) {
        let (name, instance) = split_key(key);
        let row = metric::find(name).unwrap_or_else(|| panic!("`{key}` is not a row of METRICS"));
        assert_eq!(row.instance.is_empty(), instance.is_none(), "{key}");
        assert!(value.is_finite(), "{key} {value}");
        assert!(value >= 0.0 || name.ends_with("clock_offset"), "{key} {value}");
        if row.kind == MetricKind::Counter && row.unit == "s" && row.name.starts_with("host.cpu") {
            assert!(value < 60.0, "{key} {value} are not seconds of a tick");
        }
    }
}

#[test]
fn a_load_is_seen_in_all_sources_and_the_sums_agree() {
    let server = TestServer::start(&OPTIONS);
    assert!(pgbench(&server, &["-i", "-q", "-s", "2"]).status().unwrap().success());
    let seen = Seen::default();
    let observer = seen.observe(spec(&server));
    seen.wait_for_tick();
    let mut load = pgbench(&server, &["-c", "4", "-T", "4", "-n"]).spawn().unwrap();
    observer.set_driver_pid(Some(i32::try_from(load.id()).unwrap()));
    std::thread::scope(|scope| {
        // However seldom the load's clients come to run, one session is active whenever it is looked at.
        scope.spawn(|| server.execute("postgres", "select pg_sleep(3)"));
        sleep(Duration::from_secs(2));
        server.execute("postgres", "checkpoint");
        assert!(load.wait().unwrap().success());
    });
    sleep(Duration::from_millis(1500));
    let begin = Instant::now();
    observer.stop();
    assert!(begin.elapsed() < Duration::from_secs(2));

    let (host, database) = (seen.ticks(TickSource::Host), seen.ticks(TickSource::Server));
    assert!(host.len() >= 5 && database.len() >= 5, "{} {}", host.len(), database.len());
    check_times(&host, &database);
    check_host(&host);
    check_database(&database);
    check_checkpoint(&seen.events(), host[0].end_unix_ns..host[host.len() - 1].end_unix_ns);
    for (what, reason) in seen.unavailable() {
        assert!(
            [
                "disk",
                "net",
                "host.psi",
                "host.cpu.frequency",
                "server.read_bytes",
                "statements.calls",
                "database.read_time",
                "server.wal_write_time",
            ]
            .iter()
            .any(|of| what.starts_with(of)),
            "{what}: {reason}"
        );
    }
}

fn check_times(host: &[Tick], database: &[Tick]) {
    // Ticks follow each other without gap or overlap, and end on whole seconds except for the last.
    for ticks in [host, database] {
        check_keys(ticks);
        for pair in ticks.windows(2) {
            let gap_ns = pair[1].end_unix_ns as i64 - pair[1].length_ns as i64 - pair[0].end_unix_ns as i64;
            assert!(gap_ns.abs() < 20_000_000, "{gap_ns}");
        }
    }
    let is_on_time = |tick: &&Tick| tick.end_unix_ns % 1_000_000_000 < 100_000_000;
    assert!(host.iter().filter(is_on_time).count() > host.len() / 2, "{host:?}");
}

/// The sums of the load on the host and of the server's part in it.
fn check_host(host: &[Tick]) {
    let server_s = sum(host, "server.cpu.user") + sum(host, "server.cpu.system");
    let busy_s = sum(host, "host.cpu.user") + sum(host, "host.cpu.system");
    let length_s: f64 = host.iter().map(|tick| tick.length_ns as f64 / 1e9).sum();
    assert!(server_s > 0.1, "{server_s}");
    assert!(sum(host, "server.run_delay") > 0.0);
    assert!(host.iter().all(|tick| tick.values["server.states[S]"] >= 1.0));
    // A clock tick of 10 ms for each process at each end.
    assert!(busy_s >= server_s - 0.5, "{busy_s} {server_s}");
    let all_s = busy_s
        + ["idle", "iowait", "steal"].map(|part| sum(host, &format!("host.cpu.{part}"))).iter().sum::<f64>();
    let n_cpus = host[0].values.keys().filter(|key| key.starts_with("host.cpu.idle[")).count() as f64;
    assert!(
        (all_s - length_s * n_cpus).abs() < 0.2 * all_s,
        "{all_s} of {length_s} s on {n_cpus} processors"
    );
    assert!(
        sum(host, "pgdyno.cpu") < 0.2 * length_s,
        "the observer must be cheap: {}",
        sum(host, "pgdyno.cpu")
    );
    assert!(sum(host, "server.processes") > 6.0 * host.len() as f64);
}

fn check_database(database: &[Tick]) {
    assert!(sum(database, "database.hot_updates") > 100.0);
    assert!(sum(database, "server.slru.hits") > 100.0);
    let accounts = "database.table_bytes[public.pgbench_accounts]";
    assert!(database.iter().any(|tick| tick.values.get(accounts).is_some_and(|bytes| bytes > 2e7)));
    assert!(sum(database, "server.wal_bytes") > 1e5);
    // At least the segment that is written to.
    let kept = |tick: &Tick| tick.values.get("server.wal_directory_bytes");
    assert!(database.iter().filter_map(kept).any(|bytes| bytes >= f64::from(16 << 20)), "{database:?}");
    let commits = sum(database, "database.commits");
    assert!(commits > 100.0, "{commits}");
    assert!(
        sum(database, "database.rows_updated") > 2.0 * commits
            && sum(database, "database.rows_updated") < 4.0 * commits
    );
    assert!(sum(database, "server.checkpoints") >= 1.0);
    let busiest = database.iter().map(|tick| tick.values["server.connections[active]"]).fold(0.0, f64::max);
    // Four clients, the session that sleeps, and the one that asks for the checkpoint.
    assert!((1.0..=6.0).contains(&busiest), "{busiest}");
}

fn check_checkpoint(events: &[Event], during: std::ops::Range<u64>) {
    let kinds: BTreeSet<EventKind> = events.iter().map(|event| event.kind).collect();
    assert!(
        kinds.contains(&EventKind::CheckpointStart) && kinds.contains(&EventKind::CheckpointEnd),
        "{events:?}"
    );
    assert!(!kinds.contains(&EventKind::CheckpointCounted), "the log tells checkpoints: {events:?}");
    let end = events.iter().find(|event| event.kind == EventKind::CheckpointEnd).unwrap();
    assert!(end.number("buffers").unwrap() > 0.0 && end.number("total_s").is_some());
    assert!(during.contains(&end.t_unix_ns));
}

#[test]
fn a_server_that_goes_away_and_comes_back_is_reported() {
    let server = TestServer::start(&OPTIONS);
    let seen = Seen::default();
    let observer = seen.observe(spec(&server));
    seen.wait_for_tick();
    server.stop(Signal::SIGQUIT);
    seen.wait_for(EventKind::TelemetryLost);
    server.start_again();
    observer.set_server_pid(Some(server.pid()));
    let restarted = seen.wait_for(EventKind::ServerRestarted);
    assert!(restarted.text.contains("postmaster start"), "{restarted:?}");
    // The log says that the server was not shut down properly.
    let trouble = seen.wait_for(EventKind::ServerTrouble);
    assert!(trouble.text.contains("interrupted"), "{trouble:?}");
    let n_ticks = seen.ticks(TickSource::Server).len();
    sleep(Duration::from_millis(2500));
    observer.stop();
    let ticks = seen.ticks(TickSource::Server);
    assert!(ticks.len() > n_ticks, "{ticks:?}");
    check_keys(&ticks);
    let lost = seen.events().into_iter().filter(|event| event.kind == EventKind::TelemetryLost);
    assert!(lost.clone().count() <= 4, "told once for each source: {:?}", lost.collect::<Vec<_>>());
}

#[test]
fn without_a_log_checkpoints_and_autovacuum_come_from_statistics() {
    let server = TestServer::start(&OPTIONS);
    server.execute("postgres", "create table t as select g from generate_series(1, 1000) g");
    let seen = Seen::default();
    let observer = seen.observe(ObserveSpec { log_path: None, server_pid: None, ..spec(&server) });
    seen.wait_for_tick();
    server.execute("postgres", "checkpoint");
    let counted = seen.wait_for(EventKind::CheckpointCounted);
    assert_eq!(counted.detail["cause"], "requested");
    server.execute("postgres", "insert into t select g from generate_series(1, 10000) g");
    server.execute("postgres", "delete from t");
    let of_t = |what: &'static str| {
        move |event: &Event| event.detail["table"] == "postgres.public.t" && event.detail["what"] == what
    };
    seen.wait_for_that(EventKind::AutovacuumCounted, of_t("autoanalyze"));
    let vacuumed = seen.wait_for_that(EventKind::AutovacuumCounted, of_t("autovacuum"));
    assert!(vacuumed.number("n").unwrap() >= 1.0, "{vacuumed:?}");
    assert!(vacuumed.number("span_s").unwrap() > 0.0, "{vacuumed:?}");
    observer.stop();
    assert_eq!(sum(&seen.ticks(TickSource::Host), "server.cpu.user"), 0.0);
    let ticks = seen.ticks(TickSource::Server);
    check_keys(&ticks);
    let offsets =
        ticks.iter().map(|tick| (tick.values["server.clock_offset"], tick.values["server.clock_error"]));
    for (offset_s, error_s) in offsets {
        assert!(offset_s.abs() <= error_s + 0.02, "one machine, one clock: {offset_s} {error_s}");
    }
}

#[test]
fn work_of_foreign_sessions_is_distinguished() {
    let server = TestServer::start(&OPTIONS);
    let (mut ours, holder) = (server.wait_ready(), server.wait_ready());
    let backends = OurBackends {
        load: [ours.backend_pid()].into(),
        others: [holder.backend_pid()].into(),
        word: "0123".to_string(),
    };
    let seen = Seen::default();
    let observer = seen.observe(ObserveSpec { backends: Some(backends), ..spec(&server) });
    seen.wait_for_tick();
    let work = |n: u32| format!("select max(g) from (select generate_series(1, {n}) g) s");
    ours.execute(&work(5_000_000)).unwrap();
    let before = seen.ticks(TickSource::Host);
    // Whatever a session calls itself: another pgdyno's observer is not ours.
    let mut foreign = server.wait_ready();
    foreign.execute("set application_name = 'pgdyno observer'").unwrap();
    // On a busy machine the observer's next look may come after the work.
    let is_seen =
        || seen.ticks(TickSource::Server).iter().any(|tick| tick.values["server.foreign_working"] > 0.0);
    let begin = Instant::now();
    while !is_seen() {
        assert!(begin.elapsed() < Duration::from_secs(20), "no tick has seen the work");
        foreign.execute(&work(20_000_000)).unwrap();
    }
    sleep(Duration::from_millis(1200));
    observer.stop();
    let host = seen.ticks(TickSource::Host);
    check_keys(&host);
    let (load_s, foreign_s) = (sum(&host, "server.cpu.load"), sum(&host, "server.cpu.foreign"));
    assert!(load_s > 0.1 && foreign_s > load_s, "{load_s} {foreign_s}");
    assert!(sum(&before, "server.cpu.foreign") < 0.02, "{before:?}");
    let server = seen.ticks(TickSource::Server);
    let most = |metric: &str| server.iter().map(|tick| tick.values[metric]).fold(0.0, f64::max);
    assert_eq!((most("server.foreign_sessions"), most("server.foreign_working")), (1.0, 1.0));
}

#[test]
fn a_queue_behind_a_client_that_does_not_go_on_is_sampled_with_its_root() {
    let server = TestServer::start(&OPTIONS);
    server.execute("postgres", "create table hot as select 1 as a");
    let (mut holder, mut waiter) = (server.wait_ready(), server.wait_ready());
    holder.execute("begin; update hot set a = 2").unwrap();
    // A stranger holds a lock between transactions, for which another session of the load waits.
    let (mut stranger, mut second) = (server.wait_ready(), server.wait_ready());
    stranger.execute("set application_name = 'cron job'; select pg_advisory_lock(7)").unwrap();
    let load = [&holder, &waiter, &second].map(|session| session.backend_pid());
    let backends = OurBackends { load: load.into(), ..OurBackends::default() };
    let seen = Seen::default();
    let observer = seen.observe(ObserveSpec { backends: Some(backends), ..spec(&server) });
    seen.wait_for_tick();
    let waiting = std::thread::spawn(move || waiter.execute("update hot set a = 3"));
    let second = std::thread::spawn(move || second.execute("select pg_advisory_lock(7)"));
    sleep(Duration::from_millis(2600));
    observer.stop();
    holder.execute("rollback").unwrap();
    stranger.execute("select pg_advisory_unlock(7)").unwrap();
    waiting.join().unwrap().unwrap();
    second.join().unwrap().unwrap();
    let allowed = seen.ticks(TickSource::Host);
    check_keys(&allowed);
    assert!(allowed.iter().any(|tick| tick.values.get("affinity.processors[server]") >= Some(1.0)));
    let ticks = seen.ticks(TickSource::Server);
    check_keys(&ticks);
    let of = |key: &str| ticks.iter().filter_map(|tick| tick.values.get(key)).sum::<f64>();
    let samples = of("waits.samples");
    assert!(samples >= 10.0 && of("waits.time") < 2.0, "{samples}");
    let waits = ["stages[lock]", "instants[Lock:transactionid]", "processes[client/Lock:transactionid]"];
    for key in waits {
        let n = of(&format!("waits.{key}"));
        assert!(n > 0.5 * samples && n <= samples, "{key}: {n} of {samples}");
    }
    assert!(of("waits.processes[client/idle in transaction]") > 0.9 * samples);
    assert!(of("waits.roots[idle in transaction]") >= 1.0, "{ticks:?}");
    assert!(of("waits.roots[idle]") >= 1.0, "{ticks:?}");
    assert!(of("waits.holders[transactionid/load]") >= 1.0, "{ticks:?}");
    assert!(of("waits.holders[advisory/other:cron job]") >= 1.0, "{ticks:?}");
    assert_eq!(of("waits.stages[wal-init]"), 0.0);
}

#[test]
fn failures_of_the_archiver_are_counted() {
    let mut settings = OPTIONS.settings.to_vec();
    settings.extend(["wal_level=replica", "archive_mode=on", "archive_command=false"]);
    let server = TestServer::start(&ClusterOptions { settings: settings.leak(), ..OPTIONS });
    let seen = Seen::default();
    let observer = seen.observe(spec(&server));
    seen.wait_for_tick();
    server.execute("postgres", "create table t (a int)");
    // It was called otherwise before 10.
    let switch = "select proname from pg_proc where proname in ('pg_switch_wal', 'pg_switch_xlog')";
    let switch = server.ask("postgres", switch);
    server.execute("postgres", &format!("select {switch}()"));
    sleep(Duration::from_millis(3500));
    observer.stop();
    let ticks = seen.ticks(TickSource::Server);
    assert!(sum(&ticks, "server.archive_failures") >= 1.0, "{ticks:?}");
    assert_eq!(sum(&ticks, "server.archived"), 0.0);
}

#[test]
fn time_limits_of_the_role_do_not_end_the_observation() {
    let server = TestServer::start(&OPTIONS);
    for setting in ["idle_session_timeout = '200ms'", "statement_timeout = '1s'", "lock_timeout = '1s'"] {
        server.execute("postgres", &format!("alter role postgres set {setting}"));
    }
    let seen = Seen::default();
    let observer = seen.observe(spec(&server));
    sleep(Duration::from_millis(3500));
    observer.stop();
    assert!(seen.ticks(TickSource::Server).len() >= 3, "{:?}", seen.events());
    let lost = seen.events().into_iter().filter(|event| event.kind == EventKind::TelemetryLost);
    assert_eq!(lost.map(|event| event.text).collect::<Vec<_>>(), [""; 0]);
}

#[test]
fn throttling_by_a_quota_is_counted() {
    let server = TestServer::start(&OPTIONS);
    let Ok(group) = QuotaGroup::new(0.05) else {
        // Only version 1 of control groups lets root create one while the system uses its own.
        return;
    };
    server.pids().into_iter().for_each(|pid| group.take(pid));
    let seen = Seen::default();
    let observer = seen.observe(spec(&server));
    seen.wait_for_tick();
    server.execute("postgres", "select count(*) from generate_series(1, 3000000)");
    observer.stop();
    let ticks = seen.ticks(TickSource::Host);
    check_keys(&ticks);
    let (periods, throttled) = (sum(&ticks, "cgroup.periods"), sum(&ticks, "cgroup.throttled_periods"));
    assert!(throttled > 2.0 && throttled <= periods, "{throttled} of {periods}");
    assert!(sum(&ticks, "cgroup.throttled_time") > 0.0, "{ticks:?}");
    let key = format!("cgroup.quota[server:/{}]", group.path().file_name().unwrap().display());
    assert_eq!(ticks[0].values[&key], 0.05);
}

#[test]
fn a_role_without_privileges_sees_what_it_may_and_says_so() {
    let server = TestServer::start(&OPTIONS);
    server.execute("postgres", "create role watcher login");
    let seen = Seen::default();
    let conninfo = Conninfo { user: "watcher".to_string(), ..server.socket("postgres") };
    let observer = seen.observe(ObserveSpec { server: Some(conninfo), ..spec(&server) });
    seen.wait_for_tick();
    // Not `create table as`, which writes no WAL with the default settings of 9.6.
    server.execute("postgres", "create table t (g int)");
    server.execute("postgres", "insert into t select g from generate_series(1, 10000) g");
    // Naptime is a second, and statistics take up to another.
    let analyzed =
        seen.wait_for_that(EventKind::AutoanalyzeEnd, |event| event.detail["table"] == "postgres.public.t");
    assert!(analyzed.number("elapsed_s").is_some(), "{analyzed:?}");
    sleep(Duration::from_millis(1200));
    observer.stop();
    let ticks = seen.ticks(TickSource::Server);
    check_keys(&ticks);
    assert!(sum(&ticks, "server.wal_bytes") > 1e5, "{ticks:?} {:?}", seen.unavailable());
    let unavailable: Vec<String> =
        seen.unavailable().into_keys().filter(|what| what.starts_with("server.w")).collect();
    let expected = [
        "server.waiting of other roles, server.foreign_working, server.on_cpu",
        "server.wal_directory_bytes",
        "server.wal_write_time, server.wal_sync_time",
    ];
    assert_eq!(unavailable, expected);
}

#[test]
fn a_crash_is_reported_and_ticks_continue_afterwards() {
    let server = TestServer::start(&OPTIONS);
    let seen = Seen::default();
    let observer = seen.observe(spec(&server));
    let mut victim = Session::connect(&server.socket("postgres")).unwrap();
    seen.wait_for_tick();
    Command::new("kill").args(["-s", "KILL", &victim.backend_pid().to_string()]).status().unwrap();
    seen.wait_for(EventKind::TelemetryLost);
    assert!(victim.execute("select 1").is_err());
    sleep(Duration::from_millis(3500));
    observer.stop();
    let troubles: Vec<String> = seen
        .events()
        .into_iter()
        .filter(|event| event.kind == EventKind::ServerTrouble)
        .map(|event| event.text)
        .collect();
    assert!(troubles.iter().any(|text| text.contains("was terminated by signal 9")), "{troubles:?}");
    let ticks = seen.ticks(TickSource::Server);
    check_keys(&ticks);
    assert!(ticks.len() >= 3, "{ticks:?}");
    check_keys(&seen.ticks(TickSource::Host));
}

#[test]
fn a_server_that_hangs_does_not_hold_up_the_end() {
    let server = TestServer::start(&OPTIONS);
    let seen = Seen::default();
    let observer = seen.observe(spec(&server));
    sleep(Duration::from_millis(1500));
    let pid = server.pid();
    let backends = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    let signal = |signal: &str| {
        Command::new("kill").args(["-s", signal]).args(backends.split_whitespace()).status().unwrap();
    };
    signal("STOP");
    sleep(Duration::from_millis(1200));
    let begin = Instant::now();
    observer.stop();
    let took = begin.elapsed();
    signal("CONT");
    assert!(took < Duration::from_secs(2), "{took:?}");
    let n = seen.0.lock().unwrap().len();
    sleep(Duration::from_millis(300));
    assert_eq!(seen.0.lock().unwrap().len(), n, "nothing is heard after the end");
}

#[test]
fn a_server_that_is_not_there_is_an_event_and_not_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let conninfo = Conninfo::new(&directory.path().display().to_string(), 5432, "u", "d");
    let dirs = BTreeMap::from([("data".to_string(), PathBuf::from("/no/such"))]);
    let spec =
        ObserveSpec { server: Some(conninfo), server_pid: Some(i32::MAX), dirs, ..ObserveSpec::of_host() };
    let seen = Seen::default();
    let observer = seen.observe(spec);
    seen.wait_for(EventKind::TelemetryLost);
    sleep(Duration::from_millis(1200));
    observer.stop();
    let unavailable = seen.unavailable();
    assert!(
        unavailable.contains_key("disk (data)") && unavailable.contains_key("server.cpu"),
        "{unavailable:?}"
    );
    assert_eq!(seen.events().len(), 1, "{:?}", seen.events());
    assert!(!seen.ticks(TickSource::Host).is_empty());
}
