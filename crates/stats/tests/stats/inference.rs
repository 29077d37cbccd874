//! Tests, intervals and fits against figures computed with numpy and scipy (`inference_vectors.py`), and on samples
//! that are too small for them.

use stats::sample::bootstrap::Resampling;
use stats::*;

use crate::close;
use crate::inference_vectors::*;

const HOW: Resampling = Resampling { n: 4000, seed: 7 };

fn close_estimate(actual: Estimate, [point, low, high]: [f64; 3], relative: f64) {
    close(actual.point, point, relative);
    close(actual.low, low, relative);
    close(actual.high, high, relative);
}

#[test]
fn rank_tests_count_every_arrangement() {
    for (sample, p) in SIGNED_RANK {
        close(signed_rank_p(sample).unwrap(), *p, 1e-12);
    }
    for (a, b, p) in RANK_SUM {
        close(rank_sum_p(a, b).unwrap(), *p, 1e-12);
        close(rank_sum_p(b, a).unwrap(), *p, 1e-12);
    }
    assert_eq!(signed_rank_p(&[0.0, 0.0]), Some(1.0));
    assert_eq!(rank_sum_p(&[1.0; 3], &[1.0; 4]), Some(1.0));
}

#[test]
fn approximations_for_large_samples_continue_the_exact_ones() {
    let sample =
        |n: usize| (0..n).map(|i| ((i * 37) % 101) as f64 - 45.0 + i as f64 * 0.001).collect::<Vec<f64>>();
    let difference = signed_rank_p(&sample(150)).unwrap() - signed_rank_p(&sample(151)).unwrap();
    assert!(difference.abs() < 0.02, "{difference}");
    let (exact, beyond) = (centre(&sample(150), 0.95).unwrap(), centre(&sample(151), 0.95).unwrap());
    assert!(
        (exact.low - beyond.low).abs() < 0.5 && (exact.high - beyond.high).abs() < 0.5,
        "{exact:?} {beyond:?}"
    );
    let a = sample(30);
    let mut b = sample(30);
    b.push(median(&b).unwrap());
    let difference = rank_sum_p(&a, &sample(30)).unwrap() - rank_sum_p(&a, &b).unwrap();
    assert!(difference.abs() < 0.05, "{difference}");
    let (exact, beyond) = (shift(&a, &sample(30), 0.95).unwrap(), shift(&a, &b, 0.95).unwrap());
    assert!((exact.half_width() / beyond.half_width() - 1.0).abs() < 0.1, "{exact:?} {beyond:?}");
}

#[test]
fn intervals_of_ranks_are_where_the_test_stops_rejecting() {
    for (sample, level, expected) in CENTRE {
        close_estimate(centre(sample, *level).unwrap(), *expected, 1e-12);
    }
    for (a, b, level, expected) in SHIFT {
        close_estimate(shift(a, b, *level).unwrap(), *expected, 1e-12);
    }
}

#[test]
fn t_intervals_equivalence_and_spread_agree_with_scipy() {
    for (sample, expected, p) in MEAN_INTERVAL {
        close_estimate(mean_interval(sample, 0.95).unwrap(), *expected, 1e-8);
        close(mean_p(sample).unwrap(), *p, 1e-9);
    }
    for (sample, margin, p) in EQUIVALENCE {
        close(equivalence_p(sample, *margin).unwrap(), *p, 1e-8);
    }
    for (sample, expected) in CV_INTERVAL {
        close_estimate(cv_interval(sample, 0.95).unwrap(), *expected, 1e-8);
    }
    assert_eq!(equivalence_p(&[0.0; 6], 0.01), Some(0.0));
    assert_eq!(equivalence_p(&[0.02; 6], 0.01), Some(1.0));
}

#[test]
fn the_bca_bootstrap_agrees_with_scipy_but_for_chance() {
    for (sample, [low, high]) in BCA {
        let actual = bca(sample, mean, 0.95, Resampling { n: 40_000, seed: 3 }).unwrap();
        close(actual.low, *low, 0.015);
        close(actual.high, *high, 0.015);
    }
}

