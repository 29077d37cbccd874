//! Data that a library makes, byte for byte as a benchmark's own generator does: `data = "native:NAME"`. Its tables, columns and rows
//! follow from the scale alone.
//!
//! Not here: SQL, which the directory has, as for all data.

mod rows;
mod tpch;

use std::ops::Range;
use std::sync::Arc;

use crate::expression::Type;
pub(crate) use crate::native::rows::NativeRows;
use crate::native::tpch::{SharedText, TpchTable};

/// Rows from which sizes are estimated.
const SAMPLE_ROWS: u64 = 64;

/// A known kind of such data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NativeData {
    /// The tables of TPC-H. A scale of 100 is scale factor 1.
    Tpch,
}

impl NativeData {
    /// All kinds.
    pub const ALL: [NativeData; 1] = [NativeData::Tpch];

    /// The kind that `data` names.
    pub(crate) fn named(text: &str) -> Option<NativeData> {
        NativeData::ALL.into_iter().find(|data| data.name() == text)
    }

    /// The text of `data` that means it.
    pub fn name(self) -> &'static str {
        match self {
            NativeData::Tpch => "native:tpch",
        }
    }

    /// Where the rows come from, in words.
    pub fn source(self) -> &'static str {
        match self {
            NativeData::Tpch => "as dbgen makes them, by the library tpchgen",
        }
    }

    /// A text that changes when rows of the same scale change.
    pub(crate) fn edition(self) -> &'static str {
        match self {
            NativeData::Tpch => "dbgen 3.0.1",
        }
    }

    /// Why there is no data of this scale.
    pub(crate) fn refusal(self, scale: u32) -> Option<String> {
        match self {
            NativeData::Tpch => (scale > tpch::SCALE_MAX).then(|| {
                format!(
                    "scale {scale} is scale factor {}; `{}` makes at most {} (scale {})",
                    tpch::scale_factor(scale),
                    self.name(),
                    tpch::scale_factor(tpch::SCALE_MAX),
                    tpch::SCALE_MAX
                )
            }),
        }
    }

    /// The tables, each after the one that it has lines for.
    pub(crate) fn tables(self, scale: u32) -> Vec<NativeTable> {
        match self {
            NativeData::Tpch => {
                let text = SharedText::whole();
                let table = |table| NativeTable { table, scale, text: Arc::clone(&text) };
                TpchTable::ALL.into_iter().map(table).collect()
            }
        }
    }
}

/// A column of such data.
pub(crate) struct NativeColumn {
    pub(crate) name: &'static str,
    pub(crate) kind: Type,
    /// Most characters of a text.
    pub(crate) longest: Option<u64>,
    /// Least and greatest value of a number, in units of its last digit.
    pub(crate) reach: Option<(i128, i128)>,
    /// Whether all values differ.
    pub(crate) is_unique: bool,
    /// Whether the benchmark's type pads texts to their greatest length.
    pub(crate) is_padded: bool,
}

/// A table of such data.
#[derive(Clone)]
pub(crate) struct NativeTable {
    table: TpchTable,
    scale: u32,
    text: Arc<SharedText>,
}

impl NativeTable {
    pub(crate) fn name(&self) -> &'static str {
        self.table.name()
    }

    /// Rows; of a table with a parent, the rows of the parent.
    pub(crate) fn n_rows(&self) -> u64 {
        self.table.n_rows(self.scale)
    }

    /// The table for each row of which this one has lines, with their least and greatest number.
    pub(crate) fn parent(&self) -> Option<(&'static str, u64, u64)> {
        self.table.parent()
    }

    pub(crate) fn columns(&self) -> Vec<NativeColumn> {
        self.table.columns(self.scale)
    }

    /// The rows with these numbers, or the lines of these rows of the parent.
    pub(crate) fn rows(&self, range: Range<u64>) -> NativeRows {
        NativeRows::new(self.table, self.scale, range, Arc::clone(&self.text))
    }

    /// The same with other texts of the same lengths.
    pub(crate) fn trial_rows(&self, range: Range<u64>) -> NativeRows {
        NativeRows::new(self.table, self.scale, range, SharedText::sketch())
    }

    /// Approximate number of rows: lines are distributed evenly.
    pub(crate) fn estimated_rows(&self) -> u64 {
        let (least, most) = self.parent().map_or((1, 1), |(_, least, most)| (least, most));
        (self.n_rows() * (least + most)).div_ceil(2)
    }

    /// Mean bytes of some rows, of which `bytes_of` says what a value of the column with this number takes whose text has so many bytes in
    /// the benchmark's own type.
    pub(crate) fn sample_bytes(&self, bytes_of: impl Fn(usize, f64) -> f64) -> f64 {
        let padded: Vec<Option<u64>> = self.columns().iter().map(NativeColumn::padded_bytes).collect();
        let n = self.n_rows().min(SAMPLE_ROWS);
        let (mut n_rows, mut total) = (0u64, 0.0);
        for i in 0..n {
            let row = (u128::from(self.n_rows()) * u128::from(i) / u128::from(n)) as u64;
            let mut text = Vec::new();
            let mut rows = self.trial_rows(row..row + 1);
            n_rows += rows.fill(&mut text, usize::MAX) as u64;
            for line in text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
                let values = line.split(|byte| *byte == b'\t').zip(&padded).enumerate();
                let bytes = values.map(|(column, (value, padded))| {
                    bytes_of(column, padded.map_or(value.len() as f64, |padded| padded as f64))
                });
                total += bytes.sum::<f64>();
            }
        }
        total / (n_rows as f64).max(1.0)
    }
}

impl NativeColumn {
    /// Bytes of each of its texts, if they are all as long.
    fn padded_bytes(&self) -> Option<u64> {
        self.is_padded.then_some(self.longest).flatten()
    }
}
