//! The steps before each run: as asked, where each may be a factor, and as a case has them.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::experiment::levels::Levels;
use crate::text::word_enum::words;

/// `[prepare]`: the steps before each run, with the levels of their keys.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PrepareSection {
    /// Restore the initial state of the data.
    pub restore: Levels<bool>,
    /// How to restore it on a server by URL.
    #[serde(skip_serializing_if = "is_auto")]
    pub restore_by: Levels<RestoreBy>,
    /// Compute checksums over all rows after the restore: proves more, reads everything.
    #[serde(skip_serializing_if = "is_off")]
    pub checksums: Levels<bool>,
    /// `VACUUM` the workload's tables.
    pub vacuum: Levels<bool>,
    /// `ANALYZE` the workload's tables.
    pub analyze: Levels<bool>,
    /// Read the workload's relations into memory.
    pub prewarm: Levels<bool>,
    /// `CHECKPOINT`.
    pub checkpoint: Levels<bool>,
    /// Wait until the server is quiet.
    pub settle: Levels<bool>,
    /// Keep a snapshot of the loaded data of a server run by pgdyno; without it the data is loaded again.
    #[serde(skip_serializing_if = "is_true")]
    pub snapshot: bool,
    /// Directory for snapshots on another device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot_directory: Option<PathBuf>,
    /// Space for the WAL of a server run by pgdyno, instead of what `max_wal_size` allows: `10GB`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wal_headroom: Option<String>,
}

impl Default for PrepareSection {
    fn default() -> PrepareSection {
        PrepareSection::from(Prepare::default())
    }
}

impl From<Prepare> for PrepareSection {
    fn from(prepare: Prepare) -> PrepareSection {
        let Prepare { restore, restore_by, checksums, vacuum, analyze, prewarm, checkpoint, settle } =
            prepare;
        PrepareSection {
            restore: Levels::one(restore),
            restore_by: Levels::one(restore_by),
            checksums: Levels::one(checksums),
            vacuum: Levels::one(vacuum),
            analyze: Levels::one(analyze),
            prewarm: Levels::one(prewarm),
            checkpoint: Levels::one(checkpoint),
            settle: Levels::one(settle),
            snapshot: true,
            snapshot_directory: None,
            wal_headroom: None,
        }
    }
}

fn is_true(yes: &bool) -> bool {
    *yes
}

fn is_auto(levels: &Levels<RestoreBy>) -> bool {
    levels.all() == [RestoreBy::Auto]
}

fn is_off(levels: &Levels<bool>) -> bool {
    levels.all() == [false]
}

impl PrepareSection {
    /// The boolean keys with their levels.
    pub fn steps(&self) -> [(&'static str, &Levels<bool>); 7] {
        let PrepareSection {
            restore,
            restore_by: _,
            checksums,
            vacuum,
            analyze,
            prewarm,
            checkpoint,
            settle,
            snapshot: _,
            snapshot_directory: _,
            wal_headroom: _,
        } = self;
        [
            ("restore", restore),
            ("checksums", checksums),
            ("vacuum", vacuum),
            ("analyze", analyze),
            ("prewarm", prewarm),
            ("checkpoint", checkpoint),
            ("settle", settle),
        ]
    }

    /// The same keys, mutable.
    pub fn steps_mut(&mut self) -> [&mut Levels<bool>; 7] {
        let PrepareSection {
            restore,
            restore_by: _,
            checksums,
            vacuum,
            analyze,
            prewarm,
            checkpoint,
            settle,
            snapshot: _,
            snapshot_directory: _,
            wal_headroom: _,
        } = self;
        [restore, checksums, vacuum, analyze, prewarm, checkpoint, settle]
    }
}

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
    #[serde(skip_serializing_if = "is_true")]
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
}
