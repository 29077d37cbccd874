//! Distribution functions of the normal, Student's t, chi-squared and binomial distributions, and inverses.

pub mod propagation;

use std::cmp::Ordering;
use std::f64::consts::PI;

/// The quantile `p` of the standard normal distribution; `None` unless `0 < p < 1`.
pub fn normal_quantile(p: f64) -> Option<f64> {
    if !(p > 0.0 && p < 1.0) {
        return None;
    }
    let tail = 2.0 * p.min(1.0 - p);
    let z = where_reached(0.0, 40.0, |z| normal_two_sided_p(z) <= tail);
    Some(if p < 0.5 { -z } else { z })
}

/// Chance that a standard normal value is at most `z`.
pub fn normal_cdf(z: f64) -> f64 {
    let tail = 0.5 * normal_two_sided_p(z);
    if z > 0.0 { 1.0 - tail } else { tail }
}

/// Chance that a standard normal value is at least as far from zero as `z`.
///
/// `erfc(|z| / sqrt 2)`, by the series DLMF 7.6.2 near zero and the continued fraction DLMF 7.9.3
/// beyond (evaluated backwards).
pub fn normal_two_sided_p(z: f64) -> f64 {
    let x = z.abs() / 2f64.sqrt();
    if x < 2.5 {
        let mut term = x;
        let mut sum = x;
        for n in 1..120 {
            term *= 2.0 * x * x / (2 * n + 1) as f64;
            sum += term;
            if term < 1e-17 * sum {
                break;
            }
        }
        return (1.0 - 2.0 / PI.sqrt() * (-x * x).exp() * sum).max(0.0);
    }
    let mut fraction = x;
    for n in (1..=60).rev() {
        fraction = x + n as f64 / 2.0 / fraction;
    }
    (-x * x).exp() / PI.sqrt() / fraction
}

/// Chance that a value of Student's t distribution with `df` degrees of freedom is at most `t`.
///
/// By the regularised incomplete beta function (DLMF 8.17; Abramowitz and Stegun 26.7.1). `None`
/// unless `df` is above zero and `t` a number.
pub fn student_t_cdf(t: f64, df: f64) -> Option<f64> {
    if df.is_nan() || df <= 0.0 || t.is_nan() {
        return None;
    }
    if t.is_infinite() {
        return Some(if t > 0.0 { 1.0 } else { 0.0 });
    }
    let tail = 0.5 * incomplete_beta(df / 2.0, 0.5, df / (df + t * t));
    Some(if t > 0.0 { 1.0 - tail } else { tail })
}

/// The quantile `p` of Student's t distribution with `df` degrees of freedom.
///
/// Bisection of [`student_t_cdf`] to the last bit that matters; `None` unless `0 < p < 1` and
/// `df >= 1`.
pub fn student_t_quantile(p: f64, df: f64) -> Option<f64> {
    if !(p > 0.0 && p < 1.0) || df.is_nan() || df < 1.0 {
        return None;
    }
    if p < 0.5 {
        return student_t_quantile(1.0 - p, df).map(|t| -t);
    }
    let mut high = 1.0;
    while student_t_cdf(high, df)? < p && high < 1e300 {
        high *= 2.0;
    }
    Some(where_reached(0.0, high, |t| student_t_cdf(t, df).is_none_or(|chance| chance >= p)))
}

/// The quantile `p` of the chi-squared distribution with `df` degrees of freedom; `None` unless
/// `0 < p < 1` and `df > 0`.
pub fn chi_squared_quantile(p: f64, df: f64) -> Option<f64> {
    if !(p > 0.0 && p < 1.0) || df.is_nan() || df <= 0.0 {
        return None;
    }
    let chance = |x: f64| incomplete_gamma(df / 2.0, x / 2.0);
    let mut high = df.max(1.0);
    while chance(high) < p && high < 1e300 {
        high *= 2.0;
    }
    Some(where_reached(0.0, high, |x| chance(x) >= p))
}

/// Chance of at most `k` hits in `n` tries that hit with chance `q`: DLMF 8.17.5.
pub fn binomial_cdf(k: u64, n: u64, q: f64) -> f64 {
    if k >= n { 1.0 } else { incomplete_beta((n - k) as f64, k as f64 + 1.0, 1.0 - q) }
}

/// At most this is the chance that the hits among `n` tries, each with chance `q`, are at least `deviation` away from `n q`: Bernstein's
/// inequality for both sides (Boucheron, Lugosi and Massart 2013, 2.10), which holds for every `n` and `q`.
pub fn binomial_deviation_p_max(n: u64, q: f64, deviation: f64) -> f64 {
    if deviation <= 0.0 {
        return 1.0;
    }
    let variance = n as f64 * q * (1.0 - q);
    (2.0 * (-0.5 * deviation * deviation / (variance + deviation / 3.0)).exp()).min(1.0)
}

