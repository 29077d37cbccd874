//! Runs a file of SQL that creates a user's own data, statement by statement.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Result, anyhow, bail};
use model::experiment::script::archive::SET_BY_DUMPS;
use wire::session::{Session, SessionError};
use workload::script::sqlfile::dump::{
    DumpFile, RolesHere, Treatment, makes_schema_public, marks_schema_public,
};
use workload::script::sqlfile::roles::role_made;
use workload::script::sqlfile::{DumpPart, SqlStep, line_and_column};

use crate::session::STOPPED;

/// SQLSTATE of a setting that the server does not have.
const UNDEFINED_OBJECT: &str = "42704";
/// Size of one piece of COPY data.
const PIECE_BYTES: usize = 64 * 1024;

/// What became of a file's statements.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Executed {
    /// Number of statements.
    pub n_statements: u64,
    /// Settings at the head of a newer dump that the server does not have.
    pub unknown: BTreeSet<&'static str>,
    /// What is for another server or database, and what a server of our own does not give: `LOGIN of app`.
    pub left_out: BTreeSet<String>,
}

/// A file of SQL, and where it runs.
pub struct DataFile<'a> {
    /// The name in messages.
    pub name: &'a str,
    /// The statements.
    pub dump: &'a DumpFile<'a>,
    /// The roles of a server of our own, where it makes more; of a server by URL, its roles are the user's.
    pub roles: Option<&'a mut RolesHere>,
}

/// Runs the statements of a file.
///
/// # Errors
/// With file, line and column of the failed statement; those before it have been executed.
pub fn run(session: &mut Session, file: DataFile, stop: &AtomicBool) -> Result<Executed> {
    let DataFile { name, dump, mut roles } = file;
    let text = dump.source();
    let mut executed = Executed::default();
    let mut keeps_public = false;
    for part in dump.parts() {
        if stop.load(Ordering::Relaxed) {
            bail!(STOPPED);
        }
        let step = match part {
            DumpPart::Statement(step) => step,
            DumpPart::Connect { database, .. } => {
                executed.left_out.insert(format!("\\connect {database}"));
                continue;
            }
        };
        executed.n_statements += 1;
        keeps_public |= makes_schema_public(&step.text) && has_schema_public(session)?;
        if keeps_public && is_about_public(&step.text) {
            executed.left_out.insert("the schema public, which exists".to_string());
            continue;
        }
        let done = match dump.treat(&step.text, roles.as_deref()) {
            Treatment::AsItIs => run_step(session, &step),
            Treatment::Instead { statement, without } => {
                executed.left_out.extend(without);
                session.execute(&statement)
            }
            Treatment::LeftOut(what) => {
                executed.left_out.insert(what);
                continue;
            }
        };
        let Err(error) = done else {
            if let Some(roles) = roles.as_deref_mut() {
                roles.made.extend(role_made(&step.text));
            }
            continue;
        };
        match unknown_setting(&step.text, &error) {
            Some(setting) => {
                executed.unknown.insert(setting);
            }
            None => {
                let (line, column) = line_and_column(text, step.start + offset(&step, &error));
                let lacks = lacks(&error).map_or(String::new(), |lacks| format!(" needs {lacks}"));
                return Err(anyhow::Error::new(error).context(format!("{name}:{line}:{column}{lacks}")));
            }
        }
    }
    Ok(executed)
}

/// A file of data that can be executed, of this name and text.
///
/// # Errors
/// With file, line and column of what is not SQL, or not for one database.
pub fn parsed<'a>(name: &str, text: &'a str) -> Result<DumpFile<'a>> {
    DumpFile::from_source(text).map_err(|error| {
        let (line, column) = line_and_column(text, error.start);
        anyhow!("{name}:{line}:{column}: {}", error.message)
    })
}

/// Whether a statement makes the schema `public`, or says whose it is: one that is there stays as it is.
fn is_about_public(statement: &str) -> bool {
    makes_schema_public(statement) || marks_schema_public(statement)
}

/// Whether the database has the schema `public`.
///
/// # Errors
/// When the server fails.
pub fn has_schema_public(session: &mut Session) -> Result<bool> {
    let rows = session.query("select 1 from pg_catalog.pg_namespace where nspname = 'public'")?;
    Ok(!rows.is_empty())
}

/// The setting that this statement of a dump sets, if the server does not have it.
fn unknown_setting(statement: &str, error: &SessionError) -> Option<&'static str> {
    let SessionError::Server(error) = error else { return None };
    let mut words = statement.lines().last()?.split_ascii_whitespace();
    let is_set = words.next().is_some_and(|word| word.eq_ignore_ascii_case("set"));
    let name = words.next().filter(|_| is_set && error.sqlstate == UNDEFINED_OBJECT)?;
    SET_BY_DUMPS.into_iter().find(|known| *known == name)
}

/// What the server lacks for a statement, with what to do: a tablespace or an extension, which the file does not bring along. A server
/// that speaks another language than English gets no advice.
fn lacks(error: &SessionError) -> Option<String> {
    let SessionError::Server(error) = error else { return None };
    let detail = error.detail.as_deref().unwrap_or_default();
    // As the message, or of a setting that names one as its detail.
    let is_tablespace = [error.message.as_str(), detail].into_iter().any(|text| {
        text.to_ascii_lowercase().starts_with("tablespace \"") && text.contains("\" does not exist")
    });
    if is_tablespace {
        return Some(
            "a tablespace that this server does not have; create it before, on the server or at the head of the file (CREATE TABLESPACE), or leave \
             TABLESPACE and default_tablespace out of the file"
                .to_string(),
        );
    }
    // Older releases name the file instead (58P01).
    let is_extension = error.message.starts_with("extension \"")
        && error.message.ends_with("\" is not available")
        || error.message.starts_with("could not open extension control file");
    is_extension.then(|| {
        "an extension that this server's installation does not have; install its package (for a server that pgdyno has fetched: measure an \
         installed one of that version), or leave CREATE EXTENSION out of the file"
            .to_string()
    })
}

/// Position of the error in the statement according to the server, in bytes.
fn offset(step: &SqlStep, error: &SessionError) -> usize {
    let SessionError::Server(error) = error else { return 0 };
    step.text.chars().take(error.character()).map(char::len_utf8).sum()
}

fn run_step(session: &mut Session, step: &SqlStep) -> std::result::Result<(), SessionError> {
    let Some(mut rows) = step.rows else { return session.execute(&step.text) };
    let copied = session.copy_in(&step.text, |out| {
        let mut end = rows.len().min(PIECE_BYTES);
        while !rows.is_char_boundary(end) {
            end += 1;
        }
        out.extend_from_slice(&rows.as_bytes()[..end]);
        rows = &rows[end..];
        !rows.is_empty()
    });
    copied.map(drop)
}
