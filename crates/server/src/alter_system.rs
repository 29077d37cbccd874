//! Changes settings of a server that is not ours, by ALTER SYSTEM, and puts them back, also after this process was killed.
//!
//! A journal is on disk before anything is changed. One pgdyno at a time does this on a server; an advisory lock says which.

mod allowed;
mod goal;
mod identity;
mod includes;
mod journal;
mod lock;
mod problems;
mod readers;
mod refused;
mod restart;
mod staged;
mod state;
mod undo;
mod value;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use files::Owner;
use wire::{Conninfo, Session, quote_literal};

pub use self::allowed::{AllowedChange, by_name_only};
use self::goal::Goal;
use self::identity::ServerIdentity;
use self::journal::Standing;
pub use self::journal::{ChangedSetting, SettingsJournal};
pub use self::lock::SettingsLockTaken;
pub use self::problems::{SettingsWish, problems};
pub use self::refused::refusal;
use self::state::AUTO_CONF;
pub use self::undo::{UndoOutcome, UndoneSetting, undo_journal, undo_left};

/// How long putting settings back may take without a restart.
const UNDO_MAX: Duration = Duration::from_secs(60);

/// How long putting settings back may take at most, with or without a restart.
pub fn undo_max(has_restart: bool) -> Duration {
    UNDO_MAX + if has_restart { restart::COMMAND_MAX + restart::START_MAX } else { Duration::ZERO }
}

/// The values of settings now, in words of the server; those that it does not have or show are absent.
///
/// # Errors
/// When the server fails.
pub fn values_now<'a>(
    session: &mut Session,
    names: impl Iterator<Item = &'a str>,
) -> Result<BTreeMap<String, String>> {
    let names: Vec<String> = names.map(|name| quote_literal(&name.to_ascii_lowercase())).collect();
    let sql = format!(
        "select pg_catalog.lower(name) as name, pg_catalog.current_setting(name) as value \
         from pg_catalog.pg_settings where pg_catalog.lower(name) in ({})",
        names.join(", ")
    );
    let rows = session.query(&sql)?;
    let text = |row: usize, column: &str| rows.get(row, column).map(str::to_string);
    Ok((0..rows.len()).filter_map(|row| text(row, "name").zip(text(row, "value"))).collect())
}

/// Another pgdyno that changes settings of the server now, in words.
///
/// # Errors
/// When the server fails.
pub fn changing(conninfo: &Conninfo) -> Result<Option<String>> {
    lock::holder(&mut state::open(conninfo)?)
}

/// The right to change settings of one server, and the duty to put them back.
#[derive(Debug)]
pub struct Altering {
    conninfo: Conninfo,
    journal: SettingsJournal,
    /// Where the journal is, as soon as something is to be changed.
    path: PathBuf,
    /// Holds the lock.
    holder: Session,
}

/// What was done to get a case's settings into effect.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SettingsChange {
    /// Facts for the record, by name.
    pub detail: BTreeMap<String, String>,
    /// The server was restarted: all sessions have ended.
    pub is_restarted: bool,
}

impl Altering {
    /// Takes the right to change settings of this server, which `restart` restarts if it is not empty. What a killed pgdyno
    /// has left changed there is put back first, and returned. Journals are kept in `dir`.
    ///
    /// # Errors
    /// When another pgdyno has the right, or something cannot be put back.
    pub fn begin(
        conninfo: &Conninfo,
        restart: &[String],
        dir: &Path,
    ) -> Result<(Altering, Vec<UndoneSetting>)> {
        let paths = SettingsJournal::all(dir)?;
        let opened = state::open_aside(conninfo);
        let mut holder = opened.map_err(|error| undo::with_journal(error, &paths, conninfo))?;
        lock::take(&mut holder)?;
        let undone = undo::undo_held(dir, conninfo, &mut holder)?;
        if let Some(left) = undone.iter().find(|undone| undone.is_left()) {
            bail!("{}", left.words());
        }
        let server = ServerIdentity::read(&mut holder)?;
        let path = SettingsJournal::path(dir, &server.system_identifier, conninfo)?;
        let journal = SettingsJournal {
            format: model::FORMAT,
            server,
            target: conninfo.keywords(),
            restart: restart.to_vec(),
            by: Some(Owner::this()),
            settings: BTreeMap::new(),
        };
        Ok((Altering { conninfo: conninfo.clone(), journal, path, holder }, undone))
    }

