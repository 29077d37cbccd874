//! Puts back the settings that a journal names, as far as they still have the values that pgdyno has set.

use std::path::{Path, PathBuf};

use anyhow::{Context, Error, Result, bail, ensure};
use files::Owner;
use model::text::prose::shown;
use wire::{Conninfo, Session};

use super::goal::{self, Goal};
use super::identity::{self, ServerIdentity};
use super::journal::{ChangedSetting, SettingsJournal, Standing};
use super::state::{self, AUTO_CONF, Files};
use super::{includes, lock, restart};

/// The fate of a setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UndoneSetting {
    /// The server, in words.
    pub place: String,
    /// Name of the setting.
    pub name: String,
    /// The value now.
    pub now: String,
    /// What becomes of it, if it was not put back.
    pub fate: UndoOutcome,
    /// Who had changed it, if that was another process, and what became of that one.
    pub left: Option<String>,
}

/// Whether a setting was put back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UndoOutcome {
    /// It was.
    Back,
    /// It is none of our business any more, and why.
    Foreign(String),
    /// It can be put back later, and why it was not now.
    Left(String),
}

impl UndoneSetting {
    /// Whether it is still to be put back.
    pub fn is_left(&self) -> bool {
        matches!(self.fate, UndoOutcome::Left(_))
    }

    /// The setting and its fate, in words.
    pub fn words(&self) -> String {
        let UndoneSetting { place, name, now, fate, left } = self;
        let now = shown(now);
        let left = left.as_ref().map_or_else(String::new, |left| format!(", {left}"));
        match fate {
            UndoOutcome::Back => format!("put back setting `{name}` to {now} on {place}{left}"),
            UndoOutcome::Foreign(why) => format!("left setting `{name}` as it is on {place}: {why}"),
            UndoOutcome::Left(why) => format!("not put back: setting `{name}` is {now} on {place}: {why}"),
        }
    }
}

/// Puts back what a killed pgdyno has left changed on this server, as far as the journals of `dir` say so.
///
/// # Errors
/// When another pgdyno changes its settings now ([`lock::SettingsLockTaken`]), or the server or a journal cannot be read.
pub fn undo_left(dir: &Path, conninfo: &Conninfo) -> Result<Vec<UndoneSetting>> {
    let paths = SettingsJournal::all(dir)?;
    if paths.is_empty() {
        return Ok(Vec::new());
    }
    let mut session = state::open(conninfo).map_err(|error| with_journal(error, &paths, conninfo))?;
    // A server that does not tell who it is has no journal, and no lock has to be waited for where there is none.
    let Ok(system_identifier) = state::system_identifier(&mut session) else { return Ok(Vec::new()) };
    if !paths.iter().any(|path| is_named(path, &system_identifier)) {
        return Ok(Vec::new());
    }
    let mut holder = state::open_aside(conninfo)?;
    let named = paths.iter().filter(|path| is_named(path, &system_identifier));
    lock::take(&mut holder)
        .with_context(|| stays(named.filter_map(|path| SettingsJournal::read(path).ok())))?;
    undo_held(dir, conninfo, &mut holder)
}

/// As [`undo_left`], for who has the lock: journals are looked for, and read, only now that nobody else writes them.
pub(super) fn undo_held(dir: &Path, conninfo: &Conninfo, holder: &mut Session) -> Result<Vec<UndoneSetting>> {
    let system_identifier = state::system_identifier(holder)?;
    let own = SettingsJournal::path(dir, &system_identifier, conninfo)?;
    let mut undone = Vec::new();
    for path in SettingsJournal::all(dir)? {
        if !is_named(&path, &system_identifier) {
            continue;
        }
        let mut journal = SettingsJournal::read(&path)?;
        // The same server may have several names. A copy of it, or its standby, may by chance have the entries that the journal
        // says: it answers at another address.
        if path == own {
            identity::check(holder, &journal).with_context(|| how_on(&journal, &path))?;
        } else if is_of(holder, &journal)? {
            journal.server = ServerIdentity::read(holder)?;
        } else {
            continue;
        }
        // Only of this server: the settings of another one, with the same identifier, concern nobody here.
        journal.expect_owner_gone().with_context(|| stays([journal.clone()].into_iter()))?;
        undone.extend(undo(&mut journal, &path, conninfo, holder)?);
    }
    Ok(undone)
}

