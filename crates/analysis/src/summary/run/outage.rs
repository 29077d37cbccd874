//! An outage in figures: of a run, and of a case over its runs.

use serde::Serialize;

/// The outage of a run in figures. Times are seconds after the fault unless their names say otherwise.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct OutageSummary {
    /// The fault: `kill-primary`.
    pub fault: String,
    /// When it was begun, seconds since `go`.
    pub at_s: f64,
    /// From its first signal to its last exit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub took_s: Option<f64>,
    /// Whether something shows that it happened.
    pub is_proved: bool,
    /// WAL since the last checkpoint when it began, bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wal_since_checkpoint_bytes: Option<u64>,
    /// Transactions that were due per second before it.
    pub offered_per_s: f64,
    /// 99th percentile of latency before it, nanoseconds; `None` with fewer than 100 transactions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p99_before_ns: Option<u64>,
    /// A transaction is served if it committed within this time of when it was due, nanoseconds.
    pub limit_ns: u64,
    /// How long writes were out.
    pub write_outage: OutageLength,
    /// When that began, if not with the fault: with the first transaction due that was not served.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub onset_s: Option<f64>,
    /// Transactions that were due from the fault to the end of that.
    pub n_due: u64,
    /// Those of them that were not served.
    pub n_not_served: u64,
    /// Those over the offered rate: seconds of service.
    pub lost_service_s: f64,
    /// Longest time without an acknowledged commit.
    pub gap: OutageLength,
    /// Of what the outage consists.
    pub parts: OutageParts,
    /// The load's commits, as the survivor has them.
    pub commits: CommitsAfter,
    /// From the end of the outage until latency was as before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after_effects: Option<OutageLength>,
    /// Transactions that ended with an error during the outage, by SQLSTATE or a word of the driver; the commonest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<(String, u64)>,
    /// Moments after the fault, for its chart: steps, readiness, the end.
    pub marks: Vec<OutageMark>,
    /// Each tenth of a second around the fault.
    pub points: Vec<OutagePoint>,
}

/// A length of time, or what it is at least.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct OutageLength {
    /// Seconds.
    pub s: f64,
    /// Whether the load ended before it did.
    pub is_at_least: bool,
}

/// The parts of an outage, seconds; `None` where pgdyno saw no such moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct OutageParts {
    /// From the fault to the first step that followed it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detection_s: Option<f64>,
    /// From there until a server took writes: recovery or promotion.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recovery_s: Option<f64>,
    /// From there to the first acknowledged commit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_commit_s: Option<f64>,
    /// From there until nine in ten of the clients had committed again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clients_s: Option<f64>,
}

/// What became of the load's commits, by the rows of the servers. Nothing is known without them.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct CommitsAfter {
    /// Why there is no more than this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unknown: Option<String>,
    /// The server that was read: `s1`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Counts of what it has and lacks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub counted: Option<CommitCounts>,
}

/// Commits of a load by what a server has of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct CommitCounts {
    /// Acknowledged.
    pub acknowledged: u64,
    /// Acknowledged, and absent.
    pub lost: u64,
    /// When the first and the last of the lost ones were acknowledged, seconds before the fault; negative after it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost_before_s: Option<[f64; 2]>,
    /// Reported as failed, and present.
    pub ghosts: u64,
    /// Present twice or more.
    pub doubled: u64,
    /// Of those whose end nobody knows: present.
    pub unknown_present: u64,
    /// Of those whose end nobody knows: absent.
    pub unknown_absent: u64,
    /// Acknowledged by a server after another had taken over, and present there alone; unknown if the former primary was not read,
    /// or if a command of the user's may have made another server the primary.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub of_two_primaries: Option<u64>,
}

/// A moment of an outage.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OutageMark {
    /// Seconds after the fault.
    pub at_s: f64,
    /// Name of what happened then.
    pub text: String,
}

/// A tenth of a second.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct OutagePoint {
    /// Begin, seconds after the fault.
    pub at_s: f64,
    /// Transactions that were due.
    pub due: u32,
    /// Those of them that were served.
    pub served: u32,
    /// Commits that were acknowledged, whenever they were due.
    pub committed: u32,
    /// Transactions that ended with an error.
    pub errors: u32,
    /// Median time from due to commit of those that were due, nanoseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p50_ns: Option<u64>,
    /// The longest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_ns: Option<u64>,
}

impl CommitsAfter {
    /// How many commits were lost, if that is known.
    pub fn lost(&self) -> Option<u64> {
        self.counted.map(|counted| counted.lost)
    }
}

impl OutageSummary {
    /// Whether a moment, seconds since `go`, belongs to the outage or to the seconds after it in which servers and clients settle.
    pub fn covers(&self, t_s: f64) -> bool {
        let end_s = self.at_s + self.onset_s.unwrap_or(0.0) + self.write_outage.s + SETTLING_S;
        t_s >= self.at_s && (self.write_outage.is_at_least || t_s <= end_s)
    }

    /// The lost service with whether it is a lower bound, as it is if the load ended before the outage.
    pub fn lost_service(&self) -> OutageLength {
        OutageLength { s: self.lost_service_s, is_at_least: self.write_outage.is_at_least }
    }
}

/// Time after the end of an outage in which what is reported still belongs to it, seconds: telemetry connects again after a second or two, and
/// a server that was promoted ends what it has of its old role. Our convention.
const SETTLING_S: f64 = 5.0;

/// The outages of a case over its runs that count.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct CaseOutages {
    /// The fault, as in the runs.
    pub fault: String,
    /// Outages.
    pub n: usize,
    /// How long writes were out.
    pub write_outage: OutageFigure,
    /// Seconds of service that were lost.
    pub lost_service: OutageFigure,
    /// Longest time without an acknowledged commit.
    pub gap: OutageFigure,
    /// Loss of commits, as far as it is known.
    pub loss: LossOfCommits,
}

/// A figure of the outages of a case, seconds.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct OutageFigure {
    /// Values in the order of execution.
    pub values: Vec<OutageLength>,
    /// Median of these.
    pub median: OutageLength,
    /// The smallest.
    pub min: OutageLength,
    /// The largest.
    pub max: OutageLength,
    /// Chance with which smallest and largest of so many values have the median of all such outages between them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub coverage: Option<f64>,
}

/// What the outages of a case say of the loss of commits.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct LossOfCommits {
    /// Outages of which it is known.
    pub n_known: usize,
    /// Lost commits of each outage that lost any.
    pub lost: Vec<u64>,
    /// With none that lost: the chance that such an outage loses is below this, with 95 %.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chance_below: Option<f64>,
}
