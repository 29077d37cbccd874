//! A file of SQL as `psql -f` and `pg_dump` have it: statements one by one, and the rows of `COPY ... FROM stdin`.
//!
//! psql's own commands are not SQL. Those that only change what psql prints, or how it reacts to errors, are passed over: each
//! error ends the file here. All others are refused, with their position and what to do.

pub mod roles;

use crate::script::sqlscan::{SqlEnd, SqlScanner};

/// psql's commands that make no difference here: the guards of `pg_dump`, and what is about psql's output alone.
const PASSED_OVER: [&str; 16] = [
    "restrict",
    "unrestrict",
    "timing",
    "pset",
    "echo",
    "qecho",
    "warn",
    "x",
    "t",
    "a",
    "f",
    "H",
    "C",
    "T",
    "conninfo",
    "errverbose",
];
/// Variables of psql that are about its output and its reaction to errors alone.
const OWN_VARIABLES: [&str; 15] = [
    "ON_ERROR_STOP",
    "ON_ERROR_ROLLBACK",
    "QUIET",
    "ECHO",
    "ECHO_HIDDEN",
    "VERBOSITY",
    "SHOW_CONTEXT",
    "SHOW_ALL_RESULTS",
    "HIDE_TABLEAM",
    "HIDE_TOAST_COMPRESSION",
    "HISTFILE",
    "HISTSIZE",
    "PROMPT1",
    "PROMPT2",
    "COMP_KEYWORD_CASE",
];
/// What to do about commands that would change what is executed.
const REFUSED: [(&str, &str); 9] = [
    (
        "connect",
        "it goes to another database, as files of pg_dumpall and of pg_dump --create do; dump one database with pg_dump, without --create",
    ),
    ("c", "it goes to another database; remove the line"),
    ("i", "it reads another file; list the files in their order in workload.data"),
    ("ir", "it reads another file; list the files in their order in workload.data"),
    ("include", "it reads another file; list the files in their order in workload.data"),
    ("include_relative", "it reads another file; list the files in their order in workload.data"),
    ("copy", "it reads a file of the client; write COPY ... FROM stdin with the rows, or restore an archive"),
    ("gexec", "it runs what a query returns; use a DO block with EXECUTE"),
    ("q", "it ends the file; remove what follows"),
];
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
            SqlEnd::Semicolon if is_blank => {}
            SqlEnd::EndOfScript if is_blank => return None,
            SqlEnd::Backslash => match pass_over(source, scanner) {
                Ok(()) if is_blank => {}
                Ok(()) => {
                    let message = "the statement before psql's command has no semicolon".to_string();
                    return Some(Err(NotSql { start, message }));
                }
                Err(error) => return Some(Err(error)),
            },
            SqlEnd::Semicolon | SqlEnd::EndOfScript => {
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
    let verdict = judge(word, line.split_whitespace().skip(1));
    let start = scanner.position - 1;
    scanner.position += line.len();
    verdict.map_err(|message| NotSql { start, message })
}

/// Whether a command of psql changes nothing here.
fn judge<'a>(word: &str, mut arguments: impl Iterator<Item = &'a str>) -> Result<(), String> {
    let first = arguments.next().unwrap_or_default();
    match word {
        _ if PASSED_OVER.contains(&word) => Ok(()),
        "set" | "unset" if OWN_VARIABLES.contains(&first) => Ok(()),
        "set" if first == "AUTOCOMMIT" && arguments.next().is_some_and(is_on) => Ok(()),
        "set" | "unset" | "gset" | "prompt" => Err(format!(
            "`\\{word}` of psql: variables are not replaced in files of data; write their values into the statements"
        )),
        "encoding" if matches!(&*first.to_ascii_uppercase().replace('-', ""), "UTF8" | "UNICODE") => Ok(()),
        "encoding" => {
            Err(format!("`\\encoding {first}` of psql: files are read as UTF-8; convert it (iconv)"))
        }
        _ => {
            let known = REFUSED.iter().find(|(refused, _)| *refused == word);
            let advice = known.map_or("load such a file with psql", |(_, advice)| advice);
            Err(format!("`\\{word}` is a command of psql, not SQL: {advice}"))
        }
    }
}

/// A value that switches a variable of psql on.
fn is_on(value: &str) -> bool {
    ["on", "true", "yes", "1"].contains(&&*value.trim_end_matches(';').to_ascii_lowercase())
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

/// Where a line begins, by its number from 1: an offset.
pub(crate) fn line_start(source: &str, line: usize) -> usize {
    source.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum()
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

    /// As schema files of applications begin.
    #[test]
    fn lines_about_psqls_output_and_errors_are_passed_over() {
        let head = "\\set ON_ERROR_STOP on\n\\set ON_ERROR_STOP 1\n\\set QUIET on\n\\set ECHO all\n\\timing on\n\
                    \\pset pager off\n\\echo Creating tables ...\n\\encoding UTF8\n\\set AUTOCOMMIT on\n\\unset ECHO\n\
                    \\restrict abc\nselect 1;\n\\echo done; really\n\\unrestrict abc\n";
        assert_eq!(texts(head), ["select 1;"]);
    }

    #[test]
    fn commands_of_psql_are_refused_with_their_place() {
        let refused = "`\\connect` is a command of psql, not SQL: it goes to another database, as files of pg_dumpall and of \
                       pg_dump --create do; dump one database with pg_dump, without --create";
        assert_eq!(
            texts("\\restrict abc\nselect 1;\n\\connect x\n"),
            ["select 1;", &format!("(3, 1) {refused}")]
        );
        for (line, expected) in [
            ("\\i more.sql", "list the files in their order in workload.data"),
            ("\\set tenant 7", "write their values into the statements"),
            ("\\prompt 'tenant? ' tenant", "write their values into the statements"),
            ("\\set AUTOCOMMIT off", "write their values into the statements"),
            ("\\encoding LATIN1", "convert it"),
            ("\\copy t from 'x'", "write COPY ... FROM stdin"),
            ("\\if :{?x}", "load such a file with psql"),
        ] {
            let found = texts(&format!("{line}\nselect 1;"));
            assert!(
                found.len() == 1 && found[0].starts_with("(1, 1) ") && found[0].contains(expected),
                "{found:?}"
            );
        }
        let unfinished = "(2, 3) the statement before psql's command has no semicolon";
        assert_eq!(texts("\n  select 1\n\\restrict x\n"), [unfinished]);
    }
}
