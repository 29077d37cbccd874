//! Any bytes from a server: cut in arbitrary pieces they give the same replies as whole, an ordinary reply comes to what
//! its replies say, the readers of bodies take whatever is in them, what comes unasked is taken only if it may come at any
//! time, and nothing panics. That memory stays bounded is for the
//! limit on single allocations that `fuzz/run` sets.
//!
//! Whoever includes this has the scanner's modules above it: it needs nothing else of its crate, which links libpq.

use super::reply;
use super::scan::{Flow, ProtocolError, Reply, Scanner};

/// Begins with how the rest is cut: whether rows are wanted, how often the sink stops, and lengths of pieces.
const HEAD_BYTES: usize = 8;

/// Tries one text of a server.
pub fn run_one(data: &[u8]) {
    let Some((head, input)) = data.split_at_checked(HEAD_BYTES) else { return };
    let want_rows = head[0] & 1 == 1;
    let whole = replies(want_rows, 0, &[input]);
    if let Some(ordinary) = Scanner::new().ordinary(input) {
        let (heard, end) = replies(false, 0, &[input]);
        assert_eq!(end, Ok(true));
        assert_eq!(heard.last(), Some(&format!("{:?}", Reply::ReadyForQuery(ordinary.status))));
        let n_done = heard.iter().filter(|reply| reply.starts_with("CommandComplete")).count();
        assert_eq!(n_done, ordinary.n_done as usize);
        assert_eq!(heard.iter().filter(|reply| reply.starts_with("ReadyForQuery")).count(), 1);
    }
    let mut idle = Scanner::new();
    if idle.feed_unasked(input, |reply| assert!(b"NSAE".contains(&reply.tag()))).is_ok() {
        let (heard, _) = replies(true, 0, &[input]);
        let is_asynchronous = |reply: &String| {
            ["Notice(", "Parameter(", "Notification(", "Error("].iter().any(|kind| reply.starts_with(kind))
        };
        assert!(heard.iter().all(is_asynchronous));
    }
    let pieces = cut(input, &head[2..]);
    let in_pieces = replies(want_rows, head[1], &pieces);
    assert_eq!(in_pieces, whole);
    let bytes: Vec<&[u8]> = input.chunks(1).collect();
    assert_eq!(replies(want_rows, head[1], &bytes), whole);
}

/// The input in pieces whose lengths go around.
fn cut<'a>(mut input: &'a [u8], lengths: &[u8]) -> Vec<&'a [u8]> {
    let mut pieces = Vec::new();
    for &length in lengths.iter().cycle() {
        if input.is_empty() {
            break;
        }
        // An empty read happens, too; one byte more than asked for keeps this finite.
        pieces.push(&input[..0]);
        let (piece, rest) = input.split_at((usize::from(length) + 1).min(input.len()));
        pieces.push(piece);
        input = rest;
    }
    pieces
}

/// All replies as text, and how it ended: whether between two messages, or with which error.
fn replies(want_rows: bool, stops: u8, pieces: &[&[u8]]) -> (Vec<String>, Result<bool, ProtocolError>) {
    let mut scanner = Scanner::new();
    scanner.want_rows(want_rows);
    let mut heard = Vec::new();
    for piece in pieces {
        let mut rest = *piece;
        loop {
            let before = heard.len();
            let result = scanner.feed(rest, |reply| {
                read_body(&reply);
                heard.push(format!("{reply:?}"));
                let is_stop = stops > 0 && heard.len().is_multiple_of(usize::from(stops));
                if is_stop { Flow::Stop } else { Flow::Continue }
            });
            match result {
                Err(error) => return (heard, Err(error)),
                Ok(n_bytes) => {
                    assert!(n_bytes <= rest.len());
                    assert!(n_bytes > 0 || rest.is_empty() || heard.len() > before, "input is consumed");
                    rest = &rest[n_bytes..];
                }
            }
            if rest.is_empty() {
                break;
            }
        }
    }
    let is_at_boundary = scanner.is_at_boundary();
    (heard, Ok(is_at_boundary))
}

/// What is in a body may be anything.
fn read_body(reply: &Reply) {
    match reply {
        Reply::Error(body) | Reply::Notice(body) => {
            let error = reply::parse_error(body);
            let _ = (error.is_retryable(), error.to_string(), reply::error_sqlstate(body));
        }
        Reply::DataRow(body) => drop(reply::row_values(body).collect::<Vec<_>>()),
        Reply::RowDescription(body) => drop(reply::column_names(body)),
        Reply::CommandComplete { tag } => drop(reply::tag_rows(tag)),
        _ => {}
    }
}
