//! Rows of what a number of this server is worth: durability, builds, the way to it.

use model::release::{programs, statistics};
use model::run::server::ServerRecord;

use super::host::HOST;
use super::{DoctorRow, DoctorVerdict, Examined, Look, RowScope, RowVerdict, either};
use crate::findings::level;

/// A row of the server.
pub(super) const SERVER: DoctorRow = DoctorRow { scope: RowScope::Server, ..HOST };

pub(super) const WRITABLE: DoctorRow = DoctorRow {
    id: "writable",
    wanted: "a primary",
    why: "A standby takes no writes: nothing can be loaded or restored, only reads of existing data \
          measured.",
    source: "PostgreSQL documentation, hot standby",
    fix: "name the primary, or measure reads of existing data: -w tpcb-select --no-restore --set \
          prepare.vacuum=false --set prepare.analyze=false",
    judge: |e| {
        if e.server.is_some_and(|server| server.in_recovery) {
            RowVerdict::new(DoctorVerdict::Void, "a standby")
        } else {
            RowVerdict::fine("a primary")
        }
    },
    ..SERVER
};

/// Sessions of a load with few clients, with what pgdyno itself needs.
const SESSIONS_MIN: f64 = 20.0;

pub(super) const FREE_SESSIONS: DoctorRow = DoctorRow {
    id: "free-sessions",
    wanted: "free connections for all clients (20 at least) and 4 for pgdyno",
    why: "Clients that get no connection fail the run.",
    source: "PostgreSQL documentation, max_connections; study of releases, EDB's study: 1000",
    fix: "alter system set max_connections = 1000; and restart the server",
    judge: |e| either(free_sessions(e)),
    ..SERVER
};

fn free_sessions(e: &Examined) -> Look {
    let most = e.number_setting("max_connections")?;
    // Older releases do not have the second one.
    let reserved = e.number_setting("superuser_reserved_connections")?
        + e.number_setting("reserved_connections").unwrap_or(0.0);
    let used = f64::from(e.n_sessions.ok_or_else(|| RowVerdict::unseen("sessions are not visible"))?);
    let free = most - reserved - used;
    let of_pooler = match e.server.and_then(ServerRecord::pooler) {
        Some(_) => {
            " at the server; a pooler lets in max_client_conn clients, and in session mode works for as many as pool_size says"
        }
        None => "",
    };
    let found = format!("{:.0} of {most:.0} are free{of_pooler}", free.max(0.0));
    let verdict = if free < 1.0 { DoctorVerdict::Void } else { DoctorVerdict::Advice };
    Ok(RowVerdict::unless(free >= SESSIONS_MIN, verdict, found))
}

pub(super) const ROUTE: DoctorRow = DoctorRow {
    id: "route",
    wanted: "the server itself, without a pooler or a proxy",
    why: "What is in between queues and forwards each message: throughput and latency are those of both. In \
          transaction mode, session settings do not stay, another pgdyno can join, and nobody knows whose \
          session is whose.",
    source: "PostgreSQL's protocol: BackendKeyData against pg_backend_pid()",
    fix: "connect to the server directly, unless what is in between belongs to the question",
    judge: route,
    ..SERVER
};

fn route(e: &Examined) -> RowVerdict {
    let Some(route) = e.server.and_then(|server| server.route.as_ref()) else {
        return RowVerdict::unseen("the server does not say where it accepts connections");
    };
    let at = format!("{}, and the server accepts at {}", route.reached, route.answered);
    match &route.pooler {
        Some(mode) => {
            RowVerdict::new(DoctorVerdict::Advice, format!("a pooler in {mode} mode answers at {at}"))
        }
        None if route.is_forwarded() => {
            RowVerdict::new(DoctorVerdict::Advice, format!("a proxy answers at {at}"))
        }
        None => RowVerdict::fine(route.words()),
    }
}

