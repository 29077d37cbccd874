//! Programs of PostgreSQL and their options, without pgbench.

use super::{Feature, Release, Renamed, renamed, since};

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
/// The formats of `pg_dump`'s archives, of which older programs refuse newer ones: 1.14 (12), 1.15 (16) and 1.16 (17).
const ARCHIVE_FORMATS: [Feature; 3] = [since(120_000), since(160_000), since(170_000)];

/// Whether `pg_restore` of a release reads the archives of another's `pg_dump`.
pub fn reads_archives(restore: Release, dump: Release) -> bool {
    ARCHIVE_FORMATS.iter().all(|format| restore.has(*format) || !dump.has(*format))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn archives_are_read_by_programs_that_know_their_format() {
        for (restore, dump, expected) in [
            (150_018, 180_018, false),
            (160_000, 170_000, false),
            (150_000, 160_000, false),
            (110_022, 120_000, false),
            (120_000, 150_018, true),
            (170_000, 180_000, true),
            (180_000, 90_624, true),
        ] {
            assert_eq!(
                reads_archives(Release::new(restore), Release::new(dump)),
                expected,
                "{dump} by {restore}"
            );
        }
    }
}
