//! Views of statistics: which there are, and which column of which release a metric comes from.

use super::functions::FILES_MAY_BE_MISSING;
use super::{Feature, Given, given, since, until};

/// `pg_stat_ssl` (9.5).
pub const SSL: Feature = since(90_500);
/// `wait_event_type` and `wait_event` of sessions; before, whether one waits for a lock (9.6).
pub const WAIT_EVENTS: Feature = since(90_600);
/// The view `pg_config` (9.6).
pub const BUILD: Feature = since(90_600);
/// Sessions wait for I/O, too (10).
pub const IO_WAITS: Feature = since(100_000);
/// `pg_stat_activity` shows background processes and says what each is (`backend_type`, 10).
pub const BACKEND_TYPES: Feature = since(100_000);
/// Parallel workers have a type of their own; 10 calls them background workers (11).
pub const PARALLEL_WORKER_TYPE: Feature = since(110_000);
/// `pg_stat_replication` has lags, and `lsn` in its columns' names in place of `location` (10).
pub const REPLICATION_LAGS: Feature = since(100_000);
/// `pg_stat_activity.leader_pid` (13).
pub const LEADERS: Feature = since(130_000);
/// `pg_stat_wal_receiver` (9.6).
pub const WAL_RECEIVER: Feature = since(90_600);
/// `pg_stat_slru` (13).
pub const SLRU: Feature = since(130_000);
/// `pg_stat_activity.query_id` (14).
pub const QUERY_IDS: Feature = since(140_000);
/// `pg_stat_wal` (14).
pub const WAL: Feature = since(140_000);
/// Statistics are in shared memory and seen at once; before, a collector adds up to half a second (15).
pub const IN_SHARED_MEMORY: Feature = since(150_000);
/// `pg_stat_io` (16).
pub const IO: Feature = since(160_000);
/// `pg_stat_checkpointer`, and writes of backends only in `pg_stat_io` (17).
pub const CHECKPOINTER: Feature = since(170_000);
/// `pg_stat_io` counts bytes, because one operation may cover many blocks, and has WAL, which left `pg_stat_wal` (18).
pub const IO_IN_BYTES: Feature = since(180_000);

/// What servers without a feature do not say, and why: it is unknown, and not zero.
pub const UNKNOWN_WITHOUT: [(&str, Feature, &str); 2] = [
    ("server.wal_full_page_images", WAL, "the server counts them since PostgreSQL 14 (pg_stat_wal)"),
    (
        "server.wal_directory_bytes",
        FILES_MAY_BE_MISSING,
        "the server shows sizes of files that may go since PostgreSQL 9.5",
    ),
];

