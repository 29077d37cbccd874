//! The poller of unit tests: a server that does what a script says, at moments of a clock that only this poller moves.
//!
//! A wait takes no time: it sets the test's clock to the moment of the next news, or to the end of the wait. So a load
//! of a minute takes milliseconds, and every latency is exactly what the script says.

use std::collections::VecDeque;
use std::io;

use super::{ReceivedPiece, Signal};
use crate::client::Client;
use crate::clock::{self, Nanos, simulated};

/// What the server does so long after a message was sent.
#[derive(Debug)]
pub(crate) struct Act {
    pub(crate) after_ns: Nanos,
    pub(crate) what: ScriptedEvent,
}

#[derive(Debug)]
pub(crate) enum ScriptedEvent {
    Says(Vec<u8>),
    /// The same, received before the client's message had left.
    SaysEarly(Vec<u8>),
    /// The last bytes of the client's message do not fit into the socket.
    TakesAllBut(usize),
    Closes,
    /// The thread does not run until then, whatever it waits for.
    HoldsUp,
    /// Waiting itself fails.
    Breaks,
}

/// A message of a client, to which the script answers.
pub(crate) struct ScriptedMessage<'a> {
    /// The client's index, counted from [`FIRST_OF_READS`] on its second connection.
    pub(crate) client: usize,
    /// Number of the message among all messages of the thread, from 0.
    pub(crate) n: usize,
    pub(crate) bytes: &'a [u8],
}

/// What the server does in answer to a message. An error means that the message cannot be sent.
pub(crate) type Script = Box<dyn FnMut(ScriptedMessage) -> io::Result<Vec<Act>> + Send>;

/// The number of the first client's second connection.
pub(crate) const FIRST_OF_READS: usize = 1 << 20;

/// The poller.
pub(crate) struct Scripted {
    script: Script,
    n_sent: usize,
    /// Events that are to come, unordered.
    coming: Vec<(Nanos, usize, ScriptedEvent)>,
    found: VecDeque<(usize, ScriptedEvent)>,
    /// Every piece of input that was handed out, by its number.
    pieces: Vec<Vec<u8>>,
    n_released: usize,
}

impl Scripted {
    pub(crate) fn new(script: Script) -> Scripted {
        let (coming, found, pieces) = (Vec::new(), VecDeque::new(), Vec::new());
        Scripted { script, n_sent: 0, coming, found, pieces, n_released: 0 }
    }

    pub(super) fn send(&mut self, client: &mut Client, index: usize) -> io::Result<()> {
        let sent = ScriptedMessage { client: index, n: self.n_sent, bytes: client.outgoing.unsent() };
        self.n_sent += 1;
        let now = clock::now();
        let acts = (self.script)(sent)?;
        client.outgoing.mark_sent();
        client.outgoing.waits_to_write = false;
        self.coming.extend(acts.into_iter().map(|act| (now + act.after_ns, index, act.what)));
        Ok(())
    }

    /// Nothing comes from a connection that is closed.
    pub(super) fn forget(&mut self, index: usize) {
        self.coming.retain(|(_, client, _)| *client != index);
        self.found.retain(|(client, _)| *client != index);
    }

    pub(super) fn wait(&mut self, until: Nanos) -> io::Result<()> {
        assert_eq!(self.n_released, self.pieces.len(), "each piece of input was released");
        assert!(self.found.is_empty(), "all news was taken");
        let next = self.coming.iter().map(|(at, ..)| *at).min().unwrap_or(Nanos::MAX);
        let now = next.min(until).max(clock::now());
        simulated::set(now);
        self.coming.sort_by_key(|(at, ..)| *at);
        for (_, client, what) in self.coming.extract_if(.., |(at, ..)| *at <= now) {
            match what {
                ScriptedEvent::HoldsUp => simulated::set(now.max(until) + HELD_UP_NS),
                ScriptedEvent::Breaks => return Err(io::Error::other("the script breaks the poller")),
                what => self.found.push_back((client, what)),
            }
        }
        Ok(())
    }

    pub(super) fn next(&mut self) -> Option<(usize, Signal)> {
        let (client, what) = self.found.pop_front()?;
        let signal = match what {
            ScriptedEvent::Says(bytes) => Signal::Input(self.piece(bytes)),
            ScriptedEvent::SaysEarly(bytes) => Signal::Early(self.piece(bytes)),
            ScriptedEvent::TakesAllBut(n_bytes) => Signal::Unsent { n_bytes },
            ScriptedEvent::Closes => Signal::Ended(io::ErrorKind::ConnectionReset.into()),
            ScriptedEvent::HoldsUp | ScriptedEvent::Breaks => return self.next(),
        };
        Some((client, signal))
    }

    fn piece(&mut self, bytes: Vec<u8>) -> ReceivedPiece {
        let piece = ReceivedPiece::new(self.pieces.len() as u16, bytes.len() as u32);
        self.pieces.push(bytes);
        piece
    }

    pub(super) fn input(&self, piece: &ReceivedPiece) -> &[u8] {
        &self.pieces[usize::from(piece.number())]
    }

    pub(super) fn release(&mut self, _piece: ReceivedPiece) {
        self.n_released += 1;
        if self.n_released == self.pieces.len() {
            self.pieces.clear();
            self.n_released = 0;
        }
    }
}

/// How long the thread is held up beyond what it waited for.
pub(crate) const HELD_UP_NS: Nanos = 150_000_000;
