//! What a server reports about itself, and what it does not allow our user. Reading leaves no trace on the server.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use model::release::{Release, functions, privileges, statistics};
use model::run::server::{LoadConnections, Route, ServerRecord, Setting};
use model::secret::hide_value;
use wire::{Session, quote_literal};

use crate::binaries::Binaries;

/// Rows of the view `pg_config` that say how the binaries were built.
const BUILD_NAMES: &str = "'CC', 'CFLAGS', 'CPPFLAGS', 'LDFLAGS', 'CONFIGURE', 'VERSION'";

/// Facts that are only available on the server's machine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LocalFacts {
    /// SHA-256 of the `postgres` executable, hexadecimal.
    pub executable_sha256: Option<String>,
}

impl LocalFacts {
    /// The facts of binaries on this machine.
    pub fn read(binaries: &Binaries) -> LocalFacts {
        LocalFacts { executable_sha256: binaries.executable_sha256().ok() }
    }
}

/// The record of the server that `session` is connected to.
///
/// # Errors
/// Only when the server does not answer what every PostgreSQL answers; anything else that is missing is in `unavailable`.
pub fn record(session: &mut Session, local: Option<&LocalFacts>) -> Result<ServerRecord> {
    let mut unavailable = BTreeMap::new();
    let version = ask(session, "select pg_catalog.version()").context("ask the server for its version")?;
    let version_num = version_num(session)?;
    let settings = settings(session, version_num).context("read the server's settings")?;
    let build = match build(session) {
        Ok(build) if !build.is_empty() => build,
        Ok(_) => note(&mut unavailable, "build", "the view pg_config is empty"),
        Err(error) => note(&mut unavailable, "build", &format!("{error:#}")),
    };
    let system_identifier = ask(session, "select system_identifier from pg_catalog.pg_control_system()");
    let system_identifier = system_identifier
        .map_err(|error| {
            unavailable.insert("system_identifier".to_string(), format!("{error:#}"));
        })
        .ok();
    let database_bytes = ask(session, "select pg_catalog.pg_database_size(pg_catalog.current_database())");
    let database_bytes = match database_bytes.and_then(|bytes| Ok(bytes.parse()?)) {
        Ok(bytes) => bytes,
        Err(error) => {
            unavailable.insert("database_bytes".to_string(), format!("{error:#}"));
            0
        }
    };
    let receivers = receivers(session).unwrap_or_else(|error| {
        unavailable.insert("receivers".to_string(), format!("{error:#}"));
        Vec::new()
    });
    unavailable.extend(lacking(session, version_num));
    let value_of = |name: &str| settings.get(name).map(|setting| setting.value.clone());
    Ok(ServerRecord {
        version,
        version_num,
        build,
        executable_sha256: local.and_then(|local| local.executable_sha256.clone()),
        data_checksums: value_of("data_checksums").as_deref() == Some("on"),
        system_identifier,
        postmaster_start: ask(session, "select pg_catalog.pg_postmaster_start_time()").unwrap_or_default(),
        route: route(session),
        receivers,
        in_recovery: in_recovery(session),
        database_bytes,
        data_directory: value_of("data_directory"),
        settings,
        unavailable,
    })
}

/// The way to the server. A pooler counts as one in session mode here: whether it assigns connections for each transaction
/// takes two sessions to find out.
fn route(session: &mut Session) -> Option<Route> {
    let host = session.host();
    let reached = if host.is_unix() {
        format!("socket:{}", host.port)
    } else {
        format!("{}:{}", host.hostaddr.as_deref().unwrap_or(&host.host), host.port)
    };
    let sql = "select coalesce(pg_catalog.host(pg_catalog.inet_server_addr()) || ':' || pg_catalog.inet_server_port(), 'socket:' || pg_catalog.current_setting('port'))";
    let answered = ask(session, sql).ok()?;
    // A pooler answers the startup packet itself, with a process id that it makes up.
    let pid = ask(session, "select pg_catalog.pg_backend_pid()").ok()?;
    let is_pooled = pid != session.backend_pid().to_string();
    Some(Route { reached, answered, pooler: is_pooled.then(|| "session".to_string()) })
}

