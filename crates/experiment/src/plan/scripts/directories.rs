//! Workload directories: read once, when the plan is made, with errors that say where in which file; from then on the
//! experiment has their texts, and a case what was chosen of them.

pub(crate) mod captured;
pub(crate) mod chosen;
mod files;
pub(crate) mod replay;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use generator::{Directory, Instance, Problem};
use model::directory::Replay;
use model::directory::drawn::WorkloadFiles;
use model::experiment::WorkloadSection;
use model::experiment::case::{WorkloadKind, WorkloadSpec};
use model::experiment::plan::Plan;
use model::experiment::script::CaseData;
use model::text::units::Scale;
use model::workload::{DirectoryName, WorkloadName};

use crate::plan::problems::Problems;
use crate::plan::scripts::directories::chosen::{Chosen, ChosenDirectory};

pub use captured::is_for_existing_data;
pub use chosen::{as_planned, words};

/// Reads the directories that `workload.kind` names, relative to `dir`, unless the experiment has their texts, and has what cases choose of
/// them compiled.
pub(super) fn read(workload: &mut WorkloadSection, dir: &Path, problems: &mut Problems) {
    let names: Vec<DirectoryName> =
        workload.kind.all().iter().filter_map(WorkloadName::directory).cloned().collect();
    let places: BTreeSet<&str> = names.iter().map(|name| name.place.as_str()).collect();
    // Results say nothing of others.
    workload.directories.retain(|place, _| places.contains(place.as_str()));
    for place in places {
        if let Some(known) = workload.directories.get_mut(place) {
            files::find_draws(known, &dir.join(place));
            continue;
        }
        let Some(mut texts) = problems.take(files_of(place, dir)) else { continue };
        if workload.replay == Some(Replay::Trace) {
            let added = files::add_trace(&mut texts, &dir.join(place));
            problems.take(added.map_err(|why| format!("workload directory `{place}`: {why}")));
        }
        workload.directories.insert(place.to_string(), texts);
    }
    problems.take(captured::name_archive(workload, dir));
    for name in names.iter().filter(|name| workload.directories.contains_key(&name.place)) {
        let Some(found) = problems.take(chosen::found(workload, name)) else { continue };
        for chosen in choices(workload, name) {
            problems.take(ChosenDirectory::new(&found, &name.place, &chosen));
        }
    }
}

/// The files of a directory as an experiment keeps them.
fn files_of(place: &str, dir: &Path) -> Result<WorkloadFiles, String> {
    match builtin(place) {
        Some(texts) => Ok(texts.into()),
        None if place.contains('/') => {
            files::files_at(&dir.join(place)).map_err(|why| format!("workload directory `{place}`: {why}"))
        }
        None => Err(format!("the workload directory `{place}` is not part of this pgdyno")),
    }
}

/// The texts of a built-in directory.
fn builtin(name: &str) -> Option<BTreeMap<String, String>> {
    let files = workload::directories::builtin(name)?;
    Some(files.iter().map(|(name, text)| (name.to_string(), text.to_string())).collect())
}

/// Scale units of a directory where nobody says how many: what a unit is, its author chose for people to begin with.
pub const DEFAULT_SCALE: u32 = 1;

/// The files of a directory that is named as `workload.kind` names it; a path is relative to `dir`.
///
/// # Errors
/// In words, when it cannot be read or is beyond the bounds of such directories.
pub fn directory_at(place: &str, dir: &Path) -> Result<Directory, String> {
    compiled(place, files_of(place, dir)?)
}

/// The workload of a directory at a scale with its own options, to be loaded without an experiment; a path is relative to `dir`.
///
/// # Errors
/// All that is wrong with it, one problem a line.
pub fn workload_at(name: &DirectoryName, scale: u32, dir: &Path) -> Result<WorkloadSpec, String> {
    let directories = BTreeMap::from([(name.place.clone(), files_of(&name.place, dir)?)]);
    let section = WorkloadSection { directories, ..WorkloadSection::default() };
    let chosen = Chosen {
        variant: name.variant.clone(),
        options: BTreeMap::new(),
        scale,
        data_seed: None,
        replay: None,
    };
    let ChosenDirectory { directory, scripts, .. } =
        ChosenDirectory::new(&chosen::found(&section, name)?, &name.place, &chosen)?;
    Ok(WorkloadSpec {
        data: CaseData::Directory,
        scripts,
        directory: Some(Box::new(directory)),
        ..WorkloadSpec::new(WorkloadKind::OWN, scale)
    })
}

/// What keeps a directory whose expressions are compiled from being planned at a scale, and what is only odd about its scripts.
pub fn problems_of(instance: &Arc<Instance>, scale: u32) -> Vec<Problem> {
    let mut defines = instance.options().clone();
    defines.insert("scale".to_string(), scale.to_string());
    let mut found = workload::directories::unsupported(instance.manifest());
    found.extend(workload::directories::problems(instance, &defines));
    found
}

/// The directory with these files.
fn compiled(place: &str, files: WorkloadFiles) -> Result<Directory, String> {
    let WorkloadFiles { texts, draws } = files;
    Directory::new(texts)
        .and_then(|directory| directory.with_draws(&draws.0))
        .map_err(|problems| chosen::words(place, &problems))
}

