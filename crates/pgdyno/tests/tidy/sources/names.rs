//! One name, one type: a name that two crates or two modules give to different things has to be looked up each time.

use std::collections::BTreeMap;

use regex_lite::Regex;

use crate::tree::{self, SourceFile};
use crate::{assert_none, assert_one};

/// Names that several types share, and how many do. The list may only shrink.
const SHARED: &[(&str, usize)] = &[];

/// Names of the types that other modules see, with the file that defines each.
fn types<'a>(files: &[&'a SourceFile]) -> BTreeMap<String, Vec<&'a str>> {
    let definition =
        Regex::new(r"^ *pub(\(crate\))? (struct|enum|type|trait|union) ([A-Za-z0-9]+)").expect("it is valid");
    let mut found: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for file in files {
        // Matching is slow.
        let lines = file.production_text().lines().filter(|line| line.trim_start().starts_with("pub"));
        for name in lines.filter_map(|line| definition.captures(line)) {
            found.entry(name[3].to_string()).or_default().push(&file.path);
        }
    }
    found
}

fn shared_names(files: &[&SourceFile], allowed: &[(&str, usize)]) -> Vec<String> {
    let types = types(files);
    let mut problems = Vec::new();
    for (name, paths) in &types {
        let n_allowed = allowed.iter().find(|(shared, _)| shared == name).map_or(1, |(_, n)| *n);
        if paths.len() > n_allowed {
            problems.push(format!(
                "`{name}` names {} types ({}); say what each one is",
                paths.len(),
                paths.join(", ")
            ));
        }
    }
    for (name, n) in allowed {
        let n_found = types.get(*name).map_or(0, Vec::len);
        if n_found < *n {
            problems.push(format!("`{name}` names {n_found} types; the list says {n}"));
        }
    }
    problems
}

#[test]
fn no_two_types_have_one_name() {
    let files = tree::rust();
    let production: Vec<&SourceFile> = files.iter().filter(|file| !file.is_test).collect();
    assert!(types(&production).len() > 1000);
    assert_none(&shared_names(&production, SHARED));
}

#[test]
fn two_types_of_one_name_are_found() {
    let file = |path: &str, text: &str| SourceFile::new(path, text);
    let files = [
        file("crates/wire/src/a.rs", "pub struct Found {\n}\nstruct Row;\npub(super) struct Row2;"),
        file(
            "crates/model/src/b.rs",
            "    pub(crate) enum Found {}\npub type Row = u8;\nimpl A { type Row = u8; }",
        ),
    ];
    let files: Vec<&SourceFile> = files.iter().collect();
    assert_one(
        &shared_names(&files, &[]),
        "`Found` names 2 types (crates/wire/src/a.rs, crates/model/src/b.rs)",
    );
    assert_none(&shared_names(&files, &[("Found", 2)]));
    assert_one(&shared_names(&files[..1], &[("Found", 2)]), "names 1 types; the list says 2");
}
