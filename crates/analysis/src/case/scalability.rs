//! Fits the universal scalability law to throughput by number of clients.

use std::collections::BTreeMap;

use stats::capacity::usl::{Parameters, parameters_bootstrap};
use stats::sample::bootstrap::Resampling;
use stats::{Estimate, scalability};

use crate::case::factors::CLIENTS;
use crate::summary::CaseSummary;
use crate::summary::scalability::{EstimatedFigure, Fit, Scalability};

/// Fewest numbers of clients: the law has three parameters, so it fits any three points, and only a fourth can
/// contradict it.
pub const LEVELS_MIN: usize = 4;
/// A fit that explains less of the variance than this is rejected.
const EXPLAINED_MIN: f64 = 0.8;
/// A median that the law misses by more than this share is reported.
const OFF_TOLD: f64 = 0.1;
/// Resampled fits, and the seed of their random numbers: a report is the same each time.
const RESAMPLING: Resampling = Resampling { n: 1000, seed: 1 };
/// Level of the intervals.
const LEVEL: f64 = 0.95;
/// Points of the drawn curve.
const CURVE_POINTS: usize = 60;

/// The fits for each combination of the other factors, in the order of the plan; empty unless the number of clients
/// varies.
pub fn of_cases(cases: &[CaseSummary]) -> Vec<Scalability> {
    let mut groups: Vec<(BTreeMap<String, String>, Vec<&CaseSummary>)> = Vec::new();
    for case in cases.iter().filter(|case| case.tps_median.is_some_and(|tps| tps > 0.0)) {
        let mut others = case.case.levels.clone();
        if others.remove(CLIENTS).is_none() {
            continue;
        }
        match groups.iter_mut().find(|(known, _)| *known == others) {
            Some((_, group)) => group.push(case),
            None => groups.push((others, vec![case])),
        }
    }
    groups
        .into_iter()
        .filter(|(_, group)| group.len() > 1)
        .map(|(others, group)| of_group(others, group))
        .collect()
}

fn of_group(others: BTreeMap<String, String>, mut group: Vec<&CaseSummary>) -> Scalability {
    group.sort_by_key(|case| case.case.workload.n_clients);
    let points: Vec<(u32, f64)> =
        group.iter().filter_map(|case| Some((case.case.workload.n_clients, case.tps_median?))).collect();
    let runs: Vec<(f64, &[f64])> =
        group.iter().map(|case| (f64::from(case.case.workload.n_clients), case.tps.as_slice())).collect();
    let (fit, remarks) = match fit(&points, &runs) {
        Ok((fit, remarks)) => (Some(fit), remarks),
        Err(reason) => (None, vec![reason]),
    };
    Scalability { others, points, fit, remarks }
}

/// The law through the medians, with its limits.
///
/// # Errors
/// Why there is no fit.
fn fit(points: &[(u32, f64)], runs: &[(f64, &[f64])]) -> Result<(Fit, Vec<String>), String> {
    if points.len() < LEVELS_MIN {
        return Err(format!("the scalability curve needs at least {LEVELS_MIN} client counts"));
    }
    let medians: Vec<(f64, f64)> = points.iter().map(|(n, tps)| (f64::from(*n), *tps)).collect();
    let law = scalability(&medians).ok_or("no law fitted: no median is above zero")?;
    let off = |(n, tps): &(u32, f64)| (*n, law.throughput(f64::from(*n)) / tps - 1.0);
    let worst = points.iter().map(off).max_by(|a, b| a.1.abs().total_cmp(&b.1.abs())).unwrap_or((0, 0.0));
    if law.explained < EXPLAINED_MIN {
        return Err(format!(
            "no law fitted: it would explain {:.0} % of the differences between the medians, and be {:.0} % off at {}",
            100.0 * law.explained.max(0.0),
            100.0 * worst.1.abs(),
            clients(worst.0)
        ));
    }
    let resampled = parameters_bootstrap(runs, LEVEL, RESAMPLING);
    let figure = |point: f64, of: fn(&Parameters<Estimate>) -> Option<Estimate>| {
        let interval = resampled.as_ref().and_then(of).map(|estimate| (estimate.low, estimate.high));
        EstimatedFigure { point, interval }
    };
    let (first, last) = (medians[0].0, medians[medians.len() - 1].0);
    let peak = law.peak();
    let fit = Fit {
        lambda: figure(law.lambda, |all| Some(all.lambda)),
        sigma: figure(law.sigma, |all| Some(all.sigma)),
        kappa: figure(law.kappa, |all| Some(all.kappa)),
        peak_clients: peak.map(|n| figure(n, |all| all.peak)),
        peak_tps: peak.map(|n| figure(law.throughput(n), |all| all.peak_throughput)),
        explained: law.explained,
        worst,
        curve: curve(&law, first, peak.map_or(last, |peak| last.max(peak.min(2.0 * last)))),
    };
    let mut remarks: Vec<String> = of_peak(&law, first, last).into_iter().collect();
    remarks.extend(of_fit(worst, resampled.is_some()));
    Ok((fit, remarks))
}

/// A remark about the law's peak, if there is something to know.
fn of_peak(law: &stats::UslFit, first: f64, last: f64) -> Option<String> {
    let outside = |where_: &str, n: f64| {
        let clients = clients(n as u32);
        Some(format!("the peak is {where_} the {clients} that were measured: an extrapolation"))
    };
    match law.peak() {
        None if law.sigma >= 1.0 => {
            Some("no peak: sigma is 1 or more, throughput drops from the first client on".to_string())
        }
        None => {
            let text = "no peak: kappa is at its bound of 0, throughput does not drop in the measured range";
            Some(text.to_string())
        }
        Some(peak) if peak > last => outside("beyond", last),
        Some(peak) if peak < first => outside("below", first),
        Some(_) => None,
    }
}

fn of_fit(worst: (u32, f64), has_intervals: bool) -> Vec<String> {
    let mut remarks = Vec::new();
    if worst.1.abs() > OFF_TOLD {
        remarks.push(format!(
            "the law is {:.0} % {} the median of {}: it does not describe that part",
            100.0 * worst.1.abs(),
            if worst.1 > 0.0 { "above" } else { "below" },
            clients(worst.0)
        ));
    }
    if !has_intervals {
        remarks.push(format!(
            "no intervals: fewer than {} runs in total beyond the first of each number of clients",
            stats::capacity::usl::BOOTSTRAP_MIN
        ));
    }
    remarks
}

fn clients(n: u32) -> String {
    if n == 1 { "1 client".to_string() } else { format!("{n} clients") }
}

/// Evenly spaced on a logarithmic axis.
fn curve(law: &stats::UslFit, first: f64, last: f64) -> Vec<(f64, f64)> {
    let step = (last / first).ln() / (CURVE_POINTS - 1) as f64;
    (0..CURVE_POINTS).map(|i| first * (step * i as f64).exp()).map(|n| (n, law.throughput(n))).collect()
}
