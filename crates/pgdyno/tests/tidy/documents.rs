//! Documents: links lead somewhere, paths that are named exist, decisions are numbered and indexed, and every library
//! of the workspace has its line.

use std::collections::BTreeSet;

use super::tree::{self, SourceFile};
use super::{assert_none, assert_one};

const DECISIONS: &str = "docs/decisions/";
const LIBRARIES: &str = "docs/decisions/010-libraries.md";

/// Link targets of a Markdown text, code left out.
pub(crate) fn links(text: &str) -> Vec<String> {
    let prose = without_code(text);
    let ends = prose.match_indices("](").map(|(at, marker)| &prose[at + marker.len()..]);
    ends.filter_map(|rest| Some(rest.split_once(')')?.0.to_string())).collect()
}

/// Text without fenced blocks and code spans.
fn without_code(text: &str) -> String {
    let mut is_fenced = false;
    let mut prose = String::new();
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            is_fenced = !is_fenced;
        } else if !is_fenced {
            prose.extend(line.split('`').step_by(2));
            prose.push('\n');
        }
    }
    prose
}

/// Code spans of a Markdown text.
fn code_spans(text: &str) -> Vec<&str> {
    let fenced: Vec<&str> = text.split("```").step_by(2).collect();
    fenced
        .iter()
        .flat_map(|prose| prose.lines().flat_map(|line| line.split('`').skip(1).step_by(2)))
        .collect()
}

/// The anchors that headings make: lower case, words joined by hyphens, other signs left out; a title that comes again
/// is numbered.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    let mut is_fenced = false;
    for line in text.lines() {
        is_fenced ^= line.trim_start().starts_with("```");
        if is_fenced || !line.starts_with('#') {
            continue;
        }
        let title = line.trim_start_matches('#').trim().to_lowercase();
        let kept = title.chars().filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c));
        let anchor: String = kept.map(|c| if c == ' ' { '-' } else { c }).collect();
        let again = (1..).map(|n| format!("{anchor}-{n}"));
        let free = std::iter::once(anchor.clone()).chain(again).find(|name| !anchors.contains(name));
        anchors.extend(free);
    }
    anchors
}

