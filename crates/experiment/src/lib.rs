//! Conducts experiments: from a file to a plan, from a plan to runs, each through its phases, recorded as it proceeds.

pub mod forecast;
pub mod plan;
pub mod run;
pub mod schedule;
pub mod site;
pub mod spot;
pub mod stage;
mod survey;
