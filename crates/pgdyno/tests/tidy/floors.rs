//! A crate uses only crates of lower floors, those that its row of the table in ARCHITECTURE.md lists; and a crate
//! whose row says that it has nothing to do with the outside world has not.

use std::collections::{BTreeMap, BTreeSet};

use super::tree::{self, SourceFile};
use super::{assert_none, assert_one};

/// Outside world of a pure crate, as the table words it.
const NONE: &str = "none";

/// What a pure crate must not name: files, sockets, processes, the environment, threads and clocks.
const OUTSIDE: &[&str] = &["std::fs", "std::net", "std::process", "std::env", "std::thread", "std::os"];
const CLOCKS: &[&str] = &["SystemTime", "Instant", "::now("];

/// One row of the table.
#[derive(Debug, PartialEq, Eq)]
struct Row {
    floor: u32,
    may_use: BTreeSet<String>,
    outside: String,
}

type Table = BTreeMap<String, Row>;

/// The table that begins with `| floor | crate |`.
fn table(architecture: &str) -> Table {
    let lines = architecture.lines().skip_while(|line| !line.starts_with("| floor | crate |"));
    let mut table = Table::new();
    for line in lines.skip(2).take_while(|line| line.starts_with('|')) {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [floor, name, _, may_use, outside] = cells[..] else { panic!("not five cells: {line}") };
        let row = Row {
            floor: floor.parse().unwrap_or_else(|_| panic!("no floor: {line}")),
            may_use: may_use.split_whitespace().filter(|used| *used != "-").map(str::to_string).collect(),
            outside: outside.to_string(),
        };
        assert!(table.insert(name.trim_matches('`').to_string(), row).is_none(), "twice: {line}");
    }
    table
}

/// Which of our crates each crate uses outside its tests, by crate name.
fn edges(manifests: &[SourceFile]) -> BTreeMap<String, BTreeSet<String>> {
    let parsed = manifests.iter().map(|file| (file, file.text.parse::<toml::Table>().unwrap()));
    let all: BTreeMap<String, BTreeSet<String>> = parsed
        .map(|(file, manifest)| {
            let name = file.path.split('/').nth(1).unwrap().to_string();
            let section = |key: &str| manifest.get(key).and_then(|found| found.as_table()).cloned();
            let sections = ["dependencies", "build-dependencies"].map(section);
            (
                name,
                sections
                    .into_iter()
                    .flatten()
                    .flat_map(|section| section.into_iter().map(|(used, _)| used))
                    .collect(),
            )
        })
        .collect();
    let ours: BTreeSet<String> = all.keys().cloned().collect();
    all.into_iter().map(|(name, used)| (name, used.intersection(&ours).cloned().collect())).collect()
}

/// Crates that only tests use.
const FOR_TESTS: &[&str] = &["testbed"];

/// Lower floors only, so that the graph has no cycle, and only what the table lists.
fn problems(table: &Table, edges: &BTreeMap<String, BTreeSet<String>>) -> Vec<String> {
    let mut problems = Vec::new();
    for name in table.keys().filter(|name| !edges.contains_key(*name)) {
        problems.push(format!("the table has `{name}`, which is no crate"));
    }
    for (name, used) in edges {
        let Some(row) = table.get(name) else {
            problems.push(format!("crate `{name}` is not in the table"));
            continue;
        };
        let uses_all = row.may_use.contains("all");
        for lower in used {
            if FOR_TESTS.contains(&lower.as_str()) {
                problems.push(format!("`{name}` uses `{lower}` outside its tests"));
            }
            if !uses_all && !row.may_use.contains(lower) {
                problems.push(format!("`{name}` uses `{lower}`, which its row does not list"));
            }
            if table.get(lower).is_some_and(|other| other.floor >= row.floor) {
                problems.push(format!("`{name}` uses `{lower}`, which is on no lower floor"));
            }
        }
        for listed in row.may_use.iter().filter(|listed| *listed != "all" && !used.contains(*listed)) {
            problems.push(format!("the table lets `{name}` use `{listed}`, which it does not"));
        }
    }
    problems
}

/// What a pure crate's file names of the outside world.
fn impure(file: &SourceFile) -> Vec<String> {
    let text = expand_groups(file.production_text());
    let names = |needle: &&&str| {
        text.match_indices(**needle).any(|(at, found)| {
            let next = text[at + found.len()..].chars().next();
            found.ends_with('(') || !next.is_some_and(|next| next.is_alphanumeric() || next == '_')
        })
    };
    let found = OUTSIDE.iter().chain(CLOCKS).filter(names);
    found.map(|needle| format!("{}: a pure crate names `{needle}`", file.path)).collect()
}

/// `use std::{fs, io}` as `std::fs std::io`, appended.
fn expand_groups(text: &str) -> String {
    let mut expanded = text.to_string();
    for (at, group) in text.match_indices("std::{") {
        let inside = text[at + group.len()..].split('}').next().unwrap_or_default();
        for item in inside.split(',') {
            expanded.push_str(&format!(" std::{} ", item.trim()));
        }
    }
    expanded
}

