//! Rules for every source file: size, header, printing, panics, and words that do not belong here.

mod idioms;
mod names;

use std::collections::HashSet;

use regex_lite::Regex;

use super::tree::{self, SourceFile};
use super::{assert_none, assert_one};

/// Longest source file.
const LINES_MAX: usize = 600;

/// Files that may be longer, with the reason. Tables of test data are not source files.
const LONGER: &[(&str, &str)] = &[];

const PRINTS: &[&str] = &["println!(", "eprintln!(", "print!(", "eprint!(", "process::exit("];

/// Homes of package registries, in halves so that this file does not hold them. A Cargo.lock has to.
const REGISTRIES: &[(&str, &str)] = &[
    ("crates", ".io"),
    ("registry.npm", "js.org"),
    ("repo1.maven", ".org"),
    ("repo.maven", ".apache.org"),
    ("pypi", ".org"),
    ("proxy.golang", ".org"),
    ("deb.debian", ".org"),
    ("docker", ".io"),
];

/// Files that may name a workload or its tables, with the reason; all others ask the row.
const NAME_WORKLOADS: &[(&str, &str)] = &[
    ("crates/model/src/experiment/case/workload/", "the rows"),
    ("crates/workload/src/catalogue.rs", "their SQL and code"),
    ("crates/workload/src/emulator/builtins.rs", "the transactions that are code"),
    ("crates/workload/src/tpcb.rs", "pgbench's three scripts, which are workloads too"),
    ("crates/dataset/src/loading/tpcb/", "the loader and the checks of these tables alone"),
    ("crates/dataset/src/tpcc/", "the checks of these tables alone"),
    ("crates/dataset/src/acid", "tests of TPC-C's ACID properties, on these tables alone"),
    ("crates/pgdyno/src/commands/data/acid.rs", "the same tests"),
];

/// Files that may compare a version with a number, with the reason; all others ask `model::release`. The list may only shrink.
const COMPARE_VERSIONS: &[(&str, &str)] = &[
    ("crates/model/src/release.rs", "the table"),
    ("crates/server/src/binaries.rs", "reads a version as programs write it"),
    ("crates/wire/src/dial.rs", "reads a version as the server writes it"),
    (
        "crates/wire/src/session/lock_watch.rs",
        "wire is on the floor of the table: since 9.6 there is `pg_blocking_pids`",
    ),
    ("crates/testbed/", "only for tests"),
];

fn too_long(file: &SourceFile) -> Option<String> {
    let n_lines = file.text.lines().count();
    let is_exempt = LONGER.iter().any(|(path, _)| *path == file.path);
    (n_lines > LINES_MAX && !is_exempt)
        .then(|| format!("{}: {n_lines} lines; split it at its nouns ({LINES_MAX} at most)", file.path))
}

fn headless(file: &SourceFile) -> Option<String> {
    let first = file.text.lines().next().unwrap_or_default();
    (!first.starts_with("//! ")).then(|| format!("{}: does not begin with what it is for (`//!`)", file.path))
}

/// What only the command line may do: print for people and decide exit codes. A build script talks to cargo, on its standard output.
fn prints(file: &SourceFile) -> Vec<String> {
    let is_build_script = file.path.ends_with("/build.rs") && !file.path.contains("/src/");
    if file.is_test || is_build_script || file.path.starts_with("crates/pgdyno/") {
        return Vec::new();
    }
    let text = file.production_text();
    let is_call = |needle: &&&str| {
        text.match_indices(**needle).any(|(at, _)| {
            let before = text[..at].chars().next_back();
            !before.is_some_and(|before| before.is_alphanumeric() || before == '_')
        })
    };
    let found = PRINTS.iter().filter(is_call);
    found.map(|needle| format!("{}: `{needle}` belongs into crate pgdyno", file.path)).collect()
}

fn unwraps(file: &SourceFile) -> Option<String> {
    let is_for_tests = file.is_test || file.path.starts_with("crates/testbed/");
    let has = !is_for_tests && file.production_text().contains(".unwrap()");
    has.then(|| format!("{}: `unwrap` outside tests; say why it cannot fail with `expect`", file.path))
}

/// Calls that panic for some numbers, where the numbers may come from a file: `clamp` where bounds that are no constants may cross, and a
/// width in a format string, beyond 65,535.
fn panics_for_some_numbers(file: &SourceFile) -> Vec<String> {
    if file.is_test {
        return Vec::new();
    }
    let text = file.production_text();
    let constant =
        Regex::new(r"^[-*]*([0-9A-Z_. *<+]|[a-z_0-9]+::|\.[01]|\.into\(\)| as [a-z0-9]+)+$").unwrap();
    let is_computed = |(at, call): &(usize, &str)| {
        let bounds = arguments(&text[at + call.len()..]);
        !bounds.split(',').all(|bound| bound.trim().is_empty() || constant.is_match(bound.trim()))
    };
    let clamps = text.match_indices(".clamp(").filter(is_computed).map(|(at, _)| {
        let call = text[at..].lines().next().unwrap_or_default();
        format!("`{call}`: computed bounds may cross; write `.min(most).max(least)`")
    });
    let width = Regex::new(r"\{[a-z_0-9]*:[<>^]?[a-z_]+\$[^}]*\}").unwrap();
    let widths = width.find_iter(text).map(|found| format!("`{}`: use model::text::columns", found.as_str()));
    clamps.chain(widths).map(|what| format!("{}: {what}", file.path)).collect()
}

