//! The machine and the processes on it: what they are, and their counters in each tick.

pub(crate) mod device;
pub(crate) mod disk;
pub mod facts;
pub(crate) mod machine;
pub(crate) mod process;
pub(crate) mod stack;
pub(crate) mod watch;
