//! pgbench's script language: reading, compiling and evaluating it.

pub mod assignment;
pub mod declared;
pub mod eval;
mod exchange;
pub mod expr;
pub mod function;
pub mod interpreter;
pub mod lexer;
pub(crate) mod meta;
pub mod program;
pub mod sqlfile;
pub(crate) mod sqlscan;
pub mod statement;
pub mod value;
pub mod variables;

/// Limit for a script. Each driver and each run's record has the text of all scripts.
pub const SCRIPT_BYTES_MAX: u64 = 64 << 20;
