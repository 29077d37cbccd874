//! From records to summaries of runs, cases and experiments, with the findings of the rules.

pub(crate) mod case;
mod comparison;
pub mod disturbance;
mod duet;
pub(crate) mod encryption;
pub(crate) mod fetched;
mod gain;
pub(crate) mod run;
pub(crate) mod study;

pub use comparison::{compare, compare_repeat};
pub use duet::{PlayedDuet, compare_duet, compare_duet_repeat};
pub use fetched::{fetched_build, fetched_servers};
pub use gain::{RepeatJudge, RunVerdict};
pub use run::explain as explain_run;
pub use study::{partner_of, study, study_after, study_of};
