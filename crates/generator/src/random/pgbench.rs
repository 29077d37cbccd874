//! PostgreSQL's generator (`src/common/pg_prng.c`) and pgbench's `permute`, bit for bit.

/// A xoroshiro128** generator (Blackman and Vigna, <https://prng.di.unimi.it/>).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prng {
    s0: u64,
    s1: u64,
}

impl Prng {
    /// A generator whose state is filled from `seed` by splitmix64.
    pub fn seed(seed: u64) -> Prng {
        let mut state = super::Draws { state: seed };
        let s0 = state.next_bits();
        let s1 = state.next_bits();
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

    /// Standard normal by the basic Box-Muller transform (the sine half only), with the platform's functions, as in pgbench.
    #[inline]
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

/// A pseudorandom permutation of `0..size`: where `value` (taken modulo `size`) goes, as pgbench's `permute`.
pub fn permute(value: i64, size: i64, seed: i64) -> i64 {
    Permutation::new(size, seed).apply(value)
}

/// The keys of one of the six rounds.
#[derive(Clone, Copy, Debug, Default)]
struct Round {
    lower_multiplier: u64,
    lower_flips: u64,
    upper_multiplier: u64,
    upper_flips: u64,
    offset: u64,
}

/// pgbench's `permute` with the keys of its rounds computed once.
///
/// Six rounds; each scrambles the lower and then the upper overlapping power-of-two half, then shifts all by a
/// random offset. Not cryptographic.
#[derive(Clone, Copy, Debug)]
pub struct Permutation {
    size: u64,
    bits: u32,
    mask: u64,
    rounds: [Round; 6],
}

impl Permutation {
    /// The permutation of `0..size` that `seed` chooses; of a size below 2, the one that has only 0.
    pub fn new(size: i64, seed: i64) -> Permutation {
        if size < 2 {
            return Permutation { size: 0, bits: 0, mask: 0, rounds: [Round::default(); 6] };
        }
        let mut prng = Prng::seed(seed as u64);
        let size = size as u64;
        let bits = 63 - size.leading_zeros();
        let mask = (1u64 << bits) - 1;
        let rounds = std::array::from_fn(|_| {
            let (lower_multiplier, lower_flips) = scramble_key(&mut prng, mask);
            let (upper_multiplier, upper_flips) = scramble_key(&mut prng, mask);
            let offset = prng.uint64_range(0, size - 1);
            Round { lower_multiplier, lower_flips, upper_multiplier, upper_flips, offset }
        });
        Permutation { size, bits, mask, rounds }
    }

    /// Where `value` goes.
    #[inline]
    pub fn apply(&self, value: i64) -> i64 {
        if self.size < 2 {
            return 0;
        }
        let mut position = value as u64 % self.size;
        for round in &self.rounds {
            if position <= self.mask {
                position = self.scramble(position, round.lower_multiplier, round.lower_flips);
            }
            let mirrored = self.size - 1 - position;
            if mirrored <= self.mask {
                position = self.size - 1 - self.scramble(mirrored, round.upper_multiplier, round.upper_flips);
            }
            // Both are below 2^63, so the sum cannot overflow.
            position = (position + round.offset) % self.size;
        }
        position as i64
    }

    /// Odd multiply, xor, rotate by one within `bits` bits: a bijection of `0..=mask`.
    fn scramble(&self, position: u64, multiplier: u64, flips: u64) -> u64 {
        let mixed = (position.wrapping_mul(multiplier) ^ flips) & self.mask;
        ((mixed << 1) & self.mask) | (mixed >> (self.bits - 1))
    }
}

fn scramble_key(prng: &mut Prng, mask: u64) -> (u64, u64) {
    let multiplier = (prng.uint64() & mask) | 1;
    let flips = prng.uint64() & mask;
    (multiplier, flips)
}
