//! Which process something belongs to, across reuse of process ids and reboots.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::account::Account;

/// A `postmaster.pid` has eight short lines.
const PID_FILE_BYTES_MAX: u64 = 16 << 10;

/// A process of this machine, told apart from a later one with the same id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessId {
    /// Process id.
    pub pid: u32,
    /// When it started, in clock ticks since boot.
    pub start_ticks: u64,
    /// Which boot of the machine.
    pub boot_id: String,
}

impl ProcessId {
    /// This process.
    pub fn current() -> ProcessId {
        let pid = std::process::id();
        ProcessId { pid, start_ticks: start_ticks(pid).unwrap_or_default(), boot_id: boot_id() }
    }

    /// Whether the process still runs.
    pub fn is_alive(&self) -> bool {
        self.boot_id == boot_id() && start_ticks(self.pid) == Some(self.start_ticks)
    }
}

fn boot_id() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_string()
}

/// Field 22 of `/proc/PID/stat`; the name in field 2 may contain spaces and brackets. A zombie has ended.
fn start_ticks(pid: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = text[text.rfind(')')? + 1..].split_whitespace();
    if matches!(fields.next()?, "Z" | "X") {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

/// The postmaster that runs on `data_dir` as `account`, if one does. A `postmaster.pid` that a killed server left behind
/// names a process that is gone, or another one that works elsewhere; one that the server's user wrote may name any.
/// So it is only ever a reason to leave the cluster alone, never to signal the process.
pub(crate) fn postmaster_of(data_dir: &Path, account: &Account) -> Option<u32> {
    let text = account.act(|| files::read(&data_dir.join("postmaster.pid"), PID_FILE_BYTES_MAX)).ok()?;
    let pid: u32 = String::from_utf8_lossy(&text).lines().next()?.trim().parse().ok()?;
    start_ticks(pid)?;
    // A postmaster works in its data directory.
    let works_in = fs::read_link(format!("/proc/{pid}/cwd")).ok()?;
    (works_in == data_dir.canonicalize().ok()? && user_of(pid)? == account.uid).then_some(pid)
}

/// Effective user id of a process (proc_pid_status(5)).
fn user_of(pid: u32) -> Option<u32> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let ids = text.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    ids.split_ascii_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_told_apart_from_a_later_one_with_its_id() {
        let me = ProcessId::current();
        assert!(me.start_ticks > 0 && me.is_alive());
        assert!(!ProcessId { start_ticks: me.start_ticks + 1, ..me.clone() }.is_alive());
        assert!(!ProcessId { boot_id: "another boot".into(), ..me }.is_alive());
    }

    #[test]
    fn a_left_over_pid_file_is_not_a_running_server() {
        let dir = tempfile::tempdir().unwrap();
        let me = Account::of_owner(dir.path()).unwrap();
        assert_eq!(postmaster_of(dir.path(), &me), None);
        for text in ["", "1\n", "999999999\n", "rubbish"] {
            fs::write(dir.path().join("postmaster.pid"), text).unwrap();
            assert_eq!(postmaster_of(dir.path(), &me), None, "{text}");
        }
    }

    #[test]
    fn a_process_in_the_directory_that_is_another_users_is_not_its_server() {
        let dir = tempfile::tempdir().unwrap();
        let me = Account::of_owner(dir.path()).unwrap();
        let mut child =
            std::process::Command::new("sleep").arg("60").current_dir(dir.path()).spawn().unwrap();
        fs::write(dir.path().join("postmaster.pid"), format!("{}\n", child.id())).unwrap();
        let stranger = Account { uid: 54_321, ..me.clone() };
        let found = (postmaster_of(dir.path(), &me), postmaster_of(dir.path(), &stranger));
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(found, (Some(child.id()), None));
    }
}
