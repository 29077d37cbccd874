//! The tablespace that a load puts its tables and indexes into.
//!
//! Each transaction that creates tables or indexes sets `default_tablespace` for itself: that reaches partitions and their
//! indexes on all releases, and works where a pooler gives each transaction another session.

use std::path::PathBuf;

use anyhow::Result;
use wire::quote_literal;
use wire::session::{Session, quote_ident};

use crate::streams::{JobStep, StreamJob, TransactionPart};

/// Longest name in PostgreSQL: NAMEDATALEN minus the terminating zero.
const NAME_BYTES_MAX: usize = 63;
/// The tablespace of shared catalogs, which takes no tables of users.
const OF_CATALOGS: &str = "pg_global";

/// Fails for a name that a tablespace with tables of a user cannot have.
///
/// # Errors
/// The reason, in words.
pub fn expect_name(name: &str) -> Result<(), String> {
    if name.is_empty() || name.len() > NAME_BYTES_MAX || name.contains('\0') {
        return Err(format!("`{name}` cannot be a tablespace: names have 1 to {NAME_BYTES_MAX} bytes"));
    }
    if name == OF_CATALOGS {
        return Err(format!("`{name}` is for the catalogs that all databases share; name another"));
    }
    Ok(())
}

/// Why the user cannot create tables in the tablespace of this name, and what to do.
///
/// # Errors
/// When the server fails.
pub(crate) fn problem(session: &mut Session, name: &str) -> Result<Option<String>> {
    if let Err(message) = expect_name(name) {
        return Ok(Some(message));
    }
    // A database's own tablespace needs no privilege.
    let sql = format!(
        "select t.spcname, current_user, t.spcname = {} as is_wanted, \
           t.oid = d.dattablespace or pg_catalog.has_tablespace_privilege(t.oid, 'create') as is_usable \
         from pg_catalog.pg_tablespace t, pg_catalog.pg_database d \
         where d.datname = current_database() and t.spcname <> {} order by 1",
        quote_literal(name),
        quote_literal(OF_CATALOGS)
    );
    let rows = session.query(&sql)?;
    let value = |row: usize, column: &str| rows.get(row, column).unwrap_or_default();
    let names: Vec<String> = (0..rows.len()).map(|row| format!("`{}`", value(row, "spcname"))).collect();
    Ok(match (0..rows.len()).find(|row| value(*row, "is_wanted") == "t") {
        None => Some(format!("the server has no tablespace `{name}`; it has {}", names.join(", "))),
        Some(row) if value(row, "is_usable") != "t" => {
            let user = value(row, "current_user");
            Some(format!(
                "`{user}` cannot create tables in tablespace `{name}`; let its owner run: grant create on tablespace {} to {}",
                quote_ident(name),
                quote_ident(user)
            ))
        }
        Some(_) => None,
    })
}

/// The directory of a tablespace of the user's; `None` for those in the data directory.
///
/// # Errors
/// When the server fails.
pub fn directory(session: &mut Session, name: &str) -> Result<Option<PathBuf>> {
    let sql = format!(
        "select pg_catalog.pg_tablespace_location(t.oid) from pg_catalog.pg_tablespace t where t.spcname = {}",
        quote_literal(name)
    );
    let rows = session.query(&sql)?;
    let directory = rows.scalar().map(PathBuf::from);
    // Those of tests may be relative to the data directory (`allow_in_place_tablespaces`).
    Ok(directory.filter(|directory| directory.is_absolute()))
}

/// The statements of one transaction, with the one before them that chooses the tablespace.
pub(crate) fn first(name: Option<&str>, statements: Vec<String>) -> Vec<String> {
    name.map(choose).into_iter().chain(statements).collect()
}

/// Jobs whose transactions create what they create in the tablespace.
pub(crate) fn within(name: Option<&str>, mut jobs: Vec<StreamJob>) -> Vec<StreamJob> {
    let Some(name) = name else { return jobs };
    for step in jobs.iter_mut().flat_map(|job| &mut job.steps) {
        if let JobStep::Transaction(parts) = step {
            parts.insert(0, TransactionPart::Execute(choose(name)));
        }
    }
    jobs
}

fn choose(name: &str) -> String {
    format!("set local default_tablespace = {}", quote_ident(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_no_tablespace_of_a_user_can_have_are_refused() {
        let check = |name: &str, expected: bool| assert_eq!(expect_name(name).is_ok(), expected, "{name}");
        check("fast", true);
        check("pg_default", true);
        check("a\"b C", true);
        check("pg_global", false);
        check("", false);
        check(&"x".repeat(64), false);
    }

    #[test]
    fn every_transaction_chooses_for_itself() {
        let job = || {
            let transaction =
                JobStep::Transaction(vec![TransactionPart::Execute("create index".to_string())]);
            StreamJob::new("x", vec![transaction, JobStep::Alone("vacuum".to_string())])
        };
        let texts = |jobs: Vec<StreamJob>| -> Vec<String> {
            let of_step = |step| match step {
                JobStep::Transaction(parts) => parts
                    .into_iter()
                    .map(|part| if let TransactionPart::Execute(sql) = part { sql } else { String::new() })
                    .collect(),
                JobStep::Alone(sql) => vec![sql],
            };
            jobs.into_iter().flat_map(|job| job.steps).flat_map(of_step).collect()
        };
        assert_eq!(texts(within(None, vec![job()])), ["create index", "vacuum"]);
        let chosen = ["set local default_tablespace = \"a b\"", "create index", "vacuum"];
        assert_eq!(texts(within(Some("a b"), vec![job()])), chosen);
    }
}
