//! Conducts experiments: from a file to a plan, from a plan to runs, each through its phases, written as it goes.

pub mod forecast;
pub mod plan;
pub mod run;
pub mod schedule;
pub mod site;
pub mod stage;
