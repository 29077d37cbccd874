//! Settings that pgdyno refuses to change by ALTER SYSTEM, whatever its user says, with the reason: what a name alone decides.

use crate::settings::is_setting_name;

const REACHES: &str = "clients reach the server by it";
const ADMITS: &str = "it decides who may log in, and how";
const LOADS: &str = "it names code that the server loads";
const RUNS: &str = "it is a command that the server runs";
const PLACES: &str = "it says where files of the server are";
const LOGS: &str = "whoever watches this server relies on its logs";
const COPIES: &str = "standbys, slots and archives of this server depend on it, and may be lost for good";
const DAMAGES: &str = "a crash meanwhile could damage all databases of this server, or hide damage";
const OURS: &str = "pgdyno's own sessions decide it for themselves";
const QUOTED: &str = "ALTER SYSTEM quotes a list in it as one name";
const SESSION: &str = "it is of a session or a transaction, not of a server";

/// Names with the reason why they are refused for good, whatever the consent. A star stands for any rest of a name.
const REFUSED: [(&str, &str); 91] = [
    ("allow_alter_system", "without it nothing could be put back"),
    ("allow_in_place_tablespaces", DAMAGES),
    ("allow_system_table_mods", DAMAGES),
    ("archive_mode", COPIES),
    ("archive_timeout", COPIES),
    ("authentication_timeout", ADMITS),
    ("bonjour*", REACHES),
    ("client_encoding", OURS),
    ("config_file", PLACES),
    ("data_directory", PLACES),
    ("data_sync_retry", DAMAGES),
    ("db_user_namespace", ADMITS),
    ("dynamic_library_path", LOADS),
    ("event_source", LOGS),
    ("exit_on_error", "a statement that fails would end its session"),
    ("extension_control_path", LOADS),
    ("extension_destdir", LOADS),
    ("external_pid_file", PLACES),
    ("fsync", DAMAGES),
    ("full_page_writes", DAMAGES),
    ("gss_*", ADMITS),
    ("hba_file", ADMITS),
    ("hot_standby", REACHES),
    ("ident_file", ADMITS),
    ("idle_in_transaction_session_timeout", OURS),
    ("idle_replication_slot_timeout", COPIES),
    ("idle_session_timeout", OURS),
    ("ignore_checksum_failure", DAMAGES),
    ("ignore_invalid_pages", DAMAGES),
    ("ignore_system_indexes", DAMAGES),
    ("jit_provider", LOADS),
    ("krb_*", ADMITS),
    ("listen_addresses", REACHES),
    ("lock_timeout", OURS),
    ("log_destination", LOGS),
    ("log_directory", PLACES),
    ("log_file_mode", LOGS),
    ("log_filename", PLACES),
    ("log_truncate_on_rotation", LOGS),
    ("logging_collector", LOGS),
    (
        "max_prepared_transactions",
        "transactions that were prepared may keep the server from starting with fewer",
    ),
    ("max_replication_slots", COPIES),
    ("max_slot_wal_keep_size", COPIES),
    ("max_wal_senders", COPIES),
    ("password_encryption", ADMITS),
    (
        "pg_stat_statements.max",
        "a restart with a lower one loses the statistics of some statements of this server for good",
    ),
    ("pg_stat_statements.save", "a restart without it loses the statistics of this server for good"),
    ("pljava.*", LOADS),
    ("plperl.on_*", RUNS),
    ("port", REACHES),
    ("post_auth_delay", REACHES),
    ("pre_auth_delay", REACHES),
    ("primary_conninfo", COPIES),
    ("primary_slot_name", COPIES),
    ("promote_trigger_file", COPIES),
    ("recovery_*", COPIES),
    ("remove_temp_files_after_crash", DAMAGES),
    ("reserved_connections", REACHES),
    ("restart_after_crash", REACHES),
    ("role", SESSION),
    ("row_security", OURS),
    ("scram_iterations", ADMITS),
    ("search_path", QUOTED),
    ("session_authorization", SESSION),
    ("session_replication_role", SESSION),
    ("ssl*", ADMITS),
    ("statement_timeout", OURS),
    ("stats_temp_directory", PLACES),
    ("summarize_wal", COPIES),
    ("superuser_reserved_connections", REACHES),
    ("syslog_*", LOGS),
    ("temp_tablespaces", QUOTED),
    ("track_commit_timestamp", "a restart without it loses the commit timestamps of this server for good"),
    ("transaction_deferrable", SESSION),
    ("transaction_isolation", SESSION),
    ("transaction_read_only", SESSION),
    ("transaction_timeout", OURS),
    ("unix_socket_*", REACHES),
    ("wal_keep_*", COPIES),
    ("wal_level", COPIES),
    ("wal_log_hints", COPIES),
    ("zero_damaged_pages", DAMAGES),
    // Also those of extensions.
    ("*.start_proc", RUNS),
    ("*_command", RUNS),
    ("*_directories", PLACES),
    ("*_directory", PLACES),
    ("*_file", PLACES),
    ("*_libraries", LOADS),
    ("*_library", LOADS),
    ("*_path", LOADS),
    ("*_script", RUNS),
];

