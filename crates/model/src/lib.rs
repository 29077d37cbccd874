//! The vocabulary of pgdyno and the formats of its files.
//!
//! All crates use these types; the types themselves do nothing. `FORMAT.md` describes what a field means on disk, the
//! glossary of `METHODOLOGY.md` what a word means.

pub mod bounds;
pub mod directory;
pub mod experiment;
pub mod load;
pub mod release;
pub mod run;
pub mod secret;
pub mod telemetry;
pub mod text;

pub use experiment::case::workload;

/// Version of every file format that this build writes (`FORMAT.md`). Readers reject a larger one.
pub const FORMAT: u32 = 1;
