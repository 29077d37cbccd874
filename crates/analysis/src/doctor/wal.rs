//! Rows of WAL and checkpoints.

use model::run::rights::LZ4;

use super::truth::SERVER;
use super::{DoctorRow, DoctorVerdict, Examined, Look, RowVerdict, either, value};

/// A size that is wanted to be at least so large.
fn at_least(e: &Examined, name: &str, bytes_min: f64, fix: String) -> Look {
    let (text, bytes) = e.size(name)?;
    Ok(RowVerdict::unless(bytes >= bytes_min, DoctorVerdict::Advice, text).fix(fix))
}

const GIB: f64 = 1_073_741_824.0;

pub(super) const MAX_WAL_SIZE: DoctorRow = DoctorRow {
    id: "max-wal-size",
    wanted: "more than the load writes in a measurement: at least 8 GB",
    why: "Full WAL begins a checkpoint early, after which each page is logged whole again, in some runs more \
          often than in others.",
    source: "pgtune 7caef27: 8 GB; Callaghan's sysbench settings: 96 GB; study of releases: 100 GB; HammerDB study: 250 GB; EDB's study: 300 GB",
    fix: "alter system set max_wal_size = '8GB'; select pg_reload_conf(); if the file system of WAL has room",
    judge: |e| {
        either(at_least(
            e,
            "max_wal_size",
            8.0 * GIB,
            value::reload("max_wal_size", "8GB") + " if the file system has room",
        ))
    },
    ..SERVER
};

const CHECKPOINT_S_MIN: f64 = 900.0;

pub(super) const CHECKPOINT_TIMEOUT: DoctorRow = DoctorRow {
    id: "checkpoint-timeout",
    wanted: "at least 15 minutes, and no checkpoint in the middle of a short measurement",
    why: "Runs with and without a checkpoint differ, whatever the cases are.",
    source: "study of releases: 15 min; EDB's study, Callaghan's sysbench settings: 30 min; HammerDB study: 60 min",
    fix: "alter system set checkpoint_timeout = '15min'; select pg_reload_conf();",
    judge: |e| {
        either(e.setting("checkpoint_timeout").map(|text| {
            RowVerdict::unless(
                value::seconds(text).is_some_and(|s| s >= CHECKPOINT_S_MIN),
                DoctorVerdict::Advice,
                text,
            )
        }))
    },
    ..SERVER
};

pub(super) const CHECKPOINT_TARGET: DoctorRow = DoctorRow {
    id: "checkpoint-target",
    wanted: "checkpoint_completion_target = 0.9",
    why: "A hurried checkpoint writes its pages against the commits.",
    source: "PostgreSQL documentation: the default since 14; study of releases",
    fix: "alter system set checkpoint_completion_target = 0.9; select pg_reload_conf();",
    judge: |e| {
        either(e.setting("checkpoint_completion_target").map(|text| {
            RowVerdict::unless(
                text.parse::<f64>().is_ok_and(|target| target >= 0.9),
                DoctorVerdict::Advice,
                text,
            )
        }))
    },
    ..SERVER
};

pub(super) const WAL_BUFFERS: DoctorRow = DoctorRow {
    id: "wal-buffers",
    wanted: "16 MB",
    why: "Sessions that find no room write WAL themselves while they hold locks.",
    source: "pgtune 7caef27; PostgreSQL documentation: a 32nd of shared_buffers, 16 MB at most",
    fix: "alter system set wal_buffers = '16MB'; and restart the server",
    judge: |e| either(at_least(e, "wal_buffers", 16.0 * 1_048_576.0, value::restart("wal_buffers", "16MB"))),
    ..SERVER
};

pub(super) const WAL_COMPRESSION: DoctorRow = DoctorRow {
    id: "wal-compression",
    wanted: "on; lz4 from 15 on, if the build has it",
    why: "Most WAL is whole pages after a checkpoint: with 64 clients, compression took one server from \
          12,000 to 26,000 tps.",
    source: "study of releases: on; pgtune 7caef27: lz4 from 15; Callaghan's sysbench settings: off",
    fix: "alter system set wal_compression = on; select pg_reload_conf();",
    judge: |e| {
        let fix = value::reload("wal_compression", method(e));
        either(
            e.setting("wal_compression")
                .map(|text| RowVerdict::unless(text != "off", DoctorVerdict::Advice, text).fix(fix)),
        )
    },
    ..SERVER
};

/// The fastest method that the build has; one that does not say, or has no lz4, has pglz. Every role sees the setting's values.
fn method(e: &Examined) -> &'static str {
    if e.rights.get(LZ4).is_some_and(Result::is_ok) { "lz4" } else { "on" }
}
