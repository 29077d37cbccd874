//! `pgdyno compare --duet`: both servers run at once and take the load in turns.

use analysis::explain::compare_duet;
use anyhow::Result;
use experiment::plan::pairs::Pairs;
use model::load::duet::Slicing;

use super::finish;
use super::measure::prepare;
use crate::commands::report;
use crate::commands::stored::explained::{Explained, Series};
use crate::front::cli::CompareArgs;
use crate::job::metrics::Metrics;
use crate::job::{Conducted, Terms};
use crate::{Exit, say};

/// Measures A and B in turns and compares them.
pub(super) fn compare(args: &CompareArgs) -> Result<Exit> {
    let slicing = Slicing { slice_ms: args.slice, guard_ms: args.guard };
    let rounds = |_| Pairs { n_max: args.rounds, precision: None };
    let mut job = prepare(args, rounds, |plan| experiment::schedule::duet::check(plan, slicing))?;
    let metrics = args.metrics.map(Metrics::listen).transpose()?;
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
    // A duet sets no values of the operating system.
    let Conducted { result, page, .. } =
        job.conduct(terms, |order, watch| experiment::schedule::duet::conduct(order, slicing, watch))?;
    let dir = job.dir;
    let path = dir.path().to_path_buf();
    let duet = match result {
        Ok(duet) => duet,
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
            return Err(error);
        }
    };
    drop(dir);
    let explained = Explained::read(&path, Series::Drawn)?;
    let comparison = compare_duet(explained.side(1), explained.side(2), &duet, args.margin);
    let exit = finish(&[comparison], &explained.data, args.into());
    let html = report::write_reports(&path, &explained)?;
    say(&format!("report: {}", html.display()));
    drop(page);
    exit
}
