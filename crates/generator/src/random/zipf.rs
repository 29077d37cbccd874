//! Zipf's distribution: exact for every size and exponent, and YCSB's.

use super::distribution::{LONGEST_TRIES, unit};
use super::draws::{Draws, ycsb_fnv64};

/// Ranks `0..n` with P(k) ∝ 1/(k+1)^s, by rejection-inversion (Hörmann, Derflinger: "Rejection-inversion to generate
/// variates from monotone discrete distributions", ACM TOMACS 6(3), 1996): no table, constant time.
#[derive(Clone, Copy, Debug)]
pub struct Zipf {
    n: u64,
    exponent: f64,
    integral_of_first: f64,
    integral_of_last: f64,
    /// A rank whose continuous draw is no further above it than this is accepted at once.
    squeeze: f64,
}

impl Zipf {
    /// Largest number of ranks: above, a float no longer holds each rank.
    pub const N_MAX: u64 = 1 << 53;

    /// The distribution over `n` ranks, from 1 to [`Zipf::N_MAX`], with an exponent in (0, 1000].
    pub fn new(n: u64, exponent: f64) -> Zipf {
        let n = n.clamp(1, Zipf::N_MAX);
        let mut zipf = Zipf { n, exponent, integral_of_first: 0.0, integral_of_last: 0.0, squeeze: 0.0 };
        zipf.integral_of_first = zipf.integral(1.5) - 1.0;
        zipf.integral_of_last = zipf.integral(n as f64 + 0.5);
        zipf.squeeze = 2.0 - zipf.inverse_of_integral(zipf.integral(2.5) - zipf.density(2.0));
        zipf
    }

    /// Whether this is the distribution over `n` ranks with this exponent.
    pub fn is_of(&self, n: u64, exponent: f64) -> bool {
        self.n == n.clamp(1, Zipf::N_MAX) && self.exponent == exponent
    }

    /// A rank from 0.
    #[inline]
    pub fn draw(&self, draws: &mut Draws) -> u64 {
        if self.n == 1 {
            return 0;
        }
        for _ in 0..LONGEST_TRIES {
            let u = self.integral_of_last + unit(draws) * (self.integral_of_first - self.integral_of_last);
            let x = self.inverse_of_integral(u);
            let rank = ((x + 0.5) as u64).min(self.n).max(1);
            let k = rank as f64;
            if k - x <= self.squeeze || u >= self.integral(k + 0.5) - self.density(k) {
                return rank - 1;
            }
        }
        // Each try is accepted with a probability above a half, so this is never reached; a loop has a bound all the same.
        0
    }

    fn density(&self, x: f64) -> f64 {
        libm::exp(-self.exponent * libm::log(x))
    }

    /// An integral of the density: `(x^(1-s) - 1)/(1-s)`, written so that `s` near 1 loses no digits.
    fn integral(&self, x: f64) -> f64 {
        let log_x = libm::log(x);
        exp_minus_one_by(log_x * (1.0 - self.exponent)) * log_x
    }

    fn inverse_of_integral(&self, y: f64) -> f64 {
        // Rounding can leave the domain of the logarithm by a hair.
        let t = (y * (1.0 - self.exponent)).max(-1.0);
        libm::exp(log_one_plus_by(t) * y)
    }
}

/// `(e^t - 1)/t`, with its series where both vanish.
fn exp_minus_one_by(t: f64) -> f64 {
    if t.abs() > 1e-8 { libm::expm1(t) / t } else { 1.0 + t * 0.5 * (1.0 + t / 3.0 * (1.0 + 0.25 * t)) }
}

/// `ln(1 + t)/t`, with its series where both vanish.
fn log_one_plus_by(t: f64) -> f64 {
    if t.abs() > 1e-8 { libm::log1p(t) / t } else { 1.0 - t * (0.5 - t * (1.0 / 3.0 - 0.25 * t)) }
}

/// YCSB's scrambled Zipf: Gray's approximation (SIGMOD 1994) over 10^16 items, hashed to `0..n`.
///
/// The constants are those of YCSB's `ScrambledZipfianGenerator`; its `ZETAN` is that of 10^10 items, which is part of
/// what the distribution is.
#[derive(Clone, Copy, Debug)]
pub struct YcsbZipf {
    alpha: f64,
    eta: f64,
    second: f64,
}

impl YcsbZipf {
    const THETA: f64 = 0.99;
    const ZETAN: f64 = 26.469_028_201_783_02;
    const N_ITEMS: u64 = 10_000_000_000_000_001;

    /// The distribution, with its constants computed.
    pub fn new() -> YcsbZipf {
        let second = 1.0 + libm::pow(0.5, Self::THETA);
        let zeta_of_two = 1.0 + 1.0 / libm::pow(2.0, Self::THETA);
        let eta = (1.0 - libm::pow(2.0 / Self::N_ITEMS as f64, 1.0 - Self::THETA))
            / (1.0 - zeta_of_two / Self::ZETAN);
        YcsbZipf { alpha: 1.0 / (1.0 - Self::THETA), eta, second }
    }

    /// An item, before it is hashed.
    pub fn item(&self, draws: &mut Draws) -> i64 {
        let u = unit(draws);
        let scaled = u * Self::ZETAN;
        if scaled < 1.0 {
            0
        } else if scaled < self.second {
            1
        } else {
            (Self::N_ITEMS as f64 * libm::pow(self.eta * u - self.eta + 1.0, self.alpha)) as i64
        }
    }

    /// A record in `0..n`.
    pub fn draw(&self, draws: &mut Draws, n: i64) -> i64 {
        ycsb_fnv64(self.item(draws)) % n.max(1)
    }
}

impl Default for YcsbZipf {
    fn default() -> YcsbZipf {
        YcsbZipf::new()
    }
}
