//! Other databases that pgdyno made for the one that it measures: how they are found and removed.
//!
//! One is dropped only if it is proven to contain nothing but what pgdyno put there. A template was closed to
//! connections by the very statement that created it, so that nobody can have put anything there. One that was open has
//! the digest of its contents in its mark, and is closed and inspected once more.

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};
use wire::{Session, quote_ident, quote_literal};

use super::LOCK;
use super::door::{Doors, MAINTENANCE, closed_inventory};
use super::mark::{DatabaseMark, DatabaseRole};

/// Prefix of the names of these databases.
const PREFIX: &str = "pgdyno_";
/// Connection limit of a template: with connections not allowed, it limits nothing, and it is the mark of a copy whose
/// comment is not written yet, because `CREATE DATABASE` alone sets it. `pgdz` in ASCII.
pub(super) const BIRTHMARK: u32 = 0x7067_647a;

/// A database whose name has the prefix.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) name: String,
    oid: u32,
    allows_connections: bool,
    has_birthmark: bool,
    is_owned: bool,
    mark: Option<DatabaseMark>,
    /// Whether the database that it belongs to exists: if not, this may be the only copy.
    of: Option<String>,
}

/// The outcome for a database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeftoverOutcome {
    /// The database was dropped.
    Removed,
    /// The database stays, for this reason.
    Left(String),
}

/// Removes all databases that pgdyno made on a server to restore others, except those of a running pgdyno. Returns each
/// with its fate.
///
/// # Errors
/// When the server fails.
pub fn clean(doors: &Doors) -> Result<Vec<(String, LeftoverOutcome)>> {
    let mut maintenance = match doors.open(MAINTENANCE) {
        Ok(session) => session,
        Err(error) => return listed(doors, &error),
    };
    let mut fates = Vec::new();
    for found in list(&mut maintenance, None)? {
        let lock =
            found.of.as_deref().map(|of| format!("({LOCK}, pg_catalog.hashtext({}))", quote_literal(of)));
        if let Some(lock) = &lock
            && maintenance.query(&format!("select pg_catalog.pg_try_advisory_lock{lock}"))?.scalar()
                != Some("t")
        {
            fates.push((found.name, LeftoverOutcome::Left("a running pgdyno uses it".to_string())));
            continue;
        }
        let fate = remove(doors, &mut maintenance, &found);
        if let Some(lock) = lock {
            maintenance.execute(&format!("select pg_catalog.pg_advisory_unlock{lock}"))?;
        }
        fates.push((found.name, fate.unwrap_or_else(|error| LeftoverOutcome::Left(format!("{error:#}")))));
    }
    Ok(fates)
}

/// Lists those databases and removes none: they are removed from the database `postgres`, where a running pgdyno holds its locks, and a
/// pooler may lack that database.
fn listed(doors: &Doors, error: &anyhow::Error) -> Result<Vec<(String, LeftoverOutcome)>> {
    let found = list(&mut doors.open_own()?, None)?;
    let why = format!(
        "it is removed from database `{MAINTENANCE}`, which cannot be reached: {error:#}; name the server itself"
    );
    Ok(found.into_iter().map(|found| (found.name, LeftoverOutcome::Left(why.clone()))).collect())
}

/// Prefix of the names of all databases that belong to `database`.
pub(super) fn prefix(database: &str) -> String {
    let hash = format!("{:x}", Sha256::digest(database));
    format!("{PREFIX}{}_", &hash[..16])
}

