//! Options of the commands for results that go to somebody else, or come from there.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use clap::Args;

use crate::front::ask::AllowedCommands;
use crate::front::cli::changes::{ChangeArgs, LeaveArgs};
use crate::front::cli::compare::failing::FailTerms;
use crate::front::cli::live::LiveArgs;
use crate::front::cli::share;
use crate::front::moved::Moved;

/// Options of `pack`.
#[derive(Debug, Args)]
pub(crate) struct PackArgs {
    /// Results directory.
    #[arg(value_name = "DIR")]
    pub(crate) dir: PathBuf,
    /// The new file [default: the directory's name with .tar.gz, in the working directory].
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Also pack what no report needs: servers' logs, exporters' output and histograms of statements per second.
    #[arg(long)]
    pub(crate) all: bool,
}

/// Most bytes of an archive's files that are accepted.
#[derive(Debug, Args)]
pub(crate) struct SizeLimit {
    /// Most bytes that are unpacked: 500MB, 20GB [default: a hundred times the file's and 32MB, at most 4GB].
    #[arg(long, value_name = "SIZE", value_parser = size)]
    size_limit: Option<u64>,
}

/// What is unpacked at most, unless the user says otherwise.
const SIZE_LIMIT: u64 = 4 << 30;

impl SizeLimit {
    /// What `archive` may have: one that has more than a hundred times its size is no result.
    pub(crate) fn of(&self, archive: &Path) -> u64 {
        self.size_limit.unwrap_or_else(|| store::decoded_bytes_max(archive).min(SIZE_LIMIT))
    }
}

fn size(text: &str) -> Result<u64, String> {
    let bytes = model::text::units::size_bytes(text, 1).filter(|bytes| *bytes > 0);
    bytes.ok_or_else(|| format!("`{text}` is not a size (example: 20GB)"))
}

/// Options of `unpack`.
#[derive(Debug, Args)]
pub(crate) struct UnpackArgs {
    /// A file made by `pgdyno pack`.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Directory for the results, new or empty [default: results/NAME, after the name of the file].
    #[arg(short, long, value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) limit: SizeLimit,
}

/// Options of `repeat`.
#[derive(Debug, Args)]
#[command(after_help = REPEAT_HELP)]
pub(crate) struct RepeatArgs {
    /// Results of somebody else: a file made by `pgdyno pack`, or a results directory.
    #[arg(value_name = "FILE|DIR")]
    pub(crate) results: PathBuf,
    /// Directory of the new results, new or empty [default: results/DATE-NAME-XXXX].
    #[arg(short, long, value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,
    /// Of a merged study, the origin whose runs are measured again.
    #[arg(long, value_name = "NAME")]
    pub(crate) origin: Option<String>,
    /// The server to measure, where theirs was one by URL: URL, key=value pairs, or a database name. Once for each, in the order of the
    /// cases.
    #[arg(long = "server", value_name = "TARGET")]
    pub(crate) servers: Vec<String>,
    /// The server that a target of the experiment is here. Repeatable.
    #[arg(long = "target", value_name = "NAME=URL")]
    pub(crate) targets: Vec<Moved>,
    /// PostgreSQL to run instead of theirs, installed or fetched.
    #[arg(long, value_name = "VERSION", conflicts_with_all = ["servers", "bin_dir"])]
    pub(crate) version: Option<String>,
    /// Your own PostgreSQL binaries to run instead of theirs.
    #[arg(long, value_name = "DIR", conflicts_with = "servers")]
    pub(crate) bin_dir: Option<PathBuf>,
    /// Execute here what the experiment brings: hooks, scripts, SQL, source code, settings that name programs, and commands that lead to
    /// other machines. Without it, they are listed with a number, and nothing is done; the number allows exactly what was listed.
    #[arg(long, value_name = "NUMBER", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    pub(crate) allow_commands: Option<AllowedCommands>,
    /// Leave out what only their place has: directories, drivers and eyes on other machines, exporters, imports, values of the operating
    /// system, and hooks that are not allowed.
    #[arg(long)]
    pub(crate) here: bool,
    #[command(flatten)]
    pub(crate) changes: ChangeArgs,
    #[command(flatten)]
    pub(crate) leave: LeaveArgs,
    /// The largest difference that does not matter: 5%, 5, or 0.05.
    #[arg(long, value_name = "PERCENT", default_value = "2%", value_parser = share, allow_hyphen_values = true)]
    pub(crate) margin: f64,
    /// Exit with 4 if it is slower here, differs either way, or transactions cost more: slower, different, cost:wal=1%,cpu=2%.
    #[arg(long, value_name = "WHAT")]
    pub(crate) fail_on: Option<FailTerms>,
    /// Compare even if the load, the data or durability differ.
    #[arg(long)]
    pub(crate) force: bool,
    /// Print as JSON, also the list of what needs a consent that is missing.
    #[arg(long)]
    pub(crate) json: bool,
    /// Ask nothing, and accept plans of more than 100 runs or longer than a day.
    #[arg(short, long)]
    pub(crate) yes: bool,
    /// Serve what is measured to Prometheus, as http://ADDRESS/metrics (127.0.0.1:9187).
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) metrics: Option<SocketAddr>,
    /// Show no progress.
    #[arg(short, long)]
    pub(crate) quiet: bool,
    #[command(flatten)]
    pub(crate) live: LiveArgs,
    #[command(flatten)]
    pub(crate) limit: SizeLimit,
}

const REPEAT_HELP: &str = "\
Examples:
  pgdyno repeat versions.tar.gz
  pgdyno repeat cloud.tar.gz --server postgres://bench@db.example/bench
  pgdyno repeat study.tar.gz --here --fail-on different
  pgdyno repeat merged --origin laptop";
