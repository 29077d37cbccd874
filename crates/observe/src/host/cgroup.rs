//! CPU quotas of control groups: how many of their periods were throttled, in the groups of some processes and all
//! groups above them that this machine shows.
//!
//! Of version 1 (`cpu.cfs_quota_us`) and version 2 (`cpu.max`), each process is in one hierarchy that controls
//! processors. Within a container the groups above its own are invisible. Source: the kernel's sched-bwc.rst and
//! cgroup-v2.rst. Parsers are pure.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use crate::gather::Gather;

/// Groups above one that are looked at: paths are deep only by mistake.
const DEPTH_MAX: usize = 32;
/// Most groups of one party. A server whose processes are in more has been taken apart on purpose.
const GROUPS_MAX: usize = 16;

/// Where the hierarchy of a controller is mounted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hierarchy {
    controller: &'static str,
    is_v2: bool,
    mount_point: PathBuf,
    /// The group that is mounted there; not `/` within a container.
    root: PathBuf,
}

/// State of a group's quota.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Quota {
    /// Processors that the group may use; `None` without a limit.
    pub(crate) processors: Option<f64>,
    pub(crate) periods: f64,
    pub(crate) throttled_periods: f64,
    pub(crate) throttled_s: f64,
}

impl Hierarchy {
    /// That of processors.
    pub(crate) fn find(mountinfo: &str) -> Option<Hierarchy> {
        Hierarchy::from_mountinfo("cpu", mountinfo)
    }

    /// From `/proc/self/mountinfo`. Version 1 if it has the controller: version 2 then does not.
    fn from_mountinfo(controller: &'static str, mountinfo: &str) -> Option<Hierarchy> {
        let mut v2 = None;
        for line in mountinfo.lines() {
            let Some((left, right)) = line.split_once(" - ") else { continue };
            let left: Vec<&str> = left.split(' ').collect();
            let right: Vec<&str> = right.split(' ').collect();
            let ([_, _, _, root, mount_point, ..], [fs_type, _, options, ..]) = (&left[..], &right[..])
            else {
                continue;
            };
            let (mount_point, root) = (mount_point.into(), root.into());
            let found = |is_v2| Hierarchy { controller, is_v2, mount_point, root };
            match *fs_type {
                "cgroup" if options.split(',').any(|option| option == controller) => {
                    return Some(found(false));
                }
                "cgroup2" => v2 = v2.or(Some(found(true))),
                _ => {}
            }
        }
        v2
    }

    /// A process's group from its `/proc/PID/cgroup`, relative to the mount point.
    fn group(&self, cgroup: &str) -> Option<PathBuf> {
        let path = cgroup.lines().find_map(|line| {
            let mut fields = line.splitn(3, ':');
            let (number, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
            let is_ours = if self.is_v2 {
                number == "0" && controllers.is_empty()
            } else {
                controllers.split(',').any(|controller| controller == self.controller)
            };
            is_ours.then_some(path)
        })?;
        // A path outside of what is mounted (`/../x`) has its own group at the mount point, as far as anybody sees.
        let path = Path::new(path);
        let below = path.strip_prefix(&self.root).or_else(|_| path.strip_prefix("/")).unwrap_or(path);
        let is_plain = below.components().all(|part| matches!(part, std::path::Component::Normal(_)));
        Some(if is_plain { below.to_path_buf() } else { PathBuf::new() })
    }

    fn quota(&self, group: &Path) -> Option<Quota> {
        let text = |name: &str| fs::read_to_string(self.mount_point.join(group).join(name));
        let limit = if self.is_v2 {
            limit_v2(&text("cpu.max").ok()?)
        } else {
            limit_v1(&text("cpu.cfs_quota_us").ok()?, &text("cpu.cfs_period_us").ok()?)
        };
        Some(Quota { processors: limit, ..parse_stat(&text("cpu.stat").ok()?) })
    }
}

/// The tightest limits of a process's groups: processors, and bytes of memory.
pub(crate) fn limits_of(pid: u32) -> (Option<f64>, Option<u64>) {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let (mounts, own) = (read("/proc/self/mountinfo"), read(&format!("/proc/{pid}/cgroup")));
    let groups = |controller| {
        let hierarchy = Hierarchy::from_mountinfo(controller, &mounts)?;
        let groups: Vec<PathBuf> = with_ancestors(&hierarchy.group(&own)?).collect();
        Some((hierarchy, groups))
    };
    let cpus = groups("cpu").and_then(|(hierarchy, groups)| {
        groups.iter().filter_map(|group| hierarchy.quota(group)?.processors).min_by(f64::total_cmp)
    });
    let memory = groups("memory").and_then(|(hierarchy, groups)| {
        let file = if hierarchy.is_v2 { "memory.max" } else { "memory.limit_in_bytes" };
        let limit = |group: &PathBuf| {
            let text = fs::read_to_string(hierarchy.mount_point.join(group).join(file)).ok()?;
            // Version 1 writes the largest number of pages for no limit.
            text.trim().parse().ok().filter(|bytes| *bytes < 1 << 60)
        };
        groups.iter().filter_map(limit).min()
    });
    (cpus, memory)
}

/// `cpu.cfs_quota_us` is -1 without a limit.
fn limit_v1(quota: &str, period: &str) -> Option<f64> {
    let us = |text: &str| text.trim().parse::<f64>().ok().filter(|us| *us > 0.0);
    Some(us(quota)? / us(period)?)
}

/// `cpu.max` is `max 100000` without a limit.
fn limit_v2(max: &str) -> Option<f64> {
    let (quota, period) = max.trim().split_once(' ')?;
    limit_v1(quota, period)
}

/// Parses `cpu.stat` of either version.
fn parse_stat(text: &str) -> Quota {
    let field = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
        line.trim().parse::<f64>().ok()
    };
    let of_v1_s = || Some(field("throttled_time")? / 1e9);
    Quota {
        processors: None,
        periods: field("nr_periods").unwrap_or_default(),
        throttled_periods: field("nr_throttled").unwrap_or_default(),
        throttled_s: field("throttled_usec").map(|us| us / 1e6).or_else(of_v1_s).unwrap_or_default(),
    }
}

