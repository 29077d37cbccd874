//! Drivers as the parent sees them: start, go, follow, end. Not what a driver does.
//!
//! A local run is a fleet of one: [`LocalDriver`] is a child process, [`conduct`] takes it from `go` to
//! its last line. The lines that go to and fro are described in [`model::load::drive`].

mod conduct;
mod local;
mod pipes;
#[cfg(test)]
mod tests;

pub use conduct::conduct;
pub use local::{LocalDriver, Orders, StderrTo};
