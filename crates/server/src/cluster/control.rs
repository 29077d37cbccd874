//! The facts of `pg_control` that matter here. Their offsets at the head of the file are the same from 9.4 to 19
//! (PostgreSQL's `catalog/pg_control.h`: system_identifier, pg_control_version, catalog_version_no, state, time, checkPoint).

use std::path::Path;

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};

use crate::user::account::Account;

/// `DB_SHUTDOWNED`: shut down with a checkpoint.
const SHUT_DOWN: u32 = 1;
/// `PG_CONTROL_FILE_SIZE` is 8192.
const FILE_BYTES_MAX: u64 = 64 << 10;

/// The file in a data directory.
const PATH: &str = "global/pg_control";

/// The facts read from a cluster's control file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ControlFile {
    /// Identifies the cluster and its copies.
    pub system_identifier: u64,
    /// Format of the catalogs; it distinguishes directories of servers in a tablespace.
    pub catalog_version: u32,
    /// Whether it was shut down cleanly, so that a start needs no recovery.
    pub is_shut_down: bool,
    /// Where the record of the last checkpoint begins in the WAL: after a clean shutdown, nothing follows it.
    pub checkpoint: u64,
}

impl ControlFile {
    /// Reads the control file of a data directory of `account`.
    pub(crate) fn read(data_dir: &Path, account: &Account) -> Result<ControlFile> {
        let bytes = read(data_dir, account)?;
        ControlFile::parse(&bytes).with_context(|| format!("`{}` is damaged", data_dir.join(PATH).display()))
    }

    fn parse(bytes: &[u8]) -> Option<ControlFile> {
        let system_identifier = u64::from_ne_bytes(bytes.get(0..8)?.try_into().ok()?);
        let number = |at: usize| Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        let (catalog_version, state) = (number(12)?, number(16)?);
        let checkpoint = u64::from_ne_bytes(bytes.get(32..40)?.try_into().ok()?);
        Some(ControlFile { system_identifier, catalog_version, is_shut_down: state == SHUT_DOWN, checkpoint })
    }
}

/// A digest of the control file of a data directory of `account`. A server writes the file when it starts.
pub(crate) fn digest(data_dir: &Path, account: &Account) -> Result<String> {
    Ok(format!("{:x}", Sha256::digest(read(data_dir, account)?)))
}

fn read(data_dir: &Path, account: &Account) -> Result<Vec<u8>> {
    let path = data_dir.join(PATH);
    account.act(|| files::read(&path, FILE_BYTES_MAX)).with_context(|| format!("read `{}`", path.display()))
}
