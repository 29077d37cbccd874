//! Tables of an instance, and their rows as COPY takes them.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use crate::expression::{CellFault, Generator, RowMaker, Type};
use crate::manifest::Manifest;
use crate::manifest::captured::DeclaredData;
use crate::native::{NativeRows, NativeTable};

/// Rows from which sizes are estimated; a mean of this many varies by a few percent, as far as lengths differ at all.
const SAMPLE_ROWS: u64 = 64;
/// Most lines of a sampled row.
const SAMPLE_LINES: u64 = 4;
/// Bytes of a row besides its values: header, line pointer, and half of the alignment to 8 bytes.
const ROW_BYTES: f64 = 28.0 + 4.0;
/// Longest value whose length needs one byte.
const SHORT_BYTES: f64 = 126.0;

/// A column that is sent.
#[derive(Clone, Debug, PartialEq)]
pub struct TableColumn {
    /// Name.
    pub name: String,
    /// Type of its values.
    pub kind: Type,
    /// Most characters of a value's text.
    pub longest: Option<u64>,
    /// Least and greatest value: of ints as they are, of decimals in units of their last digit.
    pub reach: Option<(i128, i128)>,
    /// Whether it can be null.
    pub is_nullable: bool,
    /// Whether all values are known to differ.
    pub is_unique: bool,
    /// Its place among the values of the table.
    pub(crate) value: usize,
    /// Where its expression stands in `workload.toml`.
    pub(crate) at: Range<usize>,
}

/// A table and what makes its rows.
#[derive(Clone)]
pub struct Table {
    /// Name.
    pub name: String,
    /// Rows; of a table with a parent, the rows of the parent.
    pub n_rows: u64,
    /// Columns that are sent, in this order.
    pub columns: Vec<TableColumn>,
    /// The table for each row of which this one has lines.
    pub parent: Option<String>,
    /// Where its name stands in `workload.toml`.
    pub(crate) name_at: Range<usize>,
    /// The text of `workload.toml`.
    pub(crate) manifest: Arc<str>,
    pub(crate) scale: u32,
    pub(crate) source: RowSource,
}

/// What makes the rows of a table.
#[derive(Clone)]
pub(crate) enum RowSource {
    /// An expression for each column.
    Expressions {
        generator: Arc<Generator>,
        /// Number of the table in the generator.
        number: usize,
    },
    /// A library.
    Native(NativeTable),
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Table { name, n_rows, columns, parent, .. } = self;
        let mut shown = f.debug_struct("Table");
        shown.field("name", name).field("n_rows", n_rows).field("columns", columns).field("parent", parent);
        shown.finish_non_exhaustive()
    }
}

impl Table {
    /// The columns of its COPY.
    pub fn copy_columns(&self) -> Vec<&str> {
        self.columns.iter().map(|column| column.name.as_str()).collect()
    }

    /// A table whose rows a library makes.
    pub(super) fn native(table: NativeTable, manifest: &Manifest, scale: u32, text: &Arc<str>) -> Table {
        let at = match &manifest.data {
            DeclaredData::Native { at, .. } => at.clone(),
            _ => 0..0,
        };
        let columns = table.columns().into_iter().enumerate().map(|(value, column)| TableColumn {
            name: column.name.to_string(),
            kind: column.kind,
            longest: column.longest,
            reach: column.reach,
            is_nullable: false,
            is_unique: column.is_unique,
            value,
            at: at.clone(),
        });
        Table {
            name: table.name().to_string(),
            n_rows: table.n_rows(),
            columns: columns.collect(),
            parent: table.parent().map(|(parent, ..)| parent.to_string()),
            name_at: at.clone(),
            manifest: Arc::clone(text),
            scale,
            source: RowSource::Native(table),
        }
    }

