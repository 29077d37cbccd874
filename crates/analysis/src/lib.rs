//! What a run means: a pure function of its records. Reads no file, no clock.
//!
//! [`study`] is the whole of it: run directories as read by `store` go in, summaries and findings come
//! out, and `report` draws them. Numbers are computed in `run`, `seconds`, `resources` and `series`;
//! whether they can be trusted is said in `findings`, one small file for each group of rules.

pub mod case;
pub mod comparison;
pub mod explain;
pub mod finding;
pub mod findings;
pub mod history;
pub mod run;
pub mod summary;

pub use explain::study::study;
pub use run::histogram::HistogramSum;
