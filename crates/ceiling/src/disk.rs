//! The device below a directory: how fast writes become durable, random and sequential I/O.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use model::run::ceilings::Calibration;
use model::telemetry::host::MountRecord;
use nix::unistd::fsync;

use crate::blocks::{self, BlockOrder, Buffer, Direction, Pattern};
use crate::rounds::{expect_wanted, median};
use crate::scratch::ScratchFile;
use crate::{Effort, Found, sync};

/// Largest file: more than the caches of most disks, and a small part of most devices.
const FILE_BYTES_MAX: u64 = 256 << 20;
/// The file takes at most this part of what is free.
const FREE_PART: u64 = 4;
/// Free space without which nothing is measured.
pub const PLACES_BYTES_MIN: u64 = 64 << 20;
const MIB: usize = 1 << 20;
const PAGE_BYTES: usize = 8192;
const DEPTHS: [u32; 3] = [1, 4, 32];

/// Measures the device below `dir`, in a file that is removed again.
///
/// # Errors
/// When there is no such directory, no space, or no right to create a file there; when the device fails; when the user
/// wants to stop.
pub fn disk(dir: &Path, effort: &Effort) -> Result<Calibration> {
    let mount = mount(dir)?;
    ensure!(
        mount.free_bytes >= PLACES_BYTES_MIN,
        "`{}` has {} MiB free; measuring its device takes a file, which needs {} MiB",
        dir.display(),
        mount.free_bytes >> 20,
        PLACES_BYTES_MIN >> 20
    );
    let mut found = Found::default();
    let scratch = ScratchFile::make(dir)?;
    let wanted_bytes = (mount.free_bytes / FREE_PART).min(FILE_BYTES_MAX) / MIB as u64 * MIB as u64;
    let file_bytes = fill(&scratch, wanted_bytes, effort)?;
    found.put("file_bytes", None, file_bytes as f64);
    sync::measure(&scratch, file_bytes, effort, &mut found)?;
    match &scratch.direct {
        Some(file) => direct(file, file_bytes, effort, &mut found)?,
        None => {
            let reason = format!(
                "the file system ({}) has no O_DIRECT, so only its cache could be measured",
                mount.fs_type
            );
            ["read_rate", "write_rate", "read_throughput", "write_throughput"]
                .into_iter()
                .for_each(|what| found.lack(what, &reason));
        }
    }
    Ok(found.of_place(place(&mount), effort))
}

/// Name of the device below a directory, with its file system: the ceilings of one are those of all directories there.
///
/// # Errors
/// When there is no such directory.
pub fn place_of(dir: &Path) -> Result<String> {
    mount(dir).map(|mount| place(&mount))
}

fn mount(dir: &Path) -> Result<MountRecord> {
    let dirs = BTreeMap::from([(String::new(), dir.to_path_buf())]);
    let record = observe::host::facts::record(&dirs);
    record.mounts.into_values().next().with_context(|| format!("cannot find directory `{}`", dir.display()))
}

fn place(mount: &MountRecord) -> String {
    let source = mount.facts.get("source").map_or("", String::as_str);
    let device = if mount.device.is_empty() { source } else { &mount.device };
    format!("{device} {} at {}", mount.fs_type, mount.mount_point)
}

/// Writes the file once, so that its blocks are allocated; stops early on a slow device. Returns its size.
fn fill(scratch: &ScratchFile, wanted_bytes: u64, effort: &Effort) -> Result<u64> {
    let file = scratch.direct.as_ref().unwrap_or(&scratch.plain);
    let buffer = Buffer::new(MIB);
    let begun = Instant::now();
    let longest = effort.part.max(Duration::from_millis(200));
    let mut bytes = 0;
    while bytes < wanted_bytes && (bytes == 0 || begun.elapsed() < longest) {
        expect_wanted(effort)?;
        file.write_all_at(buffer.bytes(), bytes).context("write the file to measure with")?;
        bytes += MIB as u64;
    }
    fsync(scratch.plain.as_fd()).context("make the file to measure with durable")?;
    Ok(bytes)
}

fn direct(file: &File, file_bytes: u64, effort: &Effort, found: &mut Found) -> Result<()> {
    let paced = |pattern| median(effort, |length| blocks::round(file, file_bytes, pattern, length, effort));
    for direction in [Direction::Read, Direction::Write] {
        let word = if direction == Direction::Read { "read" } else { "write" };
        for depth in DEPTHS {
            let pace =
                paced(Pattern { block_bytes: PAGE_BYTES, depth, order: BlockOrder::Random, direction })?;
            found.put(&format!("{word}_rate"), Some(&depth.to_string()), pace.rate);
            found.put(&format!("{word}_time"), Some(&depth.to_string()), pace.time_s);
        }
        let in_order = Pattern { block_bytes: MIB, depth: 4, order: BlockOrder::Sequential, direction };
        found.put(&format!("{word}_throughput"), None, paced(in_order)?.rate * MIB as f64);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;

    static GO_ON: AtomicBool = AtomicBool::new(false);
    static STOPPED: AtomicBool = AtomicBool::new(true);

    #[test]
    fn a_directory_has_all_values_or_reasons_and_is_left_as_it_was() {
        let dir = tempfile::tempdir_in(".").unwrap();
        let effort = Effort { part: Duration::from_millis(30), stop: &GO_ON };
        let made = disk(dir.path(), &effort).unwrap();
        for key in [
            "file_bytes",
            "sync_rate[fdatasync]",
            "sync_rate[fsync]",
            "sync_rate[open_datasync]",
            "sync_rate[open_sync]",
        ] {
            assert!(made.value(key).is_some(), "{key}: {made:?}");
        }
        for name in ["read_rate", "write_rate", "read_throughput", "write_throughput"] {
            assert!(made.most(name).is_some() != made.unavailable.contains_key(name), "{name}: {made:?}");
        }
        let known = |key: &str| {
            model::run::ceilings::CEILINGS.iter().any(|row| key.split('[').next() == Some(row.name))
        };
        assert!(made.values.keys().all(|key| known(key)), "{made:?}");
        assert_eq!(made.place, place_of(dir.path()).unwrap());
        assert!(disk(dir.path(), &Effort { stop: &STOPPED, ..effort }).is_err());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        assert!(
            disk(&dir.path().join("none"), &effort)
                .unwrap_err()
                .to_string()
                .contains("cannot find directory")
        );
    }
}
