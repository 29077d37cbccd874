//! Any text as a script, for libFuzzer; see `fuzz/bodies/script_parser.rs`.

#![no_main]

#[path = "../bodies/script_parser.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|source: &str| body::run_one(source));
