//! The hot path of reading: splits the server's bytes into replies. Skips unwanted bodies without copying them, and
//! carries over a message that the network has split. Allocates only if a wanted message is split. [`crate::reply`]
//! parses contents.

pub use crate::protocol_error::ProtocolError;
pub use crate::reply::{
    RowValues, ServerError, column_names, error_sqlstate, parse_error, row_values, rows_of_tag, tag_rows,
};

/// The default limit of a message's length.
pub const MESSAGE_BYTES_MAX: u32 = 16 << 20;
/// The largest limit: PostgreSQL's own limit on a field.
pub const MESSAGE_BYTES_LIMIT: u32 = 1 << 30;

const HEADER_BYTES: usize = 5;

/// One reply of the server. Slices are bodies without headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply<'a> {
    /// The server waits for the next query.
    ReadyForQuery(TransactionStatus),
    /// A statement has completed.
    CommandComplete {
        /// The command tag, such as `INSERT 0 5`; see [`tag_rows`].
        tag: &'a [u8],
    },
    /// A row, only with [`Scanner::want_rows`]; see [`row_values`].
    DataRow(&'a [u8]),
    /// The columns of the following rows, only with [`Scanner::want_rows`]; see [`column_names`].
    RowDescription(&'a [u8]),
    /// The query was empty.
    EmptyQuery,
    /// Answer to Parse.
    ParseComplete,
    /// Answer to Bind.
    BindComplete,
    /// Answer to Close.
    CloseComplete,
    /// Answer to Describe of something without rows.
    NoData,
    /// Execute stopped at its row limit.
    PortalSuspended,
    /// See [`parse_error`].
    Error(&'a [u8]),
    /// See [`parse_error`].
    Notice(&'a [u8]),
    /// A setting of the session: name and value.
    Parameter(&'a [u8], &'a [u8]),
    /// The server waits for CopyData.
    CopyIn,
    /// CopyData follows.
    CopyOut,
    /// A piece of COPY output, only with [`Scanner::want_rows`].
    CopyData(&'a [u8]),
    /// End of COPY output.
    CopyDone,
    /// A NOTIFY.
    Notification(&'a [u8]),
    /// Any other message, by its type byte.
    Other(u8),
}

impl Reply<'_> {
    /// The type byte of the message.
    pub fn tag(&self) -> u8 {
        match *self {
            Reply::ReadyForQuery(_) => b'Z',
            Reply::CommandComplete { .. } => b'C',
            Reply::DataRow(_) => b'D',
            Reply::RowDescription(_) => b'T',
            Reply::EmptyQuery => b'I',
            Reply::ParseComplete => b'1',
            Reply::BindComplete => b'2',
            Reply::CloseComplete => b'3',
            Reply::NoData => b'n',
            Reply::PortalSuspended => b's',
            Reply::Error(_) => b'E',
            Reply::Notice(_) => b'N',
            Reply::Parameter(..) => b'S',
            Reply::CopyIn => b'G',
            Reply::CopyOut => b'H',
            Reply::CopyData(_) => b'd',
            Reply::CopyDone => b'c',
            Reply::Notification(_) => b'A',
            Reply::Other(tag) => tag,
        }
    }
}

/// Transaction status of the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionStatus {
    /// Not in a transaction.
    Idle,
    /// In a transaction block.
    InTransaction,
    /// In a failed transaction block, which can only be rolled back.
    Failed,
}

/// Summary of an ordinary reply to a statement, see [`Scanner::ordinary`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ordinary {
    /// Statements that have completed.
    pub n_done: u32,
    /// Rows that they returned or changed, as their command tags say.
    pub n_rows: u64,
    /// Transaction status, from the ReadyForQuery at the end.
    pub status: TransactionStatus,
}

/// Whether the sink wants more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// Continue with the next reply.
    Continue,
    /// Stop for now: [`Scanner::feed`] returns, and the rest of the input stays with the caller.
    Stop,
}

/// Splits a stream of bytes into replies.
#[derive(Debug)]
pub struct Scanner {
    want_rows: bool,
    message_bytes_max: u32,
    /// Bytes of a skipped body still to come.
    n_skip: usize,
    /// The beginning of a split message: part of its header, or the header and part of a wanted body.
    carry: Vec<u8>,
}

impl Default for Scanner {
    fn default() -> Scanner {
        Scanner::new()
    }
}

impl Scanner {
    /// A scanner at the beginning of a message that skips rows and accepts messages of up to [`MESSAGE_BYTES_MAX`].
    pub fn new() -> Scanner {
        Scanner::with_limit(MESSAGE_BYTES_MAX)
    }

    /// A scanner with another limit, of at most [`MESSAGE_BYTES_LIMIT`].
    pub fn with_limit(message_bytes_max: u32) -> Scanner {
        let message_bytes_max = message_bytes_max.min(MESSAGE_BYTES_LIMIT);
        Scanner { want_rows: false, message_bytes_max, n_skip: 0, carry: Vec::new() }
    }

    /// The limit of a message's length, in bytes.
    pub fn message_bytes_max(&self) -> u32 {
        self.message_bytes_max
    }

    /// Sets whether DataRow, RowDescription and CopyData are delivered. Takes effect with the next message.
    pub fn want_rows(&mut self, want_rows: bool) {
        self.want_rows = want_rows;
    }

    /// Whether the input so far ended between two messages.
    pub fn is_at_boundary(&self) -> bool {
        self.n_skip == 0 && self.carry.is_empty()
    }

    /// What [`Scanner::feed`] would report for input that consists only of ParseComplete, BindComplete, unwanted rows,
    /// CommandComplete, and a ReadyForQuery at its end: a few instructions per message, because nearly all input looks
    /// like this. `None` for any other input.
    #[inline]
    pub fn ordinary(&self, input: &[u8]) -> Option<Ordinary> {
        if self.want_rows || !self.is_at_boundary() {
            return None;
        }
        let (mut rest, mut n_done, mut n_rows) = (input, 0, 0u64);
        loop {
            let [tag, l0, l1, l2, l3, after @ ..] = rest else { return None };
            if *tag == b'Z' {
                let found = Ordinary { n_done, n_rows, status: status(after)? };
                return (rest[1..HEADER_BYTES] == [0, 0, 0, 5]).then_some(found);
            }
            let length = u32::from_be_bytes([*l0, *l1, *l2, *l3]);
            let (body, after) = after.split_at_checked(length.checked_sub(4)? as usize)?;
            match tag {
                b'1' | b'2' | b'D' | b'T' => {}
                b'C' => {
                    let (0, tag) = body.split_last()? else { return None };
                    n_done += 1;
                    n_rows = n_rows.wrapping_add(rows_of_tag(tag));
                }
                _ => return None,
            }
            rest = after;
        }
    }

    /// Passes each reply in `input` to `sink` until the input ends or the sink stops. Returns how many bytes were
    /// consumed: all of them unless the sink returned [`Flow::Stop`].
    ///
    /// # Errors
    /// Bytes that are not protocol version 3; the scanner must not be used afterwards.
    #[inline]
    pub fn feed(
        &mut self,
        input: &[u8],
        mut sink: impl FnMut(Reply<'_>) -> Flow,
    ) -> Result<usize, ProtocolError> {
        let mut rest = input;
        if !self.is_at_boundary() {
            let (flow, after) = self.finish_cut(rest, &mut sink)?;
            rest = after;
            if flow == Flow::Stop {
                return Ok(input.len() - rest.len());
            }
        }
        while let [tag, l0, l1, l2, l3, after @ ..] = rest {
            let length = u32::from_be_bytes([*l0, *l1, *l2, *l3]);
            let body_bytes = body_length(*tag, length, self.message_bytes_max)?;
            if !self.is_wanted(*tag) {
                if after.len() < body_bytes {
                    self.n_skip = body_bytes - after.len();
                    return Ok(input.len());
                }
                rest = &after[body_bytes..];
                continue;
            }
            if after.len() < body_bytes {
                break;
            }
            let (body, after) = after.split_at(body_bytes);
            rest = after;
            if sink(decode(*tag, body)?) == Flow::Stop {
                return Ok(input.len() - rest.len());
            }
        }
        self.carry.extend_from_slice(rest);
        Ok(input.len())
    }

    /// Takes input while no request is pending: notices, settings, notifications, and the error that ends a session may
    /// arrive at any time, but nothing else may.
    ///
    /// # Errors
    /// See [`Scanner::feed`]; and any other message.
    #[cold]
    pub fn feed_unasked(
        &mut self,
        input: &[u8],
        mut sink: impl FnMut(Reply<'_>),
    ) -> Result<(), ProtocolError> {
        let want_rows = std::mem::replace(&mut self.want_rows, true);
        let mut unasked = None;
        let fed = self.feed(input, |reply| match reply {
            Reply::Notice(_) | Reply::Parameter(..) | Reply::Notification(_) | Reply::Error(_) => {
                sink(reply);
                Flow::Continue
            }
            other => {
                unasked = Some(other.tag());
                Flow::Stop
            }
        });
        self.want_rows = want_rows;
        fed?;
        // The type of a split message is already known.
        let cut = self.carry.first().copied().filter(|tag| !b"NSAE".contains(tag));
        unasked.or(cut).map_or(Ok(()), |tag| Err(ProtocolError::Unasked(tag)))
    }

    /// Completes the split message from `input`.
    #[cold]
    fn finish_cut<'i>(
        &mut self,
        input: &'i [u8],
        sink: &mut impl FnMut(Reply<'_>) -> Flow,
    ) -> Result<(Flow, &'i [u8]), ProtocolError> {
        let skipped = self.n_skip.min(input.len());
        self.n_skip -= skipped;
        let rest = self.fill_carry(&input[skipped..], HEADER_BYTES);
        let [tag, l0, l1, l2, l3, ..] = self.carry[..] else { return Ok((Flow::Continue, rest)) };
        let length = u32::from_be_bytes([l0, l1, l2, l3]);
        let body_bytes = body_length(tag, length, self.message_bytes_max)?;
        if !self.is_wanted(tag) {
            // The carry has at most the header: bodies are carried only if wanted (unless that has changed).
            self.n_skip = body_bytes - (self.carry.len() - HEADER_BYTES);
            self.carry.clear();
            let skipped = self.n_skip.min(rest.len());
            self.n_skip -= skipped;
            return Ok((Flow::Continue, &rest[skipped..]));
        }
        let rest = self.fill_carry(rest, HEADER_BYTES + body_bytes);
        if self.carry.len() < HEADER_BYTES + body_bytes {
            return Ok((Flow::Continue, rest));
        }
        let flow = sink(decode(tag, &self.carry[HEADER_BYTES..])?);
        self.carry.clear();
        Ok((flow, rest))
    }

    /// Extends the carry to `n_bytes`, as far as `input` goes; does nothing while a body is skipped.
    fn fill_carry<'i>(&mut self, input: &'i [u8], n_bytes: usize) -> &'i [u8] {
        if self.n_skip > 0 || (self.carry.is_empty() && input.is_empty()) {
            return input;
        }
        let taken = n_bytes.saturating_sub(self.carry.len()).min(input.len());
        self.carry.extend_from_slice(&input[..taken]);
        &input[taken..]
    }

    #[inline]
    fn is_wanted(&self, tag: u8) -> bool {
        self.want_rows || CLASSES[tag as usize] != Class::Row
    }
}

/// Classification of a type byte.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    /// No server sends it.
    Unknown,
    /// Always delivered.
    Plain,
    /// Delivered only if rows are wanted.
    Row,
}