/// The databases whose names have the prefix: all of them, or those of one database.
pub(super) fn list(maintenance: &mut Session, of: Option<&str>) -> Result<Vec<Found>> {
    let sql = "select datname, oid, datallowconn, datconnlimit, pg_catalog.pg_has_role(datdba, 'member'), \
                      pg_catalog.shobj_description(oid, 'pg_database') \
                 from pg_catalog.pg_database order by 1";
    let rows = maintenance.query(sql).context("list the databases")?;
    let text = |row: &[Option<String>], column: usize| row.get(column).cloned().flatten().unwrap_or_default();
    let names: Vec<String> = rows.rows.iter().map(|row| text(row, 0)).collect();
    let mut list = Vec::new();
    for row in rows.rows.iter().filter(|row| text(row, 0).starts_with(PREFIX)) {
        let (name, oid) = (text(row, 0), text(row, 1).parse().unwrap_or_default());
        let mark = DatabaseMark::read(&text(row, 5), oid).filter(|mark| mark.kind != DatabaseRole::Made);
        let owner = names.iter().find(|other| match &mark {
            Some(mark) => mark.of == **other,
            None => name.starts_with(&prefix(other)),
        });
        if of.is_some() && owner.map(String::as_str) != of {
            continue;
        }
        list.push(Found {
            oid,
            allows_connections: text(row, 2) == "t",
            has_birthmark: text(row, 3) == BIRTHMARK.to_string(),
            is_owned: text(row, 4) == "t",
            of: owner.cloned(),
            name,
            mark,
        });
    }
    Ok(list)
}

/// The database `name`, if it has the prefix.
pub(super) fn find(maintenance: &mut Session, name: &str) -> Result<Option<Found>> {
    Ok(list(maintenance, None)?.into_iter().find(|found| found.name == name))
}

/// Drops a database that pgdyno made, if nothing is lost with it.
pub(super) fn remove(doors: &Doors, maintenance: &mut Session, found: &Found) -> Result<LeftoverOutcome> {
    let Found { name, oid, .. } = found;
    if let Some(why) = not_ours(found) {
        return Ok(LeftoverOutcome::Left(why));
    }
    let was_never_open =
        found.has_birthmark && !found.allows_connections && found.mark.as_ref().is_none_or(is_template);
    if !was_never_open {
        let expected = found.mark.as_ref().and_then(|mark| mark.inventory.as_deref()).unwrap_or_default();
        let database = quote_ident(name);
        maintenance.execute(&format!("alter database {database} with allow_connections true"))?;
        let mut inside = doors.open_afterwards(name)?;
        let inventory = closed_inventory(maintenance, &mut inside, name, *oid);
        if inventory.as_ref().map_or(true, |inventory| inventory.digest() != expected) {
            // Whoever created something in it should be able to find it.
            maintenance.execute(&format!("alter database {database} with allow_connections true"))?;
        }
        if let Some(obstacle) = super::obstacle_to_losing(maintenance, name, found.mark.as_ref())? {
            return Ok(LeftoverOutcome::Left(obstacle));
        }
        if inventory?.digest() != expected {
            let of = found.of.as_deref().unwrap_or_default();
            return Ok(LeftoverOutcome::Left(format!(
                "it contains something that pgdyno did not make; it was database `{of}` until a copy took its place: move what is \
                 needed there, then drop database {database}"
            )));
        }
    }
    drop_database(maintenance, name)?;
    Ok(LeftoverOutcome::Removed)
}

fn is_template(mark: &DatabaseMark) -> bool {
    mark.kind == DatabaseRole::Template
}

/// Why a database must not be dropped, by what can be seen without connecting to it.
fn not_ours(found: &Found) -> Option<String> {
    let Found { name, mark, .. } = found;
    let is_closed_from_birth = found.has_birthmark && !found.allows_connections;
    if mark.is_none() && !is_closed_from_birth {
        return Some("it has no mark of pgdyno, so pgdyno did not make it".to_string());
    }
    if !found.is_owned {
        return Some("it belongs to another role".to_string());
    }
    if found.of.is_some() {
        return None;
    }
    let of = mark.as_ref().map_or("of which it is a copy", |mark| mark.of.as_str());
    Some(format!(
        "database `{of}` does not exist, so this may be all that is left of it: rename it (alter database {0} with \
         allow_connections true connection limit -1; alter database {0} rename to ...), or drop it",
        quote_ident(name)
    ))
}

pub(super) fn drop_database(maintenance: &mut Session, name: &str) -> Result<()> {
    let sql = format!("drop database if exists {}", quote_ident(name));
    maintenance.execute(&sql).with_context(|| format!("drop database `{name}`"))
}
