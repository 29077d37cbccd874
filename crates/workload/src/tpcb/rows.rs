//! The rows of a fresh load, as COPY text.
//!
//! A row depends on its number only, never on how the range was cut, so that several loaders can share a table.

use super::{ACCOUNTS_PER_SCALE, TELLERS_PER_SCALE, Table, row_count};
use crate::text;
use std::ops::Range;

/// Longest row: two 20-digit numbers and what is around them.
const ROW_BYTES_MAX: usize = 64;

/// Writes the rows of a range of a table, in order.
#[derive(Clone, Debug)]
pub struct Rows {
    table: Table,
    /// The rows left, counted from 0.
    left: Range<u64>,
    /// The next row's id in decimal, right-aligned; counted up in place, which is far cheaper than formatting.
    digits: [u8; 20],
    digits_start: usize,
    /// What follows the id.
    tail: Vec<u8>,
    /// The row before which `tail` changes.
    tail_until: u64,
}

impl Rows {
    /// The rows `range`, counted from 0, of a table. Beyond the table's end there are none.
    pub fn new(table: Table, scale: u32, range: Range<u64>) -> Rows {
        let n_rows = row_count(table, scale);
        let left = range.start.min(n_rows)..range.end.min(n_rows);
        let mut id = Vec::with_capacity(20);
        text::write_uint(&mut id, left.start + 1);
        let mut digits = [b'0'; 20];
        let digits_start = digits.len() - id.len();
        digits[digits_start..].copy_from_slice(&id);
        let mut rows = Rows { table, left, digits, digits_start, tail: Vec::new(), tail_until: 0 };
        rows.set_tail();
        rows
    }

    /// Appends whole rows to `out`, at most `max_bytes` of them, but always one if any is left.
    /// Gives the number of rows; 0 is the end.
    pub fn fill(&mut self, out: &mut Vec<u8>, max_bytes: usize) -> usize {
        let stop = out.len() + max_bytes;
        out.reserve(max_bytes.max(ROW_BYTES_MAX));
        let first = self.left.start;
        while self.left.start < self.left.end {
            if self.left.start == self.tail_until {
                self.set_tail();
            }
            let row_len = self.digits.len() - self.digits_start + self.tail.len();
            if out.len() + row_len > stop && self.left.start > first {
                break;
            }
            out.extend_from_slice(&self.digits[self.digits_start..]);
            out.extend_from_slice(&self.tail);
            self.count_up();
            self.left.start += 1;
        }
        (self.left.start - first) as usize
    }

    /// How many rows are left.
    pub fn n_left(&self) -> u64 {
        self.left.end.saturating_sub(self.left.start)
    }

    fn count_up(&mut self) {
        for digit in self.digits.iter_mut().rev() {
            if *digit < b'9' {
                *digit += 1;
                break;
            }
            *digit = b'0';
        }
        if self.digits_start > 0 && self.digits[self.digits_start - 1] != b'0' {
            self.digits_start -= 1;
        }
    }

    /// The columns behind the id of the next row: branch, balance, filler.
    fn set_tail(&mut self) {
        self.tail.clear();
        let (per_branch, filler) = match self.table {
            Table::Branches | Table::History => {
                self.tail.extend_from_slice(b"\t0\t\\N\n");
                self.tail_until = u64::MAX;
                return;
            }
            Table::Tellers => (TELLERS_PER_SCALE, &b"\t0\t\\N\n"[..]),
            Table::Accounts => (ACCOUNTS_PER_SCALE, &b"\t0\t\n"[..]),
        };
        let branch = self.left.start / per_branch;
        self.tail.push(b'\t');
        text::write_uint(&mut self.tail, branch + 1);
        self.tail.extend_from_slice(filler);
        self.tail_until = (branch + 1) * per_branch;
    }
}
