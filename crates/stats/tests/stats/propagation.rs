//! Sums of errors, against sums of which the distribution is known and against simulation.

use stats::random::Random;
use stats::{
    Design, Estimate, RepetitionError, RepetitionSpread, Verdict, compare_pairs, student_t_quantile,
};

const NONE: RepetitionError = RepetitionError { scale: 0.0, df: 2.0 };

fn sum_interval(error: RepetitionError, bounds: &[[f64; 2]], level: f64) -> Option<Estimate> {
    RepetitionSpread::new(error)?.sum_interval(bounds, level)
}

#[test]
fn a_single_error_keeps_its_own_interval() {
    let check = |spread, bounds: &[[f64; 2]], expected: [f64; 2]| {
        let sum = sum_interval(spread, bounds, 0.95).unwrap();
        let tolerance = 0.01 * (expected[1] - expected[0]);
        assert!((sum.low - expected[0]).abs() < tolerance, "{bounds:?}: {sum:?}, not {expected:?}");
        assert!((sum.high - expected[1]).abs() < tolerance, "{bounds:?}: {sum:?}, not {expected:?}");
    };
    check(NONE, &[[0.0, 0.1]], [0.0025, 0.0975]);
    check(NONE, &[[-0.3, 0.1]], [-0.29, 0.09]);
    for df in [2.0, 4.0, 30.0] {
        let t = 0.02 * student_t_quantile(0.975, df).unwrap();
        check(RepetitionError { scale: 0.02, df }, &[], [-t, t]);
        check(RepetitionError { scale: 0.02, df }, &[[0.05, 0.05]], [0.05 - t, 0.05 + t]);
    }
    // Two uniform errors of one width have a triangular sum: a 40th lies below the root of a twentieth of its half.
    let edge = 0.1 * 0.05_f64.sqrt();
    check(NONE, &[[0.0, 0.1], [0.0, 0.1]], [edge, 0.2 - edge]);
}

#[test]
fn no_error_has_an_interval_of_no_length() {
    let sum = sum_interval(NONE, &[], 0.95).unwrap();
    assert!(sum.low.abs() < 1e-8 && sum.high.abs() < 1e-8, "{sum:?}");
}

#[test]
fn the_interval_of_a_sum_holds_as_much_as_it_says() {
    let (scale, bounds) = (0.01, [[0.0, 0.04], [-0.02, 0.03], [0.0, 0.01]]);
    let sum = sum_interval(RepetitionError { scale, df: 1e6 }, &bounds, 0.95).unwrap();
    let mut random = Random::new(1);
    let n = 100_000;
    let mut beyond = [0, 0];
    for _ in 0..n {
        let uniform = bounds.iter().map(|[low, high]| low + (high - low) * random.uniform());
        let uniform = uniform.fold(0.0, |sum, error| sum + error);
        let error = uniform + scale * random.normal();
        beyond[0] += u32::from(error < sum.low);
        beyond[1] += u32::from(error > sum.high);
    }
    for n_beyond in beyond {
        let share = f64::from(n_beyond) / f64::from(n);
        assert!((share - 0.025).abs() < 0.002, "{share} of the sums lie beyond an end of {sum:?}");
    }
}

#[test]
fn bounds_out_of_order_and_unknown_scales_have_no_interval() {
    assert_eq!(sum_interval(NONE, &[[0.1, 0.0]], 0.95), None);
    assert_eq!(sum_interval(NONE, &[[0.0, f64::INFINITY]], 0.95), None);
    assert_eq!(sum_interval(RepetitionError { scale: f64::NAN, df: 2.0 }, &[], 0.95), None);
    assert_eq!(sum_interval(NONE, &[[0.0, 0.1]], 1.0), None);
}

#[test]
fn errors_that_pairs_do_not_show_widen_the_interval_of_a_ratio_on_their_side() {
    // B measured a fifth less; what disturbed it cost up to a quarter.
    let logs: Vec<f64> = (0..10).map(|n| (0.8f64).ln() + 0.002 * f64::from(n % 5 - 2)).collect();
    let measured = compare_pairs(&logs, 0.02, Design::Fixed).unwrap();
    assert_eq!(measured.verdict, Verdict::Lower);
    let close = |a: f64, b: f64| assert!((a / b - 1.0).abs() < 1e-3, "{a} {b}");
    let same = measured.with_errors(&[]).unwrap();
    close(same.ratio.low, measured.ratio.low);
    close(same.ratio.high, measured.ratio.high);
    let found = measured.with_errors(&[[0.0, (1.3f64).ln()]]).unwrap();
    assert_eq!((found.ratio.point, found.verdict), (measured.ratio.point, Verdict::Unsure));
    assert!(
        found.ratio.low <= measured.ratio.point && found.ratio.low > measured.ratio.low - 0.01,
        "{found:?}"
    );
    close(found.ratio.high, 0.8 * ((1.3f64).ln() * 0.975).exp());
    let less = measured.with_errors(&[[0.0, (1.1f64).ln()]]).unwrap();
    assert_eq!(less.verdict, Verdict::Lower, "{less:?}");
    assert_eq!(measured.with_errors(&[[0.0, f64::INFINITY]]), None);
}
