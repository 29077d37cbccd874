//! The identity of a process across reuse of process ids and reboots.

use std::fs;

use serde::{Deserialize, Serialize};

/// A process of this machine, distinguished from a later one with the same id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessId {
    /// Process id.
    pub pid: u32,
    /// When it started, in clock ticks since boot.
    pub start_ticks: u64,
    /// Identity of the boot of the machine, as the kernel gives it.
    pub boot_id: String,
}

impl ProcessId {
    /// The identity of this process.
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
pub(crate) fn start_ticks(pid: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = text[text.rfind(')')? + 1..].split_whitespace();
    if matches!(fields.next()?, "Z" | "X") {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_distinguished_from_a_later_one_with_its_id() {
        let me = ProcessId::current();
        assert!(me.start_ticks > 0 && me.is_alive());
        assert!(!ProcessId { start_ticks: me.start_ticks + 1, ..me.clone() }.is_alive());
        assert!(!ProcessId { boot_id: "another boot".into(), ..me }.is_alive());
    }
}
