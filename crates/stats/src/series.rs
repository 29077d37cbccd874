//! A sample whose order matters: the seconds of a run, the runs of a history.

pub mod autocorrelated;
pub mod batches;
pub mod change_points;
pub mod trend;
pub mod warm_up;