    /// Makes `wanted` take effect, and puts back what was changed before and is not wanted any more. The journal knows it
    /// first.
    ///
    /// # Errors
    /// When somebody else changes the same settings, the server does not take them, or does not come back after a restart.
    pub fn set(&mut self, wanted: &BTreeMap<String, String>) -> Result<SettingsChange> {
        self.hold()?;
        let ours: BTreeSet<String> = self.journal.settings.keys().cloned().collect();
        let before = self.journal.settings.clone();
        let goals = self.goals(wanted).and_then(|goals| self.expect_safe(&goals, &ours).map(|()| goals));
        // What was not changed may be another value when it is.
        let goals = goals.inspect_err(|_| self.journal.settings = before)?;
        if goals.is_empty() {
            return Ok(SettingsChange::default());
        }
        self.journal.write(&self.path)?;
        for goal in &goals {
            self.holder.execute(&goal.statement()).with_context(|| format!("`{}`", goal.statement()))?;
        }
        let needs_restart = goals.iter().any(Goal::needs_restart);
        goal::reload(&mut self.holder)?;
        goal::wait(&self.conninfo, goals.iter().filter(|goal| !goal.needs_restart()))?;
        let mut change = SettingsChange { is_restarted: needs_restart, ..SettingsChange::default() };
        if needs_restart {
            let took = self.restart(&goals)?;
            change.detail.insert("restart_seconds".to_string(), format!("{:.3}", took.as_secs_f64()));
            goal::wait(&self.conninfo, goals.iter())?;
        }
        let words: Vec<String> = goals.iter().map(Goal::words).collect();
        change.detail.insert("alter_system".to_string(), words.join(", "));
        Ok(change)
    }

    /// Fails if something has come since the plan was made that must not be loaded, lost or stopped by these changes.
    fn expect_safe(&self, goals: &[Goal], ours: &BTreeSet<String>) -> Result<()> {
        if goals.is_empty() {
            return Ok(());
        }
        let mut session = undo::open_same(&self.conninfo, &self.journal)?;
        if let Some(problem) = staged::problem(&mut session, |name| ours.contains(name))? {
            bail!("{problem}");
        }
        if let Some(problem) = includes::problem(&mut session, &self.journal.server.data_directory)? {
            bail!("{problem}");
        }
        // A standby may have come since the plan was made.
        let found = readers::problems(&mut session, goals.iter().filter_map(Goal::wish))?;
        ensure!(found.is_empty(), "{}", found.join("; "));
        Ok(())
    }

    /// Puts back everything. What cannot be put back stays in the journal.
    ///
    /// # Errors
    /// When the server cannot be reached, or another pgdyno has taken the right meanwhile.
    pub fn put_back(&mut self) -> Result<Vec<UndoneSetting>> {
        if self.journal.settings.is_empty() {
            return Ok(Vec::new());
        }
        let how_on = undo::how_on(&self.journal, &self.path);
        self.hold().context(how_on)?;
        undo::undo(&mut self.journal, &self.path, &self.conninfo, &mut self.holder)
    }

    /// Takes the lock again if its session has ended. Fails if it is another server that answers.
    fn hold(&mut self) -> Result<()> {
        if self.holder.query("select 1").is_err() {
            self.holder = state::open_aside(&self.conninfo)?;
            lock::take(&mut self.holder)?;
        }
        identity::check(&mut self.holder, &self.journal)
    }

