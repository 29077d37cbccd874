//! A file of SQL as data for the database that we are in: what a dump has for another database, or for the server that it was made on, is
//! left out and named.

use crate::script::sqlfile::role_options::treat as treat_roles;
use crate::script::sqlfile::tokens::{DumpToken, begins, tokens};
use crate::script::sqlfile::{DumpPart, NotSql, SqlStep, encoding, line_and_column, parts};
use crate::script::sqlscan::leading_words;

pub use super::encoding::named_encoding;
pub use super::role_options::RolesHere;

/// A file of data that can be executed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DumpFile<'a> {
    source: &'a str,
    /// The database that it goes to by its own words.
    database: Option<String>,
}

/// How a statement of a file is executed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Treatment {
    /// As it is written.
    AsItIs,
    /// By another statement, without parts that are named.
    Instead {
        /// The other statement.
        statement: String,
        /// The parts that it lacks: `LOGIN of app`.
        without: Vec<String>,
    },
    /// Not at all: `CREATE DATABASE shop`.
    LeftOut(String),
}

/// Beginnings of statements that a dump has before it goes to its database: they are about the whole server, or its own session.
const BEFORE_ITS_DATABASE: [&[&str]; 12] = [
    &["set"],
    &["select", "pg_catalog", "set_config"],
    &["create", "database"],
    &["alter", "database"],
    &["drop", "database"],
    &["create", "role"],
    &["alter", "role"],
    &["drop", "role"],
    &["grant"],
    &["revoke"],
    &["comment", "on", "database"],
    &["create", "tablespace"],
];

/// First words of statements that may be left out or changed.
const TREATED: [&str; 7] = ["create", "alter", "drop", "comment", "grant", "revoke", "security"];

impl<'a> DumpFile<'a> {
    /// Looks at the whole file.
    ///
    /// # Errors
    /// At the first place that is not SQL, goes to a second database, or says that the text is not UTF-8.
    pub fn from_source(source: &'a str) -> Result<DumpFile<'a>, NotSql> {
        let (mut database, mut before) = (None, None);
        let may_differ = !source.is_ascii();
        for part in parts(source) {
            match part? {
                DumpPart::Statement(step) => {
                    if database.is_none() && before.is_none() && !is_before_its_database(&step.text) {
                        before = Some(step.start);
                    }
                    if may_differ && let Some(other) = encoding::other_encoding(&step.text) {
                        return Err(NotSql { start: step.start, message: encoding::refusal(&other) });
                    }
                }
                DumpPart::Connect { database: name, start } => {
                    expect_one(source, &name, database.as_deref(), before)
                        .map_err(|message| NotSql { start, message })?;
                    database = Some(name);
                }
            }
        }
        Ok(DumpFile { source, database })
    }

    /// The text of the file.
    pub fn source(&self) -> &'a str {
        self.source
    }

    /// The statements and what is between them, in their order.
    pub fn parts(&self) -> impl Iterator<Item = DumpPart<'a>> + use<'a> {
        parts(self.source).map_while(Result::ok)
    }

    /// The statements in their order.
    pub fn statements(&self) -> impl Iterator<Item = SqlStep<'a>> + use<'a> {
        self.parts().filter_map(|part| match part {
            DumpPart::Statement(step) => Some(step),
            DumpPart::Connect { .. } => None,
        })
    }

    /// How a statement is executed in the database that we are in: without `roles`, on a server that is not ours, where those about roles are
    /// the user's.
    pub fn treat(&self, statement: &str, roles: Option<&RolesHere>) -> Treatment {
        let first = leading_words(statement, 1);
        if !first.first().is_some_and(|word| TREATED.contains(&word.as_str())) {
            return Treatment::AsItIs;
        }
        if let Some(what) = self.database.as_deref().and_then(|name| about_database(statement, name)) {
            return Treatment::LeftOut(what);
        }
        roles.map_or(Treatment::AsItIs, |roles| treat_roles(statement, roles))
    }
}

fn is_before_its_database(statement: &str) -> bool {
    let words = leading_words(statement, 3);
    BEFORE_ITS_DATABASE.iter().any(|known| {
        words.len() >= known.len() && words.iter().zip(*known).all(|(word, known)| word == known)
    })
}

/// Fails if a file goes to a second database, or has statements for another one before it goes to its own.
fn expect_one(source: &str, name: &str, known: Option<&str>, before: Option<usize>) -> Result<(), String> {
    match (known, before) {
        (Some(known), _) if known != name => Err(format!(
            "`\\connect {name}` goes to a second database after `{known}`: pgdyno measures one; dump it alone, by pg_dump"
        )),
        (None, Some(before)) => {
            let (line, _) = line_and_column(source, before);
            Err(format!(
                "`\\connect {name}` goes to another database than the statements before it (line {line}): pgdyno measures one; leave out \
                 what is for the other, or dump one alone, by pg_dump"
            ))
        }
        _ => Ok(()),
    }
}

