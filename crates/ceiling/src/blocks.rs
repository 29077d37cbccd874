//! Reads and writes of a file past the page cache, so many at a time: threads that each wait for one.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};

use crate::Effort;
use crate::rounds::CeilingRound;

/// O_DIRECT asks for memory and offsets at multiples of the device's block, which is at most a page.
const ALIGNMENT: usize = 4096;

/// Memory at a multiple of [`ALIGNMENT`], filled with bytes that no device compresses.
pub(crate) struct Buffer {
    memory: Vec<u8>,
    begin: usize,
    len: usize,
}

impl Buffer {
    pub(crate) fn new(len: usize) -> Buffer {
        let mut memory = vec![0_u8; len + ALIGNMENT];
        let begin = memory.as_ptr().align_offset(ALIGNMENT).min(ALIGNMENT);
        let mut state = 0x1234_5678_u64;
        for bytes in memory.chunks_mut(8) {
            let word = splitmix64(&mut state).to_le_bytes();
            let n = bytes.len();
            bytes.copy_from_slice(&word[..n]);
        }
        Buffer { memory, begin, len }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.memory[self.begin..self.begin + self.len]
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.begin..self.begin + self.len]
    }
}

/// Steele, Lea and Flood 2014: one step of the generator.
pub(crate) fn splitmix64(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Where the blocks are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BlockOrder {
    Random,
    Sequential,
}

/// The direction of the I/O.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    Read,
    Write,
}

/// A kind of I/O on a file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pattern {
    pub(crate) block_bytes: usize,
    /// Blocks under way at a time.
    pub(crate) depth: u32,
    pub(crate) order: BlockOrder,
    pub(crate) direction: Direction,
}

/// One round on the first `file_bytes` of a file that was opened with O_DIRECT.
///
/// # Errors
/// When the device fails.
pub(crate) fn round(
    file: &File,
    file_bytes: u64,
    pattern: Pattern,
    length: Duration,
    effort: &Effort,
) -> Result<CeilingRound> {
    let n_blocks = (file_bytes / pattern.block_bytes as u64).max(1);
    let next = AtomicU64::new(0);
    let begun = Instant::now();
    let work = |thread: u32| -> Result<CeilingRound> {
        let mut buffer = Buffer::new(pattern.block_bytes);
        let mut state = u64::from(thread) << 32 | begun.elapsed().as_nanos() as u64 & 0xffff_ffff;
        CeilingRound::take(length.saturating_sub(begun.elapsed()), effort, |_| {
            let number = match pattern.order {
                BlockOrder::Random => splitmix64(&mut state),
                BlockOrder::Sequential => next.fetch_add(1, Ordering::Relaxed),
            };
            let offset = number % n_blocks * pattern.block_bytes as u64;
            match pattern.direction {
                Direction::Read => {
                    file.read_exact_at(buffer.bytes_mut(), offset).context("read past the page cache")
                }
                Direction::Write => {
                    file.write_all_at(buffer.bytes(), offset).context("write past the page cache")
                }
            }
        })
    };
    let rounds: Vec<Result<CeilingRound>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..pattern.depth).map(|thread| scope.spawn(move || work(thread))).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|_| Err(anyhow!("a thread panicked"))))
            .collect()
    });
    let mut all = CeilingRound { seconds: begun.elapsed().as_secs_f64(), ..CeilingRound::default() };
    for made in rounds {
        let made = made?;
        all.n += made.n;
        all.times_ns.extend(made.times_ns);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;

    static GO_ON: AtomicBool = AtomicBool::new(false);

    #[test]
    fn blocks_are_aligned_and_every_thread_works_within_the_file() {
        for len in [4096, 8192, 1 << 20] {
            let buffer = Buffer::new(len);
            assert_eq!((buffer.bytes().len(), buffer.bytes().as_ptr() as usize % ALIGNMENT), (len, 0));
            assert!(buffer.bytes().iter().any(|byte| *byte != buffer.bytes()[0]));
        }
        let file = tempfile::tempfile().unwrap();
        let effort = Effort { part: Duration::from_millis(30), stop: &GO_ON };
        let pattern =
            Pattern { block_bytes: 8192, depth: 4, order: BlockOrder::Random, direction: Direction::Write };
        let made = round(&file, 64 << 10, pattern, Duration::from_millis(20), &effort).unwrap();
        assert!(made.n >= 4 && made.seconds < 5.0, "{made:?}");
        assert!(file.metadata().unwrap().len() <= 64 << 10);
        file.set_len(64 << 10).unwrap();
        let reading = Pattern { direction: Direction::Read, order: BlockOrder::Sequential, ..pattern };
        assert!(round(&file, 64 << 10, reading, Duration::from_millis(5), &effort).unwrap().n >= 4);
        let beyond = round(&file, 1 << 30, Pattern { depth: 1, ..reading }, Duration::from_secs(5), &effort);
        assert!(beyond.unwrap_err().to_string().contains("read past the page cache"));
    }
}
