//! Commands that read stored results.

mod earlier;
pub(crate) mod explained;
pub(crate) mod export;
pub(crate) mod history;
pub(crate) mod list;
pub(crate) mod merge;
#[cfg(test)]
mod mutations;
pub(crate) mod pack;
pub(crate) mod repeat;
pub(crate) mod shelf;