#[test]
fn a_control_variate_is_the_intercept_of_a_regression() {
    for (y, x, [point, low, high, slope, explained]) in CONTROL {
        let adjusted = control_variate(y, x, 0.95).unwrap();
        close_estimate(adjusted.estimate, [*point, *low, *high], 1e-8);
        close(adjusted.slope, *slope, 1e-10);
        close(adjusted.explained, *explained, 1e-10);
    }
}

#[test]
fn distributions_agree_with_scipy() {
    for (p, df, expected) in CHI_SQUARED {
        close(chi_squared_quantile(*p, *df).unwrap(), *expected, 1e-8);
    }
    for (k, n, q, expected) in BINOMIAL {
        close(binomial_cdf(*k, *n, *q), *expected, 1e-10);
    }
    for (n, q, expected) in RANKS {
        assert_eq!(quantile_ranks(*n, *q, 0.95), Some(*expected), "{q} of {n}");
    }
    close(normal_quantile(0.975).unwrap(), 1.959963984540054, 1e-10);
    close(normal_quantile(0.001).unwrap(), -3.090232306167813, 1e-10);
    close(normal_cdf(-1.959963984540054), 0.025, 1e-9);
}

#[test]
fn power_agrees_with_the_noncentral_t_distribution() {
    for (effect, df, level, expected) in POWER {
        close(power_of_t(*effect, *df, *level).unwrap(), *expected, 1e-6);
    }
    for (df, expected) in DETECTABLE {
        close(detectable(1.0, *df, 0.95, 0.8).unwrap(), *expected, 1e-6);
    }
}

#[test]
fn as_many_repetitions_are_named_as_the_interval_needs() {
    let n = n_for_half_width(0.03, 0.01, 0.95).unwrap();
    let half = |n: usize| student_t_quantile(0.975, n as f64 - 1.0).unwrap() * 0.03 / (n as f64).sqrt();
    assert!(half(n) <= 0.01 && half(n - 1) > 0.01, "{n}");
    assert_eq!(n_for_half_width(1.0, 1e-6, 0.95), None);
    let sample: Vec<f64> = (0..100).map(|i| 100.0 + f64::from((i * 37) % 100) / 25.0 - 2.0).collect();
    let (fine, coarse) = (repetitions(&sample, 0.005, 0.95, HOW), repetitions(&sample, 0.01, 0.95, HOW));
    assert!(fine.unwrap() > coarse.unwrap() + 10, "{fine:?} {coarse:?}");
    assert_eq!(repetitions(&sample, 0.0001, 0.95, HOW), None);
}

#[test]
fn the_scalability_law_agrees_with_scipy() {
    let clients = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0];
    for (throughput, [lambda, sigma, kappa, explained]) in USL {
        let points: Vec<(f64, f64)> = clients.into_iter().zip(*throughput).collect();
        let law = scalability(&points).unwrap();
        close(law.lambda, *lambda, 1e-8);
        assert!((law.sigma - sigma).abs() < 1e-8 && (law.kappa - kappa).abs() < 1e-9, "{law:?}");
        close(law.explained, *explained, 1e-7);
    }
    let law = UslFit { lambda: 100.0, sigma: 0.1, kappa: 0.001, explained: 1.0 };
    assert_eq!(law.peak(), Some(30.0));
    assert_eq!(law.throughput(1.0), 100.0);
    assert_eq!(scalability(&[(1.0, 10.0), (2.0, 20.0), (2.0, 19.0)]), None);
}