    /// What has to be changed, noted in the journal.
    fn goals(&mut self, wanted: &BTreeMap<String, String>) -> Result<Vec<Goal>> {
        let names: BTreeSet<&str> =
            wanted.keys().chain(self.journal.settings.keys()).map(String::as_str).collect();
        if names.is_empty() {
            return Ok(Vec::new());
        }
        let now =
            state::settings(&mut undo::open_same(&self.conninfo, &self.journal)?, &Vec::from_iter(names))?;
        let files = state::files(&mut self.holder, &self.journal.server.data_directory)?;
        let asked: BTreeMap<String, &String> =
            wanted.iter().map(|(name, value)| (name.to_ascii_lowercase(), value)).collect();
        if let Some(name) =
            asked.keys().find(|name| !now.keys().any(|known| known.eq_ignore_ascii_case(name)))
        {
            bail!("the server has no setting `{name}`");
        }
        let mut goals = Vec::new();
        for (name, now) in now {
            let is = files.entry(&name);
            let entry = self.journal.settings.entry(name.clone()).or_insert_with(|| ChangedSetting {
                entry: is.map(str::to_string),
                effective: now.value.clone(),
                needs_restart: now.needs_restart(),
                set: Vec::new(),
            });
            ensure!(
                entry.standing(is) != Standing::Foreign,
                "somebody else has changed `{name}` in {AUTO_CONF} to {}",
                is.unwrap_or("nothing")
            );
            let goal = match asked.get(&name.to_ascii_lowercase()) {
                Some(value) => {
                    // Somebody may have set it since the plan was made.
                    ensure!(
                        now.is_from_files(),
                        "`{name}`: its value comes from {}",
                        goal::not_overridden(&now.source)
                    );
                    entry.note(is, value);
                    Goal::to_set(&name, value, now)
                }
                None => {
                    let goal = Goal::to_put_back(&name, entry, now);
                    // Our value stays in effect after a restart that has failed; another one is somebody else's.
                    ensure!(
                        entry.standing(is) != Standing::Back
                            || !goal.needs_restart()
                            || goal.is_ours_in_effect(entry),
                        "somebody else has changed `{name}`: its entry in {AUTO_CONF} is as before, but {}",
                        goal.lack().unwrap_or_default()
                    );
                    goal
                }
            };
            if is != goal.entry.as_deref() || goal.lack().is_some() {
                goals.push(goal);
            }
        }
        Ok(goals)
    }

    /// Restarts the server, and takes the lock again.
    fn restart(&mut self, goals: &[Goal]) -> Result<Duration> {
        let words = self.journal.restart.clone();
        ensure!(!words.is_empty(), "there is no command that restarts the server (server.restart)");
        let called_at = identity::clock(&mut self.holder)?;
        let log_path = SettingsJournal::log_path(&self.path);
        let restarted = restart::restart(&words, &self.conninfo, &log_path, called_at);
        let took = restarted.with_context(|| self.if_it_does_not_start(goals))?;
        self.holder = state::open_aside(&self.conninfo)?;
        lock::take(&mut self.holder)?;
        identity::check_restarted(&mut self.holder, &mut self.journal)?;
        self.journal.write(&self.path)?;
        Ok(took)
    }

    /// What to do about a server that is not there any more.
    fn if_it_does_not_start(&self, goals: &[Goal]) -> String {
        let lines: Vec<String> =
            goals.iter().filter(|goal| goal.needs_restart()).filter_map(Goal::line).collect();
        format!(
            "the server was to be restarted with {}. If it does not start with that, remove the line from \
             `{}/{AUTO_CONF}` and start it; `{}` says what was there before, and `pgdyno clean` puts it back",
            lines.iter().map(|line| format!("`{line}`")).collect::<Vec<_>>().join(" and "),
            self.journal.server.data_directory,
            self.path.display()
        )
    }
}
