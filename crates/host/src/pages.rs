//! Huge pages: how many there are, and how to reserve more.

use anyhow::{Result, bail};

use crate::keeper::Keeper;
use crate::kernel_files::Machine;

pub(crate) const NR_HUGE_PAGES: &str = "/proc/sys/vm/nr_hugepages";
const COMPACT: &str = "/proc/sys/vm/compact_memory";
const DROP_CACHES: &str = "/proc/sys/vm/drop_caches";
/// Attempts, and after how many of them clean pages of the page cache are dropped. The kernel reserves what it finds in one go, and may
/// find more after compaction; a page cache that fills the memory leaves it no whole huge pages.
const N_ATTEMPTS: u32 = 6;
const N_BEFORE_DROP: u32 = 3;

/// Numbers of huge pages and their size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HugePages {
    /// Reserved pages.
    pub total: u64,
    /// Reserved pages that are not in use.
    pub free: u64,
    /// Size of one page.
    pub page_bytes: u64,
}

/// Reads the current numbers.
///
/// # Errors
/// When the kernel has no huge pages.
pub fn look(machine: &Machine) -> Result<HugePages> {
    let text = std::fs::read_to_string(machine.path("/proc/meminfo"))?;
    let number = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim_start_matches(':').split_whitespace().next()?.parse::<u64>().ok()
    };
    match (number("HugePages_Total"), number("HugePages_Free"), number("Hugepagesize")) {
        (Some(total), Some(free), Some(kb)) if kb > 0 => Ok(HugePages { total, free, page_bytes: kb * 1024 }),
        _ => bail!("this kernel has no huge pages (`/proc/meminfo` does not name their size)"),
    }
}

/// Reserves `n_pages` on top of those that others use.
///
/// # Errors
/// When the kernel does not find that many; the keeper restores what was reserved.
pub fn reserve(machine: &Machine, keeper: &mut Keeper, n_pages: u64) -> Result<()> {
    let present = look(machine)?;
    let wanted = present.total - present.free + n_pages;
    if present.total >= wanted {
        return Ok(());
    }
    for n_before in 0..N_ATTEMPTS {
        if n_before > 0 {
            // The file may be missing, and compaction may not help.
            machine.write(COMPACT, "1").ok();
        }
        if n_before == N_BEFORE_DROP {
            // No data is lost: what is not written yet stays.
            machine.write(DROP_CACHES, "1").ok();
        }
        keeper.try_set(NR_HUGE_PAGES, &wanted.to_string())?;
        if look(machine)?.free >= n_pages {
            return Ok(());
        }
    }
    let found = look(machine)?;
    bail!(
        "the server needs {n_pages} huge pages of {} kB, but the kernel found only {}: memory is in use or fragmented; \
         lower shared_buffers, free memory, or reserve them at boot (vm.nr_hugepages)",
        found.page_bytes / 1024,
        found.free
    )
}
