//! Log lines of PostgreSQL 9.6 to 18 and the events they become.

use super::*;
use crate::server::log::Assembler;

fn events(text: &str) -> Vec<Event> {
    let mut assembler = Assembler::default();
    let mut entries: Vec<LogEntry> = text.lines().filter_map(|line| assembler.push(line, 7)).collect();
    entries.extend(assembler.flush());
    entries.iter().filter_map(|entry| event(entry, 7)).collect()
}

/// Checks kind and facts of the only event of `text`.
fn check(text: &str, kind: EventKind, facts: &[(&str, &str)]) {
    let events = events(text);
    let [event] = events.as_slice() else { panic!("{text}: {events:?}") };
    assert_eq!(event.kind, kind, "{text}");
    for (name, value) in facts {
        assert_eq!(event.detail.get(*name).map(String::as_str), Some(*value), "{name} of {event:?}");
    }
}

#[test]
fn checkpoints_of_all_versions_are_recognised() {
    use EventKind::{CheckpointEnd, CheckpointStart};
    check("1795165034.123 [7] LOG:  checkpoint starting: xlog", CheckpointStart, &[("cause", "wal")]);
    check("LOG:  checkpoint starting: time", CheckpointStart, &[("cause", "time")]);
    check("LOG:  restartpoint starting: wal", CheckpointStart, &[("cause", "wal")]);
    check(
        "LOG:  checkpoint starting: immediate force wait",
        CheckpointStart,
        &[("cause", "immediate force wait")],
    );
    // 9.6
    check(
        "LOG:  checkpoint complete: wrote 1639 buffers (10.0%); 0 transaction log file(s) added, 0 removed, \
         1 recycled; write=0.109 s, sync=0.011 s, total=0.130 s; sync files=17, longest=0.005 s, average=0.000 s; \
         distance=22029 kB, estimate=22030 kB",
        CheckpointEnd,
        &[
            ("buffers", "1639"),
            ("write_s", "0.109"),
            ("sync_s", "0.011"),
            ("total_s", "0.130"),
            ("sync_files", "17"),
            ("longest_sync_s", "0.005"),
            ("distance_bytes", "22557696"),
            ("estimate_bytes", "22558720"),
        ],
    );
    // 15
    check(
        "LOG:  checkpoint complete: wrote 44 buffers (0.3%); 0 WAL file(s) added, 0 removed, 0 recycled; \
         write=0.004 s, sync=0.002 s, total=0.012 s; sync files=11, longest=0.001 s, average=0.001 s; distance=260 kB, \
         estimate=260 kB",
        CheckpointEnd,
        &[("buffers", "44"), ("total_s", "0.012"), ("distance_bytes", "266240")],
    );
    // 18
    check(
        "LOG:  checkpoint complete: wrote 3 buffers (0.0%), wrote 2 SLRU buffers; 0 WAL file(s) added, 0 removed, \
         0 recycled; write=269.951 s, sync=0.002 s, total=270.012 s; sync files=3, longest=0.001 s, average=0.001 s; \
         distance=1 kB, estimate=1 kB; lsn=0/1772DD8, redo lsn=0/1772D80",
        CheckpointEnd,
        &[("buffers", "3"), ("write_s", "269.951"), ("total_s", "270.012"), ("distance_bytes", "1024")],
    );
}