    /// The rows with these numbers, from 0; of a table with a parent, the lines of these rows of the parent.
    pub fn rows(&self, range: Range<u64>) -> TableRows {
        let end = range.end.min(self.n_rows);
        TableRows(match &self.source {
            RowSource::Native(table) => Rows::Native(table.rows(range)),
            RowSource::Expressions { generator, number } => Rows::Made(MadeRows {
                maker: generator.rows(*number),
                next: range.start.min(end),
                end,
                lines: None,
                has_parent: self.parent.is_some(),
                fault: None,
            }),
        })
    }

    /// Rows as [`Table::rows`] has them, for a trial: of a library, with other texts of the same lengths, which take no time to prepare.
    pub fn trial_rows(&self, range: Range<u64>) -> TableRows {
        match &self.source {
            RowSource::Native(table) => TableRows(Rows::Native(table.trial_rows(range))),
            RowSource::Expressions { .. } => self.rows(range),
        }
    }

    /// Approximate rows: of a table with a parent, from the lines of some of its rows.
    pub fn estimated_rows(&self) -> u64 {
        let (generator, number) = match &self.source {
            RowSource::Native(table) => return table.estimated_rows(),
            RowSource::Expressions { generator, number } => (generator, *number),
        };
        let Some((least, most)) = generator.lines_reach(number) else { return self.n_rows };
        if least == most {
            return self.n_rows.saturating_mul(least);
        }
        let mut maker = generator.rows(number);
        let counts: Vec<u64> = self.sample().filter_map(|row| maker.n_lines(row).ok()).collect();
        let mean = counts.iter().map(|n| *n as f64).sum::<f64>() / (counts.len() as f64).max(1.0);
        (self.n_rows as f64 * mean).round() as u64
    }

    /// Approximate bytes of a row on disk with its header, from some of its rows. Large values are counted as they are, although the
    /// server may compress them.
    pub fn estimated_row_bytes(&self) -> f64 {
        let (generator, number) = match &self.source {
            RowSource::Native(table) => {
                return ROW_BYTES
                    + table.sample_bytes(|column, text_bytes| self.columns[column].bytes(text_bytes));
            }
            RowSource::Expressions { generator, number } => (generator, *number),
        };
        let mut maker = generator.rows(number);
        let (mut n_rows, mut total) = (0u64, 0.0);
        for row in self.sample() {
            let n_lines = match self.parent {
                Some(_) => maker.n_lines(row).unwrap_or(0).min(SAMPLE_LINES),
                None => 1,
            };
            for line in 0..n_lines {
                n_rows += 1;
                total += self.bytes_of(&mut maker, row, self.parent.is_some().then_some(line));
            }
        }
        ROW_BYTES + total / (n_rows as f64).max(1.0)
    }

    /// Numbers of rows, evenly over the table.
    fn sample(&self) -> impl Iterator<Item = u64> + use<> {
        let n_rows = self.n_rows;
        let n = n_rows.min(SAMPLE_ROWS);
        (0..n).map(move |i| (u128::from(n_rows) * u128::from(i) / u128::from(n)) as u64)
    }

    /// Bytes of the values of a row.
    fn bytes_of(&self, maker: &mut RowMaker, row: u64, line: Option<u64>) -> f64 {
        let mut text = Vec::new();
        let mut total = 0.0;
        for column in &self.columns {
            text.clear();
            if maker.write_value(row, line, column.value, &mut text).unwrap_or(false) {
                total += column.bytes(text.len() as f64);
            }
        }
        total
    }
}

