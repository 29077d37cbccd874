//! How much the runs of a case vary, and where that comes from.

use serde::Serialize;

/// The variation of a case's runs that count; empty below three of them.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Variation {
    /// Spread of throughput.
    pub tps: Option<Spread>,
    /// Transactions for each CPU second of the server, median of the runs: what neighbours on the machine disturb least.
    pub per_cpu_s: Option<f64>,
    /// Spread of `per_cpu_s`.
    pub per_cpu_s_spread: Option<Spread>,
    /// Where the variance of throughput comes from; `None` for runs of less than 20 measured seconds, or
    /// whose batches of seconds resemble their neighbours.
    pub origin: Option<Origin>,
    /// About how many runs give the mean within 1 %, at 95 %.
    pub runs_for_one_percent: Option<usize>,
}

/// A coefficient of variation: standard deviation over mean.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Spread {
    /// The coefficient, as a share.
    pub cv: f64,
    /// Its interval of 95 % (Vangel 1996); `None` where the spread is too large for the formula.
    pub interval: Option<[f64; 2]>,
}

/// Shares of the variance of a run's throughput, together 1; a level that adds less than chance would is 0.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Origin {
    /// Between restarts of the server, where several runs shared some; `None` if the runs cannot show it.
    pub restarts: Option<f64>,
    /// Between runs.
    pub runs: f64,
    /// Within runs: from second to second.
    pub within: f64,
    /// Each run began with a restart of its own, which is part of what lies between runs.
    pub is_each_restarted: bool,
}

/// The level of repetition from which most of the variance comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// Restarts of the server.
    Restart,
    /// Runs.
    Run,
    /// Seconds.
    Second,
}

impl Origin {
    /// Where most of the variance comes from.
    pub fn most(&self) -> Level {
        let restarts = self.restarts.unwrap_or(0.0);
        if self.within >= self.runs.max(restarts) {
            Level::Second
        } else if restarts > self.runs {
            Level::Restart
        } else {
            Level::Run
        }
    }

    /// What to repeat: "repetition is most needed where most uncertainty arises" (Kalibera and Jones 2013).
    pub fn advice(&self) -> &'static str {
        match (self.most(), self.is_each_restarted) {
            (Level::Second, _) => {
                "measure longer: most of it is within runs, and more of them cost a preparation each"
            }
            (Level::Restart, _) => "repeat restarts, not runs or seconds: most of it is between restarts",
            (Level::Run, true) => {
                "repeat runs, each with its restart, not seconds: longer runs would not lower what is between them"
            }
            (Level::Run, false) => {
                "repeat runs, not seconds: longer runs would not lower what is between them"
            }
        }
    }
}
