//! Conducts experiments: from a file to a plan, from a plan to runs, each through its phases, written as it goes.

pub mod adopted;
pub mod builtin;
pub mod check;
pub mod conduct;
pub mod copies;
pub mod data;
pub mod dataset;
mod ending;
pub mod expand;
pub mod file;
pub mod hold;
pub mod load;
pub mod one_run;
pub mod os;
mod own_data;
pub mod progress;
mod room;
pub mod scripts;
pub mod session;
pub mod stage;
mod survey;
pub mod tpcc;
mod wal;