#[test]
fn variance_is_split_between_levels() {
    for (restarts, expected) in NESTED {
        let owned: Vec<Vec<Vec<f64>>> =
            restarts.iter().map(|runs| runs.iter().map(|run| run.to_vec()).collect()).collect();
        for (actual, expected) in nested_variance(&owned).unwrap().into_iter().zip(expected) {
            assert!((actual - expected).abs() < 1e-12, "{actual} is not {expected}");
        }
    }
    assert_eq!(nested_variance(&[vec![vec![1.0, 2.0], vec![2.0, 3.0]]]), None);
    // One restart has no level above its runs: means 1 and 3, variance 2, of which 0.5 / 2 is chance.
    let [of_runs, of_spans] = variance_of_runs(&[vec![0.5, 1.5], vec![2.5, 3.5]]).unwrap();
    assert!((of_runs - 1.75).abs() < 1e-12 && (of_spans - 0.5).abs() < 1e-12);
    // Runs whose means agree better than chance add nothing.
    assert_eq!(variance_of_runs(&[vec![0.0, 2.0], vec![2.0, 0.0]]), Some([0.0, 2.0]));
    assert_eq!(variance_of_runs(&[vec![1.0, 2.0]]), None);
    assert_eq!(variance_of_runs(&[vec![1.0], vec![2.0]]), None);
}

#[test]
fn changes_of_level_are_found_where_they_are() {
    for (series, at) in DIVISION {
        let found = change_points(series, ChangeRule { effect_min: 0.01, ..ChangeRule::default() });
        assert_eq!(found.iter().map(|change| change.at).collect::<Vec<usize>>(), [*at]);
        assert!(found[0].after > found[0].before && found[0].p < 0.001, "{found:?}");
        assert_eq!(change_points(series, ChangeRule { effect_min: 0.1, ..ChangeRule::default() }), []);
    }
    let noise = |i: usize| f64::from((i as u32 * 7919) % 13) / 10.0;
    let two: Vec<f64> =
        (0..45).map(|i| noise(i) + if (15..30).contains(&i) { 110.0 } else { 100.0 }).collect();
    let found: Vec<usize> =
        change_points(&two, ChangeRule::default()).iter().map(|change| change.at).collect();
    assert_eq!(found, [15, 30]);
    assert_eq!(change_points(&[100.0; 30], ChangeRule::default()), []);
    assert_eq!(change_points(&[1.0, f64::NAN, 2.0], ChangeRule::default()), []);
    assert_eq!(change_points(&[1.0, 1.0, 9.0, 9.0], ChangeRule::default()), []);
}

#[test]
fn effective_sample_sizes_follow_their_definition() {
    for (series, expected) in EFFECTIVE {
        close(effective_sample_size(series).unwrap(), *expected, 1e-9);
    }
    assert_eq!(effective_sample_size(&[1.0; 9]), None);
}

#[test]
fn holm_keeps_the_order_of_its_input() {
    for (p, expected) in HOLM {
        holm(p).iter().zip(expected).for_each(|(actual, expected)| close(*actual, *expected, 1e-12));
    }
    assert_eq!(holm(&[f64::NAN, 0.01]), [1.0, 0.02]);
    assert_eq!(holm(&[]), [0.0; 0]);
}

#[test]
fn what_none_of_a_few_trials_showed_has_a_bound() {
    let near = |found: Option<f64>, expected: f64| (found.unwrap() - expected).abs() < 5e-4;
    // Of 59 and 299, the textbook sample sizes of 95 % for chances of 5 % and 1 %.
    for (n, expected) in [(1, 0.95), (6, 0.3930), (29, 0.0981), (59, 0.0495), (299, 0.00997)] {
        assert!(near(chance_of_none_seen(n, 0.95), expected), "{n}");
    }
    assert_eq!((chance_of_none_seen(0, 0.95), chance_of_none_seen(6, 1.0)), (None, None));
    for (n, expected) in [(2, 0.5), (6, 0.96875), (8, 0.9921875)] {
        assert!(near(extremes_cover_median(n), expected), "{n}");
    }
    assert_eq!(extremes_cover_median(1), None);
}

