//! Random numbers, bit for bit those of PostgreSQL (`src/common/pg_prng.c`) and pgbench 15 and later.
//!
//! Equality with pgbench is the point: the same seed must offer the same load from either program. Where a
//! formula looks odd (order of draws, `1 - u`), that order is what makes the streams equal. Logarithms, sines and
//! powers come from the platform's libm, as in pgbench. Which stream serves which purpose is in `seeds`.

pub mod seeds;

/// Smallest shape parameter of `random_gaussian`.
pub const GAUSSIAN_PARAMETER_MIN: f64 = 2.0;
/// Smallest shape parameter of `random_zipfian`.
pub const ZIPFIAN_PARAMETER_MIN: f64 = 1.001;
/// Largest shape parameter of `random_zipfian`.
pub const ZIPFIAN_PARAMETER_MAX: f64 = 1000.0;

/// A xoroshiro128** generator (Blackman and Vigna, <https://prng.di.unimi.it/>).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prng {
    s0: u64,
    s1: u64,
}

impl Prng {
    /// A generator whose state is filled from `seed` by splitmix64.
    pub fn seed(seed: u64) -> Prng {
        let mut state = seed;
        let s0 = splitmix64(&mut state);
        let s1 = splitmix64(&mut state);
        if s0 == 0 && s1 == 0 {
            // All zeroes is a fixed point; PostgreSQL escapes with Knuth's LCG parameters.
            return Prng { s0: 0x5851_F42D_4C95_7F2D, s1: 0x1405_7B7E_F767_814F };
        }
        Prng { s0, s1 }
    }

    /// The next 64 uniform bits.
    #[inline]
    pub fn uint64(&mut self) -> u64 {
        let s0 = self.s0;
        let sx = self.s1 ^ s0;
        let drawn = s0.wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        self.s0 = s0.rotate_left(24) ^ sx ^ (sx << 16);
        self.s1 = sx.rotate_left(37);
        drawn
    }

    /// Uniform in `lo..=hi` by mask and rejection; `lo` when the range is empty (and then draws nothing).
    #[inline]
    pub fn uint64_range(&mut self, lo: u64, hi: u64) -> u64 {
        if hi <= lo {
            return lo;
        }
        let range = hi - lo;
        let shift = range.leading_zeros();
        loop {
            let offset = self.uint64() >> shift;
            if offset <= range {
                return lo + offset;
            }
        }
    }

    /// Uniform in `lo..=hi`, as pgbench's `random(lo, hi)`. `hi - lo` must fit an `i64`; the caller checks.
    #[inline]
    pub fn int64_range(&mut self, lo: i64, hi: i64) -> i64 {
        lo.wrapping_add(self.uint64_range(0, hi.wrapping_sub(lo) as u64) as i64)
    }

    /// Uniform in `[0, 1)` with 52 bits.
    #[inline]
    pub fn double(&mut self) -> f64 {
        const SCALE: f64 = 1.0 / (1u64 << 52) as f64;
        (self.uint64() >> 12) as f64 * SCALE
    }

    /// Standard normal by the basic Box-Muller transform (the sine half only).
    pub fn double_normal(&mut self) -> f64 {
        let u1 = 1.0 - self.double();
        let u2 = 1.0 - self.double();
        (-2.0 * u1.ln()).sqrt() * (2.0 * std::f64::consts::PI * u2).sin()
    }

    /// A new generator seeded from this one, as pgbench derives each of its streams.
    pub fn derive(&mut self) -> Prng {
        Prng::seed(self.uint64())
    }
}

fn splitmix64(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

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

/// A pseudorandom permutation of `0..size`: where `value` (taken modulo `size`) goes.
///
/// Six rounds; each scrambles the lower and then the upper overlapping power-of-two half, then shifts all by a
/// random offset. Not cryptographic.
pub fn permute(value: i64, size: i64, seed: i64) -> i64 {
    if size < 2 {
        return 0;
    }
    let mut prng = Prng::seed(seed as u64);
    let size = size as u64;
    let bits = 63 - size.leading_zeros();
    let mask = (1u64 << bits) - 1;
    let mut position = value as u64 % size;
    for _ in 0..6 {
        let (multiplier, flips) = scramble_key(&mut prng, mask);
        if position <= mask {
            position = scramble(position, multiplier, flips, mask, bits);
        }
        let (multiplier, flips) = scramble_key(&mut prng, mask);
        let mirrored = size - 1 - position;
        if mirrored <= mask {
            position = size - 1 - scramble(mirrored, multiplier, flips, mask, bits);
        }
        let offset = prng.uint64_range(0, size - 1);
        // Both are below 2^63, so the sum cannot overflow.
        position = (position + offset) % size;
    }
    position as i64
}

fn scramble_key(prng: &mut Prng, mask: u64) -> (u64, u64) {
    let multiplier = (prng.uint64() & mask) | 1;
    let flips = prng.uint64() & mask;
    (multiplier, flips)
}

/// Odd multiply, xor, rotate by one within `bits` bits: a bijection of `0..=mask`.
fn scramble(position: u64, multiplier: u64, flips: u64, mask: u64, bits: u32) -> u64 {
    let mixed = (position.wrapping_mul(multiplier) ^ flips) & mask;
    ((mixed << 1) & mask) | (mixed >> (bits - 1))
}
