//! One word, one meaning: a type that is called as METHODOLOGY's glossary calls a thing is that thing.

use std::collections::{BTreeMap, BTreeSet};

use super::tree::{self, SourceFile};
use super::{assert_none, assert_one};

/// Words of the glossary whose type has the word among others, or none in `model`: where they are, and why they are the
/// glossary's.
const ELSEWHERE: &[(&str, &str)] = &[
    ("Client", "crates/driver/src/client.rs"),
    ("Cluster", "crates/server/src/cluster.rs"),
    ("Finding", "crates/analysis/src/finding.rs"),
    ("Grade", "crates/analysis/src/finding.rs"),
    ("ServiceTime", "crates/null/src/delay.rs"),
    ("Spread", "crates/analysis/src/summary/variation.rs"),
    ("Statement", "crates/workload/src/script/statement.rs"),
    ("Study", "crates/analysis/src/summary/study.rs"),
    ("Target", "crates/server/src/database/target.rs"),
    ("Terminal", "crates/workload/src/tpcc/terminal.rs"),
    ("Uncertainty", "crates/analysis/src/summary/uncertainty.rs"),
    ("Transaction", "crates/workload/src/tpcc/transaction.rs"),
];

/// The glossary's words as names of types: `ramp-up` is `RampUp`.
fn nouns(methodology: &str) -> BTreeSet<String> {
    let glossary = methodology.split("\n## Glossary\n").nth(1).unwrap_or_default();
    let rows = glossary.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
    let words = rows.filter(|word| *word != "word").flat_map(|words| words.split(", "));
    words.map(type_name).collect()
}

fn type_name(words: &str) -> String {
    let capital = |word: &str| {
        let (first, rest) = word.split_at(1);
        first.to_uppercase() + &rest.to_lowercase()
    };
    words.split([' ', '-']).filter(|word| !word.is_empty()).map(capital).collect()
}

/// Where each type of the production code is defined.
fn types(sources: &[SourceFile]) -> BTreeMap<String, BTreeSet<&str>> {
    let mut found: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    let is_production = |file: &&SourceFile| {
        file.path.contains("/src/") && !file.is_test && !file.path.starts_with("crates/testbed/")
    };
    for file in sources.iter().filter(is_production) {
        for line in file.production_text().lines() {
            let line = line.trim_start().trim_start_matches("pub(crate) ").trim_start_matches("pub(super) ");
            let line = line.trim_start_matches("pub ");
            let name = ["struct ", "enum ", "trait "].iter().find_map(|kind| line.strip_prefix(kind));
            let name = name.map(|rest| rest.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default());
            if let Some(name) = name.filter(|name| !name.is_empty()) {
                found.entry(name.to_string()).or_default().insert(&file.path);
            }
        }
    }
    found
}

/// Types that are called by a word of the glossary and are something else.
fn second_meanings(methodology: &str, sources: &[SourceFile]) -> Vec<String> {
    let nouns = nouns(methodology);
    let types = types(sources);
    let named = types.iter().filter(|(name, _)| nouns.contains(*name));
    let problems = named.flat_map(|(name, paths)| {
        let home = ELSEWHERE.iter().find(|(word, _)| word == name).map(|(_, path)| *path);
        let is_it = move |path: &str| home.map_or(path.starts_with("crates/model/"), |home| path == home);
        paths.iter().filter(move |path| !is_it(path)).map(move |path| {
            format!("{path}: `{name}` is a word of the glossary and means something else here")
        })
    });
    problems.collect()
}

#[test]
fn types_mean_what_the_glossary_says() {
    let methodology = tree::file("METHODOLOGY.md");
    assert!(nouns(&methodology.text).len() > 30, "{:?}", nouns(&methodology.text));
    assert_none(&second_meanings(&methodology.text, &tree::rust()));
}

#[test]
fn every_word_that_is_placed_elsewhere_is_there() {
    let (methodology, sources) = (tree::file("METHODOLOGY.md"), tree::rust());
    let (nouns, types) = (nouns(&methodology.text), types(&sources));
    let is_stale = |(word, path): &&(&str, &str)| {
        !nouns.contains(*word) || !types.get(*word).is_some_and(|paths| paths.contains(path))
    };
    let stale = ELSEWHERE.iter().filter(is_stale).map(|(word, path)| format!("{word} is not in {path}"));
    assert_none(&stale.collect::<Vec<String>>());
}

#[test]
fn a_second_meaning_is_found() {
    let methodology =
        "# M\n\n## Glossary\n\n| word | meaning |\n|---|---|\n| ramp-up | load that does not count |\n";
    let file = |path: &str| SourceFile::new(path, "pub(crate) struct RampUp {\n}\n");
    assert_none(&second_meanings(methodology, &[file("crates/model/src/load.rs")]));
    assert_one(&second_meanings(methodology, &[file("crates/wire/src/a.rs")]), "`RampUp` is a word");
}
