//! Control groups of our own: their processes may use less of processors and devices than the machine has.
//!
//! Of version 1, each controller has a hierarchy of its own, and our group is below that of this process. Of version 2, a group with
//! processes hands on no controller, so that ours is below the nearest one that does. Sources: the kernel's sched-bwc.rst,
//! blkio-controller.rst and cgroup-v2.rst.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use nix::unistd::{AccessFlags, access};

use crate::keeper::Keeper;
use crate::kernel_files::{Disk, KernelFiles};

/// Time in which a quota may be used up, the kernel's default, microseconds.
const PERIOD_US: f64 = 100_000.0;
/// The kernel takes no quota below 1 ms.
const PROCESSORS_MIN: f64 = 0.01;

/// A resource that a group limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Resource {
    /// Time of processors.
    Processors,
    /// Reads and writes of devices.
    Devices,
}

/// Groups that a server is to be in.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServerGroups {
    /// The files that take the ids of processes.
    pub procs: Vec<PathBuf>,
    /// Each limit by its key of `[os]`, as `VALUE in FILE`.
    pub detail: BTreeMap<String, String>,
}

/// The hierarchy that controls a resource, and the group in it below which ours are made.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Place {
    is_v2: bool,
    /// The group above ours.
    parent: String,
    /// The group of this process, to which processes return.
    home: String,
}

/// The keys of `[os]` that limit devices, each with the role of its directory, the file of version 1, and the word of version 2.
const OF_DEVICES: [(&str, &str, &str, &str); 6] = [
    ("data_read_iops", "data", "blkio.throttle.read_iops_device", "riops"),
    ("data_write_iops", "data", "blkio.throttle.write_iops_device", "wiops"),
    ("data_read_mb_s", "data", "blkio.throttle.read_bps_device", "rbps"),
    ("data_write_mb_s", "data", "blkio.throttle.write_bps_device", "wbps"),
    ("wal_write_iops", "wal", "blkio.throttle.write_iops_device", "wiops"),
    ("wal_write_mb_s", "wal", "blkio.throttle.write_bps_device", "wbps"),
];

/// The resource that a key of `[os]` limits by a group, if it does.
pub fn limited_by(key: &str) -> Option<Resource> {
    let is_of_devices = OF_DEVICES.iter().any(|(known, ..)| *known == key);
    match key {
        "cpu_quota" => Some(Resource::Processors),
        _ => is_of_devices.then_some(Resource::Devices),
    }
}

/// Why no group here can limit the resource, if none can. Makes nothing.
pub fn obstacle(machine: &KernelFiles, resource: Resource) -> Option<String> {
    place(machine, &[resource]).err().map(|error| format!("{error:#}"))
}

/// Whether what the kernel writes later, for nobody in particular, is outside of all groups.
pub fn is_writeback_free(machine: &KernelFiles) -> bool {
    place(machine, &[Resource::Devices]).is_ok_and(|place| !place.is_v2)
}

/// Why this machine cannot have `key = value`; `None` if it can.
pub(crate) fn refusal(machine: &KernelFiles, key: &str, value: &str, disks: &[Disk]) -> Option<String> {
    let resource = limited_by(key)?;
    let known = limit(machine, key, value, disks).err().map(|error| format!("{error:#}"));
    known.or_else(|| obstacle(machine, resource))
}

/// The key that limits the same thing of the same device as `key`, if one is asked for: the kernel keeps one limit.
pub fn rival(
    machine: &KernelFiles,
    asked: &BTreeMap<String, String>,
    key: &str,
    disks: &[Disk],
) -> Option<String> {
    let place = |key: &str| {
        let (_, role, file, _) = OF_DEVICES.iter().find(|(known, ..)| *known == key)?;
        Some((*file, device_number(machine, role, disks).ok()?))
    };
    let own = place(key)?;
    asked.keys().find(|other| *other != key && place(other).as_ref() == Some(&own)).cloned()
}

