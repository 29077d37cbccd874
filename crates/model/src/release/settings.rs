//! Settings: names, units, values and defaults.

use super::{Feature, Given, Renamed, given, renamed, since, until};

/// `max_wal_size`, which replaced `checkpoint_segments` (9.5).
pub const MAX_WAL_SIZE: Feature = since(90_500);
/// A bare `max_wal_size` is a number of megabytes; before, of segments (10).
pub const MAX_WAL_SIZE_IN_MB: Feature = since(100_000);
/// One checkpoint's WAL is kept for recovery; before, that of two (11).
pub const ONE_CHECKPOINT_KEPT: Feature = since(110_000);
/// `log_line_prefix` has `%n`, the time as a number (9.6).
pub const NUMERIC_LOG_TIME: Feature = since(90_600);
/// `max_parallel_workers_per_gather` (9.6).
pub const PARALLEL_QUERY: Feature = since(90_600);

/// `log_transaction_sample_rate`, which logs whole transactions (12).
pub const SAMPLED_TRANSACTIONS: Feature = since(120_000);
/// `log_parameter_max_length`, which can cut or drop values in the log (13).
pub const LOGGED_VALUES_LENGTH: Feature = since(130_000);
/// `compute_query_id`, and `%Q` of `log_line_prefix` (14).
pub const QUERY_ID_SETTING: Feature = since(140_000);
/// `EXPLAIN (SETTINGS)`: settings that differ from their defaults and concern the plan (12).
pub const IN_EXPLAIN: Feature = since(120_000);

/// The level of WAL that replication needs (9.6).
pub const WAL_LEVEL: Renamed = renamed(90_600, "hot_standby", "replica");
/// `wal_keep_segments`, the WAL that is kept for standbys (13).
pub const WAL_KEEP_SEGMENTS: Feature = until(130_000);
/// `wal_keep_size`, the same as a size (13).
pub const WAL_KEEP_SIZE: Feature = since(130_000);

/// What a session sets that must not be ended, and adds no other cost than its queries'.
pub const OBSERVER_SETTINGS: [Given<(&str, &str)>; 5] = [
    given(since(90_600), ("idle_in_transaction_session_timeout", "0")),
    given(since(140_000), ("idle_session_timeout", "0")),
    given(since(170_000), ("transaction_timeout", "0")),
    given(PARALLEL_QUERY, ("max_parallel_workers_per_gather", "0")),
    given(since(110_000), ("jit", "off")),
];

/// Settings of our own servers that are not the same for all releases.
pub const EMBEDDED_SETTINGS: [Given<(&str, &str)>; 2] = [
    // `wal_level` of a server that is replicated goes with senders; later releases have 10 by default.
    given(until(100_000), ("max_wal_senders", "10")),
    given(until(100_000), ("max_replication_slots", "10")),
];

/// The settings that make the log show each automatic vacuum and analyze when they are 0.
pub const VACUUM_LOGGING: [Given<&str>; 2] = [
    given(Feature::ALWAYS, "log_autovacuum_min_duration"),
    // 19: "`log_autovacuum_min_duration` now only controls logging of automatic vacuum operations".
    given(since(190_000), "log_autoanalyze_min_duration"),
];

/// `plan_cache_mode`, which can force the generic plan of a prepared statement (12).
pub const GENERIC_PLANS: Feature = since(120_000);
