//! Options of `serve`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

use crate::front::cli::stored::RESULTS;

/// Where a server listens unless asked otherwise: only this machine can reach it.
pub(crate) const LISTEN: &str = "127.0.0.1:8437";

/// Options of `serve`.
#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// Directory of results, or of one result.
    #[arg(value_name = "DIR", default_value = RESULTS)]
    pub(crate) dir: PathBuf,
    /// Where to listen. Anything but a loopback address can be reached from other machines, without encryption, and asks
    /// readers for a token, which is printed.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = LISTEN)]
    pub(crate) listen: SocketAddr,
    /// A name under which browsers reach the server, if it is not this machine's own. Repeatable.
    #[arg(long = "name", value_name = "HOST")]
    pub(crate) names: Vec<String>,
    /// Ask readers for a token even where only this machine can reach the server: other users of it can, too.
    #[arg(long)]
    pub(crate) token: bool,
    /// Let pages stop what is measured here, and measure an experiment of these results again. Readers need a token.
    #[arg(long)]
    pub(crate) control: bool,
    /// Open the list in a browser.
    #[arg(long)]
    pub(crate) open: bool,
    /// Show this result, and end with standard input.
    #[arg(long, value_name = "NAME", hide = true, conflicts_with = "control")]
    pub(crate) companion: Option<String>,
    /// Listen on another port if this one is in use.
    #[arg(long = "move", hide = true)]
    pub(crate) may_move: bool,
}
