//! What `docs/security.md`, `docs/faults.md` and `docs/findings.md` name exists: each file of the code, and each test.

use std::collections::HashSet;

use super::tree::{self, SourceFile};
use super::{assert_none, assert_one};

/// Documents whose tables name files and tests.
const DOCUMENTS: &[&str] = &["docs/security.md", "docs/faults.md", "docs/findings.md"];

/// Shortest name of a test: shorter words after `::` are functions and types.
const TEST_NAME_MIN: usize = 20;

/// Names of tests: what stands after `::` and is a sentence.
fn tests(document: &str) -> Vec<&str> {
    let names = document.split("::").skip(1).map(|rest| {
        let end = rest.find(|c: char| !(c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_'));
        &rest[..end.unwrap_or(rest.len())]
    });
    names.filter(|name| name.len() >= TEST_NAME_MIN).collect()
}

/// Files of the code that are named, also by the end of their path.
fn files(document: &str) -> Vec<&str> {
    let is_path = |c: char| c.is_ascii_alphanumeric() || "_-./".contains(c);
    let words = document.split(|c: char| !is_path(c));
    words.filter(|word| word.ends_with(".rs") && word.len() > ".rs".len()).collect()
}

fn missing(document: &SourceFile, sources: &[SourceFile]) -> Vec<String> {
    let functions = sources.iter().flat_map(|file| file.text.split("fn ").skip(1));
    let functions: HashSet<&str> = functions.filter_map(|text| Some(text.split_once('(')?.0)).collect();
    let has_test = |name: &str| functions.contains(name);
    let has_file = |path: &str| {
        let tail = path.strip_prefix("it/").map_or(path.to_string(), |rest| format!("tests/it/{rest}"));
        sources.iter().any(|file| file.path.ends_with(&format!("/{tail}")))
    };
    let tests = tests(&document.text).into_iter().filter(|name| !has_test(name));
    let tests = tests.map(|name| format!("{}: there is no test `{name}`", document.path));
    let files = files(&document.text).into_iter().filter(|path| !has_file(path));
    tests.chain(files.map(|path| format!("{}: there is no file `{path}`", document.path))).collect()
}

#[test]
fn files_and_tests_that_promises_name_exist() {
    let sources = tree::rust();
    let problems = DOCUMENTS.iter().flat_map(|path| missing(&tree::file(path), &sources));
    assert_none(&problems.collect::<Vec<String>>());
}

#[test]
fn a_promise_without_its_test_is_found() {
    let sources = [SourceFile::new("crates/x/tests/it/a.rs", "fn a_table_of_a_user_is_left_alone() {}")];
    let document = |text: &str| SourceFile::new("docs/security.md", text);
    assert_none(&missing(&document("| `it/a.rs::a_table_of_a_user_is_left_alone` |"), &sources));
    assert_one(&missing(&document("| `it/a.rs::a_table_of_a_user_is_dropped` |"), &sources), "no test");
    assert_one(&missing(&document("| `x/src/b.rs` |"), &sources), "no file `x/src/b.rs`");
}
