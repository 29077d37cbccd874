//! Programs of PostgreSQL and their options, without pgbench.

use super::{Feature, Renamed, renamed, since};

/// `vacuumdb --jobs` (9.5).
pub const VACUUMDB_JOBS: Feature = since(90_500);
/// `pg_restore --no-publications --no-subscriptions`, which keep replication out of a database (10).
pub const RESTORE_WITHOUT_REPLICATION: Feature = since(100_000);
/// `pg_restore` writes to its standard output only if asked, by `--file=-` (12).
pub const RESTORE_NAMES_OUTPUT: Feature = since(120_000);
/// `postgres -C shared_memory_size_in_huge_pages` (15).
pub const SIZE_IN_HUGE_PAGES: Feature = since(150_000);
/// The program that shows WAL (10).
pub const WAL_DUMP: Renamed = renamed(100_000, "pg_xlogdump", "pg_waldump");
/// It marks each block of which a record has an image (9.5).
pub const WAL_DUMP_MARKS_IMAGES: Feature = since(90_500);
/// `initdb` makes data with checksums unless `--no-data-checksums` says otherwise (18).
pub const CHECKSUMS_BY_DEFAULT: Feature = since(180_000);
