//! The index of results: small facts of each directory, read from the head of its files and kept as long as those do not change.

mod facts;

pub(crate) use facts::repeats;

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use report::site::{FilterChoice, ListFilter, ListedResult};

/// Most results that are listed, the newest by name of their directories.
const RESULTS_MAX: usize = 20_000;
/// Most values that a choice offers.
const VALUES_MAX: usize = 200;

/// The index, with what is kept of each directory.
#[derive(Debug)]
pub(crate) struct Index {
    root: PathBuf,
    known: HashMap<String, Known>,
}

#[derive(Debug)]
struct Known {
    stamp: Stamp,
    found: Result<ListedResult, String>,
}

/// What changes when a file of the head does: time and size of each.
type Stamp = [(i64, i64, u64); 3];

/// The files whose changes matter.
const HEADS: [&str; 3] = [store::names::PLAN, store::names::STATE, facts::ANSWER];

/// All results, newest first, and what cannot be read.
#[derive(Debug, Default)]
pub(crate) struct ResultIndex {
    pub(crate) entries: Vec<ListedResult>,
    pub(crate) damaged: Vec<String>,
}

impl Index {
    pub(crate) fn new(root: &Path) -> Index {
        Index { root: root.to_path_buf(), known: HashMap::new() }
    }

    /// Reads what has changed since the last time.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub(crate) fn refresh(&mut self) -> Result<ResultIndex> {
        let names = self.names()?;
        let mut known = std::mem::take(&mut self.known);
        let mut listed = ResultIndex::default();
        for name in names {
            let dir = self.path(&name);
            let stamp = HEADS.map(|file| stamp(&dir.join(file)));
            let kept = known.remove(&name).filter(|kept| kept.stamp == stamp);
            let mut kept = kept.unwrap_or_else(|| Known { stamp, found: facts::read(&dir, &name) });
            match &mut kept.found {
                Ok(entry) => {
                    entry.is_running = store::writer_of(&dir).is_some();
                    listed.entries.push(entry.clone());
                }
                Err(reason) => listed.damaged.push(reason.clone()),
            }
            self.known.insert(name, kept);
        }
        listed.entries.sort_by(|a, b| (b.made_unix_ns, &b.name).cmp(&(a.made_unix_ns, &a.name)));
        Ok(listed)
    }

    /// The directory of a result; `None` if there is none of this name. Nothing outside of the root has a name here.
    pub(crate) fn dir(&self, name: &str) -> Option<PathBuf> {
        let is_plain = !name.is_empty() && !name.contains('/') && ![".", ".."].contains(&name);
        let dir = self.path(name);
        let is_listed = if self.is_single() { own_name(&self.root) == name } else { !store::is_hidden(&dir) };
        (is_plain && is_listed && is_result(&dir)).then_some(dir)
    }

    fn path(&self, name: &str) -> PathBuf {
        if self.is_single() { self.root.clone() } else { self.root.join(name) }
    }

    /// Whether the root is itself a result.
    fn is_single(&self) -> bool {
        store::is_experiment_dir(&self.root)
    }

    fn names(&self) -> Result<Vec<String>> {
        if self.is_single() {
            return Ok(vec![own_name(&self.root)]);
        }
        let entries = match fs::read_dir(&self.root) {
            // It is made by the first run.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            other => other.with_context(|| format!("cannot read directory `{}`", self.root.display()))?,
        };
        let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
        let is_listed = |dir: &Path| !store::is_hidden(dir) && is_result(dir);
        let mut names: Vec<String> = names.filter(|name| is_listed(&self.root.join(name))).collect();
        names.sort_unstable_by(|a, b| b.cmp(a));
        names.truncate(RESULTS_MAX);
        Ok(names)
    }
}

/// The directory of a run, if no link leads elsewhere on the way.
pub(crate) fn run_path(dir: &Path, run: u32) -> Option<PathBuf> {
    let runs = dir.join(store::names::RUNS);
    let path = runs.join(store::names::run_dir(run));
    (!runs.is_symlink() && !path.is_symlink()).then_some(path)
}

/// Links are not followed: whoever may write into the root could make the server read elsewhere.
fn is_result(dir: &Path) -> bool {
    !dir.is_symlink() && store::is_experiment_dir(dir)
}

fn own_name(root: &Path) -> String {
    let whole = root.canonicalize().unwrap_or_else(|_| root.to_path_buf());
    whole.file_name().map_or("result".to_string(), |name| name.to_string_lossy().into_owned())
}

fn stamp(path: &Path) -> (i64, i64, u64) {
    fs::symlink_metadata(path).map_or((0, 0, 0), |facts| (facts.mtime(), facts.mtime_nsec(), facts.size()))
}

/// A property by which a list is filtered.
struct Property {
    /// Name in addresses.
    name: &'static str,
    /// Name for people.
    label: &'static str,
    value: fn(&ListedResult) -> String,
}

const PROPERTIES: [Property; 6] = [
    Property { name: "experiment", label: "Experiment", value: |entry| entry.experiment.clone() },
    Property { name: "machine", label: "Machine", value: |entry| entry.machine.clone() },
    Property { name: "version", label: "Server", value: |entry| entry.version.clone() },
    Property { name: "workload", label: "Load", value: |entry| entry.workload.clone() },
    Property { name: "verdict", label: "Verdict", value: verdict },
    Property { name: "limiter", label: "Limiter", value: |entry| entry.limiter.clone() },
];

fn verdict(entry: &ListedResult) -> String {
    match (entry.is_running, entry.grade) {
        (true, _) => "running".to_string(),
        (false, Some(grade)) => grade.as_str().to_string(),
        (false, None) => "no answer".to_string(),
    }
}

/// The values that entries have of each property. One of several (`15, 18`) is offered by itself.
pub(crate) fn choices(entries: &[ListedResult]) -> Vec<FilterChoice> {
    let of = |&Property { name, label, value }: &Property| {
        let mut values: Vec<String> = entries.iter().flat_map(|entry| parts(&value(entry))).collect();
        values.sort_unstable();
        values.dedup();
        values.truncate(VALUES_MAX);
        FilterChoice { name, label, values }
    };
    PROPERTIES.iter().map(of).collect()
}

fn parts(value: &str) -> Vec<String> {
    value.split(", ").filter(|part| !part.is_empty()).map(str::to_string).collect()
}

/// What the query of an address asks for.
pub(crate) fn wanted(query: &[(String, String)]) -> ListFilter {
    let value =
        |name: &str| query.iter().find(|(key, _)| key == name).map(|(_, value)| value.trim().to_string());
    let of = |one: &Property| Some((one.name, value(one.name).filter(|text| !text.is_empty())?));
    let values = PROPERTIES.iter().filter_map(of);
    ListFilter { words: value("q").unwrap_or_default(), values: values.collect() }
}

/// Whether an entry is wanted: it has all words somewhere, in any case, and all values.
pub(crate) fn is_wanted(entry: &ListedResult, wanted: &ListFilter) -> bool {
    let has_values = wanted.values.iter().all(|(name, value)| {
        let property = PROPERTIES.iter().find(|property| property.name == *name);
        property.is_some_and(|property| parts(&(property.value)(entry)).contains(value))
    });
    let texts = [
        &entry.name,
        &entry.experiment,
        &entry.title,
        &entry.machine,
        &entry.version,
        &entry.workload,
        &entry.limiter,
        &entry.headline,
    ];
    let words = || wanted.words.split_whitespace().map(str::to_lowercase);
    has_values && words().all(|word| texts.iter().any(|text| text.to_lowercase().contains(&word)))
}

#[cfg(test)]
mod tests;