/// What to say where these journals are another one's, which lives.
fn stays(journals: impl Iterator<Item = SettingsJournal>) -> String {
    let names: Vec<String> = journals.map(|journal| journal.names()).collect();
    format!("settings of the server are left as they are ({})", names.join(", "))
}

fn is_named(path: &Path, system_identifier: &str) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    name.starts_with(&format!("{system_identifier}-"))
}

/// The error of a server that cannot be reached, with what is changed there, if a journal is of its place.
pub(super) fn with_journal(error: Error, paths: &[PathBuf], conninfo: &Conninfo) -> Error {
    let keywords = conninfo.keywords();
    let is_there = |journal: &SettingsJournal| {
        ["host", "port"].iter().all(|key| journal.target.get(*key) == keywords.get(*key))
    };
    let mut read = paths.iter().filter_map(|path| Some((path, SettingsJournal::read(path).ok()?)));
    match read.find(|(_, journal)| is_there(journal)) {
        Some((path, journal)) => error.context(how_on(&journal, path)),
        None => error,
    }
}

/// Whether a server has what the journal says that it has, and answers where the server of the journal did.
fn is_of(session: &mut Session, journal: &SettingsJournal) -> Result<bool> {
    // Of a primary and its standby, which share an identifier, one is not asked for more than it tells everybody.
    if !journal.server.could_be(session)?
        || !journal.server.is_at_one_place_with(&ServerIdentity::read(session)?)
    {
        return Ok(false);
    }
    let files = state::files(session, &journal.server.data_directory)?;
    let standing = |(name, entry): (&String, &ChangedSetting)| entry.standing(files.entry(name));
    Ok(journal.settings.iter().map(standing).all(|standing| standing == Standing::Ours))
}

/// Puts back what one journal names, on the server at `conninfo`, and removes the journal.
///
/// # Errors
/// As [`undo_left`]; when it is not the server of the journal.
pub fn undo_journal(path: &Path, conninfo: &Conninfo) -> Result<Vec<UndoneSetting>> {
    let unlocked = SettingsJournal::read(path)?;
    let mut holder = state::open_aside(conninfo).with_context(|| how_on(&unlocked, path))?;
    lock::take(&mut holder)?;
    // Another pgdyno may have put them back, and changed others, while this one waited.
    if !path.exists() {
        return Ok(Vec::new());
    }
    let mut journal = SettingsJournal::read(path)?;
    journal.expect_owner_gone()?;
    identity::check(&mut holder, &journal).with_context(|| how_on(&journal, path))?;
    undo(&mut journal, path, conninfo, &mut holder)
}

/// What to say when nothing could be put back.
pub(super) fn how_on(journal: &SettingsJournal, path: &Path) -> String {
    let names = journal.names();
    let at_start = journal.settings.iter().filter(|(_, entry)| entry.needs_restart);
    let lines: Vec<String> = at_start.map(|(name, _)| format!("`{name} = ...`")).collect();
    let by_hand = if lines.is_empty() {
        String::new()
    } else {
        format!(
            "; if the server does not start because of it, remove {} from `{}/{AUTO_CONF}`",
            lines.join(" and "),
            journal.server.data_directory
        )
    };
    format!(
        "settings of the server are not put back ({names}); `{}` says what they were, and `pgdyno clean` tries again{by_hand}",
        path.display()
    )
}

/// Puts back what `journal` names. `holder` has the lock, and keeps it over a restart.
pub(super) fn undo(
    journal: &mut SettingsJournal,
    path: &Path,
    conninfo: &Conninfo,
    holder: &mut Session,
) -> Result<Vec<UndoneSetting>> {
    let undone = undo_all(journal, path, conninfo, holder).with_context(|| how_on(journal, path))?;
    journal.set_aside(&undone.aside, path).with_context(|| how_on(journal, path))?;
    let undone = undone.all;
    let left: Vec<&str> = undone.iter().filter(|of| of.is_left()).map(|of| of.name.as_str()).collect();
    journal.settings.retain(|name, _| left.contains(&name.as_str()));
    if journal.settings.is_empty() {
        SettingsJournal::remove(path)?
    } else {
        journal.write(path)?
    }
    Ok(undone)
}

