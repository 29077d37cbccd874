//! A client's message to the server, and how much of it has left.

use std::io;

use wire::Link;

/// The last message. It stays as it was written until the next one begins.
#[derive(Default)]
pub(crate) struct Outgoing {
    pub(super) bytes: Vec<u8>,
    n_sent: usize,
    /// The socket is watched for writability, because not all could be sent.
    pub(crate) waits_to_write: bool,
}

impl Outgoing {
    /// Forgets the message: its connection is gone.
    pub(super) fn reset(&mut self) {
        self.bytes.clear();
        self.n_sent = 0;
        self.waits_to_write = false;
    }

    /// Makes room for a new message. Nothing is left of the one before, except the rows of a COPY that failed early; the
    /// server skips them.
    #[inline]
    pub(super) fn begin(&mut self) {
        if self.n_sent == self.bytes.len() {
            self.bytes.clear()
        } else {
            drop(self.bytes.drain(..self.n_sent))
        }
        self.n_sent = 0;
    }

    /// The part of the message that is not sent yet.
    #[inline]
    pub(crate) fn unsent(&self) -> &[u8] {
        &self.bytes[self.n_sent..]
    }

    /// Forgets that part.
    #[cold]
    pub(super) fn drop_unsent(&mut self) {
        self.bytes.truncate(self.n_sent);
    }

    /// The kernel has taken over the whole message.
    #[inline]
    pub(crate) fn mark_sent(&mut self) {
        self.n_sent = self.bytes.len();
    }

    /// The last `n_bytes` of the message were handed over to the kernel, but not sent.
    #[cold]
    pub(crate) fn mark_unsent(&mut self, n_bytes: usize) {
        self.n_sent = self.bytes.len().saturating_sub(n_bytes);
        self.waits_to_write = true;
    }

    /// Sends what the socket takes, and says whether that was all.
    #[inline]
    pub(super) fn flush(&mut self, link: &mut Link) -> io::Result<bool> {
        while self.n_sent < self.bytes.len() {
            match link.send(&self.bytes[self.n_sent..]) {
                Ok(n) => self.n_sent += n,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        if !link.wants_write() {
            return Ok(true);
        }
        match link.flush_pending() {
            Err(e) if e.kind() != io::ErrorKind::WouldBlock => Err(e),
            _ => Ok(!link.wants_write()),
        }
    }
}
