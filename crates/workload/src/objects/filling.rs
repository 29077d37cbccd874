//! Tables of which each is filled by one stream.

use std::collections::BTreeMap;

use crate::objects::schema::Schema;

/// Tables of which each is filled by one stream.
pub struct ByTable {
    /// The CREATE TABLE statements.
    pub create_tables: fn(&Schema) -> Vec<String>,
    /// The tables with their rows and keys, those that take the longest first.
    pub fill: fn(&Schema, &Batch) -> Vec<TableLoad>,
    /// What the load marker notes about the rows.
    pub facts: fn(&Batch) -> BTreeMap<String, String>,
    /// Rows of all tables, about.
    pub rows_about: fn(u32) -> u64,
    /// Streams that find work at the same time.
    pub streams_max: usize,
}

/// What determines the rows of a load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Scale units.
    pub scale: u32,
    /// When it is loaded, as the server reads a timestamp.
    pub at: String,
}

/// Appends complete rows as COPY text, at most the given number of bytes, but always a row if any is left; returns the
/// number of rows, 0 at the end.
pub type Fill = Box<dyn FnMut(&mut Vec<u8>, usize) -> usize + Send>;

/// A table to fill.
pub struct TableLoad {
    /// Name without the schema.
    pub name: &'static str,
    /// The COPY FROM STDIN.
    pub copy: String,
    /// The statements that make its keys and indexes, after the rows.
    pub keys: Vec<String>,
    /// The rows to copy.
    pub rows: Fill,
}
