//! A setting that is to get a value, and how to find out that it has got it.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use wire::{Conninfo, Session, quote_ident, quote_literal};

use super::journal::ChangedSetting;
use super::state::{self, AUTO_CONF, Now};

/// How long a server may take to read its configuration again. It is idle, and needs milliseconds.
const RELOAD_MAX: Duration = Duration::from_secs(15);
const PAUSE: Duration = Duration::from_millis(20);
/// Settings with values that mean "automatic": the server replaces them by the one that it chose.
const AUTOMATIC: [&str; 4] =
    ["commit_timestamp_buffers", "subtransaction_buffers", "transaction_buffers", "wal_buffers"];

/// A setting that is to get a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Goal {
    pub(super) name: String,
    /// The entry that `postgresql.auto.conf` is to have; `None`: no entry.
    pub(super) entry: Option<String>,
    /// The value that is to be in effect, in the setting's own unit; known only of one that is put back.
    effective: Option<String>,
    /// As it was when the goal was set.
    now: Now,
    /// The server is not restarted for its sake.
    is_without_restart: bool,
}

impl Goal {
    pub(super) fn to_set(name: &str, value: &str, now: Now) -> Goal {
        Goal {
            name: name.to_string(),
            entry: Some(value.to_string()),
            effective: None,
            now,
            is_without_restart: false,
        }
    }

    pub(super) fn to_put_back(name: &str, entry: &ChangedSetting, now: Now) -> Goal {
        let effective = Some(entry.effective.clone());
        Goal { name: name.to_string(), entry: entry.entry.clone(), effective, now, is_without_restart: false }
    }

    /// The same goal, but the server is not restarted for its sake: the file has none of our entries any more.
    pub(super) fn without_restart(self) -> Goal {
        Goal { is_without_restart: true, ..self }
    }

    /// Whether a reload can reach it, or it is reached.
    pub(super) fn is_for_reload(&self) -> bool {
        !(self.needs_restart() || self.is_without_restart && self.now.needs_restart())
    }

    /// Whether the value in effect is one that we set.
    pub(super) fn is_ours_in_effect(&self, entry: &ChangedSetting) -> bool {
        entry.set.iter().any(|set| self.now.kind.is_same_exactly(set, &self.now.value))
    }

    /// The value that it is to get, unless it is put back.
    pub(super) fn wish(&self) -> Option<(&str, &str, &Now)> {
        if self.effective.is_some() {
            return None;
        }
        let value = self.entry.as_deref()?;
        Some((&self.name, value, &self.now))
    }

    pub(super) fn statement(&self) -> String {
        let name = quote_ident(&self.name);
        match &self.entry {
            Some(value) => format!("alter system set {name} = {}", quote_literal(value)),
            None => format!("alter system reset {name}"),
        }
    }

    /// The line of `postgresql.auto.conf` that it becomes.
    pub(super) fn line(&self) -> Option<String> {
        self.entry.as_ref().map(|value| format!("{} = '{}'", self.name, value.replace('\'', "''")))
    }

    pub(super) fn words(&self) -> String {
        let value = self.entry.as_deref().unwrap_or("as before");
        format!("{} {value} (was {})", self.name, self.now.shown)
    }

    /// Whether only a restart can reach it. A file that names the value in effect again needs none.
    pub(super) fn needs_restart(&self) -> bool {
        !self.is_without_restart
            && self.now.needs_restart()
            && match (&self.effective, &self.entry) {
                (Some(effective), _) => *effective != self.now.value,
                (None, Some(value)) => !self.now.kind.is_same_exactly(value, &self.now.value),
                (None, None) => false,
            }
    }

    /// Why it is not reached at first; none if it is.
    pub(super) fn lack(&self) -> Option<String> {
        self.lack_of(&self.now)
    }

    /// Why it is not reached when the setting is `now`; none if it is.
    pub(super) fn lack_of(&self, now: &Now) -> Option<String> {
        match (&self.effective, &self.entry) {
            // A server goes on saying that a setting waits for a restart after its entry is gone again.
            (Some(effective), _) if *effective == now.value => None,
            (Some(effective), _) => Some(instead_of(effective, now)),
            (None, _) if now.pending_restart => Some("it waits for a restart".to_string()),
            (None, Some(value)) => self.lack_of_value(value, now),
            (None, None) => None,
        }
    }

    fn lack_of_value(&self, value: &str, now: &Now) -> Option<String> {
        if AUTOMATIC.contains(&self.name.as_str()) && ["-1", "0"].contains(&value.trim()) {
            return None;
        }
        if !now.kind.is_same(value, &now.value) {
            return Some(instead_of(value, now));
        }
        // The server does not look further if such a setting already has the value.
        let is_from_file = now.file.as_ref().is_some_and(|file| file.ends_with(&format!("/{AUTO_CONF}")));
        (!now.needs_restart() && !is_from_file)
            .then(|| format!("its value comes from {}, not from {AUTO_CONF}", origin(&now.source)))
    }
}

/// What is in effect instead of a value, and who decides that, if it is no file.
fn instead_of(value: &str, now: &Now) -> String {
    let decides = if now.is_from_files() {
        String::new()
    } else {
        format!(", which comes from {}", origin(&now.source))
    };
    format!("it is {} instead of {value}{decides}", now.value)
}

