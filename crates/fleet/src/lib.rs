//! Drivers as the parent sees them: start, go, follow, add up, end. What a driver does is in crate `driver`.
//!
//! A [`Fleet`] is one child process on this machine, or several drivers behind any commands that lead a pipe to them
//! (ssh, kubectl, a shell). [`HostObserver`] are `pgdyno watch` behind such a command, and [`HostAgent`]
//! `pgdyno host`, [`Pages`] `pgdyno pages`. [`conduct`] takes a fleet from `go` to its last line. [`model::load::drive`] describes the lines
//! that parent and drivers exchange, [`model::load::hello`] how those on other machines introduce themselves.

mod add_up;
mod clocks;
mod conduct;
mod connect;
mod drivers;
mod eyes;
mod hands;
mod order;
mod pages;
mod pipes;
mod pods;
mod process;
mod remote_command;
#[cfg(test)]
mod tests;
mod upload;

pub use conduct::conduct;
pub use drivers::{Fleet, Orders};
pub use eyes::{HostObservation, HostObserver};
pub use hands::HostAgent;
pub use order::drive_order;
pub use pages::{PagePartSink, Pages, PipeNotice};
pub use pipes::OutputTail;
pub use pods::pods;
pub use process::StderrTo;
pub use remote_command::run_there;
pub use upload::{UploadedCopy, remove_copies};
