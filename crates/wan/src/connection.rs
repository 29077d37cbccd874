//! The two sockets of a connection that a relay carries.

use std::io;
use std::net::Shutdown;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::sys::socket::{self, AddressFamily, SockFlag, SockType, UnixAddr};

/// A connection: what came to the relay's socket, and what leads to the other server.
#[derive(Debug)]
pub(crate) struct RelayedConnection {
    near: UnixStream,
    far: UnixStream,
    has_lost: AtomicBool,
    is_closed: AtomicBool,
}

/// Which way bytes go.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Towards {
    /// To the server that the relay leads to.
    Far,
    /// To the one that came to the relay.
    Near,
}

impl RelayedConnection {
    /// Connects what came to a relay with the server that it leads to, without waiting for it.
    ///
    /// # Errors
    /// When nobody listens there, or its queue is full.
    pub(crate) fn open(near: UnixStream, upstream: &Path) -> io::Result<RelayedConnection> {
        near.set_nonblocking(true)?;
        let far = connect(upstream)?;
        let (has_lost, is_closed) = (AtomicBool::new(false), AtomicBool::new(false));
        Ok(RelayedConnection { near, far, has_lost, is_closed })
    }

    /// Where bytes that go this way come from, and where they go.
    pub(crate) fn ends(&self, towards: Towards) -> (&UnixStream, &UnixStream) {
        match towards {
            Towards::Far => (&self.near, &self.far),
            Towards::Near => (&self.far, &self.near),
        }
    }

    /// Notes that bytes, or an end, were swallowed: what would follow has a hole before it.
    pub(crate) fn lose(&self) {
        self.has_lost.store(true, Ordering::SeqCst);
    }

    pub(crate) fn has_lost(&self) -> bool {
        self.has_lost.load(Ordering::SeqCst)
    }

    /// Ends it for both peers, and wakes the threads that carry it.
    pub(crate) fn close(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
        for end in [&self.near, &self.far] {
            // A peer may have ended it before.
            end.shutdown(Shutdown::Both).ok();
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::SeqCst)
    }
}

/// A stream to a unix socket; a full queue of its listener is an error, and nothing to wait for.
fn connect(path: &Path) -> io::Result<UnixStream> {
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let socket: OwnedFd = socket::socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
    socket::connect(socket.as_raw_fd(), &UnixAddr::new(path)?)?;
    Ok(UnixStream::from(socket))
}
