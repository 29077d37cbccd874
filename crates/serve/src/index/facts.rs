//! Small facts of one result: what was planned, what came of it, and on which machine.

use std::collections::BTreeMap;
use std::path::Path;

use analysis::finding::Grade;
use model::experiment::case::ServerSource;
use model::experiment::plan::RunState;
use model::secret::hide_text;
use report::site::ListedResult;
use serde::Deserialize;
use store::ListedRuns;

/// The file with the answer.
pub(super) const ANSWER: &str = "answer.json";
/// Longest plan or record that is read for the list; one of 1,000 runs has some megabytes.
const HEAD_BYTES_MAX: u64 = 64 << 20;
/// Longest answer; pgdyno writes much shorter ones.
const ANSWER_BYTES_MAX: u64 = 1 << 20;
/// Longest text of a fact, in characters.
const TEXT_MAX: usize = 600;
/// Most runs in which the name of the machine is looked for.
const RECORDS_MAX: u32 = 3;

/// The parts of a plan that are listed. Plans of newer formats are read too, as far as they have them.
#[derive(Deserialize)]
struct PlanHead {
    name: String,
    #[serde(default)]
    title: String,
    made_unix_ns: u64,
    #[serde(default)]
    cases: Vec<CaseHead>,
    #[serde(flatten)]
    runs: ListedRuns,
}

#[derive(Deserialize)]
struct CaseHead {
    server: ServerHead,
    workload: WorkloadHead,
}

#[derive(Deserialize)]
struct ServerHead {
    source: serde_json::Value,
    #[serde(default)]
    target: Option<TargetHead>,
}

#[derive(Deserialize)]
struct TargetHead {
    name: String,
}

#[derive(Deserialize)]
struct WorkloadHead {
    kind: String,
    #[serde(default)]
    directory: Option<DirectoryHead>,
}

#[derive(Deserialize)]
struct DirectoryHead {
    name: String,
    #[serde(default)]
    variant: Option<String>,
}

impl WorkloadHead {
    /// The kind, or the directory with its variant.
    fn name(&self) -> String {
        match &self.directory {
            Some(DirectoryHead { name, variant: Some(variant) }) => format!("{name}:{variant}"),
            Some(DirectoryHead { name, variant: None }) => name.clone(),
            None => self.kind.clone(),
        }
    }
}

/// The parts of an answer that are listed.
#[derive(Deserialize, Default)]
#[serde(default)]
struct AnswerHead {
    headline: String,
    verdict: String,
    throughput: String,
    limiter: String,
    machine: String,
}

#[derive(Deserialize)]
struct RecordHead {
    #[serde(default)]
    host: Option<HostHead>,
    #[serde(default)]
    repeat: Option<RepeatHead>,
}

#[derive(Deserialize)]
struct RepeatHead {
    of: u32,
}

#[derive(Deserialize)]
struct HostHead {
    hostname: String,
}

/// Reads the facts of the result in `dir`, or says why they cannot be read.
pub(super) fn read(dir: &Path, name: &str) -> Result<ListedResult, String> {
    let plan: PlanHead = files::read(&dir.join(store::names::PLAN), HEAD_BYTES_MAX)
        .map_err(|error| error.to_string())
        .and_then(|bytes| store::parse_record(&bytes))
        .map_err(|reason| format!("{name}: plan.json: {reason}"))?;
    let answer = files::read(&dir.join(ANSWER), ANSWER_BYTES_MAX).ok();
    let answer: AnswerHead = answer.and_then(|bytes| store::parse_record(&bytes).ok()).unwrap_or_default();
    let last: BTreeMap<u32, RunState> =
        store::read_state(dir).into_iter().map(|line| (line.run, line.state)).collect();
    // Attempts that repeat a disturbed run have numbers of their own; in a merged study, those of the next origin follow.
    let planned = plan.runs.planned(&last);
    let is_completed =
        |(run, state): &(&u32, &RunState)| planned.contains(run) && **state == RunState::Completed;
    let machine = if answer.machine.is_empty() { machine(dir) } else { answer.machine };
    Ok(ListedResult {
        name: name.to_string(),
        experiment: short(&plan.name),
        title: short(&plan.title),
        made_unix_ns: plan.made_unix_ns,
        machine: short(&machine),
        version: short(&distinct(plan.cases.iter().map(|case| server(&case.server)))),
        workload: short(&distinct(plan.cases.iter().map(|case| case.workload.name()))),
        grade: grade(&answer.verdict),
        throughput: short(&answer.throughput),
        limiter: short(&answer.limiter),
        headline: short(&answer.headline),
        state: state(last.get(&0).copied()),
        is_running: false,
        n_completed: last.iter().filter(is_completed).count(),
        n_planned: planned.len(),
    })
}

fn grade(verdict: &str) -> Option<Grade> {
    [Grade::Valid, Grade::Doubtful, Grade::Void].into_iter().find(|grade| grade.as_str() == verdict)
}

/// What became of an experiment, if that is worth a word.
fn state(last: Option<RunState>) -> &'static str {
    match last {
        Some(RunState::Completed) => "",
        Some(RunState::Partial) => "partial",
        Some(RunState::Failed) => "failed",
        Some(RunState::Started) | None => "not finished",
    }
}

fn server(head: &ServerHead) -> String {
    match (&head.target, serde_json::from_value::<ServerSource>(head.source.clone())) {
        (Some(target), _) => target.name.clone(),
        (None, Ok(source)) => source.to_string(),
        (None, Err(_)) => String::new(),
    }
}

/// The machine of the first runs that were begun.
fn machine(dir: &Path) -> String {
    (1..=RECORDS_MAX).find_map(|run| Some(record(dir, run)?.host?.hostname)).unwrap_or_default()
}

fn record(dir: &Path, run: u32) -> Option<RecordHead> {
    let path = super::run_path(dir, run)?.join(store::names::RUN);
    store::parse_record(&files::read(&path, HEAD_BYTES_MAX).ok()?).ok()
}

/// The run that this one repeats.
pub(crate) fn repeats(dir: &Path, run: u32) -> Option<u32> {
    Some(record(dir, run)?.repeat?.of)
}

/// Each value once, in order. Of more than a list shows, the rest does not matter.
fn distinct(values: impl Iterator<Item = String>) -> String {
    let mut found: Vec<String> = Vec::new();
    for value in values.filter(|value| !value.is_empty()) {
        if !found.contains(&value) {
            found.push(value);
        }
        if found.len() > TEXT_MAX {
            break;
        }
    }
    found.join(", ")
}

/// A text from a file, without secrets and not longer than a line or two.
fn short(text: &str) -> String {
    let hidden = hide_text(text);
    match hidden.char_indices().nth(TEXT_MAX) {
        Some((end, _)) => format!("{} …", &hidden[..end]),
        None => hidden.into_owned(),
    }
}
