//! The role as which a directory's SQL runs on a server of our own: no superuser, owner of nothing but what it makes, and unable to reach
//! other databases, so that a stranger's directory can be measured without trust in it.

use anyhow::Result;
use wire::Conninfo;
use wire::quote_literal;
use wire::session::{Session, quote_ident};
use workload::Schema;

/// Its name. It logs in by the socket, which only the user of pgdyno can open.
pub const GUEST: &str = "pgdyno_guest";

/// Makes the role, if it is not there, and lets it make tables in the schema.
///
/// # Errors
/// When the server fails.
pub fn make(session: &mut Session, schema: &Schema) -> Result<()> {
    let name = quote_literal(GUEST);
    if session.query(&format!("select from pg_catalog.pg_roles where rolname = {name}"))?.is_empty() {
        session.execute(&format!("create role {GUEST}"))?;
    }
    session.execute(&format!(
        "alter role {GUEST} login nosuperuser nocreatedb nocreaterole noreplication noinherit"
    ))?;
    let others = session
        .query("select datname from pg_catalog.pg_database where datname <> pg_catalog.current_database()")?
        .into_first_column();
    for database in others {
        session.execute(&format!(
            "revoke connect, temporary on database {} from public",
            quote_ident(&database)
        ))?;
    }
    // Before 15 everybody may create in `public`.
    session.execute("revoke create on schema public from public")?;
    Ok(session
        .execute(&format!("grant usage, create on schema {} to {GUEST}", quote_ident(schema.name())))?)
}

/// The same server as that role.
pub fn conninfo(of_owner: &Conninfo) -> Conninfo {
    Conninfo { user: GUEST.to_string(), password: None, ..of_owner.clone() }
}
