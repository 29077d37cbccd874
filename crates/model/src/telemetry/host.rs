//! The machine that a run took place on.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The machine: what identifies it and what changes its speed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct HostRecord {
    /// Name of the machine.
    pub hostname: String,
    /// Operating system as it names itself.
    pub os: String,
    /// Kernel release.
    pub kernel: String,
    /// Processor model.
    pub cpu_model: String,
    /// Processors online.
    pub n_cpus: u32,
    /// NUMA nodes.
    pub n_numa_nodes: u32,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// Further facts by name: `clocksource`, `cpu_governor`, `transparent_hugepage`, `swappiness`, `hypervisor`, …
    pub facts: BTreeMap<String, String>,
    /// File systems that matter, by role (`data`, `wal`, `results`).
    pub mounts: BTreeMap<String, MountRecord>,
}

/// A file system and the device below it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct MountRecord {
    /// Where it is mounted.
    pub mount_point: String,
    /// Type of the file system: `ext4`, `xfs`, ….
    pub fs_type: String,
    /// Mount options.
    pub options: String,
    /// The device, as in `/proc/diskstats`; empty if there is none.
    pub device: String,
    /// Facts of the block device: `scheduler`, `read_ahead_kb`, `rotational`, `model`.
    pub facts: BTreeMap<String, String>,
    /// Free bytes when the run began.
    pub free_bytes: u64,
    /// Size in bytes.
    pub total_bytes: u64,
}
