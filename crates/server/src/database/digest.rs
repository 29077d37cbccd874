//! Digests that a server computes of its own values.

use model::release::{Release, functions};
use wire::Session;

/// A digest function of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ServerDigest {
    Md5,
    /// Since 11.
    Sha256,
}

impl ServerDigest {
    /// MD5, which servers of all versions have, unless this one refuses it. The session must not be in a transaction, which a refusal would
    /// abort.
    pub(crate) fn read(session: &mut Session) -> ServerDigest {
        let may_refuse = Release::new(session.server_version_num()).has(functions::MD5_MAY_FAIL);
        let refuses = may_refuse && session.query("select md5('')").is_err();
        if refuses { ServerDigest::Sha256 } else { ServerDigest::Md5 }
    }

    /// The expression for the digest of a text, in hexadecimal digits.
    pub(crate) fn sql(self, text: &str) -> String {
        match self {
            ServerDigest::Md5 => format!("md5({text})"),
            // In the encoding of the database: no character is converted, whether it is valid elsewhere or not.
            ServerDigest::Sha256 => {
                format!("encode(sha256(convert_to({text}, getdatabaseencoding())), 'hex')")
            }
        }
    }
}
