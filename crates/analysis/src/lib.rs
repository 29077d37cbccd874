//! What a run means: a pure function of its records. Reads no file, no clock.

pub mod finding;
pub mod summary;
