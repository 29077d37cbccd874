//! What is linked in may be passed on: licences of libraries are among those of decision 014.

use std::process::Command;

use super::{assert_none, assert_one};

const ALLOWED: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "CDLA-Permissive-2.0",
    "ISC",
    "MIT",
    "PostgreSQL",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// Packages, as name and licence, whose licence asks for more than we may promise.
fn refused(packages: &[(String, String)]) -> Vec<String> {
    let refused = packages.iter().filter(|(_, licence)| !is_allowed(licence));
    refused.map(|(name, licence)| format!("`{name}` has licence `{licence}`; see decision 014")).collect()
}

/// Whether every part of an expression (`(MIT OR Apache-2.0) AND ISC`, or `MIT/Apache-2.0` as formerly written) can be
/// had under an allowed licence. An OR that holds an AND is judged more strictly than it needs to be.
fn is_allowed(expression: &str) -> bool {
    let flat = expression.replace(['(', ')'], "").replace('/', " OR ");
    flat.split(" AND ").all(|part| part.split(" OR ").any(|licence| ALLOWED.contains(&licence.trim())))
}

/// Every library that is built for this machine.
fn libraries() -> Vec<(String, String)> {
    let cargo = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO")).args(arguments).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let about = cargo(&["--version", "--verbose"]);
    let host = about.lines().find_map(|line| line.strip_prefix("host: ")).unwrap();
    let options = ["metadata", "--format-version=1", "--locked", "--offline", "--filter-platform", host];
    let metadata: serde_json::Value = serde_json::from_str(&cargo(&options)).unwrap();
    let packages = metadata["packages"].as_array().unwrap().iter();
    let text = |value: &serde_json::Value| value.as_str().unwrap_or("none").to_string();
    let others = packages.filter(|package| package["source"].is_string());
    others.map(|package| (text(&package["name"]), text(&package["license"]))).collect()
}

#[test]
fn libraries_have_licences_that_allow_passing_them_on() {
    let libraries = libraries();
    assert!(libraries.len() > 100, "only {} libraries found", libraries.len());
    assert_none(&refused(&libraries));
}

#[test]
fn a_licence_that_asks_for_more_is_found() {
    let library = |licence: &str| [("x".to_string(), licence.to_string())];
    for licence in ["MIT", "MIT/Apache-2.0", "(MIT OR GPL-3.0) AND Zlib", "GPL-2.0 OR ISC"] {
        assert_none(&refused(&library(licence)));
    }
    for licence in ["GPL-3.0", "MIT AND GPL-3.0", "none", "Unlicensed", "MPL-2.0"] {
        assert_one(&refused(&library(licence)), licence);
    }
}
