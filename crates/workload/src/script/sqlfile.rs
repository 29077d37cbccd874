//! A file of SQL as `psql -f` and `pg_dump` have it: statements one by one, and the rows of `COPY ... FROM stdin`.
//!
//! psql's own commands are not SQL. Those that only change what psql prints, or how it reacts to errors, are passed over: each
//! error ends the file here. A few have an effect that is certain; all others are refused, with their position and what to do.

pub mod dump;
pub mod effects;
mod encoding;
mod psql;
mod role_options;
pub mod roles;
mod tokens;

use psql::PsqlCommand;

use crate::script::sqlscan::{SqlEnd, SqlScanner};

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

/// A step of a file that `pg_dump` may have written with the database that it is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DumpPart<'a> {
    /// A statement.
    Statement(SqlStep<'a>),
    /// `\connect`: what follows is for the database of this name.
    Connect {
        /// The database.
        database: String,
        /// Offset in the file at which the line begins.
        start: usize,
    },
}

/// The steps of a file in their order; nothing follows an error.
pub fn steps(source: &str) -> impl Iterator<Item = Result<SqlStep<'_>, NotSql>> {
    parts(source).map(|part| match part? {
        DumpPart::Statement(step) => Ok(step),
        DumpPart::Connect { start, .. } => {
            let message =
                "`\\connect` is a command of psql, not SQL: it goes to another database; remove the line";
            Err(NotSql { start, message: message.to_string() })
        }
    })
}

/// As [`steps`], of a file that may say which database it is for.
pub(crate) fn parts(source: &str) -> impl Iterator<Item = Result<DumpPart<'_>, NotSql>> {
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

fn next<'a>(source: &'a str, scanner: &mut SqlScanner<'a>) -> Option<Result<DumpPart<'a>, NotSql>> {
    loop {
        let chunk = scanner.next_chunk();
        let start = chunk.start;
        let is_blank = chunk.text.trim_matches([' ', '\t', '\r', '\n', ';']).is_empty();
        match chunk.stop {
            SqlEnd::Semicolon if is_blank => {}
            SqlEnd::EndOfScript if is_blank => return None,
            SqlEnd::Backslash => match take_command(source, scanner) {
                Ok(None) if is_blank => {}
                Ok(Some(part)) if is_blank => return Some(Ok(part)),
                Ok(_) => {
                    let message = "the statement before psql's command has no semicolon".to_string();
                    return Some(Err(NotSql { start, message }));
                }
                Err(error) => return Some(Err(error)),
            },
            SqlEnd::Semicolon | SqlEnd::EndOfScript => {
                let rows = reads_rows(&chunk.text).then(|| take_rows(source, scanner));
                return Some(Ok(DumpPart::Statement(SqlStep { text: chunk.text, start, rows })));
            }
        }
    }
}

/// Takes a command of psql, and the rows after it. The scanner stands after its backslash.
fn take_command<'a>(source: &'a str, scanner: &mut SqlScanner<'a>) -> Result<Option<DumpPart<'a>>, NotSql> {
    let rest = &source[scanner.position..];
    let line = &rest[..rest.find('\n').unwrap_or(rest.len())];
    let start = scanner.position - 1;
    scanner.position += line.len();
    match psql::command(line).map_err(|message| NotSql { start, message })? {
        PsqlCommand::Nothing => Ok(None),
        PsqlCommand::Set(name, value) => {
            scanner.set(name, value);
            Ok(None)
        }
        PsqlCommand::Connect(database) => Ok(Some(DumpPart::Connect { database, start })),
        PsqlCommand::Copy(text) => {
            let rows = Some(take_rows(source, scanner));
            Ok(Some(DumpPart::Statement(SqlStep { text, start, rows })))
        }
    }
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
    fn commands_of_psql_with_a_certain_effect_have_it() {
        let check = |source: &str, expected: &[&str]| assert_eq!(texts(source), expected, "{source}");
        check(
            "\\copy t (a, b) from stdin with (format csv)\n1,x;y\n\\.\nselect 1;\n",
            &["COPY t (a, b) from stdin with (format csv) <1,x;y\n>", "select 1;"],
        );
        check("\\o /dev/null\nselect 1;\n\\o\n", &["select 1;"]);
        check(
            "\\set n 7\n\\set who 'app'\nselect :n::int, ':n', :'who', a[1:2] from :\"who\"; -- :n\n\\unset n\nselect :n;",
            &["select 7::int, ':n', 'app', a[1:2] from \"app\";", "select :n;"],
        );
    }

    #[test]
    fn commands_of_psql_are_refused_with_their_place() {
        assert_eq!(
            texts("\\restrict abc\nselect 1;\n\\connect x\n"),
            [
                "select 1;",
                "(3, 1) `\\connect` is a command of psql, not SQL: it goes to another database; remove the line"
            ]
        );
        for (line, expected) in [
            ("\\i more.sql", "list the files in their order in workload.data"),
            ("\\ir more.sql", "list the files in their order in workload.data"),
            ("\\set tenant 'a b'", "write the value into the statements"),
            ("\\prompt 'tenant? ' tenant", "write it there with `\\set NAME VALUE`"),
            ("\\set AUTOCOMMIT off", "write BEGIN and COMMIT"),
            ("\\encoding LATIN1", "convert it"),
            ("\\copy t from 'x'", "write \\copy ... from stdin"),
            ("\\copy t from pstdin", "write \\copy ... from stdin"),
            ("\\if :{?x}", "leave in the file what does"),
            ("\\g", "end the statement with a semicolon"),
            ("\\o |cat", "run the file with psql on a server of your own"),
            ("\\! date", "it executes a program"),
            ("\\connect x app", "as pg_dump --create writes it"),
            ("\\crosstabview", "workload.restore_from (pg_dump -Fc)"),
        ] {
            let found = texts(&format!("{line}\nselect 1;"));
            assert!(
                found.len() == 1 && found[0].starts_with("(1, 1) ") && found[0].contains(expected),
                "{line}: {found:?}"
            );
        }
        let unfinished = "(2, 3) the statement before psql's command has no semicolon";
        assert_eq!(texts("\n  select 1\n\\restrict x\n"), [unfinished]);
    }
}
