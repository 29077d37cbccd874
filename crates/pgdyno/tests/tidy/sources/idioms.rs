//! Plain forms of expressions: an `if` is written as an `if`, and a constructor is called `new` or `from_` something.

use regex_lite::Regex;

use crate::tree::{self, SourceFile};
use crate::{assert_none, assert_one};

/// How often production code still drops a value by `filter(|_| …)`. The number may only become smaller.
const DROPPED_BY_FILTER: usize = 69;

/// Each `match` over a bool: an `if` says it with fewer words.
fn matches_a_bool(file: &SourceFile) -> Vec<String> {
    let pairs = [
        r"\{\s*true => [^\n]*\n?\s*(false|_) =>",
        r"\{\s*false => [^\n]*\n?\s*(true|_) =>",
        r"\{\s*(true|false) => \{\n",
    ];
    // What each pattern contains: matching is slow.
    if !["true =>", "false =>"].iter().any(|arm| file.text.contains(arm)) {
        return Vec::new();
    }
    let found = |pattern: &&str| {
        let pattern = Regex::new(pattern).expect("it is valid");
        let n = pattern.find_iter(&file.text).count();
        (n > 0).then(|| format!("{}: {n} times `match` over a bool; write an `if`", file.path))
    };
    pairs.iter().filter_map(found).collect()
}

/// Constructors called `of`. A method of that name asks something of its `self`.
fn constructs_by_of(file: &SourceFile) -> Vec<String> {
    if file.is_test || !file.text.contains("fn of") {
        return Vec::new();
    }
    let of = Regex::new(r"\bfn of(<[^>]*>)?\(\s*([^,)]*)").expect("it is valid");
    let is_query = |first: &str| ["self", "&self", "&mut self", "mut self"].contains(&first.trim());
    let found = of.captures_iter(file.production_text()).filter(|found| !is_query(&found[2]));
    found.map(|_| format!("{}: `fn of`; a constructor is `new` or `from_` something", file.path)).collect()
}

fn dropped_by_filter(file: &SourceFile) -> usize {
    if file.is_test { 0 } else { file.production_text().matches(".filter(|_| ").count() }
}

/// Parameters that are tuples: several in one, past the lint that counts them.
fn tuple_parameters(file: &SourceFile) -> Vec<String> {
    let text = file.production_text();
    if file.is_test || !(text.contains("): (") || text.contains("): &(")) {
        return Vec::new();
    }
    let tuple = Regex::new(r"[(,]\s*(\((\w+, )+\w+\)): &?\(").expect("it is valid");
    let found = tuple.captures_iter(text);
    found
        .map(|found| format!("{}: `{}` is a parameter; name a struct, or take each", file.path, &found[1]))
        .collect()
}

#[test]
fn nothing_matches_a_bool() {
    assert_none(&tree::rust().iter().flat_map(matches_a_bool).collect::<Vec<String>>());
}

#[test]
fn constructors_are_called_new_or_from() {
    assert_none(&tree::rust().iter().flat_map(constructs_by_of).collect::<Vec<String>>());
}

#[test]
fn values_are_dropped_by_an_if() {
    let n: usize = tree::rust().iter().map(dropped_by_filter).sum();
    assert!(n == DROPPED_BY_FILTER, "`.filter(|_| …)` {n} times; the list says {DROPPED_BY_FILTER}");
}

#[test]
fn parameters_are_no_tuples() {
    assert_none(&tree::rust().iter().flat_map(tuple_parameters).collect::<Vec<String>>());
}

#[test]
fn other_forms_are_found() {
    let file = |text: &str| SourceFile::new("crates/wire/src/a.rs", text);
    assert_one(&matches_a_bool(&file("match a {\n    true => 1,\n    false => 2,\n}")), "write an `if`");
    assert_one(&matches_a_bool(&file("match a {\n    false => 1,\n    _ => 2,\n}")), "write an `if`");
    assert_one(
        &matches_a_bool(&file("match a {\n    true => {\n 1\n }\n    false => 2,\n}")),
        "write an `if`",
    );
    assert_none(&matches_a_bool(&file("match a {\n    true if b => 1,\n    true => 2,\n    false => 3,\n}")));
    assert_one(&constructs_by_of(&file("pub fn of(text: &str) -> Self {}")), "`fn of`");
    assert_one(&constructs_by_of(&file("fn of<'a>(text: &'a str) -> A<'a> {}")), "`fn of`");
    assert_none(&constructs_by_of(&file("fn of(&self) {}\nfn of<T>(self, a: T) {}\nfn offer(a: u8) {}")));
    assert_none(&constructs_by_of(&file("#[cfg(test)]\nmod tests {\n fn of(a: u8) {}\n}")));
    let tuples = "fn a(\n    (b, c): (u8, u8),\n    d: (u8, u8),\n    (e, f): &(u8, u8),\n) {\n    let (g, h): (u8, u8) = d;\n}";
    assert_eq!(tuple_parameters(&file(tuples)).len(), 2);
    assert_eq!(dropped_by_filter(&file("a.filter(|_| b)?; c.filter(|x| x)")), 1);
}
