//! What is secret, and what replaces it in everything that pgdyno writes or prints: the only such list.
//!
//! A name marks a whole value as secret, a pattern a part of a text. The mark `(hidden 1a2b3c)` contains a digest keyed
//! with something only this user has, so that different values remain different and nobody can test guesses against it.

mod commands;
mod json;
mod patterns;
mod seal;
mod tokens;
mod words;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};

pub use json::hide_json;
pub use seal::{hmac, seal};

/// Settings whose whole value is hidden: connection strings, and commands, whose words follow no common rule.
pub const SETTINGS: [&str; 8] = [
    "archive_cleanup_command",
    "archive_command",
    "cluster_passphrase_command",
    "primary_conninfo",
    "recovery_end_command",
    "restore_command",
    "ssl_passphrase_command",
    "ldap_bind_password",
];

/// Words in a name whose value is secret.
const WORDS: [&str; 26] = [
    "password",
    "passcode",
    "passwd",
    "passphrase",
    "secret",
    "token",
    "credential",
    "api_key",
    "apikey",
    "access_key",
    "accesskey",
    "account_key",
    "accountkey",
    "private_key",
    "privatekey",
    "auth_key",
    "authkey",
    "encryption_key",
    "encryptionkey",
    "master_key",
    "signing_key",
    "subscription_key",
    "rediscli_auth",
    "bearer",
    "scram_client_key",
    "scram_server_key",
];

/// Names with such a word that describe how secrets are handled and contain none.
const HARMLESS_NAMES: [&str; 8] = [
    "password_encryption",
    "md5_password_warnings",
    "min_password_length",
    "password_required",
    "ssl_passphrase_command_supports_reload",
    "scram_iterations",
    "bypass",
    "compass",
];

/// Ends of names that say where a secret is, or something about it.
const HARMLESS_ENDS: [&str; 10] =
    ["_file", "_path", "_env", "_stdin", "_fd", "_ttl", "_type", "_url", "_name", "_length"];

/// Ends of names whose value is secret: weaker words, which a number may follow that counts something.
const WEAK_ENDS: [&str; 5] = ["pass", "pwd", "pw", "jwt", "userpwd"];

/// Values that are not secret, whatever the name.
const HARMLESS_VALUES: [&str; 9] =
    ["", "on", "off", "true", "false", "null", "(disabled)", "/bin/true", "/usr/bin/true"];

const MARK: &str = "(hidden";
/// Enough to distinguish a few values, too few to search for one.
const DIGEST_BYTES: usize = 3;
/// How often marks may be nested in values that earlier versions wrote.
const NESTED_MAX: usize = 4;

/// Returns the key of the marks.
pub type KeySource = fn() -> Option<[u8; 32]>;

static SOURCE: OnceLock<KeySource> = OnceLock::new();

/// Sets the source of the marks' key, which is called for the first secret. Without it, or without a key, all marks are
/// equal. A second call has no effect.
pub fn set_key_source(source: KeySource) {
    SOURCE.set(source).ok();
}

fn key() -> Option<&'static [u8; 32]> {
    static KEY: OnceLock<Option<[u8; 32]>> = OnceLock::new();
    KEY.get_or_init(|| SOURCE.get().and_then(|source| source())).as_ref()
}

/// The mark that replaces `secret`.
fn mark(secret: &str) -> String {
    key().map_or_else(|| format!("{MARK})"), |key| mark_by(key, secret))
}

fn mark_by(key: &[u8; 32], secret: &str) -> String {
    let digest = Sha256::new().chain_update(key).chain_update(secret).finalize();
    let digits: String = digest.iter().take(DIGEST_BYTES).map(|byte| format!("{byte:02x}")).collect();
    format!("{MARK} {digits})")
}

/// Whether something in `text` was hidden.
pub fn is_marked(text: &str) -> bool {
    text.contains("(hidden)") || text.contains("(hidden ")
}

/// Whether `text`, the value of `name`, contains a secret.
pub fn is_secret(name: &str, text: &str) -> bool {
    !matches!(hide_value(name, text), Cow::Borrowed(_))
}

