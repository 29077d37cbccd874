//! Which kernel files each key of `[os]` sets, and why a machine cannot have a value.

use crate::group;
use crate::kernel_files::{Disk, KernelFiles};
use crate::pages::NR_HUGE_PAGES;

/// Keys whose values are written to kernel files: all of `[os]` but huge pages, placement, and limits of a group.
pub const KEYS: [&str; 11] = [
    "transparent_huge_pages",
    "transparent_huge_pages_defrag",
    "shmmax",
    "shmall",
    "swappiness",
    "overcommit_memory",
    "somaxconn",
    "max_map_count",
    "read_ahead_kb",
    "io_scheduler",
    "cpu_governor",
];

const TRANSPARENT: &str = "/sys/kernel/mm/transparent_hugepage/enabled";
const DEFRAG: &str = "/sys/kernel/mm/transparent_hugepage/defrag";
const CPUS: &str = "/sys/devices/system/cpu";

/// The largest limit of System V shared memory: Linux' `ULONG_MAX - (1UL << 24)` (include/uapi/linux/shm.h).
const SHM_MAX: u64 = u64::MAX - (1 << 24);

/// Whether the key is about the devices of data and WAL.
pub fn is_of_disks(key: &str) -> bool {
    ["read_ahead_kb", "io_scheduler"].contains(&key)
}

/// Kernel files and their values for `key = value`. Huge pages and NUMA placement are not file values: what they need
/// is known only when a server is about to start.
pub fn settings(machine: &KernelFiles, key: &str, value: &str, disks: &[Disk]) -> Vec<(String, String)> {
    let one = |path: &str| vec![path.to_string()];
    let of_disks = |file: &str, at_the_top: bool| {
        let devices = disks.iter().flat_map(|disk| {
            let is_whole = at_the_top || disk.below.is_empty();
            if is_whole { vec![disk.device.clone()] } else { disk.below.clone() }
        });
        let mut paths: Vec<String> = devices
            .filter(|device| !device.is_empty())
            .map(|d| format!("/sys/block/{d}/queue/{file}"))
            .collect();
        paths.sort();
        paths.dedup();
        paths
    };
    let paths = match key {
        "transparent_huge_pages" => one(TRANSPARENT),
        "transparent_huge_pages_defrag" => one(DEFRAG),
        "shmmax" => one("/proc/sys/kernel/shmmax"),
        "shmall" => one("/proc/sys/kernel/shmall"),
        "swappiness" => one("/proc/sys/vm/swappiness"),
        "overcommit_memory" => one("/proc/sys/vm/overcommit_memory"),
        "somaxconn" => one("/proc/sys/net/core/somaxconn"),
        "max_map_count" => one("/proc/sys/vm/max_map_count"),
        "read_ahead_kb" => of_disks("read_ahead_kb", true),
        "io_scheduler" => of_disks("scheduler", false),
        "cpu_governor" => governors(machine),
        _ => Vec::new(),
    };
    paths.into_iter().map(|path| (path, value.to_string())).collect()
}

fn governors(machine: &KernelFiles) -> Vec<String> {
    let cpus = machine.names(CPUS).into_iter();
    let paths = cpus.map(|cpu| format!("{CPUS}/{cpu}/cpufreq/scaling_governor"));
    paths.filter(|path| machine.path(path).exists()).collect()
}

/// Why this machine cannot have `key = value`; `None` if it can.
pub fn refusal(machine: &KernelFiles, key: &str, value: &str, disks: &[Disk]) -> Option<String> {
    if let Some(reason) = out_of_range(key, value) {
        return Some(reason);
    }
    if group::limited_by(key).is_some() {
        return group::refusal(machine, key, value, disks);
    }
    let files = match key {
        "huge_pages" if value == "off" => return None,
        "huge_pages" => vec![NR_HUGE_PAGES.to_string()],
        "numa" | "processors" => return None,
        _ => settings(machine, key, value, disks).into_iter().map(|(path, _)| path).collect(),
    };
    if files.is_empty() {
        return Some(match key {
            "cpu_governor" => "this machine has no CPU frequency scaling (cpufreq)".to_string(),
            _ => "the data and WAL directories are not on a block device".to_string(),
        });
    }
    if let Some(reason) = machine.inside() {
        return Some(reason);
    }
    files.iter().find_map(|path| not_offered(machine, key, value, path).or_else(|| machine.locked(path)))
}

fn out_of_range(key: &str, value: &str) -> Option<String> {
    // Documentation of the kernel, admin-guide/sysctl/vm and net; fewer maps than its default, or no queue of connections,
    // would stop other programs of the machine.
    let (least, most): (u64, u64) = match key {
        "swappiness" => (0, 200),
        "overcommit_memory" => (0, 2),
        "somaxconn" => (1, 65_535),
        "max_map_count" => (65_530, i32::MAX as u64),
        "read_ahead_kb" => (0, 1 << 20),
        // The defaults before Linux 3.16, below which other programs' segments fail; and the kernel's own largest value.
        "shmmax" => (32 << 20, SHM_MAX),
        "shmall" => (2 << 20, SHM_MAX),
        _ => return None,
    };
    // Not `+10`, which the kernel may read in another way, nor `010`, which is octal there.
    let fits = value.parse::<u64>().is_ok_and(|n| (least..=most).contains(&n) && value == n.to_string());
    (!fits).then(|| format!("{value} is not in {least}..{most}"))
}