/// What cases choose of a directory, such that each level of each key is in one: not all combinations, which cases check.
fn choices(workload: &WorkloadSection, name: &DirectoryName) -> Vec<Chosen> {
    let options: BTreeMap<String, String> = workload
        .options
        .iter()
        .map(|(option, levels)| (option.clone(), levels.all()[0].to_string()))
        .collect();
    let of_levels = workload.variant.iter().flat_map(|levels| levels.all()).cloned().map(Some);
    let mut variants: Vec<Option<String>> = of_levels.collect();
    if name.variant.is_some() || variants.is_empty() {
        variants = vec![name.variant.clone()];
    }
    let scales: BTreeSet<u32> = workload.scale.all().iter().map(|scale| units(*scale)).collect();
    let first = |variant: &Option<String>, scale: u32| Chosen {
        variant: variant.clone(),
        options: options.clone(),
        scale,
        data_seed: workload.data_seed,
        replay: replay::asked(workload),
    };
    let mut all: Vec<Chosen> =
        variants.iter().flat_map(|variant| scales.iter().map(move |scale| first(variant, *scale))).collect();
    for (option, levels) in &workload.options {
        for level in &levels.all()[1..] {
            let mut chosen = all[0].clone();
            chosen.options.insert(option.clone(), level.to_string());
            all.push(chosen);
        }
    }
    all
}

/// What the variants of a workload ask of a load, where all ask for the same and nobody says something else.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AskedLoad {
    /// The number of clients.
    pub n_clients: Option<u32>,
    /// Whether it ends after a number of transactions.
    pub is_counted: bool,
    /// Whether it is to arrive at the rate at which it was captured.
    pub is_captured: bool,
    /// How long its trace takes, seconds; of several, the longest one.
    pub replay_s: Option<u32>,
}

/// What the directories of a workload that was read ask of a load.
pub fn asked_load(workload: &WorkloadSection) -> AskedLoad {
    let mut found: Vec<AskedLoad> = Vec::new();
    for name in workload.kind.all() {
        let Some(directory) = name.directory() else { return AskedLoad::default() };
        // What is wrong, planning reports.
        let Ok(files) = chosen::found(workload, directory) else { continue };
        let choices = choices(workload, directory).into_iter();
        found.extend(choices.filter_map(|chosen| chosen::asked_load(&files, &directory.place, &chosen)));
    }
    let first = found.first().copied().unwrap_or_default();
    let is_common = |of: fn(&AskedLoad) -> u32| found.iter().all(|one| of(one) == of(&first));
    AskedLoad {
        n_clients: if is_common(|load| load.n_clients.unwrap_or(0)) { first.n_clients } else { None },
        is_counted: first.is_counted && is_common(|load| load.is_counted.into()),
        is_captured: first.is_captured && is_common(|load| load.is_captured.into()),
        replay_s: found.iter().filter_map(|load| load.replay_s).max(),
    }
}

/// Scale units as far as they are known before the machine is.
fn units(scale: Scale) -> u32 {
    match scale {
        Scale::Units(units) => units,
        Scale::Fit | Scale::TimesRam(_) => DEFAULT_SCALE,
    }
}

/// Takes up the captured rows of a plan that was stored: from `draws` among its results if somebody has copied them there, otherwise
/// from the directory that the plan was made of. What is not found, or has changed, the load will ask for.
pub fn find_draws(plan: &mut Plan, results: &Path) {
    for directory in plan.cases.iter_mut().filter_map(|case| case.workload.directory.as_deref_mut()) {
        let mut found = WorkloadFiles {
            texts: std::mem::take(&mut directory.texts),
            draws: std::mem::take(&mut directory.draws),
        };
        files::find_draws(&mut found, results);
        if let Some(place) = &directory.draws_from {
            files::find_draws(&mut found, Path::new(place));
        }
        (directory.texts, directory.draws) = (found.texts, found.draws);
    }
}

/// What the workload directories of a plan want to be said with every result, each once.
pub fn notices(plan: &Plan) -> Vec<String> {
    let mut found = Vec::new();
    for directory in plan.cases.iter().filter_map(|case| case.workload.directory.as_deref()) {
        let notice = directory.notice.iter().map(|notice| format!("{}: {notice}", directory.title));
        notice.for_each(|notice| add(&mut found, notice));
    }
    found
}

/// What is odd about the workload directories of a plan, each once.
pub fn warnings(plan: &Plan) -> Vec<String> {
    let (mut found, mut seen) = (Vec::new(), BTreeSet::new());
    for WorkloadSpec { directory, scale, .. } in plan.cases.iter().map(|case| &case.workload) {
        let Some(directory) = directory.as_deref() else { continue };
        if !seen.insert((&directory.identity, &directory.variant, &directory.options, scale)) {
            continue;
        }
        let Ok(instance) = workload::directories::at_scale(directory, *scale) else { continue };
        let of_scripts = problems_of(&instance, *scale);
        let warnings = instance.warnings().iter().chain(of_scripts.iter().filter(|one| one.is_warning));
        warnings.for_each(|warning| add(&mut found, format!("{}/{warning}", directory.place_words())));
    }
    found
}

fn add(found: &mut Vec<String>, text: String) {
    if !found.contains(&text) {
        found.push(text);
    }
}

#[cfg(test)]
mod tests;
