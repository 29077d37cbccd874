//! Plain English: turns of phrase that a native PostgreSQL engineer would not write stay out of code and documents.
//!
//! A pattern is a symptom: the sentence around it usually needs to be rewritten.

use std::borrow::Cow;

use regex_lite::Regex;

use super::tree::{self, SourceFile};
use super::{assert_none, assert_one};

/// A word of each such turn (matching patterns is slow), its pattern, and what to write instead.
const TURNS: &[(&str, &str, &str)] = &[
    ("told", r"\b(is|are|was|were|be) told\b", "`reported`, `said` or `distinguished`"),
    ("tells", r"\btells of\b", "`says` or `reports`"),
    ("told", r"\btold (apart|of|to|from)\b", "`distinguished` or `reported`"),
    ("ours", r"\b(of|from) ours\b", "`our`"),
    ("own", r"\bof one.s own\b", "`your own`"),
    ("lot", r"\bby lot\b", "`in random order`"),
    ("seen", r"\bseen to\b", "`ensured`, or who sees it"),
    ("anew", r"\banew\b", "`again`"),
    ("disorder", r"\bin disorder\b", "`out of order`, or what is wrong"),
    ("not", r"\bnot one\b", "`no`, `none`"),
    ("may", r"\bmay not\b", "`must not`, `cannot`, or `might not`: it can mean each of them"),
    ("beside", r"\bbeside\b", "`next to`, `with` or `in addition to`"),
    ("///", r"/// (By|Its|Their|They|What|Whose) [^.]{0,24}\.$", "a noun that names the thing"),
];

/// Legitimate uses: end of the path (empty: any), words of the line, and the reason.
const EXCEPTIONS: &[(&str, &str, &str)] = &[
    ("", "not one of", "a negated `one of`"),
    ("model/src/text/units.rs", "is not one release series", "a number, literally"),
    ("", "may or may not", "a possibility, without doubt"),
    ("", "may not be used with", "libpq's message"),
    ("", "IPv6 host address may not be empty", "libpq's message"),
    ("analysis/src/comparison.rs", "rename = \"beside\"", "a key of the format"),
    ("tests/tidy/english.rs", "", "the table and its tests"),
];

/// Files with text that we wrote.
const ENDINGS: &[&str] = &[".rs", ".md", ".toml", ".css", ".js", ".sql", ".py", ".yml", "/check"];

fn turns(file: &SourceFile) -> Vec<String> {
    let is_ours = ENDINGS.iter().any(|ending| format!("/{}", file.path).ends_with(ending));
    if !is_ours || file.path.ends_with(".min.js") {
        return Vec::new();
    }
    let patterns = TURNS.iter().filter(|(word, ..)| file.text.contains(word));
    let patterns = patterns.map(|(word, pattern, better)| (*word, Regex::new(pattern).unwrap(), *better));
    let patterns: Vec<(&str, Regex, &str)> = patterns.collect();
    let mut found = Vec::new();
    for (n, line) in (1..).zip(file.text.lines()) {
        // Names of tests are sentences.
        let is_name = line.trim_start().starts_with("fn ");
        let line: Cow<str> = if is_name { line.replace('_', " ").into() } else { line.into() };
        let applies =
            |(path, part, _): &&(&str, &str, &str)| file.path.ends_with(path) && line.contains(part);
        if EXCEPTIONS.iter().any(|exception| applies(&exception)) {
            continue;
        }
        let matches =
            |(word, pattern, _): &&(&str, Regex, &str)| line.contains(word) && pattern.is_match(&line);
        let better = patterns.iter().find(matches).map(|(.., better)| *better);
        found.extend(better.map(|better| format!("{}:{n}: `{}`: write {better}", file.path, line.trim())));
    }
    found
}

#[test]
fn texts_are_plain_english() {
    assert_none(&tree::all().iter().flat_map(turns).collect::<Vec<String>>());
}

/// Two blanks or more within a sentence: the rest of the indentation of a literal that was joined by hand. Columns of tables have fewer
/// words before them.
fn gaps(file: &SourceFile) -> Vec<String> {
    if !file.path.ends_with(".rs") || !file.path.contains("/src/") {
        return Vec::new();
    }
    let gap = Regex::new(r"([A-Za-z]+ ){2}[a-z]+[,;:]? {2,}[a-z]+ ").unwrap();
    let lines = (1..).zip(file.text.lines().map(str::trim_start));
    let of_text = lines.filter(|(_, line)| line.contains("  ") && !line.starts_with("//"));
    of_text
        .filter(|(_, line)| gap.is_match(line))
        .map(|(n, line)| format!("{}:{n}: `{line}`: write one blank", file.path))
        .collect()
}

#[test]
fn sentences_have_no_gaps() {
    assert_none(&tree::all().iter().flat_map(gaps).collect::<Vec<String>>());
    let found = |text: &str| gaps(&SourceFile::new("a/src/b.rs", text));
    assert_one(
        &found("    \"or with --duet, which needs less          time where others disturb\""),
        "one blank",
    );
    assert_none(&found("    // A table of three words        and more"));
    assert_none(&found("\"  -n, --no-vacuum             do not vacuum before the load\""));
}

#[test]
fn quaint_turns_are_found() {
    let found = |path: &str, text: &str| turns(&SourceFile::new(path, text));
    assert_one(&found("a.md", "The user is told so."), "a.md:1: `The user is told so.`: write `reported`");
    assert_one(&found("a.rs", "fn a();\n// A file of ours."), "a.rs:2");
    assert_one(&found("a.rs", "    /// Its counts."), "a noun");
    assert_one(&found("a.rs", "    fn users_are_told_of_it() {"), "a.rs:1");
    assert_one(&found("a.rs", "// It is beside the cluster."), "`next to`");
    assert_one(&found("a.rs", "// A role may not see it."), "`cannot`");
    assert_none(&found("a.rs", "    /// Its counts, which are those of the second that ends with the tick."));
    assert_none(&found("a.md", "It is not one of these."));
    assert_none(&found("a.lock", "anew"));
}
