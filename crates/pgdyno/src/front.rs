//! From the command line to an experiment: options, secrets, confirmation.

pub(crate) mod announce;
pub(crate) mod ask;
#[cfg(test)]
mod ci_jobs;
pub(crate) mod cli;
#[cfg(test)]
pub(crate) mod documents;
pub(crate) mod foreign;
pub(crate) mod hiding;
pub(crate) mod moved;
#[cfg(test)]
pub(crate) mod reference;
pub(crate) mod schema;
pub(crate) mod secrets;
pub(crate) mod setup;
pub(crate) mod shell;
pub(crate) mod template;
pub(crate) mod usage;
