//! Extensions that a directory needs: pgdyno creates them, since a role without rights cannot, and only those that give nobody more than
//! types, functions and kinds of indexes.

use anyhow::{Context, Result, ensure};
use wire::quote_literal;
use wire::session::{Session, quote_ident};
use workload::Schema;

/// Extensions that a directory may need: of contrib those that reach no files, no network and no other sessions, and pgvector.
const KNOWN: [&str; 19] = [
    "bloom",
    "btree_gin",
    "btree_gist",
    "citext",
    "cube",
    "earthdistance",
    "fuzzystrmatch",
    "hstore",
    "intarray",
    "isn",
    "ltree",
    "pg_trgm",
    "pgcrypto",
    "seg",
    "tablefunc",
    "tsm_system_rows",
    "unaccent",
    "uuid-ossp",
    "vector",
];

/// Creates those that the database lacks, in the schema of the workload's tables.
///
/// # Errors
/// When one is not among those that a directory may need, the server's installation does not have it, or the server refuses.
pub fn make_missing(session: &mut Session, needed: &[String], schema: &Schema) -> Result<()> {
    let problems = problems(session, needed)?;
    ensure!(problems.is_empty(), "{}", problems.join("\n"));
    for name in needed {
        if session.extension(name)?.is_none() {
            let sql = format!("create extension {} schema {}", quote_ident(name), quote_ident(schema.name()));
            session
                .execute(&sql)
                .with_context(|| format!("create the extension `{name}`, which the workload needs"))?;
        }
    }
    Ok(())
}

/// What keeps the extensions from being created, one sentence each.
///
/// # Errors
/// When the server fails.
pub fn problems(session: &mut Session, needed: &[String]) -> Result<Vec<String>> {
    if needed.is_empty() {
        return Ok(Vec::new());
    }
    let available = session.query("select name from pg_catalog.pg_available_extensions")?.into_first_column();
    let problem = |name: &String| {
        if !KNOWN.contains(&name.as_str()) {
            return Some(format!(
                "needs.extensions: no workload may create `{name}`; create it yourself in a database that you \
                 name with --server, and leave it out of `needs`"
            ));
        }
        (!available.contains(name)).then(|| {
            format!(
                "the workload needs the extension `{name}`, which this server's installation does not have; install its package, or \
                 choose a server that has it"
            )
        })
    };
    Ok(needed.iter().filter_map(problem).collect())
}

/// Schemas of those that the database has.
///
/// # Errors
/// When the server fails.
pub fn schemas(session: &mut Session, needed: &[String]) -> Result<Vec<String>> {
    if needed.is_empty() {
        return Ok(Vec::new());
    }
    let names: Vec<String> = needed.iter().map(|name| quote_literal(name)).collect();
    let sql = format!(
        "select distinct n.nspname from pg_catalog.pg_extension e join pg_catalog.pg_namespace n on n.oid = e.extnamespace \
         where e.extname in ({}) order by 1",
        names.join(", ")
    );
    Ok(session.query(&sql)?.into_first_column())
}
