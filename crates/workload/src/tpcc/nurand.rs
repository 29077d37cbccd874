//! Non-uniform random numbers (clause 2.1.6).

use crate::random::Prng;

/// `A` for customers' last names.
const A_LAST: u64 = 255;
/// `A` for customer numbers.
const A_CUSTOMER: u64 = 1023;
/// `A` for item numbers.
const A_ITEM: u64 = 8191;
/// What the constants for last names at load and at run may differ by (clause 2.1.6.1).
const DELTA: std::ops::RangeInclusive<u32> = 65..=119;
/// Differences within [`DELTA`] that are forbidden (clause 2.1.6.1).
const DELTA_EXCLUDED: [u32; 2] = [96, 112];

/// The run-time constants `C`, one for each `A`; all terminals of a run have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Constants {
    /// Constant for last names, 0 to 255.
    pub c_last: u32,
    /// Constant for customer numbers, 0 to 1023.
    pub c_id: u32,
    /// Constant for item numbers, 0 to 8191.
    pub ol_i_id: u32,
}

impl Constants {
    /// The constants with which tables are filled; only the one for last names matters there.
    pub fn for_load(seed: u64) -> Constants {
        let mut prng = Prng::seed(seed ^ 0x006c_6f61_6400_c000);
        Constants {
            c_last: prng.uint64_range(0, A_LAST) as u32,
            c_id: prng.uint64_range(0, A_CUSTOMER) as u32,
            ol_i_id: prng.uint64_range(0, A_ITEM) as u32,
        }
    }

    /// The constants of a run on tables that were filled with `c_load` for last names: any that clause 2.1.6.1
    /// allows.
    pub fn for_run(seed: u64, c_load: u32) -> Constants {
        let mut prng = Prng::seed(seed ^ 0x0072_756e_0000_c000);
        let c_id = prng.uint64_range(0, A_CUSTOMER) as u32;
        let ol_i_id = prng.uint64_range(0, A_ITEM) as u32;
        // Of 256 numbers, at least 53 fit any `c_load`.
        let c_last = loop {
            let drawn = prng.uint64_range(0, A_LAST) as u32;
            if fits(drawn, c_load) {
                break drawn;
            }
        };
        Constants { c_last, c_id, ol_i_id }
    }

    /// A number for a last name, 0 to 999 (clause 4.3.2.3).
    #[inline]
    pub fn last_name(&self, prng: &mut Prng) -> u32 {
        nurand(prng, A_LAST, self.c_last, 0, 999)
    }

    /// A customer number of a district, 1 to 3000.
    #[inline]
    pub fn customer(&self, prng: &mut Prng) -> u32 {
        nurand(prng, A_CUSTOMER, self.c_id, 1, 3000)
    }

    /// An item number, 1 to 100,000.
    #[inline]
    pub fn item(&self, prng: &mut Prng) -> u32 {
        nurand(prng, A_ITEM, self.ol_i_id, 1, 100_000)
    }
}

/// Whether two constants for last names may be used for load and run.
pub(crate) fn fits(run: u32, load: u32) -> bool {
    let delta = run.abs_diff(load);
    DELTA.contains(&delta) && !DELTA_EXCLUDED.contains(&delta)
}

/// `(((random(0, A) | random(x, y)) + C) % (y - x + 1)) + x`
#[inline]
fn nurand(prng: &mut Prng, a: u64, c: u32, x: u64, y: u64) -> u32 {
    let mixed = prng.uint64_range(0, a) | prng.uint64_range(x, y);
    ((mixed + u64::from(c)) % (y - x + 1) + x) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_constant_of_a_run_fits_every_constant_of_a_load() {
        for load in 0..=255 {
            for seed in 0..20 {
                let run = Constants::for_run(seed, load);
                let delta = run.c_last.abs_diff(load);
                assert!((65..=119).contains(&delta) && delta != 96 && delta != 112, "{load}: {run:?}");
                assert!(run.c_last <= 255 && run.c_id <= 1023 && run.ol_i_id <= 8191, "{run:?}");
            }
        }
    }

    #[test]
    fn numbers_stay_in_their_ranges_and_are_not_uniform() {
        let constants = Constants::for_load(7);
        let mut prng = Prng::seed(1);
        let mut by_item = vec![0u32; 100_001];
        for _ in 0..200_000 {
            assert!(constants.last_name(&mut prng) <= 999);
            assert!((1..=3000).contains(&constants.customer(&mut prng)));
            by_item[constants.item(&mut prng) as usize] += 1;
        }
        assert_eq!(by_item[0], 0);
        by_item.sort_unstable_by(|a, b| b.cmp(a));
        // Uniform choice would give the most frequent tenth of items about 19 %.
        let top: u32 = by_item[..10_000].iter().sum();
        assert!(top > 80_000, "{top} of 200000");
    }
}
