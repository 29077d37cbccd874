//! TPC-C in its own words, of a run or of all runs of a case.

use model::load::interval::Counts;
use serde::Serialize;

use super::run::LatencySummary;

/// A run, or all runs of a case together.
#[derive(Debug, Clone, Serialize)]
pub struct TpccSummary {
    /// New-Orders per minute of the measure, those included that were rolled back as they should (clause 2.4.1.4).
    pub nopm: f64,
    /// The same of each run, in the order of execution.
    pub nopm_runs: Vec<f64>,
    /// Orders per minute that are in the database.
    pub orders_per_min: f64,
    /// Transactions of all kinds that terminals completed per minute.
    pub tpm: f64,
    /// What HammerDB calls TPM: commits and rollbacks of all databases per minute, whoever made them; TPROC-C only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_tpm: Option<f64>,
    /// CPU seconds of the driver for 1,000 New-Orders.
    pub driver_cpu_s: Option<f64>,
    /// CPU seconds of the server for 1,000 New-Orders.
    pub server_cpu_s: Option<f64>,
    /// New-Orders per minute and warehouse.
    pub nopm_per_warehouse: f64,
    /// Each kind of transaction.
    pub profiles: Vec<ProfileSummary>,
    /// Inputs, as the driver counted them.
    pub inputs: Vec<InputShare>,
    /// Why the result is TPC-C-like and no tpmC: conditions of the specification that are not met; for TPROC-C, in
    /// what HammerDB's transactions differ from it.
    pub unmet: Vec<String>,
}

/// One kind of transaction.
#[derive(Debug, Clone, Serialize)]
pub struct ProfileSummary {
    /// `new-order`, `payment`, `order-status`, `delivery`, `stock-level`, `deferred-delivery`.
    pub name: String,
    /// Counts of the measure.
    pub counts: Counts,
    /// Share of all transactions of terminals, 0 to 1; `None` for what no terminal waits for.
    pub share: Option<f64>,
    /// Response time: end minus due.
    pub latency: Option<LatencySummary>,
    /// Service time: end minus sent.
    pub service: Option<LatencySummary>,
    /// What the 90th percentile of response times may be (clauses 5.2.5.3 and 2.7.2.2), nanoseconds; TPROC-C has no
    /// limits.
    pub p90_limit_ns: Option<u64>,
}

impl ProfileSummary {
    /// Whether the 90th percentile is within its limit, as far as there is one.
    pub fn is_in_limit(&self) -> bool {
        let late = |latency: LatencySummary| self.p90_limit_ns.is_some_and(|limit| latency.p90_ns > limit);
        !self.latency.is_some_and(late)
    }
}

/// An input that the specification gives a share or a mean.
#[derive(Debug, Clone, Serialize)]
pub struct InputShare {
    /// What: `payments of remote customers`.
    pub what: String,
    /// Number of draws.
    pub n: u64,
    /// The share that was counted; of lines per order, the mean.
    pub counted: f64,
    /// What the specification has.
    pub expected: f64,
    /// The least that is taken for that.
    pub low: f64,
    /// The most.
    pub high: f64,
}

impl InputShare {
    /// Whether it is what the specification has, give or take chance.
    pub fn is_met(&self) -> bool {
        self.n == 0 || (self.low..=self.high).contains(&self.counted)
    }
}
