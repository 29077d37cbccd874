//! Figures over the runs of a case: how they vary, and the effects of the factors.

pub mod answer;
pub mod capacity;
pub mod factors;
pub mod labels;
pub mod money;
pub mod offered;
pub mod scalability;
pub mod variation;
