//! Connection strings, read as libpq 18 reads them; neither network nor environment is asked.

#[cfg(test)]
mod against_libpq;

use super::settings::Settings;
use super::{ConninfoError, key_value, url};

/// The parser's result.
pub(super) struct Parsed {
    /// Keywords in the text.
    pub(super) given: Settings,
    /// Whether the text was a URL.
    pub(super) url: bool,
}

/// Parses a URL, a key=value string or a bare database name.
pub(super) fn parse(text: &str) -> Result<Parsed, ConninfoError> {
    let text = text.trim();
    let url = is_url(text);
    refuse_near_urls(text)?;
    if text.contains('\0') {
        return Err(ConninfoError::new("a connection string cannot contain a zero byte".to_owned()));
    }
    if !url && !text.is_empty() && !text.contains('=') {
        let given = Settings::from([("dbname".to_owned(), text.to_owned())]);
        return Ok(Parsed { given, url });
    }

    let given = as_libpq(text).map_err(|said| ConninfoError::new(redact(&said, text)))?;
    // The text before the last `@` is part of the password, and would be shown as a host name.
    if url && given.get("host").is_some_and(|host| host.contains('@')) {
        let text = "user or password of the URL has an `@` in it; write that as `%40`";
        return Err(ConninfoError::new(text));
    }
    Ok(Parsed { given, url })
}

/// What libpq makes of a URL or a key=value string. The error is in its words.
fn as_libpq(text: &str) -> Result<Settings, String> {
    if is_url(text) { url::parse(text) } else { key_value::parse(text) }
}

fn is_url(text: &str) -> bool {
    text.starts_with("postgres://") || text.starts_with("postgresql://")
}

/// Rejects texts that were meant as a URL, which would otherwise be taken for a database name.
fn refuse_near_urls(text: &str) -> Result<(), ConninfoError> {
    if is_url(text) {
        return Ok(());
    }
    for word in ["postgresql", "postgres"] {
        let Some(rest) = text.strip_prefix(word) else { continue };
        if rest.starts_with("//") {
            return Err(ConninfoError::new(format!("not a URL: missing \":\" after \"{word}\"")));
        }
        if rest.starts_with(":/") || (rest.starts_with(':') && rest.contains('@')) {
            return Err(ConninfoError::new(format!("not a URL: missing \"//\" after \"{word}:\"")));
        }
    }
    if text.starts_with("jdbc:") {
        return Err(ConninfoError::new(
            "a URL of PostgreSQL's libpq starts with `postgres://`: drop `jdbc:`",
        ));
    }
    let scheme = text.split("://").next().unwrap_or_default();
    let is_scheme =
        !scheme.is_empty() && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
    if scheme.len() < text.len() && is_scheme {
        return Err(ConninfoError::new(format!(
            "a PostgreSQL URL starts with `postgres://`, not `{scheme}://`"
        )));
    }
    Ok(())
}

/// libpq's message quotes the text around an error, which may be (part of) a password. Replaces every quoted piece that
/// overlaps the secret part of the text.
fn redact(message: &str, text: &str) -> String {
    let secret = secret_part(text);
    // Some messages quote the whole text at their end, including quotes inside it.
    let message = message.replace(text, "***");
    if secret.is_empty() {
        return message;
    }
    let mut out = String::new();
    for (i, piece) in message.split('"').enumerate() {
        let quoted = i % 2 == 1;
        let hidden = quoted && piece.len() > 1 && secret.contains(piece) && !is_option_name(piece, secret);
        if i > 0 {
            out.push('"');
        }
        out.push_str(if hidden { "***" } else { piece });
    }
    out
}

/// Whether `piece` looks like a keyword at its position. Text before an `@` is a password.
fn is_option_name(piece: &str, text: &str) -> bool {
    let after = text.rsplit_once(&format!("{piece}=")).map(|(_, after)| after);
    after.is_some_and(|after| !after.contains('@'))
        && piece.chars().all(|c| c.is_ascii_lowercase() || c == '_')
}

