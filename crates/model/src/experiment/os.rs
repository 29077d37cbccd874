//! What an experiment sets in the operating system of the server's machine, and the WAL policy of its runs.

pub mod limits;

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::experiment::levels::Levels;
use crate::text::word_enum::words;

/// `[os]`: kernel settings, applied before each run and restored after it. Absent keys are left alone.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct OsSection {
    /// Shared memory in huge pages: reserved and required, or not used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub huge_pages: Option<Levels<HugePages>>,
    /// Transparent huge pages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transparent_huge_pages: Option<Levels<TransparentHugePages>>,
    /// How hard the kernel looks for transparent huge pages: `always`, `defer`, `defer+madvise`, `madvise`, `never`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transparent_huge_pages_defrag: Option<Levels<String>>,
    /// `kernel.shmmax`, bytes: before 9.3, shared buffers are one segment of System V.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shmmax: Option<Levels<u64>>,
    /// `kernel.shmall`, pages: all segments of System V together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shmall: Option<Levels<u64>>,
    /// `vm.swappiness`, 0 to 200.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub swappiness: Option<Levels<u32>>,
    /// `vm.overcommit_memory`, 0 to 2.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overcommit_memory: Option<Levels<u32>>,
    /// Read-ahead of the devices of data and WAL, kB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_ahead_kb: Option<Levels<u32>>,
    /// I/O scheduler of the devices of data and WAL.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub io_scheduler: Option<Levels<String>>,
    /// `net.core.somaxconn`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub somaxconn: Option<Levels<u32>>,
    /// `vm.max_map_count`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_map_count: Option<Levels<u32>>,
    /// Frequency governor of all processors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_governor: Option<Levels<String>>,
    /// The NUMA node of the server's processes and memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub numa: Option<Levels<Numa>>,
    /// Number of processors that the server's processes may use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub processors: Option<Levels<u32>>,
    /// Processors whose time the server may use, by a control group: 1.5 is one and a half.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_quota: Option<Levels<f64>>,
    /// Reads per second that the server may do on the device of the data directory, by a control group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data_read_iops: Option<Levels<f64>>,
    /// Writes per second there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data_write_iops: Option<Levels<f64>>,
    /// MB (10^6 bytes) per second that it may read there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data_read_mb_s: Option<Levels<f64>>,
    /// MB per second that it may write there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data_write_mb_s: Option<Levels<f64>>,
    /// Writes per second that the server may do on the device of the WAL.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wal_write_iops: Option<Levels<f64>>,
    /// MB per second that it may write there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wal_write_mb_s: Option<Levels<f64>>,
}

impl OsSection {
    /// The given keys with their levels as text, in the order of the type.
    pub fn levels(&self) -> Vec<(&'static str, Vec<String>)> {
        fn texts<T: ToString>(levels: &Option<Levels<T>>) -> Vec<String> {
            levels.iter().flat_map(Levels::all).map(ToString::to_string).collect()
        }
        let all = [
            ("huge_pages", texts(&self.huge_pages)),
            ("transparent_huge_pages", texts(&self.transparent_huge_pages)),
            ("transparent_huge_pages_defrag", texts(&self.transparent_huge_pages_defrag)),
            ("shmmax", texts(&self.shmmax)),
            ("shmall", texts(&self.shmall)),
            ("swappiness", texts(&self.swappiness)),
            ("overcommit_memory", texts(&self.overcommit_memory)),
            ("read_ahead_kb", texts(&self.read_ahead_kb)),
            ("io_scheduler", texts(&self.io_scheduler)),
            ("somaxconn", texts(&self.somaxconn)),
            ("max_map_count", texts(&self.max_map_count)),
            ("cpu_governor", texts(&self.cpu_governor)),
            ("numa", texts(&self.numa)),
            ("processors", texts(&self.processors)),
            ("cpu_quota", texts(&self.cpu_quota)),
            ("data_read_iops", texts(&self.data_read_iops)),
            ("data_write_iops", texts(&self.data_write_iops)),
            ("data_read_mb_s", texts(&self.data_read_mb_s)),
            ("data_write_mb_s", texts(&self.data_write_mb_s)),
            ("wal_write_iops", texts(&self.wal_write_iops)),
            ("wal_write_mb_s", texts(&self.wal_write_mb_s)),
        ];
        all.into_iter().filter(|(_, levels)| !levels.is_empty()).collect()
    }