/// What became of the settings of a journal.
#[derive(Default)]
struct All {
    all: Vec<UndoneSetting>,
    /// Names of those that have an entry of somebody else: only the journal knows what they were.
    aside: Vec<String>,
}

fn undo_all(
    journal: &mut SettingsJournal,
    path: &Path,
    conninfo: &Conninfo,
    holder: &mut Session,
) -> Result<All> {
    let (place, left) = (conninfo.to_string(), journal.by.as_ref().and_then(Owner::left));
    let others = journal.others(path)?;
    let fate_of = |name: &str, now: &str, fate: UndoOutcome| UndoneSetting {
        place: place.clone(),
        name: name.to_string(),
        now: now.to_string(),
        fate,
        left: left.clone(),
    };
    let names: Vec<&str> = journal.settings.keys().map(String::as_str).collect();
    let now = state::settings(&mut open_same(conninfo, journal)?, &names)?;
    let files = state::files(holder, &journal.server.data_directory)?;
    expect_nothing_included(journal, &files, holder)?;
    let (mut goals, mut undone) = (Vec::new(), All::default());
    for (name, entry) in &journal.settings {
        let Some(now) = now.get(name) else {
            let why = "the server does not have it any more".to_string();
            undone.all.push(fate_of(name, "gone", UndoOutcome::Foreign(why)));
            continue;
        };
        let is = files.entry(name);
        let mut goal = Goal::to_put_back(name, entry, now.clone());
        match entry.standing(is) {
            Standing::Ours => holder.execute(&goal.statement())?,
            Standing::Back if goal.lack().is_none() => continue,
            // Whoever uses the server says when it restarts, now that its files are as they were.
            Standing::Back => goal = goal.without_restart(),
            Standing::Foreign => {
                let aside = SettingsJournal::path_aside(path);
                let by_hand = format!("{}; `{}` keeps this", by_hand(&goal, entry), aside.display());
                let why = format!("{}: {by_hand}", foreign(name, is, entry, &others));
                undone.all.push(fate_of(name, &now.shown, UndoOutcome::Foreign(why)));
                undone.aside.push(name.clone());
                continue;
            }
        }
        goals.push(goal);
    }
    if goals.is_empty() {
        return Ok(undone);
    }
    goal::reload(holder)?;
    let failure = reach(&goals, journal, path, conninfo, holder).err();
    let names: Vec<&str> = goals.iter().map(|goal| goal.name.as_str()).collect();
    // Of another server that answers now nothing follows.
    let now = state::settings(&mut open_same(conninfo, journal)?, &names)?;
    for goal in &goals {
        let is = now.get(&goal.name).cloned().unwrap_or_default();
        let fate = match (goal.lack_of(&is), &failure) {
            (None, _) => UndoOutcome::Back,
            (Some(why), Some(failure)) if goal.needs_restart() => {
                UndoOutcome::Left(format!("{why}: {failure:#}"))
            }
            (Some(why), _) if is.needs_restart() => UndoOutcome::Foreign(format!(
                "its entry is back, but {why}: until the server restarts, or because another file has changed"
            )),
            (Some(why), _) if !is.is_from_files() => UndoOutcome::Foreign(format!(
                "its entry is back, but {why}, where somebody else has set it meanwhile"
            )),
            (Some(why), _) => {
                undone.aside.push(goal.name.clone());
                kept_aside(&why, path)
            }
        };
        let left = handed_on(&goal.name, &journal.settings[&goal.name], &others);
        let mut of = fate_of(&goal.name, &is.shown, fate);
        of.left = of.left.into_iter().chain(left).reduce(|left, more| format!("{left}; {more}"));
        undone.all.push(of);
    }
    Ok(undone)
}