/// The groups of one party's processes, `server` or `driver`, followed over time.
#[derive(Debug)]
pub(crate) struct PartyGroups {
    party: &'static str,
    hierarchy: Option<Hierarchy>,
    /// The group of each process.
    by_pid: BTreeMap<i32, PathBuf>,
    n_reads: u64,
}

/// Ticks after which a process's group is looked up again: it may have been moved.
const LOOK_UP_TICKS: u64 = 10;

impl PartyGroups {
    pub(crate) fn new(party: &'static str) -> PartyGroups {
        let hierarchy = fs::read_to_string("/proc/self/mountinfo").ok();
        let hierarchy = hierarchy.and_then(|text| Hierarchy::find(&text));
        PartyGroups { party, hierarchy, by_pid: BTreeMap::new(), n_reads: 0 }
    }

    /// Reads the quotas that these processes are subject to.
    pub(crate) fn read(&mut self, gather: &mut Gather, pids: impl Iterator<Item = i32>) {
        let Some(hierarchy) = &self.hierarchy else { return };
        let mut known = std::mem::take(&mut self.by_pid);
        if self.n_reads.is_multiple_of(LOOK_UP_TICKS) {
            known.clear();
        }
        self.n_reads += 1;
        for pid in pids {
            let look_up = || hierarchy.group(&fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?);
            if let Some(group) = known.remove(&pid).or_else(look_up) {
                self.by_pid.insert(pid, group);
            }
        }
        let own: BTreeSet<&PathBuf> = self.by_pid.values().collect();
        let groups: BTreeSet<PathBuf> =
            own.into_iter().take(GROUPS_MAX).flat_map(|group| with_ancestors(group)).collect();
        for group in groups {
            let Some(quota) = hierarchy.quota(&group) else { continue };
            put(gather, &format!("{}:/{}", self.party, group.display()), quota);
        }
    }
}

/// The group and those above it, by their paths.
fn with_ancestors(group: &Path) -> impl Iterator<Item = PathBuf> {
    group.ancestors().take(DEPTH_MAX).map(Path::to_path_buf)
}

