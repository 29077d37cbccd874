//! A client with two connections: its transactions go over either, one at a time, and the other one rests meanwhile.

use std::io;

use wire::{Connection, ProtocolError, Scanner};

use crate::client::outgoing::Outgoing;
use crate::client::parsed::PreparedStatements;
use crate::client::session::{ClientSession, Destination};
use crate::client::{Client, READS_MAX};

/// The connection that the client does not use at the moment: no answer is due on it.
#[derive(Default)]
pub(super) struct RestingConnection {
    session: ClientSession,
    scanner: Scanner,
    outgoing: Outgoing,
}

impl Client {
    /// Takes over a second connection, for transactions that read.
    ///
    /// # Errors
    /// As [`Client::connect`].
    pub(crate) fn connect_reads(
        &mut self,
        connection: Connection,
        parsed: Option<PreparedStatements>,
    ) -> Result<(), ProtocolError> {
        let n_bytes_max = self.scanner.message_bytes_max();
        self.resting = Some(Box::default());
        self.at_rest(|client| {
            client.limit_messages(n_bytes_max);
            client.connect(connection, parsed)
        })
    }

    /// Does something to the connection that rests, as if it were the one in use.
    pub(crate) fn at_rest<R>(&mut self, act: impl FnOnce(&mut Client) -> R) -> R {
        self.change_connection();
        let done = act(self);
        self.change_connection();
        done
    }

    /// Has the next transaction go there. Called between two transactions.
    #[inline]
    pub(crate) fn lead_to(&mut self, destination: Destination) {
        if self.destination != destination {
            self.change_connection();
        }
    }

    /// Leaves the connection to the target as the one in use, whose session is the one to ask for settings when the load is over.
    pub(crate) fn rest_on_target(&mut self) {
        if self.has_two_connections() {
            self.lead_to(Destination::Target);
        }
    }

    /// Uses the other connection, or the way to it: a client that connects for each transaction has none that rests.
    #[cold]
    fn change_connection(&mut self) {
        self.destination = match self.destination {
            Destination::Target => Destination::Reads,
            Destination::Reads => Destination::Target,
        };
        if let Some(resting) = &mut self.resting {
            std::mem::swap(&mut self.session, &mut resting.session);
            std::mem::swap(&mut self.scanner, &mut resting.scanner);
            std::mem::swap(&mut self.outgoing, &mut resting.outgoing);
        }
    }

    /// Whether it has two connections.
    pub(crate) fn has_two_connections(&self) -> bool {
        self.resting.is_some()
    }

    /// Reads what has come unasked; returns whether there may be more.
    ///
    /// # Errors
    /// Why the connection cannot be used any more.
    pub(crate) fn read_unasked(&mut self, buffer: &mut [u8]) -> Result<bool, String> {
        for _ in 0..READS_MAX {
            let Some(link) = &mut self.session.link else { return Ok(false) };
            match link.recv(buffer) {
                Ok(0) => return Err("the server closed the connection".to_string()),
                Ok(n) => self.receive_unasked(&buffer[..n]).map_err(|error| error.to_string())?,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e.to_string()),
            }
        }
        Ok(true)
    }

    /// The connection has ended; the next transaction that needs it learns why.
    pub(crate) fn lose_at_rest(&mut self, why: String) {
        (self.session.link, self.session.cancel) = (None, None);
        self.session.lost = Some(why);
    }
}
