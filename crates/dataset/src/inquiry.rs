//! What a server says of a statement that it has never run: the types of its parameters, the columns that they are compared with or
//! put into, whether those are unique, have a default, and between which values they lie, and whether it only reads.
//!
//! The server parses and plans (PREPARE, and EXPLAIN of the generic plan), so that no parser of SQL is needed; it executes nothing, in a
//! READ ONLY transaction that is rolled back. What it does not say is unknown.

mod asked;
mod columns;
mod conditions;
mod plan;
mod prepared;
mod texts;

pub use self::asked::{Inquiry, describe};

use std::time::Duration;

/// What a server says of a statement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Described {
    /// `$1`, `$2`, ... in order; empty for a statement that is refused.
    pub parameters: Vec<ParameterFacts>,
    /// Whether it changes nothing and locks no row: `None` if that depends on functions, or is not known.
    pub reads_only: Option<bool>,
    /// Why the server does not take it, with the SQLSTATE: an object that is missing, a parameter without a type. Such a statement cannot
    /// be run here.
    pub refused: Option<StatementRefusal>,
    /// What is not known of it, and why.
    pub unknown: Vec<String>,
}

/// Why a server does not take a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatementRefusal {
    /// Five characters, such as `42P01`.
    pub sqlstate: String,
    /// The server's message.
    pub message: String,
}

/// A parameter, as far as it is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParameterFacts {
    /// Type, as `format_type` writes it: `integer`, `timestamp with time zone`, `app.mood`, `bigint[]`.
    pub type_name: String,
    /// Whether the type was given to the server because it could not infer one.
    pub is_guessed: bool,
    /// The column that it is compared with or put into; of several, the one that says most.
    pub column: Option<ColumnFacts>,
}

/// A column, and what a parameter does with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnFacts {
    /// Schema, not quoted.
    pub schema: String,
    /// Table, not quoted; of a partition, the partitioned table.
    pub table: String,
    /// Name, not quoted.
    pub column: String,
    /// Whether it alone is the key of a unique index over all rows.
    pub unique: bool,
    /// Whether it is one of several columns of such an index.
    pub in_unique: bool,
    /// Whether an index begins with it.
    pub indexed: bool,
    /// Whether it has a default, or is an identity column.
    pub has_default: bool,
    /// How the parameter meets it.
    pub reads: ColumnUse,
    /// Whether the parameter meets it as it is, and not within a larger expression.
    pub is_bare: bool,
    /// Smallest value of a column of whole numbers that an index begins with.
    pub least: Option<i64>,
    /// Largest value of such a column.
    pub most: Option<i64>,
}

/// How a parameter meets a column, from the least to the most that it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ColumnUse {
    /// Another operator, such as LIKE or `@>`.
    None,
    /// `SET column = $1`.
    Assigned,
    /// `<`, `<=`, `>`, `>=`.
    Range,
    /// `=`, `= ANY`, `IN`.
    Equality,
    /// `INSERT`.
    Inserted,
}

/// The types that are tried, in this order, for a parameter that the server gives none.
pub const TYPES_TRIED: [&str; 4] = ["int8", "numeric", "timestamptz", "text"];

/// Bounds of an inquiry.
#[derive(Clone, Copy, Debug)]
pub struct InquiryLimits {
    /// Longest time of a question about a statement.
    pub statement_max: Duration,
    /// Longest time of a look for the smallest and the largest value of a column.
    pub range_max: Duration,
}

impl Default for InquiryLimits {
    fn default() -> InquiryLimits {
        InquiryLimits { statement_max: Duration::from_secs(5), range_max: Duration::from_secs(1) }
    }
}
