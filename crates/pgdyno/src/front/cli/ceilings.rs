//! Options of `calibrate`.

use std::path::PathBuf;

use crate::front::cli::numbers::some_time;
use clap::Args;
use model::text::units::Span;

/// Options of `calibrate`.
#[derive(Debug, Args)]
pub(crate) struct CalibrateArgs {
    /// Also measure the way to a running server: URL, key=value, database name, or "" for the PG* environment.
    #[arg(long, value_name = "TARGET")]
    pub(crate) server: Option<String>,
    /// Directory on the device of the data [default: where clusters of embedded servers are kept].
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// Directory on the device of the WAL, if that is another one.
    #[arg(long, value_name = "DIR")]
    pub(crate) wal: Option<PathBuf>,
    /// Longest time of each part; a directory has 12, a machine 4 and a way 3.
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = some_time, allow_hyphen_values = true)]
    pub(crate) part: Span,
    /// Show what was measured before, with its age, and measure nothing.
    #[arg(long)]
    pub(crate) kept: bool,
    /// Print as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}
