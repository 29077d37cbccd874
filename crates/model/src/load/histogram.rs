//! Reads, adds and writes histograms. Distributions are added, percentiles never are.

mod cells;
mod encoding;

use hdrhistogram::serialization::{Serializer as _, V2Serializer};
use hdrhistogram::{Counter, Histogram};

use crate::load::interval::{HISTOGRAM_DIGITS, HISTOGRAM_MAX_NS, HISTOGRAM_MIN_NS, HistogramLine};
use cells::{Cell, CellReader, Counts, cell_of, values_of};

/// A stored histogram, decoded.
#[derive(Debug, Clone, Copy)]
pub struct Decoded<'a> {
    /// Cells in use, in order.
    cells: &'a [Cell],
    max_ns: u64,
}

impl Decoded<'_> {
    /// Number of recorded values.
    pub fn n(&self) -> u64 {
        self.cells.iter().map(|(_, n)| n).sum()
    }
}

/// Decodes stored histograms. A study has a million, so that memory and tables are used again.
#[derive(Debug, Default)]
pub struct Decoder {
    cells: CellReader,
}

impl Decoder {
    /// Decodes a stored histogram.
    ///
    /// # Errors
    /// When it is not base64 of an HdrHistogram V2.
    pub fn decode(&mut self, line: &HistogramLine) -> Result<Decoded<'_>, String> {
        let cells =
            self.cells.read(&line.data).map_err(|error| format!("histogram `{}` {error}", line.tag))?;
        Ok(Decoded { cells, max_ns: line.max_ns })
    }
}

/// Writes histograms as lines.
pub struct Encoder {
    serializer: V2Serializer,
    plain: Vec<u8>,
}

impl Default for Encoder {
    fn default() -> Encoder {
        Encoder { serializer: V2Serializer::new(), plain: Vec::new() }
    }
}

impl Encoder {
    /// The line of a histogram.
    ///
    /// # Panics
    /// Never: writing to memory cannot fail, and nothing is counted 2^63 times.
    pub fn line<T: Counter>(&mut self, tag: String, max_ns: u64, histogram: &Histogram<T>) -> HistogramLine {
        self.plain.clear();
        self.serializer.serialize(histogram, &mut self.plain).expect("writing to memory cannot fail");
        HistogramLine { tag, max_ns, data: encoding::encode(&self.plain) }
    }
}

/// The sum of any number of histograms.
#[derive(Debug, Clone)]
pub struct HistogramSum {
    counts: Counts,
    n: u64,
    /// The largest maximum of the lines.
    max_ns: u64,
}

impl Default for HistogramSum {
    fn default() -> HistogramSum {
        HistogramSum::new()
    }
}

impl HistogramSum {
    /// An empty sum.
    pub fn new() -> HistogramSum {
        HistogramSum { counts: Counts::One(Vec::new()), n: 0, max_ns: 0 }
    }

    /// Reads a stored histogram.
    ///
    /// # Errors
    /// As [`Decoder::decode`].
    pub fn read(line: &HistogramLine) -> Result<HistogramSum, String> {
        let mut sum = HistogramSum::new();
        sum.add_decoded(&Decoder::default().decode(line)?);
        Ok(sum)
    }

    /// Adds a stored histogram.
    pub fn add_decoded(&mut self, other: &Decoded) {
        self.counts.add(other.cells);
        self.n += other.n();
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// Adds another sum.
    pub fn add(&mut self, other: &HistogramSum) {
        self.counts.add(&other.counts.cells());
        self.n += other.n;
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// Makes it fast to read, for sums that are complete.
    pub fn settle(&mut self) {
        self.counts.settle();
    }

    /// Makes it small, for sums that are kept and seldom added to: some kilobytes instead of a quarter of a megabyte.
    pub fn pack(&mut self) {
        self.counts.pack();
    }

    /// The sum as a line to store.
    ///
    /// # Panics
    /// Never: writing to memory cannot fail.
    pub fn line(&self, tag: &str) -> HistogramLine {
        let mut histogram: Histogram<u64> =
            Histogram::new_with_bounds(HISTOGRAM_MIN_NS, HISTOGRAM_MAX_NS, HISTOGRAM_DIGITS)
                .expect("the bounds are constants that the library accepts");
        // A file may contain histograms with wider bounds than ours.
        histogram.auto(true);
        for &(cell, n) in self.counts.cells().iter() {
            histogram.record_n(values_of(cell).0, n).expect("a resizing histogram takes any value");
        }
        Encoder::default().line(tag.to_string(), self.max_ns, &histogram)
    }

    /// Number of recorded values.
    pub fn n(&self) -> u64 {
        self.n
    }

    /// The value that the share `q` (0 to 1) of all values does not exceed; `None` if empty.
    ///
    /// Accurate to three significant digits of a value above the smallest distinguishable one, and never above the
    /// largest value that the lines name.
    pub fn quantile_ns(&self, q: f64) -> Option<u64> {
        self.quantiles_ns([q]).map(|[value]| value)
    }

    /// [`HistogramSum::quantile_ns`] of several shares, which are in order.
    pub fn quantiles_ns<const N: usize>(&self, shares: [f64; N]) -> Option<[u64; N]> {
        let cells = self.counts.cells();
        let largest_ns = self.largest_ns();
        let (mut at, mut below) = (0, cells.first()?.1);
        Some(shares.map(|share| {
            // As HdrHistogram: the first value at which so many were counted, and the upper end of its cell.
            let wanted = ((share.clamp(0.0, 1.0) * self.n as f64).ceil() as u64).min(self.n).max(1);
            while below < wanted && at + 1 < cells.len() {
                at += 1;
                below += cells[at].1;
            }
            values_of(cells[at].0).1.min(largest_ns)
        }))
    }

    /// Number of values that do not exceed `value_ns`, whose cell counts as a whole.
    pub fn n_at_most(&self, value_ns: u64) -> u64 {
        let last = cell_of(value_ns);
        let cells = self.counts.cells();
        cells.iter().take_while(|(cell, _)| *cell <= last).map(|(_, n)| n).sum()
    }

    /// Arithmetic mean in nanoseconds, of values rounded to three digits; 0 if empty.
    pub fn mean_ns(&self) -> f64 {
        let middle = |&(cell, n): &Cell| {
            let (low, high) = values_of(cell);
            (low + (high + 1 - low) / 2) as f64 * n as f64 / self.n as f64
        };
        self.counts.cells().iter().map(middle).sum()
    }

    /// The largest value that the lines name, exactly as the driver wrote it. For lines without one (`0`), the upper end
    /// of the last cell in use.
    pub fn largest_ns(&self) -> u64 {
        let last = || self.counts.cells().last().map_or(0, |(cell, _)| values_of(*cell).1);
        if self.max_ns > 0 { self.max_ns } else { last() }
    }

    /// Adds one value; for tests and simulations.
    pub fn record(&mut self, value_ns: u64) {
        self.counts.add(&[(cell_of(value_ns), 1)]);
        self.n += 1;
    }
}

#[cfg(test)]
mod tests;
