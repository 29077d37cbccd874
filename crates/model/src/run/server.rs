//! The server of a run.

pub mod node;
pub mod outage;
pub mod plans;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::experiment::case::setting::library::{PRELOADS, libraries_in};
use crate::release::{Feature, Release};

/// The server, as it described itself after the restore and before the load.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ServerRecord {
    /// `select version()`.
    pub version: String,
    /// `server_version_num`: 180006 for 18.6, 90624 for 9.6.24.
    pub version_num: u32,
    /// How the binaries were built, from `pg_config` if readable (`CC`, `CFLAGS`, `CONFIGURE`).
    pub build: BTreeMap<String, String>,
    /// SHA-256 of the `postgres` executable, if readable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub executable_sha256: Option<String>,
    /// Every setting by name.
    pub settings: BTreeMap<String, Setting>,
    /// Whether pages carry checksums.
    pub data_checksums: bool,
    /// The cluster's system identifier.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_identifier: Option<String>,
    /// When the postmaster started, as the server writes it.
    pub postmaster_start: String,
    /// Whether the server is a standby.
    pub in_recovery: bool,
    /// The way from pgdyno to the server; absent in records of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub route: Option<Route>,
    /// How each connected standby or other receiver of WAL is synchronized: `async`, `sync`, `quorum`, `potential`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub receivers: Vec<String>,
    /// Bytes of the database under load.
    pub database_bytes: u64,
    /// Data directory, if this user may see it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_directory: Option<String>,
    /// What this server or this user does not allow: name to reason.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub unavailable: BTreeMap<String, String>,
}

/// One setting (GUC) of the server.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Setting {
    /// Value as `SHOW` prints it.
    pub value: String,
    /// Source: `default`, `configuration file`, `command line`, ….
    pub source: String,
}

/// Settings that only superusers and members of pg_read_all_settings see (`GUC_SUPERUSER_ONLY` in guc_tables.c, up to 18).
const SUPERUSER_ONLY: [&str; 22] = [
    "config_file",
    "data_directory",
    "dynamic_library_path",
    "extension_control_path",
    "external_pid_file",
    "hba_file",
    "ident_file",
    "jit_provider",
    "krb_server_keyfile",
    "log_directory",
    "log_filename",
    "primary_conninfo",
    "session_preload_libraries",
    "shared_preload_libraries",
    "ssl_ciphers",
    "ssl_dh_params_file",
    "ssl_ecdh_curve",
    "ssl_max_protocol_version",
    "ssl_min_protocol_version",
    "ssl_passphrase_command",
    "stats_temp_directory",
    "unix_socket_directories",
];

/// The way from pgdyno to a server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Route {
    /// What was connected to: `127.0.0.1:5432`, or `socket:5432` for a unix socket.
    pub reached: String,
    /// Where the server accepted the connection, as it reports itself.
    pub answered: String,
    /// How a pooler assigns the server's connections, if one answers first: `session` or `transaction`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pooler: Option<String>,
}

/// Connections of a load that came the same way.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadConnections {
    /// The address they came from (`pg_stat_activity.client_addr`).
    pub client_address: String,
    /// Version and cipher of TLS (`pg_stat_ssl`), if they use it and the server says so, as since 9.5.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<String>,
    /// Number of connections.
    pub n_connections: u32,
}

impl Route {
    /// Whether the server accepted the connection elsewhere. Of a host's name only the port is compared: it may have many
    /// addresses.
    pub fn is_forwarded(&self) -> bool {
        let split =
            |text: &str| text.rsplit_once(':').map(|(host, port)| (host.to_string(), port.to_string()));
        let (Some(reached), Some(answered)) = (split(&self.reached), split(&self.answered)) else {
            return false;
        };
        let is_name = reached.0 != "socket" && reached.0.parse::<core::net::IpAddr>().is_err();
        reached.1 != answered.1 || (!is_name && reached.0 != answered.0)
    }