#[test]
fn samples_that_are_too_small_are_refused() {
    assert_eq!(centre(&LOGS_6[..5], 0.95), None);
    assert!(centre(LOGS_6, 0.95).is_some());
    assert_eq!(compare_pairs(&LOGS_6[..5], 0.02, Design::Fixed), None);
    assert_eq!(signed_rank_p(&[]), None);
    assert_eq!(rank_sum_p(&[], &[1.0]), None);
    assert_eq!(shift(&[1.0, 2.0], &[3.0, 4.0], 0.95), None);
    assert_eq!(mean_interval(&[1.0], 0.95), None);
    assert_eq!(equivalence_p(&[1.0], 0.01), None);
    assert_eq!(bca(&SKEWED[..7], mean, 0.95, HOW), None);
    assert!(bca(&SKEWED[..8], mean, 0.95, HOW).is_some());
    assert_eq!(control_variate(&[1.0; 4], &[1.0, 2.0, 3.0, 4.0], 0.95), None);
    assert_eq!(control_variate(&[1.0; 6], &[2.0; 6], 0.95), None);
    assert_eq!(cv_interval(&[1.0], 0.95), None);
    assert_eq!(quantile_ranks(5, 0.99, 0.95), None);
    assert_eq!(block_bootstrap(&[1.0; 7], 2, 0.95, HOW), None);
    assert_eq!(batch_means_interval(&[1.0], 1, 0.95), None);
}

#[test]
fn verdicts_follow_from_the_interval_and_the_margin() {
    let check = |shift: f64, spread: f64, expected: Verdict| {
        let logs: Vec<f64> = (0..10).map(|i| shift + spread * (f64::from(i) - 4.5)).collect();
        let result = compare_pairs(&logs, 0.02, Design::Fixed).unwrap();
        assert_eq!(result.verdict, expected, "{result:?}");
        assert_eq!(result.more_pairs().is_some(), expected == Verdict::Unsure);
        result
    };
    assert!((check(0.05, 0.002, Verdict::Higher).ratio.point - 0.05f64.exp()).abs() < 1e-12);
    check(-0.05, 0.002, Verdict::Lower);
    check(0.005, 0.001, Verdict::Same);
    check(0.0, 0.001, Verdict::Same);
    check(0.01, 0.02, Verdict::Unsure);
    let (coarse, fine) = (check(0.0, 0.03, Verdict::Unsure), check(0.0, 0.001, Verdict::Same));
    assert!(coarse.detectable().unwrap() > 20.0 * fine.detectable().unwrap());
    assert!(check(0.015, 0.004, Verdict::Higher).ratio.high > 1.02);
}

#[test]
fn runs_that_are_not_paired_are_compared_by_the_rank_sum_test() {
    let a: Vec<f64> = (0..8).map(|i| 0.001 * f64::from(i)).collect();
    let b: Vec<f64> = a.iter().map(|log| log + 0.05).collect();
    let result = compare_unpaired(&a, &b, 0.02).unwrap();
    assert_eq!((result.verdict, result.n_pairs), (Verdict::Higher, 8));
    assert!((result.ratio.point - 0.05f64.exp()).abs() < 1e-12);
    assert_eq!(compare_unpaired(&b, &a, 0.02).unwrap().verdict, Verdict::Lower);
    assert_eq!(compare_unpaired(&a, &a, 0.02).unwrap().verdict, Verdict::Same);
    assert!(compare_unpaired(&a[..4], &b[..4], 0.02).is_some());
    assert_eq!(compare_unpaired(&a[..3], &b[..3], 0.02), None);
}

#[test]
fn the_width_is_looked_at_seldom_and_only_from_six_pairs_on() {
    let precision = Precision { half_width: 0.01 };
    let reached: Vec<usize> = (0..40).filter(|n| precision.is_reached(&vec![0.001; *n])).collect();
    assert_eq!(reached, [6, 8, 11, 15, 20, 27, 36]);
    let wide: Vec<f64> = (0..6).map(|i| f64::from(i) * 0.1).collect();
    assert!(!precision.is_reached(&wide));
}
