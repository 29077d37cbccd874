//! Each rule fires on a run that is disturbed in its way, and is silent on the quiet one.

use analysis::finding::{Finding, Severity};
use analysis::findings::rule;
use analysis::study;
use model::experiment::case::OnLostConnection;
use model::experiment::os::WalPolicy;
use model::experiment::plan::RunState;
use model::experiment::script::ScriptSurvey;
use model::load::Pace;
use model::load::course::RampUpEnd;
use model::load::drive::LoadEnding;
use model::load::sessions::SessionSettings;
use model::run::RunData;
use model::run::driver::DriverRecord;
use model::run::fingerprint::Fingerprint;
use model::run::phase::Phase;
use model::run::server::Setting;
use model::telemetry::event::EventKind;

use crate::disturbances::{
    built, busy_compilers, catalog_vacuumed, catalogs_analyzed, cflags, checkpoint, clock, end_otherwise,
    fact, fail_each_second, in_sessions, more_commits, mount, namesake_analyzed, neighbour, pace, pooler,
    quota, restore_says, route, script, setting, settled, spread, tellers_vacuumed, touch, unlogged, update,
    worker_seen, workers,
};
use crate::quiet::{self, event, set_committed, set_metric, tps};
use crate::tpcc;
use crate::two_drivers::{all_elsewhere, clock_at, concurrent, drivers};
use crate::uncertainty::BOUNDED;

pub(crate) fn findings_of(data: RunData) -> Vec<Finding> {
    let study = study(&quiet::experiment(1, vec![data]));
    study.runs.into_iter().next().unwrap().findings
}

type Disturb = fn(&mut RunData);

/// A script that draws evenly.
const EVEN: &str = "\\set a random(1, 9)\nUPDATE t SET b = 1 WHERE a = :a;";

