//! Which schema of a database has a workload's tables: one that the user names, or the first of the search path.
//!
//! Each session that needs it looks it up once; from then on, every statement qualifies its tables with it.

use anyhow::{Context, Result, anyhow, bail, ensure};
use wire::quote_literal;
use wire::session::{Session, quote_ident};
use workload::Schema;

/// Longest name in PostgreSQL: NAMEDATALEN minus the terminating zero.
const NAME_BYTES_MAX: usize = 63;

/// Fails for a name that a user's schema cannot have.
///
/// # Errors
/// The reason, in words.
pub fn expect_name(name: &str) -> Result<(), String> {
    if name.is_empty() || name.len() > NAME_BYTES_MAX || name.contains('\0') {
        return Err(format!("`{name}` cannot be a schema name: names have 1 to {NAME_BYTES_MAX} bytes"));
    }
    if name == "information_schema" || name.starts_with("pg_") {
        return Err(format!("`{name}` is a system schema; name your own"));
    }
    Ok(())
}

/// The schema `asked` for, or else the first of the search path that exists and that the user may use.
///
/// # Errors
/// When there is none, or the server fails.
pub fn find(session: &mut Session, asked: Option<&str>) -> Result<Schema> {
    match asked {
        Some(name) => named(session, name),
        None => first_searched(session),
    }
}

fn named(session: &mut Session, name: &str) -> Result<Schema> {
    expect_name(name).map_err(anyhow::Error::msg)?;
    let sql = format!(
        "select current_database(), current_user, \
         (select pg_catalog.has_schema_privilege(n.oid, 'usage') from pg_catalog.pg_namespace n where n.nspname = {})",
        quote_literal(name)
    );
    let rows = session.query(&sql)?;
    let text = |column: usize| rows.rows.first()?.get(column)?.as_deref();
    let (database, user) = (text(0).unwrap_or_default(), text(1).unwrap_or_default());
    match text(2) {
        Some("t") => Ok(Schema::named(name)),
        Some(_) => bail!(
            "`{user}` cannot use schema `{name}` of database `{database}`; grant usage on it, or name another"
        ),
        None => bail!(
            "database `{database}` has no schema `{name}`; create it first: create schema {}",
            quote_ident(name)
        ),
    }
}

fn first_searched(session: &mut Session) -> Result<Schema> {
    if let Some(path) = session.search_path() {
        return match path.schemas.iter().find(|name| expect_name(name).is_ok()) {
            Some(name) => Ok(Schema::named(name)),
            None => Err(none_searched(session)?),
        };
    }
    // The server omits schemas that do not exist or that the user cannot use.
    let sql = "select s from pg_catalog.unnest(pg_catalog.current_schemas(false)) s \
               where s::text !~ '^pg_' and s::text <> 'information_schema' limit 1";
    match session.query(sql)?.scalar() {
        Some(name) => Ok(Schema::named(name)),
        None => Err(none_searched(session)?),
    }
}

fn none_searched(session: &mut Session) -> Result<anyhow::Error> {
    let rows = session.query("select current_database(), current_user")?;
    let text =
        |column: usize| rows.rows.first().and_then(|row| row.get(column)?.as_deref()).unwrap_or_default();
    Ok(anyhow!(
        "database `{}` has none of the schemas in the search path of `{}`; create one, set search_path, or name a schema with \
         --schema (workload.schema)",
        text(0),
        text(1)
    ))
}

/// Creates the schema that is asked for in a database that belongs to pgdyno.
///
/// # Errors
/// When the server fails.
pub fn make(session: &mut Session, asked: Option<&str>) -> Result<()> {
    let Some(name) = asked else { return Ok(()) };
    expect_name(name).map_err(anyhow::Error::msg)?;
    Ok(session.execute(&format!("create schema if not exists {}", quote_ident(name)))?)
}

/// Fails unless the user may create tables in the schema.
pub fn expect_creatable(session: &mut Session, schema: &Schema, place: &str) -> Result<()> {
    let sql = format!(
        "select current_user, current_database(), pg_catalog.has_schema_privilege(n.oid, 'create') \
         from pg_catalog.pg_namespace n where n.nspname = {}",
        quote_literal(schema.name())
    );
    let rows = session.query(&sql)?;
    let row = rows.rows.first().with_context(|| format!("schema `{}` is gone", schema.name()))?;
    let text = |column: usize| row.get(column).and_then(Option::as_deref).unwrap_or_default();
    ensure!(
        text(2) == "t",
        "`{}` cannot create tables in schema `{}` of database `{}` at `{place}`; grant create on it, name another schema \
         with --schema, use a database that the user owns, or, if the tables are there, add --no-restore to a run, which measures them as they are",
        text(0),
        schema.name(),
        text(1)
    );
    Ok(())
}

/// One sentence for all that keeps a role from loading tables, of which the first is that it cannot create them, with what it can do.
pub fn cannot_load(problems: Vec<String>) -> Option<String> {
    if problems.len() < 2 {
        return problems.into_iter().next();
    }
    // What to do about each is of no use while the role lacks the others.
    let reasons: Vec<&str> = problems.iter().filter_map(|why| why.split("; ").next()).collect();
    Some(format!(
        "{}; connect as the owner of the tables to load them again, or use a database of this role; a role that may only read can measure \
         them as they are: pgdyno run -w tpcb-select --no-restore, or -f with your own script and --no-restore",
        reasons.join(", and ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_role_lacks_is_one_sentence_with_what_it_can_do() {
        let of = |problems: &[&str]| cannot_load(problems.iter().map(ToString::to_string).collect());
        assert_eq!(of(&[]), None);
        assert_eq!(of(&["a; grant it"]).as_deref(), Some("a; grant it"));
        let said = of(&["a; grant it", "b; drop it"]).unwrap();
        assert!(said.starts_with("a, and b; connect as the owner"), "{said}");
        assert!(said.contains("-w tpcb-select --no-restore") && !said.contains("drop it"), "{said}");
    }

    #[test]
    fn names_that_no_schema_of_a_user_can_have_are_refused() {
        let check = |name: &str, expected: bool| assert_eq!(expect_name(name).is_ok(), expected, "{name}");
        check("app", true);
        check("a\"b C", true);
        check(&"x".repeat(63), true);
        check(&"x".repeat(64), false);
        check("", false);
        check("pg_temp", false);
        check("information_schema", false);
    }
}
