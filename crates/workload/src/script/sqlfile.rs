//! A file of SQL as `psql -f` and `pg_dump` have it: statements one by one, and the rows of `COPY ... FROM stdin`.
//!
//! psql's own commands are not SQL: they are refused, with their position. Only the two with which `pg_dump` guards its
//! output are ignored.

use crate::script::sqlscan::{SqlScanner, Stop};

/// psql's commands that make no difference here.
const PASSED_OVER: [&str; 2] = ["restrict", "unrestrict"];
/// The line that ends the rows of a COPY.
const END_OF_ROWS: &str = "\\.";

/// One step of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SqlStep<'a> {
    /// The statement.
    pub text: String,
    /// Offset in the file at which it begins.
    pub start: usize,
    /// The rows that follow it, if it is a `COPY ... FROM stdin`.
    pub rows: Option<&'a str>,
}

/// An error in a file of SQL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotSql {
    /// Offset in the file.
    pub start: usize,
    /// The problem.
    pub message: String,
}

/// The steps of a file in their order; nothing follows an error.
pub fn steps(source: &str) -> impl Iterator<Item = Result<SqlStep<'_>, NotSql>> {
    // Editors on Windows put a byte order mark in front.
    let n_mark = if source.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
    let mut scanner = SqlScanner::new(source);
    scanner.position = n_mark;
    let mut is_over = false;
    std::iter::from_fn(move || {
        let step = if is_over { None } else { next(source, &mut scanner) };
        is_over = !matches!(step, Some(Ok(_)));
        step
    })
}

fn next<'a>(source: &'a str, scanner: &mut SqlScanner<'a>) -> Option<Result<SqlStep<'a>, NotSql>> {
    loop {
        let chunk = scanner.next_chunk();
        let start = chunk.start;
        let is_blank = chunk.text.trim_matches([' ', '\t', '\r', '\n', ';']).is_empty();
        match chunk.stop {
            Stop::Semicolon if is_blank => {}
            Stop::EndOfScript if is_blank => return None,
            Stop::Backslash => match pass_over(source, scanner) {
                Ok(()) if is_blank => {}
                Ok(()) => {
                    let message = "the statement before psql's command has no semicolon".to_string();
                    return Some(Err(NotSql { start, message }));
                }
                Err(error) => return Some(Err(error)),
            },
            Stop::Semicolon | Stop::EndOfScript => {
                let rows = reads_rows(&chunk.text).then(|| take_rows(source, scanner));
                return Some(Ok(SqlStep { text: chunk.text, start, rows }));
            }
        }
    }
}

/// Skips a command of psql that changes nothing. The scanner stands after its backslash.
fn pass_over(source: &str, scanner: &mut SqlScanner<'_>) -> Result<(), NotSql> {
    let rest = &source[scanner.position..];
    let line = &rest[..rest.find('\n').unwrap_or(rest.len())];
    let word = line.split_whitespace().next().unwrap_or_default();
    if PASSED_OVER.contains(&word) {
        scanner.position += line.len();
        return Ok(());
    }
    let message = format!("`\\{word}` is a command of psql, not SQL; load such a file with psql");
    Err(NotSql { start: scanner.position - 1, message })
}

/// Whether a statement is a `COPY ... FROM STDIN`.
fn reads_rows(statement: &str) -> bool {
    let words: Vec<String> = statement
        .split(|c: char| c.is_whitespace() || "();,".contains(c))
        .filter(|word| !word.is_empty())
        .map(str::to_ascii_lowercase)
        .collect();
    words.first().is_some_and(|word| word == "copy")
        && words.windows(2).any(|pair| pair[0] == "from" && pair[1] == "stdin")
}

/// The lines after a statement up to the one that ends the rows.
fn take_rows<'a>(source: &'a str, scanner: &mut SqlScanner<'a>) -> &'a str {
    let from = scanner.position;
    let begin = source[from..].find('\n').map_or(source.len(), |at| from + at + 1);
    let mut at = begin;
    for line in source[begin..].split_inclusive('\n') {
        if line.trim_end_matches(['\r', '\n']) == END_OF_ROWS {
            scanner.position = at + line.len();
            return &source[begin..at];
        }
        at += line.len();
    }
    scanner.position = source.len();
    &source[begin..]
}

/// Line and column of an offset, both from 1, columns in characters.
pub fn line_and_column(source: &str, offset: usize) -> (usize, usize) {
    let before = &source[..source.floor_char_boundary(offset)];
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    (1 + before.matches('\n').count(), 1 + before[line_start..].chars().count())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(source: &str) -> Vec<String> {
        let show = |step: Result<SqlStep<'_>, NotSql>| match step {
            Ok(SqlStep { text, rows: None, .. }) => text,
            Ok(SqlStep { text, rows: Some(rows), .. }) => format!("{text} <{rows}>"),
            Err(error) => format!("{:?} {}", line_and_column(source, error.start), error.message),
        };
        steps(source).map(show).collect()
    }

    #[test]
    fn a_file_is_split_as_psql_does() {
        let check = |source: &str, expected: &[&str]| assert_eq!(texts(source), expected, "{source}");
        check("", &[]);
        check("-- nothing\n;;\n", &[]);
        check("select 1; select ';'", &["select 1;", "select ';'"]);
        check("do $$ begin; end $$;\nselect 2;", &["do $$ begin; end $$;", "select 2;"]);
        check("\u{feff}select 1;", &["select 1;"]);
    }

    #[test]
    fn rows_of_copy_follow_their_statement() {
        let check = |source: &str, expected: &[&str]| assert_eq!(texts(source), expected, "{source}");
        check(
            "COPY public.t (a, b) FROM stdin;\n1\tx;y\n\\N\t\\\\\n\\.\n\nselect 1;\n",
            &["COPY public.t (a, b) FROM stdin; <1\tx;y\n\\N\t\\\\\n>", "select 1;"],
        );
        check("copy t from stdin;\n1\n", &["copy t from stdin; <1\n>"]);
        check("copy t from stdin;", &["copy t from stdin; <>"]);
        check("copy t from '/tmp/stdin';", &["copy t from '/tmp/stdin';"]);
    }

    #[test]
    fn commands_of_psql_are_refused_with_their_place() {
        let refused = "`\\connect` is a command of psql, not SQL; load such a file with psql";
        assert_eq!(
            texts("\\restrict abc\nselect 1;\n\\connect x\n"),
            ["select 1;", &format!("(3, 1) {refused}")]
        );
        let unfinished = "(2, 3) the statement before psql's command has no semicolon";
        assert_eq!(texts("\n  select 1\n\\restrict x\n"), [unfinished]);
    }
}
