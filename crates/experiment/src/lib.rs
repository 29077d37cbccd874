//! Conducts experiments: from a file to a plan, from a plan to runs, each through its phases, written as it goes.

pub mod acid;
pub mod adopted;
pub mod builtin;
pub mod check;
pub mod conduct;
pub mod copies;
pub mod data;
pub mod dataset;
mod design;
pub mod duet;
mod ending;
pub mod expand;
pub mod file;
pub mod fit;
pub mod hold;
pub mod kept;
pub mod load;
pub mod obstacles;
pub mod one_run;
pub mod os;
pub mod outlook;
mod own_data;
pub mod pairs;
pub mod progress;
pub mod resume;
mod room;
#[cfg(test)]
mod sample;
pub mod scripts;
mod search;
pub mod session;
pub mod stage;
mod survey;
mod targets;
pub mod tpcc;
mod wal;
