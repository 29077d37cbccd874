//! Patterns of secrets in any text: a log, a statement, a message, a script.

use std::borrow::Cow;
use std::sync::LazyLock;

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use regex_lite::{Captures, Regex};

use super::{
    MARK, Marker, SETTINGS, commands, ends_weakly, is_environment, is_harmless, is_harmless_for,
    is_secret_word, tokens,
};

/// A name that may be that of a secret, up to what follows it.
const NAME: &str =
    r"(?P<name>[a-z0-9_.\-]*(?:pass|secret|token|credential|key|pwd|pw|jwt|auth)[a-z0-9_.\-]*)";

/// A quoted text with its content as `value`: nested in single quotes, escaped with backslashes, in SQL's quotes, in
/// double quotes, or between dollars. A missing end is the end of the text.
const QUOTED: &str = r#"(?:''(?P<nested>[^'\s,)][^']*)''|\\+["'](?P<escaped>(?:[^"'\\]|\\[^"'])*)|'(?P<single>(?:[^'\\]|''|\\.)*)|"(?P<double>(?:[^"\\]|\\.)*)|\$[a-z_]*\$(?P<dollar>[^$]*))"#;

/// A text without quotes, as long as any of its formats allows: better to hide too much than too little.
const BARE: &str = r#"(?P<bare>(?:\\.|[^\s'"\\<>`])+)"#;

const GROUPS: [&str; 8] = ["nested", "escaped", "single", "double", "dollar", "bare", BASIC, SAID];

/// The group of a value that is secret only if it is a user and a password in base64.
const BASIC: &str = "basic";
/// The group of a value that a sentence may have in its place.
const SAID: &str = "said";

struct Pattern {
    /// Every matching text contains one of these, in lower case: searching for them is cheap.
    needles: &'static [&'static str],
    /// And one of these signs, if there are any: most texts that name a secret do not contain its value.
    signs: &'static str,
    regex: Regex,
}

impl Pattern {
    /// Whether the pattern may match a text, also given in lower case.
    fn may_match(&self, text: &str, lower: &str) -> bool {
        let has_sign = || self.signs.is_empty() || text.contains(|sign| self.signs.contains(sign));
        self.needles.iter().any(|needle| lower.contains(needle)) && has_sign()
    }
}

/// Every quoted text begins with one of these.
const QUOTES: &str = r#"'"\$"#;

