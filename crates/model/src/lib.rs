//! The words of pgdyno and the formats of its files.
//!
//! Every crate speaks in these types; none of them does anything. What a field means on disk is
//! described in `FORMAT.md`, what a word means in the glossary of `METHODOLOGY.md`.

pub mod experiment;
pub mod load;
pub mod run;
pub mod secret;
pub mod telemetry;
pub mod text;

/// Version of every file format written by this build (`FORMAT.md`). A reader refuses a larger one.
pub const FORMAT: u32 = 1;
