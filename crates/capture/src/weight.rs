//! Rates of templates that meet exact counts of statements.

pub mod scaling;
