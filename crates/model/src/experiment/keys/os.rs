//! `[os]`: values of the kernel, set before each run and restored after it. Absent keys are left alone.

use serde::{Deserialize, Serialize};

use super::row::{KeyKind, KeyRow, of_place};
use super::section;
use crate::experiment::Experiment;
use crate::experiment::keys::levels::Levels;
use crate::experiment::os::{HugePages, Numa, TransparentHugePages};

section! {
    /// `[os]`: values of the kernel, set before each run and restored after it. Absent keys are left alone.
    #[serde(deny_unknown_fields, default)]
    os: OsSection {
        /// `on`: reserve as many as the server needs, of the size in its `huge_page_size`, on the node that `os.numa` binds its memory to,
        /// and make it insist on them; `off`: use none
        #[serde(skip_serializing_if = "Option::is_none")]
        HUGE_PAGES = huge_pages: Option<Levels<HugePages>>,
            of_place(KeyKind::Words(&["on", "off"]), "unchanged");

        /// `always`, `madvise`, `never`
        #[serde(skip_serializing_if = "Option::is_none")]
        TRANSPARENT_HUGE_PAGES = transparent_huge_pages: Option<Levels<TransparentHugePages>>,
            of_place(KeyKind::Words(&TransparentHugePages::WORDS), "unchanged");

        /// how hard the kernel looks for transparent huge pages: `always`, `defer`, `defer+madvise`, `madvise`, `never`
        #[serde(skip_serializing_if = "Option::is_none")]
        TRANSPARENT_HUGE_PAGES_DEFRAG = transparent_huge_pages_defrag: Option<Levels<String>>,
            of_place(KeyKind::Words(&["always", "defer", "defer+madvise", "madvise", "never"]), "unchanged");

        /// the kernel's `kernel.shmmax` (bytes), a limit of System V shared memory, which before PostgreSQL 9.3 holds shared buffers
        #[serde(skip_serializing_if = "Option::is_none")]
        SHMMAX = shmmax: Option<Levels<u64>>,
            of_place(KeyKind::Whole(32 << 20, i64::MAX as u64), "unchanged");

        /// the kernel's `kernel.shmall` (pages), as `os.shmmax`
        #[serde(skip_serializing_if = "Option::is_none")]
        SHMALL = shmall: Option<Levels<u64>>,
            of_place(KeyKind::Whole(2 << 20, i64::MAX as u64), "unchanged");

        /// the kernel's `vm.swappiness`, 0 to 200
        #[serde(skip_serializing_if = "Option::is_none")]
        SWAPPINESS = swappiness: Option<Levels<u32>>,
            of_place(KeyKind::Whole(0, 200), "unchanged");

        /// the kernel's `vm.overcommit_memory`, 0 to 2
        #[serde(skip_serializing_if = "Option::is_none")]
        OVERCOMMIT_MEMORY = overcommit_memory: Option<Levels<u32>>,
            of_place(KeyKind::Whole(0, 2), "unchanged");

        /// read-ahead of the devices that hold data and WAL
        #[serde(skip_serializing_if = "Option::is_none")]
        READ_AHEAD_KB = read_ahead_kb: Option<Levels<u32>>,
            of_place(KeyKind::Whole(0, 1 << 20), "unchanged");

        /// I/O scheduler of the devices that hold data and WAL
        #[serde(skip_serializing_if = "Option::is_none")]
        IO_SCHEDULER = io_scheduler: Option<Levels<String>>,
            of_place(KeyKind::Text, "unchanged");

        /// the kernel's `net.core.somaxconn`
        #[serde(skip_serializing_if = "Option::is_none")]
        SOMAXCONN = somaxconn: Option<Levels<u32>>,
            of_place(KeyKind::Whole(1, 65_535), "unchanged");

        /// the kernel's `vm.max_map_count`
        #[serde(skip_serializing_if = "Option::is_none")]
        MAX_MAP_COUNT = max_map_count: Option<Levels<u32>>,
            of_place(KeyKind::Whole(65_530, i32::MAX as u64), "unchanged");

        /// frequency governor of all processors
        #[serde(skip_serializing_if = "Option::is_none")]
        CPU_GOVERNOR = cpu_governor: Option<Levels<String>>,
            of_place(KeyKind::Text, "unchanged");

        /// placement of the server's processes and memory: a NUMA node as the kernel names it (`node0`, `node1`, …) with processors and
        /// memory; `local` (the first such node), `remote` (its processors, memory of another node) or `interleave` (all processors, memory
        /// of all nodes in turns). Restored files are read into memory of the same nodes
        #[serde(skip_serializing_if = "Option::is_none")]
        NUMA = numa: Option<Levels<Numa>>,
            of_place(KeyKind::Or(&[KeyKind::Words(&["local", "remote", "interleave"]), KeyKind::Pattern(NODE_PATTERN)]), "unchanged");

        /// number of processors that the server may use: the first ones that pgdyno may use
        #[serde(skip_serializing_if = "Option::is_none")]
        PROCESSORS = processors: Option<Levels<u32>>,
            of_place(KeyKind::Whole(1, u32::MAX as u64), "all");

        /// processors whose time the server may use, by a control group's quota: 1.5 is 150 ms of each 100 ms
        #[serde(skip_serializing_if = "Option::is_none")]
        CPU_QUOTA = cpu_quota: Option<Levels<f64>>,
            of_place(KeyKind::Positive, "all");

        /// limit of reads per second from the data's device, by a control group
        #[serde(skip_serializing_if = "Option::is_none")]
        DATA_READ_IOPS = data_read_iops: Option<Levels<f64>>,
            of_place(KeyKind::Positive, "all");

        /// limit of writes per second to the data's device, by a control group
        #[serde(skip_serializing_if = "Option::is_none")]
        DATA_WRITE_IOPS = data_write_iops: Option<Levels<f64>>,
            of_place(KeyKind::Positive, "all");

        /// limit of MB (10^6 bytes) per second read from the data's device, by a control group
        #[serde(skip_serializing_if = "Option::is_none")]
        DATA_READ_MB_S = data_read_mb_s: Option<Levels<f64>>,
            of_place(KeyKind::Positive, "all");

        /// limit of MB (10^6 bytes) per second written to the data's device, by a control group
        #[serde(skip_serializing_if = "Option::is_none")]
        DATA_WRITE_MB_S = data_write_mb_s: Option<Levels<f64>>,
            of_place(KeyKind::Positive, "all");

        /// limit of writes per second to the WAL's device, by a control group
        #[serde(skip_serializing_if = "Option::is_none")]
        WAL_WRITE_IOPS = wal_write_iops: Option<Levels<f64>>,
            of_place(KeyKind::Positive, "all");

        /// limit of MB (10^6 bytes) per second written to the WAL's device, by a control group
        #[serde(skip_serializing_if = "Option::is_none")]
        WAL_WRITE_MB_S = wal_write_mb_s: Option<Levels<f64>>,
            of_place(KeyKind::Positive, "all");
    }
}

/// A node as the kernel names it.
const NODE_PATTERN: &str = "^node(0|[1-9][0-9]*)$";

/// The values that an experiment gives, each name in the section with its levels as text.
pub fn levels(experiment: &Experiment) -> Vec<(&'static str, Vec<String>)> {
    let of_row = |row: &KeyRow| {
        let (_, name) = row.parts()?;
        let (_, levels) = (row.dimensions)(experiment).pop()?;
        Some((name, levels))
    };
    ROWS.iter().filter_map(of_row).collect()
}

impl OsSection {
    /// Whether nothing is asked for.
    pub fn is_empty(&self) -> bool {
        *self == OsSection::default()
    }
}
