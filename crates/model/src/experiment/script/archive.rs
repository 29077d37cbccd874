//! `workload.restore_from`: an archive of `pg_dump -Fc` or `-Fd` that is the data of a workload, as an experiment file
//! names it and as a plan records it. Crate `dataset` reads its head, crate `server` restores it.

use std::path::PathBuf;

use serde::{Deserialize, Deserializer, Serialize};

use crate::experiment::case::WorkloadKind;
use crate::experiment::script::either::text_or_table;

/// Settings that `pg_dump` and `pg_restore` set for themselves and that an older server does not have (`_doSetFixedOutputState` and
/// `_selectTableAccessMethod` in pg_backup_archiver.c). psql and `pg_restore` say so and go on: no object and no row depends on them.
pub const SET_BY_DUMPS: [&str; 4] = [
    "transaction_timeout",
    "idle_in_transaction_session_timeout",
    "row_security",
    "default_table_access_method",
];

/// `workload.restore_from` before and after the archive was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum RestoreFrom {
    /// A file or directory, relative to the experiment file.
    Named(PathBuf),
    /// An archive that must still be the same when it is restored.
    Known(Box<Archive>),
}

/// An archive of `pg_dump`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Archive {
    /// Name as given.
    pub name: String,
    /// Absolute path.
    pub file: PathBuf,
    /// How it is stored.
    pub format: ArchiveFormat,
    /// Size of all its files, bytes.
    pub bytes: u64,
    /// Whether its rows are compressed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_compressed: bool,
    /// Distinguishes it from other archives: SHA-256, in hexadecimal, of its size and of its first and last 32 MiB; of a
    /// directory: of its table of contents, and the names and sizes of its files.
    pub identity: String,
    /// Database that was dumped.
    pub database: String,
    /// Version of the server that it was dumped from.
    pub server_version: String,
    /// Version of `pg_dump` that wrote it.
    pub dump_version: String,
    /// When it was written, in the local time of the machine that wrote it: `2026-11-24 19:00:00`.
    pub made: String,
    /// The workload whose tables it must contain, for a built-in one: `tpcb`, `tpcc` or `tproc-c`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tables_of: Option<WorkloadKind>,
}

/// Formats of archives that `pg_restore` can restore over several sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ArchiveFormat {
    /// One file, by `pg_dump -Fc`.
    Custom,
    /// A directory with one file for each table, by `pg_dump -Fd`.
    Directory,
}

impl Archive {
    /// Its origin in words: `restored from shop.dump (pg_dump 15.18 of database shop, made 2026-11-24 19:00:00)`.
    pub fn words(&self) -> String {
        let Archive { name, dump_version, database, made, .. } = self;
        format!("restored from {name} (pg_dump {dump_version} of database {database}, made {made})")
    }
}

impl RestoreFrom {
    fn named(text: &str) -> Result<RestoreFrom, String> {
        if text.is_empty() {
            Err("an empty name names no archive".to_string())
        } else {
            Ok(RestoreFrom::Named(PathBuf::from(text)))
        }
    }
}

impl<'de> Deserialize<'de> for RestoreFrom {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let expected = "the name of a file or directory that pg_dump made";
        let known = |archive: Archive| Ok(RestoreFrom::Known(archive.into()));
        text_or_table(deserializer, expected, RestoreFrom::named, known)
    }
}
