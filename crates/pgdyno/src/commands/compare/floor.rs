//! The noise floor of a host: the smallest difference that the last A/A comparison on it could detect. Stored in the
//! cache, next to binaries and clusters.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use analysis::comparison::{CaseComparison, ComparedFigure, Pairing};
use anyhow::{Context, Result};
use model::run::{ExperimentData, RunRecord};
use report::NoiseFloor;
use server::Cache;

/// Many times the size that years of comparisons reach.
const FLOORS_BYTES_MAX: u64 = 64 << 20;

/// File with one JSON object per line, the newest last.
fn path(cache: &Cache) -> PathBuf {
    cache.dir.join("noise-floors.jsonl")
}

/// The noise floor that an A/A comparison found; `None` without a verdict.
pub(super) fn noise_floor(comparison: &CaseComparison, data: &ExperimentData) -> Option<NoiseFloor> {
    let ratio = comparison.leading()?;
    let run = &data.runs.last()?.record;
    Some(NoiseFloor {
        t_unix_ns: run.go_unix_ns?,
        hostname: hostname(run).to_string(),
        workload: run.case.workload.name(),
        n_clients: run.case.workload.n_clients,
        n_pairs: comparison.n_pairs,
        figure: comparison.lead,
        half_width: 0.5 * (ratio.high - ratio.low),
        detectable: ratio.detectable,
    })
}

/// Appends a noise floor.
pub(super) fn keep(cache: &Cache, floor: &NoiseFloor) -> Result<()> {
    let path = path(cache);
    let context = || format!("cannot keep the noise floor in `{}`", path.display());
    files::trust::make_directory(&cache.dir).with_context(context)?;
    let mut options = OpenOptions::new();
    let mut file =
        files::open_with(&path, options.create(true).append(true).mode(0o644)).with_context(context)?;
    writeln!(file, "{}", serde_json::to_string(floor)?).with_context(context)
}

/// The newest noise floor of a figure on the host of these runs, of the same workload if there is one.
fn last(cache: &Cache, data: &ExperimentData, figure: ComparedFigure) -> Option<NoiseFloor> {
    let run = &data.runs.first()?.record;
    files::trust::check_directory(&cache.dir).ok()?;
    let text = String::from_utf8(files::trust::read(&path(cache), FLOORS_BYTES_MAX).ok()?).ok()?;
    // A later version may have written a line that we cannot read.
    let kept: Vec<NoiseFloor> = text
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .filter(|floor: &NoiseFloor| floor.hostname == hostname(run) && floor.figure == figure)
        .collect();
    let workload = run.case.workload.name();
    kept.iter().rev().find(|floor| floor.workload == workload).or(kept.last()).cloned()
}

/// The noise floor of the host on which these comparisons were measured, if known.
pub(super) fn of_host(comparisons: &[CaseComparison], data: &ExperimentData) -> Result<Option<NoiseFloor>> {
    // A noise floor of whole runs says nothing about slices.
    let is_of_duet = |pairing| matches!(pairing, Pairing::Slices | Pairing::Rounds | Pairing::RoundsApart);
    let is_duet = comparisons.iter().any(|case| is_of_duet(case.pairing));
    if is_duet {
        return Ok(None);
    }
    let Some(first) = comparisons.first() else { return Ok(None) };
    Ok(last(&Cache::default_location()?, data, first.lead))
}

fn hostname(run: &RunRecord) -> &str {
    run.host.as_ref().map(|host| host.hostname.as_str()).unwrap_or_default()
}
