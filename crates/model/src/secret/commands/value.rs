//! Which part of the value of an option, a header or a variable is secret.

use std::ops::Range;

use super::super::{MARK, counts_tokens, is_environment, is_harmless, is_secret_word};
use super::has;
use super::table::Part;

/// Methods of authentication, which an option or a variable may name in place of a secret.
const METHODS: &str = "none any anyauth basic digest bearer token apikey ntlm negotiate kerberos krb5 gss gssapi sspi spnego trust reject \
     password md5 plain scram scram-sha-1 scram-sha-256 peer ident ldap radius pam bsd cert mtls tls jwt oauth oauth2 oidc saml \
     userpass iam aws aws-sigv4 gcp azure github yes no required optional default auto";

/// Words before the secret of a header.
const SCHEMES: &str = "bearer basic token digest apikey api-key negotiate ntlm jwt key";

/// Where the secret part of an option's value is.
pub(super) fn part_of(value: &str, part: Part) -> Option<Range<usize>> {
    let from = match part {
        Part::Nothing => return None,
        Part::Whole | Part::Attached => 0,
        // An address has rules of its own.
        Part::After(sign) if sign != '=' && value.contains("://") => return None,
        Part::After(sign) => {
            let from = value.find(sign)? + sign.len_utf8();
            let before = &value[..from - sign.len_utf8()];
            let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            // A format of a time, `+%H:%M`, is no user.
            if before.starts_with(['+', '%']) || (is_number(before) && is_number(&value[from..])) {
                return None;
            }
            from
        }
        Part::BeforeHost => {
            if value.contains("://") {
                return None;
            }
            let user = value.find(':')?;
            let host = value.rfind('@').filter(|host| *host > user)?;
            return Some(user + 1..host);
        }
        Part::AfterPass => value.find("pass:")? + "pass:".len(),
        Part::Header => {
            let (name, text) = value.split_once(':')?;
            let name = name.trim_start_matches(['\'', '"', '\\']).trim();
            let is_secret = is_secret_header(name);
            if name.to_ascii_lowercase().ends_with("cookie") {
                return cookie_of(value, value.len() - text.len());
            }
            let spaces = text.len() - text.trim_start().len();
            // A scheme alone is followed by a word of its own.
            let is_none = counts_tokens(name, text.trim())
                || is_hidden_credential(name, text)
                || has_scheme(text.trim_matches(['\'', '"', '\\', ' ']));
            return (is_secret && !is_none).then(|| unquoted(value, value.len() - text.len() + spaces));
        }
        Part::Cookie => return cookie_of(value, 0),
        Part::Credential => return credential_of(value),
        Part::Key => return key_of(value),
        Part::Login => return login_of(value),
    };
    Some(unquoted(value, from))
}

/// Where the cookies of a value begin that are not hidden yet: the value of the first one, and all that follows.
fn cookie_of(value: &str, start: usize) -> Option<Range<usize>> {
    let mut values = value[start..].match_indices('=').map(|(at, _)| start + at + 1);
    let from = values.find(|from| !value[*from..].starts_with(MARK) && !is_in_mark(value, *from))?;
    Some(unquoted(value, from))
}

/// Whether a place is within a mark, whose digest has no such sign, or within its padding.
fn is_in_mark(value: &str, at: usize) -> bool {
    value[..at].rfind(MARK).is_some_and(|mark| !value[mark..at].contains(')'))
}

/// The secret part of a credential: after the user, after the scheme, or all of it.
fn credential_of(value: &str) -> Option<Range<usize>> {
    let lower = value.trim_matches(['\'', '"', '\\']).to_ascii_lowercase();
    if value.contains("://") || lower.starts_with(['/', '.', '~', '@']) || is_method(&lower) {
        return None;
    }
    let is_count = value.len() < 4 && value.bytes().all(|byte| byte.is_ascii_digit());
    let from = match (value.find(' '), value.find(':')) {
        (Some(space), _) if has_scheme(value[..space].trim_start_matches(['\'', '"', '\\'])) => space + 1,
        (_, Some(colon)) => colon + 1,
        _ => 0,
    };
    (!is_count).then(|| unquoted(value, from))
}

/// Words that stand for a value where the form of an option is shown: `--set KEY=VALUE`.
const PLACEHOLDERS: &str = "VALUE LEVEL NAME FILE PATH";

