//! What a message says: its words recognized.

use crate::log::time;

/// A message of the server about statements or sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Said<'a> {
    /// `duration: 0.5 ms`, without a text.
    Duration(u64),
    /// A simple query, with its duration if it has been executed.
    Statement { text: &'a [u8], duration_us: Option<u64> },
    /// A step of the extended protocol.
    Step { step: Step, name: &'a [u8], text: &'a [u8], duration_us: Option<u64> },
    /// Begin of a connection.
    Received,
    /// User and database are known.
    Authorized,
    /// End of a connection.
    Disconnected,
    /// A call by the fast path.
    FastPath,
    /// auto_explain.
    Plan,
    /// pgaudit.
    Audit,
    /// `received replication command: …`.
    Replication,
    /// Looks like a duration with text in another language.
    OtherLanguage,
    /// Anything else.
    Other,
}

/// Steps of the extended protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    Parse,
    Bind,
    Execute,
    /// More rows of a portal.
    Fetch,
}

/// Recognizes a message.
pub(super) fn said(message: &[u8]) -> Said<'_> {
    match message.first() {
        Some(b'd') if message.starts_with(b"duration: ") => after_duration(&message[10..]),
        Some(b'd') if message.starts_with(b"disconnection: ") => Said::Disconnected,
        Some(b's') if message.starts_with(b"statement: ") => {
            Said::Statement { text: &message[11..], duration_us: None }
        }
        Some(b'e') if message.starts_with(b"execute ") => step(message, None).unwrap_or(Said::Other),
        Some(b'f') if message.starts_with(b"fastpath function call: ") => Said::FastPath,
        Some(b'c') if message.starts_with(b"connection received: ") => Said::Received,
        Some(b'c') if message.starts_with(b"connection authorized: ") => Said::Authorized,
        Some(b'c') if message.starts_with(b"connection authenticated: ") => Said::Authorized,
        Some(b'r') if message.starts_with(b"replication connection authorized: ") => Said::Authorized,
        Some(b'r') if message.starts_with(b"received replication command: ") => Said::Replication,
        Some(b'A') if message.starts_with(b"AUDIT: ") => Said::Audit,
        _ if is_foreign_duration(message) => Said::OtherLanguage,
        _ => Said::Other,
    }
}

/// The rest of a message after `duration: `.
fn after_duration(text: &[u8]) -> Said<'_> {
    let Some((duration_us, rest)) = milliseconds(text) else { return Said::Other };
    let rest = rest.trim_ascii_start();
    if rest.is_empty() {
        return Said::Duration(duration_us);
    }
    let duration_us = Some(duration_us);
    if let Some(text) = rest.strip_prefix(b"statement: ") {
        return Said::Statement { text, duration_us };
    }
    if rest.starts_with(b"plan:") {
        return Said::Plan;
    }
    if rest.starts_with(b"fastpath function call: ") {
        return Said::FastPath;
    }
    step(rest, duration_us).unwrap_or(Said::Other)
}

/// `parse NAME: TEXT` and the like.
fn step(text: &[u8], duration_us: Option<u64>) -> Option<Said<'_>> {
    const STEPS: [(&[u8], Step); 4] = [
        (b"parse ", Step::Parse),
        (b"bind ", Step::Bind),
        (b"execute fetch from ", Step::Fetch),
        (b"execute ", Step::Execute),
    ];
    let (word, step) = STEPS.into_iter().find(|(word, _)| text.starts_with(word))?;
    let rest = &text[word.len()..];
    let colon = memchr::memmem::find(rest, b": ").or_else(|| rest.strip_suffix(b":").map(<[u8]>::len))?;
    // `name/portal`.
    let name = rest[..colon].split(|byte| *byte == b'/').next().unwrap_or_default();
    Some(Said::Step { step, name, text: rest.get(colon + 2..).unwrap_or_default(), duration_us })
}

/// Longest duration that is believed, microseconds: ten years.
const DURATION_US_MAX: u64 = 10 * 366 * 86_400 * 1_000_000;

/// `0.056 ms` as microseconds, and what follows.
fn milliseconds(text: &[u8]) -> Option<(u64, &[u8])> {
    let whole = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let ms = u64::try_from(time::number(&text[..whole])?)
        .ok()?
        .checked_mul(1000)
        .filter(|us| *us <= DURATION_US_MAX)?;
    let rest = &text[whole..];
    let (us, rest) = match rest {
        [b'.', a @ b'0'..=b'9', b @ b'0'..=b'9', c @ b'0'..=b'9', rest @ ..] => {
            let digit = |byte: &u8| u64::from(byte - b'0');
            (digit(a) * 100 + digit(b) * 10 + digit(c), rest)
        }
        rest => (0, rest),
    };
    let all_us = Some(ms + us).filter(|us| *us <= DURATION_US_MAX)?;
    Some((all_us, rest.strip_prefix(b" ms")?))
}

/// `Dauer: 0.056 ms  Anweisung: …`, `durée : 0.056 ms`: a word, a colon, milliseconds with three digits.
fn is_foreign_duration(message: &[u8]) -> bool {
    let window = &message[..message.len().min(40)];
    let Some(at) = window.iter().position(u8::is_ascii_digit) else { return false };
    let has_colon = window[..at].trim_ascii_end().ends_with(b":") || window[..at].ends_with("：".as_bytes());
    let digits = &message[at..];
    let whole = digits.iter().take_while(|byte| byte.is_ascii_digit()).count();
    has_colon
        && at <= 30
        && !window[..at].trim_ascii().contains(&b' ') | window[..at].trim_ascii_end().ends_with(b" :")
        && digits.get(whole) == Some(&b'.')
        && milliseconds(digits).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_recognized() {
        let check =
            |message: &str, expected: Said| assert_eq!(said(message.as_bytes()), expected, "{message}");
        let step = |step, name: &'static str, text: &'static str, duration_us| Said::Step {
            step,
            name: name.as_bytes(),
            text: text.as_bytes(),
            duration_us,
        };
        check("duration: 0.056 ms", Said::Duration(56));
        check("duration: 688786.283 ms", Said::Duration(688_786_283));
        check(
            "duration: 1.500 ms  statement: select 1",
            Said::Statement { text: b"select 1", duration_us: Some(1500) },
        );
        check("statement: select 1", Said::Statement { text: b"select 1", duration_us: None });
        check("duration: 0.001 ms  parse <unnamed>: a: b", step(Step::Parse, "<unnamed>", "a: b", Some(1)));
        check("duration: 0.001 ms  bind S_1/C_2: a", step(Step::Bind, "S_1", "a", Some(1)));
        check("execute P0_7: a", step(Step::Execute, "P0_7", "a", None));
        check("execute fetch from S_1/C_2: a", step(Step::Fetch, "S_1", "a", None));
        check("execute <unnamed>: ", step(Step::Execute, "<unnamed>", "", None));
        check("duration: 3.1 ms  plan:\nQuery Text: a", Said::Other);
        check("duration: 3.100 ms  plan:\nQuery Text: a", Said::Plan);
        check("Dauer: 0.056 ms  Anweisung: select 1", Said::OtherLanguage);
        check("durée : 0.056 ms, instruction : select 1", Said::OtherLanguage);
        check("checkpoint complete: wrote 34 buffers (0.0%)", Said::Other);
        check(
            "process 4882 still waiting for ShareLock on transaction 259635360 after 1000.119 ms",
            Said::Other,
        );
        check("", Said::Other);
        check("duration: ", Said::Other);
    }
}