fn manifests() -> Vec<SourceFile> {
    let of_crate = |path: &str| path.starts_with("crates/") && path.ends_with("/Cargo.toml");
    tree::all().into_iter().filter(|file| of_crate(&file.path)).collect()
}

#[test]
fn crates_use_what_the_table_of_floors_lists() {
    assert_none(&problems(&table(&tree::file("ARCHITECTURE.md").text), &edges(&manifests())));
}

#[test]
fn every_dependency_is_of_the_workspace() {
    let mut problems = Vec::new();
    for file in manifests() {
        let manifest: toml::Table = file.text.parse().unwrap();
        for key in ["dependencies", "dev-dependencies", "build-dependencies"] {
            for (name, spec) in manifest.get(key).and_then(|section| section.as_table()).into_iter().flatten()
            {
                if spec.get("workspace").and_then(|value| value.as_bool()) != Some(true) {
                    problems.push(format!("{}: `{name}` is not taken from the workspace", file.path));
                }
            }
        }
    }
    assert_none(&problems);
}

#[test]
fn pure_crates_know_no_outside_world() {
    let table = table(&tree::file("ARCHITECTURE.md").text);
    let pure: Vec<&String> =
        table.iter().filter(|(_, row)| row.outside == NONE).map(|(name, _)| name).collect();
    assert_eq!(pure, ["analysis", "capture", "generator", "model", "report", "stats", "workload"]);
    let is_pure =
        |file: &SourceFile| pure.iter().any(|name| file.path.starts_with(&format!("crates/{name}/src/")));
    let files = tree::rust().into_iter().filter(|file| is_pure(file) && !file.is_test);
    assert_none(&files.flat_map(|file| impure(&file)).collect::<Vec<String>>());
}

#[test]
fn a_table_is_read_and_wrong_edges_are_found() {
    let text = "x\n| floor | crate | one duty | may use | outside world |\n|---|---|---|---|---|\n\
                | 0 | `low` | a | - | none |\n| 1 | `mid` | b | low | files |\n| 2 | `top` | c | all | terminal |\n\nend";
    let table = table(text);
    assert_eq!(table.len(), 3);
    assert_eq!((table["mid"].floor, table["mid"].outside.as_str()), (1, "files"));
    let with = |edges: &[(&str, &[&str])]| {
        let set = |used: &[&str]| used.iter().map(|name| name.to_string()).collect();
        problems(&table, &edges.iter().map(|(name, used)| (name.to_string(), set(used))).collect())
    };
    assert_none(&with(&[("low", &[]), ("mid", &["low"]), ("top", &["low", "mid"])]));
    assert_one(&with(&[("low", &[]), ("mid", &[]), ("top", &[])]), "lets `mid` use `low`");
    assert_one(&with(&[("mid", &["low"]), ("top", &[])]), "has `low`, which is no crate");
    assert_one(
        &with(&[("low", &[]), ("mid", &["low"]), ("top", &[]), ("new", &[])]),
        "`new` is not in the table",
    );
    let upward = with(&[("low", &["mid"]), ("mid", &["low"]), ("top", &[])]);
    assert_eq!(upward.len(), 2, "{upward:?}");
    assert!(upward[1].contains("on no lower floor"), "{upward:?}");
}

#[test]
fn dependencies_of_tests_are_not_in_the_program() {
    let text = "| floor | crate | one duty | may use | outside world |\n|---|---|---|---|---|\n\
                | 0 | `testbed` | a | - | files |\n| 1 | `top` | b | all | files |\n";
    let edges = |used: &[&str]| {
        let used = used.iter().map(|name| name.to_string()).collect();
        BTreeMap::from([("testbed".to_string(), BTreeSet::new()), ("top".to_string(), used)])
    };
    assert_none(&problems(&table(text), &edges(&[])));
    assert_one(&problems(&table(text), &edges(&["testbed"])), "`top` uses `testbed` outside its tests");
}

#[test]
fn edges_are_read_from_manifests_and_tests_may_use_more() {
    let manifest = |name: &str, text: &str| SourceFile::new(&format!("crates/{name}/Cargo.toml"), text);
    let found = edges(&[
        manifest("a", "[dependencies]\nserde.workspace = true\n"),
        manifest("b", "[dependencies]\na.workspace = true\nserde.workspace = true\n"),
        manifest("c", "[dev-dependencies]\na.workspace = true\n"),
    ]);
    assert_eq!(found["b"].iter().collect::<Vec<_>>(), ["a"]);
    assert!(found["a"].is_empty() && found["c"].is_empty());
}

#[test]
fn the_outside_world_is_found_in_a_file() {
    let found = |text: &str| impure(&SourceFile::new("crates/stats/src/a.rs", text));
    assert_none(&found("use std::collections::BTreeMap;\nstruct InstantNoodles;\n// std::fsx\n"));
    assert_none(&found("fn a() {}\n#[cfg(test)]\nmod tests {\n    use std::fs;\n}\n"));
    assert_one(&found("use std::fs;\n"), "std::fs");
    assert_one(&found("use std::{collections, env};\n"), "std::env");
    assert_one(&found("let at = jiff::Timestamp::now();\n"), "::now(");
    assert_one(&found("fn a(at: Instant) {}\n"), "Instant");
}
