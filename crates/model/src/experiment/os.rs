//! What an experiment sets in the operating system of the server's machine, and the WAL policy of its runs.

pub mod limits;
pub mod wal;

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

pub use crate::experiment::keys::os::OsSection;
use crate::text::units::as_text;
use crate::text::word_enum::words;

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

as_text!(Numa);

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
