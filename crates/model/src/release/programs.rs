//! Programs of PostgreSQL and their options, without pgbench.

use super::{Feature, since};

/// `vacuumdb --jobs` (9.5).
pub const VACUUMDB_JOBS: Feature = since(90_500);
/// `pg_restore --no-publications --no-subscriptions`, which keep replication out of a database (10).
pub const RESTORE_WITHOUT_REPLICATION: Feature = since(100_000);
/// `pg_restore` writes to its standard output only if asked, by `--file=-` (12).
pub const RESTORE_NAMES_OUTPUT: Feature = since(120_000);
/// `postgres -C shared_memory_size_in_huge_pages` (15).
pub const SIZE_IN_HUGE_PAGES: Feature = since(150_000);
/// `initdb` makes data with checksums unless `--no-data-checksums` says otherwise (18).
pub const CHECKSUMS_BY_DEFAULT: Feature = since(180_000);
