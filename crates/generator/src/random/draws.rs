//! Splitmix64 as a counter: the draws of a cell, and the hashes made of the same finalizer.

/// The step between states: 2^64 divided by the golden ratio (Steele, Lea, Flood: "Fast Splittable Pseudorandom Number
/// Generators", OOPSLA 2014).
pub(crate) const PHI: u64 = 0x9E37_79B9_7F4A_7C15;
/// The step between lines of one parent: 2^64 divided by the root of `x^4 = x + 1` (M. Roberts' quasirandom sequence R3),
/// so that rows and lines never step alike.
pub(crate) const PSI: u64 = 0xD1B5_4A32_D192_ED03;

/// The finalizer of splitmix64: a bijection of 64 bits.
#[inline]
pub fn mix(word: u64) -> u64 {
    let word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    word ^ (word >> 31)
}

/// FNV-1a over bytes, 64 bits.
pub fn fnv1a64(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xCBF2_9CE4_8422_2325, |hash, octet| (hash ^ u64::from(*octet)).wrapping_mul(0x100_0000_01B3))
}

/// YCSB's `Utils.fnvhash64`: FNV-1a over the eight bytes of `value`, lowest first, without its sign.
#[inline]
pub fn ycsb_fnv64(value: i64) -> i64 {
    // Java's `Math.abs` leaves the least value negative; no input of interest has that hash, and a key is never negative.
    (fnv1a64(&value.to_le_bytes()) as i64).checked_abs().unwrap_or(0)
}

/// The hash of `second` under `first`, for `hash(a, b)`.
#[inline]
pub fn hash_pair(first: u64, second: u64) -> u64 {
    mix(mix(first).wrapping_add(second.wrapping_mul(PHI)))
}

/// The key of a column: its name, so that a new column changes no other.
pub fn column_key(seed: u64, table: &str, column: &str) -> u64 {
    mix(seed ^ fnv1a64(format!("{table}.{column}").as_bytes()))
}

/// Where the draws of a cell begin; `line` only in tables that have lines of a parent.
#[inline]
pub fn cell_state(key: u64, row: u64, line: Option<u64>) -> u64 {
    let place = key.wrapping_add(row.wrapping_mul(PHI));
    match line {
        None => mix(place),
        Some(line) => mix(place.wrapping_add((line + 1).wrapping_mul(PSI))),
    }
}

/// A sequence of draws: the i-th is `mix(state + i·φ)`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Draws {
    /// The state before the next draw.
    pub state: u64,
}

impl Draws {
    /// The next 64 bits.
    #[inline]
    pub fn next_bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(PHI);
        mix(self.state)
    }

    /// Uniform in `0..n` without bias; any 64 bits if `n` is 0 (Lemire: "Fast Random Integer Generation in an
    /// Interval", ACM TOMACS 29(1), 2019).
    #[inline]
    pub fn below(&mut self, n: u64) -> u64 {
        if n == 0 {
            return self.next_bits();
        }
        let mut product = u128::from(self.next_bits()) * u128::from(n);
        if (product as u64) < n {
            let threshold = n.wrapping_neg() % n;
            while (product as u64) < threshold {
                product = u128::from(self.next_bits()) * u128::from(n);
            }
        }
        (product >> 64) as u64
    }

    /// Uniform in `low..=high`; the caller has `low <= high`.
    #[inline]
    pub fn between(&mut self, low: i64, high: i64) -> i64 {
        let width = high.wrapping_sub(low) as u64;
        low.wrapping_add(self.below(width.wrapping_add(1)) as i64)
    }
}
