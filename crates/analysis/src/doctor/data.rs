//! Rows of the file systems and devices that hold data and WAL.

use model::run::host::MountRecord;

use super::host::{HOST, mib};
use super::{DoctorRow, DoctorVerdict, Examined, Look, RowScope, RowVerdict, either};
use crate::findings::forgetful;

const DATA: DoctorRow = DoctorRow { scope: RowScope::Data, ..HOST };

/// Judges each file system by a word; roles on one device are said once. `None` is fine.
fn each(e: &Examined, verdict: DoctorVerdict, look: impl Fn(&MountRecord) -> (bool, String)) -> Look {
    let mut found: Vec<(String, bool, String)> = Vec::new();
    for (role, mount) in e.mounts()? {
        let (is_fine, word) = look(mount);
        match found.iter_mut().find(|(_, _, known)| *known == word) {
            Some((roles, _, _)) => roles.push_str(&format!(", {role}")),
            None => found.push((role.to_string(), is_fine, word)),
        }
    }
    let is_fine = found.iter().all(|(_, is_fine, _)| *is_fine);
    let words: Vec<String> = found.into_iter().map(|(roles, _, word)| format!("{roles}: {word}")).collect();
    Ok(RowVerdict::unless(is_fine, verdict, words.join("; ")))
}

pub(super) const FILE_SYSTEM: DoctorRow = DoctorRow {
    id: "file-system",
    wanted: "a file system that keeps what was flushed",
    why: "Memory keeps nothing: the server looks faster than any that keeps its data.",
    source: "tmpfs(5); the kernel's overlayfs: volatile mount",
    fix: "put data and WAL on a disk",
    judge: |e| {
        either(each(e, DoctorVerdict::Doubt, |mount| {
            let reason = if has_no_barriers(mount) { None } else { forgetful(mount) };
            (
                reason.is_none(),
                reason.unwrap_or_else(|| format!("{} at {}", mount.fs_type, mount.mount_point)),
            )
        }))
    },
    ..DATA
};

fn has_no_barriers(mount: &MountRecord) -> bool {
    has_any(mount, &["nobarrier", "barrier=0"])
}

fn has_any(mount: &MountRecord, options: &[&str]) -> bool {
    mount.options.split(',').any(|option| options.contains(&option))
}

pub(super) const BARRIERS: DoctorRow = DoctorRow {
    id: "barriers",
    wanted: "write barriers",
    why: "Without them a commit may be in a cache that loses power.",
    source: "PostgreSQL documentation, reliability; mount(8)",
    fix: "mount without nobarrier and barrier=0",
    judge: |e| {
        either(each(e, DoctorVerdict::Doubt, |mount| {
            if has_no_barriers(mount) {
                (false, "mounted without barriers".to_string())
            } else {
                (true, "barriers".to_string())
            }
        }))
    },
    ..DATA
};

/// Free space below which telemetry reports a disk as nearly full (finding disk-nearly-full).
fn free_min(mount: &MountRecord) -> u64 {
    (mount.total_bytes / 20).max(1 << 30)
}

pub(super) const DISK_SPACE: DoctorRow = DoctorRow {
    id: "disk-space",
    wanted: "5 % and 1 GiB free",
    why: "File systems slow down when nearly full, and a full WAL disk ends the server.",
    source: "fault study",
    fix: "free space on the device",
    judge: |e| either(disk_space(e)),
    ..DATA
};

fn disk_space(e: &Examined) -> Look {
    // A file system that does not say how large it is has 0 bytes in the record.
    let is_said = |mount: &MountRecord| mount.total_bytes > 0;
    if !e.mounts()?.iter().any(|(_, mount)| is_said(mount)) {
        return Ok(RowVerdict::unseen("the file system does not say how much is free"));
    }
    each(e, DoctorVerdict::Doubt, |mount| {
        if is_said(mount) {
            let word = format!("{} of {} free", mib(mount.free_bytes as f64), mib(mount.total_bytes as f64));
            (mount.free_bytes >= free_min(mount), word)
        } else {
            (true, "not said".to_string())
        }
    })
}

pub(super) const ATIME: DoctorRow = DoctorRow {
    id: "atime",
    wanted: "noatime, or relatime (one write a day and file)",
    why: "Each read of a file also writes its time.",
    source: "study of releases; HammerDB study; EDB's study; mount(8)",
    fix: "mount -o remount,noatime, and in /etc/fstab",
    judge: |e| {
        either(each(e, DoctorVerdict::Advice, |mount| {
            let quiet = ["noatime", "relatime"].into_iter().find(|option| has_any(mount, &[option]));
            (quiet.is_some(), quiet.unwrap_or("times of reads are written").to_string())
        }))
    },
    ..DATA
};

const READ_AHEAD_KB: f64 = 4096.0;