/// The text from the first place where a password may start; empty if there is none.
fn secret_part(text: &str) -> &str {
    let secrets = ["password", "client_secret", "scram_client_key", "scram_server_key"];
    let from_keywords = secrets.iter().filter_map(|keyword| Some(text.find(keyword)? + keyword.len()));
    let from_url = text.find("://").filter(|_| text.contains('@')).map(|at| at + 3);
    match from_keywords.chain(from_url).min() {
        Some(at) => &text[at..],
        None => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn texts_are_parsed_as_libpq_does() {
        let check = |text: &str, expected: &[(&str, &str)]| {
            let given = parse(text).map(|p| p.given).unwrap_or_else(|e| panic!("{text}: {e}"));
            let expected: BTreeMap<_, _> =
                expected.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
            assert_eq!(given, expected, "{text}");
        };
        check("", &[]);
        check("bench", &[("dbname", "bench")]);
        check("host=a port=1 dbname='x y'", &[("host", "a"), ("port", "1"), ("dbname", "x y")]);
        check(r"user=o\'neil", &[("user", "o'neil")]);
        check("postgres://", &[]);
        check(
            "postgresql://u%40x:p@[::1]:6000,h2/d?sslmode=verify-full",
            &[
                ("user", "u@x"),
                ("password", "p"),
                ("host", "::1,h2"),
                ("port", "6000,"),
                ("dbname", "d"),
                ("sslmode", "verify-full"),
            ],
        );
        check("postgres://%2Ftmp/d", &[("host", "/tmp"), ("dbname", "d")]);
        check("postgres:///d?host=/tmp&port=7", &[("host", "/tmp"), ("port", "7"), ("dbname", "d")]);
    }

    #[test]
    fn mistakes_are_named_and_passwords_are_not() {
        let check = |text: &str, expected: &str| match parse(text) {
            Ok(_) => panic!("{text} was accepted"),
            Err(error) => assert_eq!(error.to_string(), expected, "{text}"),
        };
        check("postgres//host/db", "not a URL: missing \":\" after \"postgres\"");
        check("postgresql//u:pw@host/db?x=y", "not a URL: missing \":\" after \"postgresql\"");
        check("postgres:/host/db", "not a URL: missing \"//\" after \"postgres:\"");
        check("postgres:u:pw@host/db", "not a URL: missing \"//\" after \"postgres:\"");
        check(
            "jdbc:postgresql://host/db",
            "a URL of PostgreSQL's libpq starts with `postgres://`: drop `jdbc:`",
        );
        check("mysql://host/db", "a PostgreSQL URL starts with `postgres://`, not `mysql://`");
        check("bogus=1", "invalid connection option \"bogus\"");
        check("password=x bogus=1", "invalid connection option \"bogus\"");
        check("postgres://h/d?bogus=1", "invalid URI query parameter: \"bogus\"");
        check("postgres://u:pw@h/d?reqire_auth=1", "invalid URI query parameter: \"reqire_auth\"");
        check("postgres://u:p/a?ss_word=x@h/d", "invalid URI query parameter: \"***\"");
        check("oauth_client_secret=my S3cret", "missing \"=\" after \"***\" in connection info string");
        check("password=my S3cretPw", "missing \"=\" after \"***\" in connection info string");
        check(
            "postgres://u:p@S3cret@h/d",
            "user or password of the URL has an `@` in it; write that as `%40`",
        );
        check("postgres://u:S3cret%zzPw@h/d", "invalid percent-encoded token: \"***\"");
        for text in ["postgres://u:S3cretPw@[::1/d", "postgres://u:S3cretPw@[::1]x/d", "password='S3cretPw"] {
            let said =
                parse(text).err().map(|e| e.to_string()).unwrap_or_else(|| panic!("{text} was accepted"));
            assert!(!said.contains("S3cret"), "{text}: {said}");
        }
    }
}