#[test]
fn maintenance_of_all_versions_is_recognised() {
    use EventKind::{AutoanalyzeEnd, AutovacuumEnd};
    // 9.6
    check(
        "LOG:  automatic vacuum of table \"db.public.t\": index scans: 0\n\tpages: 0 removed, 442 remain\n\t\
         buffer usage: 912 hits, 0 misses, 4 dirtied\n\tavg read rate: 0.000 MB/s\n\t\
         system usage: CPU 0.00s/0.01u sec elapsed 0.02 sec",
        AutovacuumEnd,
        &[("table", "db.public.t"), ("elapsed_s", "0.02")],
    );
    check(
        "LOG:  automatic analyze of table \"db.public.t\" system usage: CPU 0.00s/0.05u sec elapsed 0.13 sec",
        AutoanalyzeEnd,
        &[("table", "db.public.t"), ("elapsed_s", "0.13")],
    );
    // 12
    check(
        "LOG:  automatic aggressive vacuum to prevent wraparound of table \"db.pg_toast.x\": index scans: 1\n\t\
         system usage: CPU: user: 1.01 s, system: 0.20 s, elapsed: 3.25 s",
        AutovacuumEnd,
        &[("table", "db.pg_toast.x"), ("elapsed_s", "3.25"), ("aggressive", "true")],
    );
    check(
        "LOG:  automatic analyze of table \"db.public.t\" system usage: CPU: user: 0.05 s, system: 0.01 s, \
         elapsed: 0.50 s",
        AutoanalyzeEnd,
        &[("elapsed_s", "0.50")],
    );
    // 15 and 18
    check(
        "LOG:  automatic analyze of table \"db.public.t\"\n\tdelay time: 1.5 ms\n\tavg read rate: 1.0 MB/s\n\t\
         buffer usage: 1 hits\n\tsystem usage: CPU: user: 0.01 s, system: 0.00 s, elapsed: 0.04 s",
        AutoanalyzeEnd,
        &[("table", "db.public.t"), ("elapsed_s", "0.04")],
    );
}

#[test]
fn trouble_is_distinguished_from_normal_messages() {
    use EventKind::{ServerLog, ServerTrouble};
    for (line, expected) in [
        ("LOG:  server process (PID 4711) was terminated by signal 9: Killed", Some(ServerTrouble)),
        ("LOG:  terminating any other active server processes", Some(ServerTrouble)),
        ("LOG:  all server processes terminated; reinitializing", Some(ServerTrouble)),
        (
            "LOG:  database system was interrupted; last known up at 2026-11-20 08:57:14 UTC",
            Some(ServerTrouble),
        ),
        (
            "LOG:  database system was not properly shut down; automatic recovery in progress",
            Some(ServerTrouble),
        ),
        ("FATAL:  sorry, too many clients already", Some(ServerTrouble)),
        (
            "PANIC:  could not write to file \"pg_wal/xlogtemp.5\": No space left on device",
            Some(ServerTrouble),
        ),
        ("ERROR:  could not extend file \"base/1/2\": No space left on device", Some(ServerTrouble)),
        ("FATAL:  the database system is starting up", Some(ServerLog)),
        ("FATAL:  terminating autovacuum process due to administrator command", Some(ServerLog)),
        ("LOG:  background worker \"logical replication launcher\" (PID 9) exited with exit code 1", None),
        ("ERROR:  canceling autovacuum task", Some(ServerLog)),
        ("WARNING:  there is no transaction in progress", Some(ServerLog)),
        ("LOG:  checkpoints are occurring too frequently (9 seconds apart)", Some(ServerLog)),
        ("LOG:  database system is ready to accept connections", Some(ServerLog)),
        ("LOG:  process 5 still waiting for ShareLock on transaction 7 after 1000.1 ms", Some(ServerLog)),
        ("LOG:  process 5 acquired ShareLock on transaction 7 after 1000.1 ms", None),
        ("LOG:  connection received: host=[local]", None),
        ("LOG:  duration: 12.5 ms  statement: select 1", None),
        ("NOTICE:  table \"t\" does not exist, skipping", None),
        ("DEBUG1:  was terminated", None),
        ("cp: cannot create regular file", Some(ServerLog)),
    ] {
        let kinds: Vec<EventKind> = events(line).iter().map(|event| event.kind).collect();
        assert_eq!(kinds, Vec::from_iter(expected), "{line}");
    }
}

#[test]
fn details_are_kept_and_passwords_are_not() {
    let text = "1795165034.123 [7] ERROR:  duplicate key\n1795165034.123 [7] DETAIL:  Key (id)=(1)\n\
        1795165034.123 [7] STATEMENT:  alter role x PASSWORD 'y'";
    check(text, EventKind::ServerLog, &[("detail", "Key (id)=(1)"), ("severity", "ERROR"), ("pid", "7")]);
    let event = &events(text)[0];
    assert!(!event.detail.contains_key("statement"));
    assert_eq!(event.t_unix_ns, 1_795_165_034_123_000_000);
    assert_eq!(events("LOG:  checkpoint starting: time")[0].t_unix_ns, 7);
}
