//! The mark on a database that pgdyno made: its comment, which says what the database is and to which one it belongs.
//!
//! The server keeps the comment outside the database and does not copy it. The mark names the database's OID, so
//! that neither a dump that is restored elsewhere nor a later database of the same name is taken for pgdyno's.

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use wire::{Session, SessionError, quote_ident, quote_literal};

/// The word before the mark itself, for users who list databases.
const WORD: &str = "pgdyno ";

/// The role of a database that pgdyno made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum DatabaseRole {
    /// Created by `--create-database`, to be loaded and replaced by copies; its user drops it.
    Made,
    /// The initial state of another database, from which that one is restored.
    Template,
    /// The former contents of a database that was restored; to be dropped.
    Replaced,
}

/// The contents of a mark.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DatabaseMark {
    pub(crate) kind: DatabaseRole,
    /// The database that the marked one belongs to: itself if `--create-database` created it.
    pub(crate) of: String,
    /// The OID of the marked database.
    pub(crate) oid: u32,
    /// Digest of the database's contents when they were last read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) inventory: Option<String>,
}

impl DatabaseMark {
    /// Reads a comment; `None` if it is not a mark of the database with this OID.
    pub(crate) fn read(comment: &str, oid: u32) -> Option<DatabaseMark> {
        let mark: DatabaseMark = serde_json::from_str(comment.strip_prefix(WORD)?).ok()?;
        (mark.oid == oid).then_some(mark)
    }

    pub(crate) fn text(&self) -> String {
        format!("{WORD}{}", serde_json::to_string(self).expect("a mark has only texts and numbers"))
    }

    /// The statement that marks the database `name`.
    pub(crate) fn comment_sql(&self, name: &str) -> String {
        format!("comment on database {} is {}", quote_ident(name), quote_literal(&self.text()))
    }
}

/// Creates a database that pgdyno may replace by a copy of itself. `maintenance` is connected to another one.
///
/// # Errors
/// When there is one of that name that pgdyno did not make, or the server refuses.
pub fn create_database(maintenance: &mut Session, name: &str) -> Result<bool> {
    if let Some(oid) = oid_of(maintenance, name)? {
        if is_made(maintenance, name, oid)? {
            return Ok(false);
        }
        bail!(
            "--create-database: database `{name}` exists and pgdyno did not create it; leave the option out, or name another \
             database"
        );
    }
    let sql = format!("create database {}", quote_ident(name));
    if let Err(error) = maintenance.execute(&sql) {
        let is_denied = matches!(&error, SessionError::Server(error) if error.is_denied());
        let needs = if is_denied { needs_createdb(maintenance) } else { String::new() };
        return Err(error).with_context(|| format!("create database `{name}`{needs}"));
    }
    let oid = oid_of(maintenance, name)?.with_context(|| format!("database `{name}` is gone again"))?;
    let mark = DatabaseMark { kind: DatabaseRole::Made, of: name.to_string(), oid, inventory: None };
    maintenance.execute(&mark.comment_sql(name)).context("mark the database as created by pgdyno")?;
    Ok(true)
}

/// What lets our role create databases.
fn needs_createdb(session: &mut Session) -> String {
    let role = session.quoted_if_needed("current_user").ok().flatten().unwrap_or("ROLE".to_string());
    format!(
        " needs a role that may: alter role {role} createdb, as a superuser or a role with CREATEROLE; or let one of them create it, and \
         leave --create-database out"
    )
}

/// The OID of the database `name`.
pub(crate) fn oid_of(session: &mut Session, name: &str) -> Result<Option<u32>> {
    let sql = format!("select oid from pg_catalog.pg_database where datname = {}", quote_literal(name));
    let rows = session.query(&sql)?;
    Ok(rows.scalar().and_then(|oid| oid.parse().ok()))
}

/// Whether pgdyno made the database.
pub(crate) fn is_made(session: &mut Session, name: &str, oid: u32) -> Result<bool> {
    let sql = format!("select pg_catalog.shobj_description({oid}, 'pg_database')");
    let rows = session.query(&sql)?;
    let mark = rows.scalar().and_then(|comment| DatabaseMark::read(comment, oid));
    Ok(mark.is_some_and(|mark| mark.kind == DatabaseRole::Made && mark.of == name))
}

/// The OIDs of databases that are templates, or former contents, of others: pgdyno's own, by their marks.
///
/// # Errors
/// When the server fails.
pub fn copies(session: &mut Session) -> Result<Vec<u32>> {
    let sql =
        "select oid, pg_catalog.shobj_description(oid, 'pg_database') as comment from pg_catalog.pg_database";
    let rows = session.query(sql)?;
    let copy = |row: usize| {
        let oid: u32 = rows.get(row, "oid")?.parse().ok()?;
        let mark = DatabaseMark::read(rows.get(row, "comment")?, oid)?;
        (mark.kind != DatabaseRole::Made).then_some(oid)
    };
    Ok((0..rows.len()).filter_map(copy).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_mark_with_the_oid_of_its_database_is_read() {
        let mark = DatabaseMark {
            kind: DatabaseRole::Template,
            of: "it's {\"a\"}".to_string(),
            oid: 7,
            inventory: None,
        };
        assert_eq!(DatabaseMark::read(&mark.text(), 7), Some(mark.clone()));
        let check = |comment: &str, oid: u32| assert_eq!(DatabaseMark::read(comment, oid), None, "{comment}");
        check(&mark.text(), 8);
        check("", 7);
        check("pgdyno: first state of database x", 7);
        check(&mark.text().replace("template", "something"), 7);
        check(&format!("my {}", mark.text()), 7);
    }
}
