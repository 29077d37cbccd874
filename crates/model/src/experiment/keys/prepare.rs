//! `[prepare]`: the steps before each run.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::option::KeyOption;
use super::row::{KeyKind, of_place, row};
use super::section;
use crate::experiment::keys::levels::Levels;
use crate::experiment::prepare::RestoreBy;

section! {
    /// `[prepare]`: the steps before each run.
    #[serde(deny_unknown_fields, default)]
    prepare: PrepareSection {
        /// restore the data to their initial state before each run
        RESTORE = restore: Levels<bool> = Levels::one(true),
            row(KeyKind::Flag, "`true`")
                .given_by(KeyOption::switch("no-restore", false, "Measure the data as it is: load nothing, and restore nothing between runs").both("Use the data as it is, as for `run`"));

        /// record checksums of all rows after the restore
        #[serde(skip_serializing_if = "Levels::are_off")]
        CHECKSUMS = checksums: Levels<bool> = Levels::one(false),
            row(KeyKind::Flag, "`false`");

        /// `VACUUM` the workload's tables
        VACUUM = vacuum: Levels<bool> = Levels::one(true),
            row(KeyKind::Flag, "`true`");

        /// `ANALYZE` the workload's tables
        ANALYZE = analyze: Levels<bool> = Levels::one(true),
            row(KeyKind::Flag, "`true`");

        /// read the workload's relations into memory
        PREWARM = prewarm: Levels<bool> = Levels::one(true),
            row(KeyKind::Flag, "`true`");

        /// run `CHECKPOINT`
        CHECKPOINT = checkpoint: Levels<bool> = Levels::one(true),
            row(KeyKind::Flag, "`true`");

        /// wait until the server is idle, 10 s at most
        SETTLE = settle: Levels<bool> = Levels::one(true),
            row(KeyKind::Flag, "`true`");

        /// how data are restored on a server by URL: `template` (copy of a database), `load` (load the tables again),
        /// `auto` (see *Restore*)
        #[serde(skip_serializing_if = "is_auto")]
        RESTORE_BY = restore_by: Levels<RestoreBy> = Levels::one(RestoreBy::Auto),
            row(KeyKind::Words(&RestoreBy::WORDS), "`auto`");

        /// keep a snapshot of an embedded server's loaded data; otherwise the data are loaded before each run
        #[serde(skip_serializing_if = "is_true")]
        SNAPSHOT = snapshot: bool = true,
            row(KeyKind::Flag, "`true`");

        /// existing directory on another device to keep the snapshot in
        #[serde(skip_serializing_if = "Option::is_none")]
        SNAPSHOT_DIRECTORY = snapshot_directory: Option<PathBuf>,
            of_place(KeyKind::Text, "next to the data");

        /// disk space to reserve for the WAL of an embedded server, such as `"10GB"`
        #[serde(skip_serializing_if = "Option::is_none")]
        WAL_HEADROOM = wal_headroom: Option<String>,
            row(KeyKind::Text, "1.25 times the `max_wal_size` of `server.settings` (without one, of the `1GB` to which ours may be lowered), plus `wal_keep_size`");
    }
}

fn is_true(yes: &bool) -> bool {
    *yes
}

fn is_auto(levels: &Levels<RestoreBy>) -> bool {
    levels.all() == [RestoreBy::Auto]
}
