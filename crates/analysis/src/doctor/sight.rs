//! What pgdyno can see and do on a server, and what stays silent without it.

use model::release::{Feature, privileges, statistics};
use model::run::server::ServerRecord;
use serde::Serialize;

use super::{Examined, HostOf, fix};

/// Something that pgdyno needs, and what is lost without it.
#[derive(Debug, Clone, Copy)]
pub struct Sight {
    /// Identifier: `all-stats`.
    pub id: &'static str,
    /// Name in words.
    pub what: &'static str,
    /// Loss without it.
    pub lost: &'static str,
    /// Findings and limiters that are silent, or see less, without it.
    pub silent: &'static [&'static str],
    /// How to get it.
    pub fix: &'static str,
    pub(crate) has: fn(&Examined, &ServerRecord) -> Result<String, String>,
}

/// One of them on a server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Sighted {
    /// Identifier.
    pub id: &'static str,
    /// Name in words.
    pub what: &'static str,
    /// Whether it is there.
    pub has: bool,
    /// How, or why not.
    pub found: String,
    /// Loss without it.
    pub lost: &'static str,
    /// Findings and limiters that are silent, or see less, without it.
    pub silent: &'static [&'static str],
    /// How to get it there.
    pub fix: String,
}

impl Sight {
    pub(super) fn seen(&self, examined: &Examined, server: &ServerRecord) -> Sighted {
        let found = (self.has)(examined, server);
        let has = found.is_ok();
        let found = found.unwrap_or_else(|reason| reason);
        let fix = fix::effective(self.id, self.fix.to_string(), examined);
        Sighted { id: self.id, what: self.what, has, found, lost: self.lost, silent: self.silent, fix }
    }
}

