//! Reads the directory of an experiment, as far as it is readable.
//!
//! A run may have been cut off at any byte. A torn last line is dropped silently; any other damage is recorded with the
//! run and skipped. The record of a completed run is written after all its lines, so a torn line there was cut off
//! later and is damage. Only a missing or unreadable plan is an error.

mod lines;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use model::bounds::ReadBudget;
use model::experiment::comparison::ComparisonRequest;
use model::experiment::plan::{Plan, RunState, StateLine};
use model::load::duet::Duet;
use model::load::interval::Interval;
use model::run::now::CurrentActivity;
use model::run::profile::StoredProfile;
use model::run::{ExperimentData, RunData, RunRecord, StampedHistogram};
use model::secret::{hide_json, hide_text};
use model::telemetry::reading::{KEYS_MAX, LENGTH_MAX_NS, OVERLAPS_MAX, Tick, TickSource};
use serde::Deserialize;
use serde::de::DeserializeOwned;

pub(crate) use self::lines::LINES;
pub use self::lines::decoded_bytes_max;
use self::lines::{Allowance, Damage, read_lines};
use crate::parse::ReadTick;
use crate::profiles::read_profiles;
use crate::{hlog, names, parse};

/// Largest plan or record that is accepted; one of 1,000 runs has some megabytes.
const WHOLE_BYTES_MAX: u64 = 256 << 20;
/// Why an experiment cannot be loaded.
#[allow(missing_docs, reason = "the names say it")]
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// There is no plan.
    #[error("`{}` is not the directory of an experiment: it has no `plan.json`; `pgdyno list` shows the results in a directory", path.display())]
    NotAnExperiment { path: PathBuf },
    /// A newer pgdyno wrote it.
    #[error(
        "`{}` has format {found}, and this pgdyno reads formats up to {}; use a newer pgdyno",
        path.display(),
        model::FORMAT
    )]
    NewerFormat { path: PathBuf, found: u32 },
    /// The plan is damaged.
    #[error("`{}` is damaged: {reason}", path.display())]
    Damaged { path: PathBuf, reason: String },
    /// The operating system does not let us read it. The text has the cause; as a `source` it would be printed again.
    #[error("cannot read `{}`: {cause}", path.display())]
    Unreadable { path: PathBuf, cause: io::Error },
}

/// Whether `path` is the directory of an experiment.
pub fn is_experiment_dir(path: &Path) -> bool {
    path.join(names::PLAN).is_file()
}

/// An experiment as stored, whose runs are read one at a time: all of them together may need more memory than there is.
#[derive(Debug)]
pub struct Stored {
    plan: Plan,
    experiment_toml: String,
    state: Vec<StateLine>,
    runs: Vec<(u32, PathBuf)>,
    profiles: Vec<StoredProfile>,
    /// What its runs may still decode to.
    allowance: Arc<Allowance>,
}

impl Stored {
    /// Reads all but the runs.
    ///
    /// # Errors
    /// When the plan is missing, damaged, or has a newer format.
    pub fn open(path: &Path) -> Result<Stored, LoadError> {
        // Reports only quote this file; losing it costs no numbers.
        let experiment_toml = read_whole(&path.join(names::EXPERIMENT)).unwrap_or_default();
        Ok(Stored {
            plan: read_plan(path)?,
            experiment_toml: hide_text(&String::from_utf8_lossy(&experiment_toml)).into_owned(),
            state: read_state(path),
            runs: run_dirs(path)?,
            profiles: read_profiles(path),
            allowance: Arc::default(),
        })
    }

    /// `plan.json`.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Number of the run at an index.
    pub fn number(&self, index: usize) -> u32 {
        self.runs[index].0
    }

    /// Directories of runs; [`Stored::run`] takes an index below it.
    pub fn n_runs(&self) -> usize {
        self.runs.len()
    }

    /// Reads one run; `None` if it has no record and the plan does not know it either. Damage is listed in
    /// [`RunData::damage`].
    ///
    /// # Errors
    /// When a file has a newer format.
    pub fn run(&self, index: usize) -> Result<Option<RunData>, LoadError> {
        let (run, dir) = &self.runs[index];
        load_run(&self.plan, *run, dir, Damage::within(&self.allowance))
    }

