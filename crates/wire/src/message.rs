//! Frontend messages, written as bytes into the caller's buffer: nothing here allocates once the buffer has grown.
//! Results are always requested as text. Startup and authentication are in `dial`.

use crate::conninfo::ProtocolVersion;

/// Request code of CancelRequest, in the place of a protocol version.
const CANCEL_CODE: i32 = 80_877_102;
/// Request code of SSLRequest.
const SSL_CODE: i32 = 80_877_103;

/// `Query`: one or more statements in the simple protocol.
pub fn query(out: &mut Vec<u8>, sql: &str) {
    message(out, b'Q', |out| text(out, sql));
}

/// `Query` with a text that `write` appends to the buffer, for texts built in place.
#[inline]
pub fn query_with(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    message(out, b'Q', |out| {
        write(out);
        out.push(0);
    });
}

/// `Parse`: prepares `statement` (empty: the unnamed one) from `sql`; the server infers parameter types.
pub fn parse(out: &mut Vec<u8>, statement: &str, sql: &str) {
    message(out, b'P', |out| {
        text(out, statement);
        text(out, sql);
        out.extend_from_slice(&0u16.to_be_bytes());
    });
}

/// `Describe` of a prepared statement.
pub fn describe_statement(out: &mut Vec<u8>, statement: &str) {
    named(out, b'D', b'S', statement);
}

/// `Describe` of a portal (empty: the unnamed one).
pub fn describe_portal(out: &mut Vec<u8>, portal: &str) {
    named(out, b'D', b'P', portal);
}

/// `Execute` of a portal; `n_rows_max` 0 means all rows.
pub fn execute(out: &mut Vec<u8>, portal: &str, n_rows_max: u32) {
    message(out, b'E', |out| {
        text(out, portal);
        out.extend_from_slice(&n_rows_max.to_be_bytes());
    });
}

/// `Sync`: ends a sequence of extended-protocol messages; the server answers with ReadyForQuery.
pub fn sync(out: &mut Vec<u8>) {
    out.extend_from_slice(b"S\0\0\0\x04");
}

/// `Flush`: requests the answers so far.
pub fn flush(out: &mut Vec<u8>) {
    out.extend_from_slice(b"H\0\0\0\x04");
}

/// `Terminate`: ends the session.
pub fn terminate(out: &mut Vec<u8>) {
    out.extend_from_slice(b"X\0\0\0\x04");
}

/// `CopyData`.
pub fn copy_data(out: &mut Vec<u8>, data: &[u8]) {
    copy_data_with(out, |out| out.extend_from_slice(data));
}

/// `CopyData` whose bytes `write` appends.
pub fn copy_data_with(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    message(out, b'd', write);
}

/// `CopyDone`.
pub fn copy_done(out: &mut Vec<u8>) {
    out.extend_from_slice(b"c\0\0\0\x04");
}

/// `CopyFail`: makes the server fail the COPY with `reason`.
pub fn copy_fail(out: &mut Vec<u8>, reason: &str) {
    message(out, b'f', |out| text(out, reason));
}

/// `CancelRequest`: the only message on a connection of its own.
pub fn cancel_request(out: &mut Vec<u8>, backend_pid: i32, secret_key: &[u8]) {
    let start = out.len();
    for word in [0, CANCEL_CODE, backend_pid] {
        out.extend_from_slice(&word.to_be_bytes());
    }
    out.extend_from_slice(secret_key);
    set_length(out, start);
}

/// `SSLRequest`: the server answers with one byte, `S` or `N`.
pub fn ssl_request(out: &mut Vec<u8>) {
    for word in [8, SSL_CODE] {
        out.extend_from_slice(&word.to_be_bytes());
    }
}

/// `StartupMessage` that requests this protocol version.
pub fn startup<'a>(
    out: &mut Vec<u8>,
    version: ProtocolVersion,
    parameters: impl IntoIterator<Item = (&'a str, &'a str)>,
) {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&version.number().to_be_bytes());
    for (name, value) in parameters {
        text(out, name);
        text(out, value);
    }
    out.push(0);
    set_length(out, start);
}

/// `PasswordMessage`: a cleartext or an md5 password.
pub fn password(out: &mut Vec<u8>, password: &str) {
    message(out, b'p', |out| text(out, password));
}

