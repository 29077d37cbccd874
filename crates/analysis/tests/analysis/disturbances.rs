//! Changes to the records of a quiet run: what disturbed it, or what was unusual about it.

use model::experiment::script::ScriptSurvey;
use model::experiment::topology::pooler::{PoolMode, PoolerKind};
use model::load::Pace;
use model::load::interval::Counts;
use model::load::sessions::{SessionSetting, SessionSettings};
use model::run::RunData;
use model::run::fingerprint::Fingerprint;
use model::run::host::MountRecord;
use model::run::phase::{Phase, PhaseRecord};
use model::run::server::Route;
use model::run::server::node::PoolerRecord;
use model::run::touched::Touched;
use model::telemetry::event::EventKind;
use model::telemetry::reading::{TickSource, key};

use crate::quiet::{self, event, set_metric};

pub(crate) fn pace(data: &mut RunData, pace: Pace) {
    data.record.load.as_mut().unwrap().pace = pace;
    data.record.case.workload.pace = pace;
}

pub(crate) fn script(data: &mut RunData, source: &str) {
    data.record.load.as_mut().unwrap().scripts[0].source = source.to_string();
}

/// The only session that was asked has this setting.
pub(crate) fn in_sessions(data: &mut RunData, name: &str, value: &str, source: &str) {
    let [name, value, source] = [name, value, source].map(str::to_string);
    let settings = vec![SessionSetting { name, value, source, n: 1 }];
    let sessions = SessionSettings { n_answered: 1, silent: None, settings };
    data.record.done.as_mut().unwrap().sessions = Some(sessions);
}

/// Connected to `a:1`, accepted elsewhere.
pub(crate) fn route(data: &mut RunData, answered: &str, pooler: Option<&str>) {
    let pooler = pooler.map(str::to_string);
    let route = Route { reached: "a:1".to_string(), answered: answered.to_string(), pooler };
    data.record.server.as_mut().unwrap().route = Some(route);
}

/// The load went through our pooler with so many connections.
pub(crate) fn pooler(data: &mut RunData, size: u32) {
    let (kind, version) = (PoolerKind::Pgbouncer, Some("1.18.0".to_string()));
    let pooler = PoolerRecord { kind, version, mode: PoolMode::Transaction, size, n_processes: 1 };
    data.record.pooler = Some(pooler);
}

/// The user's script writes table `t`, with this effect.
pub(crate) fn touch(data: &mut RunData, rows_read: u64, rows_changed: u64) {
    let touched = Touched { rows_read, rows_changed, pages: 10, ..Touched::default() };
    data.record.touched = [("t".to_string(), touched)].into();
    let tables: std::collections::BTreeSet<String> = ["t".to_string()].into();
    data.record.survey = Some(ScriptSurvey { written: tables.clone(), tables, ..ScriptSurvey::default() });
}

/// The user's script updates this many rows of table `t`, which has 100,000 pages.
pub(crate) fn update(data: &mut RunData, source: &str, rows: u64, images_per_s: f64) {
    touch(data, rows, rows);
    script(data, source);
    data.record.touched.get_mut("t").unwrap().pages = 100_000;
    let definitions = &mut data.record.fingerprint.get_or_insert_default().definitions;
    definitions.entry("t".to_string()).or_default().insert("table".to_string(), "logged".to_string());
    let (start_unix_ns, end_unix_ns) = (0, 1);
    data.record.phases.push(PhaseRecord {
        phase: Phase::Checkpoint,
        start_unix_ns,
        end_unix_ns,
        detail: Default::default(),
    });
    for tick in data.ticks.iter_mut().filter(|tick| tick.source == TickSource::Server) {
        tick.values.insert("server.wal_full_page_images", images_per_s);
    }
}

pub(crate) fn setting(data: &mut RunData, name: &str, value: &str) {
    let server = data.record.server.as_mut().unwrap();
    server.settings.get_mut(name).unwrap().value = value.to_string();
}

/// The server was compiled with these flags.
pub(crate) fn cflags(data: &mut RunData, flags: &str) {
    let server = data.record.server.as_mut().unwrap();
    server.build.insert("CFLAGS".to_string(), flags.to_string());
}