/// The smallest value between `low` and `high` at which `reached` holds, by bisection to the last bit that matters.
/// `reached` must hold for every larger value too.
pub(crate) fn where_reached(low: f64, high: f64, reached: impl Fn(f64) -> bool) -> f64 {
    let (mut low, mut high) = (low, high);
    for _ in 0..200 {
        let middle = 0.5 * (low + high);
        if middle <= low || middle >= high {
            break;
        }
        if reached(middle) {
            high = middle;
        } else {
            low = middle;
        }
    }
    0.5 * (low + high)
}

/// The value between `low` and `high` at which an increasing function passes zero, to 1e-13 of `high`: false position as in the
/// Illinois algorithm (Dowell and Jarratt 1971), which takes a sixth of the evaluations of a bisection. An end if it is zero nowhere.
pub(crate) fn where_crossed(low: f64, high: f64, function: impl Fn(f64) -> f64) -> f64 {
    let (mut low, mut high) = ((low, function(low)), (high, function(high)));
    if low.1 >= 0.0 {
        return low.0;
    }
    if high.1 <= 0.0 {
        return high.0;
    }
    let enough = 1e-13 * high.0.abs();
    let (mut middle, mut side) = (high.0, Ordering::Equal);
    for _ in 0..200 {
        let before = middle;
        middle = (low.0 * high.1 - high.0 * low.1) / (high.1 - low.1);
        let value = function(middle);
        if value == 0.0 || (middle - before).abs() <= enough {
            break;
        }
        let moved = value.total_cmp(&0.0);
        // An end that stays twice gets half of its weight, so that it moves, too.
        let weight = if moved == side { 0.5 } else { 1.0 };
        side = moved;
        if value < 0.0 {
            low = (middle, value);
            high.1 *= weight;
        } else {
            high = (middle, value);
            low.1 *= weight;
        }
    }
    middle
}

/// The regularised lower incomplete gamma function `P(a, x)`: the series DLMF 8.7.1 up to `a + 1`, beyond it the
/// continued fraction DLMF 8.9.2, evaluated backwards.
fn incomplete_gamma(a: f64, x: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    let front = (a * x.ln() - x - ln_gamma(a)).exp();
    if x < a + 1.0 {
        let (mut term, mut sum, mut n) = (1.0 / a, 1.0 / a, a);
        while term > sum * 1e-17 {
            n += 1.0;
            term *= x / n;
            sum += term;
        }
        return front * sum;
    }
    let mut fraction = 0.0;
    for k in (1..=1000).rev() {
        let k = f64::from(k);
        fraction = k * (k - a) / (x + 2.0 * k + 1.0 - a - fraction);
    }
    1.0 - front / (x + 1.0 - a - fraction)
}

/// The regularised incomplete beta function `I_x(a, b)`: DLMF 8.17.22 with 8.17.4 to stay where the
/// continued fraction converges fast.
fn incomplete_beta(a: f64, b: f64, x: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if x >= 1.0 {
        return 1.0;
    }
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - incomplete_beta(b, a, 1.0 - x);
    }
    let front = (ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b) + a * x.ln() + b * (-x).ln_1p()).exp();
    front / a * beta_fraction(a, b, x)
}

/// The continued fraction of DLMF 8.17.22, by the modified Lentz algorithm (Thompson and Barnett, 1986).
fn beta_fraction(a: f64, b: f64, x: f64) -> f64 {
    const TINY: f64 = 1e-300;
    let away_from_zero = |v: f64| if v.abs() < TINY { TINY } else { v };
    let mut c = 1.0;
    let mut d = 1.0 / away_from_zero(1.0 - (a + b) * x / (a + 1.0));
    let mut value = d;
    for m in 1..=500 {
        let m = f64::from(m);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        for step in [even, odd] {
            d = 1.0 / away_from_zero(1.0 + step * d);
            c = away_from_zero(1.0 + step / c);
            value *= d * c;
        }
        if (d * c - 1.0).abs() < 1e-15 {
            break;
        }
    }
    value
}

/// Logarithm of the gamma function for `x > 0`, by Stirling's series (DLMF 5.11.1) after shifting
/// the argument above 10 with the recurrence.
pub(crate) fn ln_gamma(x: f64) -> f64 {
    let mut x = x;
    let mut shift = 0.0;
    while x < 10.0 {
        shift -= x.ln();
        x += 1.0;
    }
    let y = 1.0 / (x * x);
    let series = (1.0 / 12.0 - y * (1.0 / 360.0 - y * (1.0 / 1260.0 - y * (1.0 / 1680.0 - y / 1188.0)))) / x;
    shift + (x - 0.5) * x.ln() - x + 0.5 * (2.0 * PI).ln() + series
}
