//! The server of a run.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

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

impl ServerRecord {
    /// The value of a setting as `SHOW` prints it.
    pub fn setting(&self, name: &str) -> Option<&str> {
        self.settings.get(name).map(|s| s.value.as_str())
    }

    /// Release as people write it: `18.6`, `9.6.24`.
    pub fn release(&self) -> String {
        let n = self.version_num;
        if n >= 100_000 {
            format!("{}.{}", n / 10_000, n % 10_000)
        } else {
            format!("{}.{}.{}", n / 10_000, n / 100 % 100, n % 100)
        }
    }
}
