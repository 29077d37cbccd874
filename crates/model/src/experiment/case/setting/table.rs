//! The table: every setting of PostgreSQL 9.4 to 18 with what it can change of data that is made under it, and why.
//!
//! `bench/settings.py` made data under two values of those that are not obvious, and compared all pages without their LSN and checksum.

use super::Acts;

/// Settings that act alike.
#[derive(Debug, Clone, Copy)]
pub struct SettingRow {
    /// Their names, with spaces between; a star at the end stands for any rest of a name.
    names: &'static str,
    /// The kind of data that they can change.
    pub acts: Acts,
    /// Why.
    pub why: &'static str,
    /// Who takes them, and when they act.
    pub used: SettingUse,
}

/// Who takes settings, and when they act.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SettingUse {
    /// A server, whose transactions they act on.
    Always,
    /// A server, and they act where data is made or analyzed, and on no transaction of a built-in workload.
    WhereDataIsMade,
    /// No server's configuration (`GUC_DISALLOW_IN_FILE` in guc_tables.c).
    Never,
}

impl SettingRow {
    const fn new(names: &'static str, acts: Acts, why: &'static str) -> SettingRow {
        SettingRow { names, acts, why, used: SettingUse::Always }
    }

    const fn when_made(names: &'static str, acts: Acts, why: &'static str) -> SettingRow {
        SettingRow { names, acts, why, used: SettingUse::WhereDataIsMade }
    }

    const fn never(names: &'static str, acts: Acts, why: &'static str) -> SettingRow {
        SettingRow { names, acts, why, used: SettingUse::Never }
    }

    /// The names.
    pub fn words(&self) -> impl Iterator<Item = &'static str> {
        self.names.split_ascii_whitespace()
    }
}

