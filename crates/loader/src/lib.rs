//! Puts rows into a server: COPY over several sessions side by side, and what makes tables whole around it.
//!
//! [`streams`] knows nothing of a workload; [`tpcb`] and [`tpcc`] say which work the tables
//! of a workload are. Not here: the statements and
//! rows themselves (`workload`), what a database held before, and anything told to people.

mod marked;
pub mod streams;
pub mod tpcb;
pub mod tpcc;

pub use streams::{Copy, Job, LoadError, Part, Rows, Sent, Step, Streams};
