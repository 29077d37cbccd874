//! A password that cannot be printed by accident. It does not protect memory: the bytes are ordinary bytes.

use std::fmt;

use postgres_protocol::password;

/// What a server stores of a password.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verifier {
    /// Of SCRAM-SHA-256 (RFC 5802), for servers from 10 on.
    Scram,
    /// An MD5 digest, for older ones.
    Md5,
}

/// Text that prints as `***`; only [`Secret::expose`] shows it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a password.
    pub fn new(text: impl Into<String>) -> Secret {
        Secret(text.into())
    }

    /// The password itself: only for the bytes of an authentication message.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// What a server stores of this password of `role`, and accepts in its place in `ALTER ROLE ... PASSWORD`: the
    /// password itself stays here.
    pub fn verifier(&self, role: &str, kind: Verifier) -> String {
        match kind {
            Verifier::Scram => password::scram_sha_256(self.0.as_bytes()),
            Verifier::Md5 => password::md5(self.0.as_bytes(), role),
        }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl From<&str> for Secret {
    fn from(text: &str) -> Secret {
        Secret::new(text)
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Secret {
        Secret(text)
    }
}
