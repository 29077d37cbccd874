//! Versions since which a server has a feature, as `server_version_num` gives them: those that several parts of pgdyno ask
//! for. Not here: what one query alone depends on.

/// The oldest version that pgdyno measures: 9.4 brought ALTER SYSTEM, replication slots and `pg_stat_activity.backend_xmin`.
pub const OLDEST: u32 = 90_400;
/// Row security and its policies.
pub const ROW_SECURITY: u32 = 90_500;
/// Partitioned tables, and with the same release publications and extended statistics.
pub const PARTITIONS: u32 = 100_000;
/// Publications of all tables of a schema.
pub const PUBLISHED_SCHEMAS: u32 = 150_000;
/// Primary keys of partitioned tables.
pub const PARTITION_KEYS: u32 = 110_000;
