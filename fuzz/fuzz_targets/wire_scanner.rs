//! Any bytes from a server, for libFuzzer; see `fuzz/bodies/wire_scanner.rs`. The scanner's source is compiled in here.

#![no_main]
#![allow(dead_code, unreachable_pub)]

#[path = "../bodies/wire_scanner.rs"]
mod body;
#[path = "../../crates/wire/src/protocol_error.rs"]
pub mod protocol_error;
#[path = "../../crates/wire/src/reply.rs"]
pub mod reply;
#[path = "../../crates/wire/src/scan.rs"]
pub mod scan;

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::run_one(data));
