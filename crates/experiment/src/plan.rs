//! From an experiment file to an ordered plan: read, expand, design, pair.

pub(crate) mod archive;
pub mod builtin;
pub(crate) mod design;
pub mod expand;
pub mod file;
pub mod inventory;
pub mod merge;
pub mod pairs;
pub mod part;
pub(crate) mod problems;
pub mod question;
#[cfg(test)]
pub(crate) mod sample;
pub mod scripts;
pub mod targets;
pub(crate) mod title;
pub(crate) mod windows;
