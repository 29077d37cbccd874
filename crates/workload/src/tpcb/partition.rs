//! The partitions of `pgbench_accounts` and the rows of each, so that several loaders can fill them.

use std::ops::Range;

use super::schema::BIGINT_SCALE;
use super::{ACCOUNTS_PER_SCALE, Partitioning, TpcbTable, row_count};
use crate::objects::hash_partition::Remainder;

/// One partition of accounts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    /// Name of the partition.
    pub name: String,
    /// The range that contains its rows, counted from 0.
    pub ids: Range<u64>,
    /// Which rows of the range are its own; all, if `None`.
    pub(super) only: Option<Remainder>,
    /// Number of its rows: exact by range, approximate by hash.
    pub n_rows: u64,
}

/// All partitions of accounts, in order.
pub fn partitions(scale: u32, partitioning: Partitioning) -> Vec<Partition> {
    let n = partitioning.n_partitions();
    let n_accounts = row_count(TpcbTable::Accounts, scale);
    let size = ids_per_range(scale, n);
    let partition = |p: u32| {
        let (ids, only, n_rows) = match partitioning {
            Partitioning::Range(_) => {
                let begin = (u64::from(p - 1) * size).min(n_accounts);
                let end = (u64::from(p) * size).min(n_accounts);
                (begin..end, None, end - begin)
            }
            Partitioning::Hash(_) => {
                let is_bigint = scale >= BIGINT_SCALE;
                (0..n_accounts, Some(Remainder::new(n, p - 1, is_bigint)), n_accounts / u64::from(n))
            }
        };
        Partition { name: format!("{}_{p}", TpcbTable::Accounts.name()), ids, only, n_rows }
    };
    (1..=n).map(partition).collect()
}

/// Account ids in each range except the last, which has the rest.
pub(super) fn ids_per_range(scale: u32, n_partitions: u32) -> u64 {
    (ACCOUNTS_PER_SCALE * u64::from(scale)).div_ceil(u64::from(n_partitions.max(1)))
}
