//! Which settings `--allow-changes` covers: those that only take or give resources, by what they concern. Everything else, also
//! what this version of pgdyno does not know, is changed by name only, with a consent of its own.
//!
//! The server's categories (`pg_settings.category`) are named for people; names decide, because a later release may give another
//! setting to a category.

use super::refused::{is_meant, reason_for_good};

/// What a user has allowed to be changed on servers by URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AllowedChange<'a> {
    /// Nothing.
    Nothing,
    /// What `--allow-changes` covers, and these settings by name.
    Changes(&'a [String]),
    /// All that is not refused for good: of a look ahead, which changes nothing and says what needs consent.
    Everything,
}

impl AllowedChange<'_> {
    /// Why a setting needs a consent of its own.
    pub fn refusal(self, name: &str) -> Option<String> {
        let is_named = match self {
            AllowedChange::Nothing => false,
            AllowedChange::Changes(names) => names.iter().any(|named| named.eq_ignore_ascii_case(name)),
            AllowedChange::Everything => true,
        };
        if is_named {
            return None;
        }
        let reason = by_name_only(name)?;
        Some(format!("server.settings.{name} is changed only with --allow-setting {name}: {reason}"))
    }
}

/// Settings of categories of the server whose effect ends with their value and is one of speed and resources alone.
struct Taken {
    /// How the categories of `pg_settings` begin that have them; they were renamed and divided over the releases.
    #[cfg_attr(not(test), expect(dead_code, reason = "a test compares the rows with a server"))]
    categories: &'static [&'static str],
    /// A star stands for any rest of a name.
    names: &'static [&'static str],
}

/// From 9.6 to 18. What is missing in a category has an effect that outlives it, or concerns what other people's statements do or
/// mean: [`BY_NAME`] says why, or it is not known to be harmless.
const TAKEN: [Taken; 9] = [
    Taken {
        categories: &["Resource Usage / "],
        names: &[
            "autovacuum_work_mem",
            "backend_flush_after",
            "bgwriter_*",
            "commit_timestamp_buffers",
            "effective_io_concurrency",
            "file_copy_method",
            "hash_mem_multiplier",
            "huge_page_size",
            "huge_pages",
            "io_combine_limit",
            "io_max_combine_limit",
            "io_max_concurrency",
            "io_method",
            "io_workers",
            "logical_decoding_work_mem",
            "maintenance_io_concurrency",
            "maintenance_work_mem",
            "max_files_per_process",
            "max_parallel_maintenance_workers",
            "max_parallel_workers",
            "max_parallel_workers_per_gather",
            "max_worker_processes",
            "min_dynamic_shared_memory",
            "multixact_member_buffers",
            "multixact_offset_buffers",
            "notify_buffers",
            "parallel_leader_participation",
            "replacement_sort_tuples",
            "serializable_buffers",
            "shared_buffers",
            "subtransaction_buffers",
            "temp_buffers",
            "transaction_buffers",
            "vacuum_buffer_usage_limit",
            "work_mem",
        ],
    },
    Taken {
        // "Vacuuming" since 18.
        categories: &["Resource Usage / Cost-Based Vacuum Delay", "Vacuuming / Cost-Based Vacuum Delay"],
        names: &["vacuum_cost_*"],
    },
    Taken {
        categories: &["Write-Ahead Log / Settings"],
        names: &[
            "commit_delay",
            "commit_siblings",
            "wal_buffers",
            "wal_compression",
            "wal_init_zero",
            "wal_recycle",
            "wal_skip_threshold",
            "wal_sync_method",
        ],
    },
    Taken {
        categories: &["Write-Ahead Log / Checkpoints"],
        names: &[
            "checkpoint_completion_target",
            "checkpoint_flush_after",
            "checkpoint_timeout",
            "checkpoint_warning",
            "max_wal_size",
            "min_wal_size",
        ],
    },
    Taken {
        categories: &["Query Tuning / ", "Developer Options"],
        names: &[
            "constraint_exclusion",
            "cpu_index_tuple_cost",
            "cpu_operator_cost",
            "cpu_tuple_cost",
            "cursor_tuple_fraction",
            "effective_cache_size",
            "enable_*",
            "from_collapse_limit",
            "geqo",
            "geqo_*",
            "jit",
            "jit_above_cost",
            "jit_expressions",
            "jit_inline_above_cost",
            "jit_optimize_above_cost",
            "jit_tuple_deforming",
            "join_collapse_limit",
            "min_parallel_*",
            "parallel_setup_cost",
            "parallel_tuple_cost",
            "plan_cache_mode",
            "random_page_cost",
            "recursive_worktable_factor",
            "seq_page_cost",
        ],
    },
    Taken {
        // "Vacuuming" since 18.
        categories: &["Autovacuum", "Vacuuming / Automatic Vacuuming"],
        names: &[
            "autovacuum",
            "autovacuum_analyze_*",
            "autovacuum_max_workers",
            "autovacuum_naptime",
            "autovacuum_vacuum_*",
            "autovacuum_worker_slots",
        ],
    },
    Taken {
        // The size of a query's text was among the memory before 14.
        categories: &["Statistics / ", "Resource Usage / Memory"],
        names: &[
            "track_activity_query_size",
            "track_cost_delay_timing",
            "track_functions",
            "track_io_timing",
            "track_wal_io_timing",
        ],
    },
    Taken {
        categories: &["Connections and Authentication / Connection Settings"],
        names: &["max_connections"],
    },
    Taken { categories: &["Lock Management"], names: &["max_locks_per_transaction"] },
];

