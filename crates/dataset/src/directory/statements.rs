//! The SQL of a directory, statement by statement: each in the extended protocol, which takes one statement at a time, so that none can
//! end the transaction that it runs in.

use anyhow::{Error, Result, anyhow};
use generator::SqlPart;
use wire::session::{Session, SessionError};
use workload::first_words;
use workload::script::sqlfile::{self, line_and_column};

/// Statements about transactions, which belong to pgdyno.
const OF_TRANSACTIONS: [&str; 9] =
    ["begin", "start", "commit", "end", "rollback", "abort", "savepoint", "release", "prepare"];

/// One statement of a file.
pub(super) struct OwnStatement<'a> {
    pub(super) file: &'static str,
    part: &'a SqlPart,
    pub(super) text: String,
    start: usize,
}

/// The statements of a file's parts in their order, or the problems of all.
pub(super) fn statements<'a>(
    file: &'static str,
    parts: &'a [SqlPart],
) -> Result<Vec<OwnStatement<'a>>, Vec<String>> {
    let (mut found, mut problems) = (Vec::new(), Vec::new());
    for part in parts {
        for step in sqlfile::steps(&part.text) {
            match step {
                Ok(step) => {
                    let statement = OwnStatement { file, part, text: step.text, start: step.start };
                    match refusal(&statement.text, step.rows.is_some()) {
                        Some(why) => problems.push(statement.located(0, &why)),
                        None => found.push(statement),
                    }
                }
                Err(error) => problems.push(place(file, part, error.start, &error.message)),
            }
        }
    }
    if problems.is_empty() { Ok(found) } else { Err(problems) }
}

/// Why a statement does not belong in a directory's SQL, if it does not.
fn refusal(text: &str, has_rows: bool) -> Option<String> {
    if has_rows {
        return Some("rows belong to the [[table]] of workload.toml, not into COPY FROM STDIN".to_string());
    }
    let word = first_words(text).into_iter().next()?;
    OF_TRANSACTIONS
        .contains(&word.as_str())
        .then(|| format!("`{word}` is about transactions, which pgdyno begins and ends itself; leave it out"))
}

impl OwnStatement<'_> {
    /// The table whose job may run it, if it is about one table alone: `tables` are all that are loaded.
    pub(super) fn table<'t>(&self, tables: &[&'t str]) -> Option<&'t str> {
        let known = |name: &str| tables.iter().find(|table| **table == name).copied();
        if let Some(name) = &self.part.table {
            return known(name);
        }
        let words: Vec<String> = self
            .text
            .split(|c: char| c.is_whitespace() || "(),;".contains(c))
            .filter(|word| !word.is_empty())
            .map(str::to_ascii_lowercase)
            .collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        // A foreign key waits for the key of another table.
        if words.contains(&"references") {
            return None;
        }
        match *words {
            ["alter", "table", "only", name, ..] | ["alter", "table", name, ..] => known(name),
            ["create", "index" | "unique", ..] => {
                let on = words.iter().position(|word| *word == "on")?;
                let name = *words.get(on + 1)?;
                known(if name == "only" { words.get(on + 2)? } else { name })
            }
            _ => None,
        }
    }

    /// Runs it.
    ///
    /// # Errors
    /// With file, line, column and the line.
    pub(super) fn run(&self, session: &mut Session) -> Result<()> {
        session.query_params(&self.text, &[]).map(drop).map_err(|error| self.failed(error))
    }

    /// The error of the server with its place.
    pub(super) fn failed(&self, error: SessionError) -> Error {
        match &error {
            SessionError::Server(server) => {
                let offset = self.text.chars().take(server.character()).map(char::len_utf8).sum();
                let hint = server.hint.as_ref().map_or(String::new(), |hint| format!("; {hint}"));
                let told = format!("{} ({}){hint}", server.message, server.sqlstate);
                anyhow!(self.located(offset, &told))
            }
            _ => {
                let place = self.located(0, "this statement did not end");
                Error::new(error).context(place)
            }
        }
    }

    /// A message with the place of a byte of the statement.
    pub(super) fn located(&self, offset: usize, message: &str) -> String {
        place(self.file, self.part, self.start + offset, message)
    }
}

/// `schema.sql:3:8: message`, the line and a caret.
fn place(file: &str, part: &SqlPart, offset: usize, message: &str) -> String {
    let (line, column) = line_and_column(&part.text, offset);
    let shown = part.text.lines().nth(line - 1).unwrap_or_default();
    let caret = " ".repeat(column - 1);
    format!("{file}:{}:{column}: {message}\n  {shown}\n  {caret}^", part.line + line - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(text: &str) -> SqlPart {
        SqlPart { text: text.to_string(), line: 3, table: None }
    }

    #[test]
    fn a_statement_is_named_by_its_place() {
        let parts = [part("create table a (\n  id bad);"), part("-- nothing\ncopy a from stdin;\n1\n\\.\n")];
        let problems = statements("schema.sql", &parts).err().unwrap();
        assert_eq!(problems.len(), 1);
        assert!(problems[0].starts_with("schema.sql:4:1: rows belong to"), "{}", problems[0]);
        let found = statements("schema.sql", &parts[..1]).ok().unwrap();
        let told = found[0].located("create table a (\n  id ".len(), "no such type");
        assert_eq!(told, "schema.sql:4:6: no such type\n    id bad);\n       ^");
    }

    #[test]
    fn transactions_are_not_ended_by_a_directory() {
        for text in [
            "commit;",
            "COMMIT",
            "/* x */ rollback;",
            "-- y\nbegin;",
            "savepoint a",
            "prepare transaction 'x'",
        ] {
            assert!(refusal(text, false).is_some(), "{text}");
        }
        for text in ["create table commit_log ();", "do $$ begin end $$", "select setval('a', 1)"] {
            assert_eq!(refusal(text, false), None, "{text}");
        }
    }

    #[test]
    fn what_is_about_one_table_is_known() {
        let check = |text: &str, expected: Option<&str>| {
            let parts = [part(text)];
            let found = statements("after.sql", &parts).ok().unwrap();
            assert_eq!(found[0].table(&["a", "b"]), expected, "{text}");
        };
        check("alter table a add primary key (id);", Some("a"));
        check("ALTER TABLE ONLY b ADD CONSTRAINT x UNIQUE (n)", Some("b"));
        check("create index on b (n);", Some("b"));
        check("create unique index concurrently x on only a using btree (n)", Some("a"));
        check("alter table a add foreign key (b) references b;", None);
        check("alter table c add primary key (id);", None);
        check("select setval('a', 1)", None);
    }
}
