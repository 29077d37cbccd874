//! The runs of a case in numbers: how they vary, and what the factors did.

pub mod capacity;
pub mod factors;
pub mod scalability;
pub mod variation;
