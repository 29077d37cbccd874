//! Commands on the data of a workload: load them, verify them, try what a server promises about them.

mod acid;
pub(crate) mod check;
pub(crate) mod init;

pub(crate) use acid::sweep_ledgers;
