//! Why settings of a server cannot be changed, found out before anything is touched, and all at once.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use model::experiment::case::setting;
use model::release::{Release, functions, privileges};
use wire::{Conninfo, Session, quote_literal};

use super::lock::{self, SettingsLockTaken};
use super::readers::{self, FOLLOWED};
use super::refused::refusal;
use super::staged;
use super::state::{self, Files, Now};
use super::{goal, includes};
use crate::database::facts::{in_recovery, is_so, is_superuser};
use crate::database::target::{Flavor, Target};

/// What an experiment wants to change on one server.
#[derive(Debug, Clone, Copy)]
pub struct SettingsWish<'a> {
    /// Settings of each case.
    pub cases: &'a [&'a BTreeMap<String, String>],
    /// Whether there is a command that restarts the server.
    pub may_restart: bool,
}

impl SettingsWish<'_> {
    /// Each name with its levels.
    fn levels(&self) -> BTreeMap<&str, BTreeSet<&str>> {
        let mut levels: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for (name, value) in self.cases.iter().copied().flatten() {
            levels.entry(name).or_default().insert(value);
        }
        levels
    }
}

/// One sentence for each reason why the wish cannot be granted. Changes nothing.
///
/// # Errors
/// When the server cannot be reached, or fails.
pub fn problems(conninfo: &Conninfo, wish: SettingsWish) -> Result<Vec<String>> {
    let mut session = state::open(conninfo)?;
    let mut found = of_server(&mut session, conninfo, wish)?;
    if found.is_empty() {
        found.extend(lock::holder(&mut session)?.map(|holder| SettingsLockTaken(holder).to_string()));
        found.extend(of_settings(&mut session, wish)?);
    }
    Ok(found)
}

/// Reasons that concern the server and our user, whatever the settings are. If there are any, its settings must not be asked for.
fn of_server(session: &mut Session, conninfo: &Conninfo, wish: SettingsWish) -> Result<Vec<String>> {
    let mut found = Vec::new();
    if conninfo.hosts.len() > 1 {
        found.push(format!("{conninfo} names several servers: settings are changed on one; name it"));
    }
    let target = Target::at(session, conninfo.clone())?;
    if let Flavor::Other(name) = &target.flavor {
        found.push(format!("{conninfo} is {name}, not PostgreSQL: its settings are not changed"));
        return Ok(found);
    }
    if target.is_pooled {
        found.push(format!(
            "a pooler answers at {conninfo}, whose sessions outlive a change of settings and a restart; connect to the server itself"
        ));
        return Ok(found);
    }
    // It distinguishes servers.
    if !Release::new(target.version_num).has(functions::CONTROL_SYSTEM) {
        found.push(format!("{conninfo}: settings are changed on servers since 9.6"));
        return Ok(found);
    }
    if is_so(session, "select pg_catalog.current_setting('allow_alter_system', true) = 'off'") {
        found.push(format!("{conninfo} does not allow ALTER SYSTEM: allow_alter_system is off"));
    }
    found.extend(rights(session, &target, wish)?);
    Ok(found)
}