/// For each pattern, the first matching group of [`GROUPS`] is hidden.
static PATTERNS: LazyLock<Vec<Pattern>> = LazyLock::new(|| {
    let settings = SETTINGS.join("|");
    let words = &["pass", "secret", "token", "credential", "key", "pw", "jwt", "auth"];
    let pattern = |needles: &'static [&'static str], signs: &'static str, text: &str| Pattern {
        needles,
        signs,
        regex: Regex::new(&format!("(?is){text}")).expect("the patterns are fixed and tried by tests"),
    };
    vec![
        // A setting whose whole value is secret.
        pattern(
            &["_command", "conninfo", "ldap_"],
            QUOTES,
            &format!(r#"\b(?:{settings})\b["'`]?\s*(?:=|changed\s+to|to)\s*{QUOTED}"#),
        ),
        pattern(
            &["_command", "conninfo", "ldap_"],
            "=",
            &format!(r#"\b(?:{settings})\b["'`]?\s*=\s*(?P<bare>[^\s'"][^\n]*)"#),
        ),
        // The server's log quotes the command that failed.
        pattern(&["command was:"], "", r"command was:\s*(?P<bare>[^\n]+)"),
        // All of them, before one alone is found by its name.
        pattern(&["cookie"], ":", r#"\bcookie\s*:[ \t]*(?P<bare>[^'"\\\n]+)"#),
        // password=x, PGPASSWORD='x y', sslpassword = "x".
        pattern(words, "=", &format!(r"{NAME}\s*=\s*(?:{QUOTED}|{BARE})")),
        // PASSWORD 'x', "password": "x".
        pattern(words, QUOTES, &format!(r#"{NAME}\\*["']?(?:\s*:\s*|\s+)(?:e|u&)?{QUOTED}"#)),
        // password: x, as a sentence or a file says it. A colon follows `token` and `key` in other sentences, too.
        pattern(
            &["pass"],
            ":",
            r#"\b[a-z0-9_.]*(?:password|passwd|passphrase|passcode)[ \t]*:[ \t]+(?P<said>[^\s'"\\<>`$][^\s'"\\<>`]*)"#,
        ),
        pattern(
            &["secret", "token", "key"],
            ":",
            r#"\b(?:[a-z0-9_.]*(?:secret|token)|(?:api|access|secret|private|license|encryption)[ _\-]?key)[ \t]*:[ \t]+(?P<said>[^\s'"\\<>`$]*[0-9][^\s'"\\<>`]*)"#,
        ),
        // scheme://user:password@host; a password may contain any character that its writer forgot to encode.
        pattern(&["://"], "@", r#"\b[a-z][a-z0-9+.\-]*://[^\s/?#'"@:]*:(?P<bare>[^\s'"<>]*)@"#),
        pattern(&["http"], "@", r#"\bhttps?://(?P<bare>[^\s/?#'"@:]+)@"#),
        // A token in place of a user.
        pattern(&["://"], "@", r#"\b(?:nats|tls|wss?)://(?P<bare>[^\s/?#'"@:]+)@"#),
        pattern(
            &["authorization"],
            "",
            r#"\bauthorization\\*["']?\s*[:=]\s*\\*["']?(?:[a-z][a-z0-9\-]*[ \t]+)?(?P<bare>[^\s'",\\][^\s'"]*)"#,
        ),
        // Files of Docker and npm.
        pattern(&["auth"], QUOTES, r#"\\?["']_?auth\\?["']\s*:\s*\\?["'](?P<bare>[^"'\\\s]{8,})"#),
        pattern(&["_auth"], "=", r#"(?:^|[\s/:'"])_auth\s*=\s*(?P<bare>[^\s'"]+)"#),
        pattern(&["basic"], "", r"\bbasic\s+(?P<basic>[a-z0-9+/]{8,}={0,2})"),
        pattern(
            &["-key", "-auth", "-sess", "-sig"],
            ":",
            r#"\bx-[a-z0-9\-]*(?:key|auth|authentication|session|signature)\s*:[ \t]*(?P<bare>[^\s'"\\<>`:][^\s'"\\<>`]*)"#,
        ),
        // The header of a request that is signed or digested; statements and logs have columns and times of these names.
        pattern(
            &["signature=", "response="],
            "",
            r#"\b(?:digest|aws4-hmac-sha256|signature):?\s+(?:[a-z]+=|\(hidden)[^\n]*?\b(?:signature|response)="?(?P<bare>[^\s'",&]+)"#,
        ),
        // X-Api-Key: x. Without a hyphen, a name and a colon are part of a sentence as often.
        pattern(
            words,
            ":",
            r#"\b(?P<name>[a-z0-9_]+-[a-z0-9_\-]*(?:pass|secret|token|credential|key)[a-z0-9_\-]*|(?:pass|secret|token|credential|key)[a-z0-9_]*-[a-z0-9_\-]+|apikey|api_key)\s*:[ \t]*(?P<bare>[^\s'"\\<>`:][^\s'"\\<>`]*)"#,
        ),
        pattern(&["bearer"], "", r"\bbearer\s+(?P<bare>[a-z0-9._~+/=\-]{16,})"),
        pattern(tokens::NEEDLES, "", &tokens::pattern()),
        // Addresses that grant access by themselves.
        pattern(
            &["sig", "key=", "code=", "auth="],
            "=",
            r#"[?&](?:sig|signature|x-amz-signature|x-goog-signature|key|code|auth)=(?P<bare>[^&\s'"]+)"#,
        ),
        // Its lines may have hyphens of their own.
        pattern(
            &["private key"],
            "",
            r"-----BEGIN [A-Z ]*PRIVATE KEY(?: BLOCK)?-----(?P<bare>.+?)(?:-----END|\z)",
        ),
        // Lines of files of passwords that a command writes: ~/.netrc, ~/.pgpass.
        pattern(&["login"], "", r#"\blogin\s+\S+\s+password\s+(?P<bare>[^\s'"\\]+)"#),
        pattern(&["pgpass"], ":", r#"[^\s:'"]*:(?:[0-9]{1,5}|\*):[^\s:'"]+:[^\s:'"]+:(?P<bare>[^\s'"\\]+)"#),
        // The stored form of a password on the server.
        pattern(&["scram-sha-256$"], "", r#"\bSCRAM-SHA-256\$(?P<bare>[^\s'"]+)"#),
        pattern(&["md5"], "", r"\bmd5(?P<bare>[0-9a-f]{32})\b"),
    ]
});

/// Each needle, and each name of a secret, contains one of these.
const TRACES: [&[u8]; 31] = [
    b"sqlplus",
    b"userid=",
    b"expdp",
    b"impdp",
    b"rman",
    b"mysqlsh",
    b"db2",
    b"conn",
    b"ldap_",
    b"command",
    b"pass",
    b"secr",
    b"toke",
    b"cred",
    b"key",
    b"pw",
    b"jwt",
    b"://",
    b"http",
    b"auth",
    b"bear",
    b"sig",
    b"response=",
    b"code=",
    b"cookie",
    b"login",
    b"scra",
    b"md5",
    b"basic",
    b"-sess",
    b"add_user",
];

/// Those, and what tokens begin with.
fn traces() -> impl Iterator<Item = &'static [u8]> {
    TRACES.into_iter().chain(tokens::NEEDLES.iter().map(|needle| needle.as_bytes()))
}

/// The traces by the two bytes with which they begin, in small or capital letters.
struct Beginnings {
    /// For each pair of bytes, the place in `groups` of the traces that begin with it; 0 where none does.
    group_of: Vec<u8>,
    groups: Vec<Vec<&'static [u8]>>,
}

static BEGINNINGS: LazyLock<Beginnings> = LazyLock::new(|| {
    let mut group_of = vec![0; 1 << 16];
    let mut groups = vec![Vec::new()];
    for trace in traces() {
        let both = |at: usize| [trace[at].to_ascii_lowercase(), trace[at].to_ascii_uppercase()];
        let pairs = both(0).into_iter().flat_map(|first| both(1).map(|second| pair(first, second)));
        let pairs: Vec<usize> = pairs.collect();
        if group_of[pairs[0]] == 0 {
            let group = u8::try_from(groups.len()).expect("fewer traces than that");
            pairs.iter().for_each(|pair| group_of[*pair] = group);
            groups.push(Vec::new());
        }
        groups[usize::from(group_of[pairs[0]])].push(trace);
    }
    Beginnings { group_of, groups }
});

fn pair(first: u8, second: u8) -> usize {
    usize::from(first) << 8 | usize::from(second)
}

/// Whether `text` may contain a secret or its name. A report asks this of millions of texts, and of nearly all it is false.
pub(super) fn may_be_secret(text: &str) -> bool {
    let (bytes, Beginnings { group_of, groups }) = (text.as_bytes(), &*BEGINNINGS);
    let is_at = |at: usize, trace: &[u8]| {
        bytes.get(at..at + trace.len()).is_some_and(|part| part.eq_ignore_ascii_case(trace))
    };
    bytes.windows(2).enumerate().any(|(at, two)| match group_of[pair(two[0], two[1])] {
        0 => false,
        group => groups[usize::from(group)].iter().any(|trace| is_at(at, trace)),
    })
}

/// `text` with each secret replaced by its mark.
pub(super) fn hide<'a>(text: &'a str, mark: Marker) -> Cow<'a, str> {
    let may_be_secret = may_be_secret(text);
    let hidden = if may_be_secret { hide_patterns(text, mark) } else { Cow::Borrowed(text) };
    match commands::hide(&hidden, may_be_secret, mark) {
        Cow::Owned(more) => Cow::Owned(more),
        Cow::Borrowed(_) => hidden,
    }
}

fn hide_patterns<'a>(text: &'a str, mark: Marker) -> Cow<'a, str> {
    let lower = text.to_ascii_lowercase();
    let mut hidden = Cow::Borrowed(text);
    for pattern in PATTERNS.iter() {
        if pattern.may_match(text, &lower)
            && let Some(changed) = replace(&pattern.regex, &hidden, mark)
        {
            hidden = Cow::Owned(changed);
        }
    }
    hidden
}

/// `text` without what `regex` finds; `None` if it finds nothing.
fn replace(regex: &Regex, text: &str, mark: Marker) -> Option<String> {
    let mut changed = String::new();
    let mut done = 0;
    let mut at = 0;
    while let Some(found) = regex.captures_at(text, at) {
        let whole = found.get(0)?;
        at = whole.end().max(at + 1);
        if let Some(range) = secret_in(&found) {
            changed.push_str(&text[done..range.start]);
            changed.push_str(&mark(&text[range.clone()]));
            done = range.end;
        } else if let Some(name) = found.name("name") {
            // The match after a harmless name may begin within its value.
            at = name.end();
        }
        while !text.is_char_boundary(at) && at < text.len() {
            at += 1;
        }
        if at >= text.len() {
            break;
        }
    }
    (done > 0).then(|| changed + &text[done..])
}

fn secret_in(found: &Captures) -> Option<std::ops::Range<usize>> {
    if found.name("name").is_some_and(|name| !is_secret_word(name.as_str())) {
        return None;
    }
    let value = GROUPS.iter().find_map(|group| found.name(group))?;
    let before = found.get(0)?.as_str().get(..value.start() - found.get(0)?.start())?;
    let is_none = |name: &str| {
        // A sentence says that tests pass "so"; a shell, that a word comes from elsewhere.
        let is_said = ends_weakly(&name.to_ascii_lowercase()) && !before.contains(['=', ':']);
        is_said
            || is_variable(before, value.as_str())
            || is_environment(value.as_str())
            || is_harmless_for(name, value.as_str())
    };
    let is_none = found.name("name").is_some_and(|name| is_none(name.as_str()));
    let is_none = is_none || found.name(BASIC).is_some_and(|value| !has_password(value.as_str()));
    let is_none = is_none || found.name(SAID).is_some_and(|value| commands::is_prose(value.as_str()));
    let whole = found.get(0)?.as_str().to_ascii_lowercase();
    // Its credential is another word.
    let is_scheme = || whole.starts_with("authorization") && commands::has_scheme(value.as_str());
    let is_method = || whole.contains("auth\"") && commands::is_method(value.as_str());
    let is_none = is_none || is_scheme() || is_method();
    let is_hidden = value.as_str().contains(MARK);
    (!is_none && !is_hidden && !is_harmless(value.as_str())).then(|| value.range())
}

/// Whether a text in base64 is a user and a password.
fn has_password(text: &str) -> bool {
    let decoded = STANDARD_NO_PAD.decode(text.trim_end_matches('=')).unwrap_or_default();
    std::str::from_utf8(&decoded).is_ok_and(|text| text.contains(':') && !text.contains(char::is_control))
}

/// Whether a value is a parameter of a statement or a variable of a script: `token = $1`, `token = :token`. A password
/// may begin with a colon, but a connection string has no space before it.
fn is_variable(before: &str, value: &str) -> bool {
    let name = value.trim_end_matches([',', ';', ')']);
    let is_word =
        |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    match (name.strip_prefix('$'), name.strip_prefix(':')) {
        (Some(number), _) => number.parse::<u16>().is_ok(),
        (_, Some(variable)) => before.ends_with(' ') && is_word(variable),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secret::WORDS;

    #[test]
    fn every_needle_and_name_has_a_trace() {
        let needles = PATTERNS.iter().flat_map(|pattern| pattern.needles.iter());
        for text in needles.chain(&WORDS).chain(&SETTINGS) {
            assert!(may_be_secret(text) && may_be_secret(&text.to_uppercase()), "{text}");
            assert!(may_be_secret(&format!("ü{text}ü")), "{text}");
        }
        for text in ["", "k", "work_mem", "ke", "ISO, MDY", "pas", "::/"] {
            assert!(!may_be_secret(text), "{text}");
        }
    }
}
