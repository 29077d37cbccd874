//! Options of the commands for what pgdyno keeps, or was kept from clearing away.

use clap::{Args, Subcommand};
use model::experiment::driver::DriverSpec;

/// Options of `clean`.
#[derive(Debug, Args)]
pub(crate) struct CleanArgs {
    /// Instead, put back the settings that a killed pgdyno left changed on this server, and remove its copies of databases made to restore
    /// another.
    #[arg(long, value_name = "TARGET")]
    pub(crate) server: Option<String>,
    /// With --server: give up after this time.
    #[arg(long, value_name = "TIME", default_value = "1h", requires = "server")]
    pub(crate) timeout: model::text::units::Span,
    /// Instead, restore the operating system's values that a killed pgdyno left on this host: ssh:[USER@]HOST[:PORT], with =PATH of pgdyno
    /// there.
    #[arg(long, value_name = "HOST", conflicts_with = "server")]
    pub(crate) host: Option<DriverSpec>,
}

/// Subcommands of `pgdyno server`.
#[derive(Debug, Subcommand)]
pub(crate) enum ServerCommand {
    /// List them with their sizes.
    List {
        /// Print as JSON, one object per line.
        #[arg(long)]
        json: bool,
    },
    /// Remove clusters with their data, WAL and snapshots, unless they are in use.
    Remove {
        /// Names as `list` prints them.
        #[arg(value_name = "NAME", required_unless_present = "all")]
        names: Vec<String>,
        /// All that are not in use, and that nobody has used without pgdyno.
        #[arg(long, conflicts_with_all = ["names", "force"])]
        all: bool,
        /// Also remove one that somebody has used without pgdyno, and a directory without a readable marker that contains nothing but what
        /// a cluster has.
        #[arg(long)]
        force: bool,
    },
}
