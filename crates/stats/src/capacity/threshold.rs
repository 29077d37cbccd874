//! The highest rate that holds a latency target, from probes at several rates, with noise.

use crate::capacity::probe::JudgedProbe;
use crate::{Estimate, finite};

/// Rates of the grid.
const GRID: usize = 300;
/// How far the grid goes beyond the rates that are offered, as a factor: what lies there can only be called "above" or
/// "below".
const MARGIN: f64 = 2.0;
/// By how many per cent the late share grows with one per cent of rate, near the threshold: in a queue with one server
/// the limit in service times less `ln(1 / allowed)` (at p99: 1.4 with a limit of six service times, 5.4 with one of
/// ten). A server that collapses has more; one whose latency hardly depends on the rate has less than 1.
const SLOPES: [f64; 9] = [0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0];
/// Slopes below this one are less likely beforehand.
const FLAT: f64 = 4.0;
/// Probes, counted from 0, that leave the median, the first of them to below and the next to above: at the median alone
/// a flat curve with little noise looks like a steep one with much. Early, so that neither is the confirming probe.
const ASIDE: std::ops::Range<u32> = 3..5;
/// By how much the logarithm of the late share differs there from that of the allowed one, by the mean slope.
const ASIDE_LOG: f64 = 2.0;
/// Scale of the noise in the logarithm of a probe's late share: late transactions come in bursts, and machines vary.
const SCALES: [f64; 6] = [0.1, 0.2, 0.4, 0.8, 1.6, 3.2];
/// Share of probes that have nothing to do with their rate: a stall, a neighbour.
const LAPSES: f64 = 0.03;
/// Of a share that is more than this many times above or below the allowed one, only that is used: the curve holds
/// near the threshold.
const NEAR: f64 = 5.0;
/// Late transactions below which their number says little more than "few".
const FEW: f64 = 3.0;
/// Largest relative variance that is assumed for a late share.
const VARIANCE_MAX: f64 = 3.0;

/// What is known of a threshold: a distribution over rates, slopes and noise.
///
/// The logarithm of a probe's late share is `ln allowed + slope (rate / threshold - 1)` with logistic noise, which is
/// exact for a queue with one server. Shares far from the allowed one are censored (Tobin, "Estimation of Relationships
/// for Limited Dependent Variables", 1958). Bayes' rule over a grid of all three unknowns, and all probes but two at
/// the median of the threshold: a stochastic bisection as that of Watson and Pelli, "QUEST: A Bayesian Adaptive
/// Psychometric Method", 1983, with slope and noise unknown as in Kontsevich and Tyler, "Bayesian Adaptive Estimation
/// of Psychometric Slope and Threshold", 1999.
///
/// A short probe more often has fewer late transactions than its rate has in the long run than more of them, because
/// they come in bursts. The mean of a logarithm lies below the logarithm of the mean by half of the relative variance,
/// which is the dispersion of the probe's seconds over the number of its late transactions; that much is added.
#[derive(Debug, Clone)]
pub struct Threshold {
    allowed: f64,
    /// Logarithms of rates, rising evenly.
    grid: Vec<f64>,
    /// Chance of each rate by slope and scale of the noise.
    chances: Vec<[[f64; SCALES.len()]; SLOPES.len()]>,
    lowest: f64,
    highest: f64,
    n_seen: u32,
}

/// The evidence of a probe about the logarithm of its late share.
#[derive(Debug, Clone, Copy)]
enum Seen {
    Below(f64),
    At(f64),
    Above(f64),
}

impl Threshold {
    /// Before the first probe, where a share `allowed` of transactions may be late. `None` unless
    /// `0 < lowest < highest` and `0 < allowed < 1`.
    pub fn between(lowest: f64, highest: f64, allowed: f64) -> Option<Threshold> {
        if !(lowest > 0.0 && lowest < highest && highest.is_finite() && allowed > 0.0 && allowed < 1.0) {
            return None;
        }
        let (from, to) = ((lowest / MARGIN).ln(), (highest * MARGIN).ln());
        let step = (to - from) / (GRID - 1) as f64;
        let grid: Vec<f64> = (0..GRID).map(|i| from + step * i as f64).collect();
        // Any rate up to the highest is as likely as any other; a step of the grid is as wide as its rate. Above, the
        // chance falls, so that the first probe is well within.
        let weight = |x: f64| if x > highest.ln() { 0.2 * (2.0 * highest.ln() - x).exp() } else { x.exp() };
        // A flat curve leaves more thresholds possible than a steep one.
        let of_slope = |slope: f64| (slope / FLAT).min(1.0).sqrt();
        let chances =
            grid.iter().map(|x| SLOPES.map(|slope| [weight(*x) * of_slope(slope); SCALES.len()])).collect();
        let mut known = Threshold { allowed, grid, chances, lowest, highest, n_seen: 0 };
        known.normalize();
        Some(known)
    }

