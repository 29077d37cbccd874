//! Reads what `perf script -F comm,pid,event,ip,sym,dso` prints, one sample after the other, and folds it.

use std::collections::HashMap;
use std::io::{BufRead, Error, Read};

use model::run::profile::{KERNEL, Stack, plain};

/// Most of the text that is read, and the longest line.
const BYTES_MAX: u64 = 4 << 30;
const LINE_BYTES_MAX: u64 = 64 << 10;
const FRAMES_MAX: usize = 200;
/// Most different stacks; samples of further ones are counted without their frames.
const STACKS_MAX: usize = 100_000;
const UNKNOWN: &str = "[unknown]";

/// The samples of a profile.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Folded {
    pub(crate) stacks: Vec<Stack>,
    pub(crate) event: String,
    pub(crate) n_samples: u64,
    pub(crate) n_without_symbol: u64,
}

/// Reads all samples.
///
/// # Errors
/// When the text cannot be read.
pub(crate) fn fold(text: impl Read) -> Result<Folded, Error> {
    let mut text = std::io::BufReader::new(text.take(BYTES_MAX));
    let mut folded = Folded::default();
    let mut all: HashMap<Vec<String>, u64> = HashMap::new();
    let mut sample: Option<Sample> = None;
    let mut line = Vec::new();
    loop {
        line.clear();
        let n = text.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line)?;
        let words = String::from_utf8_lossy(&line);
        let words = words.trim_end();
        if words.is_empty() {
            sample.take().into_iter().for_each(|sample| folded.add(sample, &mut all));
        } else if line[0].is_ascii_whitespace() {
            sample.iter_mut().for_each(|sample| sample.frame(words.trim_start()));
        } else {
            sample.take().into_iter().for_each(|sample| folded.add(sample, &mut all));
            sample = Some(Sample { event: event_of(words), ..Sample::default() });
        }
        if n == 0 {
            break;
        }
    }
    folded.stacks = all.into_iter().map(|(frames, n)| Stack { frames, n }).collect();
    folded.stacks.sort_by(|a, b| a.frames.cmp(&b.frames));
    Ok(folded)
}

/// A sample that is being read, innermost function first.
#[derive(Debug, Default)]
struct Sample {
    event: String,
    frames: Vec<String>,
    is_without_symbol: bool,
}

impl Sample {
    /// Adds `7f00 name (object)`.
    fn frame(&mut self, words: &str) {
        let Some((_, rest)) = words.split_once(' ') else { return };
        let (name, object) = match rest.rsplit_once(" (") {
            Some((name, object)) => (name, object.trim_end_matches(')')),
            None => (rest, ""),
        };
        let is_kernel = object.starts_with('[') && (object.contains("kernel") || object.contains("guest"))
            || object.ends_with(".ko")
            || object.contains("vmlinux");
        let file = object.rsplit('/').next().unwrap_or_default().trim_matches(['[', ']']);
        let name = match name {
            UNKNOWN | "" => {
                self.is_without_symbol |= self.frames.is_empty();
                format!("[{}]", if file.is_empty() { "unknown" } else { file })
            }
            // The version of a symbol, and what compilers add to the names of parts of functions.
            name => name.split("@@").next().unwrap_or(name).to_string(),
        };
        if self.frames.len() < FRAMES_MAX {
            self.frames.push(plain(&if is_kernel { format!("{name}{KERNEL}") } else { name }));
        }
    }
}

impl Folded {
    fn add(&mut self, sample: Sample, all: &mut HashMap<Vec<String>, u64>) {
        let Sample { event, mut frames, is_without_symbol } = sample;
        if frames.is_empty() {
            frames.push(UNKNOWN.to_string());
        }
        self.n_samples += 1;
        self.n_without_symbol += u64::from(is_without_symbol || frames[0] == UNKNOWN);
        if self.event.is_empty() {
            self.event = event;
        }
        frames.reverse();
        if all.len() >= STACKS_MAX && !all.contains_key(&frames) {
            frames = vec!["[other stacks]".to_string()];
        }
        *all.entry(frames).or_default() += 1;
    }
}

/// `cpu-clock` of `postgres 18060 cpu-clock:ppp:`, without modifiers.
fn event_of(words: &str) -> String {
    let last = words.split_ascii_whitespace().next_back().unwrap_or_default();
    plain(last.split(':').next().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What perf printed of a server of version 18 under a TPC-B-like load.
    const RECORDED: &str = include_str!("recorded.txt");

    #[test]
    fn recorded_samples_are_folded() {
        let folded = fold(RECORDED.as_bytes()).unwrap();
        let n: u64 = folded.stacks.iter().map(|stack| stack.n).sum();
        assert_eq!((folded.n_samples, n), (12, 12));
        assert_eq!((folded.event.as_str(), folded.n_without_symbol), ("cpu-clock", 0));
        let written = folded.stacks.iter().find(|stack| stack.frames.iter().any(|name| name == "XLogFlush"));
        let frames = &written.unwrap().frames;
        assert_eq!(frames[..2], ["_start", "__libc_start_main"], "the version of a symbol is left out");
        assert!(frames.contains(&"issue_xlog_fsync".to_string()), "{frames:?}");
        assert!(frames.last().unwrap().ends_with(KERNEL), "{frames:?}");
    }

    #[test]
    fn whatever_is_printed_is_data() {
        let check = |text: &str, expected: &[(&str, u64)]| {
            let folded = fold(text.as_bytes()).unwrap();
            let stacks: Vec<(String, u64)> =
                folded.stacks.iter().map(|stack| (stack.frames.join(";"), stack.n)).collect();
            let expected: Vec<(String, u64)> = expected.iter().map(|(f, n)| (f.to_string(), *n)).collect();
            assert_eq!(stacks, expected, "{text:?}");
        };
        check("", &[]);
        check("a 1 cycles: \n", &[(UNKNOWN, 1)]);
        check("\t 1 f (/x)\n\n", &[]);
        check(
            "a 1 cycles:P: \n\t 1 f (/x)\n\t 2 g (/x)\na 1 cycles:P: \n\t 1 f (/x)\n\t 2 g (/x)\n",
            &[("g;f", 2)],
        );
        check("a 1 c: \n\t 1 [unknown] (/lib/y.so)\n\t 2 a;b (/x)\n", &[("a,b;[y.so]", 1)]);
        check(
            "a 1 c: \n\t 1 std::f(int) (/x)\n\t 2 [unknown] ([unknown])\n",
            &[("[unknown];std::f(int)", 1)],
        );
        check("a 1 c: \n\t 1 f ([ext4])\n\t1 g (/m/ext4.ko)\n", &[("g_[k];f", 1)]);
        let long = format!("a 1 c: \n\t 1 {} (/x)\n", "x".repeat(200_000));
        assert!(fold(long.as_bytes()).unwrap().stacks[0].frames[0].len() <= 200);
        assert_eq!(fold(&b"a 1 c: \n\t 1 \xff\xfe (/x)\n"[..]).unwrap().n_samples, 1);
    }
}
