//! Description of the machine, which is recorded with each run. Read once; unreadable facts are left out.

mod ephemeral;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use model::run::host::{HostRecord, MountRecord};
use procfs::{CpuInfo, FromBufRead, Meminfo};

use crate::host::device::{self, Space};
use crate::host::{service, stack};

/// Describes the machine and the file systems of these directories, keyed by role.
pub fn record(dirs: &BTreeMap<String, PathBuf>) -> HostRecord {
    let cpuinfo = line("/proc/cpuinfo", false).unwrap_or_default();
    let (cpu_model, is_virtual) = processor(&cpuinfo);
    let memory = line("/proc/meminfo", false).and_then(|text| Meminfo::from_buf_read(text.as_bytes()).ok());
    let mut facts = facts();
    facts.insert("hypervisor_flag".to_string(), is_virtual.to_string());
    if let Some(memory) = &memory {
        let mut put = |name: &str, value: Option<u64>| {
            if let Some(value) = value {
                facts.insert(name.to_string(), value.to_string());
            }
        };
        put("huge_pages_total", memory.hugepages_total);
        put("huge_page_bytes", memory.hugepagesize);
        put("swap_bytes", Some(memory.swap_total));
        put("commit_limit_bytes", memory.commit_limit);
        put("committed_bytes", Some(memory.committed_as));
    }
    cgroup_facts(Path::new("/sys/fs/cgroup"), &own_cgroup(), &mut facts);
    facts.extend(stack::numa_nodes(Path::new("/sys")));
    facts.extend(service::of_machine(Path::new("/")));
    HostRecord {
        hostname: line("/proc/sys/kernel/hostname", true).unwrap_or_default(),
        os: os_name(),
        kernel: line("/proc/sys/kernel/osrelease", true).unwrap_or_default(),
        cpu_model,
        n_cpus: list_length(&line("/sys/devices/system/cpu/online", true).unwrap_or_default()),
        n_numa_nodes: list_length(&line("/sys/devices/system/node/online", true).unwrap_or_default()).max(1),
        memory_bytes: memory.map_or(0, |memory| memory.mem_total),
        facts,
        mounts: dirs.iter().filter_map(|(role, path)| Some((role.clone(), mount(path)?))).collect(),
    }
}

/// Describes the machine as [`record`] does, and the processes of a server on it.
pub fn record_with_server(dirs: &BTreeMap<String, PathBuf>, postmaster_pid: Option<u32>) -> HostRecord {
    let mut host = record(dirs);
    host.facts.extend(postmaster_pid.map(service::of_server).unwrap_or_default());
    host
}

/// A small file as text.
fn line(path: impl AsRef<Path>, trim: bool) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    Some(if trim { text.trim().to_string() } else { text })
}