    /// Reads the record of one run alone; `None` as for [`Stored::run`].
    ///
    /// # Errors
    /// When it has a newer format.
    pub fn record(&self, index: usize) -> Result<Option<RunRecord>, LoadError> {
        let (run, dir) = &self.runs[index];
        read_record(&self.plan, *run, dir, &mut Damage::default())
    }

    /// The experiment without its runs.
    pub fn experiment(&self) -> ExperimentData {
        ExperimentData {
            plan: self.plan.clone(),
            experiment_toml: self.experiment_toml.clone(),
            state: self.state.clone(),
            runs: Vec::new(),
            profiles: self.profiles.clone(),
        }
    }
}

/// Reads everything that is stored about an experiment.
///
/// # Errors
/// When the plan is missing or damaged, or a file has a newer format. Other damage is listed in [`RunData::damage`].
pub fn load_experiment(path: &Path) -> Result<ExperimentData, LoadError> {
    let stored = Stored::open(path)?;
    let mut runs = Vec::new();
    for index in 0..stored.n_runs() {
        runs.extend(stored.run(index)?);
    }
    Ok(ExperimentData { runs, ..stored.experiment() })
}

/// Reads everything that is stored about one run.
///
/// # Errors
/// As [`load_experiment`], and when there is no such run.
pub fn load_one(path: &Path, run: u32) -> Result<RunData, LoadError> {
    let plan = read_plan(path)?;
    let dir = path.join(names::RUNS).join(names::run_dir(run));
    let found = load_run(&plan, run, &dir, Damage::default())?;
    found.ok_or_else(|| LoadError::Damaged { path: dir, reason: "it has no record".to_string() })
}

/// Reads `duet.json`; `None` if the experiment is not a duet, or did not finish.
///
/// # Errors
/// When the file is damaged or has a newer format.
pub fn read_duet(path: &Path) -> Result<Option<Duet>, LoadError> {
    let path = path.join(names::DUET);
    let duet: Option<Duet> = read_optional(path.clone())?;
    match duet.map(|duet| duet.slicing.check().map(|()| duet)).transpose() {
        Ok(duet) => Ok(duet),
        Err(reason) => Err(LoadError::Damaged { path, reason }),
    }
}

/// Reads `comparison.json`; `None` if the experiment is not a comparison, or an earlier version made it.
///
/// # Errors
/// When the file is damaged or has a newer format.
pub fn read_comparison(path: &Path) -> Result<Option<ComparisonRequest>, LoadError> {
    read_optional(path.join(names::COMPARISON))
}

/// Reads `now.json`; `None` if nothing is under way, or what is there cannot be read.
pub fn read_now(path: &Path) -> Option<CurrentActivity> {
    read_optional(path.join(names::NOW)).ok().flatten()
}

fn read_optional<T: DeserializeOwned>(path: PathBuf) -> Result<Option<T>, LoadError> {
    let bytes = match read_record_text(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(cause) => return Err(LoadError::Unreadable { path, cause }),
    };
    refuse_newer(&path, &bytes)?;
    parse::record(&bytes).map(Some).map_err(|reason| LoadError::Damaged { path, reason })
}

/// Reads `plan.json` alone.
///
/// # Errors
/// When the file is missing, damaged, or has a newer format.
pub fn read_plan(path: &Path) -> Result<Plan, LoadError> {
    plan_of(path).map(|(_, plan)| plan)
}

/// The plan, and the bytes of its file.
pub(crate) fn plan_of(path: &Path) -> Result<(Vec<u8>, Plan), LoadError> {
    let plan = path.join(names::PLAN);
    let bytes = read_whole(&plan).map_err(|cause| match cause.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
            LoadError::NotAnExperiment { path: path.to_path_buf() }
        }
        _ => LoadError::Unreadable { path: plan.clone(), cause },
    })?;
    let hidden = without_secrets(&bytes);
    refuse_newer(&plan, &hidden)?;
    let read = parse::record(&hidden).map_err(|reason| LoadError::Damaged { path: plan, reason })?;
    Ok((bytes, read))
}

