//! Conducts experiments: from a file to a plan, from a plan to runs, each through its phases, written as it goes.

pub mod builtin;
pub mod expand;
pub mod file;
