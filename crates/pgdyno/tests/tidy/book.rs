//! The book: every document is a chapter, and what a chapter links to is in the book.
//!
//! Its sources are links to the documents (`book/src`), so that one text, with the same relative links, is read in the
//! repository and in the book.

use std::collections::BTreeSet;

use super::documents::{joined, links};
use super::tree::{self, SourceFile};
use super::{assert_none, assert_one};

const SUMMARY: &str = "book/src/SUMMARY.md";
const ROOT: &str = "book/src/";
const DECISIONS: &str = "- [Decisions](docs/decisions/README.md)\n";

/// Documents that belong in the book: of the root, of `docs`, and our own measurements.
fn is_of_the_book(path: &str) -> bool {
    let is_document = !path.contains('/') || path.starts_with("docs/") || path == "bench/RESULTS.md";
    is_document && path.ends_with(".md")
}

/// Documents without a chapter, chapters without a document, and chapters that come twice.
fn chapter_problems(summary: &str, documents: &[&str]) -> Vec<String> {
    let mut chapters = BTreeSet::new();
    let mut problems = Vec::new();
    for chapter in links(summary) {
        if !documents.contains(&chapter.as_str()) {
            problems.push(format!("{SUMMARY}: there is no document `{chapter}`"));
        } else if !chapters.insert(chapter.clone()) {
            problems.push(format!("{SUMMARY}: `{chapter}` is there twice"));
        }
    }
    let missing = documents.iter().filter(|path| !chapters.contains(**path));
    problems.extend(missing.map(|path| {
        format!("{SUMMARY}: `{path}` is not in the book; add a line where a reader would look for it")
    }));
    problems
}

/// Links of a chapter to what is not in the book. `is_file` knows the files of the book.
fn outward_links(chapter: &SourceFile, is_file: &dyn Fn(&str) -> bool) -> Vec<String> {
    let mut problems = Vec::new();
    for link in links(&chapter.text) {
        let path = link.split('#').next().unwrap_or_default();
        if link.contains("://") || path.is_empty() {
            continue;
        }
        let target = joined(&chapter.path, path);
        let is_there = if target.ends_with(".md") { is_of_the_book(&target) } else { is_file(&target) };
        if !is_there {
            problems.push(format!(
                "{}: `{link}` is no file of the book; name it as code, or add a link to it in {ROOT}",
                chapter.path
            ));
        }
    }
    problems
}

/// The summary with one line for each decision.
fn with_decisions(summary: &str, decisions: &[SourceFile]) -> Option<String> {
    let (head, tail) = summary.split_once(DECISIONS)?;
    let rest: Vec<&str> = tail.split_inclusive('\n').skip_while(|line| line.starts_with("  ")).collect();
    let line = |file: &SourceFile| {
        let title = file.text.lines().next().unwrap_or_default().trim_start_matches("# ");
        format!("  - [{}]({})\n", title.replacen(": ", " ", 1), file.path)
    };
    let lines: String = decisions.iter().map(line).collect();
    Some(format!("{head}{DECISIONS}{lines}{}", rest.concat()))
}

fn decisions() -> Vec<SourceFile> {
    let is_decision = |file: &SourceFile| {
        file.path.strip_prefix("docs/decisions/").is_some_and(|name| name.starts_with(char::is_numeric))
    };
    tree::all().into_iter().filter(is_decision).collect()
}

#[test]
fn every_document_is_a_chapter() {
    let files = tree::all();
    let documents: Vec<&str> =
        files.iter().map(|file| file.path.as_str()).filter(|path| is_of_the_book(path)).collect();
    assert!(documents.len() > 100, "{documents:?}");
    assert_none(&chapter_problems(&tree::file(SUMMARY).text, &documents));
    let is_there = |path: &&str| tree::root().join(ROOT).join(path).is_file();
    let lost = documents.iter().filter(|path| !is_there(path));
    assert_none(&lost.map(|path| format!("{ROOT}{path} does not lead to `{path}`")).collect::<Vec<_>>());
}

#[test]
fn chapters_link_to_what_is_in_the_book() {
    let is_file = |path: &str| tree::root().join(ROOT).join(path).is_file();
    let files = tree::all();
    let chapters = files.iter().filter(|file| is_of_the_book(&file.path));
    assert_none(&chapters.flat_map(|file| outward_links(file, &is_file)).collect::<Vec<_>>());
}

#[test]
fn every_decision_is_a_line_of_the_summary() {
    let summary = tree::file(SUMMARY);
    let expected = with_decisions(&summary.text, &decisions()).unwrap();
    if std::env::var_os("PGDYNO_BLESS").is_some() {
        std::fs::write(tree::root().join(SUMMARY), expected).unwrap();
    } else {
        let advice = "run: PGDYNO_BLESS=1 cargo test -p pgdyno --test tidy";
        assert!(summary.text == expected, "{SUMMARY} does not list all decisions by their titles; {advice}");
    }
}

#[test]
fn documents_outside_the_book_are_found() {
    let documents = ["README.md", "docs/a.md"];
    assert_none(&chapter_problems("[x](README.md)\n- [a](docs/a.md)\n", &documents));
    assert_one(&chapter_problems("[x](README.md)\n", &documents), "`docs/a.md` is not in the book");
    assert_one(&chapter_problems("[x](README.md)\n[a](docs/a.md)\n[b](docs/b.md)", &documents), "docs/b.md");
    let twice = "[x](README.md)\n[a](docs/a.md)\n[a](docs/a.md)";
    assert_one(&chapter_problems(twice, &documents), "twice");
    let chapter = |text: &str| SourceFile::new("docs/a.md", text);
    let is_file = |path: &str| path == "docs/a.png";
    assert_none(&outward_links(
        &chapter("[a](../README.md#b) [c](#d) ![e](a.png) [f](https://x.org)"),
        &is_file,
    ));
    assert_one(&outward_links(&chapter("[a](../deploy)"), &is_file), "`../deploy` is no file of the book");
    assert_one(&outward_links(&chapter("[a](../crates/x/README.md)"), &is_file), "no file of the book");
    let decision = [SourceFile::new("docs/decisions/001-a.md", "# 001: A: b\n")];
    let summary = format!("# S\n{DECISIONS}  - [old](x.md)\n- [c](d.md)\n");
    let expected = format!("# S\n{DECISIONS}  - [001 A: b](docs/decisions/001-a.md)\n- [c](d.md)\n");
    assert_eq!(with_decisions(&summary, &decision).unwrap(), expected);
}