/// All of them.
pub const SIGHTS: &[Sight] = &[
    Sight {
        id: "host",
        what: "the server's host",
        lost: "processors, devices, memory and clock of the server's machine",
        silent: &[
            "foreign-cpu",
            "steal",
            "cpu-quota",
            "memory-pressure",
            "disk-nearly-full",
            "slow-clocksource",
            "cpu-frequency-varies",
            "quota",
            "server-cpu",
            "scheduling",
            "allowance-exceeded",
            "not-durable",
            "foreign-sessions",
            "cache-fit",
        ],
        fix: "run with --host ssh:HOST; an exporter (telemetry of a [[target]]) brings back server-cpu alone",
        has: |e, _| match e.host_of {
            HostOf::Server => Ok(e.host.hostname.clone()),
            _ => Err("it is not this machine, and no --host was given".to_string()),
        },
    },
    Sight {
        id: "server-log",
        what: "the server's log",
        lost: "panics and errors, and what checkpoints and vacuums did: counters only show that they were",
        silent: &["server-trouble", "wal-policy"],
        fix: "run with --host ssh:HOST (also ssh:localhost), as a user who may read the log",
        has: |e, _| match (e.host_of, e.missing.get("server.log")) {
            (HostOf::Server, None) => Ok("readable on its host; runs follow it with --host".to_string()),
            (HostOf::Server, Some(reason)) => Err(reason.clone()),
            _ => Err("the server's host is not seen".to_string()),
        },
    },
    Sight {
        id: "all-stats",
        what: "sessions of other roles (pg_monitor)",
        lost: "what others' sessions and vacuums wait for",
        silent: &["foreign-sessions", "autovacuum"],
        fix: "grant pg_monitor to ROLE, as a superuser does (10 and later)",
        has: |e, server| match server.unavailable.get("all_stats") {
            Some(reason) => Err(reason.clone()),
            None if !server.has(privileges::MONITORING_ROLES) => right(e, "superuser")
                .map_err(|_| "other users' activity is hidden: needs a superuser before 10".to_string()),
            None => Ok("visible".to_string()),
        },
    },
    Sight {
        id: "direct",
        what: "sessions that are those of the server",
        lost: "whose sessions are whose; in transaction mode nothing keeps another pgdyno away",
        silent: &["foreign-sessions"],
        fix: "connect to the server directly",
        has: |_, server| match server.route.as_ref().map(|route| route.pooler.as_ref()) {
            Some(Some(mode)) => Err(format!("a pooler in {mode} mode is in between")),
            Some(None) => Ok("no pooler is in between".to_string()),
            None => Err("not known: the server does not say where it accepts connections".to_string()),
        },
    },
    Sight {
        id: "wait-events",
        what: "waits for I/O (10 and later)",
        lost: "what sessions wait for while they read and write: it looks like work",
        silent: &["wal-volume", "data-read", "data-write", "memory", "standby", "waits-for-standby"],
        fix: "measure 10 or later",
        has: |_, server| since(server, statistics::IO_WAITS),
    },
    Sight {
        id: "wal-statistics",
        what: "pg_stat_wal (14 and later)",
        lost: "how many whole pages WAL holds",
        silent: &["checkpoint", "few-pages"],
        fix: "measure 14 or later",
        has: |_, server| since(server, statistics::WAL),
    },
    Sight {
        id: "io-statistics",
        what: "pg_stat_io (16 and later)",
        lost: "reads and writes by kind of process (server.io)",
        silent: &[],
        fix: "measure 16 or later",
        has: |_, server| since(server, statistics::IO),
    },
    Sight {
        id: "io-timing",
        what: "times of reads and writes (track_io_timing)",
        lost: "how long the server waited for its reads and writes (database.read_time, server.io.read_time)",
        silent: &[],
        fix: "alter system set track_io_timing = on; select pg_reload_conf();",
        has: |e, _| right(e, "io-timing"),
    },
    Sight {
        id: "statement-statistics",
        what: "pg_stat_statements",
        lost: "calls, times, rows, blocks and WAL of each statement (statements.calls, statements.time)",
        silent: &[],
        fix: "if it is missing, add it to shared_preload_libraries and restart; create extension \
              pg_stat_statements in the database, as a superuser and in a schema of one; it slows short \
              statements (row statement-logging)",
        has: |e, _| right(e, "pg_stat_statements"),
    },
    Sight {
        id: "prewarm",
        what: "pg_prewarm",
        lost: "reading the data into memory before a run goes through scans",
        silent: &[],
        fix: "create extension pg_prewarm in the database, as a superuser; if it is missing, install contrib",
        has: |e, _| right(e, "pg_prewarm"),
    },
    Sight {
        id: "checkpoint",
        what: "the right to run CHECKPOINT",
        lost: "a checkpoint before each run: its first one comes when it comes",
        silent: &["few-pages"],
        fix: "grant pg_checkpoint to ROLE, as a superuser does (15 and later)",
        has: |_, server| lacking(server, "checkpoint"),
    },
    Sight {
        id: "create-tables",
        what: "the right to create tables",
        lost: "a workload's tables: only existing data can be measured (--no-restore)",
        silent: &[],
        fix: "grant usage, create on schema SCHEMA to ROLE, and name it with --schema",
        has: |e, _| right(e, "create-tables"),
    },
    Sight {
        id: "create-databases",
        what: "CREATEDB",
        lost: "pgdyno init --create-database, and restoring a database by a copy, which is faster",
        silent: &[],
        fix: "alter role ROLE createdb, as a superuser or a role with CREATEROLE",
        has: |e, _| right(e, "createdb"),
    },
    Sight {
        id: "all-settings",
        what: "all settings (pg_read_all_settings)",
        lost: "where data, log and libraries are",
        silent: &[],
        fix: "grant pg_read_all_settings to ROLE, which pg_monitor includes",
        has: |_, server| match server.data_directory {
            Some(_) => Ok("visible".to_string()),
            None => Err("data_directory is hidden from this role".to_string()),
        },
    },
    Sight {
        id: "superuser",
        what: "a superuser",
        lost: "whatever the rows above name",
        silent: &[],
        fix: "usually not needed: pg_monitor and pg_checkpoint are enough",
        has: |e, _| right(e, "superuser"),
    },
];

fn since(server: &ServerRecord, feature: Feature) -> Result<String, String> {
    let is_there = server.has(feature);
    is_there
        .then(|| "there".to_string())
        .ok_or_else(|| format!("exists since {}; this is {}", feature.first(), server.release()))
}

fn right(e: &Examined, name: &str) -> Result<String, String> {
    e.rights.get(name).cloned().unwrap_or_else(|| Err("not known".to_string()))
}

fn lacking(server: &ServerRecord, name: &str) -> Result<String, String> {
    server.unavailable.get(name).map_or_else(|| Ok("there".to_string()), |reason| Err(reason.clone()))
}
