//! From records to answers: numbers of runs, cases and experiments, and what the rules find in them.

pub(crate) mod case;
mod comparison;
pub mod disturbance;
mod duet;
pub(crate) mod run;
pub(crate) mod study;

pub use comparison::compare;
pub use disturbance::judge;
pub use duet::compare_duet;
pub use study::study;
