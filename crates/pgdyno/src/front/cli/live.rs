//! Options of the commands that measure, for those who look on.

use std::net::SocketAddr;

use clap::Args;

use crate::front::cli::serve::LISTEN;

/// Whether to serve a page while measuring.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct LiveArgs {
    /// Serve a web page that shows each second what is measured, until the command ends, and print its address.
    #[arg(long, value_name = "ADDRESS:PORT", num_args = 0..=1, require_equals = true, default_missing_value = LISTEN)]
    pub(crate) live: Option<SocketAddr>,
    /// With --live: open the page in a browser.
    #[arg(long, requires = "live")]
    pub(crate) open: bool,
}