const OUTLIVES_ROWS: &str = "what others write meanwhile stays written that way";
const ENDS: &str = "it ends or refuses what others do meanwhile";
const FREEZES: &str = "vacuums that it starts go on after it, and what they freeze stays frozen";
const CLEANS: &str = "rows that queries on standbys need may be removed, which ends these queries";
const MEANING: &str = "it changes what other people's statements mean or return";
const LOSES: &str = "a crash meanwhile may lose more of what others commit with synchronous_commit = off";
const REPLICATES: &str = "it decides what standbys and subscribers receive, and when";
const LOG: &str = "whoever watches this server relies on its log, which may hold what others keep secret";
const MONITORS: &str = "whoever watches this server has a gap in its statistics";

/// Settings that have a reason of their own to be changed by name only.
const BY_NAME: [(&str, &str); 67] = [
    ("array_nulls", MEANING),
    ("autovacuum_freeze_max_age", FREEZES),
    ("autovacuum_multixact_freeze_max_age", FREEZES),
    ("backslash_quote", MEANING),
    ("bytea_output", MEANING),
    ("check_function_bodies", MEANING),
    ("compute_query_id", MONITORS),
    ("createrole_self_grant", "it decides which rights new roles get"),
    ("datestyle", MEANING),
    (
        "deadlock_timeout",
        "waits of others that begin meanwhile keep it, and a deadlock among them lasts that long",
    ),
    ("debug_print_*", LOG),
    ("default_statistics_target", "statistics that ANALYZE collects meanwhile stay until the next ANALYZE"),
    ("default_table_access_method", OUTLIVES_ROWS),
    ("default_tablespace", OUTLIVES_ROWS),
    ("default_text_search_config", MEANING),
    ("default_toast_compression", OUTLIVES_ROWS),
    ("default_transaction_*", MEANING),
    ("default_with_oids", OUTLIVES_ROWS),
    ("escape_string_warning", MEANING),
    ("event_triggers", "it decides whether triggers that guard this server are called"),
    ("extra_float_digits", MEANING),
    ("gin_fuzzy_search_limit", MEANING),
    ("hot_standby_feedback", CLEANS),
    ("intervalstyle", MEANING),
    ("jit_debugging_support", "it writes files"),
    ("jit_dump_bitcode", "it writes files into the data directory"),
    ("jit_profiling_support", "it writes files"),
    ("lc_*", MEANING),
    ("lo_compat_privileges", "it lets every role read and change every large object"),
    ("log_*", LOG),
    ("logical_replication_mode", REPLICATES),
    ("max_active_replication_origins", REPLICATES),
    ("max_logical_replication_workers", REPLICATES),
    ("max_notify_queue_pages", ENDS),
    ("max_pred_locks_*", ENDS),
    ("max_stack_depth", "too deep a stack ends the server process, and with it all sessions"),
    ("max_standby_*", "queries of others on this standby are cancelled sooner, or its replay waits for them"),
    ("max_sync_workers_per_subscription", REPLICATES),
    ("old_snapshot_threshold", ENDS),
    ("operator_precedence_warning", LOG),
    ("quote_all_identifiers", MEANING),
    ("restrict_nonsystem_relation_kind", ENDS),
    ("sql_inheritance", MEANING),
    ("standard_conforming_strings", MEANING),
    ("stats_fetch_consistency", MEANING),
    ("sync_replication_slots", REPLICATES),
    ("synchronize_seqscans", MEANING),
    ("synchronized_standby_slots", REPLICATES),
    (
        "synchronous_commit",
        "a crash meanwhile may lose what others have committed; `options=-c synchronous_commit=off` in the server's URL sets it for our sessions alone",
    ),
    (
        "synchronous_standby_names",
        "commits of others wait for standbys that do not answer, or are acknowledged without the ones that should have them",
    ),
    ("temp_file_limit", ENDS),
    ("timezone*", MEANING),
    ("track_activities", MONITORS),
    ("track_counts", "autovacuum does not see what others change meanwhile"),
    ("transform_null_equals", MEANING),
    ("vacuum_defer_cleanup_age", CLEANS),
    ("vacuum_failsafe_age", FREEZES),
    ("vacuum_freeze_*", FREEZES),
    ("vacuum_max_eager_freeze_failure_rate", FREEZES),
    ("vacuum_multixact_*", FREEZES),
    ("vacuum_truncate", "it locks out readers of tables whose end it removes"),
    ("wal_consistency_checking", "a standby stops at the first difference that it finds"),
    ("wal_receiver_*", REPLICATES),
    ("wal_retrieve_retry_interval", REPLICATES),
    ("wal_sender_timeout", REPLICATES),
    ("wal_writer_*", LOSES),
    ("xml*", MEANING),
];

