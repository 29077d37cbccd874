//! Finds the file system of a directory and its block devices.
//!
//! The kernel counts busy time and flushes per whole disk, so a partition is represented by its disk. A device built
//! from others (LVM, encryption, RAID) comes first, then its components: sums over both would count twice.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use nix::sys::stat::{major, minor};
use nix::sys::statvfs::statvfs;
use procfs::FromBufRead;
use procfs::process::{MountInfo, MountInfos};

/// Device layers that are followed: a volume on encryption on RAID on partitions has 4.
const LAYERS_MAX: u32 = 8;

/// Location of a directory.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct MountPlace {
    /// Device number of the file system (`st_dev`): equal for directories that share their space.
    pub(crate) dev: u64,
    pub(crate) mount_point: String,
    pub(crate) fs_type: String,
    pub(crate) options: String,
    /// The mounted device or file system: `/dev/sda2`, `overlay`.
    pub(crate) source: String,
    /// Device names as in `/proc/diskstats`, the topmost first; empty if there are none.
    pub(crate) devices: Vec<String>,
}

/// Free and total bytes of a file system for an unprivileged user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Space {
    pub(crate) free_bytes: u64,
    pub(crate) total_bytes: u64,
}

impl Space {
    /// The space of the file system that contains `path`.
    pub(crate) fn read(path: &Path) -> Result<Space> {
        let stat = statvfs(path)
            .with_context(|| format!("cannot determine the free space of `{}`", path.display()))?;
        let block = stat.fragment_size();
        Ok(Space { free_bytes: stat.blocks_available() * block, total_bytes: stat.blocks() * block })
    }

    /// The larger of 5 % and 1 GiB: with the default `max_wal_size`, WAL between two checkpoints takes 1 GiB, and file
    /// systems slow down when nearly full.
    pub(crate) fn limit_bytes(self) -> u64 {
        (self.total_bytes / 20).max(1 << 30)
    }

    /// Whether the free space is below the limit.
    pub(crate) fn is_nearly_full(self) -> bool {
        self.free_bytes < self.limit_bytes()
    }
}

/// Finds the location of `directory`.
///
/// # Errors
/// When it does not exist, or `/proc/self/mountinfo` cannot be read.
pub(crate) fn place(directory: &Path) -> Result<MountPlace> {
    let path = fs::canonicalize(directory)
        .with_context(|| format!("cannot find directory `{}`", directory.display()))?;
    let meta = fs::metadata(&path).with_context(|| format!("cannot read `{}`", path.display()))?;
    let text = fs::read_to_string("/proc/self/mountinfo").context("cannot read `/proc/self/mountinfo`")?;
    let mounts = MountInfos::from_buf_read(text.as_bytes()).context("cannot parse `/proc/self/mountinfo`")?;
    let dev = meta.dev();
    let Some(mount) = mount_of(&mounts.0, &path, dev) else {
        anyhow::bail!("no mount in `/proc/self/mountinfo` contains `{}`", path.display());
    };
    let source = mount.mount_source.clone().unwrap_or_default();
    // File systems with several devices or subvolumes (btrfs) have a synthetic number; their source is a real device.
    let block = if major(dev) == 0 { block_number(Path::new(&source)) } else { Some(dev) };
    let devices = block.map_or_else(Vec::new, |dev| devices(Path::new("/sys"), major(dev), minor(dev)));
    Ok(MountPlace {
        dev,
        mount_point: mount.mount_point.display().to_string(),
        fs_type: mount.fs_type.clone(),
        options: options(mount),
        source,
        devices,
    })
}

/// The whole disks of the machine that hold something: no loop devices, memory or empty drives.
pub(crate) fn disks(sys: &Path) -> Vec<String> {
    let entries = fs::read_dir(sys.join("block")).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let has_size = |name: &String| {
        let size = fs::read_to_string(sys.join("block").join(name).join("size")).unwrap_or_default();
        size.trim().parse::<u64>().is_ok_and(|sectors| sectors > 0)
    };
    names.filter(|name| is_disk(name) && has_size(name)).collect()
}

/// Whether a block device of this name may be a disk: a loop device, memory, an optical drive or a floppy is none.
pub(crate) fn is_disk(name: &str) -> bool {
    !["loop", "ram", "zram", "sr", "fd"].iter().any(|kind| name.starts_with(kind))
}

fn block_number(path: &Path) -> Option<u64> {
    let meta = fs::metadata(path).ok().filter(|meta| meta.file_type().is_block_device())?;
    Some(meta.rdev())
}

/// The mount that contains `path`: the deepest one with its device number, or else the deepest of all; the last of
/// equals, which hides the others.
fn mount_of<'a>(mounts: &'a [MountInfo], path: &Path, dev: u64) -> Option<&'a MountInfo> {
    let number = format!("{}:{}", major(dev), minor(dev));
    let deepest = |same_device: bool| {
        let holding = mounts
            .iter()
            .filter(|mount| path.starts_with(&mount.mount_point) && (!same_device || mount.majmin == number));
        holding.max_by_key(|mount| mount.mount_point.as_os_str().len())
    };
    deepest(true).or_else(|| deepest(false))
}