/// The connections of a role, by the way they came. Before 9.5, the server does not say which of them use TLS.
///
/// # Errors
/// When the server does not answer.
pub fn connections_of(session: &mut Session, role: &str) -> Result<Vec<LoadConnections>> {
    let version_num = version_num(session)?;
    let rows = session.query(&connections_sql(role, version_num))?;
    let way = |row: usize| LoadConnections {
        client_address: rows.get(row, "address").unwrap_or_default().to_string(),
        tls: rows.get(row, "tls").map(str::to_string),
        n_connections: rows.get(row, "n").and_then(|n| n.parse().ok()).unwrap_or_default(),
    };
    Ok((0..rows.len()).map(way).collect())
}

fn connections_sql(role: &str, version_num: u32) -> String {
    let (tls, joined) = if Release::new(version_num).has(statistics::SSL) {
        (
            "case when ssl then s.version || ' ' || s.cipher end",
            " left join pg_catalog.pg_stat_ssl s using (pid)",
        )
    } else {
        ("null::text", "")
    };
    format!(
        "select coalesce(pg_catalog.host(client_addr), 'socket') as address, {tls} as tls, count(*) as n \
         from pg_catalog.pg_stat_activity a{joined} where usename = {} group by 1, 2 order by 1, 2",
        quote_literal(role)
    )
}

/// See [`ServerRecord::receivers`]. A user without the right to read them sees only that they exist: `hidden`.
fn receivers(session: &mut Session) -> Result<Vec<String>> {
    let sql = "select coalesce(sync_state, 'hidden') as kind from pg_catalog.pg_stat_replication order by 1";
    let rows = session.query(sql)?;
    Ok((0..rows.len()).filter_map(|i| rows.get(i, "kind").map(str::to_string)).collect())
}

/// The server's version as a number, queried where the connection did not report it.
pub(crate) fn version_num(session: &mut Session) -> Result<u32> {
    let answer = ask(session, "select pg_catalog.current_setting('server_version_num')");
    let answer = answer.context("ask the server for its version")?;
    answer.parse().with_context(|| format!("the server reports `{answer}` as its version"))
}

/// The one value of a query.
pub(crate) fn ask(session: &mut Session, sql: &str) -> Result<String> {
    let rows = session.query(sql)?;
    rows.scalar().map(str::to_string).context("the server answered nothing")
}

/// Whether the one value of a query is true; an error counts as false.
pub(crate) fn is_so(session: &mut Session, sql: &str) -> bool {
    ask(session, sql).is_ok_and(|answer| answer == "t")
}

/// Whether the server is a standby; one that does not say counts as none.
pub fn in_recovery(session: &mut Session) -> bool {
    is_so(session, "select pg_catalog.pg_is_in_recovery()")
}

/// Whether our user may run CHECKPOINT.
pub(crate) fn may_checkpoint(session: &mut Session, version_num: u32) -> bool {
    is_superuser(session)
        || (Release::new(version_num).has(privileges::CHECKPOINT_ROLE)
            && is_so(session, "select pg_catalog.pg_has_role('pg_checkpoint', 'usage')"))
}

/// Whether our user is a superuser.
pub(crate) fn is_superuser(session: &mut Session) -> bool {
    is_so(session, "select rolsuper from pg_catalog.pg_roles where rolname = current_user")
}

fn note(unavailable: &mut BTreeMap<String, String>, name: &str, reason: &str) -> BTreeMap<String, String> {
    unavailable.insert(name.to_string(), reason.to_string());
    BTreeMap::new()
}