/// Whether `text`, the value of `name`, contains a password, a key or a token; it does not count that a setting of this
/// name may contain one.
pub fn holds_password(name: &str, text: &str) -> bool {
    let is_named = is_secret_word(name) && !is_harmless(text) && !counts_tokens(name, text);
    is_named || matches!(hide_text(text), Cow::Owned(_))
}

/// Whether the name alone marks its value as a password, a key or a token.
fn is_secret_word(name: &str) -> bool {
    let name = name.to_ascii_lowercase().replace('-', "_");
    let last = name.rsplit('.').next().unwrap_or_default();
    let is_harmless = HARMLESS_NAMES.contains(&last) || HARMLESS_ENDS.iter().any(|end| last.ends_with(end));
    !is_harmless && (WORDS.iter().any(|word| last.contains(word)) || ends_weakly(last))
}

/// Whether a name, in lower case, ends in a weak word of its own, or in `pass`.
fn ends_weakly(name: &str) -> bool {
    let last = name.rsplit(['_', '-', '.']).next().unwrap_or_default();
    WEAK_ENDS.contains(&last) || last.ends_with("pass")
}

/// Whether a value of such a name is none: a count, or a directory (`PWD`).
fn is_harmless_for(name: &str, value: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let is_strong = WORDS.iter().any(|word| name.replace('-', "_").contains(word));
    let is_count = value.len() < 4 && value.bytes().all(|byte| byte.is_ascii_digit());
    counts_tokens(name.as_str(), value)
        || !is_strong && (is_count || (name.ends_with("pwd") && value.starts_with('/')))
}

/// Whether a value is a number of tokens (`max_tokens = 4096`), not a list of them.
fn counts_tokens(name: &str, value: &str) -> bool {
    let number = value.trim_end_matches([',', ';', ')']);
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    is_number && name.to_ascii_lowercase().ends_with("tokens")
}

/// Whether a value is a variable of the environment, or one of a shell's own: `$PGPASSWORD`, `${TOKEN}`, `$1`.
fn is_environment(value: &str) -> bool {
    let Some(name) = value.strip_prefix('$') else { return false };
    let name = name.trim_start_matches('{').trim_end_matches('}');
    name.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_')
}

fn is_secret_name(name: &str) -> bool {
    let last = name.rsplit('.').next().unwrap_or_default();
    SETTINGS.iter().any(|setting| setting.eq_ignore_ascii_case(last)) || is_secret_word(name)
}

fn is_harmless(value: &str) -> bool {
    // A list or table over several lines, as TOML writes it, begins so.
    let is_opening = matches!(value.trim(), "[" | "{");
    value.starts_with(MARK) || is_opening || HARMLESS_VALUES.contains(&value.trim())
}

/// `text`, the value of `name`, without its secrets.
pub fn hide_value<'a>(name: &str, text: &'a str) -> Cow<'a, str> {
    hide_value_by(name, text, &mut mark)
}

/// `text` without its secrets.
pub fn hide_text(text: &str) -> Cow<'_, str> {
    patterns::hide(text, &mut mark)
}

/// A value without its secrets.
///
/// # Errors
/// When the value cannot be written as JSON, or not be read back with a mark in place of a secret.
pub fn hidden<T: Serialize + DeserializeOwned>(value: &T) -> serde_json::Result<T> {
    serde_json::from_str(&hide_json(&serde_json::to_string(value)?))
}

/// Returns the mark of a secret.
type Marker<'a> = &'a mut dyn FnMut(&str) -> String;

fn hide_value_by<'a>(name: &str, text: &'a str, mark: Marker) -> Cow<'a, str> {
    match patterns::may_be_secret(name) && is_secret_name(name) && !is_harmless(text) {
        true if !is_harmless_for(name, text) => Cow::Owned(mark(text)),
        _ => patterns::hide(text, mark),
    }
}

