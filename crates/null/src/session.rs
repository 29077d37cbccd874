//! What the look-alike answers on one connection: messages in, messages out, no sockets.

use std::collections::HashMap;

/// The longest message that is accepted, in bytes.
const MESSAGE_BYTES_MAX: usize = 1 << 20;
const SSL_REQUEST: u32 = 80_877_103;
const GSS_REQUEST: u32 = 80_877_104;
const CANCEL_REQUEST: u32 = 80_877_102;

/// What a statement does to the transaction block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Effect {
    Begin,
    End,
    None,
}

/// What the answer to a statement says and does.
#[derive(Debug, Clone, Copy)]
struct Completion {
    effect: Effect,
    /// The command tag.
    tag: &'static [u8],
}

/// One connection.
#[derive(Debug, Default)]
pub(crate) struct NullSession {
    is_started: bool,
    in_block: bool,
    /// Completions of the prepared statements, by name.
    statements: HashMap<Vec<u8>, Completion>,
    /// The statement that is bound to the portal.
    bound: Option<Completion>,
    inbox: Vec<u8>,
}

/// The result of a piece of input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct InputResult {
    /// Bytes at the beginning of the answer to be sent at once.
    pub(crate) at_once: usize,
    /// Statements that ended, each of which takes a service time.
    pub(crate) n_statements: u32,
    /// Whether the client has terminated, or speaks another protocol.
    pub(crate) is_over: bool,
}

impl NullSession {
    /// Handles input of the client and appends the answer to `out`.
    pub(crate) fn hear(&mut self, input: &[u8], out: &mut Vec<u8>) -> InputResult {
        let mut heard = InputResult { at_once: 0, n_statements: 0, is_over: false };
        self.inbox.extend_from_slice(input);
        let inbox = std::mem::take(&mut self.inbox);
        let mut rest = &inbox[..];
        while !heard.is_over {
            let header = if self.is_started { 5 } else { 4 };
            if rest.len() < header {
                break;
            }
            let (tag, length) = (rest[0], word(&rest[header - 4..]) as usize);
            if !(4..=MESSAGE_BYTES_MAX).contains(&length) {
                heard.is_over = true;
                break;
            }
            let end = header - 4 + length;
            if rest.len() < end {
                break;
            }
            let body = &rest[header..end];
            if self.is_started {
                self.message(tag, body, out, &mut heard);
            } else {
                self.startup(body, out, &mut heard);
                heard.at_once = out.len();
            }
            rest = &rest[end..];
        }
        self.inbox = rest.to_vec();
        heard
    }

    fn startup(&mut self, body: &[u8], out: &mut Vec<u8>, heard: &mut InputResult) {
        if body.len() < 4 {
            heard.is_over = true;
            return;
        }
        match word(body) {
            SSL_REQUEST | GSS_REQUEST => out.push(b'N'),
            CANCEL_REQUEST => heard.is_over = true,
            _ => {
                self.is_started = true;
                message(out, b'R', &0u32.to_be_bytes());
                for parameter in ["server_version\x0018.0 (pgdyno null)\0", "client_encoding\0UTF8\0"] {
                    message(out, b'S', parameter.as_bytes());
                }
                message(out, b'K', &[0, 0, 0, 1, 0, 0, 0, 2]);
                message(out, b'Z', b"I");
            }
        }
    }

    fn message(&mut self, tag: u8, body: &[u8], out: &mut Vec<u8>, heard: &mut InputResult) {
        match tag {
            b'Q' => {
                self.complete(effect(body), out, heard);
                self.ready(out);
            }
            b'P' => {
                let (name, sql) = cut(body);
                self.statements.insert(name.to_vec(), effect(sql));
                message(out, b'1', b"");
            }
            b'B' => {
                let (_portal, after) = cut(body);
                self.bound = self.statements.get(cut(after).0).copied();
                message(out, b'2', b"");
            }
            b'D' => message(out, b'n', b""),
            b'E' => {
                let bound = self.bound.unwrap_or(Completion { effect: Effect::None, tag: b"SELECT 0\0" });
                self.complete(bound, out, heard);
            }
            b'C' => message(out, b'3', b""),
            b'S' => self.ready(out),
            b'X' => heard.is_over = true,
            // Flush and other messages that need no answer.
            _ => {}
        }
    }

