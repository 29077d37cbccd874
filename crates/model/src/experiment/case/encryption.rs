//! How connections to servers by URL are encrypted, apart from where they lead.

use std::collections::BTreeMap;

use crate::experiment::case::ServerSource;

/// Keywords of libpq that say how a connection is encrypted and how both ends prove who they are.
const KEYWORDS: &[&str] = &[
    "sslmode",
    "sslnegotiation",
    "sslrootcert",
    "sslcrl",
    "sslcert",
    "sslkey",
    "sslsni",
    "ssl_min_protocol_version",
    "ssl_max_protocol_version",
    "channel_binding",
    "gssencmode",
    "require_auth",
];

/// The mode that libpq takes where none is given.
const SSLMODE: &str = "prefer";

/// Whether two connections by keywords reach the same database as the same user with the same settings, and differ at most in how they are
/// encrypted.
pub fn are_alike_but_for_encryption(a: &BTreeMap<String, String>, b: &BTreeMap<String, String>) -> bool {
    let rest = |keywords: &BTreeMap<String, String>| {
        let mut rest = keywords.clone();
        rest.retain(|key, _| !KEYWORDS.contains(&key.as_str()));
        rest
    };
    rest(a) == rest(b)
}

impl ServerSource {
    /// Whether both are the same, as far as their connections are not encrypted otherwise.
    pub fn is_alike_but_for_encryption(&self, other: &ServerSource) -> bool {
        match (self, other) {
            (ServerSource::Url(a), ServerSource::Url(b)) => are_alike_but_for_encryption(a, b),
            _ => self == other,
        }
    }

    /// Whether both are one database by URL, with connections that are encrypted otherwise.
    pub fn differs_in_encryption_alone(&self, other: &ServerSource) -> bool {
        self != other && self.is_alike_but_for_encryption(other)
    }

    /// Who connects to what, and by which `sslmode` if it is not the default: what distinguishes two URLs of one database.
    pub(super) fn with_sslmode(&self) -> String {
        let keywords = if let ServerSource::Url(keywords) = self { Some(keywords) } else { None };
        match keywords.and_then(|keywords| keywords.get("sslmode")).filter(|mode| *mode != SSLMODE) {
            Some(mode) => format!("{self}?sslmode={mode}"),
            None => self.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_database_by_two_kinds_of_connections_has_two_labels() {
        let url = |words: &[(&str, &str)]| {
            let keywords = [("host", "h"), ("port", "5432"), ("dbname", "d"), ("user", "u")];
            let all = keywords.iter().chain(words);
            ServerSource::Url(all.map(|(key, value)| (key.to_string(), value.to_string())).collect())
        };
        let (plain, encrypted) = (url(&[("sslmode", "disable")]), url(&[("sslmode", "require")]));
        assert!(plain.differs_in_encryption_alone(&encrypted));
        assert!(!plain.differs_in_encryption_alone(&plain) && plain.is_alike_but_for_encryption(&plain));
        let own = ServerSource::Version("18".parse().unwrap());
        assert!(own.is_alike_but_for_encryption(&own) && !own.is_alike_but_for_encryption(&plain));
        let other = url(&[("sslmode", "require"), ("options", "-c jit=off")]);
        assert!(!plain.differs_in_encryption_alone(&other));
        assert_eq!(encrypted.with_sslmode(), "u@h:5432/d?sslmode=require");
        assert_eq!(url(&[("sslmode", "prefer")]).with_sslmode(), "u@h:5432/d");
    }
}