    /// Describes it: `a unix socket`, `TCP through a pooler in session mode`, `TCP through a proxy`.
    pub fn words(&self) -> String {
        let way = if self.reached.starts_with("socket:") { "a unix socket" } else { "TCP" };
        match &self.pooler {
            Some(mode) => format!("{way} through a pooler in {mode} mode"),
            None if self.is_forwarded() => format!("{way} through a proxy"),
            None => way.to_string(),
        }
    }
}

impl ServerRecord {
    /// The value of a setting as `SHOW` prints it.
    pub fn setting(&self, name: &str) -> Option<&str> {
        self.settings.get(name).map(|s| s.value.as_str())
    }

    /// Whether the role of pgdyno cannot see this setting, which the record therefore lacks: what it is set to is unknown.
    pub fn hides(&self, name: &str) -> bool {
        let is_ordinary = !self.settings.is_empty() && !self.settings.contains_key("data_directory");
        is_ordinary
            && !self.settings.contains_key(name)
            && SUPERUSER_ONLY.contains(&name.to_lowercase().as_str())
    }

    /// Names of the settings that it cannot see; see [`ServerRecord::hides`].
    pub fn hidden(&self) -> impl Iterator<Item = &'static str> {
        SUPERUSER_ONLY.into_iter().filter(|name| self.hides(name))
    }

    /// Whether sessions have loaded a library of this name: a setting names it, or it has settings of its own, which those without
    /// the right to read the names of libraries see, too.
    pub fn has_loaded(&self, library: &str) -> bool {
        let names = |setting: &&str| {
            libraries_in(self.setting(setting).unwrap_or_default()).any(|named| named == library)
        };
        let is_own = |name: &String| name.strip_prefix(library).is_some_and(|rest| rest.starts_with('.'));
        PRELOADS.iter().any(names) || self.settings.keys().any(is_own)
    }

    /// Release as people write it: `18.6`, `9.6.24`.
    pub fn release(&self) -> String {
        Release::new(self.version_num).to_string()
    }

    /// The mode of the pooler in between, if one was seen.
    pub fn pooler(&self) -> Option<&str> {
        self.route.as_ref()?.pooler.as_deref()
    }

    /// Whether its release has a feature.
    pub fn has(&self, feature: Feature) -> bool {
        Release::new(self.version_num).has(feature)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(settings: &[&str]) -> ServerRecord {
        let setting = |name: &&str| (name.to_string(), Setting::default());
        ServerRecord { settings: settings.iter().map(setting).collect(), ..ServerRecord::default() }
    }

    #[test]
    fn a_setting_is_hidden_only_from_those_who_cannot_see_it() {
        let plain = with(&["fsync", "pg_stat_statements.max"]);
        assert!(plain.hides("shared_preload_libraries") && plain.hides("HBA_file"));
        assert!(!plain.hides("io_method"), "an old release does not have it");
        assert_eq!((plain.hidden().count(), with(&["data_directory"]).hidden().count()), (22, 0));
        assert!(!with(&["data_directory"]).hides("extension_control_path"));
        assert!(!ServerRecord::default().hides("hba_file"), "nothing was recorded");
        assert!(plain.has_loaded("pg_stat_statements") && !plain.has_loaded("pg_stat"));
        let mut named = with(&["data_directory", "shared_preload_libraries"]);
        named.settings.get_mut("shared_preload_libraries").unwrap().value =
            "a, \"$libdir/auto_explain.so\"".to_string();
        assert!(named.has_loaded("auto_explain") && named.has_loaded("a") && !named.has_loaded("b"));
    }

    #[test]
    fn forwarded_connections_are_found() {
        let check = |reached: &str, answered: &str, expected: bool| {
            let route = Route { reached: reached.to_string(), answered: answered.to_string(), pooler: None };
            assert_eq!(route.is_forwarded(), expected, "{route:?}");
        };
        check("socket:5432", "socket:5432", false);
        check("127.0.0.1:5432", "127.0.0.1:5432", false);
        check("::1:5432", "::1:5432", false);
        check("localhost:5432", "127.0.0.1:5432", false);
        check("localhost:6432", "127.0.0.1:5432", true);
        check("10.0.0.1:5432", "172.17.0.2:5432", true);
        check("socket:6432", "socket:5432", true);
    }
}
