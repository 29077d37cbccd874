//! Templates of transactions: those with the same statements in the same order, but for how often loops go round.

pub mod fold;
pub mod hot;
pub mod reservoir;
pub mod scaling;
pub mod sketch;
pub mod store;