fn settings(session: &mut Session, version_num: u32) -> Result<BTreeMap<String, Setting>> {
    let rows = session.query(&settings_sql(version_num))?;
    ensure!(!rows.is_empty(), "pg_settings is empty");
    let mut settings = BTreeMap::new();
    for row in rows.rows {
        if let [Some(name), value, source] = row.as_slice() {
            let value = hide_value(name, value.as_deref().unwrap_or_default()).into_owned();
            settings.insert(name.clone(), Setting { value, source: source.clone().unwrap_or_default() });
        }
    }
    Ok(settings)
}

/// Where the version supports it, without an error for a setting that is gone meanwhile. What this session has set itself
/// ([`Session::administer`]) is no fact about the server: the value with which it began is, in the words of SHOW but for times
/// of which there is a larger unit.
fn settings_sql(version_num: u32) -> String {
    let may_be_missing = Release::new(version_num).has(functions::SETTINGS_MAY_BE_MISSING);
    let value = if may_be_missing { "current_setting(name, true)" } else { "current_setting(name)" };
    format!(
        "select name, case when source <> 'session' then pg_catalog.{value} \
         when unit = 'ms' and reset_val not in ('0', '-1') then reset_val || unit else reset_val end, \
         case when source <> 'session' then source when reset_val = boot_val then 'default' else 'unknown' end \
         from pg_catalog.pg_settings"
    )
}

fn build(session: &mut Session) -> Result<BTreeMap<String, String>> {
    let rows = session
        .query(&format!("select name, setting from pg_catalog.pg_config where name in ({BUILD_NAMES})"))?;
    let pairs = rows.rows.into_iter().filter_map(|row| match row.as_slice() {
        [Some(name), Some(setting)] => Some((name.clone(), setting.clone())),
        _ => None,
    });
    Ok(pairs.collect())
}

/// What this server or this user does not allow, name to reason. Privileges are looked up, nothing is tried.
fn lacking(session: &mut Session, version_num: u32) -> BTreeMap<String, String> {
    let mut lacking = BTreeMap::new();
    let mut lacks = |name: &str, reason: &str| lacking.insert(name.to_string(), reason.to_string());
    let is_superuser = is_superuser(session);
    if !may_checkpoint(session, version_num) {
        lacks("checkpoint", "needs a superuser, or the role pg_checkpoint since 15");
    }
    if !is_superuser {
        lacks("alter_system", "needs a superuser");
    } else if is_so(session, "select pg_catalog.current_setting('allow_alter_system', true) = 'off'") {
        lacks("alter_system", "allow_alter_system is off");
    }
    let prewarm = "select installed_version is not null from pg_catalog.pg_available_extensions where name = 'pg_prewarm'";
    match ask(session, prewarm).as_deref() {
        Ok("t") => {}
        Ok(_) => drop(lacks("pg_prewarm", "the extension is not installed in this database")),
        Err(_) => drop(lacks("pg_prewarm", "the server does not offer the extension")),
    }
    if !Release::new(version_num).has(privileges::MONITORING_ROLES) {
        lacks("pg_ls_waldir", "exists since 10");
        lacks("backend_type", "background processes are shown since 10");
    } else {
        if !is_so(session, "select pg_catalog.has_function_privilege('pg_catalog.pg_ls_waldir()', 'execute')")
        {
            lacks("pg_ls_waldir", "needs a superuser or the role pg_monitor");
        }
        if !is_superuser && !is_so(session, "select pg_catalog.pg_has_role('pg_read_all_stats', 'usage')") {
            lacks("all_stats", "other users' activity is hidden: needs a superuser or the role pg_monitor");
        }
    }
    lacking
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn before_9_5_connections_are_counted_without_the_view_of_tls() {
        assert!(!connections_sql("a", 90_426).contains("pg_stat_ssl"));
        assert!(connections_sql("a", 90_500).contains("pg_stat_ssl"));
    }

    #[test]
    fn before_9_6_settings_are_read_without_an_argument_that_it_does_not_know() {
        assert!(!settings_sql(90_525).contains("true") && settings_sql(90_600).contains("true"));
    }
}