impl TableColumn {
    /// Approximate bytes of a value whose text has so many.
    fn bytes(&self, text_bytes: f64) -> f64 {
        let with_length = |bytes: f64| bytes + if bytes > SHORT_BYTES { 4.0 } else { 1.0 };
        match &self.kind {
            Type::Bool => 1.0,
            Type::Int => {
                let is_small = |(least, most): (i128, i128)| {
                    least >= i128::from(i32::MIN) && most <= i128::from(i32::MAX)
                };
                if self.reach.is_some_and(is_small) { 4.0 } else { 8.0 }
            }
            Type::Date => 4.0,
            Type::Float | Type::Timestamp => 8.0,
            Type::Interval | Type::Uuid => 16.0,
            // Two bytes of header, two for each four digits.
            Type::Decimal(_) => with_length(2.0 + 2.0 * (text_bytes / 4.0).ceil()),
            // `\x` and two digits for each.
            Type::Bytes => with_length((text_bytes - 2.0).max(0.0) / 2.0),
            // Four bytes for each coordinate, whose text has about eleven.
            Type::Vector => with_length(text_bytes / 11.0 * 4.0 + 8.0),
            Type::Text | Type::Json | Type::List(_) => with_length(text_bytes),
        }
    }
}

/// Rows of a table, one after the other.
pub struct TableRows(Rows);

enum Rows {
    Made(MadeRows),
    Native(NativeRows),
}

/// Rows that expressions make.
struct MadeRows {
    maker: RowMaker,
    /// The next row, or the parent's row whose lines come next.
    next: u64,
    end: u64,
    /// The next line of `next`, and how many there are.
    lines: Option<(u64, u64)>,
    has_parent: bool,
    fault: Option<CellFault>,
}

impl fmt::Debug for TableRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let left = match &self.0 {
            Rows::Made(rows) => rows.next..rows.end,
            Rows::Native(rows) => rows.range(),
        };
        f.debug_tuple("TableRows").field(&left).finish()
    }
}

impl TableRows {
    /// Appends complete rows as COPY's text format, at most `max_bytes`, but always a row if any is left; returns their number, 0 at
    /// the end. A value that cannot be made ends the rows, too: ask for [`TableRows::fault`].
    pub fn fill(&mut self, out: &mut Vec<u8>, max_bytes: usize) -> usize {
        match &mut self.0 {
            Rows::Made(rows) => rows.fill(out, max_bytes),
            Rows::Native(rows) => rows.fill(out, max_bytes),
        }
    }

    /// Why there are no more rows, if not because all were made.
    pub fn fault(&self) -> Option<&CellFault> {
        match &self.0 {
            Rows::Made(rows) => rows.fault.as_ref(),
            Rows::Native(_) => None,
        }
    }
}

impl MadeRows {
    fn fill(&mut self, out: &mut Vec<u8>, max_bytes: usize) -> usize {
        let begin = out.len();
        let mut n_rows = 0;
        while self.fault.is_none() && self.go_to_row() {
            let start = out.len();
            if let Err(fault) = self.write(out) {
                out.truncate(start);
                self.fault = Some(fault);
                break;
            }
            if n_rows > 0 && out.len() - begin > max_bytes {
                // It is made again for the next piece.
                out.truncate(start);
                break;
            }
            n_rows += 1;
            self.step();
        }
        n_rows
    }

    /// Goes to the next row that exists, if there is one: a parent may have no lines.
    fn go_to_row(&mut self) -> bool {
        while self.next < self.end {
            if !self.has_parent {
                return true;
            }
            let (line, n_lines) = match self.lines {
                Some(lines) => lines,
                None => match self.maker.n_lines(self.next) {
                    Ok(n_lines) => (0, n_lines),
                    Err(fault) => {
                        self.fault = Some(fault);
                        return false;
                    }
                },
            };
            if line < n_lines {
                self.lines = Some((line, n_lines));
                return true;
            }
            self.lines = None;
            self.next += 1;
        }
        false
    }

    fn write(&mut self, out: &mut Vec<u8>) -> Result<(), CellFault> {
        match self.lines {
            Some((line, _)) => self.maker.write_line(self.next, line, out),
            None => self.maker.write_row(self.next, out),
        }
    }

    fn step(&mut self) {
        match &mut self.lines {
            Some((line, _)) => *line += 1,
            None => self.next += 1,
        }
    }
}