/// `SASLInitialResponse`.
pub fn sasl_initial(out: &mut Vec<u8>, mechanism: &str, data: &[u8]) {
    message(out, b'p', |out| {
        text(out, mechanism);
        out.extend_from_slice(&(data.len() as u32).to_be_bytes());
        out.extend_from_slice(data);
    });
}

/// `SASLResponse`.
pub fn sasl_response(out: &mut Vec<u8>, data: &[u8]) {
    message(out, b'p', |out| out.extend_from_slice(data));
}

/// The end of every Bind: no result format codes, every column is text.
pub const BIND_TAIL: &[u8] = &[0, 0];

/// Writes one `Bind` of the unnamed portal: [`BindBuilder::begin`], then each parameter, then
/// [`BindBuilder::finish`]. All values are text, and so are the results.
#[derive(Debug)]
#[must_use = "the message is incomplete until `finish`"]
pub struct BindBuilder<'a> {
    out: &'a mut Vec<u8>,
    start: usize,
    count_at: usize,
    n_params: u16,
}

impl<'a> BindBuilder<'a> {
    /// Starts a Bind of `statement` (empty: the unnamed one).
    #[inline]
    pub fn begin(out: &'a mut Vec<u8>, statement: &str) -> BindBuilder<'a> {
        let start = out.len() + 1;
        // Type, length (set by `finish`), the empty name of the portal.
        out.extend_from_slice(b"B\0\0\0\0\0");
        text(out, statement);
        // No format codes: every parameter is text.
        out.extend_from_slice(&[0, 0]);
        let count_at = out.len();
        out.extend_from_slice(&[0, 0]);
        BindBuilder { out, start, count_at, n_params: 0 }
    }

    /// Starts a Bind with its prebuilt head: what [`BindBuilder::begin`] writes into an empty buffer.
    #[inline]
    pub fn begin_with(out: &'a mut Vec<u8>, head: &[u8]) -> BindBuilder<'a> {
        let start = out.len() + 1;
        out.extend_from_slice(head);
        let count_at = out.len() - 2;
        BindBuilder { out, start, count_at, n_params: 0 }
    }

    /// Adds one value.
    #[inline]
    pub fn param(&mut self, value: &[u8]) {
        self.n_params += 1;
        self.out.extend_from_slice(&(value.len() as u32).to_be_bytes());
        self.out.extend_from_slice(value);
    }

    /// Adds one value that `write` appends to the buffer, for numbers formatted in place.
    #[inline]
    pub fn param_with(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        self.n_params += 1;
        let at = self.out.len();
        self.out.extend_from_slice(&[0; 4]);
        write(self.out);
        let length = (self.out.len() - at - 4) as u32;
        self.out[at..at + 4].copy_from_slice(&length.to_be_bytes());
    }

    /// Adds one value that `write` appends to the buffer, or a NULL if it returns `false`.
    #[inline]
    pub fn value_with(&mut self, write: impl FnOnce(&mut Vec<u8>) -> bool) {
        let at = self.out.len();
        let mut is_set = false;
        self.param_with(|out| is_set = write(out));
        if !is_set {
            self.out.truncate(at);
            self.n_params -= 1;
            self.null();
        }
    }

    /// Adds a NULL.
    #[inline]
    pub fn null(&mut self) {
        self.n_params += 1;
        self.out.extend_from_slice(&(-1i32).to_be_bytes());
    }

    /// Completes the message.
    #[inline]
    pub fn finish(self) {
        self.finish_with(BIND_TAIL);
    }

    /// Completes the message; `tail` is [`BIND_TAIL`] and any messages that follow.
    #[inline]
    pub fn finish_with(self, tail: &[u8]) {
        debug_assert!(tail.starts_with(BIND_TAIL));
        let length = (self.out.len() + BIND_TAIL.len() - self.start) as u32;
        self.out[self.start..self.start + 4].copy_from_slice(&length.to_be_bytes());
        self.out[self.count_at..self.count_at + 2].copy_from_slice(&self.n_params.to_be_bytes());
        self.out.extend_from_slice(tail);
    }
}

/// A message with a type byte; the length counts itself and the body.
#[inline]
fn message(out: &mut Vec<u8>, tag: u8, body: impl FnOnce(&mut Vec<u8>)) {
    out.push(tag);
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    body(out);
    set_length(out, start);
}

#[inline]
fn set_length(out: &mut [u8], start: usize) {
    let length = (out.len() - start) as u32;
    out[start..start + 4].copy_from_slice(&length.to_be_bytes());
}

fn named(out: &mut Vec<u8>, tag: u8, kind: u8, name: &str) {
    message(out, tag, |out| {
        out.push(kind);
        text(out, name);
    });
}

/// A zero-terminated string. A zero byte inside would shift all later fields, so the text ends there, as a C string
/// would.
#[inline]
fn text(out: &mut Vec<u8>, text: &str) {
    let bytes = text.as_bytes();
    let end = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
    out.extend_from_slice(&bytes[..end]);
    out.push(0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_have_the_bytes_of_the_protocol() {
        let check = |write: &dyn Fn(&mut Vec<u8>), expected: &[u8]| {
            let mut out = b"before".to_vec();
            write(&mut out);
            assert_eq!(&out[6..], expected, "{}", String::from_utf8_lossy(expected));
        };
        check(&|o| query(o, "select 1"), b"Q\0\0\0\x0dselect 1\0");
        check(&|o| query(o, "a\0b"), b"Q\0\0\0\x06a\0");
        check(&|o| parse(o, "s", "select 1"), b"P\0\0\0\x11s\0select 1\0\0\0");
        check(&|o| describe_statement(o, "s"), b"D\0\0\0\x07Ss\0");
        check(&|o| describe_portal(o, ""), b"D\0\0\0\x06P\0");
        check(&|o| execute(o, "", 0), b"E\0\0\0\x09\0\0\0\0\0");
        check(&|o| execute(o, "", 7), b"E\0\0\0\x09\0\0\0\0\x07");
        check(&sync, b"S\0\0\0\x04");
        check(&flush, b"H\0\0\0\x04");
        check(&terminate, b"X\0\0\0\x04");
        check(&|o| copy_data(o, b"1\t2\n"), b"d\0\0\0\x081\t2\n");
        check(&copy_done, b"c\0\0\0\x04");
        check(&|o| copy_fail(o, "no"), b"f\0\0\0\x07no\0");
        check(&|o| cancel_request(o, 1, b"abcd"), b"\0\0\0\x10\x04\xd2\x16\x2e\0\0\0\x01abcd");
        check(&|o| cancel_request(o, 1, b"abcde"), b"\0\0\0\x11\x04\xd2\x16\x2e\0\0\0\x01abcde");
        check(&ssl_request, b"\0\0\0\x08\x04\xd2\x16\x2f");
        let user = [("user", "u")];
        check(&|o| startup(o, ProtocolVersion::V3_0, user), b"\0\0\0\x10\0\x03\0\0user\0u\0\0");
        check(&|o| startup(o, ProtocolVersion::V3_2, user), b"\0\0\0\x10\0\x03\0\x02user\0u\0\0");
        check(&|o| password(o, "x"), b"p\0\0\0\x06x\0");
        check(&|o| sasl_initial(o, "M", b"n,,"), b"p\0\0\0\x0dM\0\0\0\0\x03n,,");
        check(&|o| sasl_response(o, b"c="), b"p\0\0\0\x06c=");
    }

    #[test]
    fn bind_writes_each_parameter_as_text() {
        let mut out = Vec::new();
        let mut bind = BindBuilder::begin(&mut out, "s");
        bind.param(b"42");
        bind.null();
        bind.param_with(|out| out.extend_from_slice(b"-7"));
        bind.finish();
        let expected = b"B\0\0\0\x1d\0s\0\0\0\0\x03\0\0\0\x0242\xff\xff\xff\xff\0\0\0\x02-7\0\0";
        assert_eq!(out[..], expected[..]);

        out.clear();
        BindBuilder::begin(&mut out, "").finish();
        assert_eq!(out[..], b"B\0\0\0\x0c\0\0\0\0\0\0\0\0"[..]);
    }

    #[test]
    fn a_bind_of_parts_made_ready_is_the_same() {
        let (mut head, mut tail) = (Vec::new(), BIND_TAIL.to_vec());
        let _ = BindBuilder::begin(&mut head, "P_12");
        execute(&mut tail, "", 0);
        let (mut one, mut other) = (b"before".to_vec(), b"before".to_vec());
        let mut bind = BindBuilder::begin(&mut one, "P_12");
        bind.param(b"42");
        bind.finish();
        execute(&mut one, "", 0);
        let mut bind = BindBuilder::begin_with(&mut other, &head);
        bind.param(b"42");
        bind.finish_with(&tail);
        assert_eq!(one, other);
    }
}
