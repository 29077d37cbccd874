//! A problem of a workload directory: what is wrong, where in which file, and the line itself.

use std::fmt;
use std::ops::Range;

/// Longest line that a message repeats, in characters; our convention.
const SOURCE_LINE_MAX: usize = 400;

/// Longest name that is compared with others.
const NAME_BYTES_MAX: usize = 100;

/// What is wrong with a workload directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Name of the file, with `/`.
    pub file: String,
    /// Line from 1; 0 if it is about the whole file.
    pub line: usize,
    /// Column from 1, in characters.
    pub column: usize,
    /// The line; empty if there is none, or a very long one.
    pub source_line: String,
    /// Characters that are marked.
    pub width: usize,
    /// The problem and what to do.
    pub message: String,
    /// Whether it can be used nevertheless.
    pub is_warning: bool,
}

impl Problem {
    /// A problem with the bytes `range` of a file's text.
    pub fn at(file: &str, text: &str, range: Range<usize>, message: impl Into<String>) -> Problem {
        let start = text.floor_char_boundary(range.start);
        let end = text.floor_char_boundary(range.end).max(start);
        let before = &text[..start];
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        let line_end = text[start..].find('\n').map_or(text.len(), |at| start + at);
        let source = text[line_start..line_end].trim_end_matches('\r');
        let shown = source.chars().count() <= SOURCE_LINE_MAX;
        let marked = &text[start..end.min(line_end)];
        Problem {
            file: file.to_string(),
            line: before.matches('\n').count() + 1,
            column: text[line_start..start].chars().count() + 1,
            source_line: if shown { printable(source) } else { String::new() },
            width: marked.chars().count().max(1),
            message: message.into(),
            is_warning: false,
        }
    }

    /// A problem with a whole file.
    pub fn whole(file: &str, message: impl Into<String>) -> Problem {
        Problem {
            file: file.to_string(),
            line: 0,
            column: 0,
            source_line: String::new(),
            width: 0,
            message: message.into(),
            is_warning: false,
        }
    }

    /// The same as a warning.
    pub(crate) fn into_warning(self) -> Problem {
        Problem { is_warning: true, ..self }
    }

    /// The order in which problems are listed: by file and place.
    fn order(&self) -> (&str, usize, usize, &str) {
        (&self.file, self.line, self.column, &self.message)
    }
}

/// A line without what would act on a terminal.
fn printable(line: &str) -> String {
    line.chars().map(|c| if c.is_control() && c != '\t' { '?' } else { c }).collect()
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Problem { file, line, column, source_line, width, message, is_warning } = self;
        f.write_str(file)?;
        if *line > 0 {
            write!(f, ":{line}:{column}")?;
        }
        write!(f, ": {}{message}", if *is_warning { "warning: " } else { "" })?;
        if *line == 0 || source_line.is_empty() {
            return Ok(());
        }
        let before = source_line.chars().take(column.saturating_sub(1));
        // A tab before the mark is as wide as it is in the line above.
        let gap: String = before.map(|c| if c == '\t' { '\t' } else { ' ' }).collect();
        write!(f, "\n  {source_line}\n  {gap}{}", "^".repeat(*width))
    }
}

/// The problems in the order of their places, each once.
pub(crate) fn sorted(mut problems: Vec<Problem>) -> Vec<Problem> {
    problems.sort_by(|a, b| a.order().cmp(&b.order()));
    problems.dedup();
    problems
}

/// The name of `known` that is spelt most like `name`, if it is similar enough: of four letters, three are equal.
pub(crate) fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if name.len() > NAME_BYTES_MAX {
        return None;
    }
    let similarity = |candidate: &str| strsim::normalized_damerau_levenshtein(name, candidate);
    let all = known.into_iter().map(|candidate| (similarity(candidate), candidate));
    let best = all.max_by(|(a, _), (b, _)| a.total_cmp(b))?;
    (best.0 >= 0.75).then_some(best.1)
}

/// The hint that goes with an unknown name: the one that was meant, or else all of them.
pub(crate) fn meant<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let known: Vec<&str> = known.into_iter().collect();
    match nearest(name, known.iter().copied()) {
        Some(near) => format!("; did you mean `{near}`?"),
        None if known.is_empty() => "; there are none".to_string(),
        None if known.len() > 12 => String::new(),
        None => format!("; known: {}", known.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_shows_its_place() {
        let text = "a = 1\n\tb = \"äö\" # x\n";
        let at = text.find('ö').unwrap();
        let problem = Problem::at("workload.toml", text, at..at + 2, "no such name");
        let expected = "workload.toml:2:8: no such name\n  \tb = \"äö\" # x\n  \t      ^";
        assert_eq!(problem.to_string(), expected);
        let whole = Problem::whole("schema.sql", "is missing").into_warning();
        assert_eq!(whole.to_string(), "schema.sql: warning: is missing");
        let all = Problem::at("a", text, 0..100, "long");
        assert_eq!((all.line, all.column, all.width), (1, 1, 5));
        assert_eq!(Problem::at("a", "\u{1b}[2J", 0..1, "x").source_line, "?[2J");
        assert_eq!(Problem::at("a", &"x".repeat(1000), 500..501, "x").to_string(), "a:1:501: x");
        assert_eq!(Problem::at("a", "", 7..9, "x").to_string(), "a:1:1: x");
    }

    #[test]
    fn a_typing_error_gets_a_hint() {
        assert_eq!(meant("colums", ["columns", "rows"]), "; did you mean `columns`?");
        assert_eq!(meant("x", ["columns", "rows"]), "; known: columns, rows");
        assert_eq!(meant("x", []), "; there are none");
    }
}
