//! Reads, adds and writes histograms. Distributions are added, percentiles never are.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer as _, V2DeflateSerializer};

use crate::load::interval::{HISTOGRAM_DIGITS, HISTOGRAM_MAX_NS, HISTOGRAM_MIN_NS, HistogramLine};

/// The sum of any number of histograms.
#[derive(Debug, Clone)]
pub struct HistogramSum {
    histogram: Histogram<u64>,
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
        let mut histogram = Histogram::new_with_bounds(HISTOGRAM_MIN_NS, HISTOGRAM_MAX_NS, HISTOGRAM_DIGITS)
            .expect("the bounds are constants that the library accepts");
        // A file may contain histograms with wider bounds than ours.
        histogram.auto(true);
        HistogramSum { histogram, max_ns: 0 }
    }

    /// Reads a stored histogram.
    ///
    /// # Errors
    /// When it is not base64 of an HdrHistogram V2.
    pub fn read(line: &HistogramLine) -> Result<HistogramSum, String> {
        let bytes = STANDARD
            .decode(line.data.trim())
            .map_err(|error| format!("histogram `{}` is not base64: {error}", line.tag))?;
        let mut histogram: Histogram<u64> = Deserializer::new()
            .deserialize(&mut bytes.as_slice())
            .map_err(|error| format!("histogram `{}` cannot be decoded: {error}", line.tag))?;
        histogram.auto(true);
        Ok(HistogramSum { histogram, max_ns: line.max_ns })
    }

    /// Adds another sum.
    pub fn add(&mut self, other: &HistogramSum) {
        if self.histogram.is_empty() {
            // Adopts the other's resolution: a coarser one would round its values.
            self.histogram = other.histogram.clone();
        } else {
            self.histogram.add(&other.histogram).expect("a resizing histogram takes any other");
        }
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// The sum as a line to store.
    ///
    /// # Panics
    /// Never: writing to memory cannot fail.
    pub fn line(&self, tag: &str) -> HistogramLine {
        let mut bytes = Vec::new();
        V2DeflateSerializer::new()
            .serialize(&self.histogram, &mut bytes)
            .expect("writing to memory cannot fail");
        HistogramLine { tag: tag.to_string(), max_ns: self.max_ns, data: STANDARD.encode(bytes) }
    }

    /// Number of recorded values.
    pub fn n(&self) -> u64 {
        self.histogram.len()
    }

    /// The value that the share `q` (0 to 1) of all values does not exceed; `None` if empty.
    ///
    /// Accurate to three significant digits of a value above the smallest distinguishable one, and never above the
    /// largest value that the lines name.
    pub fn quantile_ns(&self, q: f64) -> Option<u64> {
        if self.histogram.is_empty() {
            return None;
        }
        Some(self.histogram.value_at_quantile(q).min(self.largest_ns()))
    }

    /// Arithmetic mean in nanoseconds, of values rounded to three digits; 0 if empty.
    pub fn mean_ns(&self) -> f64 {
        self.histogram.mean()
    }

    /// The largest value that the lines name, exactly as the driver wrote it. For lines without one (`0`), the
    /// histogram's own, which is the upper end of a bucket.
    pub fn largest_ns(&self) -> u64 {
        if self.max_ns > 0 { self.max_ns } else { self.histogram.max() }
    }
}
