//! Memory that the kernel lets programs reserve, where it counts what they reserve (`vm.overcommit_memory = 2`; overcommit-accounting of the
//! kernel's documentation).

use std::fs;

use model::experiment::case::{Case, setting};
use model::text::prose::bytes;
use server::settings::defaults::meminfo_bytes;

use crate::forecast::outlook::shared_buffers_of;

/// The mode in which the kernel refuses what goes beyond its limit.
pub(super) const STRICT: &str = "2";

/// What the kernel says of reserved memory.
#[derive(Debug, Clone, PartialEq)]
pub struct CommitRoom {
    /// `vm.overcommit_memory`.
    mode: String,
    limit_bytes: u64,
    reserved_bytes: u64,
}

impl CommitRoom {
    /// That of this machine; `None` if the kernel does not say.
    pub fn here() -> Option<CommitRoom> {
        let mode = fs::read_to_string("/proc/sys/vm/overcommit_memory").ok()?;
        CommitRoom::from_files(&mode, &fs::read_to_string("/proc/meminfo").ok()?)
    }

    /// From the texts of `/proc/sys/vm/overcommit_memory` and `/proc/meminfo`.
    pub(super) fn from_files(mode: &str, meminfo: &str) -> Option<CommitRoom> {
        Some(CommitRoom {
            mode: mode.trim().to_string(),
            limit_bytes: meminfo_bytes(meminfo, "CommitLimit")?,
            reserved_bytes: meminfo_bytes(meminfo, "Committed_AS")?,
        })
    }

    /// `vm.overcommit_memory` of this machine.
    pub(super) fn mode(&self) -> &str {
        &self.mode
    }

    /// What all programs together may reserve in the strict mode. What they have reserved does not change it: it follows from memory,
    /// swap, the pool of huge pages and `vm.overcommit_ratio` (proc_meminfo(5)).
    pub(super) fn limit_bytes(&self) -> u64 {
        self.limit_bytes
    }

    /// Why the server of a case, if it is ours, cannot reserve its shared buffers. Huge pages are not counted.
    pub(super) fn problem(&self, case: &Case, memory_bytes: u64) -> Option<String> {
        let mode = case.os.get("overcommit_memory").unwrap_or(&self.mode);
        let shared = shared_buffers_of(case, memory_bytes);
        let left = self.limit_bytes.saturating_sub(self.reserved_bytes);
        if !case.server.source.is_embedded() || mode != STRICT || shared <= left || wants_huge_pages(case) {
            return None;
        }
        let whose = match case.os.get("overcommit_memory") {
            Some(_) => "as os.overcommit_memory asks",
            None => "as this machine has it",
        };
        let why = if shared > self.limit_bytes {
            format!("more than all programs may reserve, {}", bytes(self.limit_bytes as f64))
        } else {
            format!(
                "more than the {} that programs may still reserve: now they have {} of {}",
                bytes(left as f64),
                bytes(self.reserved_bytes as f64),
                bytes(self.limit_bytes as f64)
            )
        };
        Some(format!(
            "shared buffers of {} are {why} (vm.overcommit_memory = {STRICT}, {whose}; Committed_AS and CommitLimit of \
             /proc/meminfo); lower server.settings.shared_buffers, raise vm.overcommit_ratio, set vm.overcommit_memory to 0, or let \
             --fit choose",
            bytes(shared as f64)
        ))
    }
}

fn wants_huge_pages(case: &Case) -> bool {
    let is_off = |value: &String| value.eq_ignore_ascii_case("off");
    let of_setting = setting::find(&case.server.settings, "huge_pages");
    case.os.get("huge_pages").is_some_and(|value| !is_off(value))
        || of_setting.is_some_and(|(_, value)| value.eq_ignore_ascii_case("on"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::sample;

    #[test]
    fn shared_buffers_that_the_kernel_would_refuse_are_named() {
        let meminfo = "MemTotal: 24000000 kB\nCommitLimit:    12000000 kB\nCommitted_AS:    8000000 kB\n";
        let problem = |mode: &str, text: &str| {
            let text = format!("[server]\nversion = \"18\"\n{text}\n[workload]\nclients = 1\n");
            let plan = sample::plan(&text);
            CommitRoom::from_files(mode, meminfo).unwrap().problem(&plan.cases[0], 24 << 30)
        };
        let found = problem("2\n", "").unwrap();
        assert!(
            found.contains("6.00 GiB are more than the 3.81 GiB that programs may still reserve"),
            "{found}"
        );
        assert!(
            found.contains(
                "now they have 7.63 GiB of 11.4 GiB (vm.overcommit_memory = 2, as this machine has it;"
            ),
            "{found}"
        );
        let beyond =
            problem("0\n", "settings.shared_buffers = \"12GB\"\n[os]\novercommit_memory = 2").unwrap();
        let expected = "shared buffers of 12.0 GiB are more than all programs may reserve, 11.4 GiB (vm.overcommit_memory = 2, as \
                        os.overcommit_memory asks;";
        assert!(beyond.starts_with(expected), "{beyond}");
        assert_eq!(problem("0\n", ""), None);
        assert_eq!(problem("2\n", "settings.shared_buffers = \"3GB\""), None);
        assert_eq!(problem("2\n", "settings.huge_pages = \"on\""), None, "they are not counted");
        assert_eq!(problem("2\n", "[os]\novercommit_memory = 0"), None);
        assert!(problem("0\n", "[os]\novercommit_memory = 2").is_some());
        assert_eq!(CommitRoom::from_files("2", "MemTotal: 1 kB\n"), None);
    }
}
