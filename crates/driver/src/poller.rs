//! Waits for sockets and for moments: one interface over the kernel's two mechanisms.
//!
//! epoll says which sockets can be read; io_uring delivers what it has read from them. [`Poller::next`] yields
//! either, and [`Poller::send`] takes a message for either. Whatever is rare (connections being made, TLS,
//! long messages and pipelines) goes by readiness in both.

mod buffers;
mod epoll;
mod outbox;
#[cfg(test)]
pub(crate) mod scripted;
mod uring;

use std::io;

use model::load::PollerChoice;

pub(crate) use self::buffers::ReceivedPiece;
use self::epoll::Epoll;
use self::uring::Uring;
use crate::client::Client;
use crate::client::session::Destination;
use crate::clock::{self, Nanos};

/// One event that a wait has found.
#[derive(Debug)]
pub(crate) struct Woken {
    /// The client's index in its thread.
    pub(crate) client: usize,
    /// Which of its connections it is about.
    pub(crate) destination: Destination,
    /// The kind of event.
    pub(crate) signal: Signal,
}

/// News of a connection.
#[derive(Debug)]
pub(crate) enum Signal {
    /// The socket can be used.
    Ready {
        /// There may be input.
        readable: bool,
        /// The other side closed, or an error is pending: read until the end.
        closing: bool,
    },
    /// Input was received; see [`Poller::input`].
    Input(ReceivedPiece),
    /// The same, received before the client's last message had left.
    Early(ReceivedPiece),
    /// The last `n_bytes` of the client's message did not fit into the socket.
    Unsent { n_bytes: usize },
    /// The connection has ended: closed by the server, or by an error.
    Ended(io::Error),
}

/// The poller of one thread.
pub(crate) struct Poller {
    way: Way,
    n_clients: usize,
    busy_poll_ns: Nanos,
    /// Time spent polling without news.
    polled_ns: Nanos,
}

/// The kernel's mechanisms.
enum Way {
    /// Edge-triggered epoll, with a timer of nanosecond resolution.
    Epoll(Epoll),
    /// Multishot receive into provided buffers, sends submitted with the wait.
    IoUring(Box<Uring>),
    /// None at all: what a unit test says.
    #[cfg(test)]
    Scripted(Box<scripted::Scripted>),
}

impl Poller {
    /// Makes one poller per thread, all of one kind, for clients that have one or two connections. Each polls for `busy_poll_ns` before it
    /// sleeps, and wakes up that long before a moment it waits for.
    ///
    /// # Errors
    /// The kernel's. Unless io_uring was asked for, epoll takes its place where the kernel refuses it.
    pub(crate) fn for_threads(
        choice: PollerChoice,
        busy_poll_ns: Nanos,
        n_clients: &[usize],
        connections_each: usize,
    ) -> Result<Vec<Poller>, String> {
        let poller = |way, n_clients| Poller { way, n_clients, busy_poll_ns, polled_ns: 0 };
        let epoll = |&n: &usize| Epoll::new(connections_each * n).map(|epoll| poller(Way::Epoll(epoll), n));
        let uring = |&n: &usize| {
            Uring::new(connections_each * n).map(|uring| poller(Way::IoUring(Box::new(uring)), n))
        };
        if choice != PollerChoice::Epoll {
            match n_clients.iter().map(uring).collect::<io::Result<_>>() {
                Ok(pollers) => return Ok(pollers),
                Err(e) if choice == PollerChoice::IoUring => {
                    return Err(format!(
                        "the kernel does not let this process use io_uring ({e}): a container's seccomp profile or the \
                     sysctl kernel.io_uring_disabled forbids it, or the kernel is older than 6.1; use poller epoll"
                    ));
                }
                Err(_) => {}
            }
        }
        n_clients
            .iter()
            .map(epoll)
            .collect::<io::Result<_>>()
            .map_err(|e| format!("cannot wait for sockets: {e}"))
    }

    /// A poller that finds what a script says, for unit tests.
    #[cfg(test)]
    pub(crate) fn scripted(script: scripted::Script) -> Poller {
        let way = Way::Scripted(Box::new(scripted::Scripted::new(script)));
        Poller { way, n_clients: scripted::FIRST_OF_READS, busy_poll_ns: 0, polled_ns: 0 }
    }

    /// The number of a client's connection: second connections come after the first ones of all clients.
    #[inline]
    fn slot(&self, client: &Client, index: usize) -> usize {
        match client.destination {
            Destination::Target => index,
            Destination::Reads => self.n_clients + index,
        }
    }

