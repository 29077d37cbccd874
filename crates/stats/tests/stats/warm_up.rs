//! When a warm-up is called over: series of every shape that a load takes, with seconds that resemble their neighbours.

use stats::random::Random;
use stats::*;

/// Seconds after which waiting ends.
const BOUND: usize = 120;
const SERIES: u64 = 200;

/// A level over time, with noise of a coefficient of variation `cv` and an autocorrelation of 0.6.
fn series(level: fn(f64) -> f64, cv: f64, seed: u64) -> Vec<f64> {
    const PHI: f64 = 0.6;
    let mut random = Random::new(seed.wrapping_mul(7919) ^ 0x3a7);
    let mut noise = random.normal() * cv;
    (0..BOUND)
        .map(|second| {
            let value = 1000.0 * level(second as f64 + 0.5) * (1.0 + noise);
            noise = PHI * noise + random.normal() * cv * (1.0 - PHI * PHI).sqrt();
            value.max(0.0)
        })
        .collect()
}

fn flat(_: f64) -> f64 {
    1.0
}

/// Half of the level at first, the rest with a time constant of ten seconds.
fn approach(t: f64) -> f64 {
    1.0 - 0.5 * (-t / 10.0).exp()
}

/// As while a cache fills: another plateau first.
fn step(t: f64) -> f64 {
    if t < 12.0 { 0.6 } else { 1.0 }
}

fn never(t: f64) -> f64 {
    0.4 + 0.01 * t
}

/// When a warm-up of this series is called over.
fn end(series: &[f64]) -> Option<usize> {
    (1..=series.len()).find(|&n| is_warm(&series[..n], &WarmUpRule::default()))
}

/// Shares of series that have no end, mean of the ends, and mean of what is missing from the level then.
fn ends(level: fn(f64) -> f64, cv: f64) -> (f64, f64, f64) {
    let all: Vec<Option<usize>> = (0..SERIES).map(|seed| end(&series(level, cv, seed))).collect();
    let ended: Vec<f64> = all.iter().flatten().map(|&n| n as f64).collect();
    let missing: Vec<f64> = ended.iter().map(|&n| 1.0 - level(n)).collect();
    let without_end = 1.0 - ended.len() as f64 / SERIES as f64;
    (without_end, mean(&ended).unwrap_or(0.0), mean(&missing).unwrap_or(0.0))
}

#[test]
fn a_flat_series_is_warm_soon_and_later_when_it_is_noisy() {
    for (cv, mean_max) in [(0.01, 20.0), (0.03, 30.0), (0.1, 45.0)] {
        let (without_end, mean_end, _) = ends(flat, cv);
        assert!(without_end <= 0.02 && mean_end <= mean_max, "cv {cv}: {without_end}, {mean_end}");
    }
    assert_eq!(end(&[1000.0; 30]), Some(14), "ten values, and four more judgements");
}

#[test]
fn an_approach_is_waited_for_until_little_is_missing() {
    for (cv, missing_max) in [(0.01, 0.01), (0.05, 0.02), (0.1, 0.025)] {
        let (without_end, mean_end, missing) = ends(approach, cv);
        assert!(without_end <= 0.02 && missing <= missing_max, "cv {cv}: {without_end}, {missing}");
        assert!(mean_end <= 70.0, "cv {cv}: {mean_end}");
    }
}

#[test]
fn a_step_that_was_seen_is_waited_out() {
    let n = end(&series(step, 0.02, 3)).unwrap();
    assert!((20..=60).contains(&n), "{n}");
    // What comes after five agreeing judgements nobody can know.
    assert_eq!(end(&[vec![600.0; 14], vec![1000.0; 20]].concat()), Some(14));
}

#[test]
fn a_series_that_never_settles_has_no_end_of_warm_up() {
    let (without_end, ..) = ends(never, 0.02);
    assert!(without_end >= 0.98, "{without_end}");
    assert_eq!(end(&[0.0; 60]), None, "nothing committed is not a level");
    let doubling: Vec<f64> = (0..60).map(|n| 2f64.powi(n)).collect();
    assert_eq!(end(&doubling), None);
}

#[test]
fn the_cut_is_where_the_error_of_the_mean_is_least() {
    // Of ten values after a low one: computed by hand from the definition.
    let low = [0.0, 10.0, 11.0, 9.0, 10.0, 11.0, 9.0, 10.0, 11.0, 9.0, 10.0];
    assert_eq!(mser_cut(&low), Some(1));
    assert_eq!(mser_cut(&[5.0; 12]), Some(0));
    assert_eq!(mser_cut(&(0..20).map(f64::from).collect::<Vec<_>>()), Some(15), "five are always kept");
    assert_eq!(mser_cut(&[1.0; 9]), None);
    assert_eq!(mser_cut(&[f64::NAN; 12]), None);
}
