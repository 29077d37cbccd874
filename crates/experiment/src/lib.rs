//! Conducts experiments: from a file to a plan, from a plan to runs, each through its phases, written as it goes.

mod adapt;
pub mod adopted;
pub mod agenda;
pub mod builtin;
pub mod conduct;
pub mod copies;
mod design;
pub mod disk;
pub mod duet;
mod ending;
pub mod expand;
pub mod file;
pub mod fit;
mod follow;
pub mod intent;
pub mod kept;
mod lengths;
pub mod obstacles;
pub mod one_run;
pub mod os;
pub mod outlook;
mod own_data;
pub mod pairs;
pub mod phase_limit;
pub mod progress;
mod release;
pub mod resume;
mod room;
#[cfg(test)]
mod sample;
pub mod scripts;
mod search;
pub mod stage;
mod survey;
mod targets;
mod telemetry;
mod wal;
