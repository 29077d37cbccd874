//! Rows of what the server records: too much costs, too little hides.

use super::truth::SERVER;
use super::{DoctorRow, DoctorVerdict, Examined, RowVerdict, either};
use crate::finding::Severity;
use crate::findings::statement_records;

pub(super) const STATEMENT_LOGGING: DoctorRow = DoctorRow {
    id: "statement-logging",
    wanted: "no log line, plan or trace of each statement",
    why: "Each statement also writes to the log or updates a shared table, which slows short transactions most.",
    source: "PostgreSQL documentation, runtime-config-logging; postgresqltuner 288bce8: log_statement = none",
    fix: "turn it off for the measurement, unless the server always works with it or you want what it shows \
          (pg_stat_statements: calls, times and WAL of each statement)",
    judge: |e| {
        let found = e.server.map(statement_records).unwrap_or_default();
        let worst = found.iter().map(|(_, severity)| *severity).max();
        let texts: Vec<&str> = found.iter().map(|(text, _)| text.as_str()).collect();
        match worst {
            None => RowVerdict::fine("none"),
            Some(Severity::Note) => RowVerdict::new(DoctorVerdict::Advice, texts.join(", ")),
            Some(_) => RowVerdict::new(DoctorVerdict::Doubt, texts.join(", ")),
        }
    },
    ..SERVER
};

pub(super) const LOG_HOSTNAME: DoctorRow = DoctorRow {
    id: "log-hostname",
    wanted: "off",
    why: "Each connection waits for a name server.",
    source: "postgresqltuner 288bce8; PostgreSQL documentation",
    fix: "alter system set log_hostname = off; select pg_reload_conf();",
    judge: |e| is(e, "log_hostname", &["off"]),
    ..SERVER
};

/// A setting with one of these values; anything else is worth advice.
fn is(e: &Examined, name: &str, values: &[&str]) -> RowVerdict {
    either(
        e.setting(name)
            .map(|value| RowVerdict::unless(values.contains(&value), DoctorVerdict::Advice, value)),
    )
}

pub(super) const TRACK_IO_TIMING: DoctorRow = DoctorRow {
    id: "track-io-timing",
    wanted: "on",
    why: "It shows how long reads and writes took (database.read_time, server.io.read_time).",
    source: "PostgreSQL documentation; its cost is that of the clock (row clock)",
    fix: "alter system set track_io_timing = on; select pg_reload_conf();",
    judge: |e| is(e, "track_io_timing", &["on"]),
    ..SERVER
};

pub(super) const TRACK_WAL_IO_TIMING: DoctorRow = DoctorRow {
    id: "track-wal-io-timing",
    wanted: "on (since 14)",
    why: "It shows how long writing and flushing WAL took.",
    source: "PostgreSQL documentation",
    fix: "alter system set track_wal_io_timing = on; select pg_reload_conf();",
    judge: |e| is(e, "track_wal_io_timing", &["on"]),
    ..SERVER
};

pub(super) const LOG_CHECKPOINTS: DoctorRow = DoctorRow {
    id: "log-checkpoints",
    wanted: "on",
    why: "The log says when and why a checkpoint began, and what it wrote; counters do not.",
    source: "PostgreSQL documentation: the default since 15; pgBadger",
    fix: "alter system set log_checkpoints = on; select pg_reload_conf();",
    judge: |e| is(e, "log_checkpoints", &["on"]),
    ..SERVER
};

pub(super) const LOG_LOCK_WAITS: DoctorRow = DoctorRow {
    id: "log-lock-waits",
    wanted: "on",
    why: "The log says who waited for whom.",
    source: "PostgreSQL documentation; pgBadger",
    fix: "alter system set log_lock_waits = on; select pg_reload_conf();",
    judge: |e| is(e, "log_lock_waits", &["on"]),
    ..SERVER
};

pub(super) const LOG_AUTOVACUUM: DoctorRow = DoctorRow {
    id: "log-autovacuum",
    wanted: "log_autovacuum_min_duration = 0",
    why: "The log says what a vacuum in the measurement did and how long it took.",
    source: "PostgreSQL documentation; pgBadger",
    fix: "alter system set log_autovacuum_min_duration = 0; select pg_reload_conf();",
    judge: |e| is(e, "log_autovacuum_min_duration", &["0"]),
    ..SERVER
};

pub(super) const LOG_TEMP_FILES: DoctorRow = DoctorRow {
    id: "log-temp-files",
    wanted: "0",
    why: "The log says which statement spilled to disk.",
    source: "PostgreSQL documentation; pgBadger",
    fix: "alter system set log_temp_files = 0; select pg_reload_conf();",
    judge: |e| is(e, "log_temp_files", &["0"]),
    ..SERVER
};
