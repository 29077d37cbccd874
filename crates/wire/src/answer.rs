//! What a session keeps of the server's replies until its caller has them, and what memory that takes.

use crate::reply::{ServerError, column_names, row_values};
use crate::scan::Reply;

/// What a value, a row or a result takes beside its text.
pub(crate) const PIECE_BYTES: usize = 32;

/// One reply, kept.
#[derive(Debug)]
pub(crate) enum Event {
    Columns(Vec<String>),
    Row(Vec<Option<String>>),
    Tag(Vec<u8>),
    CopyIn,
    Error(ServerError),
    Ready,
}

/// Memory that a reply takes at most while it is kept.
pub(crate) fn reply_bytes(reply: &Reply<'_>) -> usize {
    match reply {
        Reply::DataRow(body) => body.len() + PIECE_BYTES * (1 + row_values(body).count()),
        Reply::RowDescription(body) => body.len() + PIECE_BYTES,
        Reply::CommandComplete { tag } => tag.len() + PIECE_BYTES,
        // What is sent by COPY is not kept.
        Reply::CopyData(_) => 0,
        _ => PIECE_BYTES,
    }
}

/// What of a reply matters to a session.
pub(crate) fn event(reply: Reply<'_>) -> Option<Event> {
    let text = |value: Option<&[u8]>| value.map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    match reply {
        Reply::RowDescription(body) => Some(Event::Columns(column_names(body))),
        Reply::DataRow(body) => Some(Event::Row(row_values(body).map(text).collect())),
        Reply::CommandComplete { tag } => Some(Event::Tag(tag.to_vec())),
        Reply::CopyIn => Some(Event::CopyIn),
        _ => None,
    }
}
