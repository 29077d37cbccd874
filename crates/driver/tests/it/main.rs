//! The driver against a real server, by its own front door: an order on a pipe, lines on another.

// Clippy knows test functions, not the helpers of tests.
#![allow(clippy::unwrap_used)]

mod directories;
mod ends;
mod errors;
mod order;
mod parts;
mod scripts;
