//! Throughput as a function of the number of clients.

use std::collections::BTreeMap;

use serde::Serialize;

/// Throughput by number of clients with all other factors fixed, and the law fitted to it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Scalability {
    /// The levels of the other factors, by key.
    pub others: BTreeMap<String, String>,
    /// Clients and median throughput, per second.
    pub points: Vec<(u32, f64)>,
    /// The law, if it describes the points.
    pub fit: Option<Fit>,
    /// Limits of the fit, or why there is none.
    pub remarks: Vec<String>,
}

/// The fitted law `X(n) = lambda n / (1 + sigma (n - 1) + kappa n (n - 1))`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Fit {
    /// Throughput of one client, per second.
    pub lambda: EstimatedFigure,
    /// Share of the work that is serial.
    pub sigma: EstimatedFigure,
    /// Cost of keeping clients coherent.
    pub kappa: EstimatedFigure,
    /// Clients at which throughput is highest; none if the law never drops.
    pub peak_clients: Option<EstimatedFigure>,
    /// Throughput there, per second.
    pub peak_tps: Option<EstimatedFigure>,
    /// Share of the variance of the medians that the law explains.
    pub explained: f64,
    /// The median that it misses most: clients, and law over median minus one.
    pub worst: (u32, f64),
    /// Points of the curve: clients and throughput.
    pub curve: Vec<(f64, f64)>,
}

/// A figure with its 95 % interval, if there are enough runs for one.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct EstimatedFigure {
    /// The figure.
    pub point: f64,
    /// Both ends of the interval.
    pub interval: Option<(f64, f64)>,
}
