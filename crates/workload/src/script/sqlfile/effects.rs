//! Statements that reach beyond every database: programs, files and libraries of the server's machine, and its settings. Whoever runs a file
//! is to know of them. That is no guard against somebody who hides them: a function can put a statement together from pieces.

use crate::script::sqlfile::SqlStep;
use crate::script::sqlfile::tokens::{DumpToken, DumpTokenKind, begins, with_texts};
use crate::script::sqlscan::leading_words;

/// A statement that reaches beyond the database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Beyond {
    /// Offset in the file at which it begins.
    pub start: usize,
    /// What it does, as the end of a sentence: `` executes a program (`COPY … PROGRAM`) ``.
    pub what: String,
}

/// Functions that reach files of the server's machine.
const OF_FILES: [&str; 12] = [
    "lo_import",
    "lo_export",
    "pg_read_file",
    "pg_read_binary_file",
    "pg_stat_file",
    "pg_ls_dir",
    "pg_ls_logdir",
    "pg_ls_waldir",
    "pg_file_write",
    "pg_file_rename",
    "pg_file_unlink",
    "pg_file_sync",
];
/// Words without which a statement is not looked at more closely.
const SIGNS: [&str; 6] = ["program", "copy", "language", "load", "system", "file_fdw"];

/// What the first words of a statement are whose texts are executed.
const WITH_BODIES: [&[&str]; 5] = [
    &["do"],
    &["create", "function"],
    &["create", "procedure"],
    &["create", "or", "replace", "function"],
    &["create", "or", "replace", "procedure"],
];

/// What the first of these statements does that reaches beyond the database.
pub fn first_beyond<'a>(statements: impl Iterator<Item = SqlStep<'a>>) -> Option<Beyond> {
    statements.filter_map(|step| Some(Beyond { start: step.start, what: beyond(&step.text)? })).next()
}

fn beyond(statement: &str) -> Option<String> {
    let mut words = statement.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let is_sign = |word: &str| SIGNS.iter().chain(&OF_FILES).any(|sign| word.eq_ignore_ascii_case(sign));
    if !words.any(is_sign) {
        return None;
    }
    let tokens = with_texts(statement);
    if begins(&tokens, &["alter", "system"]) {
        return Some("changes settings of the whole server (`ALTER SYSTEM`)".to_string());
    }
    if begins(&tokens, &["load"]) {
        return Some("loads a library into the server (`LOAD`)".to_string());
    }
    let first = leading_words(statement, 4);
    let has_body = WITH_BODIES
        .iter()
        .any(|words| first.iter().zip(*words).filter(|(one, other)| one == *other).count() == words.len());
    let is_copy = begins(&tokens, &["copy"]);
    let found = if is_copy { of_copy(&tokens) } else { None }.or_else(|| of_names(&tokens));
    if !has_body {
        return found;
    }
    found.or_else(|| of_language(&tokens)).or_else(|| {
        // Also what the body makes of texts of its own.
        let bodies = tokens.iter().filter(|token| token.kind == DumpTokenKind::Text);
        let texts = bodies.map(|body| body.text.replace(['\'', '$'], " "));
        texts.map(|text| with_texts(&text)).find_map(|tokens| of_copy(&tokens).or_else(|| of_names(&tokens)))
    })
}

/// `COPY` with a program or a file.
fn of_copy(tokens: &[DumpToken]) -> Option<String> {
    let copy = tokens.iter().position(|token| token.is("copy"))?;
    let of_pair = |pair: &[DumpToken]| {
        let is_way = pair[0].is("from") || pair[0].is("to");
        let is_path = pair[1].kind == DumpTokenKind::Text || pair[1].is("/") || pair[1].is("%");
        if is_way && pair[1].is("program") {
            Some("executes a program (`COPY … PROGRAM`)".to_string())
        } else if is_way && is_path {
            Some("reaches a file of the server's machine (`COPY`)".to_string())
        } else {
            None
        }
    };
    tokens[copy..].windows(2).find_map(of_pair)
}

fn of_names(tokens: &[DumpToken]) -> Option<String> {
    let first = tokens.first()?;
    if ["grant", "revoke", "comment"].iter().any(|verb| first.is(verb)) {
        return None;
    }
    let called =
        tokens.windows(2).find(|pair| pair[1].is("(") && OF_FILES.iter().any(|name| pair[0].names(name)));
    let name = called.map(|pair| &pair[0]).or_else(|| tokens.iter().find(|token| token.names("file_fdw")));
    name.map(|name| format!("reaches files of the server's machine (`{}`)", name.text))
}

/// A language whose code no rule of the database holds.
fn of_language(tokens: &[DumpToken]) -> Option<String> {
    let named =
        tokens.windows(2).find(|pair| pair[0].is("language")).map(|pair| pair[1].text.to_lowercase())?;
    let is_free = named == "c" || named.starts_with("pl") && named.ends_with('u');
    is_free.then(|| {
        format!("has code that may do on the machine whatever the server's user may (`LANGUAGE {named}`)")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::sqlfile::dump::DumpFile;

    #[test]
    fn statements_that_reach_beyond_the_database_are_found() {
        let found = |source: &str| {
            let file = DumpFile::from_source(source).unwrap();
            first_beyond(file.statements()).map(|beyond| beyond.what)
        };
        for (source, expected) in [
            ("COPY t FROM PROGRAM 'date';", "`COPY … PROGRAM`"),
            ("copy (select 1) to program 'cat > /tmp/x';", "`COPY … PROGRAM`"),
            ("copy t from '/etc/passwd';", "(`COPY`)"),
            ("select lo_import('/etc/passwd');", "`lo_import`"),
            ("select E'\\'', pg_read_file('x');", "`pg_read_file`"),
            ("insert into t values (pg_read_file('x'));", "`pg_read_file`"),
            ("do $$ begin execute 'copy t from program ''date'''; end $$;", "`COPY … PROGRAM`"),
            (
                "create or replace function f() returns void as $x$ copy t to '/tmp/x' $x$ language sql;",
                "(`COPY`)",
            ),
            ("create function f() returns int as 'x', 'y' language C;", "`LANGUAGE c`"),
            ("CREATE FUNCTION f() RETURNS int LANGUAGE plpython3u AS 'return 1';", "`LANGUAGE plpython3u`"),
            ("alter system set archive_command = 'x';", "`ALTER SYSTEM`"),
            ("load 'x';", "`LOAD`"),
            ("create extension file_fdw;", "`file_fdw`"),
        ] {
            let what = found(source).unwrap_or_else(|| panic!("{source}"));
            assert!(what.contains(expected), "{source}: {what}");
        }
        for source in [
            "COPY public.t (a, program) FROM stdin;\n1\tcopy t from program 'x'\n\\.\n",
            "copy (select a from b) to stdout;",
            "select copy, extract(year from '2026-01-01') from program;",
            "insert into t values ('copy it from program ''x''');",
            "create function f() returns int language plpgsql as $$ begin return 1; end $$;",
            "create table system (program text, load int, language text);",
            "grant execute on function pg_read_file(text) to app;",
            "-- copy t from program 'x'\nselect 1;",
        ] {
            assert_eq!(found(source), None, "{source}");
        }
    }
}
