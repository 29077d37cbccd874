//! `pgdyno capture fidelity`: how faithful stored runs are to the source of their workload, or one file of statistics to another.

use std::path::Path;

use ::capture::statement::identity;
use ::capture::statistics::SourceStatistics;
use analysis::fidelity::{ReplayOutcome, judge};
use anyhow::{Context, Result, bail};
use model::run::fidelity::{ReplayRecord, WorkloadFigures};

use crate::commands::stored::explained::{Explained, KeptTelemetry};
use crate::front::cli::data::capture::fidelity::FidelityArgs;
use crate::{Exit, print, print_exact, say};

/// Shows what `args` name.
pub(crate) fn fidelity(args: &FidelityArgs) -> Result<Exit> {
    match args.results.as_slice() {
        [source, replay] => of_files(source, replay, args.json),
        [dir] => of_results(dir, args.json),
        _ => bail!("name results, or two files of `pgdyno capture stats`"),
    }
}

/// The runs of stored results.
fn of_results(dir: &Path, is_json: bool) -> Result<Exit> {
    let Explained { study, .. } = Explained::read(dir, KeptTelemetry::No)?;
    let graded: Vec<_> = study.runs.iter().filter_map(|run| Some((run, run.fidelity.as_ref()?))).collect();
    if graded.is_empty() {
        bail!(
            "`{}` has no run of a captured workload: the workload directory has no `source.json` with what the statements did at the source",
            dir.display()
        );
    }
    if is_json {
        let runs: Vec<_> = graded
            .iter()
            .map(
                |(run, fidelity)| serde_json::json!({"run": run.run, "case": run.case, "fidelity": fidelity}),
            )
            .collect();
        print_json(&serde_json::json!({"format": model::FORMAT, "runs": runs}))?;
    } else {
        print(&report::fidelity(&study))?;
    }
    Ok(Exit::Done)
}

/// One file of statistics against another.
fn of_files(source: &Path, replay: &Path, is_json: bool) -> Result<Exit> {
    let record =
        ReplayRecord { source: figures(source)?, replay: Some(figures(replay)?), uncounted: String::new() };
    for (name, side) in
        [("source", &record.source), ("replay", record.replay.as_ref().unwrap_or(&record.source))]
    {
        side.unknown.iter().for_each(|(what, why)| say(&format!("note: {name}: {what}: {why}")));
    }
    let fidelity = judge(&record, ReplayOutcome::default());
    if is_json {
        print_json(&serde_json::json!({"format": model::FORMAT, "fidelity": fidelity}))?;
    } else {
        print(&report::fidelity_of(&fidelity))?;
    }
    Ok(Exit::Done)
}

fn figures(path: &Path) -> Result<WorkloadFigures> {
    let file = files::open(path).with_context(|| format!("cannot read `{}`", path.display()))?;
    let statistics = SourceStatistics::read(file)
        .with_context(|| format!("`{}` is no file of statistics", path.display()))?;
    statistics.notices.iter().for_each(|what| say(&format!("note: `{}`: {what}", path.display())));
    if statistics.span_us.is_none_or(|(first_us, last_us)| first_us == last_us) {
        bail!(
            "`{}` has no two readings of pg_stat_statements: {}",
            path.display(),
            statistics.why_uncounted()
        );
    }
    Ok(statistics.figures(identity))
}

fn print_json(value: &serde_json::Value) -> Result<()> {
    print_exact(&format!("{}\n", serde_json::to_string_pretty(value)?))
}