/// What our user cannot do, with the statements that allow it.
fn rights(session: &mut Session, target: &Target, wish: SettingsWish) -> Result<Option<String>> {
    if is_superuser(session) {
        return Ok(None);
    }
    if !Release::new(target.version_num).has(privileges::PARAMETERS) {
        return Ok(Some("ALTER SYSTEM needs a superuser".to_string()));
    }
    let mut grants = Vec::new();
    for name in wish.levels().keys() {
        let sql = format!(
            "select pg_catalog.has_parameter_privilege({}, 'alter system')",
            quote_literal(&name.to_ascii_lowercase())
        );
        if refusal(name, "").is_none() && !is_so(session, &sql) {
            grants.push(format!("grant alter system on parameter {name}"));
        }
    }
    let here = rights_in_a_database(session)?;
    // Settings are changed from another database, if it lets us in.
    let there = match state::open_aside(&target.conninfo) {
        Ok(mut aside) => rights_in_a_database(&mut aside)?,
        Err(_) => Vec::new(),
    };
    grants.extend(there.into_iter().filter(|grant| !here.contains(grant)));
    grants.extend(here);
    if !is_so(session, "select pg_catalog.pg_has_role('pg_read_all_settings', 'usage')") {
        grants.push("grant pg_read_all_settings".to_string());
    }
    let user = session.query("select current_user::text")?.scalar().unwrap_or_default().to_string();
    Ok((!grants.is_empty()).then(|| {
        format!(
            "`{user}` cannot change these settings: it needs a superuser, or each of: {} (to `{user}`{})",
            grants.join("; "),
            if target.in_recovery { ", on the primary" } else { "" }
        )
    }))
}

/// What must be granted in the database of the session.
fn rights_in_a_database(session: &mut Session) -> Result<Vec<String>> {
    let database = session.query("select pg_catalog.current_database()::text")?;
    let database = database.scalar().unwrap_or_default().to_string();
    let rights = [
        (
            "has_function_privilege('pg_catalog.pg_reload_conf()', 'execute')",
            "execute on function pg_reload_conf()",
        ),
        (
            "has_function_privilege('pg_catalog.pg_show_all_file_settings()', 'execute')",
            "execute on function pg_show_all_file_settings()",
        ),
        ("has_table_privilege('pg_catalog.pg_file_settings', 'select')", "select on pg_file_settings"),
    ];
    let is_missing = |(asked, _): &(&str, &str)| !is_so(session, &format!("select pg_catalog.{asked}"));
    let missing = rights.into_iter().filter(is_missing);
    Ok(missing.map(|(_, right)| format!("in database `{database}`: grant {right}")).collect())
}

/// Reasons that concern the settings, and the state in which the server is.
fn of_settings(session: &mut Session, wish: SettingsWish) -> Result<Vec<String>> {
    let levels = wish.levels();
    let names: Vec<&str> = levels.keys().copied().collect();
    let now = state::settings(session, &names)?;
    let waiting = state::pending(session)?;
    let directory = state::data_directory(session)?;
    let files = state::files(session, &directory)?;
    let mut found: Vec<String> = Vec::new();
    if !waiting.is_empty() {
        found.push(format!(
            "settings of the server wait for a restart ({}): restart it, or take them back, before others are changed",
            waiting.join(", ")
        ));
    } else if !files.errors.is_empty() {
        found.push(format!(
            "the server's configuration files have errors, without which nothing can be loaded again: {}",
            files.errors.join("; ")
        ));
    } else {
        found.extend(staged::problem(session, |_| false)?);
    }
    found.extend(includes::problem(session, &directory)?);
    let in_recovery = in_recovery(session);
    let wishes = levels.iter().flat_map(|(name, values)| {
        setting::find(&now, name)
            .into_iter()
            .flat_map(move |(known, now)| values.iter().map(move |value| (known.as_str(), *value, now)))
    });
    found.extend(readers::problems(session, wishes)?);
    found.extend(locks_of_prepared(session, &names));
    for (name, values) in levels {
        let refused: Vec<String> = values.iter().filter_map(|value| refusal(name, value)).collect();
        if !refused.is_empty() {
            found.extend(refused);
            continue;
        }
        let Some((known, now)) = setting::find(&now, name) else {
            found.push(format!(
                "server.settings.{name}: the server has no such setting (one of an extension is there once its library is loaded)"
            ));
            continue;
        };
        let case = OfOne { name: known, now, files: &files, in_recovery, may_restart: wish.may_restart };
        found.extend(case.problems(&values));
    }
    Ok(found)
}