/// A limit as the files of both versions take it.
struct Limit {
    key: String,
    resource: Resource,
    of_v1: (&'static str, String),
    of_v2: (&'static str, String),
}

fn limit(machine: &KernelFiles, key: &str, value: &str, disks: &[Disk]) -> Result<Limit> {
    let number: f64 = value.parse().with_context(|| format!("{value} is no number"))?;
    ensure!(number.is_finite() && number > 0.0, "{value} is not a positive number");
    if key == "cpu_quota" {
        ensure!(
            number >= PROCESSORS_MIN,
            "{value} is less than {PROCESSORS_MIN}, the least quota of the kernel"
        );
        let us = format!("{:.0}", number * PERIOD_US);
        let of_v2 = ("cpu.max", format!("{us} {PERIOD_US}"));
        return Ok(Limit {
            key: key.to_string(),
            resource: Resource::Processors,
            of_v1: ("cpu.cfs_quota_us", us),
            of_v2,
        });
    }
    let known = OF_DEVICES.iter().find(|(known, ..)| *known == key);
    let (_, role, file, word) = known.with_context(|| format!("{key} limits no group"))?;
    let n = if key.ends_with("_mb_s") { number * 1e6 } else { number };
    ensure!((1.0..1e18).contains(&n), "{value} is not in the range of the kernel");
    let number = device_number(machine, role, disks)?;
    Ok(Limit {
        key: key.to_string(),
        resource: Resource::Devices,
        of_v1: (file, format!("{number} {n:.0}")),
        of_v2: ("io.max", format!("{number} {word}={n:.0}")),
    })
}

/// Number of the whole disk below a directory: a partition has no limits of its own.
fn device_number(machine: &KernelFiles, role: &str, disks: &[Disk]) -> Result<String> {
    let disk = disks.iter().find(|disk| disk.role == role).or_else(|| disks.first());
    let device = disk.map_or("", |disk| disk.device.as_str());
    ensure!(!device.is_empty(), "the {role} directory is not on a block device");
    machine.read(&format!("/sys/block/{device}/dev"))
}

/// Where a group can limit all of these resources.
fn place(machine: &KernelFiles, resources: &[Resource]) -> Result<Place> {
    let (mounts, own) = (machine.text("/proc/self/mountinfo")?, machine.text("/proc/self/cgroup")?);
    let v1 = resources.first().and_then(|first| mount(&mounts, Some(first.of_v1())));
    let found = match &v1 {
        Some(mounted) => Place { is_v2: false, ..beneath(mounted, &own, resources[0].of_v1())? },
        None => {
            let mounted = mount(&mounts, None).with_context(|| none_of(resources))?;
            let own = beneath(&mounted, &own, "")?;
            let hands_on = |group: &&Path| {
                let path = format!("{}/cgroup.subtree_control", group.display());
                let words = machine.words(&path);
                resources.iter().all(|resource| words.iter().any(|word| word == resource.of_v2()))
            };
            let above = Path::new(&own.home).ancestors().filter(|group| group.starts_with(&mounted.point));
            let parent = above.into_iter().find(hands_on).with_context(|| none_of(resources))?;
            Place { is_v2: true, parent: parent.display().to_string(), ..own }
        }
    };
    ensure!(found.parent.starts_with("/sys/"), "its control groups are mounted outside of /sys");
    match access(&machine.path(&found.parent), AccessFlags::W_OK) {
        Ok(()) => Ok(found),
        Err(nix::errno::Errno::EACCES) => {
            bail!("only root can make a control group below `{}`", found.parent)
        }
        Err(error) => bail!("no control group can be made below `{}`: {error}", found.parent),
    }
}

impl Resource {
    fn of_v1(self) -> &'static str {
        match self {
            Resource::Processors => "cpu",
            Resource::Devices => "blkio",
        }
    }

    fn of_v2(self) -> &'static str {
        match self {
            Resource::Processors => "cpu",
            Resource::Devices => "io",
        }
    }
}

fn none_of(resources: &[Resource]) -> String {
    let names: Vec<&str> = resources.iter().map(|resource| resource.of_v2()).collect();
    format!("no control group of this machine hands on the controller {}", names.join(" and "))
}

/// A mounted hierarchy: where, and the group that is seen there.
struct Mounted {
    point: String,
    root: String,
}

/// The hierarchy of a controller of version 1, or that of version 2.
fn mount(mounts: &str, controller: Option<&str>) -> Option<Mounted> {
    mounts.lines().find_map(|line| {
        let (left, right) = line.split_once(" - ")?;
        let (left, right): (Vec<&str>, Vec<&str>) = (left.split(' ').collect(), right.split(' ').collect());
        let ([_, _, _, root, point, ..], [kind, _, options, ..]) = (&left[..], &right[..]) else {
            return None;
        };
        let is_it = match controller {
            Some(name) => *kind == "cgroup" && options.split(',').any(|option| option == name),
            None => *kind == "cgroup2",
        };
        is_it.then(|| Mounted { point: point.to_string(), root: root.to_string() })
    })
}

