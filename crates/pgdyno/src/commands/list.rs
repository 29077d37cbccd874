//! `pgdyno list`: the stored results.

use std::path::Path;

use anyhow::Result;
use model::experiment::plan::RunState;
use store::Listing;

use crate::front::cli::{ListArgs, RESULTS};
use crate::{Exit, print, print_exact, say};

/// The experiments in a directory. Damaged ones are reported on stderr. The default directory need not exist yet.
pub(crate) fn listings(dir: &Path) -> Result<Vec<Listing>> {
    if dir == Path::new(RESULTS) && !dir.exists() {
        return Ok(Vec::new());
    }
    let listings = store::list(dir)?;
    listings.damaged.iter().for_each(|error| say(&format!("skipped damaged results: {error:#}")));
    Ok(listings.experiments)
}

/// Prints one line per experiment, oldest first.
pub(crate) fn list(args: &ListArgs) -> Result<Exit> {
    let listings = listings(&args.dir)?;
    if listings.is_empty() {
        say(&format!("no results in `{}`", args.dir.display()));
    }
    let width = listings.iter().map(|listing| listing.name.chars().count()).max().unwrap_or(0);
    for listing in listings {
        let made = jiff::Timestamp::from_nanosecond(listing.made_unix_ns.into()).unwrap_or_default();
        let state = match listing.state {
            RunState::Completed => "completed",
            RunState::Partial => "partial",
            RunState::Failed => "failed",
            RunState::Started => "not finished",
        };
        let runs = format!("{}/{}", listing.n_runs_completed, listing.n_runs_planned);
        if args.json {
            let value = serde_json::json!({
                "path": listing.path, "name": listing.name, "made": made.to_string(), "state": state,
                "runs_completed": listing.n_runs_completed, "runs_planned": listing.n_runs_planned,
            });
            print_exact(&format!("{value}\n"))?;
        } else {
            let when = made.strftime("%Y-%m-%d %H:%M:%SZ");
            let (name, path) = (&listing.name, listing.path.display());
            print(&format!("{when}  {runs:>9} runs  {state:<12}  {name:<width$}  {path}\n"))?;
        }
    }
    Ok(Exit::Done)
}
