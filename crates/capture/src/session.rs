//! Sessions of the source, and when its transactions began.

pub mod arrivals;
pub mod classes;
pub mod settings;
