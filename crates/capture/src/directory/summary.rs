//! What there is to say about a captured directory: `capture.json`, which `pgdyno capture show` reads.

use serde_json::{Value as Json, json};

use crate::balance::{Balance, OmissionReason};

/// The file of the summary.
pub const FILE: &str = "capture.json";
/// Longest text of it; a file of a workload directory has at most 1 MiB.
const FILE_BYTES_MAX: usize = 900_000;
/// Version of its format.
pub const FORMAT: u64 = 1;

/// A variable as people see it.
#[derive(Clone, Debug, PartialEq)]
pub struct ShownVariable {
    /// Name.
    pub name: String,
    /// Role.
    pub role: &'static str,
    /// The column of a table that it meets.
    pub column: Option<String>,
    /// Distinct values of the sample.
    pub distinct: usize,
    /// Values of the sample.
    pub n: usize,
    /// Share of the keys that the sample cannot have seen.
    pub unseen: Option<f64>,
    /// Exponent of Zipf's law over its hottest values.
    pub exponent: Option<f64>,
    /// Distinct values in the whole window, about.
    pub distinct_in_window: u64,
}

/// A template as people see it.
#[derive(Clone, Debug, PartialEq)]
pub struct ShownTemplate {
    /// The name of its transaction.
    pub name: String,
    /// Transactions per second.
    pub rate: f64,
    /// Transactions of the log.
    pub n: u64,
    /// Time of all of them.
    pub time_us: u64,
    /// Statements.
    pub statements: Vec<String>,
    /// Variables.
    pub variables: Vec<ShownVariable>,
    /// The factor by which exact counts changed its rate.
    pub correction: Option<f64>,
}

/// The numbers of a capture.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summary {
    /// The name of the workload.
    pub name: String,
    /// `values`, `hashed` or `shape`.
    pub privacy: String,
    /// When the window began.
    pub began: String,
    /// Length.
    pub length_s: f64,
    /// Transactions per second.
    pub rate: f64,
    /// Variance by mean of the counts of seconds.
    pub dispersion: Option<f64>,
    /// Sessions.
    pub n_sessions: usize,
    /// Most sessions of one second.
    pub n_clients: usize,
    /// Sessions in a transaction, on average.
    pub active: f64,
    /// Cramér's V of sessions and templates.
    pub association: f64,
    /// Classes of sessions; empty for a pool.
    pub classes: Vec<String>,
    /// The protocol of the replay.
    pub protocol: &'static str,
    /// The templates.
    pub templates: Vec<ShownTemplate>,
    /// Where the time went.
    pub balance: Balance,
    /// Whether there are durations; otherwise shares are of executions.
    pub has_durations: bool,
    /// Whether there was no log, but counters alone.
    pub is_counted: bool,
    /// Values that are masked, and those that were secrets.
    pub n_masked: (u64, u64),
    /// Notes for people.
    pub notes: Vec<String>,
}

impl Summary {
    /// The grade that a replay can reach at best, by the share that is reproduced. Figures alone decide which it reaches.
    pub fn grade(&self) -> &'static str {
        let coverage = self.balance.coverage_without_frames();
        if coverage >= 0.95 && !self.is_counted {
            "faithful at best"
        } else if coverage >= 0.8 {
            "approximate at best"
        } else {
            "not your workload"
        }
    }

    /// The text of the file. Statements are left to `statements.jsonl` where there are too many of them.
    pub fn file(&self) -> String {
        let text = format!("{:#}\n", self.json());
        if text.len() <= FILE_BYTES_MAX {
            return text;
        }
        let mut short = self.clone();
        short.templates.iter_mut().for_each(|one| one.statements.clear());
        format!("{:#}\n", short.json())
    }

    /// The summary as JSON.
    pub fn json(&self) -> Json {
        let variable = |one: &ShownVariable| {
            json!({
                "name": one.name, "role": one.role, "column": one.column, "distinct": one.distinct, "n": one.n,
                "unseen": one.unseen, "zipf_exponent": one.exponent, "distinct_in_window": one.distinct_in_window,
            })
        };
        let template = |one: &ShownTemplate| {
            json!({
                "name": one.name, "rate": one.rate, "n": one.n, "time_us": one.time_us, "statements": one.statements,
                "correction": one.correction, "variables": one.variables.iter().map(variable).collect::<Vec<_>>(),
            })
        };
        let left_out = |(reason, share): (&OmissionReason, &crate::balance::TimeShare)| {
            json!({
                "reason": reason.word(), "about": reason.about(), "calls": share.calls, "time_us": share.time_us,
                "share": self.balance.fraction(*share),
            })
        };
        json!({
            "format": FORMAT,
            "name": self.name,
            "privacy": self.privacy,
            "began": self.began,
            "length_s": self.length_s,
            "rate": self.rate,
            "dispersion": self.dispersion,
            "sessions": self.n_sessions,
            "clients": self.n_clients,
            "active": self.active,
            "association": self.association,
            "classes": self.classes,
            "protocol": self.protocol,
            "grade": self.grade(),
            "has_durations": self.has_durations,
            "is_counted": self.is_counted,
            "total": {"calls": self.balance.total.calls, "time_us": self.balance.total.time_us},
            "reproduced": {
                "calls": self.balance.reproduced.calls, "time_us": self.balance.reproduced.time_us,
                "share": self.balance.coverage(),
            },
            "left_out": self.balance.left_out.iter().map(left_out).collect::<Vec<_>>(),
            "templates": self.templates.iter().map(template).collect::<Vec<_>>(),
            "values_masked": self.n_masked.0,
            "secrets_masked": self.n_masked.1,
            "notes": self.notes,
        })
    }
}
