//! Tells the driver how it is compiled: the name of cargo's profile, and the optimization level of this crate. Nothing of it changes
//! the code.

use std::env;
use std::path::Path;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let of = |name: &str| env::var(name).unwrap_or_default();
    println!("cargo::rustc-env=PGDYNO_BUILD_PROFILE={}", profile(Path::new(&of("OUT_DIR")), &of("PROFILE")));
    println!("cargo::rustc-env=PGDYNO_OPT_LEVEL={}", of("OPT_LEVEL"));
}

/// The profile's name. `PROFILE` is only `debug` or `release`, the one that a profile inherits from; its own name is a directory of
/// `OUT_DIR`: `target/dist/build/driver-0123/out`. Cargo calls the directory of `dev` `debug`.
fn profile(out: &Path, inherited: &str) -> String {
    let directory = out.ancestors().nth(3).and_then(Path::file_name).and_then(|name| name.to_str());
    match directory.unwrap_or(inherited) {
        "debug" => "dev".to_string(),
        name => name.to_string(),
    }
}