/// The locks of a prepared transaction must fit in whenever the server starts, also after the setting is put back.
fn locks_of_prepared(session: &mut Session, names: &[&str]) -> Option<String> {
    let is_of_locks = |name: &&&str| name.to_ascii_lowercase().ends_with("locks_per_transaction");
    let name = names.iter().find(is_of_locks)?;
    let none_can_be = is_so(session, "select pg_catalog.current_setting('max_prepared_transactions') = '0'");
    (!none_can_be).then(|| {
        format!(
            "server.settings.{name}: with fewer locks, prepared transactions keep the server from starting; it is changed only where \
             max_prepared_transactions is 0"
        )
    })
}

/// One setting, as the server has it.
struct OfOne<'a> {
    name: &'a str,
    now: &'a Now,
    files: &'a Files,
    in_recovery: bool,
    may_restart: bool,
}

impl OfOne<'_> {
    fn problems(&self, values: &BTreeSet<&str>) -> Vec<String> {
        let OfOne { name, now, files, .. } = *self;
        let mut found: Vec<String> = Vec::new();
        let mut say = |why: String| found.push(format!("server.settings.{name}: {why}"));
        for value in values {
            if let Some(fault) = now.kind.fault(value) {
                say(format!("`{value}` {fault}"));
            }
        }
        match (now.context.as_str(), now.source.as_str()) {
            ("internal", _) => say("nobody can change it while the cluster exists".to_string()),
            (_, "default" | "configuration file") | ("postmaster", "override") => {}
            (_, source) => say(format!("its value comes from {}", goal::not_overridden(source))),
        }
        if now.needs_restart() && !self.may_restart {
            say("it changes at a restart: name the command that restarts the server (server.restart, or restart in [[target]], a list of words: [\"systemctl\", \"restart\", …])"
                .to_string());
        }
        // Those who use the server keep their room.
        if name == "max_connections" && values.iter().any(|value| now.kind.is_lower(value, &now.value)) {
            say(format!("it is not lowered (it is {}): sessions of others may find no room", now.value));
        }
        if self.in_recovery && FOLLOWED.contains(&name) {
            say("a standby stops if it is lower than on the primary".to_string());
        }
        if files.auto.get(&name.to_ascii_lowercase()).is_some_and(|entries| entries.len() > 1) {
            say("postgresql.auto.conf has it more than once, and ALTER SYSTEM would keep one of them"
                .to_string());
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alter_system::value::Kind;

    #[test]
    fn settings_that_would_not_change_as_asked_are_refused() {
        let now = |context: &str, source: &str| Now {
            value: "off".to_string(),
            kind: Kind { vartype: "bool".to_string(), ..Kind::default() },
            context: context.to_string(),
            source: source.to_string(),
            ..Now::default()
        };
        let twice = BTreeMap::from([("twice".to_string(), vec!["on".to_string(), "off".to_string()])]);
        let files = Files { auto: twice, errors: Vec::new() };
        let check = |name: &str, now: &Now, value: &str, expected: &[&str]| {
            let one = OfOne { name, now, files: &files, in_recovery: true, may_restart: false };
            let found = one.problems(&BTreeSet::from([value]));
            let fits = found.iter().zip(expected).all(|(found, expected)| found.contains(expected));
            assert!(found.len() == expected.len() && fits, "{name}: {found:?}");
        };
        check("a", &now("sighup", "default"), "on", &[]);
        check("a", &now("user", "configuration file"), "maybe", &["`maybe` is neither on nor off"]);
        check(
            "a",
            &now("user", "command line"),
            "on",
            &["the command line of the server, which ALTER SYSTEM"],
        );
        check("a", &now("user", "database user"), "on", &["comes from ALTER ROLE ... IN DATABASE ... SET"]);
        check("a", &now("internal", "override"), "on", &["while the cluster exists"]);
        check("twice", &now("user", "default"), "on", &["more than once"]);
        check(
            "max_connections",
            &now("postmaster", "default"),
            "on",
            &["it changes at a restart", "a standby stops"],
        );
    }
}
