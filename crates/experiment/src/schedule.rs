//! Every run of a plan in its order: what comes next, what is repeated, what goes on after a break.

pub mod agenda;
pub mod conduct;
pub mod duet;
pub mod resume;
