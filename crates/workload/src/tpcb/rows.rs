//! The rows of a fresh load, as COPY text.
//!
//! A row depends only on its number, never on how the range was divided, so that several loaders can share a table.

use std::ops::Range;

use super::partition::Partition;
use super::{ACCOUNTS_PER_SCALE, TELLERS_PER_SCALE, TpcbTable, row_count};
use crate::number::{self, PAIRS};
use crate::objects::hash_partition::Remainder;

/// Longest row: two 20-digit numbers and the text around them take 47 bytes.
const ROW_BYTES_MAX: usize = 64;

/// Where the id ends in the template.
const ID_END: usize = 20;

/// Writes the rows of a range of a table, in order.
#[derive(Clone, Debug)]
pub struct TpcbRows {
    table: TpcbTable,
    /// The rows left, counted from 0.
    left: Range<u64>,
    /// The next row: its id up to [`ID_END`], then the other columns. The last two digits of the id are in `low` instead,
    /// and rows are copied at a constant length: a processor stalls when it reads what it has just written in pieces.
    template: [u8; ID_END + ROW_BYTES_MAX],
    /// The id modulo 100.
    low: usize,
    /// Where the id begins.
    start: usize,
    /// Where the row ends.
    end: usize,
    /// The row before which the other columns change.
    tail_until: u64,
    /// Rows whose id does not belong here are another partition's.
    only: Option<Remainder>,
    /// Whether the columns that are the same in all rows of accounts are left out.
    is_short: bool,
}

impl TpcbRows {
    /// The rows `range`, counted from 0, of a table. Beyond the table's end there are none.
    pub fn new(table: TpcbTable, scale: u32, range: Range<u64>) -> TpcbRows {
        let n_rows = row_count(table, scale);
        let left = range.start.min(n_rows)..range.end.min(n_rows);
        let mut id = Vec::with_capacity(ID_END);
        number::write_uint(&mut id, left.start + 1);
        let mut template = [b'0'; ID_END + ROW_BYTES_MAX];
        let start = ID_END - id.len();
        template[start..ID_END].copy_from_slice(&id);
        let low = ((left.start + 1) % 100) as usize;
        let (end, tail_until) = (ID_END, 0);
        let mut rows =
            TpcbRows { table, left, template, low, start, end, tail_until, only: None, is_short: false };
        rows.set_tail();
        rows
    }

    /// The rows of a partition of accounts, in the order in which loading the whole table would put them there.
    pub fn of_partition(scale: u32, partition: &Partition) -> TpcbRows {
        TpcbRows { only: partition.only, ..TpcbRows::new(TpcbTable::Accounts, scale, partition.ids.clone()) }
    }

    /// The same rows of accounts without the columns of [`super::set_defaults`], for [`super::copy_short_statement`]. Other
    /// tables' rows stay whole.
    pub fn short(mut self) -> TpcbRows {
        self.is_short = true;
        self.set_tail();
        self
    }

    /// Appends whole rows to `out`, at most `max_bytes` of them, but always one if any is left.
    /// Returns the number of rows; 0 is the end.
    pub fn fill(&mut self, out: &mut Vec<u8>, max_bytes: usize) -> usize {
        let stop = out.len() + max_bytes;
        out.reserve(max_bytes + ROW_BYTES_MAX);
        let mut n_rows = 0;
        while self.left.start < self.left.end {
            if self.left.start == self.tail_until {
                self.set_tail();
            }
            if self.only.is_some_and(|only| !only.has(self.left.start + 1)) {
                self.count_up();
                self.left.start += 1;
                continue;
            }
            let row_end = out.len() + self.end - self.start;
            if row_end > stop && n_rows > 0 {
                break;
            }
            let ones = out.len() + ID_END - 1 - self.start;
            out.extend_from_slice(&self.template[self.start..self.start + ROW_BYTES_MAX]);
            out[ones] = PAIRS[self.low * 2 + 1];
            if self.start < ID_END - 1 {
                out[ones - 1] = PAIRS[self.low * 2];
            }
            out.truncate(row_end);
            self.count_up();
            self.left.start += 1;
            n_rows += 1;
        }
        n_rows
    }

    /// Number of rows left, including those of other partitions.
    pub fn n_left(&self) -> u64 {
        self.left.end.saturating_sub(self.left.start)
    }

    fn count_up(&mut self) {
        self.low += 1;
        if self.low == 100 {
            self.low = 0;
            for digit in self.template[..ID_END - 2].iter_mut().rev() {
                if *digit < b'9' {
                    *digit += 1;
                    break;
                }
                *digit = b'0';
            }
            // The id grows by a digit when one appears in front of it: 99 to 100, 999 to 1000.
            if self.template[self.start - 1] != b'0' {
                self.start -= 1;
            }
        } else if self.low == 10 && self.start == ID_END - 1 {
            self.start -= 1;
        }
    }

    /// The columns after the id of the next row: branch, balance, filler.
    fn set_tail(&mut self) {
        let (per_branch, filler) = match self.table {
            TpcbTable::Branches | TpcbTable::History => (u64::MAX, &b"\t0\t\\N\n"[..]),
            TpcbTable::Tellers => (TELLERS_PER_SCALE, &b"\t0\t\\N\n"[..]),
            TpcbTable::Accounts if self.is_short => (ACCOUNTS_PER_SCALE, &b"\n"[..]),
            TpcbTable::Accounts => (ACCOUNTS_PER_SCALE, &b"\t0\t\n"[..]),
        };
        let mut tail = Vec::with_capacity(ROW_BYTES_MAX);
        let branch = self.left.start / per_branch;
        if per_branch != u64::MAX {
            tail.push(b'\t');
            number::write_uint(&mut tail, branch + 1);
        }
        tail.extend_from_slice(filler);
        self.end = ID_END + tail.len();
        self.template[ID_END..self.end].copy_from_slice(&tail);
        self.tail_until = (branch + 1).saturating_mul(per_branch);
    }
}