/// Reads the experiment file as the user wrote it, with secrets masked.
///
/// # Errors
/// When it is missing, not a regular file, or not text.
pub fn read_experiment(path: &Path) -> Result<String, LoadError> {
    experiment_text(path, experiment_bytes(path)?)
}

/// The bytes of the experiment file.
pub(crate) fn experiment_bytes(path: &Path) -> Result<Vec<u8>, LoadError> {
    let path = path.join(names::EXPERIMENT);
    read_whole(&path).map_err(|cause| LoadError::Unreadable { path, cause })
}

/// The text of the experiment file in `path`, of its bytes.
pub(crate) fn experiment_text(path: &Path, bytes: Vec<u8>) -> Result<String, LoadError> {
    let path = path.join(names::EXPERIMENT);
    String::from_utf8(bytes).map_err(|cause| LoadError::Unreadable { path, cause: io::Error::other(cause) })
}

/// Reads the records of the runs that were begun, without their measurements. Skips runs whose record is missing or
/// unreadable.
///
/// # Errors
/// When the directory is not readable, or a record has a newer format or belongs to another run.
pub fn read_records(path: &Path) -> Result<Vec<RunRecord>, LoadError> {
    let mut records = Vec::new();
    for (run, dir) in run_dirs(path)? {
        let file = dir.join(names::RUN);
        let Ok(bytes) = read_record_text(&file) else { continue };
        refuse_newer(&file, &bytes)?;
        let Ok(record) = parse::record::<RunRecord>(&bytes) else { continue };
        expect_of_run(run, &record).map_err(|reason| LoadError::Damaged { path: file, reason })?;
        records.push(record);
    }
    Ok(records)
}

/// Reads the records of the runs that were begun, as [`read_records`], and skips none that cannot be read.
///
/// # Errors
/// As [`read_records`], and when a record is damaged.
pub fn read_all_records(path: &Path) -> Result<Vec<RunRecord>, LoadError> {
    let records = read_records(path)?;
    for (run, dir) in run_dirs(path)? {
        let file = dir.join(names::RUN);
        let is_read = records.iter().any(|record| record.spec.run == run);
        // A run that was cut off before its record has none.
        if is_read || file.symlink_metadata().is_err() {
            continue;
        }
        read_optional::<RunRecord>(file)?;
    }
    Ok(records)
}

/// Whether there is anything in the file of intervals of a run.
pub fn has_intervals(path: &Path, run: u32) -> bool {
    let file = path.join(names::RUNS).join(names::run_dir(run)).join(names::INTERVALS);
    fs::symlink_metadata(file).is_ok_and(|facts| facts.is_file() && facts.len() > 0)
}

/// Reads `state.jsonl` alone. Lines that cannot be read are left out: what they said of a run is in its record.
pub fn read_state(path: &Path) -> Vec<StateLine> {
    read_json_lines(&path.join(names::STATE), &mut Damage::default())
}

/// Reads a whole file from a directory that another user may have sent or prepared.
pub(crate) fn read_whole(path: &Path) -> io::Result<Vec<u8>> {
    files::read(path, WHOLE_BYTES_MAX)
}

/// Reads a whole record. An earlier version may have written it with secrets, which must not get into a report.
fn read_record_text(path: &Path) -> io::Result<Vec<u8>> {
    Ok(without_secrets(&read_whole(path)?).into_owned())
}

fn without_secrets(record: &[u8]) -> Cow<'_, [u8]> {
    match std::str::from_utf8(record).map(hide_json) {
        Ok(Cow::Owned(hidden)) => Cow::Owned(hidden.into_bytes()),
        _ => Cow::Borrowed(record),
    }
}

/// Every file with a format version begins with this.
#[derive(Deserialize)]
struct Format {
    format: u32,
}

/// Refuses a file whose format is newer than this pgdyno. One that is damaged or cannot be read is not refused for it.
pub(crate) fn expect_known_format(path: &Path) -> Result<(), LoadError> {
    read_whole(path).map_or(Ok(()), |bytes| refuse_newer(path, &bytes))
}

