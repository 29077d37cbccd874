//! Settings (GUCs) as text: turns shares of memory into sizes, and a map into a configuration file.

pub mod defaults;
pub mod effect;

use std::collections::BTreeMap;

use anyhow::{Result, bail, ensure};

/// One megabyte as PostgreSQL counts: 1024 times 1024.
pub(crate) const MB: u64 = 1 << 20;

/// Settings that are sizes and may be given as a share of memory.
const SIZES: [&str; 17] = [
    "autovacuum_work_mem",
    "effective_cache_size",
    "logical_decoding_work_mem",
    "maintenance_work_mem",
    "max_slot_wal_keep_size",
    "max_stack_depth",
    "max_wal_size",
    "min_dynamic_shared_memory",
    "min_wal_size",
    "multixact_member_buffers",
    "shared_buffers",
    "temp_buffers",
    "temp_file_limit",
    "vacuum_buffer_usage_limit",
    "wal_buffers",
    "wal_keep_size",
    "work_mem",
];

/// Settings that pgdyno decides for its own servers, with the reason.
const DECIDED: [(&str, &str); 16] = [
    ("config_file", "its configuration is written by pgdyno"),
    ("data_directory", "pgdyno keeps the data directory"),
    ("external_pid_file", "pgdyno watches the process itself"),
    ("hba_file", "access is decided by pgdyno"),
    ("ident_file", "access is decided by pgdyno"),
    ("listen_addresses", "the server listens where pgdyno connects"),
    ("log_destination", "pgdyno reads the server's log from standard error"),
    ("log_line_prefix", "pgdyno reads times from the server's log"),
    ("logging_collector", "pgdyno reads the server's log from standard error"),
    ("port", "the server listens where pgdyno connects"),
    ("ssl", "server.tls decides whether connections are encrypted"),
    ("ssl_cert_file", "pgdyno makes the certificate of server.tls"),
    ("ssl_key_file", "pgdyno makes the certificate of server.tls"),
    ("unix_socket_directories", "the server listens where pgdyno connects"),
    ("unix_socket_group", "the server listens where pgdyno connects"),
    ("unix_socket_permissions", "the server listens where pgdyno connects"),
];

/// What a configuration file takes for the name of another file (PostgreSQL's guc-file.l).
const DIRECTIVES: [&str; 3] = ["include", "include_dir", "include_if_exists"];

/// The value as the server accepts it: `25%` of a size becomes megabytes of `ram_bytes`; any other value stays as it
/// is.
///
/// # Errors
/// A share of a setting that is not a size, or not between 0 and 100 %.
pub fn resolve_setting(name: &str, value: &str, ram_bytes: u64) -> Result<String> {
    let Some(share) = value.trim().strip_suffix('%') else { return Ok(value.to_string()) };
    let Ok(share) = share.trim().parse::<f64>() else { return Ok(value.to_string()) };
    ensure!(
        SIZES.iter().any(|size| size.eq_ignore_ascii_case(name)),
        "setting `{name}` is not a size, so `{value}` of memory means nothing; write the value itself"
    );
    ensure!(share > 0.0 && share <= 100.0, "setting `{name}`: `{value}` is not a share of memory in 0..100%");
    Ok(size_text((ram_bytes as f64 * share / 100.0) as u64))
}

/// Bytes in PostgreSQL's notation: whole megabytes, or kilobytes below one.
pub(crate) fn size_text(bytes: u64) -> String {
    if bytes >= MB { format!("{}MB", bytes / MB) } else { format!("{}kB", (bytes / 1024).max(1)) }
}

/// Refuses settings that our own servers cannot have.
///
/// # Errors
/// When a name is not that of a setting, a value has a line break, or pgdyno decides the setting.
pub fn check_settings(settings: &BTreeMap<String, String>) -> Result<()> {
    for (name, value) in settings {
        check_text(name, value)?;
        if let Some((_, reason)) = DECIDED.iter().find(|(decided, _)| decided.eq_ignore_ascii_case(name)) {
            bail!("setting `{name}` cannot be chosen: {reason}; remove it");
        }
        ensure!(
            !name.eq_ignore_ascii_case("lc_messages") || is_english(value),
            "setting `{name}`: `{value}` might not be English, in which pgdyno reads the server's messages; give C"
        );
    }
    Ok(())
}