/// Rule, weight, words that the evidence must contain, disturbance.
pub(crate) const RUN_TABLE: &[(&str, Severity, &str, Disturb)] = &[
    ("run-incomplete", Severity::Void, "29 of 30 s were measured: interrupted", |data| {
        data.record.state = RunState::Partial;
        data.record.reason = "interrupted".to_string();
        data.record.done.as_mut().unwrap().ending = LoadEnding::Stopped;
        data.intervals.truncate(35);
    }),
    ("run-incomplete", Severity::Void, "nothing was measured", |data| {
        data.record.state = RunState::Failed;
        data.record.done = None;
        data.intervals.clear();
        data.histograms.clear();
    }),
    ("counts-broken", Severity::Void, "identity", |data| {
        data.record.done.as_mut().unwrap().counts.started += 1;
    }),
    ("counts-broken", Severity::Void, "the driver says", |data| {
        data.intervals[12].counts.committed -= 1;
        data.intervals[12].counts.failed += 1;
    }),
    ("records-damaged", Severity::Doubt, "line 3", |data| {
        data.damage.push("intervals.jsonl line 3".to_string())
    }),
    ("records-damaged", Severity::Doubt, "base64", |data| data.histograms[30].line.data = "!".to_string()),
    ("records-damaged", Severity::Doubt, "cannot be decoded", |data| {
        data.histograms[30].line.data = "AAAA".to_string();
    }),
    ("records-damaged", Severity::Doubt, "the measurement lacks 1 second (", |data| {
        data.intervals.remove(20);
    }),
    ("history-differs", Severity::Void, "`pgbench_history` grew by", |data| {
        data.record.rows_before = [("pgbench_history".to_string(), 0)].into();
        data.record.rows_after = [("pgbench_history".to_string(), 17)].into();
    }),
    ("history-differs", Severity::Void, "payments were committed, but `history` grew by 17 rows", |data| {
        *data = tpcc::run(1);
        data.record.rows_after.insert("history".to_string(), 24);
    }),
    ("history-differs", Severity::Void, "New-Orders were committed, but `orders` grew by 17 rows", |data| {
        *data = tpcc::run(1);
        data.record.rows_after.insert("orders".to_string(), 24);
    }),
    ("consistency-broken", Severity::Void, "3.3.2.1 after the load (w_id=1)", |data| {
        data.record.violations_after = [("3.3.2.1".to_string(), "w_id=1".to_string())].into();
    }),
    ("tpcc-inputs", Severity::Void, "payments by last name 0.0000 of 30000 (specification 0.6)", |data| {
        *data = tpcc::run(1);
        for interval in data.intervals.iter_mut().filter(|interval| interval.script == 1) {
            interval.facts.insert("by_name".to_string(), 0);
        }
    }),
    ("tpcc-response", Severity::Doubt, "new-order: 9.", |data| {
        *data = tpcc::run(1);
        tpcc::set_latency(data, |name| if name == "new-order" { 1000 } else { 1 });
    }),
    ("too-few-transactions", Severity::Void, "60 committed in 30 s by 8 clients", |data| {
        set_committed(data, 0..36, |_| 2);
    }),
    ("transactions-failed", Severity::Doubt, "800 transactions (2.7 %) failed", |data| {
        end_otherwise(data, |counts| (counts.committed, counts.failed) = (counts.committed - 800, 800));
    }),
    ("transactions-failed", Severity::Void, "3300 transactions (11 %) failed", |data| {
        fail_each_second(data, 110)
    }),
    ("transactions-failed", Severity::Note, "800 transactions (2.7 %) failed", |data| {
        data.record.case.set(model::experiment::keys::run::MAX_FAILED, "5%".parse().ok());
        end_otherwise(data, |counts| (counts.committed, counts.failed) = (counts.committed - 800, 800));
    }),
    ("transactions-failed", Severity::Doubt, "15000 transactions (50 %) failed", |data| {
        data.record.case.set(model::experiment::keys::run::MAX_FAILED, "20%".parse().ok());
        fail_each_second(data, 500);
    }),
    ("transactions-failed", Severity::Note, "1 transaction (0.003 %) failed", |data| {
        end_otherwise(data, |counts| (counts.committed, counts.failed) = (counts.committed - 1, 1));
    }),
    ("outcomes-unknown", Severity::Doubt, "1 transaction ended without an answer", |data| {
        end_otherwise(data, |counts| (counts.committed, counts.unknown) = (counts.committed - 1, 1));
    }),
    ("cut-off-at-end", Severity::Doubt, "1 transaction had not ended 10 s after", |data| {
        end_otherwise(data, |counts| (counts.committed, counts.aborted) = (counts.committed - 1, 1));
    }),
    ("offered-load-not-achieved", Severity::Doubt, "of 2,000 transactions per second ended (50 %)", |data| {
        pace(data, Pace::Poisson { rate_per_s: 2000.0 });
    }),
    ("stall", Severity::Doubt, "3 of 30 measured seconds (20, 21, 22)", |data| {
        set_committed(data, 20..23, |_| 5);
    }),
    ("not-steady", Severity::Doubt, "below the first", |data| {
        set_committed(data, 5..35, |t| tps(t) - 10 * u64::from(t));
    }),
    ("not-steady", Severity::Doubt, "above the first", |data| {
        set_committed(data, 5..35, |t| if t < 20 { tps(t) } else { tps(t) + 100 });
    }),
    ("ramp-up-not-steady", Severity::Doubt, "still not steady after 5 s", |data| {
        quiet::found(data, RampUpEnd::Bound, 0);
    }),
    ("measure-extended", Severity::Note, "30 s instead of 20 s", |data| {
        quiet::found(data, RampUpEnd::Steady, 10);
    }),
    ("too-short-to-judge", Severity::Note, "5 s were measured", |data| {
        data.record.load.as_mut().unwrap().window.measure_s = 5;
    }),
    ("few-effective-seconds", Severity::Note, "30 measured seconds are worth", |data| {
        set_committed(data, 5..35, |t| if (t / 8) % 2 == 0 { 1000 } else { 1010 });
    }),
    ("memory-pressure", Severity::Doubt, "waited for memory in 20 % of the measurement", |data| {
        for tick in data.ticks.iter_mut().filter(|tick| tick.values.contains_key("host.psi.io.some")) {
            tick.values.insert("host.psi.memory.some", 0.2);
        }
    }),
    ("slow-clocksource", Severity::Note, "the clock source is hpet", |data| {
        fact(data, "clocksource", "hpet");
    }),
    ("cpu-frequency-varies", Severity::Note, "the governor is powersave", |data| {
        fact(data, "cpu_governor", "powersave");
    }),
    ("unfair-clients", Severity::Note, "between 0 and 7500", |data| {
        data.record.done.as_mut().unwrap().measured_by_client = vec![7500, 0, 7500, 0, 7500, 0, 7500, 0];
    }),
    ("connection-lost", Severity::Void, "1 client lost the connection, first at 12 s: 57P01", |data| {
        data.events.push(event(12.0, EventKind::ConnectionLost, "57P01"));
    }),
    (
        "connection-lost",
        Severity::Doubt,
        "20 connections lost and made again, as asked, of 8 clients",
        |data| {
            data.record.case.workload.on_disconnect = OnLostConnection::Reconnect;
            data.record.done.as_mut().unwrap().n_lost = 20;
            (0..10).for_each(|_| data.events.push(event(12.0, EventKind::ConnectionLost, "57P01")));
        },
    ),
    ("connection-lost", Severity::Void, "every client", |data| {
        data.record.done.as_mut().unwrap().ending = LoadEnding::ConnectionsLost;
        data.record.done.as_mut().unwrap().clients_lost = 8;
    }),
    ("connection-lost", Severity::Void, "2 clients were aborted: client 0 aborted: end of script", |data| {
        let done = data.record.done.as_mut().unwrap();
        done.clients_lost = 2;
        done.errors.insert("script".to_string(), 2);
        done.messages.insert("script".to_string(), "client 0 aborted: end of script".to_string());
    }),
    ("message-limit", Severity::Void, "1 client ended: a row has 3 MB", |data| {
        data.events.push(event(12.0, EventKind::LimitExceeded, "a row has 3 MB, the limit is 1 MiB"));
    }),
    ("protocol-broken", Severity::Void, "1 client ended: the server sent ReadyForQuery", |data| {
        data.events.push(event(
            12.0,
            EventKind::ProtocolBroken,
            "the server sent ReadyForQuery without a request",
        ));
    }),
    ("server-restarted", Severity::Void, "at 12 s", |data| {
        data.events.push(event(12.0, EventKind::ServerRestarted, "postmaster restarted"));
    }),
    ("server-trouble", Severity::Void, "2 lines: PANIC: could not write", |data| {
        data.events.push(event(11.0, EventKind::ServerTrouble, "FATAL:  role \"x\" does not exist"));
        data.events
            .push(event(12.0, EventKind::ServerTrouble, "could not write to file").with("severity", "PANIC"));
    }),
    (
        "server-trouble",
        Severity::Void,
        "1 line: LOG: server process (PID 7) was terminated by signal 9",
        |data| {
            let text = "server process (PID 7) was terminated by signal 9: Killed";
            data.events.push(event(11.0, EventKind::ServerTrouble, text).with("severity", "LOG"));
        },
    ),
    ("server-trouble", Severity::Doubt, "1 line: FATAL: role", |data| {
        let fatal = event(11.0, EventKind::ServerTrouble, "role \"x\" does not exist");
        data.events.push(fatal.with("severity", "FATAL"));
    }),
    ("checkpoint-in-window", Severity::Doubt, "during 4 of 30", |data| checkpoint(data, 12.0, 16.0)),
    ("checkpoint-in-window", Severity::Doubt, "0.3 of 30 measured", |data| checkpoint(data, 12.0, 12.3)),
    ("checkpoint-in-window", Severity::Doubt, "first from -2 s", |data| checkpoint(data, -2.0, 8.0)),
    ("checkpoint-in-window", Severity::Doubt, "end not seen", |data| {
        data.events.push(event(30.0, EventKind::CheckpointStart, "checkpoint starting: wal"));
    }),
    ("checkpoint-in-window", Severity::Doubt, "counted", |data| {
        data.events.push(event(30.0, EventKind::CheckpointCounted, "1 timed checkpoint counted"));
    }),
    ("checkpoint-in-window", Severity::Note, "2 checkpoints", |data| {
        checkpoint(data, 12.0, 16.0);
        checkpoint(data, 22.0, 26.0);
    }),
    ("autovacuum-in-window", Severity::Doubt, "autovacuum of pgbench_tellers", tellers_vacuumed),
    ("autovacuum-in-window", Severity::Note, "autoanalyze of db.pg_catalog.pg_statistic", catalogs_analyzed),
    ("autovacuum-in-window", Severity::Doubt, "autovacuum of db.pg_catalog.pg_class", catalog_vacuumed),
    ("autovacuum-in-window", Severity::Doubt, "autoanalyze of db.public.pg_catalog", namesake_analyzed),
    ("autovacuum-in-window", Severity::Doubt, "1 time during", worker_seen),
    ("autovacuum-in-window", Severity::Doubt, "3 times during the measurement", |data| {
        let counted = |n| {
            let event = event(12.0, EventKind::AutovacuumCounted, "counted").with("what", "autovacuum");
            event.with("table", "db.public.t").with("n", n)
        };
        data.events
            .push(event(9.0, EventKind::AutovacuumSeen, "VACUUM public.t").with("table", "db.public.t"));
        data.events.push(counted(2));
        data.events.push(counted(1));
    }),
    ("drivers-differ", Severity::Doubt, "was 2.40 ms on driver `b` and 1.20 ms on driver `a`", |data| {
        drivers(data, |b| b.latency.sum *= 2.0);
    }),
    ("drivers-differ", Severity::Doubt, "was 2.40 ms on driver `b` and 1.20 ms on driver `", |data| {
        drivers(data, |b| b.latency.sum *= 2.0);
        // Two more that are as quick as the first.
        let quick = data.record.drivers[0].clone();
        data.record
            .drivers
            .extend(["c", "d"].map(|name| DriverRecord { name: name.into(), ..quick.clone() }));
    }),
    ("side-by-side", Severity::Note, "so did runs 4, 6 of target `b`; run 5 of target `c`", |data| {
        concurrent(data, &[(4, "b"), (5, "c"), (6, "b")], 0.01);
    }),
    ("side-by-side", Severity::Doubt, "6 and 1 more of target `b`, and pgdyno itself used 5.0 %", |data| {
        concurrent(data, &[(4, "b"), (5, "b"), (6, "b"), (7, "b")], 0.2);
    }),
    ("side-by-side", Severity::Note, "run 4 of target `b`", |data| {
        all_elsewhere(data);
        concurrent(data, &[(4, "b")], 0.2);
    }),
    ("drivers-apart", Severity::Doubt, "driver `b` began 200 ms late", |data| {
        drivers(data, |b| b.late_ns = 200_000_000);
    }),
    ("drivers-apart", Severity::Doubt, "the clock of driver `b` was set by 3.00 ms", |data| {
        drivers(data, |b| b.clock_set_ns = -3_000_000);
    }),
    ("drivers-apart", Severity::Note, "the clock of driver `b` is known to 4.00 ms", |data| {
        drivers(data, |b| b.clock_before = Some(clock_at(0, 4_000_000)));
    }),
    ("drivers-apart", Severity::Note, "the clock of driver `b` was not compared", |data| {
        drivers(data, |b| b.clock_after = None);
    }),
    ("drivers-apart", Severity::Note, "the clock of driver `b` moved by 2.00 ms", |data| {
        drivers(data, |b| b.clock_after = Some(clock_at(-2_000_000, 50_000)));
    }),
    ("foreign-sessions", Severity::Doubt, "used 7.5 % of the 4 processors", |data| {
        neighbour(data, 0.3, [0.0, 0.0], 0.0);
    }),
    ("foreign-sessions", Severity::Doubt, "on average 0.48 worked at a time", |data| {
        neighbour(data, 0.0, [0.0, 1.0], 0.0);
    }),
    ("foreign-sessions", Severity::Doubt, "made 500 transactions/s next to 1,000 of the load", |data| {
        neighbour(data, 0.0, [0.0, 0.0], 500.0);
    }),
    ("never-quiet", Severity::Doubt, "still busy after 10.003 s: sessions", |data| {
        settled(data, "false");
    }),
    ("cpu-quota", Severity::Doubt, "server's control group /db may use 50 % of a processor's time", |data| {
        quota(data, 9.0);
    }),
    ("cpu-quota", Severity::Note, "throttled in 0 of 300 periods", |data| quota(data, 0.0)),
    (
        "clock-changed",
        Severity::Doubt,
        "moved by -3599.990 s against the driver's, most of it by 21 s",
        |data| {
            clock(data, "server.clock_offset", -3600.0);
        },
    ),
    ("clock-changed", Severity::Note, "of the driver's machine was set by +0.500 s by 21 s", |data| {
        clock(data, "host.clock_offset", 0.5);
    }),
    ("not-durable", Severity::Doubt, "NOT DURABLE: fsync = off", |data| setting(data, "fsync", "off")),
    ("not-durable", Severity::Doubt, "full_page_writes = off", |data| {
        setting(data, "full_page_writes", "off")
    }),
    ("lost-with-machine", Severity::Note, "data on nvme1n1: EC2 instance store", |data| {
        mount(data, "data", "xfs", "rw");
        let mounts = &mut data.record.host.as_mut().unwrap().mounts;
        let kind = "nvme1n1: EC2 instance store".to_string();
        mounts.get_mut("data").unwrap().facts.insert("lost_with_machine".to_string(), kind);
    }),
    ("not-durable", Severity::Note, "synchronous_commit = off", |data| {
        setting(data, "synchronous_commit", "off")
    }),
    ("not-durable", Severity::Doubt, "NOT DURABLE: data at `/ram` is tmpfs", |data| {
        mount(data, "data", "tmpfs", "rw,size=1g")
    }),
    ("not-durable", Severity::Doubt, "wal at `/ram` is ramfs", |data| mount(data, "wal", "ramfs", "rw")),
    ("not-durable", Severity::Doubt, "overlay mounted volatile", |data| {
        mount(data, "data", "overlay", "rw,upperdir=/u,volatile");
    }),
    ("not-durable", Severity::Doubt, "is mounted with nobarrier", |data| {
        mount(data, "wal", "xfs", "rw,nobarrier,noatime");
    }),
    ("not-durable", Severity::Doubt, "is mounted with barrier=0", |data| {
        mount(data, "data", "ext4", "rw,barrier=0");
    }),
    ("statements-logged", Severity::Doubt, "log_statement = all", |data| {
        let all = Setting { value: "all".to_string(), source: "database".to_string() };
        data.record.server.as_mut().unwrap().settings.insert("log_statement".to_string(), all);
    }),
    ("not-durable", Severity::Doubt, "no WAL (`public.t`): a crash of the server empties", unlogged),
    ("not-durable", Severity::Note, "synchronous_commit = off in a script", |data| {
        script(data, "SET synchronous_commit = off;\nSELECT 1;\n");
    }),
    (
        "columns-unknown",
        Severity::Note,
        "the columns of 1 statement are not known: x.sql:2: no such table",
        |data| {
            let columns_unknown = vec!["x.sql:2: no such table".to_string()];
            data.record.survey = Some(ScriptSurvey { columns_unknown, ..ScriptSurvey::default() });
        },
    ),
    ("scripts-set", Severity::Note, "scripts set jit = off", |data| {
        script(data, "SET jit TO off;\nSELECT 1;\n")
    }),
    (
        "scripts-set",
        Severity::Note,
        "sessions of the load had jit = off at its end, which no script's text sets",
        |data| {
            in_sessions(data, "jit", "off", "session");
        },
    ),
    ("not-durable", Severity::Note, "synchronous_commit = off in the load's sessions", |data| {
        in_sessions(data, "synchronous_commit", "off", "client");
    }),
    ("statements-logged", Severity::Doubt, "log_statement = all", |data| {
        let none = Setting { value: "none".to_string(), source: "default".to_string() };
        data.record.server.as_mut().unwrap().settings.insert("log_statement".to_string(), none);
        in_sessions(data, "log_statement", "all", "session");
    }),
    ("telemetry-missing", Severity::Note, "settings of the load's sessions: connection lost", |data| {
        let silent = Some("connection lost while asking for settings".to_string());
        let sessions = SessionSettings { silent, ..SessionSettings::default() };
        data.record.done.as_mut().unwrap().sessions = Some(sessions);
    }),
    ("in-between", Severity::Note, "a pooler in session mode answers at a:1", |data| {
        route(data, "b:2", Some("session"))
    }),
    ("in-between", Severity::Note, "the server accepts at b:2", |data| route(data, "b:2", None)),
    ("behind-pooler", Severity::Note, "pgbouncer 1.18.0 in transaction mode with 5 connections", |data| {
        pooler(data, 5)
    }),
    ("pooler-idle-pool", Severity::Note, "up to 500 connections to the server for", |data| pooler(data, 500)),
    ("spread-load", Severity::Note, "(a:1, b:2); observed was a:1 alone", spread),
    ("no-statements", Severity::Void, "no statement in `tpcb`", |data| {
        data.record.ready.as_mut().unwrap().statements = vec![Vec::new()];
    }),
    ("rows-missed", Severity::Void, "read and changed no row of `t`", |data| touch(data, 0, 0)),
    ("rows-missed", Severity::Doubt, "0.00 rows of `t` changed per transaction", |data| {
        touch(data, 70_000, 1)
    }),
    ("few-pages", Severity::Doubt, "of 100000 pages (1", |data| update(data, EVEN, 200_000, 30.0)),
    ("few-pages", Severity::Note, "spread evenly, they would lie on 86466", |data| {
        update(data, "\\set a random_zipfian(1, 9, 1.1)\nUPDATE t SET b = 1 WHERE a = :a;", 200_000, 30.0);
    }),
    ("tables-altered", Severity::Void, "`pgbench_tellers` has no primary key", |data| {
        let table = [("table".to_string(), "logged".to_string())].into();
        let definitions = [("pgbench_tellers".to_string(), table)].into();
        data.record.fingerprint = Some(Fingerprint { definitions, ..Fingerprint::default() });
    }),
    ("assertions-on", Severity::Doubt, "debug_assertions", |data| setting(data, "debug_assertions", "on")),
    ("build-not-optimized", Severity::Doubt, "compiled with -O0", |data| cflags(data, "-O2 -Wall -O0")),
    ("build-not-optimized", Severity::Note, "compiled with -Os", |data| cflags(data, "-Os -fwrapv")),
    ("driver-not-optimized", Severity::Doubt, "optimization level 0", |data| built(data, "dev", "0")),
    ("driver-not-optimized", Severity::Note, "profile dev", |data| built(data, "dev", "1")),
    ("wal-policy", Severity::Doubt, "1 checkpoint in a measurement that should have none", |data| {
        data.record.case.wal = WalPolicy::NoCheckpoint;
        checkpoint(data, 10.0, 12.0);
    }),
    ("wal-policy", Severity::Doubt, "1 whole checkpoint in a measurement that should contain two", |data| {
        data.record.case.wal = WalPolicy::TwoCheckpoints;
        checkpoint(data, 3.0, 6.0);
        checkpoint(data, 10.0, 12.0);
    }),
    (
        "wal-policy",
        Severity::Note,
        "WAL requested a checkpoint; at 11.9 MiB/s of WAL no checkpoint needs",
        |data| {
            data.events.push(
                event(9.0, EventKind::CheckpointStart, "checkpoint starting: wal").with("cause", "wal"),
            );
            let ramp_up = data.record.phases.iter_mut().find(|phase| phase.phase == Phase::RampUp).unwrap();
            ramp_up.detail.insert("wal_mb_per_s".to_string(), "12.5".to_string());
        },
    ),
    (
        "database-changed",
        Severity::Note,
        "table public.diary is new, and 3 more differences; nothing was dropped because of it",
        |data| {
            restore_says(data, "database_changed", "table public.diary is new, and 3 more differences");
        },
    ),
    ("unlike-source", Severity::Note, "left out: 1 publication", |data| {
        restore_says(data, "unlike_source", "made without login: app; left out: 1 publication");
    }),
    ("page-cache-lost", Severity::Doubt, "lost 231 MiB to huge pages, and nothing read", |data| {
        data.record.case.prepare.prewarm = false;
        restore_says(data, "page_cache_lost_bytes", "242221056");
    }),
    ("disk-nearly-full", Severity::Doubt, "96 MB free", |data| {
        data.events.push(event(-3.0, EventKind::DiskNearlyFull, "96 MB free on `/data`"));
    }),
    ("foreign-cpu", Severity::Doubt, "from 30 s to 35 s; /proc did not show which ones", |data| {
        set_metric(data, "server.cpu.user", -10.0, 50.0, 0.73);
    }),
    ("foreign-cpu", Severity::Doubt, "; most by `cc1` 5.0 %, `make` 1.0 %", busy_compilers),
    ("foreign-cpu", Severity::Doubt, "at worst 26 % from 14 s to 19 s", |data| {
        set_metric(data, "server.cpu.user", 14.5, 19.5, 0.0);
    }),
    ("steal", Severity::Doubt, "2.0 % of processor time was stolen", |data| {
        set_metric(data, "host.cpu.steal", 14.5, 19.5, 0.02);
    }),
    ("driver-saturated", Severity::Doubt, "93 % of a processor", |data| {
        set_metric(data, "driver.thread_cpu", -10.0, 50.0, 0.93);
    }),
    ("driver-waits-for-cpu", Severity::Note, "25 % of the time", |data| {
        for tick in data.ticks.iter_mut().filter(|tick| tick.values.contains_key("driver.cpu.user")) {
            tick.values.insert("driver.run_delay", 0.25);
        }
    }),
    ("driver-paused", Severity::Doubt, "paused for 3.00 s", |data| {
        data.events.push(event(15.0, EventKind::DriverPaused, "driver paused").with("pause_s", 3));
    }),
    ("telemetry-missing", Severity::Note, "pg_stat_io: before 16", |data| {
        data.record.telemetry_unavailable.insert("pg_stat_io".to_string(), "before 16".to_string());
    }),
    ("telemetry-missing", Severity::Note, "host telemetry covers 0.0 %", |data| data.ticks.clear()),
    ("telemetry-missing", Severity::Note, "log went away", |data| {
        data.events.push(event(15.0, EventKind::TelemetryLost, "log went away"));
    }),
];

