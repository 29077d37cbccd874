//! psql's own commands in a file of SQL: which change nothing here, which have an effect that is certain, and what to do about all others.

use crate::script::variables::is_name_byte;

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
/// What to do about any command that is not listed.
const BY_PSQL: &str = "remove the line, or run the file with psql on a server of your own and give an archive of that database as \
     workload.restore_from (pg_dump -Fc)";
const OF_FILES: &str = "it reads another file; list the files in their order in workload.data";
const CONDITION: &str = "pgdyno does not decide which lines apply; leave in the file what does, or run it with psql on a server of your own and \
     give an archive of that database as workload.restore_from (pg_dump -Fc)";
/// What to do about commands that would change what is executed.
const REFUSED: [(&str, &str); 16] = [
    ("i", OF_FILES),
    ("ir", OF_FILES),
    ("include", OF_FILES),
    ("include_relative", OF_FILES),
    (
        "copy",
        "it reads or writes a file of the client; write \\copy ... from stdin with the rows after it, or restore an archive",
    ),
    ("gexec", "it runs what a query returns; use a DO block with EXECUTE"),
    ("g", "end the statement with a semicolon instead"),
    ("gx", "end the statement with a semicolon instead"),
    ("q", "it ends the file; remove what follows"),
    ("!", "it executes a program; remove the line"),
    ("if", CONDITION),
    ("elif", CONDITION),
    ("else", CONDITION),
    ("endif", CONDITION),
    ("connect", TO_ANOTHER),
    ("c", TO_ANOTHER),
];
const TO_ANOTHER: &str = "only the name of the dumped database may follow, as pg_dump --create writes it";

/// What a command of psql does here.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PsqlCommand {
    Nothing,
    /// Gives a variable a value, or takes it away.
    Set(String, Option<String>),
    /// Goes to the database of this name.
    Connect(String),
    /// A COPY whose rows follow.
    Copy(String),
}

/// What the rest of a line does that begins with a backslash.
///
/// # Errors
/// In words with what to do, for what is not certain or has no meaning here.
pub(super) fn command(line: &str) -> Result<PsqlCommand, String> {
    let line = line.trim();
    let word = line.split_whitespace().next().unwrap_or_default();
    let rest = line[word.len()..].trim();
    let first = rest.split_whitespace().next().unwrap_or_default();
    match word {
        _ if PASSED_OVER.contains(&word) => Ok(PsqlCommand::Nothing),
        "o" | "out" if !rest.starts_with('|') => Ok(PsqlCommand::Nothing),
        "set" | "unset" if OWN_VARIABLES.contains(&first) => Ok(PsqlCommand::Nothing),
        "set" if first == "AUTOCOMMIT" => is_autocommit(rest).then_some(PsqlCommand::Nothing).ok_or_else(|| {
            "`\\set AUTOCOMMIT` of psql: each statement is a transaction here; write BEGIN and COMMIT into the file".to_string()
        }),
        "set" => set(rest),
        "unset" => Ok(PsqlCommand::Set(rest.to_string(), None)),
        "gset" | "prompt" => Err(format!(
            "`\\{word}` of psql: a value that is not in the file; write it there with `\\set NAME VALUE`"
        )),
        "encoding" if matches!(&*first.to_ascii_uppercase().replace('-', ""), "UTF8" | "UNICODE" | "SQL_ASCII") => {
            // pg_dump writes SQL_ASCII for the name of a database alone.
            Ok(PsqlCommand::Nothing)
        }
        "encoding" => {
            Err(format!("`\\encoding {first}` of psql: files are read as UTF-8; convert it (iconv)"))
        }
        "connect" | "c" => database(rest).map(PsqlCommand::Connect).ok_or_else(|| refusal(word)),
        "copy" if super::reads_rows(&format!("copy {rest}")) => Ok(PsqlCommand::Copy(format!("COPY {rest}"))),
        _ => Err(refusal(word)),
    }
}

fn refusal(word: &str) -> String {
    let known = REFUSED.iter().find(|(refused, _)| *refused == word);
    let advice = known.map_or(BY_PSQL, |(_, advice)| advice);
    format!("`\\{word}` is a command of psql, not SQL: {advice}")
}

/// A variable with a value that reads the same wherever it is put.
fn set(rest: &str) -> Result<PsqlCommand, String> {
    let (name, value) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    let value = value.trim();
    let quoted = value.strip_prefix('\'').and_then(|value| value.strip_suffix('\''));
    let plain = quoted.unwrap_or(value);
    let is_simple = |c: char| c.is_alphanumeric() || "_.+-".contains(c);
    if name.is_empty()
        || !name.bytes().all(is_name_byte)
        || !plain.chars().all(is_simple)
        || plain.starts_with("--")
    {
        return Err(format!(
            "`\\set {name}` of psql: only a number or a word is put in place of a variable; write the value into the statements"
        ));
    }
    Ok(PsqlCommand::Set(name.to_string(), Some(plain.to_string())))
}

fn is_autocommit(rest: &str) -> bool {
    let value = rest.split_whitespace().nth(1).unwrap_or_default();
    ["on", "true", "yes", "1"].contains(&&*value.trim_end_matches(';').to_ascii_lowercase())
}

/// The database of `\connect`, as `appendPsqlMetaConnect` of `pg_dump` writes it: `shop`, `"Shop"`, or `-reuse-previous=on "dbname='my shop'"`.
fn database(rest: &str) -> Option<String> {
    let given = rest.strip_prefix("-reuse-previous=on").unwrap_or(rest).trim();
    let quoted = given.strip_prefix('"').and_then(|given| given.strip_suffix('"'));
    if quoted.is_none() && given.contains(|c: char| c.is_whitespace() || "\"'=:`-".contains(c)) {
        return None;
    }
    let name = quoted.map_or(given.to_string(), |quoted| quoted.replace("\"\"", "\""));
    let name = match name.strip_prefix("dbname=") {
        Some(value) => {
            let value = value.strip_prefix('\'')?.strip_suffix('\'')?;
            value.replace("\\'", "'").replace("\\\\", "\\")
        }
        None => name,
    };
    (!name.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_is_named_as_pg_dump_does() {
        for (rest, expected) in [
            ("shop", Some("shop")),
            ("\"Shop\"", Some("Shop")),
            ("-reuse-previous=on \"dbname='my shop'\"", Some("my shop")),
            ("-reuse-previous=on \"dbname='a\"\"b\\'c'\"", Some("a\"b'c")),
            ("shop app", None),
            ("postgres://x/y", None),
            ("-", None),
            ("", None),
        ] {
            assert_eq!(database(rest).as_deref(), expected, "{rest}");
        }
    }

    #[test]
    fn variables_take_simple_values_alone() {
        let set = |rest: &str| command(&format!("set {rest}"));
        assert_eq!(set("tenant 7").unwrap(), PsqlCommand::Set("tenant".into(), Some("7".into())));
        assert_eq!(set("owner 'app'").unwrap(), PsqlCommand::Set("owner".into(), Some("app".into())));
        for rest in ["q 'select 1;'", "a `date`", "b :c", "d 1 2", ""] {
            assert!(set(rest).unwrap_err().contains("write the value into the statements"), "{rest}");
        }
    }
}