/// The class of each type byte: one lookup instead of a chain of comparisons.
static CLASSES: [Class; 256] = {
    let mut classes = [Class::Unknown; 256];
    let plain = b"123ACEGHIKNRSVWZcnstv";
    let mut i = 0;
    while i < plain.len() {
        classes[plain[i] as usize] = Class::Plain;
        i += 1;
    }
    classes[b'D' as usize] = Class::Row;
    classes[b'T' as usize] = Class::Row;
    classes[b'd' as usize] = Class::Row;
    classes
};

/// The length of the body, if the header is plausible.
#[inline]
fn body_length(tag: u8, length: u32, n_bytes_max: u32) -> Result<usize, ProtocolError> {
    let body_bytes = length.wrapping_sub(4);
    if body_bytes > n_bytes_max || CLASSES[tag as usize] == Class::Unknown {
        return Err(bad_header(tag, length, n_bytes_max));
    }
    Ok(body_bytes as usize)
}

#[cold]
fn bad_header(tag: u8, length: u32, n_bytes_max: u32) -> ProtocolError {
    match length.wrapping_sub(4) {
        _ if CLASSES[tag as usize] == Class::Unknown => ProtocolError::UnknownType(tag),
        n_bytes if n_bytes <= MESSAGE_BYTES_LIMIT => ProtocolError::TooLong { tag, n_bytes, n_bytes_max },
        _ => ProtocolError::BadLength { tag, length },
    }
}

