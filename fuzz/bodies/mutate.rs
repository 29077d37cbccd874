//! Changes the seeds of a target for some seconds, without a nightly compiler: far fewer inputs than libFuzzer tries, but each time that the
//! tests run.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

/// How long a target is tried.
const TIME: Duration = Duration::from_secs(5);
/// Fewest inputs that must have been tried in it, on a slow machine.
const INPUTS_MIN: u64 = 500;
/// Longest input, as for libFuzzer.
const BYTES_MAX: usize = 4096;
/// What texts of scripts and of servers are made of.
const WORDS: [&[u8]; 14] = [
    b"\\set x ",
    b"\\gset\n",
    b":x",
    b"random(1, 9)",
    b"\\if ",
    b"\\endif\n",
    b"'",
    b"$$",
    b"/*",
    b"\0\0\0\x04",
    b"\xff\xff\xff\xff",
    b"Z\0\0\0\x05I",
    b"-9223372036854775808",
    b"1e308",
];

/// Tries changed seeds of a directory; each input follows from its number.
pub fn for_some_seconds(seeds: &Path, try_one: impl Fn(&[u8])) {
    let mut paths: Vec<_> =
        fs::read_dir(seeds).expect("seeds").map(|entry| entry.expect("a seed").path()).collect();
    paths.sort();
    let seeds: Vec<Vec<u8>> = paths.iter().map(|path| fs::read(path).expect("a seed")).collect();
    assert!(!seeds.is_empty(), "there are seeds");
    seeds.iter().for_each(|seed| try_one(seed));
    let begun = Instant::now();
    let mut number = 0;
    while begun.elapsed() < TIME || number < INPUTS_MIN {
        number += 1;
        let mut random = Random(number);
        let input = random.changed(&seeds);
        let tried = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| try_one(&input)));
        assert!(tried.is_ok(), "input {number} fails: {:?}", input.escape_ascii().to_string());
    }
}

/// Splitmix64.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % n.max(1) as u64) as usize
    }

    /// A seed after some changes.
    fn changed(&mut self, seeds: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = seeds[self.below(seeds.len())].clone();
        for _ in 0..=self.below(6) {
            let (at, to) = (self.below(bytes.len() + 1), self.below(bytes.len() + 1));
            let (from, to) = (at.min(to), at.max(to));
            match self.below(6) {
                0 => drop(bytes.drain(from..to)),
                1 => {
                    let piece = bytes[from..to].to_vec();
                    bytes.splice(from..from, piece);
                }
                2 => {
                    let word = WORDS[self.below(WORDS.len())];
                    bytes.splice(at..at, word.iter().copied());
                }
                3 => {
                    let other = &seeds[self.below(seeds.len())];
                    let end = self.below(other.len() + 1);
                    bytes.splice(at..at, other[..end].iter().copied());
                }
                _ => {
                    if let Some(byte) = bytes.get_mut(at) {
                        *byte = self.below(256) as u8;
                    }
                }
            }
            bytes.truncate(BYTES_MAX);
        }
        bytes
    }
}