    /// The client of a connection, and where that leads.
    #[inline]
    fn owner(&self, slot: usize) -> (usize, Destination) {
        match slot.checked_sub(self.n_clients) {
            None => (slot, Destination::Target),
            Some(index) => (index, Destination::Reads),
        }
    }

    /// The choice that was made.
    pub(crate) fn kind(&self) -> PollerChoice {
        match &self.way {
            Way::Epoll(_) => PollerChoice::Epoll,
            Way::IoUring(_) => PollerChoice::IoUring,
            #[cfg(test)]
            Way::Scripted(_) => PollerChoice::Auto,
        }
    }

    /// Called once by the thread that will wait, before anything else.
    pub(crate) fn enter_thread(&mut self) -> io::Result<()> {
        match &mut self.way {
            Way::Epoll(_) => Ok(()),
            Way::IoUring(uring) => uring.enter_thread(),
            #[cfg(test)]
            Way::Scripted(_) => Ok(()),
        }
    }

    /// Watches a client's connection for input.
    pub(crate) fn watch(&mut self, client: &mut Client, index: usize) -> io::Result<()> {
        let slot = self.slot(client, index);
        match &mut self.way {
            Way::Epoll(epoll) => epoll.watch(client, slot),
            Way::IoUring(uring) => uring.watch(client, slot),
            #[cfg(test)]
            Way::Scripted(_) => Ok(()),
        }
    }

    /// As [`Poller::watch`], for a connection that was watched while it was made.
    pub(crate) fn watch_made(&mut self, client: &mut Client, index: usize) -> io::Result<()> {
        let slot = self.slot(client, index);
        match &mut self.way {
            Way::Epoll(epoll) => epoll.watch_made(client, slot),
            Way::IoUring(uring) => uring.watch(client, slot),
            #[cfg(test)]
            Way::Scripted(_) => Ok(()),
        }
    }

    /// Watches a connection that is being made.
    pub(crate) fn watch_dialing(&mut self, client: &mut Client, index: usize) -> io::Result<()> {
        let slot = self.slot(client, index);
        match &mut self.way {
            Way::Epoll(epoll) => epoll.watch_dialing(client, slot),
            Way::IoUring(uring) => uring.watch_dialing(client, slot),
            #[cfg(test)]
            Way::Scripted(_) => Ok(()),
        }
    }

    /// Stops watching the client's connection. Called before the connection is closed.
    pub(crate) fn forget(&mut self, client: &mut Client, index: usize) {
        let slot = self.slot(client, index);
        match &mut self.way {
            Way::Epoll(epoll) => epoll.forget(client),
            Way::IoUring(uring) => uring.forget(client, slot),
            #[cfg(test)]
            Way::Scripted(scripted) => scripted.forget(slot),
        }
    }

    /// Sends the client's message, or as much of it as the connection takes now. The rest is sent when a
    /// [`Signal::Ready`] leads to the next call.
    ///
    /// # Errors
    /// The loss of the connection, if no [`Signal::Ended`] reports it.
    #[inline]
    pub(crate) fn send(&mut self, client: &mut Client, index: usize) -> io::Result<()> {
        let slot = self.slot(client, index);
        match &mut self.way {
            Way::Epoll(epoll) => epoll.send(client, slot),
            Way::IoUring(uring) => uring.send(client, slot),
            #[cfg(test)]
            Way::Scripted(scripted) => scripted.send(client, slot),
        }
    }

    /// Reports the client's connection again after the next wait, as one that can be read.
    ///
    /// # Errors
    /// The kernel's error.
    pub(crate) fn look_again(&mut self, client: &Client, index: usize, closing: bool) -> io::Result<()> {
        let slot = self.slot(client, index);
        match &mut self.way {
            Way::Epoll(epoll) => {
                epoll.look_again(slot, closing);
                Ok(())
            }
            Way::IoUring(uring) => uring.look_again(slot, closing),
            #[cfg(test)]
            Way::Scripted(_) => Ok(()),
        }
    }

    /// Waits, from `now` on, until there is news, which [`Poller::next`] returns, or `until` is reached. While it polls
    /// without news, it calls `meanwhile` with the time again and again; that returns whether it did something.
    #[inline]
    pub(crate) fn wait(
        &mut self,
        now: Nanos,
        until: Nanos,
        meanwhile: impl FnMut(Nanos) -> bool,
    ) -> io::Result<()> {
        match self.busy_poll_ns {
            0 => self.sleep(now, until),
            _ => self.wait_awake(until, meanwhile),
        }
    }

