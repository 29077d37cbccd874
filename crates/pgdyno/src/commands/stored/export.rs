//! `pgdyno export`: the seconds of stored runs as CSV on standard output.

use anyhow::{Result, bail};

use crate::commands::stored::explained::{Explained, Series};
use crate::front::cli::stored::ExportArgs;
use crate::{Exit, print_exact};

/// Prints the seconds of all runs, or of one.
pub(crate) fn export(args: &ExportArgs) -> Result<Exit> {
    let Explained { study, .. } = Explained::read(&args.dir, Series::All)?;
    if let Some(number) = args.run
        && !study.runs.iter().any(|run| run.run == number)
    {
        let dir = args.dir.display();
        match study.runs.iter().map(|run| run.run).max() {
            Some(last) => bail!("`{dir}` has no run {number}; its last run is {last}"),
            None => bail!("`{dir}` has no run"),
        }
    }
    print_exact(&report::seconds_csv(&study, args.run))?;
    Ok(Exit::Done)
}