/// The driver was compiled with this profile and optimization level.
pub(crate) fn built(data: &mut RunData, profile: &str, level: &str) {
    let ready = data.record.ready.as_mut().unwrap();
    (ready.build_profile, ready.opt_level) = (profile.to_string(), level.to_string());
}

/// The driver came from a package.
pub(crate) fn packaged(data: &mut RunData) {
    built(data, "dist", "3");
}

/// The server's files of this role are on such a file system.
pub(crate) fn mount(data: &mut RunData, role: &str, fs_type: &str, options: &str) {
    let record = MountRecord {
        mount_point: "/ram".to_string(),
        fs_type: fs_type.to_string(),
        options: options.to_string(),
        ..MountRecord::default()
    };
    data.record.host.as_mut().unwrap().mounts.insert(role.to_string(), record);
}

pub(crate) fn fact(data: &mut RunData, name: &str, value: &str) {
    data.record.host.as_mut().unwrap().facts.insert(name.to_string(), value.to_string());
}

pub(crate) fn checkpoint(data: &mut RunData, from_s: f64, to_s: f64) {
    data.events
        .push(event(from_s, EventKind::CheckpointStart, "checkpoint starting: time").with("cause", "time"));
    let end = event(to_s, EventKind::CheckpointEnd, "checkpoint complete").with("buffers", 1234);
    data.events.push(end.with("total_s", to_s - from_s));
}

/// So many transactions of each whole second fail.
pub(crate) fn fail_each_second(data: &mut RunData, n: u64) {
    for interval in data.intervals.iter_mut().filter(|interval| interval.counts.committed > n) {
        (interval.counts.committed, interval.counts.failed) = (interval.counts.committed - n, n);
    }
    quiet::finish(data);
}

/// Transactions of second 10 end otherwise than by a commit.
pub(crate) fn end_otherwise(data: &mut RunData, change: fn(&mut Counts)) {
    change(&mut data.intervals[10].counts);
    quiet::finish(data);
}

/// Each second: processor time of other sessions on the server, how many are at work (in even and odd seconds), and their
/// transactions, while the load makes 1000.
pub(crate) fn neighbour(data: &mut RunData, cpu_s: f64, working: [f64; 2], transactions: f64) {
    for (n, tick) in data.ticks.iter_mut().enumerate() {
        let mut put = |name: &str, value: f64| tick.values.insert(name, value);
        match tick.source {
            TickSource::Host => put("server.cpu.foreign", cpu_s),
            TickSource::Driver => put("driver.server_transactions", 1000.0),
            TickSource::Server => {
                put("server.foreign_sessions", 3.0);
                put("server.foreign_working", working[n / 3 % 2]);
                put("server.transactions", 1000.0 + transactions);
                put("database.commits", 999.0 + transactions / 2.0);
                put("database.rollbacks", 0.0);
            }
            TickSource::Remote | TickSource::DriverHost | TickSource::Standby | TickSource::Pooler => {}
        }
    }
}

/// The load's database commits more than the driver sees end.
pub(crate) fn more_commits(data: &mut RunData) {
    for tick in &mut data.ticks {
        tick.values.get_mut("database.commits").into_iter().for_each(|n| *n = 5000.0);
        tick.values.get_mut("server.transactions").into_iter().for_each(|n| *n = 5000.0);
    }
}

/// The same, with parallel workers in one tick.
pub(crate) fn workers(data: &mut RunData, metric: &str) {
    neighbour(data, 0.0, [0.0, 0.0], 0.0);
    more_commits(data);
    if let Some(tick) = data.ticks.iter_mut().rfind(|tick| tick.source == TickSource::Server) {
        tick.values.insert(metric, 4.0);
    }
}

/// What the phase restore recorded under a name.
pub(crate) fn restore_says(data: &mut RunData, name: &str, words: &str) {
    let restore = data.record.phases.iter_mut().find(|phase| phase.phase == Phase::Restore).unwrap();
    restore.detail.insert(name.to_string(), words.to_string());
}

pub(crate) fn settled(data: &mut RunData, quiet: &str) {
    let detail = [("quiet", quiet), ("seconds", "10.003"), ("still_busy", "sessions")];
    let detail = detail.map(|(name, value)| (name.to_string(), value.to_string()));
    let phase = Phase::Settle;
    data.record.phases.push(PhaseRecord { phase, start_unix_ns: 0, end_unix_ns: 0, detail: detail.into() });
}