/// The words of a command without their secrets; `None` if they have none.
pub fn hide_words(words: &[String]) -> Option<Vec<String>> {
    let parts: Vec<Cow<str>> = words.iter().map(|word| hide_text(word)).collect();
    let is_hidden = parts.iter().any(|part| matches!(part, Cow::Owned(_)));
    let hidden = commands::hide_list(&parts, &mut mark);
    hidden.or_else(|| is_hidden.then(|| parts.into_iter().map(Cow::into_owned).collect()))
}

/// A command on one line, without its secrets: they are looked for before the words are joined, because a line divides a script of a
/// shell in other places.
pub fn hide_command(words: &[String]) -> String {
    hide_words(words).map_or_else(|| words.join(" "), |hidden| hidden.join(" "))
}

/// The secrets of a text, to be put back where they were hidden.
#[derive(Debug, Default)]
pub struct Revealed {
    by_mark: BTreeMap<String, String>,
}

impl Revealed {
    /// The secrets in a JSON text.
    pub fn of_json(text: &str) -> Revealed {
        Revealed::by(text, &mut mark)
    }

    fn by(text: &str, mark: Marker) -> Revealed {
        let mut by_mark = BTreeMap::new();
        let hidden = json::hide_by(text, &mut |secret| {
            let mark = mark(secret);
            by_mark.insert(mark.clone(), secret.to_string());
            mark
        });
        // Earlier versions hid `Bearer (hidden 1a2b3c)` once more.
        json::map_strings(&hidden, &mut |_, value| {
            for nested in after_schemes(value) {
                by_mark.insert(mark(nested), nested.to_string());
            }
            None
        });
        Revealed { by_mark }
    }

    /// The JSON `text` with every hidden value that is known here put back.
    pub fn put_back<'a>(&self, text: &'a str) -> Cow<'a, str> {
        // Without a key all marks are equal and identify nothing.
        if key().is_none() {
            return Cow::Borrowed(text);
        }
        self.restore(text)
    }

    fn restore<'a>(&self, text: &'a str) -> Cow<'a, str> {
        json::map_strings(text, &mut |_, value| {
            let mut value = is_marked(value).then(|| value.to_string())?;
            // A secret may contain the mark of another one.
            for _ in 0..NESTED_MAX {
                let before = value.clone();
                for (mark, secret) in &self.by_mark {
                    value = value.replace(mark, secret);
                }
                if value == before {
                    break;
                }
            }
            Some(value)
        })
    }
}

