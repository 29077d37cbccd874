//! How much the runs of a case vary, and why.

use serde::Serialize;

/// The variation of a case's runs that count; empty below three of them.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Variation {
    /// Spread of throughput.
    pub tps: Option<Spread>,
    /// Transactions per CPU second of the server, median of the runs: the figure least disturbed by neighbours on the
    /// machine.
    pub per_cpu_s: Option<f64>,
    /// Spread of `per_cpu_s`.
    pub per_cpu_s_spread: Option<Spread>,
    /// Components of the variance of throughput; `None` for runs of less than 20 measured seconds, or whose batches of
    /// seconds resemble their neighbours.
    pub origin: Option<VarianceShares>,
    /// Roughly how many runs give the mean within 1 %, at 95 %.
    pub runs_for_one_percent: Option<usize>,
}

/// A coefficient of variation: standard deviation over mean.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Spread {
    /// The coefficient, as a share.
    pub cv: f64,
    /// The 95 % interval (Vangel 1996); `None` if the spread is too large for the formula.
    pub interval: Option<[f64; 2]>,
}

/// Shares of the variance of a run's throughput, with sum 1; a level that adds less than chance would is 0.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct VarianceShares {
    /// Between restarts of the server, if several runs shared some; `None` if the runs cannot show it.
    pub restarts: Option<f64>,
    /// Between runs.
    pub runs: f64,
    /// Within runs: from second to second.
    pub within: f64,
    /// Whether each run began with its own restart, which is then part of the variance between runs.
    pub is_each_restarted: bool,
}

/// The level of repetition from which most of the variance comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum VarianceLevel {
    /// Restarts of the server.
    Restart,
    /// Runs.
    Run,
    /// Seconds.
    Second,
}

impl VarianceShares {
    /// The level with most of the variance.
    pub fn most(&self) -> VarianceLevel {
        let restarts = self.restarts.unwrap_or(0.0);
        if self.within >= self.runs.max(restarts) {
            VarianceLevel::Second
        } else if restarts > self.runs {
            VarianceLevel::Restart
        } else {
            VarianceLevel::Run
        }
    }

    /// What to repeat: "repetition is most needed where most uncertainty arises" (Kalibera and Jones 2013).
    pub fn advice(&self) -> &'static str {
        match (self.most(), self.is_each_restarted) {
            (VarianceLevel::Second, _) => {
                "measure longer: most of it is within runs, and each additional run needs its own preparation"
            }
            (VarianceLevel::Restart, _) => {
                "repeat restarts, not runs or seconds: most of it is between restarts"
            }
            (VarianceLevel::Run, true) => {
                "repeat runs, each with its restart, not seconds: longer runs would not reduce the variance between them"
            }
            (VarianceLevel::Run, false) => {
                "repeat runs, not seconds: longer runs would not reduce the variance between them"
            }
        }
    }
}
