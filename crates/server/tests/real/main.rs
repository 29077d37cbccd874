//! Real servers: fetched (18, over the network) and installed (15). They fail, not skip, when there is no network.

// Clippy knows test functions, not the helpers of tests.
#![allow(clippy::unwrap_used)]
#![allow(clippy::print_stderr, reason = "a test that is skipped says why")]

mod alter_system;
mod copies;
mod faults;
mod life;
mod listening;
mod loop_mount;
mod others;
mod protocol;
mod replaced;
mod rights;
mod support;
mod templates;
mod tending;
mod wal_images;

/// A line for those who run a test with `--nocapture`.
fn tell(line: &str) {
    std::io::Write::write_all(&mut std::io::stderr(), format!("{line}\n").as_bytes()).unwrap();
}
