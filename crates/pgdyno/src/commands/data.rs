//! Commands on the data of a workload: load them, verify them, try what a server promises about them, and say what
//! a workload is.

mod acid;
pub(crate) mod capture;
pub(crate) mod check;
pub(crate) mod init;
mod site;
pub(crate) mod workload;

pub(crate) use acid::{kept_ledgers, sweep_ledgers};
