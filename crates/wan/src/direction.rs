//! The thread of one direction of a connection: it receives into the delay line, and sends what is due.

use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::Instant;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::prctl;
use nix::sys::time::TimeSpec;

use crate::connection::{RelayedConnection, Towards};
use crate::line::{DelayLine, PIECE_BYTES_MAX};
use crate::switch::Switch;

/// How late the kernel may wake a thread to save power, nanoseconds: its usual 50,000 would add to each delay.
const TIMER_SLACK_NS: u64 = 1_000;

/// One direction of a connection.
pub(crate) struct DirectionThread<'a> {
    connection: &'a RelayedConnection,
    switch: &'a Switch,
    from: &'a UnixStream,
    to: &'a UnixStream,
    line: DelayLine,
    towards: Towards,
    /// Nothing more comes: the peer has ended it.
    has_ended: bool,
    /// The peer that it goes to was gone while the switch was cut, of which the other one learns nothing.
    is_target_gone: bool,
}

/// The next bytes to send.
enum Next {
    /// Nothing.
    Nothing,
    /// A piece that is not yet due.
    At(Instant),
    /// A piece that the peer's socket has no room for.
    Blocked,
    /// Nothing any more: the end was sent, or cannot be.
    Over,
}

/// The result of a wait.
#[derive(Default)]
struct Found {
    has_more: bool,
    is_target_gone: bool,
}

impl<'a> DirectionThread<'a> {
    pub(crate) fn new(
        connection: &'a RelayedConnection,
        switch: &'a Switch,
        towards: Towards,
    ) -> DirectionThread<'a> {
        let (from, to) = connection.ends(towards);
        let line = DelayLine::new(switch.held().way());
        DirectionThread {
            connection,
            switch,
            from,
            to,
            line,
            towards,
            has_ended: false,
            is_target_gone: false,
        }
    }

    /// Carries bytes until there are none, the connection is closed, or the peer that they go to is gone.
    pub(crate) fn carry(mut self) {
        // Without it, delays are some 50 µs longer.
        prctl::set_timerslack(TIMER_SLACK_NS).ok();
        let mut buffer = vec![0; PIECE_BYTES_MAX as usize];
        while !self.connection.is_closed() {
            self.line.set_way(self.switch.held().way());
            let next = self.send_due();
            if matches!(next, Next::Over) {
                return;
            }
            let Some(found) = self.wait(&next) else { return };
            if found.is_target_gone {
                if !self.switch.held().is_cut() {
                    return;
                }
                self.is_target_gone = true;
            }
            if found.has_more {
                self.receive(&mut buffer);
            }
        }
    }

    fn send_due(&mut self) -> Next {
        while let Some(piece) = self.line.first() {
            let mut position = self.switch.held();
            if piece.n_turns != position.n_turns() {
                let is_cut = position.is_cut();
                self.switch.count_swallowed(self.line.clear());
                self.connection.lose();
                if is_cut {
                    return Next::Nothing;
                }
                // It was cut for less than the delay.
                self.connection.close();
                return Next::Over;
            }
            if piece.due > Instant::now() {
                return Next::At(piece.due);
            }
            if piece.is_end() {
                // A peer that is gone needs no end.
                self.to.shutdown(Shutdown::Write).ok();
                return Next::Over;
            }
            match (&mut &*self.to).write(piece.rest()) {
                Ok(n) => {
                    self.switch.count_forwarded(n as u64);
                    position.pass(piece, self.towards, n as u64);
                    self.line.sent(n);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Next::Blocked,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Next::Over,
            }
        }
        Next::Nothing
    }

    /// Waits for what can be done; `None` if nothing can happen any more.
    fn wait(&self, next: &Next) -> Option<Found> {
        let is_read = !self.has_ended && self.line.room() > 0;
        let wanted = |is_wanted, flag| if is_wanted { flag } else { PollFlags::empty() };
        let from = is_read.then(|| PollFd::new(self.from.as_fd(), PollFlags::POLLIN));
        let of_target = wanted(matches!(next, Next::Blocked), PollFlags::POLLOUT);
        let to = (!self.is_target_gone).then(|| PollFd::new(self.to.as_fd(), of_target));
        let timeout = match next {
            Next::At(due) => Some(due.saturating_duration_since(Instant::now())),
            _ => None,
        };
        let mut waited: Vec<PollFd> = from.into_iter().chain(to).collect();
        if waited.is_empty() && timeout.is_none() {
            return None;
        }

        match ppoll(&mut waited, timeout.map(TimeSpec::from), None) {
            Ok(_) => {}
            Err(Errno::EINTR) => return Some(Found::default()),
            Err(_) => return None,
        }
        let flags = |poll: &PollFd| poll.revents().unwrap_or(PollFlags::empty());
        let gone = PollFlags::POLLHUP | PollFlags::POLLERR;
        let mut flags = waited.iter().map(flags);
        let has_more = is_read && flags.next().is_some_and(|flags| !flags.is_empty());
        let is_target_gone = !self.is_target_gone && flags.next().is_some_and(|flags| flags.intersects(gone));
        Some(Found { has_more, is_target_gone })
    }

    fn receive(&mut self, buffer: &mut [u8]) {
        let room = self.line.room();
        let n = match (&mut &*self.from).read(&mut buffer[..room]) {
            Ok(n) => n,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => return,
            // A peer that broke off has ended it, too.
            Err(_) => 0,
        };
        self.has_ended = n == 0;
        let mut position = self.switch.held();
        if position.is_cut() {
            self.switch.count_swallowed(n as u64);
            self.connection.lose();
        } else {
            self.line.set_way(position.way());
            self.line.push(&buffer[..n], Instant::now(), position.n_turns());
            position.is_busy(self.towards, self.line.busy());
        }
    }
}
