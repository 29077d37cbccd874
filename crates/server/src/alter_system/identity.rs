//! Which server a journal is of: another one may answer at the same address, after a failover, behind a balancer of standbys,
//! or because an address was given to somebody else.

use std::collections::BTreeMap;
use std::fs;
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use model::release::{Release, functions};
use serde::{Deserialize, Serialize};
use wire::Session;

use super::journal::{ChangedSetting, SettingsJournal, Standing};
use super::state::{self, Files};
use crate::database::facts::ask;

/// What tells one server from another.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerIdentity {
    /// Identifies the cluster; copies of its disk and its standbys have the same.
    pub system_identifier: String,
    /// The server's data directory.
    pub data_directory: String,
    /// Whether it is a standby, or restores from an archive.
    #[serde(default)]
    pub is_in_recovery: Option<bool>,
    /// The timeline that it writes, in hexadecimal digits; none in recovery, which may follow another one.
    #[serde(default)]
    pub timeline: Option<String>,
    /// Its own address of the connection; none over a Unix socket.
    #[serde(default)]
    pub address: Option<String>,
    /// Where its data directory lies in its file system: what is restored in its place lies elsewhere. None of a server of another
    /// machine, or into which we cannot look.
    #[serde(default)]
    pub inodes: Option<String>,
}

/// Another server answers; in words, what differs.
#[derive(Debug, thiserror::Error)]
#[error(
    "another server than the one whose settings were changed answers at this address ({0}): nothing is changed on it; \
     name the other one itself (`pgdyno clean --server URL`); if that finds nothing, put back its settings by hand and remove the journal"
)]
pub(super) struct Another(String);

impl ServerIdentity {
    /// That of the server of a session.
    ///
    /// # Errors
    /// When the server does not tell who it is.
    pub(super) fn read(session: &mut Session) -> Result<ServerIdentity> {
        let release = Release::new(session.server_version_num());
        let (file, written) = (release.name(functions::WAL_FILE), release.name(functions::WAL_WRITTEN));
        let walfile = format!("pg_catalog.{file}(pg_catalog.{written}())");
        // What only a primary can be asked is evaluated on a primary alone.
        let sql = format!(
            "select pg_catalog.pg_is_in_recovery()::text as recovery, pg_catalog.host(pg_catalog.inet_server_addr()) as address, \
             case when not pg_catalog.pg_is_in_recovery() then pg_catalog.substr({walfile}, 1, 8) end as timeline"
        );
        let rows = session.query(&sql).context("the server does not tell whether it is a standby")?;
        let data_directory = state::data_directory(session)?;
        Ok(ServerIdentity {
            system_identifier: state::system_identifier(session)?,
            inodes: inodes(session, &data_directory),
            data_directory,
            is_in_recovery: rows.get(0, "recovery").map(|answer| answer == "true"),
            timeline: rows.get(0, "timeline").map(str::to_string),
            address: rows.get(0, "address").map(str::to_string),
        })
    }

    /// What differs apart from the address, in words; none if nothing does. What one of the two does not know is no difference.
    fn difference(&self, now: &ServerIdentity) -> Option<String> {
        let role = |is_in_recovery: bool| if is_in_recovery { "a standby" } else { "a primary" }.to_string();
        let pairs = [
            ("system identifier", Some(&self.system_identifier), Some(&now.system_identifier)),
            ("data directory", Some(&self.data_directory), Some(&now.data_directory)),
            ("role", self.is_in_recovery.map(role).as_ref(), now.is_in_recovery.map(role).as_ref()),
            ("timeline", self.timeline.as_ref(), now.timeline.as_ref()),
            ("place of the data on disk", self.inodes.as_ref(), now.inodes.as_ref()),
        ]
        .map(|(what, before, now)| (what, before.cloned(), now.cloned()));
        pairs.into_iter().find_map(|(what, before, now)| differs(what, before?, now?))
    }

    /// Whether the server of a session may be this one by what it tells every role: it has the same role in replication.
    pub(super) fn could_be(&self, session: &mut Session) -> Result<bool> {
        let now = ask(session, "select pg_catalog.pg_is_in_recovery()::text")?;
        Ok(self.is_in_recovery.is_none_or(|before| before == (now == "true")))
    }

    /// Whether both have one data directory and one address. All loopback addresses are one; over a Unix socket there is none.
    pub(super) fn is_at_one_place_with(&self, other: &ServerIdentity) -> bool {
        let is_here = |address: &Option<String>| {
            address.as_ref().is_none_or(|address| address.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback()))
        };
        let is_one = self.address == other.address || (is_here(&self.address) && is_here(&other.address));
        is_one && self.difference(other).is_none()
    }

    fn moved(&self, now: &ServerIdentity) -> Option<String> {
        differs("address", self.address.clone()?, now.address.clone()?)
    }
}

/// The numbers of the data directory and of a file in it that no server writes. The device is left out: its number may change when
/// the machine starts.
fn inodes(session: &mut Session, data_directory: &str) -> Option<String> {
    let pid: u32 = ask(session, "select pg_catalog.pg_backend_pid()").ok()?.parse().ok()?;
    // A process of another machine or container may by chance have a number that is used here, but does not work in this directory.
    let works_in = PathBuf::from(format!("/proc/{pid}/cwd"));
    let number = |path: &Path| fs::metadata(path).map(|facts| facts.ino()).ok();
    if fs::read_link(&works_in).ok()? != fs::canonicalize(data_directory).ok()? {
        return None;
    }
    Some(format!("{}/{}", number(&works_in)?, number(&works_in.join("PG_VERSION"))?))
}

fn differs(what: &str, before: String, now: String) -> Option<String> {
    (before != now).then(|| format!("{what} `{now}` instead of `{before}`"))
}