/// Half of a processor for the server, of whose ten periods each second so many were throttled.
pub(crate) fn quota(data: &mut RunData, throttled: f64) {
    for tick in data.ticks.iter_mut().filter(|tick| tick.source == TickSource::Host) {
        for (name, value) in
            [("quota", 0.5), ("periods", 10.0), ("throttled_periods", throttled), ("throttled_time", 0.3)]
        {
            tick.values.insert(&format!("cgroup.{name}[server:/db]"), value);
        }
    }
}

/// A clock is set by so many seconds between second 20 and 21, and read with an error of 5 ms.
pub(crate) fn clock(data: &mut RunData, metric: &str, step_s: f64) {
    let source = if metric.starts_with("host") { TickSource::Host } else { TickSource::Server };
    for tick in data.ticks.iter_mut().filter(|tick| tick.source == source) {
        let offset_s = if tick.end_unix_ns > quiet::at(20.5) { step_s } else { 0.0 };
        tick.values.insert(metric, offset_s);
        tick.values.insert("server.clock_error", 0.005);
    }
}

/// Two tables of the load have a part that is UNLOGGED; only rows of `t` change.
pub(crate) fn unlogged(data: &mut RunData) {
    let print = data.record.fingerprint.get_or_insert_with(Fingerprint::default);
    for (table, rows_changed) in [("public.t", 1), ("public.only_read", 0)] {
        let parts = [("table", "logged, partitioned"), ("part t_1", "UNLOGGED, fillfactor=100")];
        let definition = parts.map(|(object, text)| (object.to_string(), text.to_string())).into();
        print.definitions.insert(table.to_string(), definition);
        data.record.touched.insert(table.to_string(), Touched { rows_changed, ..Touched::default() });
    }
}

/// A table was maintained in the measurement, according to the log.
fn maintained(data: &mut RunData, kind: EventKind, table: &str) {
    let end = event(12.0, kind, "automatic work").with("elapsed_s", 0.5);
    data.events.push(end.with("table", table));
}

pub(crate) fn tellers_vacuumed(data: &mut RunData) {
    maintained(data, EventKind::AutovacuumEnd, "pgbench_tellers");
}

pub(crate) fn worker_seen(data: &mut RunData) {
    data.events.push(event(12.0, EventKind::AutovacuumSeen, "1 autovacuum worker"));
    data.events.push(event(13.0, EventKind::AutovacuumSeen, "1 autovacuum worker"));
}

pub(crate) fn catalogs_analyzed(data: &mut RunData) {
    maintained(data, EventKind::AutoanalyzeEnd, "db.pg_catalog.pg_statistic");
    let seen = event(14.0, EventKind::AutovacuumSeen, "ANALYZE pg_catalog.pg_class");
    data.events.push(seen.with("table", "db.pg_catalog.pg_class"));
}

pub(crate) fn catalog_vacuumed(data: &mut RunData) {
    maintained(data, EventKind::AutovacuumEnd, "db.pg_catalog.pg_class");
}

pub(crate) fn namesake_analyzed(data: &mut RunData) {
    maintained(data, EventKind::AutoanalyzeEnd, "db.pg_catalog.pg_class");
    maintained(data, EventKind::AutoanalyzeEnd, "db.public.pg_catalog");
}

/// Processes of others, of which some are named.
pub(crate) fn busy_compilers(data: &mut RunData) {
    set_metric(data, "server.cpu.user", -10.0, 50.0, 0.73);
    for tick in data.ticks.iter_mut().filter(|tick| tick.source == TickSource::Host) {
        for (name, s) in [("cat", 0.001), ("cc1", 0.2), ("make", 0.04)] {
            tick.values.insert(&key("host.process_cpu", name), s);
        }
    }
}

/// The load went to two hosts, of which one was looked at.
pub(crate) fn spread(data: &mut RunData) {
    route(data, "a:1", None);
    let target = &mut data.record.load.as_mut().unwrap().target;
    for (key, value) in [("host", "a,b"), ("port", "1,2"), ("load_balance_hosts", "random")] {
        target.insert(key.to_string(), value.to_string());
    }
    data.record.rows_after.insert("pgbench_history".to_string(), 1);
}