#[test]
fn the_quiet_run_has_no_finding() {
    assert_eq!(findings_of(quiet::run(1)), []);
}

#[test]
fn each_rule_of_a_run_finds_its_disturbance_with_its_figure() {
    for (id, severity, words, disturb) in RUN_TABLE {
        let mut data = quiet::run(1);
        disturb(&mut data);
        let findings = findings_of(data);
        let found = findings.iter().find(|finding| finding.id == *id);
        let found = found.unwrap_or_else(|| panic!("{id} is not among {findings:#?}"));
        let is_bounded = found.effect.is_some();
        assert_eq!(is_bounded, *severity == Severity::Doubt && BOUNDED.contains(id), "{id}: {found:?}");
        let expected = if is_bounded { Severity::Note } else { *severity };
        assert_eq!(found.severity, expected, "{id}: {}", found.evidence);
        assert!(found.evidence.contains(words), "{id}: `{}` lacks `{words}`", found.evidence);
        // Some also name the rows of doctor.
        assert!(found.advice.starts_with(rule(id).unwrap().advice), "{id}: {}", found.advice);
    }
}

#[test]
fn a_file_system_that_keeps_its_data_is_durable_and_another_machine_is_not_judged() {
    let check = |fs_type: &str, options: &str, is_local: bool| {
        let mut data = quiet::run(1);
        mount(&mut data, "data", fs_type, options);
        mount(&mut data, "results", "tmpfs", "rw");
        data.record.server_is_local = is_local;
        let found = findings_of(data).into_iter().find(|finding| finding.id == "not-durable");
        assert_eq!(found, None, "{fs_type} {options}");
    };
    check("ext4", "rw,barrier=1,relatime", true);
    check("overlay", "rw,upperdir=/volatile", true);
    check("tmpfs", "rw", false);
}

