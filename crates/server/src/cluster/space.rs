//! Disk space: what is free, what is needed at the peak, and the WAL that must fit.
//!
//! One rule for all: `plan`, the start of `run` and the creation of a cluster add up [`SpaceNeed`]s with [`demands`], and
//! refuse with [`Demand::refusal`].

use std::collections::BTreeMap;
use std::fmt::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use model::experiment::case::setting;
use model::text::prose::bytes;
use model::text::units::size_bytes;

use crate::cluster::Cluster;
use crate::cluster::copy::tree_bytes;
use crate::settings::defaults::{MAX_WAL_SIZE_BYTES, max_wal_bytes, wal_setting};
use crate::user::rights::FileRights;

/// Space that has to stay free on the WAL's device: below this, a run is ended.
pub const RESERVE_BYTES: u64 = 256 << 20;
/// Smallest `max_wal_size` that our default is lowered to: PostgreSQL's own default.
const MAX_WAL_BYTES_MIN: u64 = 1 << 30;

/// The space of a file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileSystem {
    /// Distinguishes it from others.
    pub device: u64,
    /// Bytes that this process may still write.
    pub free_bytes: u64,
    /// Total bytes.
    pub total_bytes: u64,
}

impl FileSystem {
    /// The file system of `path`, or of its nearest directory that exists.
    ///
    /// # Errors
    /// As the system says.
    pub fn find(path: &Path) -> Result<FileSystem> {
        // The ancestors of a relative path end in an empty one, which does not exist.
        let path = &std::path::absolute(path).with_context(|| format!("cannot find `{}`", path.display()))?;
        let existing = path.ancestors().find(|path| path.exists()).unwrap_or(Path::new("/"));
        let look = || format!("cannot determine the free space of `{}`", existing.display());
        let facts = nix::sys::statvfs::statvfs(existing).with_context(look)?;
        let block_bytes = facts.fragment_size() as u64;
        Ok(FileSystem {
            device: std::fs::metadata(existing).with_context(look)?.dev(),
            free_bytes: facts.blocks_available() as u64 * block_bytes,
            total_bytes: facts.blocks() as u64 * block_bytes,
        })
    }
}

/// Bytes that this process may still write on the device of `path`, or of its nearest directory that exists.
///
/// # Errors
/// As the system says.
pub fn free_bytes(path: &Path) -> Result<u64> {
    FileSystem::find(path).map(|found| found.free_bytes)
}

/// Refuses what does not fit at `path`.
///
/// # Errors
/// Says how much is needed and how much is free.
pub fn require_space(path: &Path, needed_bytes: u64, purpose: &str) -> Result<()> {
    let free = free_bytes(path)?;
    ensure!(
        free >= needed_bytes,
        "{purpose} needs {} at `{}`, where {} are free; free some space or use another directory",
        bytes(needed_bytes as f64),
        path.display(),
        bytes(free as f64)
    );
    Ok(())
}

/// Purposes of disk space.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Use {
    /// Tables and indexes, including what loading and runs add.
    Data,
    /// Data and WAL of standbys.
    Standbys,
    /// Copies of freshly loaded data.
    Snapshot,
    /// Write-ahead log.
    Wal,
    /// Binaries that are fetched or built.
    Binaries,
    /// Records of the runs.
    Results,
    /// Space that must stay free on the WAL's device, where a run is ended before it is full; counted once.
    Reserve,
}

/// Where everything in the cache can go: binaries, clusters, snapshots.
const CACHE_ELSEWHERE: &str = "keep the cache on another device (PGDYNO_CACHE)";