pub(super) const READ_AHEAD: DoctorRow = DoctorRow {
    id: "read-ahead",
    wanted: "4096 kB",
    why: "Sequential scans, vacuum and backups wait for each small read; random reads are not affected.",
    source: "study of releases; tuned 2bfa442, throughput-performance",
    fix: "echo 4096 > /sys/block/DEVICE/queue/read_ahead_kb, or --apply",
    knob: Some(("read_ahead_kb", &["4096"])),
    judge: |e| {
        either(on_devices(e).and_then(|()| {
            each(e, DoctorVerdict::Advice, |mount| match mount.facts.get("read_ahead_kb") {
                None => (true, without(mount)),
                Some(kb) => (is_read_ahead_enough(kb), format!("{kb} kB ({})", mount.device)),
            })
        }))
    },
    ..DATA
};

pub(super) fn is_read_ahead_enough(kb: &str) -> bool {
    kb.parse::<f64>().is_ok_and(|kb| kb >= READ_AHEAD_KB)
}

/// Fails if nothing is on a block device.
fn on_devices(e: &Examined) -> Result<(), RowVerdict> {
    let has_any = e.mounts()?.iter().any(|(_, mount)| !mount.device.is_empty());
    if has_any { Ok(()) } else { Err(RowVerdict::unseen("data and WAL are on no block device")) }
}

/// Why a file system has no facts of a device.
fn without(mount: &MountRecord) -> String {
    match mount.device.as_str() {
        "" => "no block device".to_string(),
        device => format!("{device} does not show it"),
    }
}

const SCHEDULERS: &[&str] = &["none", "mq-deadline"];

pub(super) const IO_SCHEDULER: DoctorRow = DoctorRow {
    id: "io-scheduler",
    wanted: "mq-deadline or none",
    why: "Others hold requests back to share a disk fairly, which slows a server's processes.",
    source: "study of releases: mq-deadline; none for NVMe, as the kernel chooses",
    fix: "echo none > /sys/block/DEVICE/queue/scheduler, or --apply",
    knob: Some(("io_scheduler", SCHEDULERS)),
    judge: |e| either(on_devices(e).and_then(|()| each(e, DoctorVerdict::Advice, scheduler))),
    ..DATA
};

fn scheduler(mount: &MountRecord) -> (bool, String) {
    // Of a device that is built from others, those below have schedulers: `scheduler[vda]`.
    let all = mount.facts.iter().filter(|(name, _)| name.split('[').next() == Some("scheduler"));
    let all: Vec<&str> = all.map(|(_, value)| value.as_str()).collect();
    let is_fine = all.iter().all(|name| SCHEDULERS.contains(name));
    let cache = mount.facts.get("write_cache").map_or(String::new(), |cache| format!(", {cache}"));
    match all.as_slice() {
        [] => (true, without(mount)),
        all => (is_fine, format!("{} ({}{cache})", all.join(" "), mount.device)),
    }
}

pub(super) const WAL_APART: DoctorRow = DoctorRow {
    id: "wal-apart",
    wanted: "WAL on its own device",
    why: "Each commit waits for a flush of the device that also writes a checkpoint's pages.",
    source: "study of releases; HammerDB study; EDB's study",
    fix: "initdb --waldir, or stop the server, move pg_wal to another device and link it",
    judge: |e| either(wal_apart(e)),
    ..DATA
};

fn wal_apart(e: &Examined) -> Look {
    let mounts = e.mounts()?;
    let of = |role: &str| mounts.iter().find(|(known, _)| *known == role).map(|(_, mount)| *mount);
    let (Some(data), Some(wal)) = (of("data"), of("wal")) else {
        let reason = e.missing.get("disk (wal)").map_or("no directory of WAL is known", String::as_str);
        return Ok(RowVerdict::unseen(reason));
    };
    let device = |mount: &MountRecord| {
        if mount.device.is_empty() { mount.mount_point.clone() } else { mount.device.clone() }
    };
    let (data, wal) = (device(data), device(wal));
    let found = if data == wal { format!("both on {data}") } else { format!("data on {data}, WAL on {wal}") };
    Ok(RowVerdict::unless(data != wal, DoctorVerdict::Advice, found))
}

/// Whether the data is on rotating disks; `None` if its device is not visible, or is virtual: a virtual disk reports that it rotates
/// unless its hypervisor says otherwise.
pub(super) fn is_rotational(e: &Examined) -> Option<bool> {
    let mount = e.server_host()?.mounts.get("data")?;
    let flags = mount.facts.iter().filter(|(name, _)| name.split('[').next() == Some("rotational"));
    let flags: Vec<&str> = flags.map(|(_, value)| value.as_str()).collect();
    let below = mount.facts.get("made_of").map_or("", String::as_str);
    let mut devices = std::iter::once(mount.device.as_str()).chain(below.split(' '));
    let is_virtual = devices.any(|device| device.starts_with("vd") || device.starts_with("xvd"));
    match flags.as_slice() {
        [] => None,
        flags if flags.contains(&"1") => (!is_virtual).then_some(true),
        _ => Some(false),
    }
}
