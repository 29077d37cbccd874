//! Random numbers that are the same on every platform, in every order and on every thread.
//!
//! A cell of a table has its own [`Draws`], which follow from seed, table, column and row alone; a client has one for
//! its parameters. Everything here is part of a directory's `format`: a change of one bit needs a new format.
//! Logarithms, powers and sines are `libm`'s, because a platform's own differ in the last bit.

mod distribution;
mod draws;
mod pgbench;
mod zipf;

#[cfg(test)]
mod tests;

pub use distribution::{LONGEST_TRIES, Normal, exponential, normal, normal_pair, special, unit};
pub use draws::{Draws, cell_state, column_key, fnv1a64, hash_pair, mix, ycsb_fnv64};
pub use pgbench::{Permutation, Prng, permute};
pub use zipf::{YcsbZipf, Zipf};
