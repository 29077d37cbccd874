//! The cells of our histograms: which values share a count, and how counts are kept and read.
//!
//! The scheme is HdrHistogram's with three digits from one nanosecond on: 2,048 cells of one nanosecond, then 1,024 for each
//! doubling. A second of a run has some hundred cells in use of the 33,000 that an hour takes, and a study has a million such
//! histograms: they are decoded into the cells in use.

use std::borrow::Cow;

use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;

use super::encoding;
use crate::load::interval::{COUNT_MAX, HISTOGRAM_DIGITS, HISTOGRAM_MIN_NS};

/// Cells of a doubling; HdrHistogram's half of the count of sub-buckets for three digits.
const HALF: u32 = 1024;
/// Cells for every value of 64 bits.
const N_CELLS_MAX: usize = 55 * HALF as usize;
/// HdrHistogram's mark of the plain V2 encoding.
const COOKIE: u32 = 0x1c84_9313;
/// Bytes of the plain header: mark, length, offset, digits, lowest, highest, ratio.
const HEADER: usize = 40;
/// Bytes of a plain histogram: each cell takes nine at most.
const PLAIN_MAX: usize = HEADER + 9 * N_CELLS_MAX;

/// Longest histogram of other bounds than ours; the library reads it into cells that it makes first, 50 MB at most.
const FOREIGN_BYTES_MAX: usize = 1 << 20;

/// A cell in use: its number and its count.
pub(super) type Cell = (u32, u64);

/// The cell of a value.
pub(super) fn cell_of(value: u64) -> u32 {
    let doublings = 64 - (value | u64::from(2 * HALF - 1)).leading_zeros() - 11;
    (doublings * HALF) + (value >> doublings) as u32
}

/// The smallest and the largest value of a cell.
pub(super) fn values_of(cell: u32) -> (u64, u64) {
    let doublings = (cell / HALF).saturating_sub(1);
    let low = u64::from(cell - doublings * HALF) << doublings;
    (low, low + ((1 << doublings) - 1))
}

/// Decodes texts of histograms, one after the other, in memory that is used again.
#[derive(Debug, Default)]
pub(super) struct CellReader {
    reader: encoding::Reader,
    /// The last text, if it was read: in a closed loop latency and service time are the same.
    last: String,
    cells: Vec<Cell>,
}

impl CellReader {
    /// The cells in use of an encoded histogram, in order: V2 of HdrHistogram, deflated, in base64.
    pub(super) fn read(&mut self, text: &str) -> Result<&[Cell], String> {
        if self.last != text || text.is_empty() {
            self.last.clear();
            self.reader.read(text)?;
            if own(&mut self.reader, &mut self.cells).is_none() {
                self.cells = foreign(self.reader.bytes())?;
            }
            let n = self.cells.iter().fold(0, |sum: u64, (_, n)| sum.saturating_add(*n));
            if n > COUNT_MAX {
                return Err(format!("has {n} values, more than {COUNT_MAX}"));
            }
            self.last.push_str(text);
        }
        Ok(&self.cells)
    }
}

/// Decodes a histogram with our digits and our smallest value; `None` if it has others, or is damaged.
fn own(reader: &mut encoding::Reader, cells: &mut Vec<Cell>) -> Option<()> {
    let word = |bytes: &[u8], at: usize| Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let plain = reader.plain(PLAIN_MAX)?;
    let is_ours = word(plain, 0)? == COOKIE
        && word(plain, 8)? == 0
        && word(plain, 12)? == u32::from(HISTOGRAM_DIGITS)
        && plain.get(16..24)? == HISTOGRAM_MIN_NS.to_be_bytes()
        && plain.get(32..40)? == 1.0_f64.to_be_bytes();
    let n_bytes = word(plain, 4)? as usize;
    let counts = plain.get(HEADER..HEADER + n_bytes)?;
    if is_ours { cells_of(counts, cells) } else { None }
}

/// Reads counts, and lengths of rows of empty cells as negative numbers: zigzag, in groups of seven bits, the ninth byte whole.
fn cells_of(counts: &[u8], cells: &mut Vec<Cell>) -> Option<()> {
    cells.clear();
    let (mut at, mut left) = (0_usize, counts);
    while let Some((first, rest)) = left.split_first() {
        // Most numbers take one byte.
        let number = if *first < 0x80 {
            left = rest;
            u64::from(*first)
        } else {
            varint(&mut left)?
        };
        let size = number >> 1;
        if number & 1 == 1 {
            // Bounded below, before it is added to again.
            at = at.checked_add(usize::try_from(size).ok()?)?.checked_add(1)?;
        } else {
            if size > 0 {
                cells.push((u32::try_from(at).ok()?, size));
            }
            at += 1;
        }
        if at > N_CELLS_MAX {
            return None;
        }
    }
    Some(())
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for (i, byte) in bytes.iter().take(9).enumerate() {
        let (bits, is_last) = if i == 8 { (*byte, true) } else { (byte & 0x7f, byte & 0x80 == 0) };
        value |= u64::from(bits) << (7 * i);
        if is_last {
            *bytes = &bytes[i + 1..];
            return Some(value);
        }
    }
    None
}