/// Where a key is in a value, unless that is a number, or the name of a file or of a column.
fn key_of(value: &str) -> Option<Range<usize>> {
    let range = unquoted(value.trim_end_matches(['\'', '"', '\\']), 0);
    let text = value.get(range.clone())?;
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    let has_ending = text.rsplit_once('.').is_some_and(|(_, end)| {
        (1..=4).contains(&end.len()) && end.bytes().all(|byte| byte.is_ascii_alphabetic())
    });
    let is_file = text.starts_with(['/', '.', '~', '@']) || has_ending;
    let lower = text.to_ascii_lowercase();
    let is_column = text.len() <= 3 || lower.ends_with("_id") || lower.ends_with("_key");
    // A sentence may end with it.
    let word =
        text.split([',', '[', ')']).next().map(|word| word.trim_end_matches(['.', ';', ':', '?', ']']));
    let is_placeholder = word.is_some_and(|word| has(PLACEHOLDERS, word));
    // A script's `:okey`, a shell's `$KEY`, a call.
    let is_expression = text.starts_with([':', '$']) || text.contains('(');
    let is_harmless = is_number || is_file || is_column || is_placeholder || is_expression || is_option(text);
    (!is_harmless).then_some(range)
}

fn is_option(word: &str) -> bool {
    word.starts_with('-')
}

/// Where the password is in the login of a program of Oracle's.
fn login_of(value: &str) -> Option<Range<usize>> {
    let start = value.to_ascii_lowercase().find("userid=").map_or(0, |at| at + "userid=".len());
    let slash = start + value[start..].find('/')?;
    let user = value[start..slash].trim_matches(['\'', '"', '\\']);
    let is_user =
        !user.is_empty() && user.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_$#".contains(&byte));
    let end = value[slash..].rfind('@').map_or(value.len(), |at| slash + at);
    let inner = unquoted(&value[..end], slash + 1);
    (is_user && !inner.is_empty()).then_some(inner)
}

/// Whether a variable or an option is named after a key that is no word of SQL: `FOO_KEY`, `app-key`.
pub(super) fn is_key_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let mut parts = name.rsplit(['-', '_', '.']);
    parts.next() == Some("key") && parts.next().is_none_or(|before| !has(HARMLESS_KEYS, before))
}

/// Whether the value of a header is secret, by its name.
pub(super) fn is_secret_header(name: &str) -> bool {
    let name = name.trim_start_matches(['\'', '"', '\\']).trim().to_ascii_lowercase();
    let mut parts = name.rsplit('-');
    let (last, before) = (parts.next().unwrap_or_default(), parts.next());
    let is_key = before.is_some_and(|before| !has(HARMLESS_KEYS, before)) && has(HEADER_ENDS, last);
    is_secret_word(&name) || is_key || HEADERS.iter().any(|header| header.eq_ignore_ascii_case(&name))
}

/// Headers whose value is secret although their name does not say so.
const HEADERS: [&str; 6] = ["Cookie", "Set-Cookie", "Authorization", "Proxy-Authorization", "X-Auth", "Auth"];
/// Last words of names of headers whose value is secret: `X-Vault-Key`.
const HEADER_ENDS: &str =
    "key keys auth authentication authorization session sessionid sid signature access ticket";
/// Words before such a word that make it harmless: `Idempotency-Key`.
const HARMLESS_KEYS: &str =
    "idempotency websocket surrogate cache public partition routing sort primary foreign row shard";

/// Whether of the value of a header only its scheme was left: `Authorization: Bearer (hidden 1a2b3c)`. Where more was left, as
/// of several cookies, the rest may be secret, too.
fn is_hidden_credential(name: &str, text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once(MARK) else { return false };
    let is_scheme = scheme.trim().bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    let is_end = |rest: &str| rest.trim_end_matches(['\'', '"', '\\', ' ']).is_empty();
    name.to_ascii_lowercase().ends_with("authorization")
        && is_scheme
        && rest.split_once(')').is_some_and(|(_, rest)| is_end(rest))
}

/// The rest of a value without the quotes around it.
pub(super) fn unquoted(value: &str, from: usize) -> Range<usize> {
    let rest = &value[from..];
    let quotes = ['\'', '"', '\\'];
    let start = from + rest.len() - rest.trim_start_matches(quotes).len();
    start..start + value[start..].trim_end_matches(['\'', '"']).len()
}

/// Whether a value is no secret: there is none, it was hidden, or it only says where a secret is.
pub(super) fn is_no_secret(value: &str) -> bool {
    let is_placeholder =
        value.starts_with('<') && value.trim_end_matches(['.', ',', ';', ':', '\'', '"']).ends_with('>');
    // From another command, or from a file.
    let is_redirected = value.starts_with("$(") || value.starts_with("<(") || value == "<";
    is_harmless(value) || is_placeholder || is_redirected || is_environment(value)
}

/// Whether a word names a method of authentication.
pub(in crate::secret) fn is_method(word: &str) -> bool {
    has(METHODS, word)
}

/// Whether a word is the scheme of a credential.
pub(in crate::secret) fn has_scheme(word: &str) -> bool {
    has(SCHEMES, &word.to_ascii_lowercase())
}