/// Why `name` must not be set to `value` by ALTER SYSTEM, as far as both decide; none if they do not.
pub fn refusal(name: &str, value: &str) -> Option<String> {
    if !is_setting_name(name) {
        return Some(format!("`{name}` is not the name of a setting"));
    }
    if value.contains(['\n', '\r', '\0']) {
        return Some(format!("server.settings.{name}: the value has a line break"));
    }
    if value.trim_end().ends_with('%') {
        return Some(format!(
            "server.settings.{name}: a share of memory is for servers that pgdyno runs; write the value itself"
        ));
    }
    let reason = reason_for_good(&name.to_ascii_lowercase())?;
    Some(format!("server.settings.{name} is not changed on a server by URL: {reason}"))
}

/// Why a setting is never changed, whatever its value; `name` is in lower case.
pub(super) fn reason_for_good(name: &str) -> Option<&'static str> {
    REFUSED.iter().find(|(pattern, _)| is_meant(pattern, name)).map(|(_, reason)| *reason)
}

/// Whether `pattern` stands for a name. It may have a star at its beginning or its end.
pub(super) fn is_meant(pattern: &str, name: &str) -> bool {
    match (pattern.strip_prefix('*'), pattern.strip_suffix('*')) {
        (Some(end), _) => name.ends_with(end),
        (None, Some(begin)) => name.starts_with(begin),
        (None, None) => name == pattern,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_lock_out_run_load_or_damage_is_refused() {
        let check = |name: &str, value: &str, expected: Option<&str>| {
            let why = refusal(name, value);
            match (&why, expected) {
                (None, None) => {}
                (Some(why), Some(expected)) if why.contains(expected) => {}
                _ => panic!("{name} = {value}: {why:?}"),
            }
        };
        for name in ["work_mem", "shared_buffers", "wal_compression", "autovacuum", "max_connections", "jit"]
        {
            check(name, "1", None);
        }
        check("pg_stat_statements.track", "all", None);
        check("pg_stat_statements.save", "off", Some("loses the statistics"));
        check("pg_stat_statements.max", "100", Some("loses the statistics"));
        check("track_commit_timestamp", "off", Some("loses the commit timestamps"));
        check("max_prepared_transactions", "0", Some("keep the server from starting"));
        check("synchronous_standby_names", "a, b", None);
        check("Listen_Addresses", "", Some("clients reach the server by it"));
        check("ssl_min_protocol_version", "TLSv1.2", Some("who may log in"));
        check("archive_command", "rm -rf /", Some("a command that the server runs"));
        check("archive_library", "x", Some("code that the server loads"));
        check("shared_preload_libraries", "a,b", Some("code that the server loads"));
        check("plperl.on_plperlu_init", "x", Some("a command that the server runs"));
        check("pgsodium.getkey_script", "x", Some("a command that the server runs"));
        check("pljava.libjvm_location", "x", Some("code that the server loads"));
        check("wal_log_hints", "off", Some("standbys"));
        check("plperl.on_init_command", "x", Some("a command that the server runs"));
        check("recovery_target_time", "now", Some("standbys"));
        check("fsync", "off", Some("damage all databases"));
        check("search_path", "a, b", Some("quotes a list"));
        check("statement_timeout", "1", Some("pgdyno's own sessions"));
        check("shared_buffers", "25%", Some("write the value itself"));
        check("work_mem", "1\nfsync = off", Some("line break"));
        check("work_mem = 1; drop", "1", Some("not the name"));
    }

    #[test]
    fn the_table_is_in_order_and_names_nothing_twice() {
        let exact: Vec<&str> =
            REFUSED.iter().map(|(name, _)| *name).filter(|name| !name.starts_with('*')).collect();
        assert!(exact.is_sorted_by(|a, b| a < b), "{exact:?}");
    }
}
