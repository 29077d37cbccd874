//! How far off a figure can be: its uncertainty, and the budget that it adds up from.

use serde::Serialize;

/// The range of a figure in which the answer to "what does this machine give, undisturbed and in steady state?" lies with a chance of
/// 95 %, as ratios to the figure.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Uncertainty {
    /// Lower end: 0.97 is 3 % below the figure.
    pub low: f64,
    /// Upper end: 1.05 is 5 % above the figure.
    pub high: f64,
    /// What contributes, the most first.
    pub budget: Vec<Contribution>,
}

/// A row of a budget.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Contribution {
    /// The row's name: `steal`.
    pub id: &'static str,
    /// Lower end that this row alone would give, as a ratio to the figure.
    pub low: f64,
    /// Upper end that this row alone would give.
    pub high: f64,
    /// What it was obtained from: one sentence with the measured figure.
    pub evidence: String,
    /// What would lower it, and what the figure would be good to then.
    pub remedy: String,
}

/// The uncertainties of a case's figures.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CaseUncertainty {
    /// That of the throughput.
    pub throughput: Uncertainty,
    /// That of the median latency; `None` without latencies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p50: Option<Uncertainty>,
    /// That of the 99th percentile of latency.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p99: Option<Uncertainty>,
}

/// What a disturbance can have done to the figures of a run: bounds of the logarithm of the undisturbed figure over the measured one.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DisturbanceBounds {
    /// The row's name: `steal`.
    pub id: &'static str,
    /// Bounds for the throughput.
    pub throughput: [f64; 2],
    /// Bounds for the median latency.
    pub p50: [f64; 2],
    /// Bounds for the 99th percentile of latency.
    pub p99: [f64; 2],
    /// Measured figure: one sentence.
    pub evidence: String,
}

/// How good a figure is, by the precision that was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Quality {
    /// Within the precision.
    Precise,
    /// Up to four times that.
    Fair,
    /// Beyond.
    Rough,
}

/// What is precise enough where nobody says: most decisions are about larger differences.
pub const PRECISION: f64 = 0.05;
/// Times the precision beyond which a figure is rough: it then says little more than the order of magnitude of what was asked.
const ROUGH: f64 = 4.0;

impl Quality {
    /// That of a figure which is good to this share of itself.
    pub fn new(good_to: f64, precision: f64) -> Quality {
        match good_to {
            share if share <= precision => Quality::Precise,
            share if share <= ROUGH * precision => Quality::Fair,
            _ => Quality::Rough,
        }
    }
}

impl Uncertainty {
    /// How good the figure is, by this precision.
    pub fn quality(&self, precision: f64) -> Quality {
        Quality::new(self.good_to(), precision)
    }

    /// The larger side of the range as a share of the figure: 0.05 is "good to ±5 %".
    pub fn good_to(&self) -> f64 {
        larger_side([self.low, self.high])
    }
}

impl Contribution {
    /// The larger side of what the row alone would give, as a share of the figure.
    pub fn good_to(&self) -> f64 {
        larger_side([self.low, self.high])
    }
}

/// The larger side of a range of ratios, as a share of the figure.
pub fn larger_side([low, high]: [f64; 2]) -> f64 {
    (1.0 - low).max(high - 1.0)
}
