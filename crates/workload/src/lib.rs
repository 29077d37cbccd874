//! What to run: pgbench's script language, its random numbers, and the TPC-B-like workload.
//!
//! Pure: no input or output, no clock, no environment. A caller compiles scripts to a [`Bundle`], derives
//! random streams with [`Seeds`], and steps one [`Emulator`] per client; each step says what to do next.
//! Sending, waiting, retrying and counting belong to the driver.

mod action;
pub mod catalogue;
pub mod directories;
pub mod emulator;
pub mod ledger;
pub mod number;
pub mod objects;
pub mod random;
pub mod reads;
pub mod script;
pub mod tpcb;
pub mod tpcc;
pub mod tprocc;

pub use action::{Action, NextTransaction};
pub use emulator::Emulator;
pub use emulator::builtins::Builtins;
pub use emulator::bundle::{Bundle, insert_automatic_variables};
pub use generator::Clock;
pub use objects::check::{Checks, Invariant};
pub use objects::marker::{Marker, MarkerState};
pub use objects::schema::Schema;
pub use objects::signature::Signature;
pub use random::Prng;
pub use random::seeds::{Seeds, ThreadStreams};
pub use script::assignment::{Columns, UnsetUse};
pub use script::declared::draws::Drawer;
pub use script::eval::DebugLine;
pub use script::interpreter::{Interpreter, RunError, Unsendable};
pub use script::program::{Delay, Program, ScriptCommand, ScriptError, ScriptStep, ShellWord};
pub use script::sqlscan::{first_words, leading_words, statements as sql_statements};
pub use script::statement::{Fetch, Statement, TextPiece};
pub use script::value::{BoundParameter, Dialect, Value};
pub use script::variables::{VariableId, VariableTable};
pub use tpcb::TpcbScript;

#[cfg(test)]
mod tests;
