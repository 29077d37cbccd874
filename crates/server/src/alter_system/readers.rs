//! Who else reads the WAL of a server: standbys, slots, archives, backups. What is written there reaches them, and stays when the
//! setting is as before.
//!
//! They are ruled out if the server writes too little WAL for any of them (`wal_level = minimal`), or if our user may see all of
//! its sessions and there is no sign of one. A standby that is not connected leaves a slot, a role, or WAL that is kept for it. What
//! our user cannot see is unknown, and then nothing is ruled out.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use model::release::{Feature, Release, functions, privileges, settings};
use wire::Session;

use super::state::Now;
use crate::database::facts::{in_recovery, is_so, is_superuser};

/// Settings that a standby has to follow (<https://www.postgresql.org/docs/current/hot-standby.html>): each change is in the WAL,
/// and a standby with a lower value pauses or stops when it gets there, as does whoever restores from an archive.
pub(super) const FOLLOWED: [&str; 5] = [
    "max_connections",
    "max_locks_per_transaction",
    "max_prepared_transactions",
    "max_wal_senders",
    "max_worker_processes",
];

/// Methods with which a server compresses pages in its WAL that another build of the same release may lack.
const METHODS: [&str; 2] = ["lz4", "zstd"];

/// Why a setting must not get a value, as long as somebody else may read the WAL of this server. Of each: name, value, and what it
/// is now. A standby writes no WAL of its own.
///
/// # Errors
/// When the server fails.
pub(super) fn problems<'a>(
    session: &mut Session,
    wishes: impl Iterator<Item = (&'a str, &'a str, &'a Now)>,
) -> Result<Vec<String>> {
    let harms: BTreeSet<(&str, &str)> =
        wishes.filter_map(|(name, value, now)| Some((name, harm(name, value, now)?))).collect();
    if harms.is_empty() || in_recovery(session) {
        return Ok(Vec::new());
    }
    let signs = signs(session)?;
    if signs.is_empty() {
        return Ok(Vec::new());
    }
    let signs = signs.join(", ");
    Ok(harms
        .into_iter()
        .map(|(name, harm)| format!("server.settings.{name} {harm}; that is not ruled out here: {signs}"))
        .collect())
}

/// Why `value` of a setting that is `now` must not reach others who read this server's WAL; none if it may.
fn harm(name: &str, value: &str, now: &Now) -> Option<&'static str> {
    match name {
        _ if FOLLOWED.contains(&name) => now.kind.is_higher(value, &now.value).then_some(
            "is not raised: a standby, and whoever restores from this server's archive, stops at a value that is higher than \
             its own",
        ),
        "wal_compression" => METHODS.iter().any(|method| value.trim().eq_ignore_ascii_case(method)).then_some(
            "is not set to a method that a standby, or whoever restores from this server's archive, may lack: it would stop at the \
             first page that it cannot read",
        ),
        _ => None,
    }
}

/// A question, and what follows if its answer is true.
struct Sign {
    sql: &'static str,
    /// Releases that know it.
    when: Feature,
    /// The words for what is there then.
    what: &'static str,
}

/// Whatever our user may ask about in any case. Numbers are compared as such: `0` is written in no unit.
const SIGNS: [Sign; 7] = [
    Sign {
        sql: "exists (select from pg_catalog.pg_replication_slots)",
        when: Feature::ALWAYS,
        what: "it has replication slots",
    },
    Sign {
        sql: "pg_catalog.current_setting('archive_mode') <> 'off'",
        when: Feature::ALWAYS,
        what: "it archives its WAL",
    },
    Sign {
        sql: "pg_catalog.current_setting('synchronous_standby_names') <> ''",
        when: Feature::ALWAYS,
        what: "synchronous_standby_names names standbys",
    },
    Sign {
        sql: "pg_catalog.current_setting('wal_keep_segments') <> '0'",
        when: settings::WAL_KEEP_SEGMENTS,
        what: "it keeps WAL for a standby (wal_keep_segments)",
    },
    Sign {
        sql: "pg_catalog.current_setting('wal_keep_size') <> '0'",
        when: settings::WAL_KEEP_SIZE,
        what: "it keeps WAL for a standby (wal_keep_size)",
    },
    Sign {
        sql: "pg_catalog.pg_is_in_backup()",
        when: functions::EXCLUSIVE_BACKUPS,
        what: "a backup is being made",
    },
    Sign {
        sql: "exists (select from pg_catalog.pg_roles where rolreplication and rolcanlogin and not rolsuper)",
        when: Feature::ALWAYS,
        what: "a role for standbys may log in (REPLICATION)",
    },
];

/// Each reason why others may read the WAL of this server, in words; none if that is ruled out.
///
/// # Errors
/// When the server fails.
fn signs(session: &mut Session) -> Result<Vec<String>> {
    if is_so(session, "select pg_catalog.current_setting('wal_level') = 'minimal'") {
        return Ok(Vec::new());
    }
    let release = Release::new(session.server_version_num());
    let mut found: Vec<String> = Vec::new();
    for sign in SIGNS.iter().filter(|sign| release.has(sign.when)) {
        let rows = session
            .query(&format!("select {}", sign.sql))
            .with_context(|| format!("cannot ask whether {}", sign.what))?;
        if rows.scalar() != Some("f") {
            found.push(sign.what.to_string());
        }
    }
    if !sees_all(session, release) {
        found.push("our user cannot see who else reads its WAL (grant pg_monitor)".to_string());
        return Ok(found);
    }
    // Standbys, pg_receivewal, and backups that are being made.
    let sql = "select coalesce(application_name, '') as name, coalesce(state, '') as state \
               from pg_catalog.pg_stat_replication limit 3";
    let rows = session.query(sql).context("cannot read pg_stat_replication")?;
    for row in 0..rows.len() {
        let text = |column: &str| rows.get(row, column).unwrap_or_default().to_string();
        found.push(format!("`{}` reads its WAL ({})", text("name"), text("state")));
    }
    Ok(found)
}

/// Whether rows of other users' sessions are shown to ours. Before there are roles for monitoring, `pg_stat_replication` shows others than
/// superusers nothing.
fn sees_all(session: &mut Session, release: Release) -> bool {
    is_superuser(session)
        || release.has(privileges::MONITORING_ROLES)
            && is_so(session, "select pg_catalog.pg_has_role('pg_read_all_stats', 'usage')")
}