/// What stands before the parenthesis that ends a call.
fn arguments(after: &str) -> &str {
    let mut n_open = 1;
    let end = after.find(|c| {
        n_open += i32::from(c == '(') - i32::from(c == ')');
        n_open == 0
    });
    &after[..end.unwrap_or(after.len())]
}

/// Paths of one machine, and hosts that only a package manager needs to know.
/// Names of workloads where the row is to be asked.
fn names_a_workload(file: &SourceFile) -> Vec<String> {
    let may = NAME_WORKLOADS.iter().any(|(path, _)| file.path.starts_with(path));
    if file.is_test || may {
        return Vec::new();
    }
    let text = file.production_text();
    if !["WorkloadKind::", "Dataset::", "Profiles::"].iter().any(|kind| text.contains(kind)) {
        return Vec::new();
    }
    let name =
        Regex::new(r"\b(WorkloadKind|Dataset|Profiles)::(Scripts|Tp[a-z]+[A-Za-z]*)\b").expect("it is valid");
    let found = name.find_iter(text);
    found
        .map(|found| format!("{}: `{}`; ask the workload's row instead", file.path, found.as_str()))
        .collect()
}

/// Comparisons of a version with a number or a constant, where the table of releases is to be asked.
fn compares_versions(file: &SourceFile) -> Vec<String> {
    let may = COMPARE_VERSIONS.iter().any(|(path, _)| file.path.starts_with(path));
    if file.is_test || may {
        return Vec::new();
    }
    let version = r"[a-z_.]*(version_num|server_num)(\(\))?";
    let patterns = [
        format!(r"\b{version} *(<|>|==|!=)=? *([\d_]+|[a-z_:]*[A-Z][A-Z_]+)\b"),
        format!(r"\b\d+_\d{{3}} *[<>]=? *{version}\b"),
        format!(r"\d\)\.contains\(&?{version}\)"),
        r"\b(version|major)(\(\))? *[<>]=? *\d{2}[\d_]*\b".to_string(),
    ];
    let text = file.production_text();
    // What each pattern contains: matching is slow.
    if !["version", "server_num", "major"].iter().any(|word| text.contains(word)) {
        return Vec::new();
    }
    let found = |pattern: &String| {
        let pattern = Regex::new(pattern).expect("it is valid");
        let found = pattern.find_iter(text).map(|found| found.as_str().to_string());
        found.collect::<Vec<String>>()
    };
    let found = patterns.iter().flat_map(found);
    found.map(|found| format!("{}: `{found}`; ask `model::release` by name", file.path)).collect()
}

/// Rows of the table of releases that nothing asks for.
fn unused_features(files: &[SourceFile]) -> Vec<String> {
    let row = Regex::new(r"pub const ([A-Z0-9_]+): (Feature|Renamed|\[Given)").expect("it is valid");
    let is_row = |file: &&SourceFile| file.path.starts_with("crates/model/src/release/");
    let names = files.iter().filter(is_row).flat_map(|file| row.captures_iter(&file.text));
    // A pattern for each name, matched against every file, takes forty seconds.
    let askers = files.iter().filter(|file| !is_row(file) && !file.is_test);
    let asked_for: HashSet<&str> = askers.flat_map(|file| words(file.production_text())).collect();
    names
        .map(|found| found[1].to_string())
        .filter(|name| !asked_for.contains(name.as_str()))
        .map(|name| format!("{name} is not asked for"))
        .collect()
}

/// The names in a text, and its other words.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
}

fn strays(file: &SourceFile) -> Vec<String> {
    let lower = file.text.to_ascii_lowercase();
    let machine = concat!("/wo", "rk/").to_string();
    let registries = REGISTRIES.iter().map(|(head, tail)| format!("{head}{tail}"));
    let needles = std::iter::once(machine).chain(registries);
    let found = needles.filter(|needle| !file.path.ends_with("Cargo.lock") && lower.contains(needle));
    found.map(|needle| format!("{}: names `{needle}`", file.path)).collect()
}

#[test]
fn no_source_file_is_too_long() {
    assert_none(&tree::rust().iter().filter_map(too_long).collect::<Vec<String>>());
}

#[test]
fn every_source_file_says_what_it_is_for() {
    assert_none(&tree::rust().iter().filter_map(headless).collect::<Vec<String>>());
}