/// Decodes a histogram of any bounds; a resolution that is not ours becomes ours.
fn foreign(bytes: &[u8]) -> Result<Vec<Cell>, String> {
    if bytes.len() > FOREIGN_BYTES_MAX {
        return Err(format!("has {} bytes, more than {FOREIGN_BYTES_MAX}", bytes.len()));
    }
    let read: Result<Histogram<u64>, _> = Deserializer::new().deserialize(&mut &bytes[..]);
    let histogram = read.map_err(|error| format!("cannot be decoded: {error}"))?;
    let mut cells: Vec<Cell> = Vec::new();
    for value in histogram.iter_recorded() {
        let (cell, n) = (cell_of(value.value_iterated_to()), value.count_at_value());
        match cells.last_mut() {
            Some((last, count)) if *last == cell => *count += n,
            _ => cells.push((cell, n)),
        }
    }
    Ok(cells)
}

/// Counts by cell.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Counts {
    /// Of one histogram, or of a sum that is complete: the cells in use.
    One(Vec<Cell>),
    /// Of a sum that is added to: a place for each cell.
    Dense(Vec<u64>),
    /// Of a sum that is kept, in little memory.
    /// For each cell in use the distance from the last one and the count, in groups of seven bits.
    Packed(Vec<u8>),
}

impl Counts {
    /// Adds cells, which are in order.
    pub(super) fn add(&mut self, cells: &[Cell]) {
        let Some((last, _)) = cells.last() else { return };
        if matches!(self, Counts::One(own) if own.is_empty()) {
            *self = Counts::One(cells.to_vec());
            return;
        }
        let counts = self.dense();
        if counts.len() <= *last as usize {
            counts.resize(*last as usize + 1, 0);
        }
        for (cell, n) in cells {
            let count = &mut counts[*cell as usize];
            *count = count.saturating_add(*n);
        }
    }

    fn dense(&mut self) -> &mut Vec<u64> {
        if !matches!(self, Counts::Dense(_)) {
            let cells = self.cells().into_owned();
            *self = Counts::Dense(Vec::new());
            self.add(&cells);
        }
        match self {
            Counts::Dense(counts) => counts,
            Counts::One(_) | Counts::Packed(_) => unreachable!("it was made dense"),
        }
    }

    /// The cells in use, in order.
    pub(super) fn cells(&self) -> Cow<'_, [Cell]> {
        match self {
            Counts::One(cells) => Cow::Borrowed(cells),
            Counts::Dense(counts) => {
                let used = counts.iter().zip(0..).filter(|(n, _)| **n > 0);
                Cow::Owned(used.map(|(n, cell)| (cell, *n)).collect())
            }
            Counts::Packed(bytes) => {
                let (mut left, mut cells, mut at) = (&bytes[..], Vec::new(), 0);
                while let (Some(gap), Some(n)) = (varint(&mut left), varint(&mut left)) {
                    at += gap as u32;
                    cells.push((at, n));
                }
                Cow::Owned(cells)
            }
        }
    }

    /// Keeps the cells in use alone, as of one histogram.
    pub(super) fn settle(&mut self) {
        *self = Counts::One(self.cells().into_owned());
    }

    /// Keeps the cells in use alone, in little memory.
    pub(super) fn pack(&mut self) {
        let (mut bytes, mut at) = (Vec::new(), 0);
        for &(cell, n) in self.cells().iter() {
            push_varint(&mut bytes, u64::from(cell - at));
            push_varint(&mut bytes, n);
            at = cell;
        }
        bytes.shrink_to_fit();
        *self = Counts::Packed(bytes);
    }
}

fn push_varint(bytes: &mut Vec<u8>, mut value: u64) {
    for _ in 0..8 {
        if value < 0x80 {
            break;
        }
        bytes.push(value as u8 & 0x7f | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_lies_in_its_cell_and_cells_have_no_gaps() {
        for value in (0..5000).chain((13..63).flat_map(|bits| [(1 << bits) - 1, 1 << bits, (1 << bits) + 1]))
        {
            let (low, high) = values_of(cell_of(value));
            assert!(low <= value && value <= high, "{value}: {low} to {high}");
            assert_eq!(cell_of(high + 1), cell_of(value) + 1, "{value}");
        }
    }

    #[test]
    fn numbers_survive_their_encoding() {
        for value in [0, 1, 127, 128, 16_384, u64::from(u32::MAX), (1 << 56) - 1, 1 << 56, u64::MAX] {
            let mut bytes = Vec::new();
            push_varint(&mut bytes, value);
            assert_eq!(varint(&mut &bytes[..]), Some(value), "{bytes:?}");
        }
        assert_eq!(varint(&mut &[0x80_u8, 0x80][..]), None);
    }

    #[test]
    fn packed_counts_are_those_that_were_added() {
        let mut counts = Counts::One(Vec::new());
        let cells = [(0, 1), (3, 7), (30_000, 1 << 40)];
        counts.add(&cells);
        counts.pack();
        assert_eq!(*counts.cells(), cells);
        counts.add(&[(3, 1), (4, 1)]);
        assert_eq!(*counts.cells(), [(0, 1), (3, 8), (4, 1), (30_000, 1 << 40)]);
    }
}