/// A statement about the dump's own database in words, if it is one: the database that we are in has been made, and stays as it is.
fn about_database(statement: &str, name: &str) -> Option<String> {
    let tokens = tokens(statement);
    let at = tokens.iter().position(|token| token.is("database"))?;
    let is_guarded = begins(&tokens[at + 1..], &["if", "exists"]);
    let named = at + if is_guarded { 3 } else { 1 };
    tokens.get(named).filter(|token| token.names(name))?;
    let verb = tokens[0].text.to_uppercase();
    let words = match at {
        1 => format!("{verb} DATABASE {name}"),
        _ if tokens[0].is("alter") => format!("ALTER ROLE {} IN DATABASE {name}", tokens.get(2)?.text),
        _ => format!("{verb} ON DATABASE {name}"),
    };
    let setting = tokens.get(named + 1..).and_then(|rest| match rest {
        [set, setting, ..] if set.is("set") => Some(format!(" SET {}", setting.text)),
        _ => None,
    });
    Some(words + &setting.unwrap_or_default())
}

/// Whether a statement makes the schema `public`, as `pg_dump --schema=public` does: a new database has one.
pub fn makes_schema_public(statement: &str) -> bool {
    if leading_words(statement, 3) != ["create", "schema", "public"] {
        return false;
    }
    let is_end = |rest: &[DumpToken]| matches!(rest, []) || matches!(rest, [end] if end.is(";"));
    let tokens = tokens(statement);
    match &tokens[3..] {
        [by, owner, rest @ ..] if by.is("authorization") => owner.role().is_some() && is_end(rest),
        rest => is_end(rest),
    }
}

/// Whether a statement changes whose the schema `public` is, or the comment on it, as `pg_dump` does after making it.
pub fn marks_schema_public(statement: &str) -> bool {
    let words = leading_words(statement, 4);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    words == ["alter", "schema", "public", "owner"] || words == ["comment", "on", "schema", "public"]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(source: &str) -> String {
        let error = DumpFile::from_source(source).unwrap_err();
        format!("{:?} {}", line_and_column(source, error.start), error.message)
    }

    /// As `pg_dump --create` writes it.
    #[test]
    fn what_a_dump_has_about_its_own_database_is_left_out() {
        let dump = "SET client_encoding = 'UTF8';\nSELECT pg_catalog.set_config('search_path', '', false);\n\
                    DROP DATABASE IF EXISTS \"My shop\";\nCREATE DATABASE \"My shop\" WITH TEMPLATE = template0;\n\
                    ALTER DATABASE \"My shop\" OWNER TO app;\n\\encoding SQL_ASCII\n\
                    \\connect -reuse-previous=on \"dbname='My shop'\"\nCOMMENT ON DATABASE \"My shop\" IS 'x';\n\
                    ALTER DATABASE \"My shop\" SET work_mem TO '5MB';\nALTER ROLE app IN DATABASE \"My shop\" SET jit TO 'off';\n\
                    \\connect -reuse-previous=on \"dbname='My shop'\"\nCREATE TABLE database (n int);\n\
                    ALTER DATABASE shop SET work_mem TO '5MB';\nGRANT CONNECT ON DATABASE \"My shop\" TO app;\n";
        let file = DumpFile::from_source(dump).unwrap();
        let left_out: Vec<String> = file
            .statements()
            .filter_map(|step| match file.treat(&step.text, None) {
                Treatment::LeftOut(what) => Some(what),
                Treatment::AsItIs | Treatment::Instead { .. } => None,
            })
            .collect();
        assert_eq!(
            left_out,
            [
                "DROP DATABASE My shop",
                "CREATE DATABASE My shop",
                "ALTER DATABASE My shop",
                "COMMENT ON DATABASE My shop",
                "ALTER DATABASE My shop SET work_mem",
                "ALTER ROLE app IN DATABASE My shop SET jit",
                "GRANT ON DATABASE My shop"
            ]
        );
        let plain = DumpFile::from_source("create database shop;\n").unwrap();
        assert_eq!(plain.treat("create database shop;", None), Treatment::AsItIs);
    }

    #[test]
    fn a_file_for_several_databases_is_refused_at_its_place() {
        let second = refused("\\connect a\nselect 1;\n\\connect a\nselect 2;\n\\connect b\n");
        assert!(second.starts_with("(5, 1) `\\connect b` goes to a second database after `a`"), "{second}");
        let before = refused("create role r;\ncreate table t ();\n\\connect a\n");
        assert!(before.starts_with("(3, 1) `\\connect a`") && before.contains("(line 2)"), "{before}");
    }

    #[test]
    fn a_text_whose_encoding_is_not_what_it_says_is_refused() {
        let converted = refused("select 1;\nSET client_encoding = 'LATIN1';\nselect 'ä';\n");
        assert!(
            converted.starts_with("(2, 1) the file is UTF-8") && converted.contains("LATIN1"),
            "{converted}"
        );
        assert!(DumpFile::from_source("SET client_encoding = 'LATIN1';\nselect 'a';\n").is_ok());
    }

    #[test]
    fn only_the_plain_schema_public_is_the_one_that_is_there() {
        for (statement, expected) in [
            ("CREATE SCHEMA public;", true),
            ("create schema public authorization app;", true),
            ("CREATE SCHEMA IF NOT EXISTS public;", false),
            ("create schema public create table t ();", false),
            ("create schema publication;", false),
        ] {
            assert_eq!(makes_schema_public(statement), expected, "{statement}");
        }
        for (statement, expected) in [
            ("ALTER SCHEMA public OWNER TO pg_database_owner;", true),
            ("COMMENT ON SCHEMA public IS 'standard public schema';", true),
            ("alter schema public rename to old;", false),
            ("comment on schema app is 'x';", false),
        ] {
            assert_eq!(marks_schema_public(statement), expected, "{statement}");
        }
    }
}
