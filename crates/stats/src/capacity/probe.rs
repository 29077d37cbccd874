//! Whether a probe at one rate held its latency target, from what each of its seconds counted.

use crate::{Estimate, normal_quantile};

/// A probe that ends less than this share of what it was offered lets transactions pile up (the share of the finding
/// `offered-load-not-achieved`).
const ENDED_SHARE: f64 = 0.99;
/// Chance that is allowed for in the number of random arrivals: three standard deviations of a Poisson count.
const ARRIVAL_SIGMAS: f64 = 3.0;

/// The counts of one second of a probe.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ProbeSecond {
    /// Transactions that ended.
    pub ended: u64,
    /// Those of them that were later than the limit, or not committed.
    pub late: u64,
}

/// The verdict on a probe.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct JudgedProbe {
    /// Transactions that ended.
    pub n: u64,
    /// Share of the transactions that were late, with its interval.
    pub late: Estimate,
    /// By how many times the seconds differ more in their share than independent transactions would; 1 or more.
    pub dispersion: f64,
    /// Whether fewer ended than were offered, beyond chance: the queue grows, and latency with the length of the probe.
    pub piles_up: bool,
    /// Whether it missed the target, by its share or because transactions piled up.
    pub missed: bool,
    /// As `missed`, where that is more than chance; `None` where the interval of the share contains the target.
    pub surely_missed: Option<bool>,
}

/// Judges the seconds of a probe that offered `rate_per_s` and may have the share `allowed` of late transactions.
///
/// The interval is that of Wilson, "Probable Inference, the Law of Succession, and Statistical Inference", 1927, for
/// the number of transactions divided by the dispersion of the seconds: late ones come in bursts, so they are less
/// evidence than as many independent ones (McCullagh and Nelder, "Generalized Linear Models", 4.5: `X^2 / (n - 1)`,
/// here never below 1). `None` without a second, or unless `0 < allowed < 1`.
pub fn judge(seconds: &[ProbeSecond], rate_per_s: f64, allowed: f64, level: f64) -> Option<JudgedProbe> {
    if seconds.is_empty() || !(allowed > 0.0 && allowed < 1.0) {
        return None;
    }
    let ended: u64 = seconds.iter().map(|second| second.ended).sum();
    let late: u64 = seconds.iter().map(|second| second.late).sum();
    let offered = rate_per_s * seconds.len() as f64;
    let piles_up = (ended as f64) < ENDED_SHARE * offered - ARRIVAL_SIGMAS * offered.sqrt();
    if ended == 0 {
        let unknown = Estimate { point: 1.0, low: 0.0, high: 1.0, level };
        return Some(JudgedProbe {
            n: 0,
            late: unknown,
            dispersion: 1.0,
            piles_up,
            missed: piles_up,
            surely_missed: piles_up.then_some(true),
        });
    }
    let share = late as f64 / ended as f64;
    let dispersion = dispersion(seconds, share);
    let late = wilson(share, ended as f64 / dispersion, level)?;
    let by_share = if late.low > allowed { Some(true) } else { (late.high <= allowed).then_some(false) };
    Some(JudgedProbe {
        n: ended,
        late,
        dispersion,
        piles_up,
        missed: piles_up || share > allowed,
        surely_missed: if piles_up { Some(true) } else { by_share },
    })
}

/// How much more the seconds differ in their share than independent transactions would.
fn dispersion(seconds: &[ProbeSecond], share: f64) -> f64 {
    let variance = share * (1.0 - share);
    if seconds.len() < 2 || variance <= 0.0 {
        return 1.0;
    }
    let squares: f64 = seconds
        .iter()
        .filter(|second| second.ended > 0)
        .map(|second| {
            (second.late as f64 - second.ended as f64 * share).powi(2) / (second.ended as f64 * variance)
        })
        .sum();
    (squares / (seconds.len() - 1) as f64).max(1.0)
}

fn wilson(share: f64, n: f64, level: f64) -> Option<Estimate> {
    let z = normal_quantile(0.5 + level / 2.0)?;
    let centre = (share + z * z / (2.0 * n)) / (1.0 + z * z / n);
    let half = z / (1.0 + z * z / n) * (share * (1.0 - share) / n + z * z / (4.0 * n * n)).sqrt();
    Some(Estimate { point: share, low: (centre - half).max(0.0), high: (centre + half).min(1.0), level })
}
