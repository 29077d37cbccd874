//! The server that a standby follows, as its configuration names it; and its promotion.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use model::release::{Release, functions};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use wire::Session;
use wire::conninfo::quoted;

use crate::cluster::{Cluster, SUPERUSER};
use crate::running::launch::OwnServer;
use crate::settings::{check_settings, configuration_text};

/// Its presence makes a server a standby (PostgreSQL 12 and later).
const SIGNAL: &str = "standby.signal";
/// The same with its settings, before 12.
const RECOVERY: &str = "recovery.conf";
/// Its presence makes a standby end recovery when its postmaster is signalled, in all releases.
const PROMOTE: &str = "promote";

/// A server that a standby follows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Upstream {
    /// `primary_conninfo`.
    pub conninfo: String,
    /// Its replication slot for this standby; without one, it keeps only what `wal_keep_size` says.
    pub slot: Option<String>,
}

impl Upstream {
    /// One of our servers, with its socket in this directory and with this port, followed under `name`.
    pub fn over_socket(directory: &Path, port: u16, name: &str, slot: Option<String>) -> Upstream {
        let host = quoted(&directory.to_string_lossy());
        let conninfo = format!("host={host} port={port} user={SUPERUSER} application_name={}", quoted(name));
        Upstream { conninfo, slot }
    }

    /// Writes the configuration of a standby's next start.
    ///
    /// # Errors
    /// When our own servers cannot have one of the settings, or a file cannot be written.
    pub(crate) fn write(&self, cluster: &Cluster, settings: &BTreeMap<String, String>) -> Result<()> {
        check_settings(settings)?;
        let slot = self.slot.iter().map(|slot| ("primary_slot_name", slot.clone()));
        let own = [("primary_conninfo", self.conninfo.clone())].into_iter().chain(slot);
        let own = own.map(|(name, value)| (name.to_string(), value));

        let data = cluster.data_dir();
        let mut settings = settings.clone();
        settings.insert("hot_standby".to_string(), "on".to_string());
        if Release::new(cluster.binaries.version_num).has(functions::STANDBY_SIGNAL) {
            settings.extend(own);
            cluster.write_owned(&data.join(SIGNAL), "")?;
        } else {
            let more = [("standby_mode", "on"), ("recovery_target_timeline", "latest")];
            let more = more.map(|(name, value)| (name.to_string(), value.to_string()));
            cluster.write_owned(&data.join(RECOVERY), &configuration_text(&own.chain(more).collect()))?;
        }
        cluster.write_settings(&settings)
    }
}

impl OwnServer {
    /// The directory of its unix socket and its port, where standbys of this machine reach it.
    pub fn upstream(&self, name: &str, slot: Option<String>) -> Upstream {
        Upstream::over_socket(self.socket_dir(), self.port(), name, slot)
    }

    /// Asks a standby to end recovery and become a primary. It is one when it takes writes.
    ///
    /// # Errors
    /// When it does not run, or refuses.
    pub fn promote(&self, cluster: &Cluster) -> Result<()> {
        if Release::new(cluster.binaries.version_num).has(functions::STANDBY_SIGNAL) {
            let mut session = Session::connect(&self.conninfo()).context("connect to the standby")?;
            let answer = session.query("select pg_catalog.pg_promote(false)::text")?;
            ensure!(answer.scalar() == Some("true"), "the standby does not take the request to promote it");
            return Ok(());
        }
        cluster.write_owned(&self.data_dir().join(PROMOTE), "")?;
        kill(Pid::from_raw(self.pid() as i32), Signal::SIGUSR1).context("promote the standby")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_in_an_odd_directory_is_quoted() {
        let upstream = Upstream::over_socket(Path::new("/tmp/it's \\ here"), 5432, "s1", None);
        assert_eq!(
            upstream.conninfo,
            r"host='/tmp/it\'s \\ here' port=5432 user=postgres application_name='s1'"
        );
    }
}
