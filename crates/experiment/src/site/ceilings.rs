//! Ceilings for the runs of a plan: measured before the first of them if the experiment asks for it, found among the kept
//! ones for the record of each run.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use anyhow::{Context, Result};
use ceiling::{Effort, MACHINE, kept};
use model::experiment::case::{Case, ServerSource};
use model::experiment::keys;
use model::experiment::plan::Plan;
use model::run::ceilings::{Calibration, Ceilings};
use model::text::prose::plural;
use server::Workspace;
use wire::Conninfo;

use crate::site::Environment;
use crate::site::keys::clusters_dir;
use crate::site::progress::{ProgressEvent, Watch};

/// Measures what cases with `run.calibrate` need and is not known, or was measured too shortly or too long ago.
///
/// # Errors
/// When a device or a server cannot be measured.
pub fn measure_missing(plan: &Plan, environment: &Environment, watch: &mut Watch) -> Result<()> {
    let effort = Effort { part: Effort::PART, stop: environment.stop };
    let machine = ceiling::this_machine();
    let now = ceiling::now_unix_ns();
    let is_known = |place: &str| {
        kept::newest(&environment.cache.dir, &machine, place)
            .is_some_and(|made| kept::spares_another(&made, now))
    };
    let mut seen = BTreeSet::new();
    for case in plan.cases.iter().filter(|case| case.get(keys::run::CALIBRATE)) {
        for wanted in wanted(case, environment)? {
            let place = wanted.place()?;
            if !seen.insert(place.clone()) || is_known(&place) || environment.stop.load(Ordering::Relaxed) {
                continue;
            }
            watch(ProgressEvent::Step(format!(
                "measuring {place}, once for {}",
                plural(kept::DAYS_MAX, "day")
            )));
            match wanted.measure(&effort) {
                Ok(made) => drop(kept::keep(&environment.cache.dir, &made)?),
                Err(_) if environment.stop.load(Ordering::Relaxed) => return Ok(()),
                Err(error) => return Err(error.context(format!("run.calibrate: {place}"))),
            }
        }
    }
    Ok(())
}

enum Wanted {
    Machine,
    Directory(PathBuf),
    Way(Box<Conninfo>),
}

impl Wanted {
    fn place(&self) -> Result<String> {
        Ok(match self {
            Wanted::Machine => MACHINE.to_string(),
            Wanted::Directory(dir) => ceiling::place_of(dir)?,
            Wanted::Way(conninfo) => ceiling::way_to(conninfo),
        })
    }

    fn measure(&self, effort: &Effort) -> Result<Calibration> {
        match self {
            Wanted::Machine => ceiling::machine(effort),
            Wanted::Directory(dir) => ceiling::disk(dir, effort),
            Wanted::Way(conninfo) => ceiling::network(conninfo, effort),
        }
    }
}

/// Where a server by URL has its data, only `pgdyno calibrate --data` can know.
fn wanted(case: &Case, environment: &Environment) -> Result<Vec<Wanted>> {
    let mut all = vec![Wanted::Machine];
    match &case.server.source {
        ServerSource::Url(keywords) => all.push(Wanted::Way(Box::new(environment.conninfo(keywords)?))),
        _ => {
            let data = Workspace::open(&clusters_dir(case, environment.cache))?.dir;
            all.push(Wanted::Directory(data));
            let wal = case.server.wal_directory.as_deref().map(existing).transpose()?;
            all.extend(wal.map(Wanted::Directory));
        }
    }
    Ok(all)
}

/// The directory, or where it will be made.
fn existing(dir: &Path) -> Result<PathBuf> {
    let found = dir.ancestors().find(|dir| dir.is_dir());
    found.map(Path::to_path_buf).with_context(|| format!("cannot find `{}`", dir.display()))
}

/// The kept ceilings of this machine that concern a run, and the declared ones. `dirs` are those of its server on this
/// machine; a server elsewhere has other devices.
pub(crate) fn known(
    case: &Case,
    environment: &Environment,
    dirs: &BTreeMap<String, PathBuf>,
    conninfo: &Conninfo,
) -> Ceilings {
    let machine = ceiling::this_machine();
    let kept = |place: &str| kept::newest(&environment.cache.dir, &machine, place);
    let mut measured = BTreeMap::new();
    for role in ["data", "wal"] {
        // A server by URL does not say where its WAL is; without another directory it is with the data.
        let dir = dirs.get(role).or_else(|| dirs.get("data"));
        let made = dir.and_then(|dir| kept(&ceiling::place_of(dir).ok()?));
        measured.extend(made.map(|made| (role.to_string(), made)));
    }
    measured.extend(kept(MACHINE).map(|made| (MACHINE.to_string(), made)));
    if matches!(case.server.source, ServerSource::Url(_)) {
        measured.extend(kept(&ceiling::way_to(conninfo)).map(|made| ("network".to_string(), made)));
    }
    Ceilings { measured, declared: case.limits }
}
