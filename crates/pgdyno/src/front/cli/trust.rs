//! Options about how far numbers must be to be trusted.

use clap::Args;

use super::compare::share;

/// What makes a command fail although it measured or read what it was asked for.
#[derive(Debug, Clone, Args)]
pub(crate) struct TrustArgs {
    /// Exit with 3 if a finding voids a number.
    #[arg(long)]
    pub(crate) strict: bool,
    /// Exit with 3 if the throughput of a case can be further off than this, or by an unknown amount: 5%, 5, or 0.05.
    #[arg(long, value_name = "PERCENT", value_parser = share, allow_hyphen_values = true)]
    pub(crate) max_uncertainty: Option<f64>,
}
