//! `pgdyno compare --duet`: both servers run at once and take the load in turns.

use std::path::PathBuf;

use analysis::explain::compare_duet;
use anyhow::Result;
use experiment::plan::pairs::Pairs;
use model::load::duet::{Duet, Slicing};

use super::finish;
use super::measure::prepare;
use crate::commands::report;
use crate::commands::stored::explained::{Explained, Series};
use crate::front::cli::CompareArgs;
use crate::job::metrics::Metrics;
use crate::job::{Companion, Conducted, Job, Terms};
use crate::{Exit, say};

/// Measures A and B in turns and compares them.
pub(super) fn compare(args: &CompareArgs) -> Result<Exit> {
    let slicing = Slicing { slice_ms: args.slice, guard_ms: args.guard };
    let rounds = |_| Pairs { n_max: args.rounds, precision: None };
    let metrics = args.metrics.map(Metrics::listen).transpose()?;
    let job = prepare(args, rounds, |plan| experiment::schedule::duet::check(plan, slicing))?;
    let terms = Terms {
        replace: args.replace,
        replace_databases: &args.replace_databases,
        allow_changes: false,
        n_servers: 2,
        is_enough: None,
        quiet: args.quiet,
        live: &args.live,
        spot: None,
        metrics: metrics.as_ref(),
        referee: None,
    };
    let Played { path, duet, page } = play(job, slicing, terms)?;
    let explained = Explained::read(&path, Series::Drawn)?;
    let comparison = compare_duet(explained.side(1), explained.side(2), &duet, args.margin);
    let exit = finish(&[comparison], &explained.data, args.into());
    let html = report::write_reports(&path, &explained)?;
    say(&format!("report: {}", html.display()));
    drop(page);
    exit
}

/// A duet that was measured to its end.
pub(crate) struct Played {
    /// The directory of its results.
    pub(crate) path: PathBuf,
    pub(crate) duet: Duet,
    /// The server of the page that shows it, to be dropped when the report is written.
    pub(crate) page: Option<Companion>,
}

/// Measures a duet.
///
/// # Errors
/// When it was not measured to its end; says where what was measured is, and removes the directory if that is nothing.
pub(crate) fn play(mut job: Job, slicing: Slicing, terms: Terms) -> Result<Played> {
    // A duet sets no values of the operating system.
    let Conducted { result, page, .. } =
        job.conduct(terms, |order, watch| experiment::schedule::duet::conduct(order, slicing, watch))?;
    let dir = job.dir;
    let path = dir.path().to_path_buf();
    match result {
        Ok(duet) => Ok(Played { path, duet, page }),
        Err(error) => {
            let has_runs =
                store::read_records(&path).is_ok_and(|runs| runs.iter().any(|run| run.go_unix_ns.is_some()));
            if has_runs {
                say(&format!(
                    "the results are in {0}; for an HTML report: pgdyno report {0}",
                    path.display()
                ));
            } else {
                dir.discard();
            }
            Err(error)
        }
    }
}