/// Parses the body of ReadyForQuery.
#[inline]
fn status(body: &[u8]) -> Option<TransactionStatus> {
    Some(match body {
        b"I" => TransactionStatus::Idle,
        b"T" => TransactionStatus::InTransaction,
        b"E" => TransactionStatus::Failed,
        _ => return None,
    })
}

#[inline]
fn decode(tag: u8, body: &[u8]) -> Result<Reply<'_>, ProtocolError> {
    Ok(match tag {
        b'Z' => Reply::ReadyForQuery(status(body).ok_or(ProtocolError::BadBody(tag))?),
        b'C' => match body.split_last() {
            Some((0, tag)) => Reply::CommandComplete { tag },
            _ => return Err(ProtocolError::BadBody(tag)),
        },
        b'2' => Reply::BindComplete,
        b'D' => Reply::DataRow(body),
        b'T' => Reply::RowDescription(body),
        b'1' => Reply::ParseComplete,
        b'3' => Reply::CloseComplete,
        b'n' => Reply::NoData,
        b's' => Reply::PortalSuspended,
        b'I' => Reply::EmptyQuery,
        b'E' => Reply::Error(body),
        b'N' => Reply::Notice(body),
        b'S' => {
            let mut parts = body.split(|&b| b == 0);
            match (parts.next(), parts.next()) {
                (Some(name), Some(value)) => Reply::Parameter(name, value),
                _ => return Err(ProtocolError::BadBody(tag)),
            }
        }
        b'G' => Reply::CopyIn,
        b'H' => Reply::CopyOut,
        b'd' => Reply::CopyData(body),
        b'c' => Reply::CopyDone,
        b'A' => Reply::Notification(body),
        // The header was checked, so this is one of R, K, V, W, t, v.
        _ => Reply::Other(tag),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(tag: u8, body: &[u8]) -> Vec<u8> {
        let mut out = vec![tag];
        out.extend_from_slice(&(body.len() as u32 + 4).to_be_bytes());
        out.extend_from_slice(body);
        out
    }

    fn sample() -> Vec<u8> {
        let mut stream = Vec::new();
        for (tag, body) in [
            (b'1', &b""[..]),
            (b'2', b""),
            (b't', b"\0\0"),
            (b'T', b"\0\0"),
            (b'D', b"\0\x01\0\0\0\x02ab"),
            (b'D', &[7; 300]),
            (b'C', b"SELECT 2\0"),
            (b'Z', b"I"),
            (b'N', b"SNOTICE\0C00000\0Mhello\0\0"),
            (b'E', b"SERROR\0C40001\0Mno\0\0"),
            (b'Z', b"E"),
            (b'S', b"TimeZone\0UTC\0"),
            (b'I', b""),
            (b'n', b""),
            (b's', b""),
            (b'3', b""),
            (b'G', b"\0\0\0"),
            (b'H', b"\0\0\0"),
            (b'd', b"data"),
            (b'c', b""),
            (b'A', b"\0\0\0\x01c\0p\0"),
            (b'K', b"12345678"),
            (b'Z', b"T"),
        ] {
            stream.extend(message(tag, body));
        }
        stream
    }

    /// What the sink received, as text, for a stream split into these pieces.
    fn seen<'a>(pieces: impl IntoIterator<Item = &'a [u8]>, want_rows: bool) -> Vec<String> {
        let mut scanner = Scanner::new();
        scanner.want_rows(want_rows);
        let mut seen = Vec::new();
        for piece in pieces {
            let consumed = scanner.feed(piece, |reply| {
                seen.push(format!("{reply:?}"));
                Flow::Continue
            });
            assert_eq!(consumed, Ok(piece.len()));
        }
        assert!(scanner.is_at_boundary());
        seen
    }

    #[test]
    fn the_stream_is_the_same_however_it_is_cut() {
        let stream = sample();
        for want_rows in [false, true] {
            let whole = seen([&stream[..]], want_rows);
            assert_eq!(whole.len(), if want_rows { 23 } else { 19 });
            assert_eq!(seen(stream.chunks(1), want_rows), whole);
            for at in 0..stream.len() {
                let (a, b) = stream.split_at(at);
                assert_eq!(seen([a, b], want_rows), whole, "cut at {at}");
            }
            // Splits of pseudo-random lengths, from a small linear generator.
            let mut state = 12345u32;
            for _ in 0..200 {
                let mut rest = &stream[..];
                let mut pieces = Vec::new();
                while !rest.is_empty() {
                    state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    let (piece, after) = rest.split_at((state >> 24) as usize % rest.len().clamp(1, 40) + 1);
                    pieces.push(piece);
                    rest = after;
                }
                assert_eq!(seen(pieces, want_rows), whole);
            }
        }
    }

    #[test]
    fn an_ordinary_reply_comes_to_what_feeding_it_says() {
        let join =
            |messages: &[(u8, &[u8])]| messages.iter().flat_map(|(tag, body)| message(*tag, body)).collect();
        let check = |input: Vec<u8>, expected: Option<(u32, TransactionStatus)>| {
            let scanner = Scanner::new();
            let ordinary = scanner.ordinary(&input).map(|reply| (reply.n_done, reply.status));
            assert_eq!(ordinary, expected, "{}", String::from_utf8_lossy(&input));
            let (mut n_done, mut status) = (0, None);
            let mut scanner = Scanner::new();
            let fed = scanner.feed(&input, |reply| {
                n_done += u32::from(matches!(reply, Reply::CommandComplete { .. }));
                status = if let Reply::ReadyForQuery(status) = reply { Some(status) } else { status };
                Flow::Continue
            });
            if expected.is_some() {
                assert_eq!((fed, Some((n_done, status.unwrap()))), (Ok(input.len()), expected));
            }
            scanner.want_rows(true);
            assert_eq!(scanner.ordinary(&input), None);
        };
        let (bound, row, done) = ((b'2', &b""[..]), (b'D', &[7; 300][..]), (b'C', &b"SELECT 1\0"[..]));
        check(join(&[bound, done, (b'Z', b"T")]), Some((1, TransactionStatus::InTransaction)));
        check(
            join(&[(b'1', b""), bound, (b'T', b"\0\0"), row, row, done, (b'Z', b"I")]),
            Some((1, TransactionStatus::Idle)),
        );
        check(join(&[done, done, (b'Z', b"E")]), Some((2, TransactionStatus::Failed)));
        check(join(&[(b'Z', b"I")]), Some((0, TransactionStatus::Idle)));
        // Split, followed by something else, with an answer that must be parsed, or damaged.
        let whole: Vec<u8> = join(&[bound, row, done, (b'Z', b"I")]);
        (0..whole.len()).for_each(|end| check(whole[..end].to_vec(), None));
        check(join(&[bound, done, (b'Z', b"I"), (b'N', b"C57P01\0\0")]), None);
        for other in
            [(b'E', &b"C40001\0\0"[..]), (b'N', b"\0"), (b'S', b"a\0b\0"), (b'I', b""), (b'G', b"\0\0\0")]
        {
            check(join(&[bound, other, done, (b'Z', b"I")]), None);
        }
        check(join(&[(b'Z', b"X")]), None);
        check(join(&[(b'C', b"no end"), (b'Z', b"I")]), None);
        check(b"Z\0\0\0\x06I".to_vec(), None);
        check(b"2\0\0\0\x03Z\0\0\0\x05I".to_vec(), None);
        // Not between two messages.
        let mut scanner = Scanner::new();
        scanner.feed(b"C\0", |_| Flow::Continue).unwrap();
        assert_eq!(scanner.ordinary(&whole), None);
    }

    #[test]
    fn stop_leaves_the_rest_to_the_caller() {
        let stream = sample();
        let mut scanner = Scanner::new();
        let mut n_ready = 0;
        let mut rest = &stream[..];
        while !rest.is_empty() {
            let consumed = scanner.feed(rest, |reply| match reply {
                Reply::ReadyForQuery(_) => {
                    n_ready += 1;
                    Flow::Stop
                }
                _ => Flow::Continue,
            });
            rest = &rest[consumed.unwrap()..];
            assert!(scanner.is_at_boundary());
        }
        assert_eq!(n_ready, 3);
    }

    #[test]
    fn the_wish_for_rows_may_change_in_the_middle_of_a_row() {
        let stream = sample();
        for at in 0..stream.len() {
            for (first, then) in [(true, false), (false, true)] {
                let mut scanner = Scanner::new();
                let mut n_ready = 0;
                let mut sink = |reply: Reply<'_>| {
                    n_ready += usize::from(matches!(reply, Reply::ReadyForQuery(_)));
                    Flow::Continue
                };
                scanner.want_rows(first);
                scanner.feed(&stream[..at], &mut sink).unwrap();
                scanner.want_rows(then);
                scanner.feed(&stream[at..], &mut sink).unwrap();
                assert_eq!((n_ready, scanner.is_at_boundary()), (3, true), "cut at {at}");
            }
        }
    }

    #[test]
    fn bytes_that_are_not_the_protocol_are_an_error() {
        let check = |input: &[u8], expected: ProtocolError| {
            for chunk in [1, input.len()] {
                let mut scanner = Scanner::new();
                let result =
                    input.chunks(chunk).try_for_each(|c| scanner.feed(c, |_| Flow::Continue).map(|_| ()));
                assert_eq!(result, Err(expected), "{input:?}");
            }
        };
        check(b"\0\0\0\0\x04", ProtocolError::UnknownType(0));
        check(b"x\0\0\0\x04", ProtocolError::UnknownType(b'x'));
        check(b"Z\0\0\0\x03", ProtocolError::BadLength { tag: b'Z', length: 3 });
        check(b"HTTP/1.1 400", ProtocolError::BadLength { tag: b'H', length: 0x5454_502f });
        check(b"Z\0\0\0\x05X", ProtocolError::BadBody(b'Z'));
        check(b"Z\0\0\0\x04", ProtocolError::BadBody(b'Z'));
        check(b"C\0\0\0\x05X", ProtocolError::BadBody(b'C'));
        check(b"S\0\0\0\x05X", ProtocolError::BadBody(b'S'));
    }
}