/// Why a file that lists its possible values does not allow this one.
fn not_offered(machine: &KernelFiles, key: &str, value: &str, path: &str) -> Option<String> {
    let offers = match key {
        "transparent_huge_pages" | "transparent_huge_pages_defrag" | "io_scheduler" => machine.words(path),
        "cpu_governor" => machine.words(&path.replace("scaling_governor", "scaling_available_governors")),
        _ => return None,
    };
    let is_offered = offers.is_empty() || offers.iter().any(|offer| offer == value);
    (!is_offered).then(|| format!("`{path}` offers {}", offers.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn each_key_has_its_files_and_an_impossible_value_is_refused_with_the_reason() {
        let root = tempfile::tempdir().unwrap();
        let machine = KernelFiles::at(root.path());
        for (path, text) in [
            ("proc/sys/vm/swappiness", "60\n"),
            ("proc/sys/vm/nr_hugepages", "0\n"),
            ("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n"),
            ("sys/kernel/mm/transparent_hugepage/defrag", "always defer defer+madvise [madvise] never\n"),
            ("proc/sys/kernel/shmmax", "18446744073692774399\n"),
            ("sys/block/vda/queue/scheduler", "none [mq-deadline]\n"),
            ("sys/block/vdb/queue/scheduler", "[none]\n"),
            ("sys/block/dm-0/queue/read_ahead_kb", "128\n"),
        ] {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let disk = |device: &str, below: &[&str]| Disk {
            role: "data".to_string(),
            device: device.to_string(),
            below: below.iter().map(|name| name.to_string()).collect(),
        };
        let disks = [disk("dm-0", &["vda", "vdb"]), disk("dm-0", &["vda", "vdb"])];
        let check = |key: &str, value: &str, expected: Option<&str>| {
            let reason = refusal(&machine, key, value, &disks);
            match (&reason, expected) {
                (None, None) => {}
                (Some(reason), Some(expected)) if reason.contains(expected) => {}
                _ => panic!("{key} = {value}: {reason:?}, expected {expected:?}"),
            }
        };
        check("swappiness", "10", None);
        check("swappiness", "201", Some("201 is not in 0..200"));
        check("swappiness", "+10", Some("+10 is not in 0..200"));
        check("swappiness", "010", Some("010 is not in 0..200"));
        check("max_map_count", "1000", Some("1000 is not in 65530..2147483647"));
        check("somaxconn", "0", Some("0 is not in 1..65535"));
        check("read_ahead_kb", "4 096", Some("4 096 is not in 0..1048576"));
        check("overcommit_memory", "2", Some("no `/proc/sys/vm/overcommit_memory`"));
        check("transparent_huge_pages", "never", None);
        check("transparent_huge_pages", "sometimes", Some("offers always, madvise, never"));
        check("transparent_huge_pages_defrag", "defer+madvise", None);
        check(
            "transparent_huge_pages_defrag",
            "often",
            Some("offers always, defer, defer+madvise, madvise, never"),
        );
        check("shmmax", "13355443200", None);
        check("shmmax", "1048576", Some("1048576 is not in 33554432..18446744073692774399"));
        check("shmall", "13355443200", Some("no `/proc/sys/kernel/shmall`"));
        check("io_scheduler", "none", None);
        check("io_scheduler", "mq-deadline", Some("`/sys/block/vdb/queue/scheduler` offers none"));
        check("read_ahead_kb", "4096", None);
        check("cpu_governor", "performance", Some("no CPU frequency scaling"));
        check("huge_pages", "on", None);
        check("huge_pages", "off", None);
        assert!(refusal(&machine, "io_scheduler", "none", &[]).unwrap().contains("not on a block device"));
        let paths =
            |key: &str| settings(&machine, key, "x", &disks).into_iter().map(|(p, _)| p).collect::<Vec<_>>();
        assert_eq!(paths("read_ahead_kb"), ["/sys/block/dm-0/queue/read_ahead_kb"]);
        assert_eq!(
            paths("io_scheduler"),
            ["/sys/block/vda/queue/scheduler", "/sys/block/vdb/queue/scheduler"]
        );
    }

    #[test]
    fn in_a_container_nothing_is_set_that_would_outlive_it() {
        let root = tempfile::tempdir().unwrap();
        let machine = KernelFiles::at(root.path());
        for dir in ["proc/sys/vm", "proc/self/ns"] {
            fs::create_dir_all(root.path().join(dir)).unwrap();
        }
        for name in ["swappiness", "nr_hugepages"] {
            fs::write(root.path().join("proc/sys/vm").join(name), "0\n").unwrap();
        }
        let is_refused = |key: &str, value: &str, number: &str| {
            let path = root.path().join("proc/self/ns/pid");
            fs::remove_file(&path).ok();
            std::os::unix::fs::symlink(format!("pid:[{number}]"), path).unwrap();
            let reason = refusal(&machine, key, value, &[]);
            reason.is_some_and(|reason| reason.contains("runs in a container"))
        };
        for (key, value, expected) in
            [("swappiness", "10", true), ("huge_pages", "on", true), ("huge_pages", "off", false)]
        {
            assert_eq!(is_refused(key, value, "4026532441"), expected, "{key} = {value}");
            assert!(!is_refused(key, value, "4026531836"), "{key} = {value}");
        }
    }
}
