//! Settings of servers by URL: changed when a case first asks for them there, and put back when the experiment ends.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, LockResult, Mutex, MutexGuard, PoisonError, TryLockError};

use anyhow::{Context, Result, bail, ensure};
use model::experiment::case::Case;
use model::text::prose::shown;
use server::Cache;
use server::alter_system::{self, AllowedChange, Altering, SettingsChange, SettingsWish, UndoneSetting};
use wire::Conninfo;

use crate::site::Site;
use crate::site::pending_undo::{Owed, PendingUndo};

/// The refusal without consent.
const NO_CONSENT: &str = "settings of a server by URL (server.settings) are changed by ALTER SYSTEM, and put back at the end, only \
                          with --allow-changes";

/// Servers by URL whose settings are changed, each with the right to do so.
#[derive(Debug)]
pub struct ServerSettings {
    open: Mutex<Vec<Slot>>,
}

/// A server, and the right to change its settings as soon as a case has asked for it.
#[derive(Debug, Clone)]
struct Slot {
    /// Hosts and ports, whatever the database.
    place: Vec<(String, u16)>,
    altering: Arc<Mutex<Option<Altering>>>,
}

/// Where journals of changed settings are kept.
pub fn journals(cache: &Cache) -> PathBuf {
    cache.dir.join("settings")
}

/// Why the settings that `cases`, all on this server, ask for cannot be changed. Changes nothing.
///
/// # Errors
/// When the server cannot be reached, or fails.
pub(crate) fn problems(conninfo: &Conninfo, cases: &[&Case], allowed: AllowedChange) -> Result<Vec<String>> {
    let asked: Vec<&BTreeMap<String, String>> =
        cases.iter().map(|case| &case.server.settings).filter(|settings| !settings.is_empty()).collect();
    if asked.is_empty() {
        return Ok(Vec::new());
    }
    let mut found: Vec<String> =
        (allowed == AllowedChange::Nothing).then(|| NO_CONSENT.to_string()).into_iter().collect();
    found.extend(names(cases).into_iter().filter_map(|name| allowed.refusal(name)));
    let may_restart = cases.iter().all(|case| !case.server.restart.is_empty());
    found.extend(alter_system::problems(conninfo, SettingsWish { cases: &asked, may_restart })?);
    Ok(found)
}

impl ServerSettings {
    /// Nothing is changed.
    pub const fn new() -> ServerSettings {
        ServerSettings { open: Mutex::new(Vec::new()) }
    }

    /// The slots of all servers, or the one of a server. Others are not locked meanwhile: their restarts take minutes.
    fn slots(&self) -> Vec<Slot> {
        unpoisoned(self.open.lock()).clone()
    }

    fn slot(&self, conninfo: &Conninfo) -> Slot {
        let place: Vec<(String, u16)> =
            conninfo.hosts.iter().map(|host| (host.host.clone(), host.port)).collect();
        let mut open = unpoisoned(self.open.lock());
        if let Some(known) = open.iter().find(|slot| slot.place == place) {
            return known.clone();
        }
        let slot = Slot { place, altering: Arc::new(Mutex::new(None)) };
        open.push(slot.clone());
        slot
    }

    /// Makes a case's settings take effect on its server. Reports what a dead pgdyno had left changed there.
    ///
    /// # Errors
    /// When they cannot be changed, without consent, or when the server does not come back.
    pub(crate) fn apply(
        &self,
        case: &Case,
        conninfo: &Conninfo,
        site: &Site,
        report: &mut dyn FnMut(String),
    ) -> Result<SettingsChange> {
        let wanted = &case.server.settings;
        let slot = self.slot(conninfo);
        let mut altering = unpoisoned(slot.altering.lock());
        if wanted.is_empty() && altering.is_none() {
            return Ok(SettingsChange::default());
        }
        site.environment.go_on()?;
        if altering.is_none() {
            let problems = problems(conninfo, &[case], site.permissions.allowed)?;
            ensure!(problems.is_empty(), "{}", problems.join("; "));
            let (begun, undone) =
                Altering::begin(conninfo, &case.server.restart, &journals(site.environment.cache))?;
            undone.iter().for_each(|undone| report(undone.words()));
            *altering = Some(begun);
        }
        let n_servers = u32::try_from(self.slots().len()).unwrap_or(1);
        let longest = alter_system::undo_max(!case.server.restart.is_empty());
        site.changes.pending_undo.add(Owed::Settings, longest * n_servers);
        let altering = altering.as_mut().context("it was begun")?;
        altering.set(wanted).with_context(|| format!("settings of the server {conninfo} (server.settings)"))
    }

    /// Puts back all settings, as far as possible; says what became of each, and why one was not put back.
    pub fn put_back(&self, pending_undo: &PendingUndo) -> Vec<Undoing> {
        let slots = self.slots();
        let done = slots.iter().flat_map(|slot| undo(&mut unpoisoned(slot.altering.lock()))).collect();
        pending_undo.remove(Owed::Settings);
        done
    }

