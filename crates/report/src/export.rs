//! Records of runs as long tables for one's own analysis: intervals and readings, as CSV, JSON lines or Parquet.
//!
//! Rows are made and written run by run, a part at a time: the readings of a study may be larger than memory.

mod intervals;
#[cfg(not(feature = "parquet"))]
mod no_parquet;
#[cfg(feature = "parquet")]
mod parquet;
mod readings;
#[cfg(test)]
#[cfg(feature = "parquet")]
mod tests;
mod text;

use std::io::{self, Write};
use std::sync::Arc;

use model::experiment::plan::Plan;
use model::run::RunData;

#[cfg(not(feature = "parquet"))]
use self::no_parquet::Parquet;
#[cfg(feature = "parquet")]
use self::parquet::Parquet;

/// Which records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExportTable {
    /// One row per script and second: counts and percentiles of latency.
    Intervals,
    /// One row per value of a metric and tick.
    Readings,
}

/// How they are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExportFormat {
    /// RFC 4180 with a header.
    Csv,
    /// One object per line.
    Json,
    /// Apache Parquet with Snappy.
    Parquet,
}

impl ExportFormat {
    /// Checks that this build writes the format.
    ///
    /// # Errors
    /// Says what has it.
    pub fn check(self) -> io::Result<()> {
        if self == ExportFormat::Parquet && !cfg!(feature = "parquet") {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "this build of pgdyno writes no Parquet: take a package, which does, build with `--features parquet`, or export CSV",
            ));
        }
        Ok(())
    }
}

/// A column's name and the kind of its values.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Column {
    name: String,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Int,
    Float,
}

/// A value; [`Cell::None`] where a row has none.
#[derive(Debug, Clone, PartialEq)]
enum Cell {
    Text(Arc<str>),
    Int(i64),
    Float(f64),
    None,
}

impl Cell {
    fn text(text: &str) -> Cell {
        Cell::Text(text.into())
    }

    fn int(number: impl TryInto<i64>) -> Cell {
        number.try_into().map_or(Cell::None, Cell::Int)
    }

    /// No format but Parquet has numbers that are not finite.
    fn float(number: f64) -> Cell {
        if number.is_finite() { Cell::Float(number) } else { Cell::None }
    }
}

type Row = Vec<Cell>;

/// Rows that are kept before they are written; also the length of Parquet's row groups.
const ROWS_MAX: usize = 50_000;

/// A table that is being written.
pub struct Export<W: Write + Send> {
    table: ExportTable,
    factors: Vec<String>,
    rows: Vec<Row>,
    sink: Sink<W>,
}

enum Sink<W: Write + Send> {
    Csv(W),
    Json(W, Vec<Column>),
    Parquet(Box<Parquet<W>>),
}

impl<W: Write + Send> Export<W> {
    /// Begins a table; its columns depend on the plan's factors.
    ///
    /// # Errors
    /// When `out` cannot be written.
    pub fn begin(table: ExportTable, format: ExportFormat, plan: &Plan, mut out: W) -> io::Result<Export<W>> {
        let factors = plan.factors.clone();
        let mut columns: Vec<Column> = ["run", "block", "case"].map(|name| column(name, Kind::Int)).into();
        columns.extend(factors.iter().map(|name| column(name, Kind::Text)));
        columns.extend(match table {
            ExportTable::Intervals => intervals::columns(),
            ExportTable::Readings => readings::columns(),
        });
        let sink = match format {
            ExportFormat::Csv => {
                out.write_all(text::heads(&columns).as_bytes())?;
                Sink::Csv(out)
            }
            ExportFormat::Json => Sink::Json(out, columns),
            ExportFormat::Parquet => Sink::Parquet(Box::new(Parquet::begin(columns, out)?)),
        };
        Ok(Export { table, factors, rows: Vec::new(), sink })
    }

    /// Adds a run.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn run(&mut self, run: &RunData) -> io::Result<()> {
        let spec = &run.record.spec;
        let mut first = vec![Cell::int(spec.run), Cell::int(spec.block), Cell::int(spec.case)];
        let level =
            |key: &String| run.record.case.levels.get(key).map_or(Cell::None, |level| Cell::text(level));
        first.extend(self.factors.iter().map(level));
        match self.table {
            ExportTable::Intervals => intervals::rows(run, &mut |rest| self.push(&first, rest)),
            ExportTable::Readings => readings::rows(run, &mut |rest| self.push(&first, rest)),
        }
    }

    fn push(&mut self, first: &[Cell], rest: Row) -> io::Result<()> {
        self.rows.push([first, &rest].concat());
        if self.rows.len() >= ROWS_MAX { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        let rows = std::mem::take(&mut self.rows);
        match &mut self.sink {
            Sink::Csv(out) => rows.iter().try_for_each(|row| out.write_all(text::csv(row).as_bytes())),
            Sink::Json(out, columns) => {
                rows.iter().try_for_each(|row| out.write_all(text::json(columns, row)?.as_bytes()))
            }
            Sink::Parquet(file) => file.rows(&rows),
        }
    }

    /// Writes the rest and returns what it was written to.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn end(mut self) -> io::Result<W> {
        self.flush()?;
        let mut out = match self.sink {
            Sink::Csv(out) | Sink::Json(out, _) => out,
            Sink::Parquet(file) => file.end()?,
        };
        out.flush()?;
        Ok(out)
    }
}

fn column(name: &str, kind: Kind) -> Column {
    Column { name: name.to_string(), kind }
}
