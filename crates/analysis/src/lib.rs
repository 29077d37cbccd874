//! What a run means: a pure function of its records. Reads no file, no clock.
//!
//! [`study`] is the whole of it: run directories as read by `store` go in, summaries and findings come
//! out, and `report` draws them. Numbers are computed in `run`, `seconds`, `resources` and `series`;
//! whether they can be trusted is said in `findings`, one small file for each group of rules.

mod build;
pub mod capacity;
mod case;
pub mod comparison;
pub mod disturbance;
pub mod factors;
pub mod finding;
pub mod findings;
mod histogram;
pub mod history;
pub mod marks;
mod resources;
mod run;
pub mod scalability;
mod seconds;
mod series;
mod study;
pub mod summary;
mod timeline;
pub mod tpcc;
mod usage;
pub mod variation;

pub use histogram::HistogramSum;
pub use study::study;
