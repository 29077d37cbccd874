//! The steps before each run: as asked, where each may be a factor, and as a case has them.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

pub use crate::experiment::keys::prepare::PrepareSection;
use crate::text::word_enum::words;

/// The steps before a run. Every step is recorded, also if it is skipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Prepare {
    /// Restore the initial state of the data.
    pub restore: bool,
    /// How to restore it on a server by URL.
    #[serde(skip_serializing_if = "RestoreBy::is_auto")]
    pub restore_by: RestoreBy,
    /// Compute checksums over all rows after the restore: proves more, reads everything.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub checksums: bool,
    /// `VACUUM` the workload's tables.
    pub vacuum: bool,
    /// `ANALYZE` the workload's tables.
    pub analyze: bool,
    /// Read the workload's relations into memory.
    pub prewarm: bool,
    /// `CHECKPOINT`.
    pub checkpoint: bool,
    /// Wait until the server is quiet.
    pub settle: bool,
}

impl Default for Prepare {
    fn default() -> Prepare {
        Prepare {
            restore: true,
            restore_by: RestoreBy::Auto,
            checksums: false,
            vacuum: true,
            analyze: true,
            prewarm: true,
            checkpoint: true,
            settle: true,
        }
    }
}

/// Where the initial state of a server run by pgdyno is kept, and how much WAL to provide for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SpaceSpec {
    /// Keep a snapshot of the loaded data; without it the data is loaded again.
    #[serde(skip_serializing_if = "is_kept")]
    pub snapshot: bool,
    /// Directory for snapshots; by default next to the data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot_directory: Option<PathBuf>,
    /// Space for the WAL that the user guarantees, bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wal_headroom_bytes: Option<u64>,
}

impl Default for SpaceSpec {
    fn default() -> SpaceSpec {
        SpaceSpec { snapshot: true, snapshot_directory: None, wal_headroom_bytes: None }
    }
}

fn is_kept(is_kept: &bool) -> bool {
    *is_kept
}

impl SpaceSpec {
    /// Whether all values are defaults.
    pub fn is_default(&self) -> bool {
        *self == SpaceSpec::default()
    }
}

words! {
    /// How to restore the data of a server by URL; our own servers are restored from snapshots.
    RestoreBy, "a way to restore" {
        /// Copy a template if server and user allow it, else load again.
        #[default]
        Auto = "auto",
        /// Copy a template, or fail.
        Template = "template",
        /// Load again.
        Load = "load",
    }
}

impl RestoreBy {
    /// Whether it is the default.
    pub fn is_auto(&self) -> bool {
        *self == RestoreBy::Auto
    }

    /// Whether a template may be copied.
    pub fn may_copy(self) -> bool {
        match self {
            RestoreBy::Auto | RestoreBy::Template => true,
            RestoreBy::Load => false,
        }
    }

    /// Whether nothing but a copy will do.
    pub fn must_copy(self) -> bool {
        match self {
            RestoreBy::Template => true,
            RestoreBy::Auto | RestoreBy::Load => false,
        }
    }
}