fn put(gather: &mut Gather, instance: &str, quota: Quota) {
    // A quota may be lifted while the load runs: what was throttled before stays.
    if quota.processors.is_none() && quota.periods == 0.0 {
        return;
    }
    if let Some(processors) = quota.processors {
        gather.put("cgroup.quota", instance, processors);
    }
    gather.put("cgroup.periods", instance, quota.periods);
    gather.put("cgroup.throttled_periods", instance, quota.throttled_periods);
    gather.put("cgroup.throttled_time", instance, quota.throttled_s);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gather::Backwards;

    const MOUNTS_V1: &str = "\
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct
34 31 0:31 / /sys/fs/cgroup/cpuset rw,relatime - cgroup cgroup rw,cpuset
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
";
    const MOUNTS_V2: &str = "\
24 30 0:22 / /proc rw,nosuid,nodev,noexec,relatime shared:13 - proc proc rw
35 24 0:29 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime shared:4 - cgroup2 cgroup2 rw,nsdelegate,memory_recursiveprot
";
    /// Within a container without a namespace of its own for groups.
    const MOUNTS_CONTAINER: &str = "\
700 690 0:29 /docker/4a27 /sys/fs/cgroup/cpu ro,nosuid,nodev,noexec,relatime master:9 - cgroup cgroup rw,cpu
";

    #[test]
    fn the_group_of_a_process_is_found_in_either_version() {
        let check = |mounts: &str, cgroup: &str, place: &str, expected: &[&str]| {
            let hierarchy = Hierarchy::find(mounts).unwrap();
            assert_eq!(hierarchy.mount_point, Path::new(place), "{cgroup}");
            let group = hierarchy.group(cgroup).unwrap();
            let all: Vec<PathBuf> = with_ancestors(&group).collect();
            assert_eq!(all, expected.iter().map(PathBuf::from).collect::<Vec<_>>(), "{cgroup}");
        };
        let v1 = "9:name=systemd:/x\n3:cpuset:/y\n2:cpuacct,cpu:/system.slice/postgresql.service\n0::/z\n";
        let expected = ["system.slice/postgresql.service", "system.slice", ""];
        check(MOUNTS_V1, v1, "/sys/fs/cgroup/cpu,cpuacct", &expected);
        let v2 = "0::/system.slice/system-postgresql.slice/postgresql@15-main.service\n";
        let expected = [
            "system.slice/system-postgresql.slice/postgresql@15-main.service",
            "system.slice/system-postgresql.slice",
            "system.slice",
            "",
        ];
        check(MOUNTS_V2, v2, "/sys/fs/cgroup", &expected);
        check(MOUNTS_V2, "0::/\n", "/sys/fs/cgroup", &[""]);
        check(MOUNTS_V2, "0::/../sibling\n", "/sys/fs/cgroup", &[""]);
        check(MOUNTS_CONTAINER, "1:cpu:/docker/4a27/db\n", "/sys/fs/cgroup/cpu", &["db", ""]);
        assert_eq!(Hierarchy::find("24 30 0:22 / /proc rw - proc proc rw\n"), None);
        assert_eq!(Hierarchy::find(MOUNTS_V2).unwrap().group("1:cpu:/x\n"), None);
    }

    #[test]
    fn quotas_are_read_as_either_version_prints_them() {
        let v1 = "nr_periods 124\nnr_throttled 116\nthrottled_time 9370552141\nnr_bursts 0\nburst_time 0\n";
        let v2 = "usage_usec 1\nuser_usec 1\nsystem_usec 0\nnr_periods 124\nnr_throttled 116\n\
            throttled_usec 9370552\nnr_bursts 0\nburst_usec 0\n";
        for (text, throttled_s) in [(v1, 9.370_552_141), (v2, 9.370_552)] {
            let expected = Quota { processors: None, periods: 124.0, throttled_periods: 116.0, throttled_s };
            assert_eq!(parse_stat(text), expected);
        }
        // The root of version 2 has no quota.
        assert_eq!(parse_stat("usage_usec 1\nuser_usec 1\nsystem_usec 0\n"), Quota::default());
        assert_eq!(limit_v1("50000\n", "100000\n"), Some(0.5));
        assert_eq!(limit_v1("-1\n", "100000\n"), None);
        assert_eq!(limit_v2("150000 100000\n"), Some(1.5));
        assert_eq!(limit_v2("max 100000\n"), None);
    }

    #[test]
    fn only_groups_with_a_quota_are_reported() {
        let mut gather = Gather::new(Backwards::Jitter);
        gather.count_new_from_zero();
        put(&mut gather, "server:/", Quota::default());
        assert!(gather.take().0.is_empty());
        let quota = Quota { processors: Some(0.5), periods: 10.0, throttled_periods: 9.0, throttled_s: 0.4 };
        put(&mut gather, "server:/a", quota);
        assert_eq!(gather.take().0.len(), 4);
    }
}
