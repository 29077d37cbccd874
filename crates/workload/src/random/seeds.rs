//! From one seed to every stream of a run, in pgbench's order.
//!
//! The order of draws from the base sequence is part of compatibility: one per client for its script, then the
//! default seed of the hash functions, then per thread the choice of script, the schedule, and log sampling.

use crate::random::Prng;

/// The streams of one driver thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadStreams {
    /// Which script runs next.
    pub choose: Prng,
    /// Gaps of the Poisson schedule.
    pub throttle: Prng,
    /// Which transactions a sampled log keeps.
    pub sample: Prng,
}

/// Every stream of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seeds {
    /// One stream per client, for its script's random functions.
    pub client: Vec<Prng>,
    /// Seed of `hash` and `permute` calls that name none; the variable `default_seed`, printed as a signed integer.
    pub default_seed: u64,
    /// One set per thread.
    pub thread: Vec<ThreadStreams>,
}

impl Seeds {
    /// All streams of a run with `n_clients` over `n_threads`.
    pub fn derive(seed: u64, n_clients: usize, n_threads: usize) -> Seeds {
        Seeds::derive_with(seed, n_clients, n_threads, None)
    }

    /// As [`Seeds::derive`], but with `default_seed` given by the user (`-D default_seed=N`): pgbench then does not
    /// draw one, which shifts the streams of the threads.
    pub fn derive_with(seed: u64, n_clients: usize, n_threads: usize, default_seed: Option<u64>) -> Seeds {
        let mut base = Prng::seed(seed);
        let client = (0..n_clients).map(|_| base.derive()).collect();
        let default_seed = default_seed.unwrap_or_else(|| base.uint64());
        let thread = (0..n_threads)
            .map(|_| ThreadStreams { choose: base.derive(), throttle: base.derive(), sample: base.derive() })
            .collect();
        Seeds { client, default_seed, thread }
    }
}
