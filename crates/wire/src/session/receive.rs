//! Receives messages for a session: the answer to its call, up to a limit, and messages that a server may send at any
//! time. Anything else ends the session.

use std::io;

use super::{Result, Session};
use crate::answer::{AnswerEvent, PIECE_BYTES, event, reply_bytes};
use crate::parameters;
use crate::protocol_error::ProtocolError;
use crate::reply::parse_error;
use crate::scan::{Flow, Reply};

/// Notices beyond this number, and beyond this many bytes, are dropped: a loop in a function must not fill our memory.
const N_NOTICES_MAX: usize = 1000;
const NOTICE_BYTES_MAX: usize = 1 << 20;
/// Most memory of the answer to one call: administration and monitoring read few rows.
const ANSWER_BYTES_MAX: usize = 64 << 20;
/// Most reads of unrequested messages before a call.
const LOOKS_MAX: usize = 16;
/// Most unrequested errors that are kept.
const UNASKED_ERRORS_MAX: usize = 8;
const BUFFER_BYTES: usize = 16 * 1024;

impl Session {
    /// Begins a call. Messages received before it answer nothing.
    pub(super) fn ask(&mut self, sql: &str) -> Result<()> {
        if let Some(lock_watch) = &mut self.lock_watch {
            lock_watch.begin(sql);
        }
        for _ in 0..LOOKS_MAX {
            if self.is_lost || !self.receive_what_is_there()? {
                break;
            }
        }
        self.n_awaited = 1;
        self.answer_bytes = 0;
        Ok(())
    }

    /// Scans received bytes and reads once more; `false` if there was nothing to read.
    pub(super) fn receive_what_is_there(&mut self) -> Result<bool> {
        if self.n_scanned == self.inbox.len() {
            self.inbox.clear();
            self.n_scanned = 0;
            let mut buffer = [0; BUFFER_BYTES];
            match self.connection.link.recv(&mut buffer) {
                Ok(0) => return Err(self.lost(io::Error::other("the server closed the connection"))),
                Ok(n) => self.inbox.extend_from_slice(&buffer[..n]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(self.lost(error)),
            }
        }
        let scanned = self.scan();
        self.n_scanned = self.inbox.len();
        if let Err(error) = scanned {
            self.is_lost = true;
            return Err(error.into());
        }
        Ok(true)
    }

    /// Scans the bytes received so far.
    fn scan(&mut self) -> std::result::Result<(), ProtocolError> {
        let Session { scanner, inbox, n_scanned, events, notices, notice_bytes, .. } = self;
        let Session { connection, answer_bytes, n_awaited, .. } = self;
        let mut fault = None;
        scanner.feed(&inbox[*n_scanned..], |reply| {
            match reply {
                Reply::Notice(body) if notices.len() < N_NOTICES_MAX && *notice_bytes < NOTICE_BYTES_MAX => {
                    let notice = parse_error(body);
                    *notice_bytes += notice.n_bytes();
                    notices.push(notice);
                }
                Reply::Parameter(name, value) => {
                    fault = parameters::keep(&mut connection.parameters, name, value).err();
                }
                Reply::Notice(_) | Reply::Notification(_) => {}
                // The error that ends a session may also arrive at any time.
                Reply::Error(_) if *n_awaited == 0 && events.len() >= UNASKED_ERRORS_MAX => {}
                Reply::Error(body) => {
                    let error = parse_error(body);
                    *answer_bytes += error.n_bytes() + PIECE_BYTES;
                    events.push_back(AnswerEvent::Error(error));
                    if *answer_bytes > ANSWER_BYTES_MAX {
                        fault = Some(ProtocolError::TooMuch { what: "errors", limit: "64 MiB" });
                    }
                }
                reply if *n_awaited == 0 => fault = Some(ProtocolError::Unasked(reply.tag())),
                Reply::ReadyForQuery(_) => {
                    *n_awaited -= 1;
                    events.push_back(AnswerEvent::Ready);
                }
                reply => {
                    *answer_bytes += reply_bytes(&reply);
                    if *answer_bytes <= ANSWER_BYTES_MAX {
                        events.extend(event(reply))
                    } else {
                        fault = Some(ProtocolError::TooMuch { what: "rows", limit: "64 MiB" })
                    }
                }
            }
            if fault.is_some() { Flow::Stop } else { Flow::Continue }
        })?;
        fault.map_or(Ok(()), Err)
    }
}
