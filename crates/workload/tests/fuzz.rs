//! The target `script_parser` of `fuzz`, for some seconds.

#![allow(unreachable_pub)]

#[path = "../../../fuzz/bodies/script_parser.rs"]
mod body;
#[path = "../../../fuzz/bodies/mutate.rs"]
mod mutate;

use std::path::Path;

#[test]
fn any_text_is_a_script_or_an_error_that_points_into_it() {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/script_parser");
    mutate::for_some_seconds(&seeds, |bytes| body::run_one(&String::from_utf8_lossy(bytes)));
}