    fn complete(&mut self, completed: Completion, out: &mut Vec<u8>, heard: &mut InputResult) {
        match completed.effect {
            Effect::Begin => self.in_block = true,
            Effect::End => self.in_block = false,
            Effect::None => {}
        }
        heard.n_statements += 1;
        message(out, b'C', completed.tag);
    }

    fn ready(&self, out: &mut Vec<u8>) {
        message(out, b'Z', if self.in_block { b"T" } else { b"I" });
    }
}

/// What a statement does, and its command tag.
fn effect(sql: &[u8]) -> Completion {
    let sql = sql.trim_ascii_start();
    let starts = |word: &[u8]| sql.len() >= word.len() && sql[..word.len()].eq_ignore_ascii_case(word);
    if starts(b"begin") || starts(b"start") {
        Completion { effect: Effect::Begin, tag: b"BEGIN\0" }
    } else if starts(b"end") || starts(b"commit") {
        Completion { effect: Effect::End, tag: b"COMMIT\0" }
    } else if starts(b"rollback") || starts(b"abort") {
        Completion { effect: Effect::End, tag: b"ROLLBACK\0" }
    } else if starts(b"update") {
        Completion { effect: Effect::None, tag: b"UPDATE 1\0" }
    } else if starts(b"insert") {
        Completion { effect: Effect::None, tag: b"INSERT 0 1\0" }
    } else {
        Completion { effect: Effect::None, tag: b"SELECT 0\0" }
    }
}

/// A zero-terminated string and what follows it.
fn cut(bytes: &[u8]) -> (&[u8], &[u8]) {
    let end = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
    (&bytes[..end], bytes.get(end + 1..).unwrap_or_default())
}

fn word(bytes: &[u8]) -> u32 {
    u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}

fn message(out: &mut Vec<u8>, tag: u8, body: &[u8]) {
    out.push(tag);
    out.extend_from_slice(&(body.len() as u32 + 4).to_be_bytes());
    out.extend_from_slice(body);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn started() -> NullSession {
        let mut session = NullSession::default();
        let mut out = Vec::new();
        let heard = session.hear(b"\0\0\0\x08\0\x03\0\0", &mut out);
        assert_eq!(heard, InputResult { at_once: out.len(), n_statements: 0, is_over: false });
        assert!(out.ends_with(b"Z\0\0\0\x05I"));
        session
    }

    #[test]
    fn prepared_statements_are_answered_and_blocks_followed() {
        let input: &[u8] = b"P\0\0\0\x0ds\0BEGIN\0\0B\0\0\0\x06\0sE\0\0\0\x09\0\0\0\0\0S\0\0\0\x04";
        // This Bind ends after the statement's name, unlike a real one: only the name matters here.
        let (mut whole, mut bytewise) = (Vec::new(), Vec::new());
        let heard = started().hear(input, &mut whole);
        assert_eq!((heard.n_statements, heard.is_over), (1, false));
        assert_eq!(whole, b"1\0\0\0\x042\0\0\0\x04C\0\0\0\x0aBEGIN\0Z\0\0\0\x05T");
        let mut session = started();
        for byte in input {
            session.hear(&[*byte], &mut bytewise);
        }
        assert_eq!(whole, bytewise, "however the input is cut");
    }

    #[test]
    fn nonsense_ends_the_connection() {
        let check = |input: &[u8]| {
            assert!(started().hear(input, &mut Vec::new()).is_over, "{input:?}");
        };
        check(b"Q\0\0\0\0");
        check(b"Q\xff\xff\xff\xff");
        check(b"X\0\0\0\x04");
        assert!(NullSession::default().hear(b"GET / HTTP/1.1\r\n", &mut Vec::new()).is_over);
    }
}
