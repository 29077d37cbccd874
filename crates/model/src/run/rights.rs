//! What a role may do on a server.

use std::collections::BTreeMap;

/// What a role has on a server, by name: how, or why not.
pub type Rights = BTreeMap<String, Result<String, String>>;