#[test]
fn only_the_command_line_prints_and_exits() {
    assert_none(&tree::rust().iter().flat_map(prints).collect::<Vec<String>>());
}

#[test]
fn nothing_unwraps_outside_tests() {
    assert_none(&tree::rust().iter().filter_map(unwraps).collect::<Vec<String>>());
}

#[test]
fn nothing_panics_for_some_numbers() {
    assert_none(&tree::rust().iter().flat_map(panics_for_some_numbers).collect::<Vec<String>>());
}

#[test]
fn workloads_are_named_in_their_catalogues_alone() {
    assert_none(&tree::rust().iter().flat_map(names_a_workload).collect::<Vec<String>>());
}

#[test]
fn only_the_table_of_releases_compares_versions() {
    let files = tree::rust();
    assert_none(&files.iter().flat_map(compares_versions).collect::<Vec<String>>());
    assert_none(&unused_features(&files));
}

#[test]
fn no_path_of_a_machine_and_no_registry_is_named() {
    assert_none(&tree::all().iter().flat_map(strays).collect::<Vec<String>>());
}

#[test]
fn bad_source_files_are_found() {
    let file = |text: &str| SourceFile::new("crates/wire/src/a.rs", text);
    let found = |problem: Option<String>| problem.into_iter().collect::<Vec<String>>();
    let long = "//! A.\n".repeat(LINES_MAX + 1);
    assert_one(&found(too_long(&file(&long))), "601 lines");
    assert_none(&found(too_long(&file(&long[7..]))));
    assert_one(&found(headless(&file("use a;\n"))), "what it is for");
    assert_none(&found(headless(&file("//! A.\n"))));
    assert_one(&prints(&file("fn a() { println!(\"a\"); }")), "`println!(`");
    assert_one(&prints(&file("fn a() { std::process::exit(1); }")), "exit");
    assert_none(&prints(&file("fn a() { my_print!(1); }\n#[cfg(test)]\nmod tests {\n println!(1); }")));
    assert_none(&prints(&SourceFile::new("crates/pgdyno/src/a.rs", "println!(\"a\")")));
    assert_none(&prints(&SourceFile::new("crates/wire/build.rs", "println!(\"a\")")));
    assert_one(&prints(&SourceFile::new("crates/wire/src/a/build.rs", "println!(\"a\")")), "`println!(`");
    assert_one(&found(unwraps(&file("a.unwrap();"))), "expect");
    assert_none(&found(unwraps(&SourceFile::new("crates/testbed/src/a.rs", "a.unwrap();"))));
    assert_none(&found(unwraps(&file("a.unwrap_or(1);\n#[cfg(test)]\nmod tests {\n a.unwrap(); }"))));
    assert_one(&names_a_workload(&file("if kind == WorkloadKind::Scripts {}")), "ask the workload's row");
    assert_one(&names_a_workload(&file("match x { Dataset::TprocC => 1 }")), "Dataset::TprocC");
    assert_none(&names_a_workload(&file("WorkloadKind::ALL; Dataset::from_case_data(x);")));
    assert_none(&names_a_workload(&SourceFile::new("crates/workload/src/catalogue.rs", "Dataset::Tpcc")));
    for bad in [
        "if version_num < 100_000 {}",
        "if session.server_version_num() >= GRANTS_SINCE {}",
        "if version_num >= since::PARTITIONS {}",
        "if (100_000..110_000).contains(&version_num) {}",
        "if binaries.major() >= 18 {}",
        "if self.compat >= version && 180_000 <= version_num {}",
    ] {
        assert_one(&compares_versions(&file(bad)), "by name");
    }
    assert_none(&compares_versions(&file("if ours > theirs && version_num == other.version_num {}")));
    assert_none(&compares_versions(&SourceFile::new("crates/model/src/release.rs", "version_num < 100_000")));
    let row = SourceFile::new("crates/model/src/release/a.rs", "pub const ALONE: Feature = since(1);");
    assert_one(&unused_features(&[row]), "ALONE is not asked for");
    assert_one(&panics_for_some_numbers(&file("a.clamp(1, n);")), "may cross");
    assert_one(&panics_for_some_numbers(&file("a.clamp(1, (b / 2).max(1));")), "may cross");
    assert_none(&panics_for_some_numbers(&file(
        "a.clamp(0.0, 1.0); b.clamp(MIN, *MAX); c.clamp(i64::MIN.into(), 7)",
    )));
    let widths = concat!("format!(\"{name:<", "width$}\"); format!(\"{x:.decimals$}\")");
    assert_one(&panics_for_some_numbers(&file(widths)), "columns");
    assert_one(&strays(&file(concat!("// see /wo", "rk/x"))), "names");
    assert_one(&strays(&file(concat!("https://crates", ".IO/x"))), "names");
    assert_none(&strays(&SourceFile::new("fuzz/Cargo.lock", concat!("crates", ".io"))));
}