/// A metric, its instance and the expression over the view's columns that it is.
pub type Column = (&'static str, &'static str, &'static str);

/// `pg_stat_database_conflicts c`: the kind of a conflict, and the column that counts it.
pub const CONFLICT_COLUMNS: [Given<(&str, &str)>; 6] = [
    given(Feature::ALWAYS, ("tablespace", "c.confl_tablespace")),
    given(Feature::ALWAYS, ("lock", "c.confl_lock")),
    given(Feature::ALWAYS, ("snapshot", "c.confl_snapshot")),
    given(Feature::ALWAYS, ("buffer pin", "c.confl_bufferpin")),
    given(Feature::ALWAYS, ("deadlock", "c.confl_deadlock")),
    given(IO, ("logical slot", "c.confl_active_logicalslot")),
];

/// `pg_stat_bgwriter b`, and since 17 `pg_stat_checkpointer c` and backends' operations in `pg_stat_io` as `o`.
pub const CHECKPOINT_COLUMNS: [Given<Column>; 17] = [
    given(until(170_000), ("server.checkpoints", "timed", "b.checkpoints_timed")),
    given(until(170_000), ("server.checkpoints", "requested", "b.checkpoints_req")),
    given(until(170_000), ("server.checkpoint_write_time", "", "b.checkpoint_write_time / 1000")),
    given(until(170_000), ("server.checkpoint_sync_time", "", "b.checkpoint_sync_time / 1000")),
    given(until(170_000), ("server.buffers_written", "checkpointer", "b.buffers_checkpoint")),
    given(CHECKPOINTER, ("server.checkpoints", "timed", "c.num_timed")),
    given(CHECKPOINTER, ("server.checkpoints", "requested", "c.num_requested")),
    given(CHECKPOINTER, ("server.checkpoint_write_time", "", "c.write_time / 1000")),
    given(CHECKPOINTER, ("server.checkpoint_sync_time", "", "c.sync_time / 1000")),
    given(CHECKPOINTER, ("server.buffers_written", "checkpointer", "c.buffers_written")),
    given(Feature::ALWAYS, ("server.buffers_written", "bgwriter", "b.buffers_clean")),
    given(until(170_000), ("server.buffers_written", "backend", "b.buffers_backend")),
    given(CHECKPOINTER, ("server.buffers_written", "backend", "o.written")),
    given(Feature::ALWAYS, ("server.buffers_allocated", "", "b.buffers_alloc")),
    given(Feature::ALWAYS, ("server.bgwriter_halts", "", "b.maxwritten_clean")),
    given(until(170_000), ("server.backend_fsyncs", "", "b.buffers_backend_fsync")),
    given(CHECKPOINTER, ("server.backend_fsyncs", "", "o.fsyncs")),
];

/// `pg_stat_database d`.
pub const DATABASE_COLUMNS: [Given<Column>; 17] = [
    given(Feature::ALWAYS, ("database.commits", "", "d.xact_commit")),
    given(Feature::ALWAYS, ("database.rollbacks", "", "d.xact_rollback")),
    given(
        Feature::ALWAYS,
        ("server.transactions", "", "(select sum(s.xact_commit + s.xact_rollback) from pg_stat_database s)"),
    ),
    given(Feature::ALWAYS, ("database.blocks_read", "", "d.blks_read")),
    given(Feature::ALWAYS, ("database.blocks_hit", "", "d.blks_hit")),
    given(Feature::ALWAYS, ("database.rows_returned", "", "d.tup_returned")),
    given(Feature::ALWAYS, ("database.rows_fetched", "", "d.tup_fetched")),
    given(Feature::ALWAYS, ("database.rows_inserted", "", "d.tup_inserted")),
    given(Feature::ALWAYS, ("database.rows_updated", "", "d.tup_updated")),
    given(Feature::ALWAYS, ("database.rows_deleted", "", "d.tup_deleted")),
    given(Feature::ALWAYS, ("database.temp_files", "", "d.temp_files")),
    given(Feature::ALWAYS, ("database.temp_bytes", "", "d.temp_bytes")),
    given(Feature::ALWAYS, ("database.deadlocks", "", "d.deadlocks")),
    given(Feature::ALWAYS, ("database.conflicts", "", "d.conflicts")),
    given(Feature::ALWAYS, ("database.read_time", "", "d.blk_read_time / 1000")),
    given(Feature::ALWAYS, ("database.write_time", "", "d.blk_write_time / 1000")),
    given(since(180_000), ("database.parallel_workers", "", "d.parallel_workers_launched")),
];

/// `pg_stat_wal w`. Since 18, writes and syncs are rows of `pg_stat_io` with the object `wal`.
pub const WAL_COLUMNS: [Given<Column>; 8] = [
    given(WAL, ("server.wal_records", "", "w.wal_records")),
    given(WAL, ("server.wal_full_page_images", "", "w.wal_fpi")),
    // 19: "Add reporting of the bytes written to WAL for full page images".
    given(since(190_000), ("server.wal_full_page_image_bytes", "", "w.wal_fpi_bytes")),
    given(WAL, ("server.wal_buffers_full", "", "w.wal_buffers_full")),
    given(WAL.until(180_000), ("server.wal_writes", "", "w.wal_write")),
    given(WAL.until(180_000), ("server.wal_syncs", "", "w.wal_sync")),
    given(WAL.until(180_000), ("server.wal_write_time", "", "w.wal_write_time / 1000")),
    given(WAL.until(180_000), ("server.wal_sync_time", "", "w.wal_sync_time / 1000")),
];

/// `pg_stat_io io`.
pub const IO_COLUMNS: [Given<Column>; 13] = [
    given(IO, ("server.io.reads", "", "io.reads")),
    given(IO, ("server.io.writes", "", "io.writes")),
    given(IO, ("server.io.extends", "", "io.extends")),
    given(IO, ("server.io.fsyncs", "", "io.fsyncs")),
    given(IO, ("server.io.hits", "", "io.hits")),
    given(IO, ("server.io.evictions", "", "io.evictions")),
    given(IO.until(180_000), ("server.io.read_bytes", "", "io.reads * io.op_bytes")),
    given(IO.until(180_000), ("server.io.write_bytes", "", "io.writes * io.op_bytes")),
    given(IO_IN_BYTES, ("server.io.read_bytes", "", "io.read_bytes")),
    given(IO_IN_BYTES, ("server.io.write_bytes", "", "io.write_bytes")),
    given(IO, ("server.io.read_time", "", "io.read_time / 1000")),
    given(IO, ("server.io.write_time", "", "io.write_time / 1000")),
    given(IO, ("server.io.fsync_time", "", "io.fsync_time / 1000")),
];
