//! Tests of the crate, most of them tables of pgbench's own output.

mod directories;
mod emulators;
mod expressions;
mod folding;
mod numbers;
mod scripts;
mod tpcb;

use std::collections::BTreeMap;

use crate::{Bundle, Emulator, Prng, Seeds};

/// Variables as `-D name=value` would set them.
fn defines(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// A bundle of one script named `t.sql`, compiled without variables of the user.
fn bundle(source: &str) -> Bundle {
    bundle_with(source, &BTreeMap::new())
}

/// A bundle of one script named `t.sql`, compiled with variables of the user.
fn bundle_with(source: &str, defines: &BTreeMap<String, String>) -> Bundle {
    Bundle::compile(&[("t.sql", source, 1)], defines).expect("the script compiles")
}

/// The emulator of client 0 of one, seeded with `seed`.
fn emulator(bundle: &Bundle, seed: u64, defines: &BTreeMap<String, String>) -> Emulator {
    let prng: Prng = Seeds::derive(seed, 1, 1).client[0].clone();
    Emulator::new(bundle, prng, 0, defines)
}

/// Undoes the escapes of a field of `tests/data/*.tsv`.
fn unescape(field: &str) -> String {
    let mut plain = String::new();
    let mut chars = field.chars();
    while let Some(c) = chars.next() {
        plain.push(match c {
            '\\' => match chars.next() {
                Some('n') => '\n',
                Some('r') => '\r',
                Some('t') => '\t',
                Some(other) => other,
                None => '\\',
            },
            _ => c,
        });
    }
    plain
}