/// `a/b/../c` as `a/c`.
pub(crate) fn joined(document: &str, target: &str) -> String {
    let mut parts: Vec<&str> = document.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "." | "" => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// Links of one document that lead nowhere. `exists` knows paths, `read` gives the text of documents.
fn broken_links(
    document: &SourceFile,
    exists: &dyn Fn(&str) -> bool,
    read: &dyn Fn(&str) -> Option<String>,
) -> Vec<String> {
    let mut problems = Vec::new();
    for link in links(&document.text) {
        if link.contains("://") || link.starts_with("mailto:") {
            continue;
        }
        let (path, anchor) =
            link.split_once('#').map_or((link.as_str(), None), |(path, to)| (path, Some(to)));
        let target = if path.is_empty() { document.path.clone() } else { joined(&document.path, path) };
        if !exists(&target) {
            problems.push(format!("{}: link to `{link}`, which does not exist", document.path));
        } else if let (Some(anchor), Some(text)) = (anchor, read(&target))
            && !anchors(&text).contains(anchor)
        {
            problems.push(format!("{}: link to `{link}`, which has no such heading", document.path));
        }
    }
    problems
}

/// Paths of the repository in code spans that do not exist.
fn broken_paths(document: &SourceFile, exists: &dyn Fn(&str) -> bool) -> Vec<String> {
    let is_path = |span: &str| {
        let known = ["crates/", "docs/", "experiments/", "bench/", "deploy/", ".ci/"]
            .iter()
            .any(|dir| span.starts_with(dir));
        known && !span.contains([' ', '*', '<', '{', '…'])
    };
    let spans = code_spans(&document.text).into_iter().filter(|span| is_path(span));
    let missing = spans.filter(|span| !exists(span.trim_end_matches('/')));
    missing.map(|span| format!("{}: names `{span}`, which does not exist", document.path)).collect()
}

/// Whether a decision says below its title when it was made, and what became of it.
fn has_status(decision: &str) -> bool {
    let line = decision.lines().nth(2).unwrap_or_default();
    let is_date = |date: &str| date.len() == 10 && date.split('-').all(|part| part.parse::<u32>().is_ok());
    let is_known = |status: &str| status.starts_with("accepted") || status.starts_with("superseded by [");
    line.split_once(", ").is_some_and(|(date, status)| is_date(date) && is_known(status))
}

/// Decisions in files `NNN-title.md` from 001 without a gap, with date and status, of three parts, each in the index.
fn decision_problems(decisions: &[SourceFile], index: &str) -> Vec<String> {
    let mut problems = Vec::new();
    for (n, file) in (1..).zip(decisions) {
        let name = file.path.trim_start_matches(DECISIONS);
        if !name.starts_with(&format!("{n:03}-")) {
            problems.push(format!("`{name}` should be decision {n:03}"));
        }
        if !file.text.starts_with(&format!("# {n:03}: ")) {
            problems.push(format!("`{name}` does not begin with `# {n:03}: `"));
        }
        if !has_status(&file.text) {
            problems.push(format!("`{name}` does not say `YYYY-MM-DD, accepted.` below its title"));
        }
        for part in ["## Context", "## Decision", "## Consequences"] {
            if !file.text.contains(part) {
                problems.push(format!("`{name}` has no `{part}`"));
            }
        }
        if !links(index).contains(&name.to_string()) {
            problems.push(format!("`{name}` is not in the index"));
        }
    }
    problems
}

/// Libraries of the workspace's manifest without a line in the decision on libraries, and lines without a library.
fn library_problems(manifest: &str, decision: &str) -> Vec<String> {
    let manifest: toml::Table = manifest.parse().unwrap();
    let dependencies = manifest["workspace"]["dependencies"].as_table().unwrap();
    let is_library = |spec: &toml::Value| spec.get("path").is_none();
    let used: BTreeSet<&str> =
        dependencies.iter().filter(|(_, spec)| is_library(spec)).map(|(name, _)| name.as_str()).collect();
    let rows = decision.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    let described: BTreeSet<&str> = rows.collect();
    let missing =
        used.difference(&described).map(|name| format!("library `{name}` has no line in {LIBRARIES}"));
    let gone =
        described.difference(&used).map(|name| format!("{LIBRARIES} describes `{name}`, which is not used"));
    missing.chain(gone).collect()
}

fn documents() -> Vec<SourceFile> {
    tree::all().into_iter().filter(|file| file.path.ends_with(".md")).collect()
}

fn exists(path: &str) -> bool {
    tree::root().join(path).exists()
}

#[test]
fn links_between_documents_lead_somewhere() {
    let read = |path: &str| path.ends_with(".md").then(|| tree::file(path).text);
    let problems = documents().iter().flat_map(|file| broken_links(file, &exists, &read)).collect::<Vec<_>>();
    assert_none(&problems);
}

#[test]
fn paths_that_documents_name_exist() {
    let problems = documents().iter().flat_map(|file| broken_paths(file, &exists)).collect::<Vec<_>>();
    assert_none(&problems);
}

#[test]
fn decisions_are_numbered_without_gaps_and_indexed() {
    let index = tree::file("docs/decisions/README.md");
    let is_decision = |file: &SourceFile| file.path.starts_with(DECISIONS) && file.path != index.path;
    let decisions: Vec<SourceFile> = documents().into_iter().filter(is_decision).collect();
    assert!(decisions.len() > 5);
    assert_none(&decision_problems(&decisions, &index.text));
}

#[test]
fn every_library_is_a_decision() {
    assert_none(&library_problems(&tree::file("Cargo.toml").text, &tree::file(LIBRARIES).text));
}

#[test]
fn bad_links_and_paths_are_found() {
    let document = |text: &str| SourceFile::new("docs/a.md", text);
    let exists = |path: &str| ["README.md", "docs/a.md", "crates/x/src/lib.rs"].contains(&path);
    let read = |path: &str| {
        let top = "# Top\n## A `word`, two\n## More\n## More\n```sh\n# comment\n```\n";
        Some(if path == "README.md" { top } else { "# Here\n" }.to_string())
    };
    let links = |text: &str| broken_links(&document(text), &exists, &read);
    assert_none(&links("[a](../README.md) [b](../README.md#a-word-two) [c](#here) [d](https://x.org/#y)"));
    assert_none(&links("`[a](nowhere)`\n```\n[a](nowhere)\n```\n"));
    assert_one(&links("[a](README.md)"), "does not exist");
    assert_one(&links("[a](../README.md#gone)"), "no such heading");
    assert_one(&links("[a](#gone)"), "no such heading");
    assert_none(&links("[a](../README.md#more) [b](../README.md#more-1)"));
    assert_one(&links("[a](../README.md#more-2)"), "no such heading");
    assert_one(&links("[a](../README.md#comment)"), "no such heading");
    let paths = |text: &str| broken_paths(&document(text), &exists);
    assert_none(&paths(
        "see `crates/x/src/lib.rs`, `crates/NAME/*.rs` and crates/none\n```\ncrates/none\n```\n",
    ));
    assert_one(&paths("see `crates/y/src/lib.rs`"), "crates/y");
}

#[test]
fn bad_decisions_are_found() {
    let file = |name: &str, text: &str| SourceFile::new(&format!("{DECISIONS}{name}"), text);
    let parts = "\n\n2026-11-20, accepted.\n\n## Context\n## Decision\n## Consequences\n";
    let first = file("001-a.md", &format!("# 001: A{parts}"));
    let index = "[001](001-a.md) [002](002-b.md) [003](003-b.md)";
    assert_none(&decision_problems(std::slice::from_ref(&first), index));
    assert_one(&decision_problems(std::slice::from_ref(&first), ""), "not in the index");
    let gap = file("003-b.md", &format!("# 002: B{parts}"));
    assert_one(&decision_problems(&[first.clone(), gap], index), "should be decision 002");
    assert_one(&decision_problems(&[file("001-a.md", &format!("# 1: A{parts}"))], index), "does not begin");
    assert_one(
        &decision_problems(&[file("001-a.md", &first.text.replace("## Consequences", ""))], index),
        "Consequences",
    );
    let undated = first.text.replace("2026-11-20, accepted.", "Accepted.");
    assert_one(&decision_problems(&[file("001-a.md", &undated)], index), "below its title");
}

#[test]
fn a_library_without_a_line_is_found() {
    let manifest = "[workspace.dependencies]\nmodel = { path = \"crates/model\" }\nserde = \"1\"\n";
    assert_none(&library_problems(manifest, "| `serde` | x |\n"));
    assert_one(&library_problems(manifest, "| a | b |\n"), "library `serde` has no line");
    assert_one(&library_problems(manifest, "| `serde` | x |\n| `gone` | x |\n"), "describes `gone`");
}