fn refuse_newer(path: &Path, bytes: &[u8]) -> Result<(), LoadError> {
    match serde_json::from_slice::<Format>(bytes) {
        Ok(Format { format: found }) if found > model::FORMAT => {
            Err(LoadError::NewerFormat { path: path.to_path_buf(), found })
        }
        _ => Ok(()),
    }
}

/// Run directories by number, in order. Names that are not all digits (attempts set aside) are not runs.
pub(crate) fn run_dirs(path: &Path) -> Result<Vec<(u32, PathBuf)>, LoadError> {
    let runs = path.join(names::RUNS);
    let unreadable = |cause| LoadError::Unreadable { path: runs.clone(), cause };
    if runs.is_symlink() {
        return Err(unreadable(io::Error::other("it is a symbolic link, which is not followed here")));
    }
    let entries = match fs::read_dir(&runs) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(unreadable(error)),
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.map_err(unreadable)?;
        let is_dir = entry.file_type().map_err(unreadable)?.is_dir();
        let dir = entry.path();
        let name = dir.file_name().and_then(|name| name.to_str()).unwrap_or("");
        if name.bytes().all(|b| b.is_ascii_digit())
            && let Ok(run) = name.parse()
            && is_dir
        {
            found.push((run, dir));
        }
    }
    found.sort();
    Ok(found)
}

/// The lines of a file that most runs do not have.
fn read_if_there<T: DeserializeOwned>(path: &Path, damage: &mut Damage) -> Vec<T> {
    if path.exists() { read_json_lines(path, damage) } else { Vec::new() }
}

/// Reads one run; `None` if it has no record and the plan does not know it either.
fn load_run(plan: &Plan, run: u32, dir: &Path, mut damage: Damage) -> Result<Option<RunData>, LoadError> {
    let Some(record) = read_record(plan, run, dir, &mut damage)? else { return Ok(None) };
    damage.is_whole = record.state == RunState::Completed;
    let intervals = read_intervals(&dir.join(names::INTERVALS), &mut damage);
    let histograms = read_histograms(&plain_or_packed(dir, names::LATENCY, names::LATENCY_ZST), &mut damage);
    let ticks = read_ticks(&plain_or_packed(dir, names::READINGS, names::READINGS_ZST), &mut damage);
    let events = read_json_lines(&dir.join(names::EVENTS), &mut damage);
    let imports = read_if_there(&dir.join(names::IMPORTS), &mut damage);
    let executions = read_if_there(&dir.join(names::EXECUTIONS), &mut damage);
    let plans = read_if_there(&dir.join(names::PLANS), &mut damage);
    let damage = damage.found;
    Ok(Some(RunData { record, intervals, histograms, ticks, events, imports, executions, plans, damage }))
}

/// The plain file is removed only after the compressed one is complete, so if it exists it is complete.
fn plain_or_packed(dir: &Path, plain: &str, packed: &str) -> PathBuf {
    let plain = dir.join(plain);
    if plain.exists() { plain } else { dir.join(packed) }
}

/// Reads `run.json`, or derives a record from the plan so that the other files of the run are not lost.
fn read_record(
    plan: &Plan,
    run: u32,
    dir: &Path,
    damage: &mut Damage,
) -> Result<Option<RunRecord>, LoadError> {
    let path = dir.join(names::RUN);
    let read = read_record_text(&path).map_err(|error| error.to_string());
    let reason = match &read {
        Ok(bytes) => {
            let record = parse::record::<RunRecord>(bytes);
            // Only a record that is not of a known format is read twice.
            if record.as_ref().map_or(true, |record| record.format > model::FORMAT) {
                refuse_newer(&path, bytes)?;
            }
            let checked = |record: RunRecord| {
                expect_of_run(run, &record)?;
                record.check().map(|()| record)
            };
            match record.and_then(checked) {
                Ok(record) => return Ok(Some(record)),
                Err(reason) => reason,
            }
        }
        Err(error) => error.clone(),
    };
    damage.note(&path, &reason);
    let Some(spec) = plan.runs.iter().find(|spec| spec.run == run) else { return Ok(None) };
    let Some(case) = plan.case(spec.case) else { return Ok(None) };
    Ok(Some(RunRecord {
        state: RunState::Failed,
        reason: format!("`run.json` cannot be read: {reason}"),
        ..RunRecord::new(spec.clone(), case.clone(), &plan.tool_version)
    }))
}

