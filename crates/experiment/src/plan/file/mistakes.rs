//! All mistakes of an experiment file, in order and each with its position.
//!
//! The parser stops at the first mistake. What it refused is therefore replaced by spaces, which keeps positions, and the
//! rest is parsed again.

use std::ops::Range;

use model::experiment::Experiment;
use model::text::nearest::nearest;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::FileError;

/// Most mistakes in one message.
const MISTAKES_MAX: usize = 20;

/// The mistakes of `text`, of the file `name`.
pub(super) fn all(name: &str, text: &str) -> FileError {
    let mut rest = text.to_string();
    let mut found: Vec<(usize, String)> = Vec::new();
    while found.len() < MISTAKES_MAX
        && let Err(error) = toml::from_str::<Experiment>(&rest)
    {
        let is_followup = error.message().contains("missing field") && !found.is_empty();
        if !is_followup {
            let at = error.span().map_or(usize::MAX, |span| span.start);
            found.push((at, located(name, text, &error)));
        }
        // Where nothing can be taken out, the rest cannot be judged: a mistake of TOML itself, a missing key.
        match error.span().and_then(|span| refused(&rest, span)) {
            Some(range) if !is_followup => blank(&mut rest, range),
            _ => break,
        }
    }
    found.sort();
    let lines: Vec<String> = found.into_iter().map(|(_, line)| line).collect();
    FileError { message: lines.join("\n") }
}

/// A message of the parser in the words of the experiment file.
pub(super) fn words(message: &str) -> String {
    // serde uses Rust's type names.
    let message = message
        .replace("expected u32", "expected a whole number")
        .replace("expected u64", "expected a whole number");
    let message =
        message.split('\n').map(str::trim).filter(|part| !part.is_empty()).collect::<Vec<_>>().join("; ");
    suggested(&message).unwrap_or(message)
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

/// What to take out of `text` so that the mistake at `span` is gone: a key with its value, or a whole section.
fn refused(text: &str, span: Range<usize>) -> Option<Range<usize>> {
    let line_start = text[..span.start.min(text.len())].rfind('\n').map_or(0, |at| at + 1);
    if text[line_start..].trim_start().starts_with('[') {
        let next = text[span.end.min(text.len())..].find("\n[").map(|at| span.end + at + 1);
        return Some(line_start..next.unwrap_or(text.len()));
    }
    let table = DeTable::parse(text).ok()?;
    innermost(table.get_ref(), &span)
}

/// The innermost key whose own text, or whose value's text, contains `span`: from the key to the end of the value.
fn innermost(table: &DeTable, span: &Range<usize>) -> Option<Range<usize>> {
    table.iter().find_map(|(key, value)| {
        let within = match value.get_ref() {
            DeValue::Table(inner) => innermost(inner, span),
            _ => None,
        };
        let contains = |outer: Range<usize>| outer.start <= span.start && span.end <= outer.end;
        let whole = || key.span().start..Spanned::span(value).end;
        within.or_else(|| (contains(key.span()) || contains(value.span())).then(whole))
    })
}

fn blank(text: &mut String, range: Range<usize>) {
    let spaces: String =
        text[range.clone()].bytes().map(|byte| if byte == b'\n' { '\n' } else { ' ' }).collect();
    text.replace_range(range, &spaces);
}
