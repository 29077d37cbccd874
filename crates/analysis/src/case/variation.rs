//! How much the runs of a case vary, why, and how to reduce it.

use model::run::RunData;

use crate::run::ExplainedRun;
use crate::summary::RunSummary;
use crate::summary::variation::{Spread, VarianceShares, Variation};

/// With fewer runs a spread says nothing.
pub(crate) const RUNS_MIN: usize = 3;
/// Measured seconds of a run from which on its variance is split.
const SECONDS_MIN: usize = 20;
/// Batches of a run whose means represent its seconds, which resemble their neighbours.
const BATCHES: usize = 10;
/// Autocorrelation of neighbouring batches (mean over the runs) above which their variance does not measure the
/// variance within runs. In ten independent batches it is -0.1 on average.
const RESEMBLANCE_MAX: f64 = 0.0;
/// Level of the intervals.
const LEVEL: f64 = 0.95;
/// Half width of the mean's interval, as a share, for which the required number of runs is given.
const PRECISION: f64 = 0.01;

impl Spread {
    fn from_sample(sample: &[f64]) -> Option<Spread> {
        let interval = stats::cv_interval(sample, LEVEL).map(|cv| [cv.low, cv.high]);
        (sample.len() >= RUNS_MIN).then(|| Some(Spread { cv: stats::cv(sample)?, interval }))?
    }
}

/// The variation of a case's runs.
pub(crate) fn of_case(runs: &[(&RunData, &ExplainedRun)]) -> Variation {
    let counting: Vec<(&RunData, &RunSummary)> =
        runs.iter().map(|(data, run)| (*data, &run.summary)).filter(|(_, run)| run.counts()).collect();
    if counting.len() < RUNS_MIN {
        return Variation::default();
    }
    let tps: Vec<f64> = counting.iter().filter_map(|(_, run)| run.tps).collect();
    let per_cpu_s = |run: &RunSummary| {
        let us = run.resources.server_cpu_us_per_transaction.filter(|us| *us > 0.0)?;
        Some(1e6 / us)
    };
    // Without such a run, the others would represent all.
    let per_cpu_s: Option<Vec<f64>> = counting.iter().map(|(_, run)| per_cpu_s(run)).collect();
    let spread = Spread::from_sample(&tps);
    Variation {
        tps: spread,
        per_cpu_s: per_cpu_s.as_deref().and_then(stats::median),
        per_cpu_s_spread: per_cpu_s.as_deref().and_then(Spread::from_sample),
        origin: origin(&counting),
        runs_for_one_percent: spread.and_then(|spread| stats::n_for_half_width(spread.cv, PRECISION, LEVEL)),
    }
}

/// The nested analysis of variance over restarts, runs, and batches of seconds.
fn origin(counting: &[(&RunData, &RunSummary)]) -> Option<VarianceShares> {
    let mut restarts: Vec<(&str, Vec<Vec<f64>>)> = Vec::new();
    let mut resemblances = Vec::new();
    for (data, run) in counting {
        let start = data.record.server.as_ref().map_or("", |server| server.postmaster_start.as_str());
        let batches = batches(run)?;
        resemblances.extend(stats::autocorrelation_lag_1(&batches));
        match restarts.iter_mut().find(|(known, _)| *known == start) {
            Some((_, runs)) => runs.push(batches),
            None => restarts.push((start, vec![batches])),
        }
    }
    // Slow swings within runs would be taken for differences between runs.
    if resemble(&resemblances) {
        return None;
    }
    let is_each_restarted = restarts.len() == counting.len();
    let restarts: Vec<Vec<Vec<f64>>> = restarts.into_iter().map(|(_, runs)| runs).collect();
    let (of_restarts, of_runs, of_batches) = match stats::nested_variance(&restarts) {
        Some([of_restarts, of_runs, of_batches]) => (Some(of_restarts), of_runs, of_batches),
        None => {
            let runs: Vec<Vec<f64>> = restarts.into_iter().flatten().collect();
            let [of_runs, of_batches] = stats::variance_of_runs(&runs)?;
            (None, of_runs, of_batches)
        }
    };
    let within = of_batches / BATCHES as f64;
    let all = of_restarts.unwrap_or(0.0) + of_runs + within;
    (all > 0.0).then(|| VarianceShares {
        restarts: of_restarts.map(|part| part / all),
        runs: of_runs / all,
        within: within / all,
        is_each_restarted,
    })
}

fn resemble(autocorrelations: &[f64]) -> bool {
    stats::mean(autocorrelations).is_some_and(|mean| mean > RESEMBLANCE_MAX)
}

fn batches(run: &RunSummary) -> Option<Vec<f64>> {
    let tps: Vec<f64> =
        run.seconds.iter().filter(|second| second.measured).map(|second| second.tps).collect();
    (tps.len() >= SECONDS_MIN).then(|| stats::batch_means(&tps, BATCHES))?
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "helpers of tests may panic as tests do")]
    use super::*;
    use crate::summary::variation::VarianceLevel;

    #[test]
    fn the_advice_is_about_the_level_that_varies_most() {
        let check = |restarts, runs, within, is_each_restarted, level, words: &str| {
            let origin = VarianceShares { restarts, runs, within, is_each_restarted };
            assert_eq!(origin.most(), level, "{origin:?}");
            assert!(origin.advice().starts_with(words), "{}", origin.advice());
        };
        check(Some(0.81), 0.1, 0.09, false, VarianceLevel::Restart, "repeat restarts, not runs or seconds");
        check(Some(0.1), 0.81, 0.09, false, VarianceLevel::Run, "repeat runs, not seconds");
        check(None, 0.81, 0.19, true, VarianceLevel::Run, "repeat runs, each with its restart");
        check(None, 0.2, 0.8, true, VarianceLevel::Second, "measure longer");
    }

    /// Of 200 cases of five runs of 30 s with all variance within runs: the shares without a split, and with one that
    /// blames runs.
    fn silent_and_wrong(memory: f64) -> (f64, f64) {
        let mut random = stats::random::Random::new(1);
        let (mut silent, mut wrong) = (0.0, 0.0);
        for _ in 0..200 {
            let mut run = || {
                let mut last = random.normal() / (1.0 - memory * memory).sqrt();
                let mut second = || {
                    last = memory * last + random.normal();
                    last
                };
                stats::batch_means(&(0..30).map(|_| second()).collect::<Vec<f64>>(), BATCHES).unwrap()
            };
            let runs: Vec<Vec<f64>> = (0..5).map(|_| run()).collect();
            let of = runs.iter().filter_map(|run| stats::autocorrelation_lag_1(run)).collect::<Vec<f64>>();
            let [between, within] = stats::variance_of_runs(&runs).unwrap();
            match resemble(&of) {
                true => silent += 1.0 / 200.0,
                false if between > within / BATCHES as f64 => wrong += 1.0 / 200.0,
                false => {}
            }
        }
        (silent, wrong)
    }

    #[test]
    fn slow_swings_within_runs_are_not_blamed_on_runs() {
        for memory in [0.8, 0.9, 0.95] {
            let (_, wrong) = silent_and_wrong(memory);
            assert!(wrong < 0.1, "{memory}: {wrong}");
        }
        let (silent, wrong) = silent_and_wrong(0.0);
        assert!(silent < 0.4 && wrong < 0.25, "{silent} {wrong}");
    }
}
