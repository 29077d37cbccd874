//! What a role may do on a server: privileges are looked up, and what only trying tells is tried in a transaction that is
//! rolled back. Nothing stays on the server.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use model::release::{Release, privileges};
use model::run::rights::{LZ4, RoleRights};
use model::run::server::ServerRecord;
use wire::session::Extension;
use wire::{Session, quote_ident, quote_literal};

use crate::database::facts::{ask, is_so, is_superuser, version_num};

/// Extensions that help to measure.
const EXTENSIONS: [&str; 2] = ["pg_prewarm", "pg_stat_statements"];
/// Table and schema that exist until the transaction is rolled back.
const TRIED: &str = "pgdyno_doctor";

/// What the role of `session` may do on the server of `record`; tables would be created in `schema`.
pub fn rights(session: &mut Session, record: &ServerRecord, schema: Option<&str>) -> RoleRights {
    let role = ask(session, "select current_user").unwrap_or_default();
    let is_superuser = is_superuser(session);
    let mut rights = RoleRights::new();
    let mut put = |name: &str, right: Result<String, String>| drop(rights.insert(name.to_string(), right));
    let none = |what: &str| format!("role `{role}` {what}");
    put("superuser", if is_superuser { Ok(none("is a superuser")) } else { Err(none("is no superuser")) });
    let may_create = is_so(
        session,
        "select rolcreatedb or rolsuper from pg_catalog.pg_roles where rolname = current_user",
    );
    put("createdb", if may_create { Ok(none("may")) } else { Err(none("cannot create databases")) });
    put("io-timing", io_timing(session, record, is_superuser));
    put(LZ4, lz4(session));
    put("create-tables", create_tables(session, record, schema, &role));
    for name in EXTENSIONS {
        put(name, extension(session, record, is_superuser, name));
    }
    rights
}

/// Those of `names`, settings of the server, that the role of `session` may set in a session of its own.
///
/// # Errors
/// When the server fails.
pub fn settable(session: &mut Session, names: &[&str]) -> Result<BTreeSet<String>> {
    let is_superuser = is_superuser(session);
    let version_num = version_num(session)?;
    let quoted: Vec<String> = names.iter().map(|name| quote_literal(name)).collect();
    let sql = format!(
        "select name, context from pg_catalog.pg_settings where name in ({}) and context in ('user', 'superuser')",
        quoted.join(", ")
    );
    let rows = session.query(&sql).context("look up the settings of sessions")?;
    let mut found = BTreeSet::new();
    for row in 0..rows.len() {
        let (Some(name), Some(context)) = (rows.get(row, "name"), rows.get(row, "context")) else { continue };
        let granted = format!("select pg_catalog.has_parameter_privilege({}, 'set')", quote_literal(name));
        let may = context == "user"
            || is_superuser
            || Release::new(version_num).has(privileges::PARAMETERS) && is_so(session, &granted);
        found.extend(may.then(|| name.to_string()));
    }
    Ok(found)
}

fn io_timing(session: &mut Session, record: &ServerRecord, is_superuser: bool) -> Result<String, String> {
    if record.setting("track_io_timing") == Some("on") {
        return Ok("on".to_string());
    }
    let granted = "select pg_catalog.has_parameter_privilege('track_io_timing', 'set')";
    let may_set = is_superuser || record.has(privileges::PARAMETERS) && is_so(session, granted);
    Err(if may_set {
        "off, which this role may change".to_string()
    } else {
        "off, and only a superuser may change it, or from 15 on a role that is granted SET on it".to_string()
    })
}

/// Whether the build can compress WAL by lz4: one without it does not have the value.
fn lz4(session: &mut Session) -> Result<String, String> {
    let sql = "select coalesce('lz4' = any (enumvals), false) from pg_catalog.pg_settings where name = 'wal_compression'";
    if is_so(session, sql) {
        Ok("there".to_string())
    } else {
        Err("wal_compression has no such value".to_string())
    }
}

fn create_tables(
    session: &mut Session,
    record: &ServerRecord,
    schema: Option<&str>,
    role: &str,
) -> Result<String, String> {
    if record.in_recovery {
        return Err("a standby takes no writes".to_string());
    }
    let schema = schema.ok_or(format!("no schema of the search path exists that `{role}` may use"))?;
    // Looked up first, so that no error gets into the server's log.
    let sql = format!("select pg_catalog.has_schema_privilege({}, 'create')", quote_literal(schema));
    if !is_so(session, &sql) {
        return Err(format!("`{role}` cannot create tables in schema `{schema}`"));
    }
    let table = format!("{}.{TRIED}", quote_ident(schema));
    tried(session, &[&format!("create table {table} (a integer)")])?;
    Ok(format!("in schema `{schema}`"))
}

/// Whether an extension is there, or could be created.
fn extension(
    session: &mut Session,
    record: &ServerRecord,
    is_superuser: bool,
    name: &str,
) -> Result<String, String> {
    let quoted = quote_literal(name);
    let installed = session.extension(name).ok().flatten();
    if let Some(objection) = installed.as_ref().and_then(|installed| installed.objection(name)) {
        return Err(objection);
    }
    let needs_preload = name == "pg_stat_statements";
    if let Some(Extension::Safe { version, .. }) = installed {
        return if needs_preload && !record.has_loaded(name) {
            Err(format!("{version} is installed, but its library is not loaded (shared_preload_libraries)"))
        } else {
            Ok(format!("{version} is installed"))
        };
    }
    let offered =
        format!("select default_version from pg_catalog.pg_available_extensions where name = {quoted}");
    let version = ask(session, &offered).map_err(|_| "the server does not offer it".to_string())?;
    let trusted = format!(
        "select bool_or(trusted) and pg_catalog.has_database_privilege(pg_catalog.current_database(), 'create') \
         from pg_catalog.pg_available_extension_versions where name = {quoted}"
    );
    let may = is_superuser || record.has(privileges::TRUSTED_EXTENSIONS) && is_so(session, &trusted);
    if !may {
        return Err(format!("{version} is offered, not installed, and this role cannot create it"));
    }
    if record.in_recovery {
        return Err(format!("{version} is offered, not installed, and a standby takes no writes"));
    }
    // In a schema of its own: its script finds nothing that somebody else has put there.
    let create = format!("create extension {name} schema {TRIED}");
    tried(session, &[&format!("create schema {TRIED}"), &create])?;
    Err(format!("{version} can be created, and is not installed in this database"))
}

/// Executes statements and rolls them back. The server's reason if it refuses.
fn tried(session: &mut Session, statements: &[&str]) -> Result<(), String> {
    let mut result = session.execute("begin");
    for statement in statements {
        result = result.and_then(|()| session.execute(statement));
    }
    let back = session.execute("rollback");
    result.and(back).map_err(|error| error.to_string())
}

/// Sessions of clients on the server; `None` if it does not say.
pub fn n_sessions(session: &mut Session) -> Option<u32> {
    // Processes in the background have no database.
    let sql = "select count(*) from pg_catalog.pg_stat_activity where datid is not null";
    ask(session, sql).ok()?.parse().ok()
}
