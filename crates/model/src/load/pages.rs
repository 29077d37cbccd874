//! The protocol between `pgdyno serve` and whoever answers for a directory on another machine (`pgdyno pages`), one JSON value
//! per line.
//!
//! Requests cross the pipe, not connections: each has a number, and its answer comes in pieces, the last of which says that it
//! is the last. To the other machine: a greeting (see `load::hello`), a [`PagesOrder`], then [`PagesCommand`]s. From there:
//! the lines of `load::drive::DriverLine` that concern pages: `hello`, then [`PagesLine`]s.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Most pieces of an answer that may be under way: whoever answers waits until one was taken.
pub const PIECES_MAX: usize = 4;
/// Longest piece, bytes.
pub const PIECE_BYTES_MAX: usize = 64 << 10;
/// Most answers at the same time.
pub const ANSWERS_MAX: usize = 64;

/// The directory whose pages are asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PagesOrder {
    /// Format version, [`crate::FORMAT`].
    pub format: u32,
    /// Directory of results, or of one result.
    pub dir: PathBuf,
    /// Name of the machine for readers.
    pub machine: String,
    /// Whether pages may stop what is measured and begin it again.
    pub may_control: bool,
}

/// A later line to whoever answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PagesCommand {
    /// Answer this request.
    Ask(PageRequest),
    /// A piece of the answer with this number was taken.
    Took(u64),
    /// Nobody waits for the answer with this number any more.
    Leave(u64),
    /// Answer at once with a `Pong` of this number.
    Ping(u64),
}

/// A request of a browser.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageRequest {
    /// Number, by which the answer is known.
    pub id: u64,
    /// Whether it is a POST, which may change something; else a GET.
    pub is_post: bool,
    /// Path and query.
    pub address: String,
    /// The last event that the browser has (`Last-Event-ID`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_event: Option<String>,
}

/// A line of whoever answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PagesLine {
    /// The directory can be read.
    Open,
    /// A part of the answer with this number.
    #[allow(missing_docs, reason = "the names say it")]
    Part { id: u64, part: AnswerPart },
}

/// A part of an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AnswerPart {
    /// Status and headers; comes first.
    #[allow(missing_docs, reason = "the names say it")]
    Head { status: u16, headers: Vec<(String, String)> },
    /// Text that follows.
    Piece(String),
    /// Nothing follows.
    End,
    /// Nothing follows, although more should: why.
    Lost(String),
}