/// Files that hold one fact each.
const FACT_FILES: [(&str, &str); 32] = [
    ("clocksource", "/sys/devices/system/clocksource/clocksource0/current_clocksource"),
    ("cpu_governor", "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
    ("cpu_frequency_max_khz", "/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq"),
    ("cpu_no_turbo", "/sys/devices/system/cpu/intel_pstate/no_turbo"),
    ("cpu_boost", "/sys/devices/system/cpu/cpufreq/boost"),
    ("smt", "/sys/devices/system/cpu/smt/control"),
    ("cpus_isolated", "/sys/devices/system/cpu/isolated"),
    ("transparent_hugepage", "/sys/kernel/mm/transparent_hugepage/enabled"),
    ("transparent_hugepage_defrag", "/sys/kernel/mm/transparent_hugepage/defrag"),
    ("swappiness", "/proc/sys/vm/swappiness"),
    ("overcommit_memory", "/proc/sys/vm/overcommit_memory"),
    ("overcommit_ratio", "/proc/sys/vm/overcommit_ratio"),
    ("max_map_count", "/proc/sys/vm/max_map_count"),
    ("shmmax", "/proc/sys/kernel/shmmax"),
    ("shmall", "/proc/sys/kernel/shmall"),
    ("shmmni", "/proc/sys/kernel/shmmni"),
    ("somaxconn", "/proc/sys/net/core/somaxconn"),
    ("transparent_hugepage_shmem", "/sys/kernel/mm/transparent_hugepage/shmem_enabled"),
    ("dirty_ratio", "/proc/sys/vm/dirty_ratio"),
    ("dirty_background_ratio", "/proc/sys/vm/dirty_background_ratio"),
    ("dirty_bytes", "/proc/sys/vm/dirty_bytes"),
    ("dirty_background_bytes", "/proc/sys/vm/dirty_background_bytes"),
    ("zone_reclaim_mode", "/proc/sys/vm/zone_reclaim_mode"),
    ("numa_balancing", "/proc/sys/kernel/numa_balancing"),
    ("sched_autogroup", "/proc/sys/kernel/sched_autogroup_enabled"),
    ("perf_event_paranoid", "/proc/sys/kernel/perf_event_paranoid"),
    ("boot_id", "/proc/sys/kernel/random/boot_id"),
    ("system_vendor", "/sys/class/dmi/id/sys_vendor"),
    ("system_product", "/sys/class/dmi/id/product_name"),
    ("hypervisor", "/sys/hypervisor/type"),
    ("tcp_congestion_control", "/proc/sys/net/ipv4/tcp_congestion_control"),
    ("load_average", "/proc/loadavg"),
];

fn facts() -> BTreeMap<String, String> {
    let mut facts = BTreeMap::new();
    for (name, path) in FACT_FILES {
        if let Some(value) = line(path, true).filter(|value| !value.is_empty()) {
            facts.insert(name.to_string(), chosen(&value).to_string());
        }
    }
    if let Some(options) =
        line("/proc/cmdline", true).map(|text| kernel_options(&text)).filter(|s| !s.is_empty())
    {
        facts.insert("kernel_options".to_string(), options);
    }
    if let Some(container) = container() {
        facts.insert("container".to_string(), container);
    }
    facts
}

/// Prefixes of kernel options that affect performance. All others are private and may contain secrets.
const KERNEL_OPTIONS: [&str; 26] = [
    "mitigations",
    "nosmt",
    "isolcpus",
    "nohz",
    "rcu_nocbs",
    "irqaffinity",
    "maxcpus",
    "nr_cpus",
    "mem=",
    "idle",
    "intel_idle",
    "intel_pstate",
    "amd_pstate",
    "processor.",
    "cpuidle",
    "cpufreq",
    "transparent_hugepage",
    "hugepages",
    "default_hugepagesz",
    "numa",
    "clocksource",
    "tsc",
    "preempt",
    "psi",
    "elevator",
    "nvme",
];

fn kernel_options(command_line: &str) -> String {
    // Options after ` -- ` are for init.
    let (kernel, _) = command_line.split_once(" -- ").unwrap_or((command_line, ""));
    let options =
        kernel.split_whitespace().filter(|word| KERNEL_OPTIONS.iter().any(|start| word.starts_with(start)));
    options.collect::<Vec<_>>().join(" ")
}

/// The selected word of `always [madvise] never`, or the whole text.
fn chosen(text: &str) -> &str {
    let chosen = text.split_once('[').and_then(|(_, rest)| Some(rest.split_once(']')?.0));
    chosen.unwrap_or(text)
}

/// Model of the first processor, and whether it reports a hypervisor.
fn processor(cpuinfo: &str) -> (String, bool) {
    let Ok(info) = CpuInfo::from_buf_read(cpuinfo.as_bytes()) else { return (String::new(), false) };
    let first =
        |name: &str| info.get_info(0).and_then(|fields| fields.get(name).map(|text| (*text).to_string()));
    // Other architectures use other names, or none.
    let model = first("model name").or_else(|| first("cpu model")).or_else(|| first("CPU part"));
    let is_virtual = first("flags").is_some_and(|flags| flags.split(' ').any(|flag| flag == "hypervisor"));
    (model.unwrap_or_default(), is_virtual)
}

fn os_name() -> String {
    let text =
        line("/etc/os-release", false).or_else(|| line("/usr/lib/os-release", false)).unwrap_or_default();
    let name = text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
    name.unwrap_or("Linux").trim_matches('"').to_string()
}

/// Number of members in a list such as `0-3,8,10-11`.
fn list_length(list: &str) -> u32 {
    ranges(list).map(|(first, last)| last - first + 1).sum()
}

/// The ranges, from the first to the last number, in a list such as `0-3,8,10-11`.
pub(crate) fn ranges(list: &str) -> impl Iterator<Item = (u32, u32)> {
    list.trim().split(',').filter_map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        (first <= last).then_some((first, last))
    })
}

