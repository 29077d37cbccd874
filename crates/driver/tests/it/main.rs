//! The driver against a real server, by its own front door: an order on a pipe, lines on another.

// Clippy knows test functions, not the helpers of tests.
#![allow(clippy::unwrap_used)]

mod ends;
mod errors;
mod order;
#[allow(dead_code, reason = "shared with the tests of the program, which use more of it")]
#[path = "../../../pgdyno/tests/it/pg.rs"]
mod pg;
mod scripts;
