//! The settings that a load worked with: those of the server, and what scripts and sessions made of them.

use std::collections::BTreeMap;

use model::load::sessions::SessionSetting;
use model::run::RunRecord;
use model::run::server::ServerRecord;

/// Settings that say where a server is or where its log goes, or that follow from other settings: they differ between any
/// two servers, and none changes the cost of a statement.
pub(crate) const UNCOMPARED_SETTINGS: &[&str] = &[
    "allow_system_table_mods",
    "application_name",
    "cluster_name",
    "config_file",
    "data_directory",
    "data_directory_mode",
    "debug_assertions",
    "external_pid_file",
    "hba_file",
    "ident_file",
    "in_hot_standby",
    "listen_addresses",
    "lc_messages",
    "log_directory",
    "log_file_mode",
    "log_filename",
    "log_line_prefix",
    "log_rotation_age",
    "log_rotation_size",
    "log_timezone",
    "log_truncate_on_rotation",
    "num_os_semaphores",
    "port",
    "primary_conninfo",
    "search_path",
    "server_version",
    "server_version_num",
    "shared_memory_size",
    "shared_memory_size_in_huge_pages",
    // Compared by what the connections use.
    "ssl",
    "ssl_cert_file",
    "ssl_key_file",
    "stats_temp_directory",
    "TimeZone",
    "timezone",
    "unix_socket_directories",
    "unix_socket_group",
    "unix_socket_permissions",
];

/// Settings of the load's sessions that differ from those in the record of the server, by name, with each value. `None`
/// if no session was asked or answered.
pub(crate) fn changed_in_sessions(record: &RunRecord) -> Option<BTreeMap<&str, Vec<&SessionSetting>>> {
    let sessions = record.done.as_ref()?.sessions.as_ref().filter(|sessions| sessions.n_answered > 0)?;
    let of_server = |name: &str| record.server.as_ref().and_then(|server| server.setting(name));
    let mut changed: BTreeMap<&str, Vec<&SessionSetting>> = BTreeMap::new();
    for setting in &sessions.settings {
        let is_neutral = UNCOMPARED_SETTINGS.contains(&setting.name.as_str());
        if !is_neutral && of_server(&setting.name) != Some(&setting.value) {
            changed.entry(&setting.name).or_default().push(setting);
        }
    }
    Some(changed)
}

/// The record of the server with the values that sessions of the load had instead, where all of them had the same.
pub(crate) fn server_as_sessions_have_it(record: &RunRecord) -> Option<ServerRecord> {
    let mut server = record.server.clone()?;
    let n = record
        .done
        .as_ref()
        .and_then(|done| done.sessions.as_ref())
        .map_or(0, |sessions| sessions.n_answered);
    for (name, values) in changed_in_sessions(record).unwrap_or_default() {
        if let ([only], Some(setting)) = (values.as_slice(), server.settings.get_mut(name))
            && only.n == n
        {
            setting.value.clone_from(&only.value);
        }
    }
    Some(server)
}

/// Settings that the scripts of a load change, with their values.
pub(crate) fn set_by_scripts(record: &RunRecord) -> Vec<(String, String)> {
    let Some(load) = record.load.as_ref().filter(|load| load.profiles.is_none()) else { return Vec::new() };
    let scripts = load.scripts.iter().filter(|script| script.weight > 0);
    let mut found: Vec<(String, String)> = scripts.flat_map(|script| settings_in(&script.source)).collect();
    found.sort();
    found.dedup();
    found
}

/// The settings that a script changes: `SET a = b`, `SET LOCAL a TO 'b'`, `set_config('a', 'b', false)`.
fn settings_in(source: &str) -> Vec<(String, String)> {
    let lines =
        source.lines().map(str::trim).filter(|line| !line.starts_with(['\\']) && !line.starts_with("--"));
    let text = lines.collect::<Vec<&str>>().join(" ").to_lowercase();
    text.split(';')
        .flat_map(|statement| by_set(statement).into_iter().chain(by_function(statement)))
        .collect()
}

fn by_set(statement: &str) -> Option<(String, String)> {
    /// What else is SET, and is no setting.
    const OTHERS: [&str; 5] = ["transaction", "constraints", "role", "characteristics", "authorization"];
    let rest = statement.trim().strip_prefix("set ")?.trim_start();
    let rest = rest.strip_prefix("session ").or(rest.strip_prefix("local ")).unwrap_or(rest).trim_start();
    let end = rest.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == '.'))?;
    let (name, value) = rest.split_at(end);
    let value = value.trim_start();
    let value = value.strip_prefix('=').or(value.strip_prefix("to "))?;
    (!OTHERS.contains(&name)).then(|| (name.to_string(), unquoted(value)))
}

fn by_function(statement: &str) -> Option<(String, String)> {
    let mut arguments = statement.split_once("set_config(")?.1.split(',');
    let (name, value) = (arguments.next()?, arguments.next()?);
    Some((unquoted(name), unquoted(value)))
}

fn unquoted(value: &str) -> String {
    value.trim().trim_matches('\'').to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_a_script_changes_are_found() {
        let check = |source: &str, expected: &[(&str, &str)]| {
            let found = settings_in(source);
            let found: Vec<(&str, &str)> = found.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
            assert_eq!(found, expected, "{source}");
        };
        check("SET synchronous_commit = off;\nUPDATE t SET a = 1;", &[("synchronous_commit", "off")]);
        check("BEGIN;\nset local synchronous_commit to 'off';\nEND;", &[("synchronous_commit", "off")]);
        check("SET SESSION work_mem='1GB';", &[("work_mem", "1gb")]);
        check("SELECT set_config('jit', 'off', false);", &[("jit", "off")]);
        check("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE;\nSET ROLE x;", &[]);
        check("-- SET jit = off;\n\\set jit 1\nSELECT 1;", &[]);
    }
}