fn container() -> Option<String> {
    if Path::new("/.dockerenv").exists() {
        return Some("docker".to_string());
    }
    if Path::new("/run/.containerenv").exists() {
        return Some("podman".to_string());
    }
    std::env::var("KUBERNETES_SERVICE_HOST").ok().map(|_| "kubernetes".to_string())
}

/// Path of this process's cgroup in the unified hierarchy.
fn own_cgroup() -> String {
    let text = line("/proc/self/cgroup", false).unwrap_or_default();
    let path = text.lines().find_map(|line| line.strip_prefix("0::"));
    path.unwrap_or_default().trim().trim_start_matches('/').to_string()
}

/// The tightest processor and memory limits of a cgroup and its ancestors.
fn cgroup_facts(root: &Path, group: &str, facts: &mut BTreeMap<String, String>) {
    let mut memory: Option<u64> = None;
    let mut cpus: Option<f64> = None;
    for path in root.join(group).ancestors().take_while(|path| path.starts_with(root)) {
        if let Some(limit) = line(path.join("memory.max"), true).and_then(|text| text.parse().ok()) {
            memory = Some(memory.map_or(limit, |known| known.min(limit)));
        }
        if let Some(limit) = line(path.join("cpu.max"), true).as_deref().and_then(quota_cpus) {
            cpus = Some(cpus.map_or(limit, |known| known.min(limit)));
        }
    }
    if let Some(memory) = memory {
        facts.insert("cgroup_memory_max_bytes".to_string(), memory.to_string());
    }
    if let Some(cpus) = cpus {
        facts.insert("cgroup_cpu_max".to_string(), cpus.to_string());
    }
}

/// Number of processors that `cpu.max` allows: quota and period in microseconds, or `max`.
fn quota_cpus(text: &str) -> Option<f64> {
    let (quota, period) = text.split_once(' ')?;
    let (quota, period): (f64, f64) = (quota.parse().ok()?, period.parse().ok()?);
    (period > 0.0).then_some(quota / period)
}

fn mount(path: &Path) -> Option<MountRecord> {
    let place = device::place(path).ok()?;
    let space = Space::read(path).ok();
    let mut facts = BTreeMap::from([("source".to_string(), place.source.clone())]);
    let mut devices = place.devices.into_iter();
    let device = devices.next().unwrap_or_default();
    let below: Vec<String> = devices.collect();
    if !below.is_empty() {
        facts.insert("made_of".to_string(), below.join(" "));
    }
    let all: Vec<String> = std::iter::once(&device).chain(&below).cloned().collect();
    if let Some(kind) = ephemeral::lost_with_machine(Path::new("/sys"), &all) {
        facts.insert("lost_with_machine".to_string(), kind);
    }
    facts.extend(stripes(&place.options));
    if !device.is_empty() {
        facts.insert("stack".to_string(), stack::words(Path::new("/sys"), &device, &below));
    }
    for name in std::iter::once(&device).chain(&below).filter(|name| !name.is_empty()) {
        let suffix = if *name == device { String::new() } else { format!("[{name}]") };
        for (fact, file) in DEVICE_FILES {
            if let Some(value) =
                line(format!("/sys/block/{name}/{file}"), true).filter(|value| !value.is_empty())
            {
                facts.insert(format!("{fact}{suffix}"), chosen(&value).to_string());
            }
        }
    }
    Some(MountRecord {
        mount_point: place.mount_point,
        fs_type: place.fs_type,
        options: place.options,
        device,
        facts,
        free_bytes: space.map_or(0, |space| space.free_bytes),
        total_bytes: space.map_or(0, |space| space.total_bytes),
    })
}

