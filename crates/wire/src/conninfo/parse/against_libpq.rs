//! Compares the parser with libpq's own, which only these tests link.

use std::ffi::{CStr, CString, c_char};
use std::ptr;

use super::as_libpq;
use crate::conninfo::keywords::KEYWORDS;
use crate::conninfo::settings::Settings;

/// Keywords with their environment variables.
type Variables = Vec<(String, Option<String>)>;

/// What libpq makes of a text, and all keywords that it knows. The error is what it says.
fn libpq(text: &str) -> Result<(Settings, Variables), String> {
    let c_text = CString::new(text).unwrap();
    let mut message: *mut c_char = ptr::null_mut();
    // SAFETY: `c_text` outlives the call; libpq allocates what it returns and we free it below.
    let options = unsafe { pq_sys::PQconninfoParse(c_text.as_ptr(), &mut message) };
    if options.is_null() {
        let said = copy(message).unwrap();
        // SAFETY: `message` was allocated by libpq.
        unsafe { pq_sys::PQfreemem(message.cast()) };
        return Err(said.trim_end_matches('\n').to_owned());
    }
    let (mut given, mut known) = (Settings::new(), Vec::new());
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

#[test]
fn the_keywords_and_their_variables_are_libpqs() {
    let ours = KEYWORDS.iter().map(|k| (k.name.to_owned(), k.variable.map(str::to_owned)));
    assert_eq!(ours.collect::<Variables>(), libpq("").unwrap().1);
}

/// A keyword that is parsed and then ignored would connect in a way that the user ruled out: whoever adds those of a newer libpq has to
/// decide on each one.
#[test]
fn every_keyword_has_been_decided_on() {
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
    let mut known: Vec<&str> = KEYWORDS.iter().map(|keyword| keyword.name).collect();
    known.sort();
    assert_eq!(known, decided);
}

/// Pieces of which texts are made, with all that the two grammars give a meaning.
const PIECES: [&str; 60] = [
    "host",
    "port",
    "user",
    "password",
    "dbname",
    "sslmode",
    "requiressl",
    "ssl",
    "bogus",
    "options",
    "=",
    "=",
    "=",
    " ",
    " ",
    "\t",
    "\u{b}",
    "\r",
    "\n",
    "'",
    "'",
    "\\",
    "\\'",
    "\\\\",
    ":",
    ":",
    "@",
    "/",
    "/",
    "?",
    "?",
    "&",
    "&",
    ",",
    "[",
    "]",
    "[::1]",
    "::1",
    "%20",
    "%40",
    "%00",
    "%",
    "%zz",
    "%2",
    "%C3%A9",
    "%ff",
    "é",
    "a",
    "b",
    "1",
    "0",
    "true",
    "require",
    "localhost",
    "127.0.0.1",
    "5432",
    "'x y'",
    "host=a",
    "=1",
    "\"",
];

#[test]
fn many_texts_mean_what_they_mean_to_libpq() {
    let mut state = 20_260_101_u64;
    let mut draw = |n: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % n
    };
    let starts = ["", "postgres://", "postgresql://", "host=", "postgres://u:p@", "postgres://h/d?"];
    let (mut n_good, mut n_bad) = (0, 0);
    for _ in 0..200_000 {
        let mut text = starts[draw(starts.len())].to_owned();
        for _ in 0..draw(9) {
            text.push_str(PIECES[draw(PIECES.len())]);
        }
        // A bare name, which libpq takes for a keyword, never gets to this parser.
        let expected = libpq(&text).map(|(given, _)| given);
        if expected.is_ok() {
            n_good += 1;
        } else {
            n_bad += 1;
        }
        let ours = as_libpq(&text);
        // libpq names one byte of a longer character.
        if ours.as_ref().is_err_and(|said| said.starts_with("unexpected character \"é")) {
            assert!(expected.is_err_and(|said| said.starts_with("unexpected character")), "{text:?}");
            continue;
        }
        assert_eq!(ours, expected, "{text:?}");
    }
    assert!(n_good > 20_000 && n_bad > 20_000, "{n_good} good, {n_bad} bad");
}