    /// Polls at the beginning and at the end of the wait, and sleeps in between.
    fn wait_awake(&mut self, until: Nanos, mut meanwhile: impl FnMut(Nanos) -> bool) -> io::Result<()> {
        // The first look also sends what is queued.
        self.look()?;
        let begun = clock::now();
        let (mut now, mut slept_ns) = (begun, 0);
        while now < until && !self.has_news()? {
            if now >= begun + self.busy_poll_ns && now + self.busy_poll_ns < until {
                self.sleep(now, until - self.busy_poll_ns)?;
                slept_ns += clock::now() - now;
            } else {
                if meanwhile(now) {
                    self.keep_at_hand()?;
                }
                std::hint::spin_loop();
            }
            now = clock::now();
        }
        self.polled_ns += now - begun - slept_ns;
        Ok(())
    }

    /// The time spent polling without news since the last call.
    pub(crate) fn take_polled_ns(&mut self) -> Nanos {
        std::mem::take(&mut self.polled_ns)
    }

    fn has_news(&mut self) -> io::Result<bool> {
        match &mut self.way {
            Way::Epoll(epoll) => epoll.has_news(),
            Way::IoUring(uring) => uring.has_news(),
            #[cfg(test)]
            Way::Scripted(_) => Ok(false),
        }
    }

    /// Has the kernel touch what a wait needs, so that it stays in the processor's caches.
    fn keep_at_hand(&mut self) -> io::Result<()> {
        match &mut self.way {
            // Polling does this already.
            Way::Epoll(_) => Ok(()),
            Way::IoUring(uring) => uring.do_nothing(),
            #[cfg(test)]
            Way::Scripted(_) => Ok(()),
        }
    }

    /// Collects the news there is, without waiting.
    pub(crate) fn look(&mut self) -> io::Result<()> {
        self.sleep(0, 0)
    }

    #[inline]
    fn sleep(&mut self, now: Nanos, until: Nanos) -> io::Result<()> {
        match &mut self.way {
            Way::Epoll(epoll) => epoll.wait(now, until),
            Way::IoUring(uring) => uring.wait(now, until),
            #[cfg(test)]
            Way::Scripted(scripted) => scripted.wait(until),
        }
    }

    /// The next piece of news that the last wait found.
    #[inline]
    pub(crate) fn next(&mut self) -> Option<Woken> {
        let (slot, signal) = match &mut self.way {
            Way::Epoll(epoll) => epoll.next(),
            Way::IoUring(uring) => uring.next(),
            #[cfg(test)]
            Way::Scripted(scripted) => scripted.next(),
        }?;
        let (client, destination) = self.owner(slot);
        Some(Woken { client, destination, signal })
    }

    /// The client that the `n`-th piece of news after the next one is about, if the last wait found that many.
    #[inline]
    pub(crate) fn upcoming(&self, n: usize) -> Option<usize> {
        let slot = match &self.way {
            Way::Epoll(epoll) => epoll.upcoming(n),
            Way::IoUring(uring) => uring.upcoming(n),
            #[cfg(test)]
            Way::Scripted(_) => None,
        }?;
        Some(self.owner(slot).0)
    }

    /// Prefetches the poller's own data about a client.
    #[inline]
    pub(crate) fn prefetch(&self, client: usize) {
        match &self.way {
            Way::Epoll(_) => {}
            Way::IoUring(uring) => uring.prefetch(client),
            #[cfg(test)]
            Way::Scripted(_) => {}
        }
    }

    /// The bytes of a piece of input.
    #[inline]
    pub(crate) fn input(&self, piece: &ReceivedPiece) -> &[u8] {
        match &self.way {
            Way::Epoll(_) => &[],
            Way::IoUring(uring) => uring.input(piece),
            #[cfg(test)]
            Way::Scripted(scripted) => scripted.input(piece),
        }
    }

    /// Returns a piece's buffer, for other input.
    #[inline]
    pub(crate) fn release(&mut self, piece: ReceivedPiece) {
        match &mut self.way {
            Way::Epoll(_) => {}
            Way::IoUring(uring) => uring.release(piece),
            #[cfg(test)]
            Way::Scripted(scripted) => scripted.release(piece),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_without_clients_has_the_same_poller_as_the_others() {
        let kinds = |n_clients: &[usize]| {
            let pollers = Poller::for_threads(PollerChoice::Auto, 0, n_clients, 1).unwrap();
            pollers.iter().map(Poller::kind).collect::<Vec<_>>()
        };
        let kind = kinds(&[1])[0];
        assert_eq!(kinds(&[2, 1, 0]), [kind; 3]);
    }
}