impl Use {
    fn as_str(self) -> &'static str {
        match self {
            Use::Data => "data",
            Use::Standbys => "standbys",
            Use::Snapshot => "snapshots",
            Use::Wal => "WAL",
            Use::Binaries => "binaries",
            Use::Results => "results",
            Use::Reserve => "to stay free",
        }
    }

    /// How to make this part smaller, or to put it elsewhere.
    fn advice(self) -> &'static str {
        match self {
            Use::Data => "lower the scale",
            Use::Standbys => "lower topology.standbys or the scale",
            Use::Snapshot => {
                "keep snapshots on another device (prepare.snapshot_directory) or do without (prepare.snapshot = false)"
            }
            Use::Wal => {
                "lower max_wal_size, give another server.wal_directory, or say in prepare.wal_headroom how much WAL there \
                 will be if you know that"
            }
            Use::Binaries => CACHE_ELSEWHERE,
            Use::Results => "write the results elsewhere (--output)",
            Use::Reserve => "use another device",
        }
    }
}

/// Space for one purpose at its peak, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpaceNeed {
    /// The purpose.
    pub what: Use,
    /// A directory on the file system; it need not exist yet.
    pub place: PathBuf,
    /// Bytes at the peak.
    pub bytes: u64,
}

/// All parts on one file system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Demand {
    /// A directory on it, that of the largest part.
    pub place: PathBuf,
    /// See [`FileSystem::device`].
    pub device: u64,
    /// Bytes at the peak by purpose.
    pub parts: BTreeMap<Use, u64>,
    /// Bytes that are free.
    pub free_bytes: u64,
    /// Bytes of existing clusters: they are used again, or removed from the cache to make room.
    pub reusable_bytes: u64,
}

impl Demand {
    /// Bytes needed at the peak.
    pub fn needed_bytes(&self) -> u64 {
        self.parts.values().fold(0, |sum, part| sum.saturating_add(*part))
    }

    /// Bytes that are missing.
    pub fn lacking_bytes(&self) -> u64 {
        self.needed_bytes().saturating_sub(self.free_bytes.saturating_add(self.reusable_bytes))
    }

    /// The demand as text: how much is needed, for which purposes, and how much is free.
    pub fn words(&self) -> String {
        let size = |n: u64| bytes(n as f64);
        let parts: Vec<String> =
            self.parts.iter().map(|(what, n)| format!("{} {}", what.as_str(), size(*n))).collect();
        let mut text = format!(
            "`{}` needs {} at the peak ({}), and {} are free",
            self.place.display(),
            size(self.needed_bytes()),
            parts.join(", "),
            size(self.free_bytes)
        );
        if self.reusable_bytes > 0 {
            // Writing to a string does not fail.
            let _ =
                write!(text, ", and {} in existing clusters can be used again", size(self.reusable_bytes));
        }
        text
    }

    /// Why it does not fit, and what to do; `None` if it does. `cache` is the cache's directory, which is named to be kept
    /// elsewhere if the largest part would be in it.
    pub fn refusal(&self, cache: &Path) -> Option<String> {
        let lacking = self.lacking_bytes();
        if lacking == 0 {
            return None;
        }
        let largest = self.parts.iter().max_by_key(|(_, n)| **n).map_or(Use::Data, |(what, _)| *what);
        let is_in_cache = largest != Use::Binaries && self.place.starts_with(cache);
        let elsewhere = if is_in_cache { format!(", or {CACHE_ELSEWHERE}") } else { String::new() };
        Some(format!(
            "{}: {} are missing; free some space, or {}{elsewhere}",
            self.words(),
            bytes(lacking as f64),
            largest.advice()
        ))
    }
}

