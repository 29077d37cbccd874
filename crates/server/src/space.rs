//! Free space on a device, and the WAL that must fit into it.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::cluster::Cluster;
use crate::copy::tree_bytes;
use crate::defaults::{MAX_WAL_SIZE_BYTES, max_wal_bytes, wal_setting};
use crate::rights::Rights;

/// Smallest WAL that a default is lowered to: PostgreSQL's own default.
const MAX_WAL_BYTES_MIN: u64 = 1 << 30;

/// Bytes that this process may still write on the device of `path`, or of its nearest directory that exists.
pub fn free_bytes(path: &Path) -> Result<u64> {
    let existing = path.ancestors().find(|path| path.exists()).unwrap_or(Path::new("/"));
    let facts = nix::sys::statvfs::statvfs(existing)
        .with_context(|| format!("cannot tell the free space of `{}`", existing.display()))?;
    Ok(facts.blocks_available() as u64 * facts.fragment_size() as u64)
}

/// Refuses when `needed_bytes` would leave less than a twentieth of them free at `path`.
///
/// # Errors
/// Says how much is needed and how much is free.
pub fn require_space(path: &Path, needed_bytes: u64, purpose: &str) -> Result<()> {
    let free = free_bytes(path)?;
    ensure!(
        free >= needed_bytes.saturating_add(needed_bytes / 20),
        "{purpose} needs {} MB at `{}` but {} MB are free; free some space or use another directory",
        needed_bytes >> 20,
        path.display(),
        free >> 20
    );
    Ok(())
}

/// Space that the WAL may take: `max_wal_size` is a soft limit (PostgreSQL documentation, WAL Configuration), passed
/// while a checkpoint is still under way. The quarter is our convention.
pub fn wal_space_bytes(max_wal_bytes: u64) -> u64 {
    max_wal_bytes.saturating_add(max_wal_bytes / 4)
}

/// Sees to it that the WAL of a server with these `settings` does not fill the device that it is on: halves our
/// default, down to 1 GB, and refuses what the experiment has `chosen` when that does not fit.
///
/// # Errors
/// Says how much is needed and how much is free.
pub fn fit_wal(
    cluster: &Cluster,
    chosen: &BTreeMap<String, String>,
    settings: &mut BTreeMap<String, String>,
) -> Result<()> {
    let wal_dir = cluster.wal_dir();
    // What is there is used again.
    let room_bytes = free_bytes(&wal_dir)?.saturating_add(tree_bytes(&wal_dir, Rights::Of(&cluster.account)));
    fit_wal_into(room_bytes, cluster.binaries.version_num, chosen, settings)
        .with_context(|| format!("WAL directory `{}`", wal_dir.display()))
}

fn fit_wal_into(
    room_bytes: u64,
    version_num: u32,
    chosen: &BTreeMap<String, String>,
    settings: &mut BTreeMap<String, String>,
) -> Result<()> {
    let (name, _) = wal_setting(version_num, MAX_WAL_SIZE_BYTES);
    let is_chosen = chosen.keys().any(|present| present.eq_ignore_ascii_case(name));
    let mut max_bytes = MAX_WAL_SIZE_BYTES;
    while !is_chosen && max_bytes > MAX_WAL_BYTES_MIN && wal_space_bytes(max_bytes) > room_bytes {
        max_bytes /= 2;
        let (name, value) = wal_setting(version_num, max_bytes);
        settings.insert(name.to_string(), value);
    }
    // A value in a way that we do not read is the server's to judge.
    let Some(max_bytes) = max_wal_bytes(version_num, settings) else { return Ok(()) };
    let needed_bytes = wal_space_bytes(max_bytes);
    ensure!(
        needed_bytes <= room_bytes,
        "the WAL may grow to {} MB (max_wal_size and a quarter) but {} MB are free; free some space, lower \
         max_wal_size or give another wal_directory",
        needed_bytes >> 20,
        room_bytes >> 20
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::defaults::embedded_settings;

    #[test]
    fn our_default_of_the_wal_fits_the_device_and_a_choice_must() {
        let check = |version_num: u32,
                     chosen: &[(&str, &str)],
                     room_gb: f64,
                     expected: Result<(&str, &str), &str>| {
            let chosen = chosen.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
            let mut settings = embedded_settings(version_num, 16 << 30, 1, &chosen).unwrap();
            let room_bytes = (room_gb * (1u64 << 30) as f64) as u64;
            let fits = fit_wal_into(room_bytes, version_num, &chosen, &mut settings);
            match (fits, expected) {
                (Ok(()), Ok((name, value))) => assert_eq!(settings[name], value, "{room_gb} GB"),
                (Err(error), Err(text)) => assert!(error.to_string().contains(text), "{error}"),
                (fits, _) => panic!("{room_gb} GB: {fits:?}"),
            }
        };
        check(180_006, &[], 10.0, Ok(("max_wal_size", "8192MB")));
        check(180_006, &[], 9.9, Ok(("max_wal_size", "4096MB")));
        check(180_006, &[], 1.3, Ok(("max_wal_size", "1024MB")));
        check(180_006, &[], 1.2, Err("may grow to 1280 MB"));
        check(90_426, &[], 5.0, Ok(("checkpoint_segments", "87")));
        check(180_006, &[("max_wal_size", "2GB")], 2.6, Ok(("max_wal_size", "2GB")));
        check(180_006, &[("max_wal_size", "2GB")], 2.4, Err("lower max_wal_size"));
        check(180_006, &[("Max_Wal_Size", "100MB")], 0.2, Ok(("Max_Wal_Size", "100MB")));
        check(180_006, &[("max_wal_size", "a lot")], 0.1, Ok(("max_wal_size", "a lot")));
    }

    #[test]
    fn more_than_the_device_has_is_refused_with_both_numbers() {
        let path = Path::new("/nonexistent/below/root");
        assert!(free_bytes(path).unwrap() > 0);
        require_space(path, 1, "a byte").unwrap();
        let error = require_space(path, u64::MAX / 2, "snapshot `x`").unwrap_err().to_string();
        assert!(error.starts_with("snapshot `x` needs ") && error.contains("are free"), "{error}");
    }
}