/// XFS' stripe unit and width among its mount options, in sectors of 512 bytes: they should be the RAID's chunk and all its data disks' chunks.
fn stripes(options: &str) -> impl Iterator<Item = (String, String)> {
    let pairs = options.split(',').filter_map(|option| option.split_once('='));
    let stripes = pairs.filter(|(name, _)| ["sunit", "swidth"].contains(name));
    stripes.map(|(name, sectors)| (format!("xfs_{name}_sectors"), sectors.to_string()))
}

/// Files of `/sys/block/NAME` that hold one fact each.
const DEVICE_FILES: [(&str, &str); 12] = [
    ("scheduler", "queue/scheduler"),
    ("read_ahead_kb", "queue/read_ahead_kb"),
    ("rotational", "queue/rotational"),
    ("nr_requests", "queue/nr_requests"),
    ("write_cache", "queue/write_cache"),
    ("logical_block_size", "queue/logical_block_size"),
    ("discard_max_bytes", "queue/discard_max_bytes"),
    ("model", "device/model"),
    ("raid_level", "md/level"),
    ("raid_disks", "md/raid_disks"),
    ("raid_chunk_bytes", "md/chunk_size"),
    ("size_sectors", "size"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_texts_are_understood() {
        for (list, expected) in [("0-3,8,10-11", 7), ("0", 1), ("", 0), ("x", 0), ("5-3", 0)] {
            assert_eq!(list_length(list), expected, "{list}");
        }
        assert_eq!(
            kernel_options("root=/dev/sda1 mitigations=off token=x idle=poll -- mem=x"),
            "mitigations=off idle=poll"
        );
        assert_eq!(chosen("always [madvise] never"), "madvise");
        assert_eq!(chosen("tsc"), "tsc");
        let found: Vec<(String, String)> = stripes("rw,noatime,sunit=512,swidth=2048,noquota").collect();
        let expected = [("xfs_sunit_sectors", "512"), ("xfs_swidth_sectors", "2048")];
        assert_eq!(found, expected.map(|(name, value)| (name.to_string(), value.to_string())));
        assert_eq!(quota_cpus("150000 100000"), Some(1.5));
        assert_eq!(quota_cpus("max 100000"), None);
        let cpuinfo = "processor\t: 0\nmodel name\t: Fast CPU\nflags\t\t: fpu hypervisor lm\n\n";
        assert_eq!(processor(cpuinfo), ("Fast CPU".to_string(), true));
        assert_eq!(processor(""), (String::new(), false));
    }

    #[test]
    fn the_tightest_limit_of_the_groups_above_counts() {
        let root = tempfile::tempdir().unwrap();
        let inner = root.path().join("a/b");
        fs::create_dir_all(&inner).unwrap();
        fs::write(root.path().join("a/cpu.max"), "200000 100000\n").unwrap();
        fs::write(inner.join("cpu.max"), "max 100000\n").unwrap();
        fs::write(inner.join("memory.max"), "max\n").unwrap();
        fs::write(root.path().join("a/memory.max"), "1073741824\n").unwrap();
        let mut facts = BTreeMap::new();
        cgroup_facts(root.path(), "a/b", &mut facts);
        let expected = [("cgroup_cpu_max", "2"), ("cgroup_memory_max_bytes", "1073741824")];
        assert_eq!(facts, expected.map(|(name, value)| (name.to_string(), value.to_string())).into());
    }

    #[test]
    fn this_machine_has_a_record() {
        let directory = tempfile::tempdir().unwrap();
        let dirs = BTreeMap::from([
            ("data".to_string(), directory.path().to_path_buf()),
            ("wal".to_string(), PathBuf::from("/no/such")),
        ]);
        let record = record(&dirs);
        assert!(record.n_cpus > 0 && record.memory_bytes > 0 && !record.kernel.is_empty(), "{record:?}");
        assert!(record.facts.contains_key("boot_id"));
        assert!(record.mounts["data"].total_bytes > 0 && !record.mounts.contains_key("wal"));
    }
}
