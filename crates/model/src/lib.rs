//! The words of pgdyno and the formats of its files.
//!
//! Every crate speaks in these types; none of them does anything. What a field means on disk is
//! described in `FORMAT.md`, what a word means in the glossary of `METHODOLOGY.md`.

pub mod capacity;
pub mod case;
pub mod comparison;
pub mod course;
pub mod drive;
pub mod duet;
pub mod event;
pub mod experiment;
pub mod fingerprint;
pub mod host;
pub mod interval;
pub mod levels;
pub mod load;
pub mod metric;
pub mod os;
pub mod phase;
pub mod plan;
pub mod prepare;
pub mod prose;
pub mod reading;
pub mod repeat;
pub mod run;
pub mod script;
pub mod secret;
pub mod selector;
pub mod server;
pub mod target;
pub mod units;
pub mod visible;
pub mod wal;
mod words;

/// Version of every file format written by this build (`FORMAT.md`). A reader refuses a larger one.
pub const FORMAT: u32 = 1;
