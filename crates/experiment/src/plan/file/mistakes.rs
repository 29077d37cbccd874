//! All mistakes of an experiment file, in order and each with its position.
//!
//! Reading stops at the first mistake. What was refused is therefore taken out of the tree of the file, whose parts know where
//! they stand, and the rest is read again. A mistake of TOML itself leaves no tree, and is the only one that is reported.

mod pruning;

use std::ops::Range;

use model::experiment::Experiment;
use model::experiment::keys;
use model::experiment::keys::row::KeyRow;
use model::text::nearest::nearest;
use serde::Deserialize;
use toml::Spanned;
use toml::de::{DeTable, Deserializer};

use super::bounds::{self, OutOfBounds};
use super::{FileError, NOTHING};

/// Most mistakes in one message.
const MISTAKES_MAX: usize = 100;

/// The mistakes of `text`, of the file `name`.
pub(super) fn all(name: &str, text: &str) -> FileError {
    let mut found: Vec<(usize, String)> = match DeTable::parse(text) {
        Err(error) => vec![(0, located(name, text, &error))],
        Ok(tree) => {
            let of_rows = bounds::refusals(tree.get_ref());
            let mut found: Vec<(usize, String)> = refusals(tree)
                .iter()
                .map(|error| (error.span().map_or(usize::MAX, |span| span.start), located(name, text, error)))
                .collect();
            // What its type refuses is refused once.
            let known: Vec<usize> = found.iter().map(|(at, _)| *at).collect();
            let others = of_rows.into_iter().filter(|one| !known.contains(&one.span.start));
            found.extend(others.map(|one| (one.span.start, refused(name, text, &one))));
            found
        }
    };
    found.sort();
    let lines: Vec<String> = found.into_iter().map(|(_, line)| line).collect();
    FileError { message: lines.join("\n") }
}

/// The values that the rows of their keys refuse, in a `text` that is an experiment otherwise.
pub(super) fn out_of_bounds(name: &str, text: &str) -> Option<FileError> {
    let tree = DeTable::parse(text).ok()?;
    let mut found = bounds::refusals(tree.get_ref());
    found.sort_by_key(|one| one.span.start);
    let lines: Vec<String> = found.iter().map(|one| refused(name, text, one)).collect();
    (!lines.is_empty()).then(|| FileError { message: lines.join("\n") })
}

fn refused(name: &str, text: &str, OutOfBounds { key, span, why }: &OutOfBounds) -> String {
    placed(name, text, span.start, &format!("{key}: {why}"))
}

/// Why the tree is no experiment, mistake by mistake.
fn refusals(mut tree: Spanned<DeTable>) -> Vec<toml::de::Error> {
    let mut found = Vec::new();
    // Tables from which a mistake was taken out: what is wrong with one as a whole follows from that.
    let mut gaps: Vec<Range<usize>> = Vec::new();
    while found.len() < MISTAKES_MAX
        && let Err(error) = Experiment::deserialize(Deserializer::from(tree.clone()))
    {
        let span = error.span();
        let is_missing = error.message().contains("missing field");
        if !span.as_ref().is_some_and(|span| gaps.contains(span)) {
            found.push(error);
        }
        let root = tree.span();
        match span {
            Some(span) if is_missing && span == root => {
                // The whole section is missing or was taken out. Another one takes its place, once.
                let lacks_section = pruning::add_missing(tree.get_mut(), NOTHING);
                if !lacks_section {
                    break;
                }
            }
            // Where nothing can be taken out, the rest cannot be judged.
            span => match span.and_then(|span| pruning::take_out(&mut tree, &span)) {
                Some(gap) => gaps.push(gap),
                None => break,
            },
        }
    }
    found
}

/// A message of the parser in the words of the experiment file.
pub(super) fn words(message: &str) -> String {
    // serde uses Rust's type names.
    let message = message
        .replace("expected u32", "expected a whole number")
        .replace("expected u64", "expected a whole number");
    let message = without_types(message);
    let message = below_0(&message).unwrap_or(message);
    let message = message.replace(
        "missing field `experiment`",
        "missing field `experiment`; begin the file with `[experiment]` and a line `name = \"NAME\"`",
    );
    let message =
        message.split('\n').map(str::trim).filter(|part| !part.is_empty()).collect::<Vec<_>>().join("; ");
    meant(&message).or_else(|| listed(&message)).unwrap_or(message)
}

/// The message without the name of a Rust type: keys stand in a table of their own there.
fn without_types(message: String) -> String {
    const TYPE: &str = "expected struct ";
    let Some((before, after)) = message.split_once(TYPE) else { return message };
    let rest = after.trim_start_matches(|c: char| c.is_alphanumeric() || c == '_');
    format!("{before}expected a table of keys, KEY.NAME = VALUE{rest}")
}

/// A number below 0, which is whole, but never meant.
fn below_0(message: &str) -> Option<String> {
    let rest = message.strip_prefix("invalid value: integer `-")?;
    let (number, expected) = rest.split_once("`, expected ")?;
    expected
        .starts_with("a whole number")
        .then(|| format!("`-{number}` is below 0; expected a whole number from 0 up"))
}

/// Of an unknown word: the known ones.
fn listed(message: &str) -> Option<String> {
    let (unknown, expected) = message.strip_prefix("unknown variant ")?.split_once(", expected ")?;
    let known = expected.strip_prefix("one of ").unwrap_or(expected);
    Some(format!("{unknown} is none of {known}"))
}

/// Of an unknown key: the section that has it, or else the key that was probably meant, instead of all there are.
fn meant(message: &str) -> Option<String> {
    let (unknown, expected) = message.split_once(", expected ")?;
    let key = unknown.strip_prefix("unknown field `")?.strip_suffix('`')?;
    if let Some((section, _)) = keys::all().filter_map(KeyRow::parts).find(|(_, name)| *name == key) {
        return Some(format!("{unknown}; `{key}` belongs to [{section}]"));
    }
    let known = expected.split('`').skip(1).step_by(2);
    Some(format!("{unknown}; did you mean `{}`?", nearest(key, known)?))
}

fn located(name: &str, text: &str, error: &toml::de::Error) -> String {
    let message = words(error.message());
    match error.span() {
        Some(span) => placed(name, text, span.start, &message),
        None => format!("{name}: {message}"),
    }
}

/// A message with its place, the line, and a mark below it.
fn placed(name: &str, text: &str, at: usize, message: &str) -> String {
    let before = &text[..at.min(text.len())];
    let line = before.matches('\n').count() + 1;
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    let column = before[line_start..].chars().count() + 1;
    let source = text.lines().nth(line - 1).unwrap_or_default();
    let caret = format!("{}^", " ".repeat(column - 1));
    if source.contains("://") || source.contains("password") {
        // The line may contain a password.
        return format!("{name}:{line}:{column}: {message}");
    }
    format!("{name}:{line}:{column}: {message}\n  {source}\n  {caret}")
}
