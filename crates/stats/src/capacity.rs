//! What a system can do: the scalability law, and the highest rate that holds a latency target.

pub mod probe;
pub mod threshold;
pub mod usl;
