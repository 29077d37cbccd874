//! Waiting for sockets and moments: one interface, two ways of the kernel's.
//!
//! epoll says which sockets can be read, io_uring hands over what it has read from them. [`Poller::next`] yields
//! either, and [`Poller::send`] takes a message for either. Everything that is rare (connections being made, TLS,
//! long messages and pipelines) goes by readiness in both.

mod buffers;
mod epoll;
mod uring;

use std::io;

use model::load::PollerChoice;

pub(crate) use self::buffers::Piece;
use self::epoll::Epoll;
use self::uring::Uring;
use crate::client::Client;
use crate::clock::Nanos;

/// What a wait has found for a client.
#[derive(Debug)]
pub(crate) struct Woken {
    /// The client's index in its thread.
    pub(crate) client: usize,
    /// What it is.
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
    Input(Piece),
    /// The connection has ended: closed by the server, or by an error.
    Ended(io::Error),
}

/// One thread's way to wait.
pub(crate) enum Poller {
    /// Edge triggered, with a timer of nanosecond grain.
    Epoll(Epoll),
    /// Multishot receive into provided buffers, sends submitted with the wait.
    IoUring(Box<Uring>),
}

impl Poller {
    /// Makes one poller per thread, all of one kind.
    ///
    /// # Errors
    /// What the kernel said. Without a wish for io_uring, epoll takes its place where the kernel refuses it.
    pub(crate) fn for_threads(choice: PollerChoice, n_clients: &[usize]) -> Result<Vec<Poller>, String> {
        let epoll = |&n: &usize| Epoll::new(n).map(Poller::Epoll);
        let uring = |&n: &usize| Uring::new(n).map(|uring| Poller::IoUring(Box::new(uring)));
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

    /// What is written in `run.json`.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Poller::Epoll(_) => "epoll",
            Poller::IoUring(_) => "io_uring",
        }
    }

    /// Called once by the thread that will wait, before all else.
    pub(crate) fn enter_thread(&mut self) -> io::Result<()> {
        match self {
            Poller::Epoll(_) => Ok(()),
            Poller::IoUring(uring) => uring.enter_thread(),
        }
    }

    /// Watches a client's connection for input.
    pub(crate) fn watch(&mut self, client: &mut Client, index: usize) -> io::Result<()> {
        match self {
            Poller::Epoll(epoll) => epoll.watch(client, index),
            Poller::IoUring(uring) => uring.watch(client, index),
        }
    }

    /// As [`Poller::watch`], for a connection that was watched while it was made.
    pub(crate) fn watch_made(&mut self, client: &mut Client, index: usize) -> io::Result<()> {
        match self {
            Poller::Epoll(epoll) => epoll.watch_made(client, index),
            Poller::IoUring(uring) => uring.watch(client, index),
        }
    }

    /// Watches a connection that is being made.
    pub(crate) fn watch_dialing(&mut self, client: &mut Client, index: usize) -> io::Result<()> {
        match self {
            Poller::Epoll(epoll) => epoll.watch_dialing(client, index),
            Poller::IoUring(uring) => uring.watch_dialing(client, index),
        }
    }

    /// Stops watching the client's connection. Called before the connection is closed.
    pub(crate) fn forget(&mut self, client: &mut Client, index: usize) {
        match self {
            Poller::Epoll(epoll) => epoll.forget(client),
            Poller::IoUring(uring) => uring.forget(client, index),
        }
    }

    /// Sends the client's message, or as much of it as the connection takes now. The rest is sent when a
    /// [`Signal::Ready`] leads to the next call.
    ///
    /// # Errors
    /// The loss of the connection, if it is not told by a [`Signal::Ended`].
    #[inline]
    pub(crate) fn send(&mut self, client: &mut Client, index: usize) -> io::Result<()> {
        match self {
            Poller::Epoll(epoll) => epoll.send(client, index),
            Poller::IoUring(uring) => uring.send(client, index),
        }
    }

    /// Waits until there is news or `until` is reached. [`Poller::next`] tells it.
    #[inline]
    pub(crate) fn wait(&mut self, until: Nanos) -> io::Result<()> {
        match self {
            Poller::Epoll(epoll) => epoll.wait(until),
            Poller::IoUring(uring) => uring.wait(until),
        }
    }

    /// The next piece of news that the last wait found.
    #[inline]
    pub(crate) fn next(&mut self) -> Option<Woken> {
        match self {
            Poller::Epoll(epoll) => epoll.next(),
            Poller::IoUring(uring) => uring.next(),
        }
    }

    /// The bytes of a piece of input.
    #[inline]
    pub(crate) fn input(&self, piece: &Piece) -> &[u8] {
        match self {
            Poller::Epoll(_) => &[],
            Poller::IoUring(uring) => uring.input(piece),
        }
    }

    /// Gives a piece's room back, for other input.
    #[inline]
    pub(crate) fn release(&mut self, piece: Piece) {
        match self {
            Poller::Epoll(_) => {}
            Poller::IoUring(uring) => uring.release(piece),
        }
    }
}