/// Refuses a record that was copied into the directory of another run: it would be counted twice, and amending it would
/// overwrite that run's own.
fn expect_of_run(run: u32, record: &RunRecord) -> Result<(), String> {
    match record.spec.run {
        of if of == run => Ok(()),
        of => Err(format!("it is the record of run {of}, in the directory of run {run}")),
    }
}

fn read_json_lines<T: DeserializeOwned>(path: &Path, damage: &mut Damage) -> Vec<T> {
    let (mut found, budget) = (Vec::new(), ReadBudget::default());
    read_lines(path, damage, &mut |line, _| {
        found.push(parse::line(&budget, line)?);
        Ok(())
    });
    found
}

/// Reads ticks. Their keys are those of one run, of which there are only so many, and those of a source follow each other: whatever asks
/// for a moment looks at a few.
fn read_ticks(path: &Path, damage: &mut Damage) -> Vec<Tick> {
    let (mut found, mut keys) = (Vec::new(), BTreeSet::new());
    let mut sources: BTreeMap<TickSource, Overlaps> = BTreeMap::new();
    read_lines(path, damage, &mut |line, _| {
        let ReadTick { mut tick, impossible } = parse::tick(line)?;
        // An observer that was away for so long says nothing of any moment.
        if tick.length_ns > LENGTH_MAX_NS {
            return Ok(());
        }

        sources.entry(tick.source).or_default().add(&tick)?;

        let is_too_much = take_keys(&mut tick, &mut keys);
        found.push(tick);
        match impossible.or(is_too_much) {
            Some(reason) => Err(reason),
            None => Ok(()),
        }
    });
    found
}

/// Leaves out values of keys beyond those that a run may have; says so.
fn take_keys(tick: &mut Tick, keys: &mut BTreeSet<Arc<str>>) -> Option<String> {
    let n_before = tick.values.len();
    for (key, _) in tick.values.entries() {
        if keys.len() < KEYS_MAX && !keys.contains(key) {
            keys.insert(key.clone());
        }
    }
    if keys.len() == KEYS_MAX {
        tick.values.retain(|key, _| keys.contains(key));
    }
    let is_less = tick.values.len() < n_before;
    is_less.then(|| format!("the run has readings of more than {KEYS_MAX} keys"))
}

/// The ends of a source's last ticks.
#[derive(Default)]
struct Overlaps {
    ends: VecDeque<u64>,
    n_steps: usize,
}

impl Overlaps {
    /// How often a clock may be set back during a run.
    const STEPS_MAX: usize = 2;

    /// Takes the next tick, which follows the others or, where the clock was set back, begins again.
    fn add(&mut self, tick: &Tick) -> Result<(), String> {
        if self.ends.len() == OVERLAPS_MAX {
            let overlaps = tick.end_unix_ns.saturating_sub(tick.length_ns) < self.ends[0];
            if overlaps && self.n_steps == Overlaps::STEPS_MAX {
                return Err(format!(
                    "more than {OVERLAPS_MAX} ticks of a source overlap, or are not in order"
                ));
            }
            if overlaps {
                self.ends.clear();
                self.n_steps += 1;
            } else {
                self.ends.pop_front();
            }
        }
        self.ends.push_back(tick.end_unix_ns);
        Ok(())
    }
}

fn read_intervals(path: &Path, damage: &mut Damage) -> Vec<Interval> {
    let mut found = Vec::new();
    read_lines(path, damage, &mut |line, _| {
        found.push(parse::interval(line)?);
        Ok(())
    });
    found
}

fn read_histograms(path: &Path, damage: &mut Damage) -> Vec<StampedHistogram> {
    let mut found = Vec::new();
    read_lines(path, damage, &mut |line, is_whole| {
        if !is_whole {
            // Base64 does not show where it was cut off.
            return Err("torn".to_string());
        }
        let line = std::str::from_utf8(line).map_err(|error| error.to_string())?;
        if let Some(line) = hlog::parse_line(line)? {
            found.push(line.stamped()?);
        }
        Ok(())
    });
    found
}

#[cfg(test)]
mod tests;
