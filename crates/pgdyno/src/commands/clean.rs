//! `pgdyno clean`: removes what a killed pgdyno left behind.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use dataset::clearance::loaded::{LoadedObject, LoadedTables, loaded_objects};
use dataset::session::limit;
use experiment::site::hands::{self, HostAgents};
use experiment::site::settings::{self, Undoing};
use host::KernelFiles;
use model::experiment::driver::DriverSpec;
use server::alter_system::{self, SettingsJournal, SettingsLockTaken};
use server::database::facts::in_recovery;
use server::database::template::{self, Doors, LeftoverOutcome};
use server::swept::Swept;
use server::{Cache, Workspace};
use wire::Conninfo;

use crate::commands::{self, stored};
use crate::front::cli::CleanArgs;
use crate::front::cli::stored::RESULTS;
use crate::front::{secrets, setup, shell};
use crate::job::own_program;
use crate::restore_report::{report_settings, report_undone};
use crate::{Exit, say, signals};

/// Limit of what is named on one line.
const BELONGINGS_MAX: usize = 20;

/// Restores values of the operating system and settings of servers by URL; removes directories of sockets and of settings that were tried, ledgers,
/// incomplete binaries, builds and clusters, and what was unpacked or measured with for a time.
pub(crate) fn clean(args: &CleanArgs) -> Result<Exit> {
    if let Some(target) = &args.server {
        return clean_server(target, Duration::from_millis(args.timeout.ms));
    }
    if let Some(host) = &args.host {
        return clean_host(host);
    }
    let mut undone =
        host::undo_left(&KernelFiles::this()).context("cannot restore values of the operating system")?;
    // What `doctor --apply` has set is root's, and no other user left it behind.
    let is_root = nix::unistd::geteuid().is_root();
    let kept = if is_root { host::undo_kept(&KernelFiles::this()) } else { Ok(Vec::new()) };
    let is_left = kept.is_err();
    match kept {
        Ok(kept) => undone.extend(kept),
        Err(error) => say(&format!("not put back: what pgdyno doctor --apply has set: {error:#}")),
    }
    report_undone(&undone);
    let n_held = say_held()?;
    let (n_settings, is_all_settings) = clean_settings()?;
    let mut n_removed = n_settings + n_held;
    let cache = Cache::default_location()?;
    let (n_swept, is_all_swept) = clean_directories(&cache)?;
    n_removed += n_swept + clean_uploaded();
    let ledgers = commands::data::kept_ledgers(&std::env::temp_dir());
    for ledger in &ledgers {
        say(&format!(
            "left `{0}`: it names orders that were acknowledged and lost (check --acid); once you have looked at it: {1}",
            ledger.display(),
            shell::command(&["rm".to_string(), ledger.display().to_string()])
        ));
    }
    if n_removed == 0 && ledgers.is_empty() && undone.is_empty() && !is_left {
        say(&format!(
            "nothing was left behind: no values of the operating system, no settings of servers, no sockets or ledgers in `{}`, no incomplete \
             binaries or clusters in `{}`, and nothing that was unpacked for a repetition",
            std::env::temp_dir().display(),
            cache.dir.display()
        ));
    }
    if let Some(kept) = commands::server::kept(&cache)? {
        say(&kept);
    }
    if cache.dir.exists() {
        say(&format!(
            "stays: `{}` with servers that were fetched and what pgdyno knows of this machine, and results where they were written",
            cache.dir.display()
        ));
    }
    let is_all =
        !is_left && is_all_settings && is_all_swept && undone.iter().all(|value| value.problem.is_none());
    Ok(if is_all { Exit::Done } else { Exit::Failed })
}

/// Names the values of the operating system that stay, because the pgdyno that has set them lives. Returns how many these are.
fn say_held() -> Result<usize> {
    let held = host::held(&KernelFiles::this()).context("cannot look for values of the operating system")?;
    for host::HeldValue { path, now, by } in &held {
        let what = match now.is_empty() {
            true if path.ends_with(".jsonl") => {
                format!("the values of the operating system that `{path}` names")
            }
            true => format!("the control group `{path}`"),
            false => format!("`{path}` at {now}"),
        };
        say(&format!("left {what}: {by} runs, and puts back what it has set when it ends"));
    }
    Ok(held.len())
}