    /// Whether nothing is asked for.
    pub fn is_empty(&self) -> bool {
        self.levels().is_empty()
    }
}

/// The values of one case, by key of [`OsSection`], as text.
pub type OsSpec = BTreeMap<String, String>;

words! {
    /// Shared memory in huge pages.
    HugePages, "a use of huge pages" {
        /// The server does not use huge pages.
        #[default]
        Off = "off",
        /// Reserves as many as the server needs; the server does not start without them.
        On = "on",
    }
}

words! {
    /// The kernel's transparent huge pages.
    TransparentHugePages, "a mode of transparent huge pages" {
        /// For all memory.
        Always = "always",
        /// For memory that a program asks for.
        #[default]
        Madvise = "madvise",
        /// Never.
        Never = "never",
    }
}

/// The place of the server's processes and memory: in files `local`, `remote`, `interleave`, or a node as the kernel names
/// it (`node1`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Numa {
    /// Processors and memory of the first node.
    #[default]
    Local,
    /// Processors of the first node, memory of the second.
    Remote,
    /// All processors, memory interleaved over all nodes.
    Interleave,
    /// Processors and memory of this node.
    Node(u32),
}

impl fmt::Display for Numa {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Numa::Local => f.write_str("local"),
            Numa::Remote => f.write_str("remote"),
            Numa::Interleave => f.write_str("interleave"),
            Numa::Node(number) => write!(f, "node{number}"),
        }
    }
}

impl FromStr for Numa {
    type Err = String;

    fn from_str(text: &str) -> Result<Numa, String> {
        let of_node = || text.strip_prefix("node")?.parse().ok().map(Numa::Node);
        let words = [Numa::Local, Numa::Remote, Numa::Interleave];
        // One spelling for each: `node01` would be another level of the same name.
        words.into_iter().chain(of_node()).find(|numa| numa.to_string() == text).ok_or_else(|| {
            format!(
                "`{text}` is not a NUMA placement; use one of: local, remote, interleave, or a node such as node0"
            )
        })
    }
}

impl TryFrom<String> for Numa {
    type Error = String;

    fn try_from(text: String) -> Result<Numa, String> {
        text.parse()
    }
}

impl From<Numa> for String {
    fn from(numa: Numa) -> String {
        numa.to_string()
    }
}

words! {
    /// Which checkpoints a run should have.
    WalPolicy, "a WAL policy" {
        /// Whatever the server's settings lead to.
        #[default]
        AsIs = "as-is",
        /// No checkpoint between the beginning and the end of the load.
        NoCheckpoint = "no-checkpoint",
        /// At least two complete checkpoints within the measurement window.
        TwoCheckpoints = "two-checkpoints",
    }
}

impl WalPolicy {
    /// Whether it is the default.
    pub fn is_as_is(&self) -> bool {
        *self == WalPolicy::AsIs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_a_placement_by_the_name_that_the_kernel_gives_it() {
        let parse = |text: &str| text.parse::<Numa>();
        for text in ["local", "remote", "interleave", "node0", "node17"] {
            let json = format!("\"{text}\"");
            assert_eq!(serde_json::to_string(&serde_json::from_str::<Numa>(&json).unwrap()).unwrap(), json);
        }
        assert_eq!(parse("node1"), Ok(Numa::Node(1)));
        for text in ["node", "node01", "node+1", "node-1", "Node1", "1", "local:1", "node99999999999"] {
            let error = parse(text).unwrap_err();
            assert!(error.contains("a node such as node0"), "{error}");
        }
    }
}
