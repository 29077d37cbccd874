//! libpq's `require_auth`: the methods by which a server may authenticate us. Only the list is here; `dial::auth`
//! checks the server's requests against it.

use std::collections::BTreeSet;

use super::ConninfoError;

/// A method of authentication, as `require_auth` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AuthMethod {
    /// Cleartext password.
    Password,
    /// The password hashed with MD5.
    Md5,
    /// Kerberos through GSSAPI.
    Gss,
    /// Kerberos through Windows' SSPI.
    Sspi,
    /// SCRAM-SHA-256, with or without channel binding.
    ScramSha256,
    /// A bearer token of OAuth.
    Oauth,
}

/// Every method by its name; `none`, which is not a method, means that the server asks for nothing.
const METHODS: [(&str, AuthMethod); 6] = [
    ("password", AuthMethod::Password),
    ("md5", AuthMethod::Md5),
    ("gss", AuthMethod::Gss),
    ("sspi", AuthMethod::Sspi),
    ("scram-sha-256", AuthMethod::ScramSha256),
    ("oauth", AuthMethod::Oauth),
];

/// The value of `require_auth`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequireAuth {
    text: String,
    allowed: BTreeSet<AuthMethod>,
    allows_none: bool,
}

impl RequireAuth {
    /// The value as given.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether the server may use this method.
    pub fn allows(&self, method: AuthMethod) -> bool {
        self.allowed.contains(&method)
    }

    /// Whether the server may let us in without authentication (`trust`, `peer`, `cert`).
    pub fn allows_none(&self) -> bool {
        self.allows_none
    }

    /// Parses the list. An empty one allows no method, as in libpq.
    pub(super) fn parse(text: &str) -> Result<RequireAuth, ConninfoError> {
        let is_negated = text.starts_with('!');
        let allowed =
            if is_negated { METHODS.iter().map(|(_, method)| *method).collect() } else { BTreeSet::new() };
        let allows_none = is_negated || text.is_empty();
        let mut list = RequireAuth { text: text.to_owned(), allowed, allows_none };
        for item in text.split(',').filter(|_| !text.is_empty()) {
            if item.starts_with('!') != is_negated {
                return Err(mixed(item));
            }
            let name = item.strip_prefix('!').unwrap_or(item);
            if !list.take(name, is_negated).ok_or_else(|| unknown(name))? {
                return Err(twice(item));
            }
        }
        Ok(list)
    }

    /// Adds or removes a method; `false` if that was done before, `None` if there is no such method.
    fn take(&mut self, name: &str, is_negated: bool) -> Option<bool> {
        if name == "none" {
            let is_change = self.allows_none == is_negated;
            self.allows_none = !is_negated;
            return Some(is_change);
        }
        let (_, method) = METHODS.iter().find(|(known, _)| *known == name)?;
        Some(if is_negated { self.allowed.remove(method) } else { self.allowed.insert(*method) })
    }
}

fn unknown(name: &str) -> ConninfoError {
    let known: Vec<&str> = METHODS.iter().map(|(name, _)| *name).collect();
    let text = format!(
        "`require_auth` cannot be `{name}`; use a list of: {}, none; or exclude methods with `!`",
        known.join(", ")
    );
    ConninfoError::new(text).in_libpqs_words(format!("invalid require_auth value: \"{name}\""))
}

fn twice(item: &str) -> ConninfoError {
    ConninfoError::new(format!("`require_auth` names `{item}` twice; remove one"))
        .in_libpqs_words(format!("require_auth method \"{item}\" is specified more than once"))
}

fn mixed(item: &str) -> ConninfoError {
    let libpq_text = if item.starts_with('!') {
        format!("negative require_auth method \"{item}\" cannot be mixed with non-negative methods")
    } else {
        format!("require_auth method \"{item}\" cannot be mixed with negative methods")
    };
    let text = format!(
        "`require_auth` mixes `{item}` with other methods; put `!` before each method or before none"
    );
    ConninfoError::new(text).in_libpqs_words(libpq_text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_allow_or_rule_out() {
        let check = |text: &str, allowed: &str, allows_none: bool| {
            let list = RequireAuth::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            let names: Vec<&str> =
                METHODS.iter().filter(|(_, m)| list.allows(*m)).map(|(name, _)| *name).collect();
            assert_eq!((&*names.join(" "), list.allows_none()), (allowed, allows_none), "{text}");
            assert_eq!(list.as_str(), text);
        };
        check("scram-sha-256", "scram-sha-256", false);
        check("none", "", true);
        check("md5,none,password", "password md5", true);
        check("!none", "password md5 gss sspi scram-sha-256 oauth", false);
        check("!password,!md5", "gss sspi scram-sha-256 oauth", true);
        check("!gss,!none,!sspi", "password md5 scram-sha-256 oauth", false);
        check("", "", true);
    }

    #[test]
    fn mistakes_are_reported_in_libpqs_words() {
        let check = |text: &str, expected: &str| {
            let error = RequireAuth::parse(text).err().unwrap_or_else(|| panic!("{text} was accepted"));
            assert_eq!(error.libpq_text(), expected, "{text}");
            assert!(error.to_string().starts_with("`require_auth` "), "{error}");
        };
        check("scram", "invalid require_auth value: \"scram\"");
        check("!scram", "invalid require_auth value: \"scram\"");
        check("MD5", "invalid require_auth value: \"MD5\"");
        check("md5,", "invalid require_auth value: \"\"");
        check("!", "invalid require_auth value: \"\"");
        check("!!md5", "invalid require_auth value: \"!md5\"");
        check("md5, password", "invalid require_auth value: \" password\"");
        check("md5,md5", "require_auth method \"md5\" is specified more than once");
        check("!md5,!md5", "require_auth method \"!md5\" is specified more than once");
        check("none,none", "require_auth method \"none\" is specified more than once");
        check("!none,!none", "require_auth method \"!none\" is specified more than once");
        check(
            "md5,!oauth",
            "negative require_auth method \"!oauth\" cannot be mixed with non-negative methods",
        );
        check("!md5,oauth", "require_auth method \"oauth\" cannot be mixed with negative methods");
    }
}
