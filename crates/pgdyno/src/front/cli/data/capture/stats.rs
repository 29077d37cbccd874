//! Options of `capture stats`.

use std::path::PathBuf;

use clap::Args;
use model::text::units::Span;

use crate::front::cli::numbers::some_time;

/// Options of `capture stats`.
#[derive(Debug, Args)]
#[command(after_help = STATS_HELP)]
pub(crate) struct CaptureStatsArgs {
    /// The server and database: URL, key=value, database name, or "" for the PG* environment.
    #[arg(long, value_name = "TARGET")]
    pub(crate) server: String,
    /// How long to read; Ctrl-C ends it earlier, with a last reading.
    #[arg(long = "for", value_name = "TIME", default_value = "1h", value_parser = some_time, allow_hyphen_values = true)]
    pub(crate) length: Span,
    /// Pause between two readings of the statements; sessions are looked at once a second. By default 1min, or a sixth of a shorter
    /// time.
    #[arg(long, value_name = "TIME", value_parser = some_time, allow_hyphen_values = true)]
    pub(crate) every: Option<Span>,
    /// New file to write.
    #[arg(short, long, value_name = "FILE", default_value = "stats.jsonl.zst")]
    pub(crate) output: PathBuf,
    /// Also read pg_stats, which has values of rows (the most common ones, and bounds of histograms).
    #[arg(long)]
    pub(crate) with_values: bool,
}

impl CaptureStatsArgs {
    /// The pause between two readings.
    pub(crate) fn pause(&self) -> Span {
        let by_length = Span { ms: (self.length.ms / 6).clamp(1000, 60_000) };
        self.every.unwrap_or(by_length)
    }
}

const STATS_HELP: &str = "\
The database needs the extension pg_stat_statements, and the role pg_read_all_stats (or pg_monitor): what it cannot see is unknown.

Exit codes: 0 done; 2 ended before the time was over; 1 failed.

Examples:
  pgdyno capture stats --server postgres://monitor@db1/shop --for 1h -o shop.jsonl.zst
  pgdyno capture stats --server 'host=/run/postgresql dbname=shop' --for 10min --every 10s";
