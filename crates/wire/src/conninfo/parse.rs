//! Calls libpq's own parser of connection strings, which touches neither network nor environment.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_char};
use std::ptr;

use super::ConninfoError;

/// The parser's result.
pub(super) struct Parsed {
    /// Keywords in the text.
    pub(super) given: BTreeMap<String, String>,
    /// Every libpq keyword with its environment variable.
    pub(super) known: Vec<(String, Option<String>)>,
    /// Whether the text was a URL.
    pub(super) url: bool,
}

/// Parses a URL, a key=value string or a bare database name.
pub(super) fn parse(text: &str) -> Result<Parsed, ConninfoError> {
    let text = text.trim();
    let url = is_url(text);
    refuse_near_urls(text)?;
    let bare_name = !url && !text.is_empty() && !text.contains('=');
    let (given, known) = call_libpq(if bare_name { "" } else { text })?;
    // The text before the last `@` is part of the password, and would be shown as a host name.
    if url && given.get("host").is_some_and(|host| host.contains('@')) {
        let text = "user or password of the URL has an `@` in it; write that as `%40`";
        return Err(ConninfoError::new(text));
    }
    let mut parsed = Parsed { given, known, url };
    if bare_name {
        parsed.given.insert("dbname".to_owned(), text.to_owned());
    }
    Ok(parsed)
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

type Settings = (BTreeMap<String, String>, Vec<(String, Option<String>)>);

fn call_libpq(text: &str) -> Result<Settings, ConninfoError> {
    let c_text = CString::new(text)
        .map_err(|_| ConninfoError::new("a connection string cannot contain a zero byte".to_owned()))?;
    let mut message: *mut c_char = ptr::null_mut();
    // SAFETY: `c_text` outlives the call; libpq allocates what it returns and we free it below.
    let options = unsafe { pq_sys::PQconninfoParse(c_text.as_ptr(), &mut message) };
    if options.is_null() {
        let said = copy(message).unwrap_or_else(|| "out of memory".to_owned());
        // SAFETY: `message` was allocated by libpq (or is null, which PQfreemem accepts).
        unsafe { pq_sys::PQfreemem(message.cast()) };
        return Err(ConninfoError::new(redact(said.trim(), text)));
    }
    let mut given = BTreeMap::new();
    let mut known = Vec::new();
    let mut at = options;
    loop {
        // SAFETY: the array ends with an entry whose keyword is null, at which the loop stops.
        let option = unsafe { &*at };
        let Some(keyword) = copy(option.keyword) else { break };
        if let Some(value) = copy(option.val) {
            given.insert(keyword.clone(), value);
        }
        known.push((keyword, copy(option.envvar)));
        // SAFETY: not yet at the last entry, see above.
        at = unsafe { at.add(1) };
    }
    // SAFETY: `options` came from PQconninfoParse and is not used afterwards.
    unsafe { pq_sys::PQconninfoFree(options) };
    Ok((given, known))
}

fn copy(text: *const c_char) -> Option<String> {
    if text.is_null() {
        return None;
    }
    // SAFETY: libpq's strings end with a zero byte and live until they are freed by the caller.
    Some(unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
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

    /// A keyword that is parsed and then ignored would connect in a way that the user ruled out: whoever links a newer
    /// libpq has to decide on each keyword it adds.
    #[test]
    fn every_keyword_of_the_linked_libpq_has_been_decided_on() {
        let taken = "service user password passfile channel_binding connect_timeout dbname host hostaddr port \
                     client_encoding options application_name fallback_application_name tcp_user_timeout sslmode \
                     sslnegotiation sslcert sslkey sslpassword sslcertmode sslrootcert sslcrl sslsni require_auth min_protocol_version \
                     max_protocol_version ssl_min_protocol_version ssl_max_protocol_version target_session_attrs \
                     load_balance_hosts keepalives keepalives_idle keepalives_interval keepalives_count";
        let refused = "sslcrldir requirepeer gssencmode replication scram_client_key \
                       scram_server_key sslkeylogfile";
        // Keywords for features we never use: compression, Kerberos, OAuth.
        let without_effect = "sslcompression krbsrvname gsslib gssdelegation oauth_issuer oauth_client_id \
                              oauth_client_secret oauth_scope";
        let mut decided: Vec<&str> =
            [taken, refused, without_effect].iter().flat_map(|list| list.split_whitespace()).collect();
        decided.sort();
        let parsed = parse("").unwrap();
        let mut known: Vec<&str> = parsed.known.iter().map(|(keyword, _)| &**keyword).collect();
        known.sort();
        assert_eq!(known, decided);
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
