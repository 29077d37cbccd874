//! Rows of native data as COPY takes them, made in blocks: the library's iterators begin at the part of a table that they are asked for.

use std::ops::Range;
use std::sync::Arc;

use crate::native::tpch::{SharedText, TpchTable};

/// Rows, or rows of the parent, of a block.
const BLOCK_ROWS: u64 = 256;

/// Rows of a table, one after the other.
pub(crate) struct NativeRows {
    table: TpchTable,
    scale: u32,
    text: Arc<SharedText>,
    /// The row that comes after the block.
    next: u64,
    end: u64,
    block: RowBlock,
}

/// Rows that were made and not taken yet.
#[derive(Default)]
pub(super) struct RowBlock {
    pub(super) text: Vec<u8>,
    /// Where each row ends.
    pub(super) ends: Vec<usize>,
    n_taken: usize,
}

/// Rows that a library makes at once: one of as many parts of a table as there are, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Section {
    pub(super) part: u64,
    pub(super) n_parts: u64,
    pub(super) n_rows: u64,
}

impl Section {
    /// The part of a table of `total` rows that begins at `next` and does not go beyond `end`. All parts have as many rows, but the last one,
    /// which has also what is left, is made row by row.
    fn new(next: u64, end: u64, total: u64) -> Section {
        let n_parts = (total / BLOCK_ROWS).max(1);
        let n_rows = total / n_parts;
        let part = next / n_rows + 1;
        let has_rest = part >= n_parts && !total.is_multiple_of(n_parts);
        if next.is_multiple_of(n_rows) && next + n_rows <= end && !has_rest {
            Section { part, n_parts, n_rows }
        } else {
            Section { part: next + 1, n_parts: total, n_rows: 1 }
        }
    }
}

impl NativeRows {
    pub(super) fn new(table: TpchTable, scale: u32, range: Range<u64>, text: Arc<SharedText>) -> NativeRows {
        let end = range.end.min(table.n_rows(scale));
        let next = range.start.min(end);
        NativeRows { table, scale, text, next, end, block: RowBlock::default() }
    }

    /// The number of the next row that was not made.
    pub(crate) fn range(&self) -> Range<u64> {
        self.next..self.end
    }

    /// Appends complete rows, at most `max_bytes`, but always a row if any is left; returns their number, 0 at the end.
    pub(crate) fn fill(&mut self, out: &mut Vec<u8>, max_bytes: usize) -> usize {
        let begin = out.len();
        let mut n_rows = 0;
        while self.go_to_row() {
            let left = max_bytes.saturating_sub(out.len() - begin);
            let n = self.block.n_within(left).max(usize::from(n_rows == 0));
            if n == 0 {
                break;
            }
            self.block.take(n, out);
            n_rows += n;
        }
        n_rows
    }

    /// Makes rows if none are left, and says whether there are any.
    fn go_to_row(&mut self) -> bool {
        while self.block.n_taken == self.block.ends.len() && self.next < self.end {
            self.block.clear();
            let section = Section::new(self.next, self.end, self.table.n_rows(self.scale));
            self.next += section.n_rows;
            self.table.write(self.scale, section, &self.text, &mut self.block);
        }
        self.block.n_taken < self.block.ends.len()
    }
}

impl RowBlock {
    fn clear(&mut self) {
        self.text.clear();
        self.ends.clear();
        self.n_taken = 0;
    }

    /// Where the first row that was not taken begins.
    fn start(&self) -> usize {
        self.n_taken.checked_sub(1).map_or(0, |last| self.ends[last])
    }

    /// How many rows fit.
    fn n_within(&self, max_bytes: usize) -> usize {
        let start = self.start();
        self.ends[self.n_taken..].partition_point(|end| end - start <= max_bytes)
    }

    fn take(&mut self, n: usize, out: &mut Vec<u8>) {
        let start = self.start();
        self.n_taken += n;
        out.extend_from_slice(&self.text[start..self.start()]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_follow_each_other_to_the_end() {
        for total in [1, 5, 25, 255, 256, 257, 1000, 15_000, 66_000, 200_001] {
            for range in [0..total, 3..total, 0..total / 2, 300..700] {
                let mut next = range.start.min(total);
                let end = range.end.min(total);
                while next < end {
                    let section = Section::new(next, end, total);
                    let Section { part, n_parts, n_rows } = section;
                    let rest = if part == n_parts { total % n_parts } else { 0 };
                    // The library's own arithmetic.
                    assert_eq!((total / n_parts) * (part - 1), next, "{total} {section:?}");
                    assert_eq!(total / n_parts + rest, n_rows, "{total} {section:?}");
                    next += n_rows;
                }
                assert_eq!(next, end.max(next.min(total)), "{total}");
            }
        }
    }
}
