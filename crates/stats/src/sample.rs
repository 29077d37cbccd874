//! One sample: its level, its spread, and how sure its mean is.

pub mod bootstrap;
pub mod describe;
pub mod estimate;
pub mod power;
pub mod quantile;
pub mod repetitions;
pub mod variance;
