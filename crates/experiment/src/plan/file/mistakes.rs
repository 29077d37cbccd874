//! All mistakes of an experiment file, in order and each with its position.
//!
//! Reading stops at the first mistake. What was refused is therefore taken out of the tree of the file, whose parts know where
//! they stand, and the rest is read again. A mistake of TOML itself leaves no tree, and is the only one that is reported.

mod pruning;

use std::ops::Range;

use model::experiment::Experiment;
use model::experiment::keys;
use model::experiment::keys::row::Row;
use model::text::nearest::nearest;
use serde::Deserialize;
use toml::Spanned;
use toml::de::{DeTable, Deserializer};

use super::{FileError, NOTHING};

/// Most mistakes in one message.
const MISTAKES_MAX: usize = 100;

/// The mistakes of `text`, of the file `name`.
pub(super) fn all(name: &str, text: &str) -> FileError {
    let mut found: Vec<(usize, String)> = match DeTable::parse(text) {
        Err(error) => vec![(0, located(name, text, &error))],
        Ok(tree) => refusals(tree)
            .iter()
            .map(|error| (error.span().map_or(usize::MAX, |span| span.start), located(name, text, error)))
            .collect(),
    };
    found.sort();
    let lines: Vec<String> = found.into_iter().map(|(_, line)| line).collect();
    FileError { message: lines.join("\n") }
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
    let message = below_0(&message).unwrap_or(message);
    let message = message.replace(
        "missing field `experiment`",
        "missing field `experiment`; begin the file with `[experiment]` and a line `name = \"NAME\"`",
    );
    let message =
        message.split('\n').map(str::trim).filter(|part| !part.is_empty()).collect::<Vec<_>>().join("; ");
    misplaced(&message).or_else(|| suggested(&message)).or_else(|| listed(&message)).unwrap_or(message)
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

/// Of a key that another section has: which one.
fn misplaced(message: &str) -> Option<String> {
    let (unknown, _) = message.split_once(", expected ")?;
    let key = unknown.strip_prefix("unknown field `")?.strip_suffix('`')?;
    let section = keys::all().filter_map(Row::parts).find(|(_, name)| *name == key)?.0;
    Some(format!("{unknown}; `{key}` belongs to [{section}]"))
}

/// Of an unknown key: the key that was probably meant, instead of all there are.
fn suggested(message: &str) -> Option<String> {
    let (unknown, expected) = message.split_once(", expected ")?;
    let key = unknown.strip_prefix("unknown field `")?.strip_suffix('`')?;
    let known = expected.split('`').skip(1).step_by(2);
    Some(format!("{unknown}; did you mean `{}`?", nearest(key, known)?))
}

fn located(name: &str, text: &str, error: &toml::de::Error) -> String {
    let message = words(error.message());
    let Some(span) = error.span() else {
        return format!("{name}: {message}");
    };
    let before = &text[..span.start.min(text.len())];
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