    /// Learns from a probe at `rate`.
    pub fn see(&mut self, rate: f64, probe: &JudgedProbe) {
        let seen = self.seen(probe);
        self.n_seen += 1;
        for (threshold, chances) in self.grid.iter().zip(&mut self.chances) {
            for (by_scale, slope) in chances.iter_mut().zip(SLOPES) {
                let curve = self.allowed.ln() + slope * (rate / threshold.exp() - 1.0);
                for (chance, scale) in by_scale.iter_mut().zip(SCALES) {
                    *chance *= seen.likelihood(curve, scale);
                }
            }
        }
        self.normalize();
    }

    fn seen(&self, probe: &JudgedProbe) -> Seen {
        let few = FEW / (probe.n as f64).max(1.0);
        let (low, high) = (few.max(self.allowed / NEAR), (self.allowed * NEAR).min(0.9).max(few));
        match probe.late.point {
            share if probe.piles_up || share >= high => Seen::Above(high.ln()),
            share if share <= low => Seen::Below(low.ln()),
            share => {
                let variance = probe.dispersion / (share * probe.n as f64);
                Seen::At(share.ln() + 0.5 * variance.min(VARIANCE_MAX))
            }
        }
    }

    /// The rate to probe next, within the bounds: the median, except for the two probes that determine the slope.
    pub fn next(&self) -> f64 {
        let aside = match self.n_seen {
            n if !ASIDE.contains(&n) => 0.0,
            n if n % 2 == 0 => self.aside(),
            _ => -self.aside(),
        };
        (self.quantile(0.5) * (1.0 + aside)).min(self.highest).max(self.lowest)
    }

    /// How far from the threshold a probe determines the slope.
    fn aside(&self) -> f64 {
        let of_slopes = |by_slope: &[[f64; SCALES.len()]; SLOPES.len()]| -> f64 {
            by_slope
                .iter()
                .zip(SLOPES)
                .map(|(by_scale, slope)| by_scale.iter().sum::<f64>() * slope.ln())
                .sum()
        };
        (ASIDE_LOG / self.chances.iter().map(of_slopes).sum::<f64>().exp()).min(0.5)
    }

    /// The threshold's median with the interval that it lies in with chance `level`.
    pub fn estimate(&self, level: f64) -> Option<Estimate> {
        let tail = (1.0 - level) / 2.0;
        let at = |p: f64| finite(self.quantile(p));
        Some(Estimate { point: at(0.5)?, low: at(tail)?, high: at(1.0 - tail)?, level })
    }

    /// The chance that the threshold is below a rate.
    pub fn below(&self, rate: f64) -> f64 {
        let x = rate.ln();
        self.grid.iter().zip(self.sums()).filter(|(at, _)| **at < x).map(|(_, chance)| chance).sum()
    }

    fn quantile(&self, p: f64) -> f64 {
        let mut below = 0.0;
        let step = self.grid[1] - self.grid[0];
        for (x, chance) in self.grid.iter().zip(self.sums()) {
            if below + chance >= p {
                // Each rate stands for the width of a step around it.
                return (x + step * ((p - below) / chance - 0.5)).exp();
            }
            below += chance;
        }
        self.grid[GRID - 1].exp()
    }

    /// The chance of each rate, whatever the slope and the noise.
    fn sums(&self) -> impl Iterator<Item = f64> {
        self.chances.iter().map(|chances| chances.iter().flatten().sum())
    }

    fn normalize(&mut self) {
        let total: f64 = self.chances.iter().flatten().flatten().sum();
        self.chances.iter_mut().flatten().flatten().for_each(|chance| *chance /= total);
    }
}

impl Seen {
    /// How likely the probe is where the logarithm of the share is `mean` and logistic noise of this scale. A lapse is
    /// as likely anywhere.
    fn likelihood(self, mean: f64, scale: f64) -> f64 {
        let below = |x: f64| 1.0 / (1.0 + ((mean - x) / scale).exp());
        let (usual, lapse) = match self {
            Seen::Below(x) => (below(x), 0.5),
            Seen::Above(x) => (1.0 - below(x), 0.5),
            Seen::At(x) => (below(x) * (1.0 - below(x)) / scale, 0.5 / (NEAR * NEAR).ln()),
        };
        (1.0 - LAPSES) * usual + LAPSES * lapse
    }
}