/// A setting that is `on` where numbers are worth what they seem to be.
fn on(e: &Examined, name: &str, otherwise: DoctorVerdict) -> RowVerdict {
    either(e.setting(name).map(|value| RowVerdict::unless(value != "off", otherwise, value)))
}

pub(super) const FSYNC: DoctorRow = DoctorRow {
    id: "fsync",
    wanted: "on",
    why: "Without it, a commit skips its most expensive part, and a crash of the machine can destroy the \
          data.",
    source: "PostgreSQL documentation, runtime-config-wal",
    fix: "alter system set fsync = on; select pg_reload_conf();",
    judge: |e| on(e, "fsync", DoctorVerdict::Doubt),
    ..SERVER
};

pub(super) const FULL_PAGE_WRITES: DoctorRow = DoctorRow {
    id: "full-page-writes",
    wanted: "on",
    why: "Without it, there is less WAL after a checkpoint, and a crash can leave half of a page.",
    source: "PostgreSQL documentation, runtime-config-wal",
    fix: "alter system set full_page_writes = on; select pg_reload_conf();",
    judge: |e| on(e, "full_page_writes", DoctorVerdict::Doubt),
    ..SERVER
};

pub(super) const SYNCHRONOUS_COMMIT: DoctorRow = DoctorRow {
    id: "synchronous-commit",
    wanted: "on, unless the question is how much it costs",
    why: "Commits are acknowledged before they are durable: a crash loses some.",
    source: "PostgreSQL documentation, runtime-config-wal; HammerDB study: off",
    fix: "alter system set synchronous_commit = on; select pg_reload_conf();",
    judge: |e| on(e, "synchronous_commit", DoctorVerdict::Advice),
    ..SERVER
};

pub(super) const CHECKSUMS: DoctorRow = DoctorRow {
    id: "checksums",
    wanted: "on since 18; the same on all servers that are compared",
    why: "Each page read or written is summed, and hint bits are logged: servers with and without differ.",
    source: "PostgreSQL documentation, data checksums: the default since 18",
    fix: "stop the server and run pg_checksums --enable",
    judge: |e| {
        let sums = e.server.is_none_or(|server| server.data_checksums);
        let has_them = e.server.is_some_and(|server| server.has(programs::CHECKSUMS_BY_DEFAULT));
        let found = if sums { "on" } else { "off" };
        RowVerdict::unless(sums || !has_them, DoctorVerdict::Advice, found)
    },
    ..SERVER
};

pub(super) const ASSERTIONS: DoctorRow = DoctorRow {
    id: "assertions",
    wanted: "a build without assertions",
    why: "They slow some code paths down much more than others.",
    source: "PostgreSQL documentation, --enable-cassert",
    fix: "measure a build without --enable-cassert",
    judge: |e| {
        either(
            e.setting("debug_assertions")
                .map(|value| RowVerdict::unless(value != "on", DoctorVerdict::Doubt, value)),
        )
    },
    ..SERVER
};

pub(super) const BUILD: DoctorRow = DoctorRow {
    id: "build",
    wanted: "a build with -O2",
    why: "Code optimized for size or debugging differs from packages, by another amount in each path.",
    source: "study of packagers: -17 to +18 %",
    fix: "measure the packages, or a build by pgdyno (server.source)",
    judge: build,
    ..SERVER
};

fn build(e: &Examined) -> RowVerdict {
    if e.server.is_some_and(|server| !server.has(statistics::BUILD)) {
        return RowVerdict::unseen("the view pg_config exists since 9.6");
    }
    let flags = e.server.and_then(|server| server.build.get("CFLAGS"));
    let Some(flags) = flags else { return RowVerdict::unseen("this role cannot read pg_config") };
    match level(flags) {
        Some("-O0") => RowVerdict::new(DoctorVerdict::Doubt, "-O0"),
        Some(level @ ("-Os" | "-Oz" | "-Og" | "-O1" | "-O")) => RowVerdict::new(DoctorVerdict::Advice, level),
        Some(level) => RowVerdict::fine(level),
        None => RowVerdict::fine("no level is named"),
    }
}
