//! `pgdyno compare --duet`: both servers run at once and take the load in turns.

use std::path::PathBuf;
use std::sync::atomic::Ordering;

use analysis::explain::compare_duet;
use anyhow::Result;
use model::load::duet::{Duet, Slicing};

use super::ending::CompareEnding;
use super::finish;
use super::measure::prepare;
use crate::commands::report;
use crate::commands::stored::explained::{Explained, KeptTelemetry};
use crate::front::cli::CompareArgs;
use crate::job::metrics::Metrics;
use crate::job::{Companion, Conducted, Job, Terms};
use crate::{Exit, say, signals};

/// Measures A and B in turns and compares them.
pub(super) fn compare(args: &CompareArgs) -> Result<Exit> {
    let metrics = args.metrics.map(Metrics::listen).transpose()?;
    let job = prepare(args)?;
    let terms = Terms {
        consent: args.consent(),
        n_servers: 2,
        is_enough: None,
        runs_s_max: None,
        quiet: args.quiet,
        live: &args.live,
        spot: None,
        metrics: metrics.as_ref(),
        referee: None,
    };
    let Some(DuetProgress { path, duet, page, ending }) = play(job, args.slicing(), terms)? else {
        return Ok(Exit::Partial);
    };
    let explained = Explained::read(&path, KeptTelemetry::Drawn)?;
    let comparison = compare_duet(explained.side(1), explained.side(2), &duet, args.margin);
    let exit = finish(&[comparison], &explained.data, args.into());
    let html = report::write_reports(&path, &explained)?;
    say(&format!("report: {}", html.display()));
    drop(page);
    ending.exit(exit)
}

/// A duet, as far as it was measured.
pub(crate) struct DuetProgress {
    /// The directory of its results.
    pub(crate) path: PathBuf,
    pub(crate) duet: Duet,
    /// The server of the page that shows it, to be dropped when the report is written.
    pub(crate) page: Option<Companion>,
    pub(crate) ending: CompareEnding,
}

/// Measures a duet; `None` if it was stopped before a round was complete.
///
/// # Errors
/// When it fails before a round is complete; says where what was measured is, and removes the directory if that is nothing.
pub(crate) fn play(mut job: Job, slicing: Slicing, terms: Terms) -> Result<Option<DuetProgress>> {
    // A duet sets no values of the operating system.
    let Conducted { result, page, .. } =
        job.conduct(terms, |order, watch| experiment::schedule::duet::conduct(order, slicing, watch))?;
    let (dir, n_planned) = (job.dir, job.plan.repeats);
    let path = dir.path().to_path_buf();
    let error = match result {
        Ok(duet) => return Ok(Some(DuetProgress { path, duet, page, ending: CompareEnding::Whole })),
        Err(error) => error,
    };
    let is_stopped = signals::stop_flag().load(Ordering::Relaxed);
    // It may have failed just before it was stopped.
    if is_stopped && !format!("{error:#}").contains("stopped on request") {
        say(&format!("pgdyno: error: {error:#}"));
    }
    // The rounds before the one that was cut short.
    if let Ok(Some(duet)) = store::read_duet(&path) {
        say(&format!("{} of {n_planned} rounds were measured", duet.rounds.len()));
        let ending = if is_stopped { CompareEnding::Stopped } else { CompareEnding::Failed(error) };
        return Ok(Some(DuetProgress { path, duet, page, ending }));
    }
    let has_runs =
        store::read_records(&path).is_ok_and(|runs| runs.iter().any(|run| run.go_unix_ns.is_some()));
    if has_runs {
        say(&format!("the results are in {0}; for an HTML report: pgdyno report {0}", path.display()));
    } else {
        dir.discard();
    }
    if !is_stopped {
        return Err(error);
    }
    say("stopped before the first round was complete");
    Ok(None)
}
