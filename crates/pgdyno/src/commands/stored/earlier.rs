//! What earlier experiments say about how much runs differ: those next to a result, with its workload and on its machine.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use analysis::budget::EarlierRuns;
use experiment::schedule::conduct::measured_tps;
use model::experiment::case::Case;
use model::experiment::plan::RunState;
use model::run::{ExperimentData, RunRecord};
use store::{Stored, names};

/// From this number of runs of each case on, nobody needs to be asked.
const RUNS_ENOUGH: u32 = 3;
/// Most neighbours that are looked at: those whose names, which begin with the date, come last before the result's own.
const NEIGHBOURS_MAX: usize = 40;
/// Most runs of a neighbour whose records are read.
const RUNS_MAX: usize = 60;

/// What neighbours say, while the directory of their runs stays as it is: lists and histories ask the same ones for each of their results.
static KNOWN: Mutex<BTreeMap<PathBuf, (SystemTime, Arc<Neighbour>)>> = Mutex::new(BTreeMap::new());

/// A result next to the one in question.
#[derive(Debug)]
struct Neighbour {
    made_unix_ns: u64,
    runs: Vec<NeighbourRun>,
}

/// A run that was completed, and is neither a repeat nor half of a duet: what was repeated was disturbed, and so may be its repeats.
#[derive(Debug)]
struct NeighbourRun {
    case: u32,
    question: Question,
    machine: String,
    tps: f64,
    measure_s: f64,
}

/// Earlier runs of the workload of an experiment's first case on its machine; `None` without any, and where its own runs are enough.
pub(super) fn runs(dir: &Path, data: &ExperimentData) -> Option<EarlierRuns> {
    if data.plan.repeats >= RUNS_ENOUGH {
        return None;
    }
    let question = question(data.plan.cases.first()?);
    let machine = data.runs.iter().find_map(|run| machine(&run.record))?;
    let mut found = EarlierRuns { cases: Vec::new(), n_experiments: 0, measure_s: 0.0 };
    let (mut length_s, mut n_runs) = (0.0, 0_usize);
    for path in neighbours(dir)? {
        let Some(neighbour) = Neighbour::read(&path) else { continue };
        if neighbour.made_unix_ns >= data.plan.made_unix_ns {
            continue;
        }
        let mut cases: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
        let alike = |run: &&NeighbourRun| run.machine == machine && run.question == question;
        for run in neighbour.runs.iter().filter(alike) {
            cases.entry(run.case).or_default().push(run.tps);
            length_s += run.measure_s;
            n_runs += 1;
        }
        found.n_experiments += usize::from(!cases.is_empty());
        found.cases.extend(cases.into_values());
    }
    found.measure_s = length_s / n_runs.max(1) as f64;
    (n_runs > 0).then_some(found)
}

/// The question that a run was asked.
#[derive(Debug, PartialEq, Eq)]
struct Question {
    name: String,
    scale: u32,
    is_open: bool,
    /// Hashes of the user's own scripts, or of a directory's transactions: what they do differs as much as workloads do.
    scripts: Vec<String>,
    /// Values of a workload directory's options.
    options: BTreeMap<String, String>,
}

fn question(case: &Case) -> Question {
    let workload = &case.workload;
    let directory = workload.directory.as_deref();
    Question {
        name: workload.name(),
        scale: workload.scale,
        is_open: workload.pace.is_open(),
        scripts: workload.scripts.iter().map(|script| script.sha256.clone()).collect(),
        options: directory.map(|directory| directory.options.clone()).unwrap_or_default(),
    }
}

impl Neighbour {
    /// Reads a result, or remembers what it says; `None` if it cannot be read.
    fn read(path: &Path) -> Option<Arc<Neighbour>> {
        let changed = fs::metadata(path.join(names::RUNS)).and_then(|runs| runs.modified()).ok()?;
        let known = |known: &BTreeMap<PathBuf, (SystemTime, Arc<Neighbour>)>| {
            known.get(path).filter(|(of, _)| *of == changed).map(|(_, neighbour)| neighbour.clone())
        };
        if let Some(neighbour) = known(&lock()) {
            return Some(neighbour);
        }
        let stored = Stored::open(path).ok()?;
        let records: Vec<RunRecord> = (0..stored.n_runs().min(RUNS_MAX))
            .filter_map(|index| stored.record(index).ok().flatten())
            .collect();
        let runs = records.iter().filter_map(NeighbourRun::from_record).collect();
        let neighbour = Arc::new(Neighbour { made_unix_ns: stored.plan().made_unix_ns, runs });
        // A run that goes on ends without a change of that directory.
        if records.iter().all(|record| record.state != RunState::Started) {
            lock().insert(path.to_path_buf(), (changed, neighbour.clone()));
        }
        Some(neighbour)
    }
}

fn lock() -> MutexGuard<'static, BTreeMap<PathBuf, (SystemTime, Arc<Neighbour>)>> {
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

impl NeighbourRun {
    fn from_record(record: &RunRecord) -> Option<NeighbourRun> {
        let is_plain = record.state == RunState::Completed
            && record.repeat.is_none()
            && record.search.is_none()
            && !record.took_turns();
        let (tps, machine) = measured_tps(record).zip(machine(record))?;
        is_plain.then(|| NeighbourRun {
            case: record.spec.case,
            question: question(&record.case),
            machine: machine.to_string(),
            tps,
            measure_s: f64::from(record.window().measure_s),
        })
    }
}

fn machine(record: &RunRecord) -> Option<&str> {
    record.host.as_ref().map(|host| host.hostname.as_str())
}

/// The results next to this one, by name.
fn neighbours(dir: &Path) -> Option<Vec<PathBuf>> {
    let own = dir.canonicalize().ok()?;
    let all = fs::read_dir(own.parent()?).ok()?.flatten().map(|entry| entry.path());
    let is_result = |path: &PathBuf| {
        *path != own && !path.is_symlink() && !store::is_hidden(path) && store::is_experiment_dir(path)
    };
    let mut all: Vec<PathBuf> = all.filter(is_result).collect();
    // Those before it, the last one first; then those whose names say nothing of their time.
    all.sort_by_key(|path| (*path > own, std::cmp::Reverse(path.clone())));
    all.truncate(NEIGHBOURS_MAX);
    Some(all)
}
