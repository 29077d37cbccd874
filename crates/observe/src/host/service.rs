//! How a machine keeps a service: idle states of its processors, what logind removes, and the limits of a server's
//! processes. Unreadable facts are left out.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use procfs::process::{LimitValue, Process};

use crate::host::cgroup;

/// Most bytes that are read of a file of logind, and most drop-ins of a directory: far above what anybody has.
const CONF_BYTES_MAX: u64 = 64 << 10;
const DROP_INS_MAX: usize = 256;

/// Facts of the machine below `root`.
pub(crate) fn of_machine(root: &Path) -> BTreeMap<String, String> {
    let latency_us = idle_latency_us(&root.join("sys/devices/system/cpu/cpu0/cpuidle"));
    let facts =
        [("cpu_idle_latency_us", latency_us.map(|us| us.to_string())), ("remove_ipc", remove_ipc(root))];
    facts.into_iter().filter_map(|(name, value)| Some((name.to_string(), value?))).collect()
}

/// Facts of a server's processes, by the process id of its postmaster.
pub(crate) fn of_server(postmaster_pid: u32) -> BTreeMap<String, String> {
    let mut facts = BTreeMap::new();
    let mut put = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            facts.insert(name.to_string(), value);
        }
    };
    if let Ok(process) =
        i32::try_from(postmaster_pid).map_err(|_| ()).and_then(|pid| Process::new(pid).map_err(|_| ()))
    {
        let open_files = process.limits().ok().map(|limits| match limits.max_open_files.soft_limit {
            LimitValue::Value(n) => n.to_string(),
            LimitValue::Unlimited => "unlimited".to_string(),
        });
        put("server_open_files", open_files);
        let status = process.status().ok();
        // What the server has mapped at most, of which shared memory is nearly all (kB).
        let peak = status.as_ref().and_then(|status| status.vmpeak);
        put("server_virtual_peak_bytes", peak.map(|kb| (kb * 1024).to_string()));
        put("server_uid", status.map(|status| status.ruid.to_string()));
    }
    let (cpus, memory) = cgroup::limits_of(postmaster_pid);
    put("server_cgroup_cpu_max", cpus.map(|n| n.to_string()));
    put("server_cgroup_memory_max_bytes", memory.map(|n| n.to_string()));
    facts
}

/// Exit latency of the deepest idle state that is enabled, microseconds.
fn idle_latency_us(dir: &Path) -> Option<u64> {
    let number = |path: PathBuf| fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    let states = fs::read_dir(dir).ok()?.flatten().map(|entry| entry.path());
    states
        .filter(|state| number(state.join("disable")) != Some(1))
        .filter_map(|state| number(state.join("latency")))
        .max()
}

/// Whether logind removes the shared memory of users whose last session ends; `None` where no logind runs. Its default
/// is yes (logind.conf(5)).
fn remove_ipc(root: &Path) -> Option<String> {
    // Packages and images make the directories below /run/systemd, also where another program is the first process. The
    // file of seat0, which is on every machine, is written by logind when it starts (systemd's logind-seat.c, seat_start).
    if !root.join("run/systemd/seats/seat0").exists() {
        return None;
    }
    let places = ["usr/lib", "run", "etc"].map(|place| root.join(place).join("systemd"));
    let mut mains = places.iter().map(|place| place.join("logind.conf"));
    let mut files: Vec<PathBuf> = mains.rfind(|path| path.exists()).into_iter().collect();
    // A drop-in hides those of the same name in places before, and all are read in the order of their names.
    let mut drop_ins: BTreeMap<String, PathBuf> = BTreeMap::new();
    let dirs = places.iter().filter_map(|place| fs::read_dir(place.join("logind.conf.d")).ok());
    for entry in dirs.flat_map(|dir| dir.take(DROP_INS_MAX)).flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.ends_with(".conf") {
            drop_ins.insert(name, entry.path());
        }
    }
    files.extend(drop_ins.into_values());
    let mut value = "yes".to_string();
    for text in files.iter().filter_map(|path| beginning(path)) {
        let found = text.lines().filter_map(|line| line.trim().strip_prefix("RemoveIPC=")).next_back();
        if let Some(found) = found {
            let is_no = ["no", "false", "off", "0", "n", "f"].contains(&found.trim().to_lowercase().as_str());
            value = if is_no { "no" } else { "yes" }.to_string();
        }
    }
    Some(value)
}

/// The text of a file of logind, up to a bound.
fn beginning(path: &Path) -> Option<String> {
    let mut text = Vec::new();
    File::open(path).ok()?.take(CONF_BYTES_MAX).read_to_end(&mut text).ok()?;
    Some(String::from_utf8_lossy(&text).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn the_last_of_logind_s_files_decides() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        assert_eq!(remove_ipc(root), None, "there is no logind");
        for dir in ["run/systemd/sessions", "run/systemd/seats"] {
            fs::create_dir_all(root.join(dir)).unwrap();
        }
        write(root, "usr/lib/systemd/logind.conf", "[Login]\nRemoveIPC=yes\n");
        assert_eq!(remove_ipc(root), None, "it is installed, and did not start");
        write(root, "run/systemd/seats/seat0", "IS_SEAT0=1\n");
        assert_eq!(remove_ipc(root).as_deref(), Some("yes"));
        write(root, "etc/systemd/logind.conf", "[Login]\n#RemoveIPC=yes\nRemoveIPC=no\n");
        assert_eq!(remove_ipc(root).as_deref(), Some("no"));
        write(root, "usr/lib/systemd/logind.conf.d/10.conf", "RemoveIPC=yes\n");
        assert_eq!(remove_ipc(root).as_deref(), Some("yes"));
        write(root, "etc/systemd/logind.conf.d/10.conf", "[Login]\n");
        assert_eq!(remove_ipc(root).as_deref(), Some("no"), "a file of the same name hides it");
    }

    #[test]
    fn idle_states_that_are_disabled_do_not_count() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(idle_latency_us(dir.path()), None);
        for (state, latency, disable) in [("state0", "0", "0"), ("state1", "2", "0"), ("state2", "133", "1")]
        {
            write(dir.path(), &format!("{state}/latency"), latency);
            write(dir.path(), &format!("{state}/disable"), disable);
        }
        assert_eq!(idle_latency_us(dir.path()), Some(2));
    }

    #[test]
    fn a_process_has_limits_and_a_user() {
        let facts = of_server(std::process::id());
        let uid = nix::unistd::getuid().to_string();
        assert_eq!(facts["server_uid"], uid);
        assert!(facts["server_open_files"].parse::<u64>().unwrap() > 0);
        assert!(facts["server_virtual_peak_bytes"].parse::<u64>().unwrap() > 1 << 20);
        assert_eq!(of_server(0), BTreeMap::new());
    }
}