/// What does not weigh, or not within the measure.
const SILENT: &[Disturb] = &[
    |data| checkpoint(data, 1.0, 4.5),
    |data| checkpoint(data, 35.5, 40.0),
    |data| data.events.push(event(-20.0, EventKind::ConnectionLost, "before the load")),
    |data| data.events.push(event(-20.0, EventKind::ServerRestarted, "before the load")),
    |data| {
        data.events.push(event(-1.0, EventKind::ServerTrouble, "FATAL:  the database system is starting up"))
    },
    |data| data.events.push(event(3.0, EventKind::AutovacuumSeen, "in the ramp-up")),
    |data| data.events.push(event(-3.0, EventKind::TelemetryLost, "server statistics: not yet up")),
    |data| set_metric(data, "server.cpu.user", -10.0, 4.0, 0.0),
    |data| set_committed(data, 0..5, |_| 100),
    |data| {
        data.record.case.workload.kind = model::experiment::case::WorkloadKind::TpcbSelect;
        checkpoint(data, 12.0, 16.0);
    },
    |data| pace(data, Pace::Constant { rate_per_s: 1006.0 }),
    // A monitoring agent, and one that was seen once.
    |data| neighbour(data, 0.05, [0.0, 0.0], 5.0),
    |data| {
        neighbour(data, 0.0, [0.0, 0.0], 0.0);
        data.ticks[62].values.insert("server.foreign_working", 9.0);
    },
    // Starts of parallel workers count as transactions of the load's database.
    |data| workers(data, "server.load_workers"),
    |data| workers(data, "database.parallel_workers"),
    // Autovacuum that looks for work each second.
    |data| {
        neighbour(data, 0.0, [0.0, 0.0], 25.0);
        let naptime = Setting { value: "1s".to_string(), source: "database".to_string() };
        let server = data.record.server.as_mut().unwrap();
        server.settings.insert("autovacuum_naptime".to_string(), naptime);
    },
    // Of a script that ends transactions on its own, nobody knows how many.
    |data| {
        neighbour(data, 0.0, [0.0, 0.0], 0.0);
        data.record.load.as_mut().unwrap().scripts[0].source = "CALL p();".to_string();
        more_commits(data);
    },
    |data| {
        neighbour(data, 0.0, [0.0, 0.0], 0.0);
        data.record.load.as_mut().unwrap().scripts[0].source = "UPDATE t SET a = 1;\nVACUUM t;".to_string();
        more_commits(data);
    },
    |data| workers(data, "waits.processes[parallel worker/IO:DataFileRead]"),
    |data| settled(data, "true"),
    |data| update(data, EVEN, 200_000, 2_500.0),
    |data| {
        update(data, EVEN, 200_000, 0.1);
        data.record.touched.get_mut("t").unwrap().rows_inserted = 199_100;
    },
    |data| {
        update(data, EVEN, 200_000, 1.0);
        data.record.touched.get_mut("t").unwrap().rows_inserted = 200_000;
    },
    |data| {
        update(data, EVEN, 200_000, 1.0);
        data.record.phases.retain(|phase| phase.phase != Phase::Checkpoint);
    },
    // What a role or the log's whereabouts decide is no change by a script; nor is a value that the server has.
    |data| in_sessions(data, "statement_timeout", "5s", "user"),
    |data| in_sessions(data, "application_name", "psql", "session"),
    |data| in_sessions(data, "shared_buffers", "128MB", "session"),
    |data| clock(data, "server.clock_offset", 0.1),
    |data| clock(data, "host.clock_offset", -0.05),
    |data| cflags(data, "-O0 -Wall -O2 -g"),
    |data| cflags(data, "-Wall -O3"),
    |data| cflags(data, "-Wall -g"),
    |data| fact(data, "clocksource", "tsc"),
    |data| fact(data, "cpu_governor", "performance"),
    |data| {
        for tick in data.ticks.iter_mut().filter(|tick| tick.values.contains_key("host.psi.io.some")) {
            tick.values.insert("host.psi.memory.some", 0.01);
        }
    },
];

#[test]
fn a_disturbance_outside_the_measure_is_not_held_against_it() {
    for (i, disturb) in SILENT.iter().enumerate() {
        let mut data = quiet::run(1);
        disturb(&mut data);
        assert_eq!(findings_of(data), [], "disturbance {i}");
    }
}