/// Adds up parts by file system, in the order of the first part of each. `reusable` is existing data that will be used
/// again or may be removed; it does not count on file systems without parts.
///
/// # Errors
/// When a file system does not report its space.
pub fn demands(
    parts: &[SpaceNeed],
    reusable: &[(PathBuf, u64)],
    look: &dyn Fn(&Path) -> Result<FileSystem>,
) -> Result<Vec<Demand>> {
    let mut found: Vec<(Demand, u64)> = Vec::new();
    for part in parts.iter().filter(|part| part.bytes > 0) {
        let FileSystem { device, free_bytes, .. } = look(&part.place)?;
        let at = found.iter().position(|(demand, _)| demand.device == device).unwrap_or(found.len());
        if at == found.len() {
            let (place, parts) = (part.place.clone(), BTreeMap::new());
            found.push((Demand { place, device, parts, free_bytes, reusable_bytes: 0 }, 0));
        }
        let (demand, largest_bytes) = &mut found[at];
        let sum = demand.parts.entry(part.what).or_default();
        *sum = match part.what {
            Use::Reserve => part.bytes.max(*sum),
            _ => sum.saturating_add(part.bytes),
        };
        if part.bytes > *largest_bytes {
            (demand.place, *largest_bytes) = (part.place.clone(), part.bytes);
        }
    }
    for (place, bytes) in reusable {
        let device = look(place)?.device;
        if let Some((demand, _)) = found.iter_mut().find(|(demand, _)| demand.device == device) {
            demand.reusable_bytes = demand.reusable_bytes.saturating_add(*bytes);
        }
    }
    Ok(found.into_iter().map(|(demand, _)| demand).collect())
}

/// Space that the WAL may take: `max_wal_size` is a soft limit (PostgreSQL documentation, WAL Configuration), exceeded
/// while a checkpoint is still under way. The quarter is our convention.
pub fn wal_space_bytes(max_wal_bytes: u64) -> u64 {
    max_wal_bytes.saturating_add(max_wal_bytes / 4)
}

/// Space that must be free for the WAL of a server with the settings that an experiment has `chosen`: a chosen limit in
/// full; of our default, the least that it is lowered to.
pub fn wal_needed_bytes(version_num: u32, chosen: &BTreeMap<String, String>) -> u64 {
    let max_bytes = max_wal_bytes(version_num, chosen).unwrap_or(MAX_WAL_BYTES_MIN);
    wal_space_bytes(max_bytes).saturating_add(wal_kept_bytes(chosen))
}

/// WAL that is kept beyond what checkpoints need: `wal_keep_size` in megabytes, before 13 `wal_keep_segments`.
fn wal_kept_bytes(settings: &BTreeMap<String, String>) -> u64 {
    let of = |name: &str, unit_bytes: u64| {
        setting::find(settings, name).and_then(|(_, value)| size_bytes(value, unit_bytes)).unwrap_or(0)
    };
    of("wal_keep_size", 1 << 20).saturating_add(of("wal_keep_segments", 16 << 20))
}

/// The space that the WAL of a cluster has to fit into.
pub struct WalRoom<'a> {
    /// How much WAL there will be by the user's word, instead of what follows from `max_wal_size`.
    pub headroom_bytes: Option<u64>,
    /// Bytes that data and snapshots will still take on the WAL's device, given the bytes of the WAL.
    pub reserved_bytes: &'a dyn Fn(u64) -> u64,
}

impl WalRoom<'_> {
    /// The space of a cluster that will not grow.
    pub const OF_ONE_THAT_IS_THERE: WalRoom<'static> =
        WalRoom { headroom_bytes: None, reserved_bytes: &|_| 0 };
}

/// Makes sure that the WAL of a server with these `settings` does not fill its device: halves our
/// default, down to 1 GB, and refuses what the experiment has `chosen` when that does not fit.
///
/// # Errors
/// Says how much is needed and how much is free.
pub fn fit_wal(
    cluster: &Cluster,
    chosen: &BTreeMap<String, String>,
    room: &WalRoom,
    settings: &mut BTreeMap<String, String>,
) -> Result<()> {
    let wal_dir = cluster.wal_dir();
    // Existing WAL is used again.
    let here_bytes = tree_bytes(&wal_dir, FileRights::Of(&cluster.account));
    let free_bytes = free_bytes(&wal_dir)?.saturating_add(here_bytes);
    fit_wal_into(free_bytes, room, cluster.binaries.version_num, chosen, settings)
        .with_context(|| format!("WAL directory `{}`", wal_dir.display()))
}

