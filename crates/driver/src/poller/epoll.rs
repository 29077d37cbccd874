//! Waiting with epoll: the kernel says which sockets can be used, and the driver reads and writes them.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};

use super::Signal;
use crate::client::Client;
use crate::clock::Nanos;

/// Waits for sockets with epoll, edge triggered, and for moments with a timer of nanosecond resolution
/// (epoll's own timeout has a resolution of a millisecond, too coarse for an open loop).
pub(crate) struct Epoll {
    poll: Poll,
    events: Events,
    timer: TimerFd,
    ready: Vec<Ready>,
    n_read: usize,
    /// Sockets that were not read until they were empty.
    again: Vec<Ready>,
}

const TIMER: Token = Token(usize::MAX);
/// Moments further away than this need no exact timer.
const EXACT_WITHIN_NS: Nanos = 20_000_000;

/// A socket that became ready.
#[derive(Debug, Clone, Copy)]
struct Ready {
    client: usize,
    closing: bool,
}

impl Epoll {
    pub(super) fn new(n_clients: usize) -> io::Result<Epoll> {
        let poll = Poll::new()?;
        let timer =
            TimerFd::new(ClockId::CLOCK_MONOTONIC, TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC)?;
        poll.registry().register(&mut SourceFd(&timer.as_fd().as_raw_fd()), TIMER, Interest::READABLE)?;
        let capacity = n_clients.clamp(16, 1024);
        Ok(Epoll {
            poll,
            events: Events::with_capacity(capacity),
            timer,
            ready: Vec::with_capacity(capacity),
            n_read: 0,
            again: Vec::new(),
        })
    }

    /// Watches a client's connection for input. Writability is watched only while something waits to be
    /// sent: with edge triggering, every message that the server takes would wake the loop.
    pub(super) fn watch(&self, client: &mut Client, index: usize) -> io::Result<()> {
        let Some(link) = &mut client.session.link else { return Ok(()) };
        self.poll.registry().register(link, Token(index), Interest::READABLE)
    }

    /// As [`Epoll::watch`], for a connection that was watched while it was made.
    pub(super) fn watch_made(&self, client: &mut Client, index: usize) -> io::Result<()> {
        let Some(link) = &mut client.session.link else { return Ok(()) };
        self.poll.registry().reregister(link, Token(index), Interest::READABLE)
    }

    /// Watches a connection that is being made. A socket that is closed is forgotten by itself.
    pub(super) fn watch_dialing(&self, client: &mut Client, index: usize) -> io::Result<()> {
        let Some(link) = client.dial.attempt.as_mut().and_then(|dialing| dialing.link_mut()) else {
            return Ok(());
        };
        self.poll.registry().register(link, Token(index), Interest::READABLE | Interest::WRITABLE)
    }

    /// Sends what the socket takes now. While something is left, the socket is watched for writability.
    #[inline]
    pub(super) fn send(&self, client: &mut Client, index: usize) -> io::Result<()> {
        let is_all_sent = client.flush()?;
        self.watch_writable(client, index, !is_all_sent)
    }

    #[inline]
    fn watch_writable(&self, client: &mut Client, index: usize, on: bool) -> io::Result<()> {
        if client.outgoing.waits_to_write == on {
            return Ok(());
        }
        client.outgoing.waits_to_write = on;
        let Some(link) = &mut client.session.link else { return Ok(()) };
        let interest = if on { Interest::READABLE | Interest::WRITABLE } else { Interest::READABLE };
        self.poll.registry().reregister(link, Token(index), interest)
    }

    /// Stops watching the client's connection.
    pub(super) fn forget(&self, client: &mut Client) {
        if let Some(link) = &mut client.session.link {
            self.poll.registry().deregister(link).ok();
        }
    }

    /// Waits until a socket is ready or `until` is reached. The caller knows what time it is.
    pub(super) fn wait(&mut self, now: Nanos, until: Nanos) -> io::Result<()> {
        self.ready.clear();
        self.n_read = 0;
        if !self.again.is_empty() {
            self.ready.append(&mut self.again);
        }
        let wait_ns = if self.ready.is_empty() { until.saturating_sub(now) } else { 0 };
        let timeout = if wait_ns == 0 {
            Some(Duration::ZERO)
        } else if wait_ns < EXACT_WITHIN_NS {
            let at = TimeSpec::from_duration(Duration::from_nanos(until));
            self.timer.set(Expiration::OneShot(at), TimerSetTimeFlags::TFD_TIMER_ABSTIME)?;
            None
        } else {
            Some(Duration::from_nanos(wait_ns))
        };
        match self.poll.poll(&mut self.events, timeout) {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => return Ok(()),
            other => other?,
        }
        for event in &self.events {
            if event.token() != TIMER {
                let closing = event.is_read_closed() || event.is_error();
                self.ready.push(Ready { client: event.token().0, closing });
            }
        }
        Ok(())
    }

    /// See [`super::Poller::look_again`].
    #[cold]
    pub(super) fn look_again(&mut self, client: usize, closing: bool) {
        self.again.push(Ready { client, closing });
    }

    /// Whether there is news, without waiting for it.
    pub(super) fn has_news(&mut self) -> io::Result<bool> {
        if self.n_read == self.ready.len() {
            self.wait(0, 0)?;
        }
        Ok(self.n_read < self.ready.len())
    }

    /// See [`super::Poller::upcoming`].
    #[inline]
    pub(super) fn upcoming(&self, n: usize) -> Option<usize> {
        self.ready.get(self.n_read + n).map(|ready| ready.client)
    }

    /// The next socket that the last wait found ready.
    #[inline]
    pub(super) fn next(&mut self) -> Option<(usize, Signal)> {
        let Ready { client, closing } = *self.ready.get(self.n_read)?;
        self.n_read += 1;
        Some((client, Signal::Ready { readable: true, closing }))
    }
}