/// The reason of all others.
const UNKNOWN: &str = "it is not among those of which pgdyno knows that they only take resources";

/// Why this setting is not covered by `--allow-changes`, but only by its name; none if it is covered, or refused for good.
pub fn by_name_only(name: &str) -> Option<&'static str> {
    let lower = name.to_ascii_lowercase();
    let is_taken = TAKEN.iter().flat_map(|taken| taken.names).any(|pattern| is_meant(pattern, &lower));
    if is_taken || reason_for_good(&lower).is_some() {
        return None;
    }
    let reason = BY_NAME.iter().find(|(pattern, _)| is_meant(pattern, &lower));
    Some(reason.map_or(UNKNOWN, |(_, reason)| reason))
}

#[cfg(test)]
mod tests {
    use testbed::{ClusterOptions, TestServer};

    use super::*;

    #[test]
    fn what_only_takes_resources_is_covered_and_all_else_is_named() {
        for name in [
            "work_mem",
            "Shared_Buffers",
            "wal_compression",
            "autovacuum",
            "autovacuum_vacuum_cost_limit",
            "max_connections",
            "jit",
            "enable_seqscan",
            "cpu_tuple_cost",
            "vacuum_cost_delay",
            "checkpoint_timeout",
            "io_method",
        ] {
            assert_eq!(by_name_only(name), None, "{name}");
        }
        for (name, expected) in [
            ("lo_compat_privileges", "every large object"),
            ("Standard_Conforming_Strings", MEANING),
            ("TimeZone", MEANING),
            ("timezone_abbreviations", MEANING),
            ("default_transaction_read_only", MEANING),
            ("log_statement", LOG),
            ("transform_null_equals", MEANING),
            ("synchronous_standby_names", "commits of others wait"),
            ("autovacuum_freeze_max_age", FREEZES),
            ("vacuum_failsafe_age", FREEZES),
            ("vacuum_freeze_min_age", FREEZES),
            ("old_snapshot_threshold", ENDS),
            ("default_statistics_target", "next ANALYZE"),
            ("jit_dump_bitcode", "writes files"),
            ("pg_stat_statements.track", UNKNOWN),
            ("auto_explain.log_min_duration", UNKNOWN),
            ("enable", UNKNOWN),
            ("a_setting_of_2040", UNKNOWN),
        ] {
            assert!(by_name_only(name).is_some_and(|reason| reason.contains(expected)), "{name}");
        }
        // No name makes it possible.
        for name in [
            "fsync",
            "archive_command",
            "plperl.on_init",
            "wal_level",
            "ssl_ciphers",
            "track_commit_timestamp",
        ] {
            assert_eq!(by_name_only(name), None, "{name}");
        }
        let names: Vec<&str> = BY_NAME.iter().map(|(name, _)| *name).collect();
        assert!(names.is_sorted_by(|a, b| a < b), "{names:?}");
    }

    /// Each row names only settings of its own categories: none was put there by mistake, or has moved.
    #[test]
    fn a_real_server_has_the_settings_of_each_row_in_its_categories() {
        let server = TestServer::start(&ClusterOptions::default());
        let rows =
            server.admin("postgres").query("select name, category from pg_catalog.pg_settings").unwrap();
        let mut n_of_row = [0; TAKEN.len()];
        for row in 0..rows.len() {
            let (name, category) = (rows.get(row, "name").unwrap(), rows.get(row, "category").unwrap());
            for (index, taken) in TAKEN.iter().enumerate() {
                if taken.names.iter().any(|pattern| is_meant(pattern, &name.to_ascii_lowercase())) {
                    n_of_row[index] += 1;
                    let is_there = taken.categories.iter().any(|begin| category.starts_with(begin));
                    assert!(is_there, "{name} is in {category}");
                }
            }
        }
        assert!(n_of_row.iter().all(|n| *n > 0), "{n_of_row:?}");
    }
}
