//! How throughput depends on the number of clients.

use std::collections::BTreeMap;

use serde::Serialize;

/// Throughput over clients, all other factors held, and the law through it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Scalability {
    /// The levels of the other factors, by key.
    pub others: BTreeMap<String, String>,
    /// Clients and median throughput, per second.
    pub points: Vec<(u32, f64)>,
    /// The law, if it describes the points.
    pub fit: Option<Fit>,
    /// What the fit does not tell, or why there is none, in words.
    pub remarks: Vec<String>,
}

/// The fitted law `X(n) = lambda n / (1 + sigma (n - 1) + kappa n (n - 1))`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Fit {
    /// Throughput of one client, per second.
    pub lambda: Figure,
    /// Share of the work that is done one after the other.
    pub sigma: Figure,
    /// Cost of keeping clients in step.
    pub kappa: Figure,
    /// Clients at which throughput is highest; none where the law never falls.
    pub peak_clients: Option<Figure>,
    /// Throughput there, per second.
    pub peak_tps: Option<Figure>,
    /// Share of the variance of the medians that the law explains.
    pub explained: f64,
    /// The median that it misses by most: clients, and law over median minus one.
    pub worst: (u32, f64),
    /// Points of the curve: clients and throughput.
    pub curve: Vec<(f64, f64)>,
}

/// A figure with the interval that holds the true one with 95 %, where there are runs enough for one.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Figure {
    /// The figure.
    pub point: f64,
    /// Both ends of the interval.
    pub interval: Option<(f64, f64)>,
}