/// The group of this process, from its `/proc/self/cgroup`.
fn beneath(mounted: &Mounted, own: &str, controller: &str) -> Result<Place> {
    let path = own.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = (fields.next()?, fields.next()?);
        controllers.split(',').any(|name| name == controller).then_some(path)
    });
    let path = path.context("the control group of this process is not known")?;
    let path = path.strip_prefix(mounted.root.trim_end_matches('/')).unwrap_or(path);
    ensure!(
        !path.split('/').any(|part| part == ".."),
        "the control group of this process is not visible here"
    );
    let home = format!("{}/{}", mounted.point.trim_end_matches('/'), path.trim_start_matches('/'));
    let home = home.trim_end_matches('/').to_string();
    Ok(Place { is_v2: false, parent: home.clone(), home })
}

/// Makes the groups with these limits, pairs of a key of `[os]` and its value. Others are skipped.
///
/// # Errors
/// When a group cannot be made, or the kernel does not accept a limit. What was made is removed by [`Keeper::undo`].
pub fn make(
    machine: &KernelFiles,
    keeper: &mut Keeper,
    asked: &BTreeMap<String, String>,
    disks: &[Disk],
) -> Result<ServerGroups> {
    let mut limits: Vec<Limit> = Vec::new();
    for (key, value) in asked.iter().filter(|(key, _)| limited_by(key).is_some()) {
        limits.push(limit(machine, key, value, disks).with_context(|| format!("os.{key}"))?);
    }
    let mut resources: Vec<Resource> = limits.iter().map(|limit| limit.resource).collect();
    resources.sort_unstable();
    resources.dedup();
    let mut groups = ServerGroups::default();
    while let Some(first) = resources.first().copied() {
        // One hierarchy of version 2 has both controllers, and a process is in one group of it.
        let of_both = place(machine, &resources).ok().filter(|place| place.is_v2);
        let (place, here) = match of_both {
            Some(place) => (place, std::mem::take(&mut resources)),
            None => (place(machine, &[first])?, vec![resources.remove(0)]),
        };
        let of_group = limits.iter().filter(|limit| here.contains(&limit.resource));
        let path = keeper.make_group(&place.parent, &place.home)?;
        for limit in of_group {
            let (file, value) = if place.is_v2 { &limit.of_v2 } else { &limit.of_v1 };
            let file = format!("{path}/{file}");
            machine.write(&file, value)?;
            groups.detail.insert(limit.key.clone(), format!("{value} in {file}"));
        }
        groups.procs.push(machine.path(&format!("{path}/cgroup.procs")));
    }
    Ok(groups)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::process::Command;

    use super::*;

    const V1: &str = "\
32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct
33 31 0:30 / /sys/fs/cgroup/blkio rw,relatime - cgroup cgroup rw,blkio
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
";
    const V2: &str = "35 24 0:29 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n";

    fn machine(root: &Path, mounts: &str, own: &str) -> KernelFiles {
        for (path, text) in
            [("proc/self/mountinfo", mounts), ("proc/self/cgroup", own), ("sys/block/vda/dev", "254:0\n")]
        {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        KernelFiles::at(root)
    }

    fn group(root: &Path, path: &str, hands_on: &str) {
        let dir = root.join(path);
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join("cgroup.subtree_control"), hands_on).unwrap();
    }

    #[test]
    fn groups_are_made_below_our_own_or_below_the_nearest_that_hands_its_controllers_on() {
        let root = tempfile::tempdir().unwrap();
        let of_v1 = machine(root.path(), V1, "3:blkio:/\n2:cpuacct,cpu:/a/b\n0::/z\n");
        group(root.path(), "sys/fs/cgroup/cpu,cpuacct/a/b", "");
        group(root.path(), "sys/fs/cgroup/blkio", "");
        let place_of = |machine: &KernelFiles, resources: &[Resource]| place(machine, resources).unwrap();
        let cpu = place_of(&of_v1, &[Resource::Processors]);
        let own = "/sys/fs/cgroup/cpu,cpuacct/a/b".to_string();
        assert_eq!(cpu, Place { is_v2: false, parent: own.clone(), home: own });
        assert_eq!(place_of(&of_v1, &[Resource::Devices]).home, "/sys/fs/cgroup/blkio");
        assert!(is_writeback_free(&of_v1));

        let root = tempfile::tempdir().unwrap();
        let of_v2 = machine(root.path(), V2, "0::/user.slice/me.scope\n");
        group(root.path(), "sys/fs/cgroup", "cpu io memory\n");
        group(root.path(), "sys/fs/cgroup/user.slice", "cpu\n");
        group(root.path(), "sys/fs/cgroup/user.slice/me.scope", "\n");
        let home = "/sys/fs/cgroup/user.slice/me.scope".to_string();
        let at = |parent: &str| Place { is_v2: true, parent: parent.to_string(), home: home.clone() };
        assert_eq!(place_of(&of_v2, &[Resource::Processors]), at("/sys/fs/cgroup/user.slice"));
        let both = [Resource::Processors, Resource::Devices];
        assert_eq!(place_of(&of_v2, &both), at("/sys/fs/cgroup"));
        assert!(!is_writeback_free(&of_v2));
        group(root.path(), "sys/fs/cgroup", "memory\n");
        let reason = obstacle(&of_v2, Resource::Devices).unwrap();
        assert_eq!(reason, "no control group of this machine hands on the controller io");
    }

    #[test]
    fn limits_are_written_as_each_version_takes_them() {
        let root = tempfile::tempdir().unwrap();
        let machine = machine(root.path(), V1, "2:cpu:/\n");
        let disks = [Disk { role: "data".to_string(), device: "vda".to_string(), below: Vec::new() }];
        let check = |key: &str, value: &str, v1: (&str, &str), v2: (&str, &str)| {
            let limit = limit(&machine, key, value, &disks).unwrap();
            assert_eq!((limit.of_v1.0, limit.of_v1.1.as_str()), v1);
            assert_eq!((limit.of_v2.0, limit.of_v2.1.as_str()), v2);
        };
        check("cpu_quota", "1.5", ("cpu.cfs_quota_us", "150000"), ("cpu.max", "150000 100000"));
        let (iops, bps) = ("blkio.throttle.read_iops_device", "blkio.throttle.write_bps_device");
        check("data_read_iops", "200", (iops, "254:0 200"), ("io.max", "254:0 riops=200"));
        check("wal_write_mb_s", "2.5", (bps, "254:0 2500000"), ("io.max", "254:0 wbps=2500000"));
        for (key, value, expected) in [
            ("cpu_quota", "0.001", "less than 0.01"),
            ("cpu_quota", "-1", "not a positive number"),
            ("cpu_quota", "all", "no number"),
            ("data_read_iops", "0.5", "not in the range"),
        ] {
            let reason = refusal(&machine, key, value, &disks).unwrap();
            assert!(reason.contains(expected), "{reason}");
        }
        let asked = ["data_write_iops", "data_read_iops", "wal_write_iops"]
            .map(|key| (key.to_string(), "9".to_string()));
        let rival_of =
            |key: &str, disks: &[Disk]| rival(&machine, &BTreeMap::from(asked.clone()), key, disks);
        assert_eq!(
            rival_of("wal_write_iops", &disks).as_deref(),
            Some("data_write_iops"),
            "one disk for both"
        );
        assert_eq!(rival_of("data_read_iops", &disks), None);
        assert_eq!(rival_of("wal_write_iops", &[]), None, "no disk");
        let nowhere = refusal(&machine, "wal_write_iops", "100", &[]).unwrap();
        assert_eq!(nowhere, "the wal directory is not on a block device");
    }

    #[test]
    fn a_process_leaves_a_group_that_is_removed() {
        let root = tempfile::tempdir().unwrap();
        for dir in ["sys", "proc"] {
            symlink(Path::new("/").join(dir), root.path().join(dir)).unwrap();
        }
        // The kernel's groups, and a journal of this test's own.
        let machine = KernelFiles::at(root.path());
        if obstacle(&machine, Resource::Processors).is_some() {
            return;
        }
        let (mut keeper, _) = Keeper::take(&machine).unwrap();
        let asked = BTreeMap::from([("cpu_quota".to_string(), "0.5".to_string())]);
        let groups = make(&machine, &mut keeper, &asked, &[]).unwrap();
        let (value, file) = groups.detail["cpu_quota"].split_once(" in ").unwrap();
        assert!(machine.read(file).unwrap().starts_with(value), "{groups:?}");
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        fs::write(&groups.procs[0], child.id().to_string()).unwrap();
        let of_child = || fs::read_to_string(format!("/proc/{}/cgroup", child.id())).unwrap();
        assert!(of_child().contains("/pgdyno-"));
        let undone = keeper.undo().unwrap();
        assert_eq!((undone.len(), undone[0].now.as_str(), &undone[0].problem), (1, "removed", &None));
        assert!(!of_child().contains("/pgdyno-") && !groups.procs[0].exists());
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
