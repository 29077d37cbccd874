//! A profile of the server during an extra run of a case: `profile.json`, and `stacks.folded` next to it.

use serde::{Deserialize, Serialize};

/// Longest name of a frame that is kept.
const NAME_BYTES_MAX: usize = 200;
/// Most frames of a stack, and most different stacks, that are read.
const FRAMES_MAX: usize = 256;
const STACKS_MAX: usize = 200_000;
/// End of the names of functions of the kernel, as tools that fold stacks write them.
pub const KERNEL: &str = "_[k]";

/// How a profile was made, and how much of it is there.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct ProfileRecord {
    /// Format version, [`crate::FORMAT`].
    pub format: u32,
    /// The case.
    pub case: u32,
    /// Why there are no samples; empty if there are.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// What was sampled: `cycles`, or `cpu-clock` without a PMU.
    pub event: String,
    /// Samples per second of each process on a processor.
    pub frequency_hz: u32,
    pub length_s: u32,
    pub n_samples: u64,
    /// Samples whose innermost function has no name.
    pub n_without_symbol: u64,
    /// Processes of the server when the recording began, of which `n_left_out` were not sampled.
    pub n_processes: u32,
    #[serde(default)]
    pub n_left_out: u32,
    /// Committed transactions per second while it was recorded, which are no result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tps: Option<f64>,
}

/// Samples with the same functions on the stack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stack {
    /// Names of functions, the outermost first.
    pub frames: Vec<String>,
    /// Number of samples.
    pub n: u64,
}

/// A profile as stored.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs, reason = "the names say it")]
pub struct StoredProfile {
    pub record: ProfileRecord,
    pub stacks: Vec<Stack>,
}

/// Folded stacks: one line each, frames joined by `;`, then the number of samples.
pub fn fold(stacks: &[Stack]) -> String {
    stacks.iter().map(|stack| format!("{} {}\n", stack.frames.join(";"), stack.n)).collect()
}

/// Reads folded stacks; leaves out lines that are none.
pub fn unfold(text: &str) -> Vec<Stack> {
    let stack = |line: &str| {
        let (frames, n) = line.rsplit_once(' ')?;
        let frames: Vec<String> = frames.split(';').take(FRAMES_MAX).map(plain).collect();
        Some(Stack { frames, n: n.parse().ok().filter(|n| (1..u64::from(u32::MAX)).contains(n))? })
    };
    text.lines().filter_map(stack).take(STACKS_MAX).collect()
}

/// A name without what separates frames, and not longer than sensible.
pub fn plain(name: &str) -> String {
    let kept: String = name.chars().map(|c| if c == ';' || c.is_control() { ',' } else { c }).collect();
    match kept.char_indices().find(|(at, c)| at + c.len_utf8() > NAME_BYTES_MAX) {
        Some((at, _)) => kept[..at].to_string(),
        None => kept,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stacks_are_folded_and_unfolded_and_other_lines_are_left_out() {
        let stack =
            |frames: &[&str], n| Stack { frames: frames.iter().map(|name| name.to_string()).collect(), n };
        let stacks =
            [stack(&["main", "PostgresMain", "ExecScan"], 7), stack(&["main", "do_syscall_64_[k]"], 2)];
        let text = fold(&stacks);
        assert_eq!(text, "main;PostgresMain;ExecScan 7\nmain;do_syscall_64_[k] 2\n");
        assert_eq!(unfold(&text), stacks);
        assert_eq!(unfold("a;operator new(unsigned long) 3\n")[0].frames[1], "operator new(unsigned long)");
        for line in ["", "main", "main x", "main 0", "main -1", "main 99999999999999"] {
            assert_eq!(unfold(line), [], "{line}");
        }
        assert_eq!(plain("a;b\u{1b}"), "a,b,");
        assert_eq!(plain(&"ä".repeat(500)).len(), NAME_BYTES_MAX);
    }
}
