//! TPC-C in its own terms, for a run or for all runs of a case.

use model::load::interval::Counts;
use serde::Serialize;

use super::run::LatencySummary;

/// A run, or all runs of a case together: of what is per minute the median of the runs, as of throughput.
#[derive(Debug, Clone, Serialize)]
pub struct TpccSummary {
    /// New-Orders per minute of the measurement, including those rolled back on purpose (clause 2.4.1.4). Of TPROC-C with
    /// procedures, without those that a procedure rolled back unseen.
    pub nopm: f64,
    /// New-Orders per minute of each run, in the order of execution.
    pub nopm_runs: Vec<f64>,
    /// Orders per minute according to the database.
    pub orders_per_min: f64,
    /// Transactions of all kinds that terminals completed per minute.
    pub tpm: f64,
    /// What HammerDB calls TPM: commits and rollbacks in all databases per minute, by anyone; TPROC-C only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_tpm: Option<f64>,
    /// CPU seconds of the driver per 1,000 New-Orders.
    pub driver_cpu_s: Option<f64>,
    /// CPU seconds of the server per 1,000 New-Orders.
    pub server_cpu_s: Option<f64>,
    /// New-Orders per minute and warehouse.
    pub nopm_per_warehouse: f64,
    /// Each kind of transaction.
    pub profiles: Vec<ProfileSummary>,
    /// Inputs, as the driver counted them.
    pub inputs: Vec<InputShare>,
    /// Why the result is TPC-C-like and not tpmC: conditions of the specification that are not met; for TPROC-C, how
    /// HammerDB's transactions differ from it.
    pub unmet: Vec<String>,
}

/// One kind of transaction.
#[derive(Debug, Clone, Serialize)]
pub struct ProfileSummary {
    /// `new-order`, `payment`, `order-status`, `delivery`, `stock-level`, `deferred-delivery`.
    pub name: String,
    /// Counts of the measurement.
    pub counts: Counts,
    /// Share of all transactions of terminals, 0 to 1; `None` for transactions that no terminal waits for.
    pub share: Option<f64>,
    /// Response time: end minus due.
    pub latency: Option<LatencySummary>,
    /// Service time: end minus sent.
    pub service: Option<LatencySummary>,
    /// Limit of the 90th percentile of response times (clauses 5.2.5.3 and 2.7.2.2), nanoseconds; TPROC-C has none.
    pub p90_limit_ns: Option<u64>,
}

impl ProfileSummary {
    /// Whether the 90th percentile is within its limit, if there is one.
    pub fn is_in_limit(&self) -> bool {
        let late = |latency: LatencySummary| self.p90_limit_ns.is_some_and(|limit| latency.p90_ns > limit);
        !self.latency.is_some_and(late)
    }
}

/// An input for which the specification gives a share or a mean.
#[derive(Debug, Clone, Serialize)]
pub struct InputShare {
    /// Description: `payments of remote customers`.
    pub what: String,
    /// Number of draws.
    pub n: u64,
    /// The counted share; for lines per order, the mean.
    pub counted: f64,
    /// The value in the specification.
    pub expected: f64,
    /// The lowest accepted value.
    pub low: f64,
    /// The highest accepted value.
    pub high: f64,
}

impl InputShare {
    /// Whether it agrees with the specification, within chance.
    pub fn is_met(&self) -> bool {
        self.n == 0 || (self.low..=self.high).contains(&self.counted)
    }
}
