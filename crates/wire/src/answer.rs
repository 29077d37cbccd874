//! The part of the server's replies that a session keeps for its caller, and the memory it takes.

use crate::reply::{ServerError, column_names, row_values};
use crate::scan::Reply;

/// Memory that a value, a row or a result takes in addition to its text.
pub(crate) const PIECE_BYTES: usize = 32;

/// One reply that is kept.
#[derive(Debug)]
pub(crate) enum AnswerEvent {
    Columns(Vec<String>),
    Row(Vec<Option<String>>),
    Tag(Vec<u8>),
    CopyIn,
    Error(ServerError),
    Ready,
}

/// Most memory that a reply takes while it is kept.
pub(crate) fn reply_bytes(reply: &Reply<'_>) -> usize {
    match reply {
        Reply::DataRow(body) => body.len() + PIECE_BYTES * (1 + row_values(body).count()),
        Reply::RowDescription(body) => body.len() + PIECE_BYTES,
        Reply::CommandComplete { tag } => tag.len() + PIECE_BYTES,
        // COPY data is not kept.
        Reply::CopyData(_) => 0,
        _ => PIECE_BYTES,
    }
}

/// The part of a reply that matters to a session.
pub(crate) fn event(reply: Reply<'_>) -> Option<AnswerEvent> {
    let text = |value: Option<&[u8]>| value.map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    match reply {
        Reply::RowDescription(body) => Some(AnswerEvent::Columns(column_names(body))),
        Reply::DataRow(body) => Some(AnswerEvent::Row(row_values(body).map(text).collect())),
        Reply::CommandComplete { tag } => Some(AnswerEvent::Tag(tag.to_vec())),
        Reply::CopyIn => Some(AnswerEvent::CopyIn),
        _ => None,
    }
}