/// The marks in `text` that follow a word and a space, with that word: `Bearer (hidden 1a2b3c)`.
fn after_schemes(text: &str) -> impl Iterator<Item = &str> {
    text.match_indices(MARK).filter_map(|(at, _)| {
        let end = at + text[at..].find(')')? + 1;
        let before = text[..at].trim_end();
        let start = before.trim_end_matches(|sign: char| sign.is_ascii_alphanumeric() || sign == '-').len();
        (start < before.len() && before.len() < at).then(|| &text[start..end])
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    const KEY: [u8; 32] = [7; 32];

    /// Marks have a key in tests, too; call it before anything is hidden.
    pub(crate) fn with_key() {
        set_key_source(|| Some(KEY));
    }

    fn hidden(text: &str) -> String {
        with_key();
        let hidden = hide_text(text).into_owned();
        assert_eq!(hide_text(&hidden), hidden, "hiding twice is hiding once");
        hidden
    }

    #[test]
    fn secrets_in_texts_are_hidden_however_they_are_written() {
        for text in [
            "host=h password=S3cret user=u",
            "host=h PassWord = 'it\\'s S3cret; and' user=u",
            "primary_conninfo = 'host=h password=''a S3cret'' user=x'",
            "\"password=\\\"S3cret\\\"\"",
            "postgres://u:S3cret@h/d",
            "postgres://u:p/S3cret@h/d",
            "postgres://h/d?user=u&password=S3cret&x=y",
            "https://S3cretS3cret@example.org/x.git",
            "STATEMENT:  ALTER ROLE u WITH PASSWORD 'S3cret';",
            "create user u encrypted password\n\tE'a\\'S3cret'",
            "ALTER ROLE u PASSWORD $x$S3cret$x$",
            "CREATE USER MAPPING FOR u SERVER s OPTIONS (user 'u', password 'a''S3cret')",
            "PGPASSWORD=S3cret pg_receivewal",
            "PGPASSWORD=\"a S3cret\" pg_receivewal",
            "{\"password\": \"S3cret\"}",
            "aws_secret_access_key=S3cret",
            "AWS_SESSION_TOKEN=S3cret",
            "AccountKey=S3cret==;EndpointSuffix=x",
            "--set api_key=S3cret",
            "sslpassword=S3cret",
            "scram_client_key=S3cret",
            "Authorization: Basic S3cret",
            "authorization: S3cret",
            "curl -H 'Authorization: Bearer S3cretS3cretS3cret'",
            "found AKIAS3CRETS3CRETS3CR here",
            "https://a.blob.example/x?sv=1&sig=S3cret",
            "x?X-Amz-Signature=S3cret",
            "-----BEGIN RSA PRIVATE KEY-----\nS3cret\n-----END RSA PRIVATE KEY-----",
            "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,0\n\nS3cret\n-----END RSA PRIVATE KEY-----",
            "-----BEGIN PGP PRIVATE KEY BLOCK-----\nS3-S3cret\n-----END PGP PRIVATE KEY BLOCK-----",
            "Authorization: AWS4-HMAC-SHA256 Credential=S3cret/x, Signature=S3cret",
            "{\"apiKey\": \"S3cret\", \"db_pass\": \"S3cret\"}",
            "Server=h;Uid=u;Pwd=S3cret",
            "'SCRAM-SHA-256$4096:S3cretS3cret==$S3cret=:S3cret='",
            "DETAIL:  The failed archive command was: curl -u a:S3cret x",
            "LOG:  parameter \"archive_command\" changed to \"curl -u a:S3cret x\"",
            "alter system set restore_command to 'curl -u a:S3cret x'",
            "archive_command = curl -u a:S3cret %p",
            "SELECT dblink_connect('host=h password=S3cret')",
            "REGISTRY_TOKENS=S3cret,Other",
            "Authorization: Digest username=\"u\", uri=\"/x\", response=\"S3cret\"",
            "Digest username=\"u\", realm=\"x\", response=\"S3cret\"",
            "Signature keyId=\"x\",algorithm=\"hs2019\",signature=\"S3cret\"",
            "AWS4-HMAC-SHA256 SignedHeaders=host, Signature=S3cret",
        ] {
            let hidden = hidden(text);
            assert!(!hidden.to_lowercase().contains("s3cret"), "{text}\n{hidden}");
            assert!(is_marked(&hidden), "{hidden}");
        }
    }

    #[test]
    fn text_without_a_secret_is_unchanged() {
        for text in [
            "",
            "Access denied for user 'x' (using password: YES)",
            "a column password: varchar(64)",
            "password_encryption = scram-sha-256",
            "FATAL:  password authentication failed for user \"bench\"",
            "there is a password in it; put it into a password file (~/.pgpass)",
            "host=h user=u passfile=/home/u/.pgpass sslkey=/k",
            "archive_command = (disabled)",
            "archive_command = ''",
            "set `archive_command` to a command",
            "http://127.0.0.1:9100/metrics",
            "postgres://u@h:5432/d",
            "alter table t add primary key (id)",
            "select from t where token = $1 and secret = :secret;",
            "select abalance from pgbench_accounts where aid = $1",
            "ALTER ROLE u PASSWORD NULL",
            "host all all 127.0.0.1/32 password",
            "ssl_passphrase_command_supports_reload = off",
            "primary_conninfo = (hidden 1a2b3c)",
            "the first runs pass 'x', and pass 2 follows",
            "password_file = /etc/exporter.pass, token_env = EXPORTER",
            "PGPASSWORD=$PGPASSWORD psql",
            "Asia/Kolkata, Authorization failed, a cookie, key: x",
            "n_pass = 2",
            "max_tokens = 4096, top = 1",
            "UPDATE survey SET response=:r WHERE id=:id;",
            "response=12ms",
            "signature=$1",
            "{\"auth\": \"scram-sha-256\"}",
            "basic configuration of Basic functionality",
            "select 1 where digest = $1 and response=:r",
            "set search_path to secrets, public;",
            "alter role u set search_path to secrets, public;",
            "the server asiapacificnortheast is slow",
        ] {
            assert_eq!(hidden(text), text);
        }
    }

    #[test]
    fn what_is_around_a_secret_stays() {
        with_key();
        let mark = mark("S3cret");
        assert_eq!(hidden("host=h password=S3cret user=u"), format!("host=h password={mark} user=u"));
        assert_eq!(hidden("ALTER ROLE u PASSWORD 'S3cret';"), format!("ALTER ROLE u PASSWORD '{mark}';"));
        assert_eq!(hidden("postgres://u:S3cret@h/d"), format!("postgres://u:{mark}@h/d"));
    }

    #[test]
    fn names_decide_over_whole_values() {
        with_key();
        for (name, value, is_hidden) in [
            ("primary_conninfo", "host=h", true),
            ("server.settings.primary_conninfo", "host=h", true),
            ("archive_command", "cp %p /x", true),
            ("archive_command", "", false),
            ("archive_command", "(disabled)", false),
            ("archive_command", "/bin/true", false),
            ("my.password", "x", true),
            ("registry_tokens", "x", true),
            ("max_tokens", "4096", false),
            ("workload.defines.api-key", "x", true),
            ("password_encryption", "md5", false),
            ("work_mem", "4MB", false),
        ] {
            assert_eq!(is_secret(name, value), is_hidden, "{name} = {value}");
        }
        assert_ne!(hide_value("primary_conninfo", "host=a"), hide_value("primary_conninfo", "host=b"));
    }

    #[test]
    fn hidden_values_are_restored_from_a_text_that_has_them() {
        with_key();
        let given = r#"{"settings": {"primary_conninfo": ["a\"b", "c"]}, "script": "alter role u password 'S3cret'"}"#;
        let hidden = hide_json(given);
        assert!(!hidden.contains("S3cret") && is_marked(&hidden), "{hidden}");
        assert_eq!(Revealed::of_json(given).put_back(&hidden), given);
        let given = r#"{"before_run": ["curl", "-u", "bob:S3cret", "-H", "apikey: S3cret 2"], "via": ["sh", "-c", "sshpass -p S3cret ssh h"]}"#;
        let hidden = hide_json(given);
        assert!(!hidden.contains("S3cret") && is_marked(&hidden), "{hidden}");
        assert_eq!(Revealed::of_json(given).put_back(&hidden), given);
        let other = Revealed::of_json(r#"{"primary_conninfo": "d"}"#);
        assert!(is_marked(&other.put_back(&hidden)));
    }

    #[test]
    fn headers_are_restored_whatever_the_key() {
        for (scheme, n) in
            ["Bearer", "token", "Basic"].into_iter().flat_map(|scheme| (0..16).map(move |n| (scheme, n)))
        {
            let mut mark = |secret: &str| mark_by(&[n; 32], secret);
            let header = format!("Authorization: {scheme} S3cret");
            for given in [
                format!(r#"{{"before_run": "curl -H '{header}' https://h"}}"#),
                format!(r#"{{"before_run": ["curl", "-H", "{header}", "https://h"]}}"#),
                r#"{"before_run": "curl -H 'Cookie: token=S3cret; id=S3cret' https://h"}"#.to_string(),
            ] {
                let hidden = json::hide_by(&given, &mut mark).into_owned();
                assert!(!hidden.contains("S3cret"), "{hidden}");
                let revealed = Revealed::by(&given, &mut mark);
                assert_eq!(revealed.restore(&hidden), given);
                // As earlier versions wrote it.
                let inner = format!("{scheme} {}", mark("S3cret"));
                let nested = hidden.replace(&inner, &mark(&inner));
                assert_eq!(hidden.contains(&inner), given.contains(&header), "{hidden}");
                assert_eq!(revealed.restore(&nested), given);
            }
        }
    }
}
