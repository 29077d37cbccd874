//! Drivers as the parent sees them: start, go, follow, end. What a driver does is in crate `driver`.
//!
//! A local run is a fleet of one: [`LocalDriver`] is a child process, [`conduct`] takes it from `go` to its last line.
//! [`model::load::drive`] describes the lines that parent and driver exchange.

mod conduct;
mod local;
mod pipes;
#[cfg(test)]
mod tests;

pub use conduct::conduct;
pub use local::{LocalDriver, Orders, StderrTo};
