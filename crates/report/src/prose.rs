//! What every form of the report says, in words and rows of text.

pub(crate) mod capacity;
pub(crate) mod condense;
pub(crate) mod factors;
pub(crate) mod format;
pub(crate) mod headline;
pub(crate) mod phrases;
pub(crate) mod scalability;
pub(crate) mod scripts;
pub(crate) mod variation;
