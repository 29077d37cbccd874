//! Huge pages: how many there are, and how to reserve more.

use anyhow::{Context, Result, bail, ensure};

use crate::holders;
use crate::keeper::Keeper;
use crate::kernel_files::KernelFiles;

pub(crate) const NR_HUGE_PAGES: &str = "/proc/sys/vm/nr_hugepages";
const COMPACT: &str = "/proc/sys/vm/compact_memory";
const DROP_CACHES: &str = "/proc/sys/vm/drop_caches";
/// Attempts, and after how many of them clean pages of the page cache are dropped. The kernel reserves what it finds in one go, and may
/// find more after compaction; a page cache that fills the memory leaves it no whole huge pages.
const N_ATTEMPTS: u32 = 6;
const N_BEFORE_DROP: u32 = 3;
/// One directory for each size of huge pages (Documentation/admin-guide/mm/hugetlbpage.rst).
const SIZES: &str = "/sys/kernel/mm/hugepages";

/// Huge pages that the kernel counts apart from others: those of one size, on one NUMA node or on all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HugePagePool {
    page_kb: u64,
    node: Option<usize>,
}

/// Numbers of huge pages in a pool.
///
/// The kernel promises pages to shared memory that no process has touched yet; they are free, but not available.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Counts {
    /// Surplus ones included.
    total: u64,
    free: u64,
    /// Free pages of this size that are promised, on all nodes.
    promised: u64,
}

impl HugePagePool {
    /// Pages of `page_bytes`, else of the kernel's default size; those of one NUMA node, else of all.
    ///
    /// # Errors
    /// When the kernel has no huge pages of this size.
    pub fn find(machine: &KernelFiles, page_bytes: Option<u64>, node: Option<usize>) -> Result<HugePagePool> {
        let page_kb = match page_bytes {
            Some(bytes) => bytes / 1024,
            None => default_kb(machine)?,
        };
        let pool = HugePagePool { page_kb, node: None };
        if !machine.exists(&pool.file("nr_hugepages")) {
            let size_kb = |name: &String| name.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok();
            let mut sizes: Vec<u64> = machine.names(SIZES).iter().filter_map(size_kb).collect();
            sizes.sort_unstable();
            let sizes: Vec<String> = sizes.iter().map(|kb| format!("{kb} kB")).collect();
            let sizes = if sizes.is_empty() { "no size".to_string() } else { sizes.join(", ") };
            bail!("this kernel has huge pages of {sizes}, not of {page_kb} kB");
        }
        Ok(HugePagePool { node, ..pool })
    }

    /// Size of one page.
    pub fn page_bytes(&self) -> u64 {
        self.page_kb * 1024
    }

    /// A file of the pool. A node has its own (Documentation/ABI/stable/sysfs-devices-node).
    fn file(&self, name: &str) -> String {
        let sizes = match self.node {
            Some(node) => format!("/sys/devices/system/node/node{node}/hugepages"),
            None => SIZES.to_string(),
        };
        format!("{sizes}/hugepages-{}kB/{name}", self.page_kb)
    }

    fn look(&self, machine: &KernelFiles) -> Result<Counts> {
        let number = |path: String| -> Result<u64> {
            machine.text(&path)?.trim().parse().with_context(|| format!("`{path}` is not a number"))
        };
        // Promises are of no node.
        let all = HugePagePool { node: None, ..*self };
        Ok(Counts {
            total: number(self.file("nr_hugepages"))?,
            free: number(self.file("free_hugepages"))?,
            promised: number(all.file("resv_hugepages"))?,
        })
    }

    /// Whether fewer than `n_pages` are free and promised to nobody.
    ///
    /// # Errors
    /// When the kernel's files cannot be read.
    pub fn lacks(&self, machine: &KernelFiles, n_pages: u64) -> Result<bool> {
        let present = self.look(machine)?;
        Ok(present.free.saturating_sub(present.promised) < n_pages)
    }

    /// Reserves `n_pages` on top of those that others use. The kernel spreads those of no particular node over all nodes. Returns by how
    /// many bytes the page cache of all files has shrunk: the kernel takes its clean pages for huge ones.
    ///
    /// # Errors
    /// When the kernel does not find that many; the keeper restores what was reserved.
    pub fn reserve(&self, machine: &KernelFiles, keeper: &mut Keeper, n_pages: u64) -> Result<u64> {
        let (present, file) = (self.look(machine)?, self.file("nr_hugepages"));
        // Promised pages may be taken on any node.
        let needed = n_pages + present.promised;
        let wanted = present.total.saturating_sub(present.free) + needed;
        let cached_kb = kb_of(machine, "Cached")?;
        if present.total >= wanted {
            return Ok(0);
        }
        for n_before in 0..N_ATTEMPTS {
            if n_before > 0 {
                // The file may be missing, and compaction might not help.
                machine.write(COMPACT, "1").ok();
            }
            if n_before == N_BEFORE_DROP {
                // No data is lost: what is not written yet stays.
                machine.write(DROP_CACHES, "1").ok();
            }
            keeper.try_set(&file, &wanted.to_string())?;
            if self.look(machine)?.free >= needed {
                return Ok(cached_kb.saturating_sub(kb_of(machine, "Cached")?) * 1024);
            }
        }
        let found = self.look(machine)?;
        let place = self.node.map(|node| format!(" on NUMA node {node}")).unwrap_or_default();
        bail!(
            "the server needs {n_pages} huge pages of {} kB{place}, but the kernel found only {}: memory is in use or fragmented{}; \
             lower shared_buffers, free memory, or reserve them at boot (`{file}`)",
            self.page_kb,
            found.free.saturating_sub(found.promised),
            holders::words(machine)
                .map_or_else(String::new, |words| format!(" (huge pages are held by {words})"))
        )
    }
}

