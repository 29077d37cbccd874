//! The workload directory that is made of a log: its files as bytes, and what there is to say about it.

mod draws;
mod figures;
mod lines;
mod made;
mod manifest;
mod names;
mod notes;
mod readme;
mod rest;
mod script;
pub mod summary;
#[cfg(test)]
mod tests;
mod trace;

pub use made::{MadeDirectory, Making, make};
