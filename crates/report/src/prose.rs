//! Text that all forms of the report share, as sentences and rows.

pub(crate) mod answer;
pub(crate) mod capacity;
pub(crate) mod condense;
pub(crate) mod conditions;
pub(crate) mod counters;
pub(crate) mod factors;
pub(crate) mod format;
pub(crate) mod headline;
pub(crate) mod limiter;
pub(crate) mod phrases;
pub(crate) mod ratio;
pub(crate) mod scalability;
pub(crate) mod scripts;
pub(crate) mod statements;
pub(crate) mod variation;
