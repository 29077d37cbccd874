//! Two samples: how far they differ, and whether that is more than noise.

pub mod benjamini_hochberg;
pub mod covariate;
pub mod equivalence;
pub mod holm;
pub mod levels;
pub mod rank_sum;
pub(crate) mod ranks;
pub mod signed_rank;
pub mod verdict;
