//! A relay: the thread that takes connections, and the switch as others turn it.

#[cfg(test)]
mod tests;

use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::connection::{RelayedConnection, Towards};
use crate::direction::DirectionThread;
use crate::line::OneWay;
use crate::switch::{Passed, Switch};

/// Pause after a connection that could not be taken.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// Most connections at a time; one more is closed at once. A standby has one, and opens another for what it asks apart from it.
const CONNECTIONS_MAX: usize = 64;

/// A relay between a unix socket that it listens on and another one. It ends when it is dropped: its connections are closed, its
/// threads joined, and nobody listens any more. The name of its socket is removed by whoever made it.
///
/// It passes at first. While it is *cut*, it reads and throws away all bytes, and the ends of connections, too: as when a network drops
/// everything, the peers see nothing, and connections stay open. Who connects waits. When it passes again, connections that have lost
/// something are closed, since what follows in them has a hole before it; the others go on, and who waits is let in.
#[derive(Debug)]
pub struct Relay {
    shared: Arc<Shared>,
    /// Wakes the thread that takes connections.
    wake: UnixStream,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    upstream: PathBuf,
    switch: Switch,
    connections: Mutex<Vec<Weak<RelayedConnection>>>,
    is_ending: AtomicBool,
}

impl Relay {
    /// Starts a relay that leads from this socket to the one at `upstream`, with the same way there and back. Whoever reaches the
    /// socket reaches `upstream` with the rights of this process: it must be in a directory that is closed to others.
    ///
    /// # Errors
    /// When a thread or a socket cannot be made.
    pub fn start(listener: UnixListener, upstream: &Path, way: OneWay) -> io::Result<Relay> {
        listener.set_nonblocking(true)?;
        let (wake, woken) = UnixStream::pair()?;
        wake.set_nonblocking(true)?;
        woken.set_nonblocking(true)?;
        let shared = Arc::new(Shared {
            upstream: upstream.to_path_buf(),
            switch: Switch::new(way),
            connections: Mutex::default(),
            is_ending: AtomicBool::new(false),
        });
        let of_thread = Arc::clone(&shared);
        let thread = thread::Builder::new()
            .name("relay".to_string())
            .spawn(move || Acceptor { shared: of_thread, listener, woken, threads: Vec::new() }.accept())?;
        Ok(Relay { shared, wake, thread: Some(thread) })
    }

    /// Swallows everything from now on. When this has returned, nothing gets out any more, nor does what was on the way.
    pub fn cut(&self) {
        self.shared.switch.held().turn(true);
    }

    /// Passes again, and closes connections that have lost something.
    pub fn pass(&self) {
        let mut position = self.shared.switch.held();
        position.turn(false);
        let open = self.shared.open_connections();
        open.iter().filter(|connection| connection.has_lost()).for_each(|connection| connection.close());
        drop(position);
        self.wake_up();
    }

    /// Whether it is cut.
    pub fn is_cut(&self) -> bool {
        self.shared.switch.held().is_cut()
    }

    /// Bytes that it has swallowed, of both directions.
    pub fn swallowed_bytes(&self) -> u64 {
        self.shared.switch.swallowed_bytes()
    }

    /// Bytes that it has forwarded, of both directions.
    pub fn forwarded_bytes(&self) -> u64 {
        self.shared.switch.forwarded_bytes()
    }

    /// Connections that are open.
    pub fn n_connections(&self) -> usize {
        self.shared.open_connections().len()
    }

    /// Each direction of its way.
    pub fn way(&self) -> OneWay {
        self.shared.switch.held().way()
    }

    /// Changes each direction of its way for all that it receives from now on; what is on the way arrives as it would have.
    pub fn set_way(&self, way: OneWay) {
        self.shared.switch.held().set_way(way);
    }

    /// What came this way from the server that it leads to since the way was changed last.
    pub fn passed(&self) -> Passed {
        self.shared.switch.held().passed()
    }

    fn wake_up(&self) {
        // If there is no room for one more, it will be woken anyway.
        (&self.wake).write_all(&[0]).ok();
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.shared.is_ending.store(true, Ordering::SeqCst);
        self.wake_up();
        // A thread that has panicked has ended.
        self.thread.take().map(JoinHandle::join);
    }
}

impl Shared {
    fn open_connections(&self) -> Vec<Arc<RelayedConnection>> {
        let mut connections = self.connections.lock().unwrap_or_else(PoisonError::into_inner);
        connections.retain(|connection| connection.strong_count() > 0);
        connections.iter().filter_map(Weak::upgrade).collect()
    }

    fn carry(self: Arc<Shared>, connection: Arc<RelayedConnection>, towards: Towards) {
        DirectionThread::new(&connection, &self.switch, towards).carry();
    }
}

/// The thread that takes connections, and starts two threads for each.
struct Acceptor {
    shared: Arc<Shared>,
    listener: UnixListener,
    woken: UnixStream,
    threads: Vec<JoinHandle<()>>,
}

impl Acceptor {
    fn accept(mut self) {
        while !self.shared.is_ending.load(Ordering::SeqCst) {
            if self.wait().is_err() {
                break;
            }
            self.threads.retain(|thread| !thread.is_finished());
            if let Some(near) = self.take() {
                // Who cannot be connected sees the end at once, as of a server that is gone.
                self.connect(near).ok();
            }
        }
        self.shared.open_connections().iter().for_each(|connection| connection.close());
        for thread in self.threads {
            // A thread that has panicked has ended.
            thread.join().ok();
        }
    }

    /// Waits until somebody connects, unless the relay is cut, or until it is woken.
    fn wait(&mut self) -> io::Result<()> {
        let is_cut = self.shared.switch.held().is_cut();
        let woken = PollFd::new(self.woken.as_fd(), PollFlags::POLLIN);
        let knocked = (!is_cut).then(|| PollFd::new(self.listener.as_fd(), PollFlags::POLLIN));
        let mut waited: Vec<PollFd> = [woken].into_iter().chain(knocked).collect();
        match poll(&mut waited, PollTimeout::NONE) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
        // Why it was woken is looked up.
        match self.woken.read(&mut [0; 64]) {
            Ok(_) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Somebody who has connected; while the relay is cut, they wait.
    fn take(&self) -> Option<UnixStream> {
        let position = self.shared.switch.held();
        if position.is_cut() {
            return None;
        }
        match self.listener.accept() {
            Ok((near, _)) => Some(near),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
            // The connection that waits for a free descriptor keeps the listener readable.
            Err(_) => {
                thread::sleep(ACCEPT_PAUSE);
                None
            }
        }
    }

    fn connect(&mut self, near: UnixStream) -> io::Result<()> {
        if self.shared.open_connections().len() >= CONNECTIONS_MAX {
            return Err(io::ErrorKind::QuotaExceeded.into());
        }
        let connection = Arc::new(RelayedConnection::open(near, &self.shared.upstream)?);
        // Before it can lose anything.
        self.shared
            .connections
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(Arc::downgrade(&connection));
        for towards in [Towards::Far, Towards::Near] {
            let (shared, of_thread) = (Arc::clone(&self.shared), Arc::clone(&connection));
            let thread = thread::Builder::new()
                .name("relay".to_string())
                .spawn(move || shared.carry(of_thread, towards))
                .inspect_err(|_| connection.close())?;
            self.threads.push(thread);
        }
        Ok(())
    }
}
