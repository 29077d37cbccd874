//! Explains runs: a pure function of their records. Reads no file and no clock.
//!
//! [`study`] does it all: run directories as read by `store` go in, summaries and findings come out, and `report` draws
//! them. `run`, `case` and `comparison` compute figures; `findings` says whether to trust them, in one small file per
//! group of rules.

pub mod budget;
pub mod case;
pub mod comparison;
pub mod cost;
pub mod doctor;
pub mod explain;
pub mod fidelity;
pub mod finding;
pub mod findings;
pub mod history;
pub mod plan;
pub mod profile;
pub mod run;
pub mod summary;
pub mod what_if;

pub use explain::study::study;