    /// As [`ServerSettings::put_back`], for a process that is about to end: leaves out servers at which another thread is
    /// at work, and returns whether there are any.
    pub fn put_back_at_once(&self) -> (Vec<Undoing>, bool) {
        let Ok(slots) = self.open.try_lock().map(|open| open.clone()) else { return (Vec::new(), true) };
        let (mut done, mut is_busy) = (Vec::new(), false);
        for slot in slots {
            match slot.altering.try_lock() {
                Ok(mut altering) => done.extend(undo(&mut altering)),
                Err(TryLockError::Poisoned(altering)) => done.extend(undo(&mut altering.into_inner())),
                Err(TryLockError::WouldBlock) => is_busy = true,
            }
        }
        (done, is_busy)
    }
}

fn unpoisoned<T>(locked: LockResult<MutexGuard<T>>) -> MutexGuard<T> {
    locked.unwrap_or_else(PoisonError::into_inner)
}

/// Puts back the settings of a server. Its lock goes with it; what is left is in its journal.
fn undo(altering: &mut Option<Altering>) -> Vec<Undoing> {
    altering.take().map(|mut altering| Undoing::from_result(&altering.put_back())).unwrap_or_default()
}

impl Default for ServerSettings {
    fn default() -> ServerSettings {
        ServerSettings::new()
    }
}

/// What became of one setting, or of all of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Undoing {
    /// In words.
    pub words: String,
    /// Whether it is still to be put back.
    pub is_left: bool,
}

impl From<&UndoneSetting> for Undoing {
    fn from(undone: &UndoneSetting) -> Undoing {
        Undoing { words: undone.words(), is_left: undone.is_left() }
    }
}

impl Undoing {
    /// Those of a server.
    pub fn from_result(result: &Result<Vec<UndoneSetting>>) -> Vec<Undoing> {
        match result {
            Ok(undone) => undone.iter().map(Undoing::from).collect(),
            Err(error) => vec![Undoing { words: format!("{error:#}"), is_left: true }],
        }
    }
}

/// Puts back what killed pgdynos have left changed on these servers.
///
/// # Errors
/// When something is left, or another pgdyno changes settings there now.
pub fn undo_left(servers: &[Conninfo], cache: &Cache, report: &mut dyn FnMut(String)) -> Result<()> {
    let dir = journals(cache);
    for conninfo in servers {
        let undone = alter_system::undo_left(&dir, conninfo)?;
        undone.iter().for_each(|undone| report(undone.words()));
        if undone.iter().any(UndoneSetting::is_left) {
            bail!("settings of {conninfo} are not as they were before an earlier experiment; see above");
        }
    }
    Ok(())
}

/// The settings that these cases ask for.
fn names<'a>(cases: &[&'a Case]) -> BTreeSet<&'a str> {
    cases.iter().flat_map(|case| case.server.settings.keys()).map(String::as_str).collect()
}

/// The options with which a user agrees to what these cases change on their server, each with its reason if it has one.
pub(crate) fn consents(cases: &[&Case]) -> Vec<String> {
    let names = names(cases);
    let named = names.iter().filter_map(|name| {
        alter_system::by_name_only(name).map(|reason| format!("--allow-setting {name} ({reason})"))
    });
    let first = (!names.is_empty()).then(|| "--allow-changes".to_string());
    first.into_iter().chain(named).collect()
}

/// What these cases change on their server, in words; none if they change nothing.
///
/// # Errors
/// When the server fails.
pub(crate) fn intention(session: &mut wire::Session, cases: &[&Case]) -> Result<Option<String>> {
    let mut levels: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    // Runs are in random order.
    let mut cases = cases.to_vec();
    cases.sort_by_key(|case| case.id);
    for (name, value) in cases.iter().flat_map(|case| &case.server.settings) {
        let known = levels.entry(name).or_default();
        if !known.contains(&value.as_str()) {
            known.push(value);
        }
    }
    if levels.is_empty() {
        return Ok(None);
    }
    let now = alter_system::values_now(session, levels.keys().copied())?;
    let words = |(name, values): (&&str, &Vec<&str>)| {
        let is = now.get(&name.to_ascii_lowercase()).map_or("not shown", |value| shown(value));
        let values: Vec<&str> = values.iter().map(|value| shown(value)).collect();
        format!("{name} to {} (it is {is})", values.join(", "))
    };
    let all: Vec<String> = levels.iter().map(words).collect();
    let restart = match cases.iter().find(|case| !case.server.restart.is_empty()) {
        Some(case) => {
            format!("; where that takes a restart, `{}` restarts the server", case.server.restart.join(" "))
        }
        None => String::new(),
    };
    Ok(Some(format!(
        "changes settings of the server for everybody who uses it, by ALTER SYSTEM, and puts them back at the end: {}{restart}",
        all.join("; ")
    )))
}