/// Where a value comes from, and what to do about it.
pub(super) fn not_overridden(source: &str) -> String {
    format!("{}, which ALTER SYSTEM does not override; remove it there", origin(source))
}

/// Where a value comes from, in words.
fn origin(source: &str) -> String {
    match source {
        "command line" => "the command line of the server".to_string(),
        "environment variable" => "an environment variable of the server".to_string(),
        "default" | "configuration file" => "another configuration file".to_string(),
        "database" => "ALTER DATABASE ... SET of this database".to_string(),
        "user" => "ALTER ROLE ... SET of this user".to_string(),
        "database user" => "ALTER ROLE ... IN DATABASE ... SET of this user and database".to_string(),
        "global" => "ALTER ROLE ALL SET".to_string(),
        "client" | "session" => "the connection string (options), or the session itself".to_string(),
        source => format!("`{source}`"),
    }
}

/// Makes the server read its configuration again.
pub(super) fn reload(session: &mut Session) -> Result<()> {
    let done = session.query("select pg_catalog.pg_reload_conf()")?;
    ensure!(done.scalar() == Some("t"), "the server does not read its configuration again");
    Ok(())
}

/// Waits until new sessions find all goals reached.
///
/// # Errors
/// When that takes too long; says what is missing.
pub(super) fn wait<'a>(conninfo: &Conninfo, goals: impl Iterator<Item = &'a Goal>) -> Result<()> {
    let goals: Vec<&Goal> = goals.collect();
    if goals.is_empty() {
        return Ok(());
    }
    let names: Vec<&str> = goals.iter().map(|goal| goal.name.as_str()).collect();
    let begun = Instant::now();
    loop {
        // A session that is there already does not get all of them.
        let now = state::settings(&mut state::open(conninfo)?, &names)?;
        let lacks: Vec<String> = goals
            .iter()
            .filter_map(|goal| {
                let why = match now.get(&goal.name) {
                    Some(now) => goal.lack_of(now)?,
                    None => "the server does not have it any more".to_string(),
                };
                Some(format!("`{}`: {why}", goal.name))
            })
            .collect();
        if lacks.is_empty() {
            return Ok(());
        }
        if begun.elapsed() >= RELOAD_MAX {
            bail!(
                "the server has not taken its new settings after {} s: {}",
                RELOAD_MAX.as_secs(),
                lacks.join("; ")
            );
        }
        thread::sleep(PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alter_system::value::Kind;

    fn now(context: &str, value: &str, file: Option<&str>) -> Now {
        Now {
            value: value.to_string(),
            shown: value.to_string(),
            kind: Kind { vartype: "integer".to_string(), unit: Some("kB".to_string()), ..Kind::default() },
            context: context.to_string(),
            source: "configuration file".to_string(),
            file: file.map(str::to_string),
            pending_restart: false,
        }
    }

    #[test]
    fn a_goal_is_reached_when_the_value_comes_from_the_file_that_alter_system_writes() {
        let auto = Some("/data/postgresql.auto.conf");
        let check = |name: &str, value: &str, now: Now, expected: Option<&str>| {
            let why = Goal::to_set(name, value, Now::default()).lack_of(&now);
            assert_eq!(why.as_deref(), expected, "{name} {value} {now:?}");
        };
        check("work_mem", "8MB", now("user", "8192", auto), None);
        check("work_mem", "8MB", now("user", "4096", auto), Some("it is 4096 instead of 8MB"));
        check(
            "work_mem",
            "8MB",
            now("user", "8192", Some("/etc/postgresql.conf")),
            Some("its value comes from another configuration file, not from postgresql.auto.conf"),
        );
        let of_role = Now { source: "user".to_string(), ..now("user", "4096", None) };
        let expected = "it is 4096 instead of 8MB, which comes from ALTER ROLE ... SET of this user";
        check("work_mem", "8MB", of_role, Some(expected));
        check("shared_buffers", "8MB", now("postmaster", "8192", None), None);
        check("wal_buffers", "-1", now("postmaster", "512", None), None);
        let waits = Now { pending_restart: true, ..now("postmaster", "8192", auto) };
        check("shared_buffers", "8MB", waits, Some("it waits for a restart"));
    }

    #[test]
    fn only_what_cannot_change_otherwise_needs_a_restart() {
        let set = |context: &str, value: &str, is: &str| {
            Goal::to_set("x", value, now(context, is, None)).needs_restart()
        };
        assert!(!set("user", "8MB", "4096") && !set("postmaster", "8MB", "8192"));
        assert!(set("postmaster", "8MB", "4096"));
        let entry =
            ChangedSetting { entry: None, effective: "4096".to_string(), needs_restart: true, set: vec![] };
        let back = |is: &str| Goal::to_put_back("x", &entry, now("postmaster", is, None));
        assert!(back("8192").needs_restart() && !back("4096").needs_restart());
        assert_eq!(back("8192").lack().unwrap(), "it is 8192 instead of 4096");
        let left = back("8192").without_restart();
        assert!(!left.needs_restart() && !left.is_for_reload() && left.lack().is_some());
        assert_eq!(back("4096").statement(), "alter system reset \"x\"");
        assert_eq!(back("4096").line(), None);
        assert_eq!(Goal::to_set("x", "it's", Now::default()).line().unwrap(), "x = 'it''s'");
    }
}
