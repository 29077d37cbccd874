//! Options of `capture log` and `capture show`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// How much of the values is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum PrivacyChoice {
    /// As they are, but for secrets: for a machine that may hold the data.
    Values,
    /// Texts become letters and digits of the same lengths by a keyed hash, equal ones stay equal; numbers and times stay.
    #[default]
    Hashed,
    /// Only lengths and kinds.
    Shape,
}

/// Options of `capture log`.
#[derive(Debug, Args)]
#[command(after_help = LOG_HELP)]
pub(crate) struct CaptureLogArgs {
    /// Log files in the order of time: csvlog, jsonlog, or text with a prefix; also compressed by gzip or zstd.
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// File of `pgdyno capture stats` of the same time: rates are corrected to its exact counts.
    #[arg(long, value_name = "FILE")]
    pub(crate) stats: Option<PathBuf>,
    /// `log_line_prefix` of the server [default: found out].
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) prefix: Option<String>,
    /// Part of the log, in UTC: 09:00/10:00 of its first day, or "2026-01-31 09:00/2026-01-31 10:00" [default: all].
    #[arg(long, value_name = "FROM/TO")]
    pub(crate) window: Option<String>,
    /// Take sessions of this database alone, as the log names it. Repeatable [default: all].
    #[arg(long, value_name = "NAME")]
    pub(crate) database: Vec<String>,
    /// Take sessions of this role alone. Repeatable [default: all].
    #[arg(long, value_name = "NAME")]
    pub(crate) user: Vec<String>,
    /// Take sessions with this application_name alone: in csvlog, jsonlog, and text with %a in its prefix. Repeatable [default: all].
    #[arg(long, value_name = "NAME")]
    pub(crate) application: Vec<String>,
    /// How much of the values is written. Hashed values find no rows in a real copy of the data.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) privacy: PrivacyChoice,
    /// A copy of the source to ask for types, columns and ranges of keys, as `run --server` takes it. Nothing is executed or changed there.
    #[arg(long, value_name = "TARGET")]
    pub(crate) server: Option<String>,
    /// Also keep each transaction with its session, instant and values, for `pgdyno run --replay trace`.
    #[arg(long)]
    pub(crate) trace: bool,
    /// The workload directory, new or empty.
    #[arg(short, long, value_name = "DIR")]
    pub(crate) output: PathBuf,
    /// Print the summary as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Options of `capture show`.
#[derive(Debug, Args)]
pub(crate) struct CaptureShowArgs {
    /// The directory that `capture log` has written.
    #[arg(value_name = "DIR")]
    pub(crate) dir: PathBuf,
    /// Also show the statements of each transaction.
    #[arg(short, long)]
    pub(crate) verbose: bool,
    /// Print as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

const LOG_HELP: &str = "\
A log that has all: log_min_duration_statement=0, or log_transaction_sample_rate for whole transactions of a share; log_destination=csvlog.

Exit codes: 0 done; 1 failed, or nothing of the log can be replayed.

Examples:
  pgdyno capture log postgresql.csv --server 'host=/run/postgresql dbname=shop_copy' --privacy values -o ./shop
  pgdyno capture log log/*.csv.gz --stats stats.jsonl.zst --window 09:00/10:00 -o ./shop
  pgdyno capture show ./shop";
