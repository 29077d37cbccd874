//! What to run: pgbench's script language, its random numbers, and the TPC-B-like workload.
//!
//! Pure: no input or output, no clock, no environment. A caller compiles scripts to a [`Bundle`], derives
//! random streams with [`Seeds`], and steps one [`Machine`] per client; each step says what to do next.
//! Sending, waiting, retrying and counting belong to the driver.

mod action;
pub mod bundle;
mod check;
pub mod eval;
pub mod expr;
mod fold;
pub mod function;
mod hash_partition;
pub mod lexer;
pub mod machine;
pub mod marker;
mod meta;
mod native;
mod outside;
pub mod random;
mod schema;
pub mod script;
pub mod seeds;
mod signature;
pub mod sqlfile;
mod sqlscan;
pub mod statement;
pub mod text;
pub mod tpcb;
pub mod tpcc;
pub mod tprocc;
pub mod value;
pub mod variables;

pub use action::{Action, Next};
pub use bundle::{Bundle, insert_automatic_variables};
pub use check::Check;
pub use eval::DebugLine;
pub use machine::{Machine, RunError};
pub use marker::{Marker, MarkerState};
pub use native::Builtins;
pub use random::Prng;
pub use schema::Schema;
pub use script::{Command, Delay, Program, ScriptError, ShellWord, Step};
pub use seeds::{Seeds, ThreadStreams};
pub use signature::Signature;
pub use statement::{Fetch, Piece, Statement};
pub use tpcb::Builtin;
pub use value::Value;
pub use variables::{VariableId, VariableTable};

#[cfg(test)]
mod tests;