fn fit_wal_into(
    free_bytes: u64,
    room: &WalRoom,
    version_num: u32,
    chosen: &BTreeMap<String, String>,
    settings: &mut BTreeMap<String, String>,
) -> Result<()> {
    let (name, _) = wal_setting(version_num, MAX_WAL_SIZE_BYTES);
    let is_chosen = setting::find(chosen, name).is_some();
    let kept_bytes = wal_kept_bytes(settings);
    let wal_bytes = |max_bytes: u64| {
        room.headroom_bytes.unwrap_or_else(|| wal_space_bytes(max_bytes).saturating_add(kept_bytes))
    };
    let needed =
        |max_bytes: u64| wal_bytes(max_bytes).saturating_add((room.reserved_bytes)(wal_bytes(max_bytes)));
    let mut max_bytes = MAX_WAL_SIZE_BYTES;
    while !is_chosen && max_bytes > MAX_WAL_BYTES_MIN && needed(max_bytes) > free_bytes {
        max_bytes /= 2;
        let (name, value) = wal_setting(version_num, max_bytes);
        settings.insert(name.to_string(), value);
    }
    // A value that we cannot read is left for the server to judge.
    let Some(max_bytes) = max_wal_bytes(version_num, settings) else { return Ok(()) };
    let (wal, all) = (wal_bytes(max_bytes), needed(max_bytes));
    let besides = match all - wal {
        0 => String::new(),
        n => format!(" in addition to {} for data and snapshots", bytes(n as f64)),
    };
    ensure!(
        all <= free_bytes,
        "the WAL may grow to {}{besides}, and {} are free; free some space, or {}",
        bytes(wal as f64),
        bytes(free_bytes as f64),
        Use::Wal.advice()
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::defaults::embedded_settings;

    const GB: u64 = 1 << 30;

    #[test]
    fn our_default_for_the_wal_is_lowered_to_fit_and_a_chosen_value_that_does_not_fit_is_refused() {
        let check_in = |room: &WalRoom,
                        version_num: u32,
                        chosen: &[(&str, &str)],
                        free_gb: f64,
                        expected: Result<(&str, &str), &str>| {
            let chosen = chosen.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
            let mut settings = embedded_settings(version_num, 16 << 30, 1, &chosen).unwrap();
            let free_bytes = (free_gb * GB as f64) as u64;
            let fits = fit_wal_into(free_bytes, room, version_num, &chosen, &mut settings);
            match (fits, expected) {
                (Ok(()), Ok((name, value))) => assert_eq!(settings[name], value, "{free_gb} GB"),
                (Err(error), Err(text)) => assert!(error.to_string().contains(text), "{error}"),
                (fits, _) => panic!("{free_gb} GB: {fits:?}"),
            }
        };
        let check = |version_num, chosen: &[(&str, &str)], free_gb, expected| {
            check_in(&WalRoom::OF_ONE_THAT_IS_THERE, version_num, chosen, free_gb, expected);
        };
        check(180_006, &[], 10.0, Ok(("max_wal_size", "8192MB")));
        check(180_006, &[], 9.9, Ok(("max_wal_size", "4096MB")));
        check(180_006, &[], 1.3, Ok(("max_wal_size", "1024MB")));
        check(180_006, &[], 1.2, Err("may grow to 1.25 GiB, and 1.20 GiB are free"));
        check(90_426, &[], 5.0, Ok(("checkpoint_segments", "87")));
        check(180_006, &[("max_wal_size", "2GB")], 2.6, Ok(("max_wal_size", "2GB")));
        check(180_006, &[("max_wal_size", "2GB")], 2.4, Err("lower max_wal_size"));
        check(
            180_006,
            &[("max_wal_size", "2GB"), ("wal_keep_size", "1GB")],
            3.4,
            Err("may grow to 3.50 GiB"),
        );
        check(180_006, &[("Max_Wal_Size", "100MB")], 0.2, Ok(("Max_Wal_Size", "100MB")));
        check(180_006, &[("max_wal_size", "a lot")], 0.1, Ok(("max_wal_size", "a lot")));
        // 4 GB of data are still to come, and the WAL a second time, in a snapshot.
        let loading = WalRoom { headroom_bytes: None, reserved_bytes: &|wal| 4 * GB + wal };
        check_in(&loading, 180_006, &[], 24.0, Ok(("max_wal_size", "8192MB")));
        check_in(&loading, 180_006, &[], 10.0, Ok(("max_wal_size", "2048MB")));
        check_in(&loading, 180_006, &[], 6.0, Err("1.25 GiB in addition to 5.25 GiB for data and snapshots"));
        let vouched = WalRoom { headroom_bytes: Some(GB), reserved_bytes: &|_| 0 };
        check_in(&vouched, 180_006, &[("max_wal_size", "250GB")], 1.1, Ok(("max_wal_size", "250GB")));
        check_in(&vouched, 180_006, &[("max_wal_size", "250GB")], 0.9, Err("may grow to 1.00 GiB"));
    }

    #[test]
    fn a_plan_counts_the_same_space_for_the_wal_as_the_check_before_a_start() {
        let needed = |chosen: &[(&str, &str)]| {
            let chosen = chosen.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
            wal_needed_bytes(180_006, &chosen)
        };
        assert_eq!(needed(&[]), GB + GB / 4);
        assert_eq!(needed(&[("MAX_WAL_SIZE", "250GB")]), 250 * GB + 250 * GB / 4);
        assert_eq!(needed(&[("max_wal_size", "4GB"), ("wal_keep_size", "1024")]), 6 * GB);
    }

    #[test]
    fn more_than_the_device_has_is_refused_with_both_numbers() {
        let path = Path::new("/nonexistent/below/root");
        assert!(free_bytes(path).unwrap() > 0);
        require_space(path, 1, "a byte").unwrap();
        let error = require_space(path, u64::MAX / 2, "snapshot `x`").unwrap_err().to_string();
        assert!(error.starts_with("snapshot `x` needs ") && error.contains("are free"), "{error}");
    }

    #[test]
    fn parts_are_added_up_by_file_system() {
        let look = |path: &Path| {
            let is_fast = path.starts_with("/fast");
            let (device, free_bytes) = if is_fast { (1, 2 * GB) } else { (2, 9 * GB) };
            Ok(FileSystem { device, free_bytes, total_bytes: 10 * GB })
        };
        let part =
            |what, place: &str, gb: u64| SpaceNeed { what, place: PathBuf::from(place), bytes: gb * GB };
        let parts = [
            part(Use::Data, "/slow/clusters", 5),
            part(Use::Wal, "/fast/wal", 3),
            part(Use::Data, "/slow/clusters", 2),
            part(Use::Snapshot, "/slow/snapshots", 4),
        ];
        let reusable = [(PathBuf::from("/slow/clusters/a"), GB), (PathBuf::from("/fast"), 0)];
        let found = demands(&parts, &reusable, &look).unwrap();
        let refusal = |demand: &Demand| demand.refusal(Path::new("/slow/cache"));
        let texts: Vec<Option<String>> = found.iter().map(refusal).collect();
        assert_eq!(
            texts[0].as_deref().unwrap(),
            "`/slow/clusters` needs 11.0 GiB at the peak (data 7.00 GiB, snapshots 4.00 GiB), and 9.00 GiB are free, and 1.00 GiB in \
             existing clusters can be used again: 1.00 GiB are missing; free some space, or lower the scale"
        );
        assert!(texts[1].as_deref().unwrap().contains("prepare.wal_headroom"), "{texts:?}");
        let all_there = demands(&parts[2..], &reusable, &look).unwrap();
        let in_cache = found[0].refusal(Path::new("/slow")).unwrap();
        assert!(
            in_cache.ends_with("or lower the scale, or keep the cache on another device (PGDYNO_CACHE)"),
            "{in_cache}"
        );
        assert_eq!(all_there.iter().filter_map(refusal).count(), 0);
    }
}