fn default_kb(machine: &KernelFiles) -> Result<u64> {
    let kb = kb_of(machine, "Hugepagesize")?;
    ensure!(kb > 0, "this kernel has no huge pages (`/proc/meminfo` does not name their size)");
    Ok(kb)
}

/// A value of `/proc/meminfo`; zero if it is not there.
fn kb_of(machine: &KernelFiles, name: &str) -> Result<u64> {
    let text = machine.text("/proc/meminfo")?;
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    Ok(value.and_then(|value| value.split_whitespace().next()?.parse().ok()).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    /// `nr_hugepages`, `free_hugepages` and, of all nodes, `resv_hugepages` of a guest with two nodes (Linux 6.1), on whose first
    /// node a server with 140 huge pages runs and has touched 51.
    const POOLS: [(&str, [&str; 3]); 5] = [
        ("sys/kernel/mm/hugepages/hugepages-2048kB", ["140", "89", "89"]),
        ("sys/kernel/mm/hugepages/hugepages-1048576kB", ["0", "0", "0"]),
        ("sys/devices/system/node/node0/hugepages/hugepages-2048kB", ["140", "89", ""]),
        ("sys/devices/system/node/node1/hugepages/hugepages-2048kB", ["0", "0", ""]),
        ("sys/devices/system/node/node1/hugepages/hugepages-1048576kB", ["0", "0", ""]),
    ];
    const ALL: &str = "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages";
    const NODE_1: &str = "/sys/devices/system/node/node1/hugepages/hugepages-2048kB/nr_hugepages";
    const LARGE: &str = "/sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages";

    fn machine(root: &Path) -> KernelFiles {
        let put = |path: &str, text: &str| {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        put(
            "proc/meminfo",
            "MemTotal:        2994792 kB\nCached:           271792 kB\nSwapCached:            0 kB\nHugePages_Total:     140\nHugepagesize:       2048 kB\n",
        );
        put("proc/sys/vm/drop_caches", "0\n");
        for (dir, counts) in POOLS {
            for (name, count) in ["nr_hugepages", "free_hugepages", "resv_hugepages"].iter().zip(counts) {
                if !count.is_empty() {
                    put(&format!("{dir}/{name}"), &format!("{count}\n"));
                }
            }
        }
        KernelFiles::at(root)
    }

    #[test]
    fn pages_are_reserved_where_they_are_asked_for_and_given_back() {
        // What is free does not follow in files, so that all attempts fail.
        let check = |page_bytes: Option<u64>, node: Option<usize>, file: &str, set: &str, said: &str| {
            let root = tempfile::tempdir().unwrap();
            let machine = machine(root.path());
            let values = || [ALL, NODE_1, LARGE].map(|path| machine.read(path).unwrap());
            let before = values();
            let (mut keeper, _) = Keeper::take(&machine).unwrap();
            let pool = HugePagePool::find(&machine, page_bytes, node).unwrap();
            let error = pool.reserve(&machine, &mut keeper, 30).unwrap_err().to_string();
            assert!(error.contains(said) && error.contains(file), "{error}");
            assert_eq!(machine.read(file).unwrap(), set);
            let undone = keeper.undo().unwrap();
            assert!(undone.iter().all(|value| value.problem.is_none()) && undone.len() == 1, "{undone:?}");
            assert_eq!(values(), before);
        };
        // 51 are in use, 89 are promised, and 30 wanted. The promised ones may be taken on the other node.
        check(None, None, ALL, "170", "needs 30 huge pages of 2048 kB, but the kernel found only 0:");
        check(
            None,
            Some(1),
            NODE_1,
            "119",
            "30 huge pages of 2048 kB on NUMA node 1, but the kernel found only 0:",
        );
        check(Some(1 << 30), None, LARGE, "30", "30 huge pages of 1048576 kB, but the kernel found only 0:");
    }

    /// Before: 362 pages, all lent to two servers with `huge_pages = try`. Writing counts the reserved ones alone, so that 362
    /// written back would reserve theirs.
    #[test]
    fn pages_that_others_have_beyond_the_reserved_ones_are_not_reserved_when_values_are_restored() {
        let root = tempfile::tempdir().unwrap();
        let machine = machine(root.path());
        let surplus = ALL.replace("nr_", "surplus_");
        fs::write(machine.path(&surplus), "362\n").unwrap();
        for (path, count) in
            [(ALL, "362"), (&ALL.replace("nr_", "free_"), "0"), (&ALL.replace("nr_", "resv_"), "0")]
        {
            machine.write(path, count).unwrap();
        }
        for (pid, name, kb) in [("41", "postgres", 600_000), ("42", "postgres", 141_376), ("43", "sh", 0)] {
            fs::create_dir_all(machine.path(&format!("/proc/{pid}"))).unwrap();
            let status = format!("Name:\t{name}\nVmRSS:\t 9 kB\nHugetlbPages:\t  {kb} kB\n");
            fs::write(machine.path(&format!("/proc/{pid}/status")), status).unwrap();
        }
        assert_eq!(machine.read(ALL).unwrap(), "0");
        let (mut keeper, _) = Keeper::take(&machine).unwrap();
        let pool = HugePagePool::find(&machine, None, None).unwrap();
        let error = pool.reserve(&machine, &mut keeper, 30).unwrap_err().to_string();
        let held =
            "(huge pages are held by postgres (process 41) with 586 MiB, postgres (process 42) with 139 MiB)";
        assert!(error.contains(held), "{error}");
        // All that is used becomes reserved, and 30 more.
        assert_eq!(machine.text(ALL).unwrap(), "392");
        // What the kernel makes of it: no page is surplus now, and once 0 is written, those are that are in use.
        let journal = fs::read_to_string(machine.path("/run/pgdyno/os-undo.jsonl")).unwrap();
        assert!(journal.contains("\"before\":\"0\""), "{journal}");
        let undone = keeper.undo().unwrap();
        let [undone] = undone.as_slice() else { panic!("{undone:?}") };
        assert_eq!((machine.text(ALL).unwrap().as_str(), &undone.problem), ("0", &None));
        let remains = undone.remains.as_deref().unwrap();
        assert!(
            remains.starts_with("processes use 362 more huge pages") && remains.contains("process 41"),
            "{remains}"
        );
    }

    #[test]
    fn enough_free_pages_that_are_not_promised_are_left_as_they_are() {
        let root = tempfile::tempdir().unwrap();
        let machine = machine(root.path());
        for (path, count) in [
            (ALL, "200"),
            (&ALL.replace("nr_", "free_"), "100"),
            (NODE_1, "90"),
            (&NODE_1.replace("nr_", "free_"), "90"),
        ] {
            machine.write(path, count).unwrap();
        }
        let (mut keeper, _) = Keeper::take(&machine).unwrap();
        let pool = |node: Option<usize>| HugePagePool::find(&machine, None, node).unwrap();
        assert_eq!(pool(None).reserve(&machine, &mut keeper, 11).unwrap(), 0);
        assert_eq!([11, 12].map(|n| pool(None).lacks(&machine, n).unwrap()), [false, true]);
        assert_eq!(pool(Some(1)).reserve(&machine, &mut keeper, 1).unwrap(), 0);
        assert_eq!(keeper.undo().unwrap(), []);
        assert_eq!(machine.read("/proc/sys/vm/drop_caches").unwrap(), "0");
        let error = pool(None).reserve(&machine, &mut keeper, 12).unwrap_err().to_string();
        assert!(error.contains("found only 11:"), "{error}");
        assert_eq!(machine.read(ALL).unwrap(), "201");
        assert_eq!(machine.read("/proc/sys/vm/drop_caches").unwrap(), "1");
        assert_eq!(kb_of(&machine, "Cached").unwrap(), 271_792);
    }

    #[test]
    fn a_size_or_node_without_huge_pages_is_named() {
        let root = tempfile::tempdir().unwrap();
        let machine = machine(root.path());
        let error = HugePagePool::find(&machine, Some(16 << 20), None).unwrap_err().to_string();
        assert_eq!(error, "this kernel has huge pages of 2048 kB, 1048576 kB, not of 16384 kB");
        let (mut keeper, _) = Keeper::take(&machine).unwrap();
        let pool = HugePagePool::find(&machine, None, Some(2)).unwrap();
        let error = pool.reserve(&machine, &mut keeper, 1).unwrap_err();
        assert!(format!("{error:#}").contains("node2/hugepages"), "{error:#}");
        fs::write(root.path().join("proc/meminfo"), "MemTotal:  3000000 kB\n").unwrap();
        let error = HugePagePool::find(&machine, None, None).unwrap_err().to_string();
        assert!(error.contains("has no huge pages"), "{error}");
    }
}
