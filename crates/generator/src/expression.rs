//! Expressions of columns and parameters: typed, total and bounded, and a pure function of a cell's place.
//!
//! A text becomes an [`Expression`] (`parse`), a [`Scope`] says what its names mean (`scope`), `compile` resolves
//! names, types and intervals, and the resulting [`Generator`] makes rows ([`RowMaker`]) and parameters
//! ([`ParameterMaker`]) without allocating. Nothing here knows files, TOML or SQL.

mod calendar;
pub(crate) mod captured;
pub(crate) mod captured_words;
mod compile;
mod functions;
mod kind;
mod make;
mod node;
mod operators;
mod parse;
mod references;
mod scope;
mod text;

#[cfg(test)]
mod tests;

pub use functions::usages;
pub use kind::Type;
pub use make::{CellFault, ClientStream, Clock, Generator, ParameterMaker, RowMaker};
pub use parse::{Expression, ExpressionError, parse};
pub use scope::{Constant, Scope, TableSource, ValueFacts, ValueSource};
pub use text::escape_copy;
