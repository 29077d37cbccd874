//! Functions, and what became of their names and arguments.

use super::{Feature, Renamed, renamed, since};

/// `pg_stat_file(name, true)`: no error for a file that is missing (9.5).
pub const FILES_MAY_BE_MISSING: Feature = since(90_500);
/// `current_setting(name, true)`: no error for a setting that is missing (9.6).
pub const SETTINGS_MAY_BE_MISSING: Feature = since(90_600);
/// `pg_control_system()`, which tells servers apart (9.6).
pub const CONTROL_SYSTEM: Feature = since(90_600);
/// `pg_ls_waldir()`: the files of WAL for whoever may see statistics (10).
pub const LIST_OF_WAL: Feature = since(100_000);
/// `pg_ls_archive_statusdir()`: which segments of WAL wait to be archived (12).
pub const LIST_OF_ARCHIVING: Feature = since(120_000);
/// `hashtextextended`: a hash of 64 bits (11).
pub const HASHES_OF_64_BITS: Feature = since(110_000);
/// MD5 is OpenSSL's, which refuses it in FIPS mode (14).
pub const MD5_MAY_FAIL: Feature = since(140_000);
/// A physical slot that keeps WAL from its creation on (9.6).
pub const RESERVING_SLOTS: Feature = since(90_600);
/// `standby.signal` and settings instead of `recovery.conf`, and `pg_promote()` (12).
pub const STANDBY_SIGNAL: Feature = since(120_000);
/// Backups that no session holds, and `pg_is_in_backup()` (15).
pub const EXCLUSIVE_BACKUPS: Feature = Feature::ALWAYS.until(150_000);

/// The directory of WAL (10).
pub const WAL_DIRECTORY: Renamed = renamed(100_000, "pg_xlog", "pg_wal");
/// The difference of two positions in WAL (10).
pub const WAL_DIFFERENCE: Renamed = renamed(100_000, "pg_xlog_location_diff", "pg_wal_lsn_diff");
/// The last position that a standby has replayed (10).
pub const WAL_REPLAYED: Renamed = renamed(100_000, "pg_last_xlog_replay_location", "pg_last_wal_replay_lsn");
/// The last position that a standby has received and made durable (10).
pub const WAL_RECEIVED: Renamed =
    renamed(100_000, "pg_last_xlog_receive_location", "pg_last_wal_receive_lsn");
/// Whether replay is paused (10).
pub const REPLAY_PAUSED: Renamed = renamed(100_000, "pg_is_xlog_replay_paused", "pg_is_wal_replay_paused");
/// The position up to which WAL is written (10).
pub const WAL_WRITTEN: Renamed = renamed(100_000, "pg_current_xlog_location", "pg_current_wal_lsn");
/// The position up to which WAL is inserted (10).
pub const WAL_INSERTED: Renamed =
    renamed(100_000, "pg_current_xlog_insert_location", "pg_current_wal_insert_lsn");
/// The position from which recovery begins, in `pg_control_checkpoint()` (10).
pub const REDO_COLUMN: Renamed = renamed(100_000, "redo_location", "redo_lsn");
/// The end of the names of positions in `pg_stat_replication` (10).
pub const POSITION_COLUMN: Renamed = renamed(100_000, "location", "lsn");
/// The name of the file with a position in WAL (10).
pub const WAL_FILE: Renamed = renamed(100_000, "pg_xlogfile_name", "pg_walfile_name");