/// Removes directories of processes that have ended. Returns how many there were, and whether none is left.
fn clean_directories(cache: &Cache) -> Result<(usize, bool)> {
    let (mut n_swept, mut is_all) = (0, true);
    let mut tell = |swept: Vec<Swept>, what: &str| {
        // Another pgdyno may have removed it first.
        let of_this = |swept: &Swept| swept.left.is_none() || swept.path.exists();
        for Swept { path, left } in swept.into_iter().filter(of_this) {
            n_swept += 1;
            match left {
                None => say(&format!("removed `{}`{what}", path.display())),
                Some(why) => {
                    is_all = false;
                    say(&format!("left `{}`{what}: {why}", path.display()));
                }
            }
        }
    };
    tell(server::process::socket::sweep_sockets(), "");
    tell(gone(crate::commands::data::sweep_ledgers(&std::env::temp_dir())), "");
    tell(server::binaries::fetch::sweep(cache), ", which was not completely unpacked");
    tell(server::binaries::build::sweep(cache), ", an incomplete build");
    tell(Workspace::look_in_cache(cache)?.sweep()?, ", a cluster that was incomplete");
    tell(passing(cache), "");
    Ok((n_swept, is_all))
}

/// Removes the programs that `--upload` has left on this machine. Returns how many there were.
fn clean_uploaded() -> usize {
    let of_environment =
        |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    // As the script has it that keeps them, whose directory PGDYNO_CACHE does not move.
    let caches = of_environment("XDG_CACHE_HOME").or_else(|| Some(of_environment("HOME")?.join(".cache")));
    let copies = caches.map(|caches| fleet::remove_copies(&caches)).unwrap_or_default();
    for fleet::UploadedCopy { path, run_by } in &copies {
        let what = "a copy of pgdyno for drivers (--upload)";
        match run_by {
            None => say(&format!("removed `{}`, {what}", path.display())),
            Some(pid) => say(&format!("left `{}`, {what}: process {pid} runs it", path.display())),
        }
    }
    copies.len()
}

/// Removes what processes worked in, or measured with, that have ended: where notes in the cache say, and where it is by default.
fn passing(cache: &Cache) -> Vec<Swept> {
    let mut swept = server::temporary::sweep_noted(&cache.dir);
    for place in [Path::new(RESULTS), Path::new(".")] {
        swept.extend(stored::repeat::sweep(place));
    }
    swept.extend(gone(ceiling::sweep_scratch(&cache.clusters_dir())));
    swept.extend(gone(commands::serve::sweep_openers()));
    swept
}

fn gone(paths: Vec<PathBuf>) -> Vec<Swept> {
    paths.into_iter().map(|path| Swept { path, left: None }).collect()
}

/// Puts back the settings that killed pgdynos have left changed, each server reached as its journal says. Returns how many
/// lines that took, and whether nothing is left.
fn clean_settings() -> Result<(usize, bool)> {
    let dir = settings::journals(&Cache::default_location()?);
    let (mut n_lines, mut is_all) = (0, true);
    for path in SettingsJournal::all(&dir)? {
        let undone = SettingsJournal::read(&path).and_then(|journal| {
            // The password comes from where libpq looks for it.
            let target = secrets::keyword_text(&Conninfo::from_keywords(&journal.target, None)?);
            alter_system::undo_journal(&path, &setup::resolve_to_change(&target)?)
        });
        if let Err(error) = &undone
            && error.downcast_ref::<SettingsLockTaken>().is_some()
        {
            // It puts them back.
            let names =
                SettingsJournal::read(&path).map_or_else(|_| String::new(), |journal| journal.names());
            say(&format!("left settings as they are ({names}; `{}`): {error:#}", path.display()));
            n_lines += 1;
            continue;
        }
        let done = Undoing::from_result(&undone);
        report_settings(&done);
        n_lines += done.len();
        if undone.is_err() {
            say(&format!("to name the server of `{}` yourself: pgdyno clean --server URL", path.display()));
        }
        is_all &= !done.iter().any(|undoing| undoing.is_left);
    }
    Ok((n_lines, is_all))
}

/// Restores values of the operating system that a killed pgdyno left on a host.
fn clean_host(host: &DriverSpec) -> Result<Exit> {
    let undone = HostAgents::new(own_program()?).clean(host, signals::stop_flag())?;
    undone.iter().for_each(|value| say(&hands::words(host, value)));
    if undone.is_empty() {
        say(&format!("no values of the operating system were left behind on `{}`", host.name));
    }
    let is_all = undone.iter().all(|value| value.problem.is_none());
    Ok(if is_all { Exit::Done } else { Exit::Failed })
}