/// Fails if one of our statements would write the settings of another file into the one that includes it.
fn expect_nothing_included(journal: &SettingsJournal, files: &Files, holder: &mut Session) -> Result<()> {
    let standing = |(name, entry): (&String, &ChangedSetting)| entry.standing(files.entry(name));
    if !journal.settings.iter().any(|of| standing(of) == Standing::Ours) {
        return Ok(());
    }
    match includes::problem(holder, &journal.server.data_directory)? {
        Some(problem) => bail!("{problem}"),
        None => Ok(()),
    }
}

/// What became of a setting of which only the journal knows what it was.
fn kept_aside(why: &str, path: &Path) -> UndoOutcome {
    UndoOutcome::Foreign(format!(
        "its entry is back, but {why}: another file has changed, or its settings, which {AUTO_CONF} included, became a part of that file; \
         `{}` keeps what it was",
        SettingsJournal::path_aside(path).display()
    ))
}

/// How to put a setting back without pgdyno.
fn by_hand(goal: &Goal, entry: &ChangedSetting) -> String {
    let then = if entry.needs_restart { "restart the server" } else { "`select pg_reload_conf()`" };
    format!("to put that back yourself, `{}`, then {then}", goal.statement())
}

/// What to say about a value that is put back and that another pgdyno had set: it is not the user's either.
fn handed_on(name: &str, entry: &ChangedSetting, others: &[(PathBuf, SettingsJournal)]) -> Option<String> {
    let value = entry.entry.as_ref()?;
    let mut of_others = others.iter().filter_map(|(path, journal)| Some((path, journal.settings.get(name)?)));
    let (path, other) = of_others.find(|(_, other)| other.set.contains(value))?;
    Some(format!(
        "but `{value}` is what another pgdyno had set; before that it had {} (`{}`)",
        value_words(other.entry.as_deref()),
        path.display()
    ))
}

/// A session on the server of the journal.
pub(super) fn open_same(conninfo: &Conninfo, journal: &SettingsJournal) -> Result<Session> {
    let mut session = state::open(conninfo)?;
    identity::check(&mut session, journal)?;
    Ok(session)
}

/// What to say about a setting that somebody else has changed.
fn foreign(
    name: &str,
    is: Option<&str>,
    entry: &ChangedSetting,
    others: &[(PathBuf, SettingsJournal)],
) -> String {
    let set_by = |(_, journal): &&(PathBuf, SettingsJournal)| {
        let other = journal.settings.get(name);
        other.is_some_and(|other| other.set.iter().any(|set| Some(set.as_str()) == is))
    };
    let who = match others.iter().find(set_by) {
        Some((path, _)) => format!("another pgdyno has changed it meanwhile (`{}`)", path.display()),
        None => "somebody else has changed it meanwhile, perhaps a pgdyno with another PGDYNO_CACHE, whose `pgdyno clean` comes \
                 first"
            .to_string(),
    };
    format!(
        "{AUTO_CONF} has {} for it, where pgdyno had set `{}`: {who}; it had {} before",
        value_words(is),
        entry.set.last().map_or("", String::as_str),
        value_words(entry.entry.as_deref())
    )
}

fn value_words(value: Option<&str>) -> String {
    value.map_or_else(|| "no entry".to_string(), |value| format!("`{value}`"))
}

/// Waits until all goals are reached, with a restart if one needs it. One that another file keeps from being reached is
/// no error.
fn reach(
    goals: &[Goal],
    journal: &mut SettingsJournal,
    path: &Path,
    conninfo: &Conninfo,
    holder: &mut Session,
) -> Result<()> {
    // What is not reached is looked at afterwards.
    goal::wait(conninfo, goals.iter().filter(|goal| goal.is_for_reload())).ok();
    if goals.iter().any(Goal::needs_restart) {
        ensure!(!journal.restart.is_empty(), "restart the server");
        let called_at = identity::clock(holder)?;
        restart::restart(&journal.restart, conninfo, &SettingsJournal::log_path(path), called_at)?;
        *holder = state::open_aside(conninfo)?;
        lock::take(holder)?;
        identity::check_restarted(holder, journal)?;
        goal::wait(conninfo, goals.iter().filter(|goal| goal.needs_restart() || goal.is_for_reload())).ok();
    }
    Ok(())
}
