//! The protocol between pgdyno and its eyes on a server's host (`pgdyno watch`), one JSON value per line.
//!
//! To the eyes: a greeting (see `load::hello`), a [`WatchOrder`], then [`WatchCommand`]s. From them: the lines of
//! `load::drive::DriverLine` that concern them: `hello`, `watching`, then ticks, events and `missing`, at last
//! `watched`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::telemetry::host::HostRecord;

/// How the eyes find the server on their host.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct WatchOrder {
    /// Format version, [`crate::FORMAT`].
    pub format: u32,
    /// The server process of a session; its parent is the postmaster.
    pub backend: Option<Backend>,
    /// The data directory, if our user may know it.
    pub data_directory: Option<PathBuf>,
    /// The server's log, if the server says where it is.
    pub log_path: Option<PathBuf>,
    /// Whether counters of processor and kernel are read over the server's processes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub counters: bool,
    /// Where the host's cloud says that it will take the host away, if that is to be asked from `go` on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spot_notice: Option<String>,
}

/// A server process, as the server describes it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Backend {
    /// Process id (pg_backend_pid).
    pub pid: u32,
    /// Time since its session began, seconds: another process may have this id on another machine.
    pub age_s: f64,
}

/// A later line to the eyes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WatchCommand {
    /// Observe from now on; ticks end at this time plus or minus whole seconds, nanoseconds since the Unix epoch.
    Go(u64),
    /// Whose backends are whose, from now on.
    Backends(Backends),
    /// Observe no more, and end.
    Stop,
    /// Answer at once with a `Pong` of this number.
    Ping(u64),
}

/// Process ids of the server's backends, by whom they serve.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Backends {
    /// Clients of the load.
    pub load: BTreeSet<i32>,
    /// Other sessions of pgdyno, and those of a load that takes turns with this one.
    pub own: BTreeSet<i32>,
    /// Sessions of anybody else, as of the observer's last look.
    pub foreign: BTreeSet<i32>,
}

impl Backends {
    /// Whether a session is pgdyno's.
    pub fn is_ours(&self, pid: i32) -> bool {
        self.load.contains(&pid) || self.own.contains(&pid)
    }
}

/// The host as the eyes found it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Watching {
    /// The machine.
    pub host: HostRecord,
    /// Process id of the postmaster, if it was found.
    pub postmaster_pid: Option<u32>,
    /// Whether the server's log is read.
    pub follows_log: bool,
    /// What cannot be observed, with the reason.
    pub missing: BTreeMap<String, String>,
}

/// The eyes have ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Watched {
    /// Ticks that were observed.
    pub n_ticks: u64,
}