/// Fails with [`Another`] unless the server of `session` is the one of the journal. A server may have got another address: it is
/// the same if it has the entries that the journal says.
pub(super) fn check(session: &mut Session, journal: &SettingsJournal) -> Result<()> {
    let now = ServerIdentity::read(session)?;
    if let Some(difference) = journal.server.difference(&now) {
        return Err(Another(difference).into());
    }
    let Some(moved) = journal.server.moved(&now) else { return Ok(()) };
    let files = state::files(session, &journal.server.data_directory)?;
    if has_entries(&journal.settings, &files) { Ok(()) } else { Err(Another(moved).into()) }
}

/// As [`check`], for a server that was just restarted, which may have got another address by that.
pub(super) fn check_restarted(session: &mut Session, journal: &mut SettingsJournal) -> Result<()> {
    let now = ServerIdentity::read(session)?;
    if let Some(difference) = journal.server.difference(&now) {
        return Err(Another(difference).into());
    }
    journal.server = now;
    Ok(())
}

/// Whether at least one entry is ours, and none is somebody else's.
fn has_entries(settings: &BTreeMap<String, ChangedSetting>, files: &Files) -> bool {
    let standings = || settings.iter().map(|(name, entry)| entry.standing(files.entry(name)));
    standings().any(|standing| standing == Standing::Ours)
        && standings().all(|standing| standing != Standing::Foreign)
}

/// Seconds since 1970 by the server's clock, which no time zone of a session changes.
pub(super) fn clock(session: &mut Session) -> Result<f64> {
    seconds(session, "pg_catalog.clock_timestamp()")
}

/// When the postmaster was started, as [`clock`].
pub(super) fn postmaster_start(session: &mut Session) -> Result<f64> {
    seconds(session, "pg_catalog.pg_postmaster_start_time()")
}

fn seconds(session: &mut Session, when: &str) -> Result<f64> {
    let answer = ask(session, &format!("select extract(epoch from {when})"))?;
    answer.parse().with_context(|| format!("the server gives `{answer}` for a time"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_at_another_address_is_at_another_place() {
        let at = |address: Option<&str>| ServerIdentity {
            system_identifier: "7".to_string(),
            data_directory: "/data".to_string(),
            address: address.map(str::to_string),
            ..ServerIdentity::default()
        };
        let check = |a, b, expected| assert_eq!(at(a).is_at_one_place_with(&at(b)), expected, "{a:?} {b:?}");
        check(Some("10.0.0.1"), Some("10.0.0.1"), true);
        check(Some("10.0.0.1"), Some("10.0.0.2"), false);
        check(Some("127.0.0.1"), Some("::1"), true);
        check(Some("127.0.0.1"), None, true);
        check(Some("10.0.0.1"), None, false);
        let elsewhere = ServerIdentity { data_directory: "/other".to_string(), ..at(None) };
        assert!(!at(None).is_at_one_place_with(&elsewhere));
    }

    #[test]
    fn another_server_at_the_same_address_is_recognized() {
        let primary = ServerIdentity {
            system_identifier: "7".to_string(),
            data_directory: "/data".to_string(),
            is_in_recovery: Some(false),
            timeline: Some("00000001".to_string()),
            address: Some("10.0.0.1".to_string()),
            inodes: Some("1/2".to_string()),
        };
        let check = |now: ServerIdentity, expected: Option<&str>| {
            let difference = primary.difference(&now).or_else(|| primary.moved(&now));
            assert_eq!(difference.as_deref(), expected, "{now:?}");
        };
        let same = || primary.clone();
        check(same(), None);
        check(ServerIdentity { address: None, ..same() }, None);
        check(ServerIdentity { inodes: None, ..same() }, None);
        check(
            ServerIdentity { inodes: Some("1/3".to_string()), ..same() },
            Some("place of the data on disk `1/3` instead of `1/2`"),
        );
        check(ServerIdentity { is_in_recovery: None, timeline: None, ..same() }, None);
        check(
            ServerIdentity { system_identifier: "8".to_string(), ..same() },
            Some("system identifier `8` instead of `7`"),
        );
        check(
            ServerIdentity { data_directory: "/other".to_string(), ..same() },
            Some("data directory `/other` instead of `/data`"),
        );
        check(
            ServerIdentity { is_in_recovery: Some(true), timeline: None, ..same() },
            Some("role `a standby` instead of `a primary`"),
        );
        check(
            ServerIdentity { timeline: Some("00000002".to_string()), ..same() },
            Some("timeline `00000002` instead of `00000001`"),
        );
        check(
            ServerIdentity { address: Some("10.0.0.2".to_string()), ..same() },
            Some("address `10.0.0.2` instead of `10.0.0.1`"),
        );
    }

    #[test]
    fn a_server_with_another_address_is_known_by_what_was_changed_there() {
        let entry = ChangedSetting {
            entry: None,
            effective: "4096".to_string(),
            needs_restart: false,
            set: vec!["8MB".to_string()],
        };
        let settings = BTreeMap::from(
            [("a", &entry), ("b", &entry)].map(|(name, entry)| (name.to_string(), entry.clone())),
        );
        let check = |auto: &[(&str, &str)], expected: bool| {
            let auto = auto.iter().map(|(name, value)| (name.to_string(), vec![value.to_string()])).collect();
            let files = Files { auto, ..Files::default() };
            assert_eq!(has_entries(&settings, &files), expected, "{files:?}");
        };
        check(&[("a", "8MB"), ("b", "8MB")], true);
        check(&[("a", "8MB")], true);
        check(&[], false);
        check(&[("a", "8MB"), ("b", "9MB")], false);
        assert!(!has_entries(&BTreeMap::new(), &Files::default()));
    }
}
