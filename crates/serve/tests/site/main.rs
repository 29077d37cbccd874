//! The server as browsers and other programs meet it: real requests, a real browser, and files that a run writes meanwhile.

// Clippy knows test functions, not the helpers of tests.
#![allow(clippy::unwrap_used)]

mod lists;
mod live;
mod place;
mod relay;
mod requests;