fn options(mount: &MountInfo) -> String {
    let all = mount.mount_options.iter().chain(&mount.super_options);
    let mut words: Vec<String> = all
        .map(|(name, value)| value.as_ref().map_or_else(|| name.clone(), |value| format!("{name}={value}")))
        .collect();
    words.sort();
    words.dedup();
    words.join(",")
}

/// Names of a block device and its components, from `sys/dev/block`.
fn devices(sys: &Path, major: u64, minor: u64) -> Vec<String> {
    let mut names = Vec::new();
    if let Ok(path) = fs::canonicalize(sys.join(format!("dev/block/{major}:{minor}"))) {
        add_device(&path, LAYERS_MAX, &mut names);
    }
    names
}

fn add_device(path: &Path, layers: u32, names: &mut Vec<String>) {
    let whole: PathBuf = match path.parent() {
        Some(parent) if path.join("partition").exists() => parent.to_path_buf(),
        _ => path.to_path_buf(),
    };
    let Some(name) = whole.file_name().and_then(|name| name.to_str()) else { return };
    if layers == 0 || names.iter().any(|known| known == name) {
        return;
    }
    names.push(name.to_string());
    let mut below: Vec<PathBuf> = fs::read_dir(whole.join("slaves"))
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| fs::canonicalize(entry.path()).ok())
        .collect();
    below.sort();
    for path in below {
        add_device(&path, layers - 1, names);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// Creates a part of `/sys`: partition `sda1`, and `dm-0` on `nvme0n1p2` and `sdb`.
    fn sys() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let block = root.path().join("block");
        for directory in ["sda/sda1", "nvme0n1/nvme0n1p2", "sdb", "dm-0/slaves"] {
            fs::create_dir_all(block.join(directory)).unwrap();
        }
        fs::write(block.join("sda/sda1/partition"), "1").unwrap();
        fs::write(block.join("nvme0n1/nvme0n1p2/partition"), "2").unwrap();
        let numbers = root.path().join("dev/block");
        fs::create_dir_all(&numbers).unwrap();
        for (number, target) in [("8:0", "sda"), ("8:1", "sda/sda1"), ("253:0", "dm-0")] {
            symlink(block.join(target), numbers.join(number)).unwrap();
        }
        for (name, target) in [("nvme0n1p2", "nvme0n1/nvme0n1p2"), ("sdb", "sdb")] {
            symlink(block.join(target), block.join("dm-0/slaves").join(name)).unwrap();
        }
        root
    }

    #[test]
    fn partitions_stand_for_their_disk_and_layers_are_followed() {
        let sys = sys();
        for (major, minor, expected) in [
            (8, 0, vec!["sda"]),
            (8, 1, vec!["sda"]),
            (253, 0, vec!["dm-0", "nvme0n1", "sdb"]),
            (99, 0, vec![]),
        ] {
            assert_eq!(devices(sys.path(), major, minor), expected, "{major}:{minor}");
        }
    }

    #[test]
    fn the_deepest_mount_with_the_device_holds_a_path() {
        let text = "\
22 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw
23 22 253:0 / /data rw,noatime - xfs /dev/mapper/vg-data rw,attr2
24 22 0:50 / /data/tmp rw - tmpfs tmpfs rw
25 22 0:45 / /tree rw - btrfs /dev/sdb rw,subvol=/
";
        let mounts = MountInfos::from_buf_read(text.as_bytes()).unwrap().0;
        let dev = nix::sys::stat::makedev;
        for (path, dev, expected) in [
            ("/data/pg/base", dev(253, 0), "/data"),
            ("/database", dev(8, 1), "/"),
            ("/data/tmp/x", dev(0, 50), "/data/tmp"),
            ("/tree/sub", dev(0, 46), "/tree"),
        ] {
            let mount = mount_of(&mounts, Path::new(path), dev).unwrap();
            assert_eq!(mount.mount_point, Path::new(expected), "{path}");
        }
        assert_eq!(options(&mounts[1]), "attr2,noatime,rw");
    }

    #[test]
    fn a_directory_has_a_place_and_proc_has_no_device() {
        let directory = tempfile::tempdir().unwrap();
        let here = place(directory.path()).unwrap();
        assert!(!here.fs_type.is_empty() && Path::new(&here.mount_point).is_absolute(), "{here:?}");
        assert!(Space::read(directory.path()).unwrap().total_bytes > 0);
        assert_eq!(place(Path::new("/proc")).unwrap().devices, [""; 0]);
        let error = place(Path::new("/no/such")).unwrap_err().to_string();
        assert_eq!(error, "cannot find directory `/no/such`");
    }

    #[test]
    fn nearly_full_is_under_a_gibibyte_or_a_twentieth() {
        for (free_gib, total_gib, expected) in
            [(2, 10, false), (0, 10, true), (4, 100, true), (6, 100, false)]
        {
            let space = Space { free_bytes: free_gib << 30, total_bytes: total_gib << 30 };
            assert_eq!(space.is_nearly_full(), expected, "{free_gib} of {total_gib}");
        }
    }
}
