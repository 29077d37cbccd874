//! Random numbers, bit for bit those of PostgreSQL (`src/common/pg_prng.c`) and pgbench 15 and later.
//!
//! Equality with pgbench is the point: the same seed must offer the same load from either program. Where a
//! formula looks odd (order of draws, `1 - u`), that order is what makes the streams equal. Logarithms, sines and
//! powers come from the platform's libm, as in pgbench. The generator itself and `permute` are in `generator`, whose
//! expressions permute as scripts do. Which stream serves which purpose is in `seeds`.

pub mod seeds;

pub use generator::random::{Prng, permute};

/// Smallest shape parameter of `random_gaussian`.
pub const GAUSSIAN_PARAMETER_MIN: f64 = 2.0;
/// Smallest shape parameter of `random_zipfian`.
pub const ZIPFIAN_PARAMETER_MIN: f64 = 1.001;
/// Largest shape parameter of `random_zipfian`.
pub const ZIPFIAN_PARAMETER_MAX: f64 = 1000.0;

/// Uniform in `lo..=hi`.
#[inline]
pub fn random(prng: &mut Prng, lo: i64, hi: i64) -> i64 {
    prng.int64_range(lo, hi)
}

/// Exponential over `lo..=hi`, cut where the density is `exp(-parameter)`; `parameter` must be above zero.
pub fn random_exponential(prng: &mut Prng, lo: i64, hi: i64, parameter: f64) -> i64 {
    let cut = (-parameter).exp();
    let uniform = 1.0 - prng.double();
    let unit = -(cut + (1.0 - cut) * uniform).ln() / parameter;
    stretch(lo, hi, unit)
}

/// Normal over `lo..=hi`, cut at `parameter` standard deviations on each side; at least [`GAUSSIAN_PARAMETER_MIN`].
pub fn random_gaussian(prng: &mut Prng, lo: i64, hi: i64, parameter: f64) -> i64 {
    let deviation = loop {
        let drawn = prng.double_normal();
        // Written so that a NaN parameter ends the loop, as pgbench's own condition does.
        if !(drawn < -parameter || drawn >= parameter) {
            break drawn;
        }
    };
    stretch(lo, hi, (deviation + parameter) / (parameter * 2.0))
}

/// Zipfian over `lo..=hi` with exponent `s` above 1, by Devroye's rejection
/// ("Non-Uniform Random Variate Generation", Springer 1986, page 550).
pub fn random_zipfian(prng: &mut Prng, lo: i64, hi: i64, s: f64) -> i64 {
    lo.wrapping_sub(1).wrapping_add(zipfian_rank(prng, hi.wrapping_sub(lo).wrapping_add(1), s))
}

fn zipfian_rank(prng: &mut Prng, n: i64, s: f64) -> i64 {
    if n <= 1 {
        return 1;
    }
    let b = 2f64.powf(s - 1.0);
    loop {
        let u = prng.double();
        let v = prng.double();
        let x = u.powf(-1.0 / (s - 1.0)).floor();
        let t = (1.0 + 1.0 / x).powf(s - 1.0);
        if v * x * (t - 1.0) / (b - 1.0) <= t / b && x <= n as f64 {
            return x as i64;
        }
    }
}

/// Maps `unit` in `[0, 1)` to `lo..=hi`.
fn stretch(lo: i64, hi: i64, unit: f64) -> i64 {
    let width = hi.wrapping_sub(lo).wrapping_add(1);
    lo.wrapping_add((width as f64 * unit) as i64)
}

/// The index of one of these weights, whose sum is `total` and above zero, by weight.
pub(crate) fn by_weight(prng: &mut Prng, weights: &[u32], total: i64) -> usize {
    let mut left = prng.int64_range(0, total - 1);
    for (index, weight) in weights.iter().enumerate() {
        left -= i64::from(*weight);
        if left < 0 {
            return index;
        }
    }
    unreachable!("the draw is below the sum of the weights");
}

/// Time to the next arrival of a Poisson process with mean gap `mean_ns`, rounded to whole nanoseconds.
pub fn poisson_gap_ns(prng: &mut Prng, mean_ns: f64) -> u64 {
    let uniform = 1.0 - prng.double();
    (-uniform.ln() * mean_ns + 0.5) as u64
}

/// FNV-1a over the eight bytes of `value`, lowest first.
pub fn hash_fnv1a(value: i64, seed: i64) -> i64 {
    const OFFSET_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    let start = OFFSET_BASIS ^ seed as u64;
    let hash =
        value.to_le_bytes().iter().fold(start, |hash, octet| (hash ^ u64::from(*octet)).wrapping_mul(PRIME));
    hash as i64
}

/// MurmurHash2 (64 bits) of the one word `value`.
pub fn hash_murmur2(value: i64, seed: i64) -> i64 {
    const MUL: u64 = 0xc6a4_a793_5bd1_e995;
    const ROT: u32 = 47;
    let mut word = (value as u64).wrapping_mul(MUL);
    word ^= word >> ROT;
    word = word.wrapping_mul(MUL);
    let mut hash = (seed as u64) ^ MUL.wrapping_mul(8);
    hash = (hash ^ word).wrapping_mul(MUL);
    hash = (hash ^ (hash >> ROT)).wrapping_mul(MUL);
    (hash ^ (hash >> ROT)) as i64
}
