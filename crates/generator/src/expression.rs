//! Expressions of columns and parameters: typed, total and bounded, and a pure function of a cell's place.
//!
//! A text becomes an [`Expression`] (`parse`), a [`Scope`] says what its names mean (`scope`), `compile` resolves
//! names, types and intervals, and the resulting [`Generator`] makes rows ([`RowMaker`]) and parameters
//! ([`ParameterMaker`]) without allocating. Nothing here knows files, TOML or SQL.

pub(crate) mod captured;
mod compile;
mod functions;
mod make;
mod node;
mod operators;
mod parse;
mod references;
mod scope;

#[cfg(test)]
mod tests;

pub use crate::value::kind::Type;
pub use crate::value::text::escape_copy;
pub use functions::usages;
pub use make::{CellFault, ClientStream, Clock, Generator, ParameterMaker, RowMaker};
pub use parse::{Expression, ExpressionError, parse};
pub use scope::{Constant, Scope, TableSource, ValueFacts, ValueSource};
