//! Digests that a server computes of its own values.

use wire::Session;

/// The first release whose MD5 is OpenSSL's, which refuses it in FIPS mode (release notes of PostgreSQL 14).
const MD5_BY_OPENSSL: u32 = 140_000;

/// A digest function of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ServerDigest {
    Md5,
    /// Since 11.
    Sha256,
}

impl ServerDigest {
    /// A function that the server certainly has: for values that are compared with those of the same server alone.
    pub(crate) fn certain(session: &Session) -> ServerDigest {
        if session.server_version_num() < MD5_BY_OPENSSL { ServerDigest::Md5 } else { ServerDigest::Sha256 }
    }

    /// MD5, which servers of all versions have, unless this one refuses it.
    pub(crate) fn common(session: &mut Session) -> ServerDigest {
        let refuses =
            session.server_version_num() >= MD5_BY_OPENSSL && session.query("select md5('')").is_err();
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