/// Lists what pgdyno has loaded into the database, and the statements that drop it. It stays: somebody could still need the data.
fn say_loaded(conninfo: &Conninfo) {
    let doors = Doors::new(conninfo, signals::stop_flag());
    let looked = doors.open(&conninfo.dbname).and_then(|mut session| {
        let is_standby = in_recovery(&mut session);
        Ok((loaded_objects(&mut session)?, is_standby))
    });
    let (loaded, is_standby) = match looked {
        Ok(loaded) => loaded,
        Err(error) => return say(&format!("cannot look for tables that pgdyno loaded: {error:#}")),
    };

    let (plain, changed): (Vec<LoadedTables>, Vec<LoadedTables>) =
        loaded.into_iter().partition(|loaded| loaded.belongings.is_empty());
    let stay = format!("tables that pgdyno loaded into database `{}` stay", conninfo.dbname);
    for LoadedTables { tables, belongings, .. } in changed {
        say(&format!(
            "{stay}: {}; look first at what others made or changed there, which would go with them or keeps them from being dropped: {}",
            names(&tables),
            bounded(&belongings)
        ));
    }
    let is_droppable = |object: &LoadedObject| object.is_droppable;
    let (tables, routines): (Vec<_>, Vec<_>) =
        plain.into_iter().map(|loaded| (loaded.tables, loaded.routines)).unzip();
    let (droppable, others): (Vec<LoadedObject>, Vec<LoadedObject>) =
        tables.into_iter().flatten().partition(is_droppable);
    let (droppable_routines, others_routines): (Vec<LoadedObject>, Vec<LoadedObject>) =
        routines.into_iter().flatten().partition(is_droppable);
    let there = if is_standby { "on the primary, " } else { "" };
    if let Some(sql) = drop_sql(&droppable, &droppable_routines) {
        let all = || droppable.iter().chain(&droppable_routines);
        let is_own = all().all(|object| object.owner == conninfo.user);
        let of = if is_own { String::new() } else { format!(" (their owner: {})", owners(all())) };
        say(&format!("{stay}{of}; {there}this removes them: {sql}"));
    }
    if let Some(sql) = drop_sql(&others, &others_routines) {
        say(&format!(
            "{stay}; role `{}` cannot remove them, their owner ({}) or a superuser can{}: {sql}",
            conninfo.user,
            owners(others.iter().chain(&others_routines)),
            if is_standby { " on the primary" } else { "" },
        ));
    }
}

fn owners<'a>(objects: impl Iterator<Item = &'a LoadedObject>) -> String {
    let owners: BTreeSet<String> = objects.map(|object| format!("`{}`", object.owner)).collect();
    owners.into_iter().collect::<Vec<_>>().join(", ")
}

/// What drops tables, and then the routines that work on them, each by a statement of its own as all releases take it. `None` if
/// there is nothing to drop.
fn drop_sql(tables: &[LoadedObject], routines: &[LoadedObject]) -> Option<String> {
    let of_tables = (!tables.is_empty()).then(|| format!("DROP TABLE {}", names(tables)));
    let of_routines = routines.iter().map(|routine| format!("DROP {}", routine.name));
    let all: Vec<String> = of_tables.into_iter().chain(of_routines).collect();
    (!all.is_empty()).then(|| all.join("; "))
}

fn names(tables: &[LoadedObject]) -> String {
    tables.iter().map(|table| table.name.as_str()).collect::<Vec<_>>().join(", ")
}

/// What fits on a line, and how many more there are.
fn bounded(what: &[String]) -> String {
    let named = what.iter().take(BELONGINGS_MAX).cloned().collect::<Vec<_>>().join(", ");
    match what.len().saturating_sub(BELONGINGS_MAX) {
        0 => named,
        n_more => format!("{named} and {n_more} more"),
    }
}

/// Puts back settings that a killed pgdyno has left changed on a server, and removes the databases that it left there: copies
/// that it made to restore another database.
fn clean_server(target: &str, longest: Duration) -> Result<Exit> {
    let conninfo = setup::resolve_to_change(target)?;
    let dir = settings::journals(&Cache::default_location()?);
    let undone = alter_system::undo_left(&dir, &conninfo)?;
    let done: Vec<Undoing> = undone.iter().map(Undoing::from).collect();
    report_settings(&done);
    let clean = || template::clean(&Doors::new(&conninfo, signals::stop_flag()));
    let fates = limit::within_option("clean", longest, "--timeout", clean)?;
    let mut is_all = !done.iter().any(|undoing| undoing.is_left);
    for (name, fate) in &fates {
        match fate {
            LeftoverOutcome::Removed => say(&format!("removed database `{name}`")),
            LeftoverOutcome::Left(why) => {
                is_all = false;
                say(&format!("left database `{name}`: {why}"));
            }
        }
    }
    let changing = alter_system::changing(&conninfo)?;
    if let Some(holder) = &changing {
        say(&format!(
            "left settings of this server as they are: another pgdyno changes them ({holder}), and puts them back when it ends"
        ));
    }
    if fates.is_empty() && done.is_empty() && changing.is_none() {
        say(
            "this server has no databases left behind by pgdyno, and no journal here names a setting that is changed on it",
        );
    }
    say_loaded(&conninfo);
    Ok(if is_all { Exit::Done } else { Exit::Failed })
}
