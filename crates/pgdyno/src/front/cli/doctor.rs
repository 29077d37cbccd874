//! Options of `doctor`.

use crate::front::cli::numbers::some_time;
use clap::Args;
use model::experiment::driver::DriverSpec;
use model::text::units::Span;

/// Options of `doctor`.
#[derive(Debug, Args)]
#[command(after_help = DOCTOR_HELP)]
pub(crate) struct DoctorArgs {
    /// A running server: URL, key=value, database name, or "" for the PG* environment [default: none; this machine
    /// alone].
    #[arg(value_name = "TARGET")]
    pub(crate) target: Option<String>,
    /// The same, as `run` takes it.
    #[arg(long, value_name = "TARGET", conflicts_with = "target")]
    pub(crate) server: Option<String>,
    /// The server's host: ssh:[USER@]HOST[:PORT], with =PATH of pgdyno there.
    #[arg(long, value_name = "ssh:HOST")]
    pub(crate) host: Option<DriverSpec>,
    /// Put a copy of this program on the machine of --host where it is missing or another build.
    #[arg(long, requires = "host")]
    pub(crate) upload: bool,
    /// Set the values of this machine's operating system that rows want and pgdyno knows, or those of some rows (--apply=thp,swappiness),
    /// until --undo, `pgdyno clean` or a reboot restores the previous ones.
    #[arg(long, value_name = "ROW,...", num_args = 0..=1, require_equals = true, default_missing_value = "", conflicts_with = "host")]
    pub(crate) apply: Option<String>,
    /// Restore the values that --apply has set; look at nothing.
    #[arg(long, conflicts_with_all = ["target", "server", "host", "apply", "json", "verbose", "strict"])]
    pub(crate) undo: bool,
    /// Also show what is as it should be.
    #[arg(short, long)]
    pub(crate) verbose: bool,
    /// Exit with 3 also if a row makes numbers doubtful.
    #[arg(long)]
    pub(crate) strict: bool,
    /// Give up on a server that does not answer after this time.
    #[arg(long, value_name = "TIME", default_value = "1min", value_parser = some_time, allow_hyphen_values = true)]
    pub(crate) timeout: Span,
    /// Print as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

const DOCTOR_HELP: &str = "\
Exit codes: 0 nothing that voids a number; 3 a row voids every number (with --strict: or makes numbers doubtful);
2 --apply could not set a value; 1 failed.

Examples:
  pgdyno doctor
  pgdyno doctor postgres://bench@db1/bench --host ssh:db1
  pgdyno doctor --apply=thp,swappiness";
