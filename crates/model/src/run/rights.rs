//! What a role may do on a server.

use std::collections::BTreeMap;

/// Compressing WAL by lz4, which a build has or not.
pub const LZ4: &str = "wal-compression-lz4";

/// What a role has on a server, by name: how, or why not.
pub type RoleRights = BTreeMap<String, Result<String, String>>;