/// Refuses what would be something else than one setting in a configuration file.
pub(crate) fn check_text(name: &str, value: &str) -> Result<()> {
    ensure!(is_setting_name(name), "`{name}` is not the name of a setting");
    ensure!(!value.contains(['\n', '\r', '\0']), "setting `{name}` has a line break in its value");
    Ok(())
}

/// Whether messages in this locale are English: `C`, `POSIX`, `en_GB.UTF-8`.
fn is_english(locale: &str) -> bool {
    let locale = locale.trim();
    ["C", "POSIX"].contains(&locale) || locale.starts_with("C.") || locale.starts_with("en_")
}

pub(crate) fn is_setting_name(name: &str) -> bool {
    let is_word = |word: &str| {
        word.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && word.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    let is_directive = DIRECTIVES.iter().any(|directive| directive.eq_ignore_ascii_case(name));
    !name.is_empty() && name.split('.').all(is_word) && !is_directive
}

/// The text of a configuration file with these settings. Within quotes PostgreSQL reads `''` as a quote and
/// undoes backslashes.
pub(crate) fn configuration_text(settings: &BTreeMap<String, String>) -> String {
    let mut text = String::from("# Written by pgdyno at each start; changes are lost.\n");
    for (name, value) in settings {
        let quoted = value.replace('\\', r"\\").replace('\'', "''");
        text.push_str(&format!("{name} = '{quoted}'\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_memory_become_sizes() {
        let ram = 24_619_108 * 1024;
        for (name, value, expected) in [
            ("shared_buffers", "25%", "6010MB"),
            ("shared_buffers", " 0.5 % ", "120MB"),
            ("work_mem", "0.001%", "246kB"),
            ("shared_buffers", "128MB", "128MB"),
            ("jit", "off", "off"),
            ("application_name", "full%", "full%"),
        ] {
            assert_eq!(resolve_setting(name, value, ram).unwrap(), expected, "{name} = {value}");
        }
        for (name, value, expected) in [
            ("jit", "25%", "is not a size"),
            ("shared_buffers", "0%", "not a share"),
            ("shared_buffers", "101%", "not a share"),
            ("shared_buffers", "-5%", "not a share"),
        ] {
            let error = resolve_setting(name, value, ram).unwrap_err().to_string();
            assert!(error.contains(expected), "{name} = {value}: {error}");
        }
    }

    #[test]
    fn settings_that_pgdyno_decides_and_names_that_are_no_settings_are_refused() {
        let check = |name: &str, value: &str| {
            let settings = BTreeMap::from([(name.to_string(), value.to_string())]);
            check_settings(&settings).map_err(|error| error.to_string())
        };
        check("shared_buffers", "1GB").unwrap();
        check("pg_stat_statements.max", "100").unwrap();
        check("lc_messages", "C").unwrap();
        check("LC_Messages", "en_GB.UTF-8").unwrap();
        for (name, value, expected) in [
            ("port", "5432", "cannot be chosen"),
            ("Port", "5432", "cannot be chosen"),
            ("logging_collector", "on", "standard error"),
            ("lc_messages", "de_DE", "might not be English"),
            ("shared buffers", "1GB", "not the name"),
            ("x = 1\ninclude", "y", "not the name"),
            ("", "1", "not the name"),
            ("Include_Dir", "/etc", "not the name"),
            ("work_mem", "1\nfsync = off", "line break"),
        ] {
            let error = check(name, value).unwrap_err();
            assert!(error.contains(expected), "{name}: {error}");
        }
    }

    #[test]
    fn values_are_quoted_for_the_configuration_file() {
        let settings = BTreeMap::from([("a".to_string(), r"it's \n".to_string())]);
        assert!(configuration_text(&settings).ends_with("a = 'it''s \\\\n'\n"));
    }
}
