//! The target `wire_scanner` of `fuzz`, for some seconds.

#![allow(dead_code, missing_docs, unreachable_pub)]

#[path = "../../../fuzz/bodies/wire_scanner.rs"]
mod body;
#[path = "../../../fuzz/bodies/mutate.rs"]
mod mutate;
#[path = "../src/protocol_error.rs"]
pub mod protocol_error;
#[path = "../src/reply.rs"]
pub mod reply;
#[path = "../src/scan.rs"]
pub mod scan;

use std::path::Path;

#[test]
fn any_bytes_of_a_server_give_the_same_replies_in_pieces_as_whole() {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/wire_scanner");
    mutate::for_some_seconds(&seeds, body::run_one);
}
