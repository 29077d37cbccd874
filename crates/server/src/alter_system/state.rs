//! What a server says about settings now: values in effect, and entries of its configuration files.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use wire::{Conninfo, Session, quote_literal};

use super::value::Kind;
use crate::database::facts::ask;
use crate::database::template::MAINTENANCE;

/// The file that ALTER SYSTEM writes, in the data directory.
pub(super) const AUTO_CONF: &str = "postgresql.auto.conf";
/// How long one statement may take: all are short.
const STATEMENT_MAX: Duration = Duration::from_secs(60);

/// A setting as a new session finds it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Now {
    /// In the setting's own unit.
    pub(super) value: String,
    /// The same as people write it.
    pub(super) shown: String,
    pub(super) kind: Kind,
    /// When it can be changed: `postmaster`, `sighup`, `user`, ...
    pub(super) context: String,
    /// Where the value comes from: `default`, `configuration file`, `command line`, ...
    pub(super) source: String,
    /// The file that it comes from, if our user may know.
    pub(super) file: Option<String>,
    pub(super) pending_restart: bool,
}

impl Now {
    /// Whether configuration files decide it, or nothing does.
    pub(super) fn is_from_files(&self) -> bool {
        matches!(self.source.as_str(), "" | "default" | "configuration file" | "override")
    }

    /// Whether only a restart changes it.
    pub(super) fn needs_restart(&self) -> bool {
        self.context == "postmaster"
    }
}

/// Entries of configuration files, as the server reads them now.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Files {
    /// Values of `postgresql.auto.conf` by setting; names in lower case.
    pub(super) auto: BTreeMap<String, Vec<String>>,
    /// Lines that the server cannot use, in words.
    pub(super) errors: Vec<String>,
}

impl Files {
    /// The entry of a setting: the last one counts.
    pub(super) fn entry(&self, name: &str) -> Option<&str> {
        self.auto.get(&name.to_ascii_lowercase())?.last().map(String::as_str)
    }
}

/// A session to administer, which works even if the user wants to stop: it may be there to undo.
pub(super) fn open(conninfo: &Conninfo) -> Result<Session> {
    let mut session = Session::connect(conninfo)?;
    session.set_timeout(Some(STATEMENT_MAX));
    session.administer()?;
    Ok(session)
}

/// A session that holds the lock: outside the database that is measured, where it would stand in the way of a copy, if
/// there is another one that lets it in.
pub(super) fn open_aside(conninfo: &Conninfo) -> Result<Session> {
    let aside = Conninfo { dbname: MAINTENANCE.to_string(), ..conninfo.clone() };
    open(&aside).or_else(|_| open(conninfo))
}

/// What identifies the cluster; copies of its disk and its standbys have the same. It becomes part of a file's name: nothing but
/// a number is one.
pub(super) fn system_identifier(session: &mut Session) -> Result<String> {
    let answer = ask(session, "select system_identifier from pg_catalog.pg_control_system()")
        .context("the server does not tell its system identifier")?;
    number_of(&answer)
}

fn number_of(system_identifier: &str) -> Result<String> {
    let number: u64 = system_identifier.parse().with_context(|| {
        let shown: String = system_identifier.chars().take(40).collect();
        format!("the server gives `{shown}` as its system identifier, which is not a number; its settings are not changed")
    })?;
    Ok(number.to_string())
}

pub(super) fn data_directory(session: &mut Session) -> Result<String> {
    ask(session, "select pg_catalog.current_setting('data_directory')")
        .context("the server does not tell its data directory")
}

/// The settings of these names, by the names that the server gives them. Those that it does not have are absent.
pub(super) fn settings(session: &mut Session, names: &[&str]) -> Result<BTreeMap<String, Now>> {
    let list: Vec<String> = names.iter().map(|name| quote_literal(&name.to_ascii_lowercase())).collect();
    let sql = format!(
        "select name, setting, pg_catalog.current_setting(name) as shown, unit, vartype, context, source, sourcefile, min_val, max_val, \
         pg_catalog.array_to_string(enumvals, ',') as words, pending_restart::text as pending \
         from pg_catalog.pg_settings where pg_catalog.lower(name) in ({})",
        list.join(", ")
    );
    let rows = session.query(&sql)?;
    let text = |row: usize, column: &str| rows.get(row, column).map(str::to_string);
    let now = |row: usize| {
        let kind = Kind {
            vartype: text(row, "vartype").unwrap_or_default(),
            unit: text(row, "unit"),
            min: text(row, "min_val"),
            max: text(row, "max_val"),
            words: words(rows.get(row, "words").unwrap_or_default()),
        };
        let now = Now {
            value: text(row, "setting").unwrap_or_default(),
            shown: text(row, "shown").unwrap_or_default(),
            kind,
            context: text(row, "context").unwrap_or_default(),
            source: text(row, "source").unwrap_or_default(),
            file: text(row, "sourcefile"),
            pending_restart: rows.get(row, "pending") == Some("true"),
        };
        Some((text(row, "name")?, now))
    };
    Ok((0..rows.len()).filter_map(now).collect())
}

/// The words of an `enum`.
pub(super) fn words(list: &str) -> Vec<String> {
    list.split(',').filter(|word| !word.is_empty()).map(str::to_string).collect()
}

/// Settings that wait for a restart. What the command line decides waits forever, if a file says something else.
pub(super) fn pending(session: &mut Session) -> Result<Vec<String>> {
    let sql = "select name from pg_catalog.pg_settings where pending_restart \
               and source not in ('command line', 'environment variable') order by 1";
    let rows = session.query(sql)?;
    Ok((0..rows.len()).filter_map(|row| rows.get(row, "name").map(str::to_string)).collect())
}

/// The entries of the configuration files. For this session, settings of which they say something else wait for a restart from
/// then on: ask for those before, or in another session.
pub(super) fn files(session: &mut Session, data_directory: &str) -> Result<Files> {
    let sql = "select f.sourcefile, f.sourceline::text as line, f.name, f.setting, f.error, s.source \
               from pg_catalog.pg_file_settings f \
               left join pg_catalog.pg_settings s on pg_catalog.lower(s.name) = pg_catalog.lower(f.name) order by f.seqno";
    let rows = session.query(sql).context("cannot read pg_file_settings")?;
    let auto = Path::new(data_directory).join(AUTO_CONF);
    let mut files = Files::default();
    for row in 0..rows.len() {
        let file = rows.get(row, "sourcefile").unwrap_or_default();
        // Where the command line decides, the server says that what the file says cannot be applied.
        let is_decided = matches!(rows.get(row, "source"), Some("command line" | "environment variable"));
        if let Some(error) = rows.get(row, "error")
            && !is_decided
        {
            let line = rows.get(row, "line").unwrap_or_default();
            files.errors.push(format!("{file}, line {line}: {error}"));
        }
        if let Some((name, value)) = rows.get(row, "name").zip(rows.get(row, "setting"))
            && Path::new(file) == auto
        {
            files.auto.entry(name.to_ascii_lowercase()).or_default().push(value.to_string());
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_system_identifier_that_could_lead_to_another_file_is_refused() {
        assert_eq!(number_of("7300000000000000001").unwrap(), "7300000000000000001");
        for hostile in ["../../etc/x", "", "-1", "7/..", "99999999999999999999", &"7".repeat(5000)] {
            let error = number_of(hostile).unwrap_err().to_string();
            assert!(error.contains("as its system identifier") && error.len() < 200, "{error}");
        }
    }
}