/// All rows: first those with data of their own.
pub const ROWS: &[SettingRow] = &[
    SettingRow::when_made(
        "default_table_access_method",
        Acts::Bytes,
        "it decides how a new table keeps its rows",
    ),
    SettingRow::when_made(
        "default_toast_compression",
        Acts::Bytes,
        "long values are compressed by it when they are written",
    ),
    SettingRow::when_made("default_with_oids", Acts::Bytes, "each row of a new table gets an OID, or none"),
    SettingRow::when_made("default_tablespace", Acts::Catalog, "it decides where a new table or index lies"),
    SettingRow::when_made(
        "default_statistics_target",
        Acts::Statistics,
        "ANALYZE takes larger samples and keeps longer lists with a larger one",
    ),
    SettingRow::new(
        "search_path",
        Acts::Catalog,
        "new tables lie in its first schema, and names mean what it finds first",
    ),
    SettingRow::new(
        "autovacuum autovacuum_* track_counts",
        Acts::Bytes,
        "a worker may vacuum, freeze and analyze tables and catalogs before the snapshot is taken",
    ),
    SettingRow::new(
        "vacuum_freeze_* vacuum_multixact_* vacuum_failsafe_age vacuum_defer_cleanup_age old_snapshot_threshold \
         vacuum_truncate vacuum_max_eager_freeze_failure_rate vacuum_cleanup_index_scale_factor",
        Acts::Bytes,
        "VACUUM freezes, removes, truncates and cleans indexes by it; the catalogs keep the horizons",
    ),
    SettingRow::new(
        "track_commit_timestamp",
        Acts::Bytes,
        "the server keeps the time of each commit in pg_commit_ts",
    ),
    SettingRow::new(
        "wal_level",
        Acts::Bytes,
        "at minimal, COPY and CREATE INDEX in the transaction that makes the table write no WAL, and pages get no LSN",
    ),
    SettingRow::new(
        "wal_log_hints",
        Acts::Bytes,
        "hint bits are WAL-logged, which decides when a page keeps them, and its LSN",
    ),
    SettingRow::new(
        "wal_init_zero wal_recycle",
        Acts::Bytes,
        "files of WAL in a snapshot are filled with zeros or sparse, new or used",
    ),
    SettingRow::new(
        "TimeZone timezone_abbreviations",
        Acts::Bytes,
        "times without a zone mean other instants, which tables of type timestamptz keep",
    ),
    SettingRow::new(
        "shared_preload_libraries session_preload_libraries local_preload_libraries dynamic_library_path \
         extension_control_path extension_destdir jit_provider",
        Acts::Unknown,
        "code that the server loads may change anything",
    ),
    SettingRow::new(
        "allow_in_place_tablespaces allow_system_table_mods",
        Acts::Catalog,
        "they let statements change what is otherwise fixed",
    ),
    SettingRow::never(
        "data_checksums",
        Acts::Bytes,
        "initdb decides it, not the configuration: choose it with server.data_checksums",
    ),
    SettingRow::never(
        "data_directory_mode lc_collate lc_ctype server_encoding wal_segment_size",
        Acts::Bytes,
        "initdb decides it, not the configuration: measure a cluster that initdb made so, by URL",
    ),
    SettingRow::never(
        "block_size debug_assertions integer_datetimes max_function_args max_identifier_length max_index_keys segment_size \
         server_version server_version_num ssl_library wal_block_size",
        Acts::Bytes,
        "the build decides it, not the configuration: compare two builds (server.build, --bin-dir)",
    ),
    SettingRow::never(
        "huge_pages_status in_hot_standby num_os_semaphores shared_memory_size shared_memory_size_in_huge_pages",
        Acts::Bytes,
        "the server reports it, and its configuration cannot set it",
    ),
    SettingRow::new(
        "enable_* geqo* cpu_index_tuple_cost cpu_operator_cost cpu_tuple_cost seq_page_cost random_page_cost \
         parallel_setup_cost parallel_tuple_cost parallel_leader_participation effective_cache_size \
         effective_io_concurrency constraint_exclusion cursor_tuple_fraction from_collapse_limit join_collapse_limit \
         plan_cache_mode recursive_worktable_factor min_parallel_relation_size min_parallel_table_scan_size \
         min_parallel_index_scan_size max_parallel_workers max_parallel_workers_per_gather max_worker_processes \
         force_parallel_mode debug_parallel_query replacement_sort_tuples",
        Acts::OwnStatements,
        "CREATE TABLE AS and INSERT ... SELECT store rows in the order of their plan; GiST builds look at \
         effective_cache_size",
    ),
    SettingRow::new(
        "work_mem hash_mem_multiplier synchronize_seqscans gin_fuzzy_search_limit",
        Acts::OwnStatements,
        "the order of a query's rows follows from it",
    ),
    SettingRow::new(
        "maintenance_work_mem max_parallel_maintenance_workers gin_pending_list_limit",
        Acts::OwnStatements,
        "GIN, GiST, BRIN and hash indexes get another shape; B-trees, as of built-in tables, do not",
    ),
    SettingRow::new(
        "DateStyle IntervalStyle array_nulls backslash_quote bytea_output client_encoding default_text_search_config \
         extra_float_digits lc_monetary lc_numeric lc_time quote_all_identifiers standard_conforming_strings \
         transform_null_equals xmlbinary xmloption sql_inheritance operator_precedence_warning icu_validation_level \
         composite_type_mismatch",
        Acts::OwnStatements,
        "texts in statements, and values made from texts, mean something else",
    ),
    SettingRow::new(
        "check_function_bodies createrole_self_grant event_triggers lo_compat_privileges password_encryption \
         restrict_nonsystem_relation_kind row_security scram_iterations session_replication_role \
         default_transaction_isolation default_transaction_deferrable default_transaction_read_only exit_on_error",
        Acts::OwnStatements,
        "statements do something else under it, or fail",
    ),
    SettingRow::never(
        "transaction_isolation transaction_deferrable transaction_read_only",
        Acts::OwnStatements,
        "each transaction has its own, and the configuration none: choose default_transaction_isolation, \
         _deferrable or _read_only",
    ),
    SettingRow::never(
        "is_superuser role seed session_authorization",
        Acts::OwnStatements,
        "each session has its own, and the configuration none",
    ),
    SettingRow::new(
        "synchronous_commit synchronous_standby_names commit_delay commit_siblings fsync full_page_writes wal_compression \
         wal_buffers wal_sync_method wal_writer_delay wal_writer_flush_after wal_skip_threshold wal_consistency_checking \
         max_wal_size min_wal_size checkpoint_segments checkpoint_completion_target checkpoint_flush_after checkpoint_timeout checkpoint_warning \
         summarize_wal wal_summary_keep_time",
        Acts::LoadPath,
        "it decides when and how WAL and pages are written, not what they contain; all levels begin with the \
         same WAL",
    ),
    SettingRow::new(
        "shared_buffers temp_buffers huge_pages huge_page_size vacuum_buffer_usage_limit vacuum_cost_* bgwriter_* \
         backend_flush_after maintenance_io_concurrency io_* file_copy_method file_extend_method debug_io_direct \
         commit_timestamp_buffers multixact_member_buffers multixact_offset_buffers notify_buffers serializable_buffers \
         subtransaction_buffers transaction_buffers shared_memory_type dynamic_shared_memory_type \
         min_dynamic_shared_memory max_files_per_process data_sync_retry temp_file_limit temp_tablespaces",
        Acts::LoadPath,
        "it decides how long reading and writing takes, and where temporary files are",
    ),
    SettingRow::new("plpgsql.*", Acts::OwnStatements, "functions and DO blocks mean something else under it"),
    SettingRow::new("jit jit_*", Acts::Nothing, "compiled expressions have the same results"),
    SettingRow::new(
        "archive_* hot_standby hot_standby_feedback max_replication_slots max_slot_wal_keep_size max_wal_senders \
         max_standby_archive_delay max_standby_streaming_delay primary_conninfo primary_slot_name promote_trigger_file \
         recovery_* restore_command trace_recovery_messages wal_decode_buffer_size wal_keep_segments wal_keep_size wal_receiver_* \
         wal_retrieve_retry_interval wal_sender_timeout logical_decoding_work_mem debug_logical_replication_streaming \
         logical_replication_mode max_logical_replication_workers max_parallel_apply_workers_per_subscription \
         max_sync_workers_per_subscription max_active_replication_origins idle_replication_slot_timeout \
         sync_replication_slots synchronized_standby_slots output_plugin_libraries ",
        Acts::Nothing,
        "it is about standbys, archives and recovery",
    ),
    SettingRow::new(
        "max_connections superuser_reserved_connections reserved_connections \
         max_locks_per_transaction max_pred_locks_* max_prepared_transactions max_notify_queue_pages max_stack_depth \
         deadlock_timeout lock_timeout statement_timeout transaction_timeout idle_in_transaction_session_timeout \
         idle_session_timeout client_connection_check_interval",
        Acts::Nothing,
        "it is a limit: making data stays below it, or fails",
    ),
    SettingRow::new(
        "authentication_timeout bonjour* db_user_namespace gss_* krb_* listen_addresses md5_password_warnings \
         oauth_validator_libraries port post_auth_delay pre_auth_delay ssl ssl_* ssl_renegotiation_limit tcp_* unix_socket_*",
        Acts::Nothing,
        "it is about how clients reach the server",
    ),
    SettingRow::new(
        "log_* lc_messages logging_collector syslog_* event_source cluster_name update_process_title client_min_messages \
         application_name compute_query_id escape_string_warning backtrace_functions debug_pretty_print debug_print_* \
         trace_* track_activities track_activity_query_size track_cost_delay_timing track_functions track_io_timing \
         track_wal_io_timing stats_fetch_consistency stats_temp_directory",
        Acts::Nothing,
        "it is about what the server says and counts",
    ),
    SettingRow::new(
        "allow_alter_system config_file data_directory external_pid_file hba_file ident_file debug_discard_caches \
         ignore_checksum_failure ignore_invalid_pages ignore_system_indexes zero_damaged_pages remove_temp_files_after_crash \
         restart_after_crash send_abort_for_crash send_abort_for_kill",
        Acts::Nothing,
        "it is about the server's own files, and about damage",
    ),
];
