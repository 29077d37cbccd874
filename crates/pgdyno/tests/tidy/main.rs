//! Keeps the repository tidy: floors of crates, purity, sizes, links, and documents in step with the code.
//!
//! Each check takes text and returns what is wrong with it, so that every one is also tried on bad text.
//! After a change of the catalogue, the metrics or the command line, `PGDYNO_BLESS=1 cargo test -p pgdyno --test tidy`
//! regenerates the generated parts of the documents.

#![allow(clippy::unwrap_used, reason = "a test may fail anywhere")]

mod assets;
mod book;
mod documents;
mod english;
mod experiments;
mod floors;
mod folders;
mod generated;
mod glossary;
mod keys;
mod licences;
mod packaging;
mod promises;
mod sources;
mod tree;

/// Fails with one line per problem.
fn assert_none(problems: &[String]) {
    assert!(problems.is_empty(), "{} problems:\n{}", problems.len(), problems.join("\n"));
}

/// Fails unless there is exactly one problem, which says this.
fn assert_one(problems: &[String], expected: &str) {
    assert!(problems.len() == 1 && problems[0].contains(expected), "expected `{expected}` in {problems:?}");
}
