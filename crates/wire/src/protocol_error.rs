//! Violations of the protocol by a server. Nothing that it sends afterwards is trusted.

/// The server sent something that is not protocol version 3. The connection can no longer be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProtocolError {
    /// No message starts with this byte.
    #[error("unexpected message type 0x{0:02x} from the server")]
    UnknownType(u8),
    /// The length is impossible.
    #[error("message `{}` of the server has an impossible length: {length}", char::from(*.tag))]
    BadLength {
        /// Type byte of the message.
        tag: u8,
        /// Length as sent.
        length: u32,
    },
    /// The body is malformed.
    #[error("message `{}` of the server is damaged", char::from(*.0))]
    BadBody(u8),
    /// The message exceeds the limit.
    #[error("the server sent {} of {n_bytes} bytes, more than pgdyno's limit of {n_bytes_max}", name(*.tag))]
    TooLong {
        /// Type byte of the message.
        tag: u8,
        /// Bytes of its body.
        n_bytes: u32,
        /// The limit.
        n_bytes_max: u32,
    },
    /// The message answers no request.
    #[error("the server sent {} without a request", name(*.0))]
    Unasked(u8),
    /// A reply ended without the requested answer.
    #[error("the server ended its reply with {} before answering", name(*.0))]
    Unanswered(u8),
    /// More items of one kind than are kept.
    #[error("the server sent more {what} than pgdyno's limit of {limit}")]
    TooMuch {
        /// The kind, in the plural.
        what: &'static str,
        /// Number and unit.
        limit: &'static str,
    },
}

impl ProtocolError {
    /// Whether the server did nothing wrong: it sent more than this program takes.
    pub fn is_our_limit(&self) -> bool {
        matches!(self, ProtocolError::TooLong { .. } | ProtocolError::TooMuch { .. })
    }
}

/// The name of a message of the server, by its type byte.
fn name(tag: u8) -> &'static str {
    match tag {
        b'Z' => "ReadyForQuery",
        b'C' => "CommandComplete",
        b'D' => "a DataRow",
        b'T' => "a RowDescription",
        b'I' => "EmptyQueryResponse",
        b'1' => "ParseComplete",
        b'2' => "BindComplete",
        b'3' => "CloseComplete",
        b'n' => "NoData",
        b's' => "PortalSuspended",
        b't' => "a ParameterDescription",
        b'G' => "CopyInResponse",
        b'H' => "CopyOutResponse",
        b'W' => "CopyBothResponse",
        b'd' => "CopyData",
        b'c' => "CopyDone",
        b'R' => "a request to authenticate",
        b'K' => "BackendKeyData",
        b'V' => "a FunctionCallResponse",
        b'v' => "NegotiateProtocolVersion",
        _ => "a message",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_the_message() {
        let check = |error: ProtocolError, expected: &str| assert_eq!(error.to_string(), expected);
        check(ProtocolError::Unasked(b'Z'), "the server sent ReadyForQuery without a request");
        check(
            ProtocolError::TooLong { tag: b'D', n_bytes: 17, n_bytes_max: 16 },
            "the server sent a DataRow of 17 bytes, more than pgdyno's limit of 16",
        );
    }
}
