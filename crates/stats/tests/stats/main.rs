//! The functions against figures computed with numpy and scipy (`vectors.py`), and on samples that are too small.

mod capacity;
mod inference;
mod inference_vectors;
mod levels;
mod propagation;
mod simulation;
mod vectors;
mod warm_up;

use stats::*;
use vectors::{DESCRIBE, NORMAL, STUDENT_T, T_TEST, TPS, TREND};

pub(crate) fn close(actual: f64, expected: f64, relative: f64) {
    let scale = expected.abs().max(1e-300);
    assert!(
        (actual - expected).abs() / scale <= relative || actual == expected,
        "{actual} is not {expected}"
    );
}

#[test]
fn descriptions_agree_with_numpy() {
    for (sample, expected_mean, expected_sd, expected_median, expected_mad, quantiles) in DESCRIBE {
        close(mean(sample).unwrap(), *expected_mean, 1e-14);
        match sd(sample) {
            Some(actual) => close(actual, *expected_sd, 1e-12),
            None => assert!(sample.len() == 1 && expected_sd.is_nan()),
        }
        close(median(sample).unwrap(), *expected_median, 1e-14);
        close(mad(sample).unwrap(), *expected_mad, 1e-12);
        for (q, expected) in [0.05, 0.25, 0.9].into_iter().zip(quantiles) {
            close(quantile(sample, q).unwrap(), *expected, 1e-14);
        }
    }
}

#[test]
fn trend_figures_agree_with_scipy() {
    for (sample, s, p, lag_1) in TREND {
        let test = mann_kendall(sample).unwrap();
        assert_eq!(test.s, *s);
        close(test.p, *p, 1e-9);
        close(autocorrelation_lag_1(sample).unwrap(), *lag_1, 1e-10);
    }
}

#[test]
fn the_t_test_agrees_with_scipy() {
    for (a, b, p) in T_TEST {
        close(t_test_p(a, b).unwrap(), *p, 1e-9);
    }
    assert_eq!(t_test_p(&[1.0, 1.0], &[2.0, 2.0]), Some(0.0));
    assert_eq!(t_test_p(&[1.0, 1.0], &[1.0, 1.0]), Some(1.0));
    assert_eq!(t_test_p(&[1.0], &[1.0, 1.0]), None);
}

#[test]
fn student_t_quantiles_agree_with_scipy() {
    for (p, df, expected) in STUDENT_T {
        let actual = student_t_quantile(*p, *df).unwrap();
        assert!(
            (actual - expected).abs() <= 1e-8 * expected.abs().max(1.0),
            "t({p}, {df}) = {actual}, not {expected}"
        );
    }
}

#[test]
fn the_normal_tail_agrees_with_scipy() {
    for (z, expected) in NORMAL {
        close(normal_two_sided_p(*z), *expected, 1e-9);
        close(normal_two_sided_p(-*z), *expected, 1e-9);
    }
}

#[test]
fn samples_that_are_too_small_give_nothing() {
    assert_eq!(mean(&[]), None);
    assert_eq!(median(&[]), None);
    assert_eq!(mad(&[]), None);
    assert_eq!(sd(&[1.0]), None);
    assert_eq!(cv(&[1.0]), None);
    assert_eq!(cv(&[0.0, 0.0]), None);
    assert_eq!(jain(&[]), None);
    assert_eq!(jain(&[0.0, 0.0]), None);
    assert_eq!(quantile(&[1.0], 1.1), None);
    assert_eq!(quantile(&[1.0, f64::NAN], 0.5), None);
    assert_eq!(mean(&[f64::INFINITY]), None);
    assert_eq!(batch_means(&[1.0, 2.0], 3), None);
    assert_eq!(batch_means(&[1.0, 2.0], 0), None);
    assert_eq!(autocorrelation_lag_1(&[1.0, 1.0, 1.0]), None);
    assert_eq!(mann_kendall(&[1.0, 2.0, 3.0]), None);
    assert_eq!(steadiness(&[1.0; 7]), None);
    assert_eq!(steadiness(&[0.0; 20]), None);
    assert_eq!(student_t_quantile(0.0, 3.0), None);
    assert_eq!(student_t_quantile(0.5, f64::NAN), None);
    assert_eq!(student_t_cdf(0.0, 0.0), None);
}

#[test]
fn fairness_is_one_when_even_and_one_over_n_when_one_has_all() {
    assert_eq!(jain(&[5.0; 4]), Some(1.0));
    assert_eq!(jain(&[8.0, 0.0, 0.0, 0.0]), Some(0.25));
}

#[test]
fn batches_keep_the_order_and_use_every_value() {
    assert_eq!(batch_means(&[1.0, 3.0, 5.0, 7.0, 9.0], 2), Some(vec![2.0, 7.0]));
    assert_eq!(batch_means(&[1.0, 3.0], 2), Some(vec![1.0, 3.0]));
}

#[test]
fn a_level_with_noise_is_steady() {
    let steady: Vec<f64> = TPS.repeat(5);
    assert!(steadiness(&steady).unwrap().steady);
    assert!(steadiness(&[100.0; 60]).unwrap().steady);
}

#[test]
fn a_drift_a_step_and_a_warm_up_are_not_steady() {
    let noise = |i: usize| TPS[i % TPS.len()] / 3700.0;
    let series = |f: &dyn Fn(usize) -> f64, n: usize| (0..n).map(|i| f(i) * noise(i)).collect::<Vec<f64>>();
    for n in [12, 30, 60, 120] {
        let drift = series(&|i| 1000.0 * (1.0 - 0.2 * i as f64 / n as f64), n);
        let step = series(&|i| if i < n / 2 { 1000.0 } else { 850.0 }, n);
        let warm_up = series(&|i| 1000.0 * (1.0 - 0.6 * (-(i as f64) / (n as f64 / 5.0)).exp()), n);
        for (name, values) in [("drift", drift), ("step", step), ("warm-up", warm_up)] {
            assert!(!steadiness(&values).unwrap().steady, "{name} of {n}: {:?}", steadiness(&values));
        }
    }
}

#[test]
fn a_significant_but_tiny_trend_is_steady() {
    let creeping: Vec<f64> = (0..60).map(|i| 1000.0 + 0.2 * f64::from(i)).collect();
    let result = steadiness(&creeping).unwrap();
    assert!(result.trend_p < 0.001 && result.steady, "{result:?}");
}
