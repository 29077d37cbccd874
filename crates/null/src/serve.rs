//! The event loop: sockets, and answers that wait for their service time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use mio::net::{UnixListener, UnixStream};
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};
use nix::sys::time::{TimeSpec, TimeValLike};
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use nix::time::{ClockId as Clock, clock_gettime};
use workload::Prng;

use crate::delay::{ServiceTime, Silence};
use crate::record::{Passage, PassageFile};
use crate::session::NullSession;

/// Where to listen.
#[derive(Debug, Clone)]
pub struct NullAddress {
    /// Directory of the unix socket, which is called `.s.PGSQL.PORT`, as PostgreSQL's is.
    pub directory: PathBuf,
    /// Port in the socket's name.
    pub port: u16,
}

const LISTENER: Token = Token(usize::MAX);
const TIMER: Token = Token(usize::MAX - 1);
/// Most connections: a bound, not a goal.
const CONNECTIONS_MAX: usize = 20_000;
/// Up to this many connections are read in a busy loop, and epoll is asked only once in as many rounds. With more,
/// epoll finds the one with input faster.
const READ_CONNECTIONS_MAX: usize = 8;
const READ_ROUNDS: u32 = 64;
/// A timer fires a little late, so the last part of a wait is spent polling the clock.
const SPIN_NS: u64 = 60_000;

/// One connection.
struct Peer {
    stream: UnixStream,
    session: NullSession,
    /// Bytes not sent yet, in order.
    outgoing: Vec<u8>,
    /// Distinguishes answers of this connection from those of an earlier one in the same slot.
    generation: u64,
    /// When the statement arrived that is not answered yet.
    arrived: Option<u64>,
    /// Whether the service time is still running.
    awaits_answer: bool,
}

/// How to answer.
#[derive(Debug, Clone)]
pub struct Manner {
    /// How long statements take.
    pub service: ServiceTime,
    /// When nothing is answered, new connections included.
    pub silence: Option<Silence>,
    /// Seed of the service times.
    pub seed: u64,
    /// New file that gets four numbers for each message with statements, 8 bytes each, least significant first: the
    /// number of its connection, when it had arrived, when its answer was about to be sent and when that had been sent,
    /// in nanoseconds of the monotonic clock.
    pub record: Option<PathBuf>,
    /// Never sleep: one processor polls for input, so that recorded times include no wake-up.
    pub spin: bool,
}

/// Answers clients until `stop` is raised.
///
/// # Errors
/// When the socket or the file cannot be created or written, or waiting fails.
pub fn serve(listen: &NullAddress, manner: &Manner, stop: &AtomicBool) -> Result<()> {
    let record = manner.record.as_deref().map(PassageFile::create).transpose()?;
    let path = listen.directory.join(format!(".s.PGSQL.{}", listen.port));
    let listener =
        UnixListener::bind(&path).with_context(|| format!("cannot listen on `{}`", path.display()))?;
    let result = Null::new(listener, manner, record).and_then(|mut null| null.run(stop));
    // This process created the socket, so it may remove it.
    std::fs::remove_file(&path).ok();
    result
}

/// An answer that waits for its service time; ordered by time.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Waiting {
    due: u64,
    peer: usize,
    generation: u64,
    answer: Vec<u8>,
}

struct Null {
    poll: Poll,
    timer: TimerFd,
    listener: UnixListener,
    peers: Vec<Option<Peer>>,
    generation: u64,
    service: ServiceTime,
    silence: Option<Silence>,
    /// When the first statement came.
    first: Option<u64>,
    prng: Prng,
    spin: bool,
    waiting: BinaryHeap<Reverse<Waiting>>,
    record: Option<PassageFile>,
}

impl Null {
    fn new(mut listener: UnixListener, manner: &Manner, record: Option<PassageFile>) -> Result<Null> {
        let poll = Poll::new()?;
        poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
        let timer =
            TimerFd::new(ClockId::CLOCK_MONOTONIC, TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC)?;
        poll.registry().register(&mut SourceFd(&timer.as_fd().as_raw_fd()), TIMER, Interest::READABLE)?;
        Ok(Null {
            poll,
            timer,
            listener,
            peers: Vec::new(),
            generation: 0,
            service: manner.service,
            silence: manner.silence,
            first: None,
            prng: Prng::seed(manner.seed),
            spin: manner.spin,
            waiting: BinaryHeap::new(),
            record,
        })
    }

    fn run(&mut self, stop: &AtomicBool) -> Result<()> {
        let mut events = Events::with_capacity(1024);
        let mut buffer = vec![0; 64 * 1024];
        let mut n_rounds = 0_u32;
        while !stop.load(Ordering::Relaxed) {
            self.answer_due();
            n_rounds = n_rounds.wrapping_add(1);
            let is_few = (1..=READ_CONNECTIONS_MAX).contains(&self.peers.len());
            if self.spin && is_few && !n_rounds.is_multiple_of(READ_ROUNDS) {
                // Polling keeps the input path in the processor's caches, so recorded times include no cold misses.
                (0..self.peers.len()).for_each(|peer| self.serve_peer(peer, &mut buffer));
                continue;
            }
            let timeout = self.arm_timer()?;
            match self.poll.poll(&mut events, Some(timeout)) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                other => other.context("cannot wait for sockets")?,
            }
            for event in &events {
                match event.token() {
                    LISTENER => self.accept()?,
                    TIMER => {}
                    Token(peer) => self.serve_peer(peer, &mut buffer),
                }
            }
        }
        self.record.take().map_or(Ok(()), PassageFile::finish)
    }

    /// Sets the timer for the next answer; returns the longest time to wait.
    fn arm_timer(&self) -> Result<Duration> {
        if self.spin {
            return Ok(Duration::ZERO);
        }
        let Some(Reverse(Waiting { due, .. })) = self.waiting.peek() else {
            return Ok(Duration::from_millis(100));
        };
        if *due <= now() + SPIN_NS {
            return Ok(Duration::ZERO);
        }
        let at = TimeSpec::nanoseconds((due - SPIN_NS) as i64);
        self.timer.set(Expiration::OneShot(at), TimerSetTimeFlags::TFD_TIMER_ABSTIME)?;
        Ok(Duration::from_millis(100))
    }

    fn answer_due(&mut self) {
        while self.waiting.peek().is_some_and(|Reverse(first)| first.due <= now()) {
            let Some(Reverse(first)) = self.waiting.pop() else { return };
            if let Some(Some(peer)) = self.peers.get_mut(first.peer)
                && peer.generation == first.generation
            {
                peer.awaits_answer = false;
                peer.outgoing.extend_from_slice(&first.answer);
                self.flush(first.peer);
            }
        }
    }

    fn accept(&mut self) -> Result<()> {
        loop {
            let mut stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                // One connection that cannot be accepted is no reason to end the others.
                Err(_) => return Ok(()),
            };
            let free = self.peers.iter().position(Option::is_none).unwrap_or(self.peers.len());
            if free >= CONNECTIONS_MAX {
                continue;
            }
            self.poll.registry().register(
                &mut stream,
                Token(free),
                Interest::READABLE | Interest::WRITABLE,
            )?;
            self.generation += 1;
            let peer = Peer {
                stream,
                session: NullSession::default(),
                outgoing: Vec::new(),
                generation: self.generation,
                arrived: None,
                awaits_answer: false,
            };
            if free == self.peers.len() {
                self.peers.push(Some(peer));
            } else {
                self.peers[free] = Some(peer);
            }
        }
    }

    fn serve_peer(&mut self, index: usize, buffer: &mut [u8]) {
        loop {
            let Some(Some(peer)) = self.peers.get_mut(index) else { return };
            match peer.stream.read(buffer) {
                Ok(0) => return self.close(index),
                Ok(n) => {
                    let came = self.moment();
                    if !self.hear(index, &buffer[..n], came) {
                        return self.close(index);
                    }
                    if n < buffer.len() {
                        break;
                    }
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return self.close(index),
            }
        }
        self.flush(index);
    }

    /// Handles a piece of input that arrived at `came`; returns whether the connection stays open.
    fn hear(&mut self, index: usize, input: &[u8], came: u64) -> bool {
        let Some(Some(peer)) = self.peers.get_mut(index) else { return false };
        let begun = peer.outgoing.len();
        let heard = peer.session.hear(input, &mut peer.outgoing);
        if self.record.is_some() && heard.n_statements > 0 {
            peer.arrived = Some(came);
        }
        let service_ns: u64 = (0..heard.n_statements).map(|_| self.service.draw(&mut self.prng)).sum();
        let silent_ns = match self.silence {
            None => 0,
            Some(silence) => {
                let came = now();
                if heard.n_statements > 0 {
                    self.first.get_or_insert(came);
                }
                let due_ns = self.first.map_or(0, |first| came - first + service_ns);
                silence.end_of(due_ns) - due_ns
            }
        };
        if service_ns + silent_ns > 0 {
            let n_at_once = if silent_ns > 0 { 0 } else { heard.at_once.min(peer.outgoing.len() - begun) };
            let later = peer.outgoing.split_off(begun + n_at_once);
            let (due, generation) = (now() + service_ns + silent_ns, peer.generation);
            peer.awaits_answer = true;
            self.waiting.push(Reverse(Waiting { due, peer: index, generation, answer: later }));
        }
        !heard.is_over
    }

    fn flush(&mut self, index: usize) {
        let leaving = self.moment();
        let Some(Some(peer)) = self.peers.get_mut(index) else { return };
        while !peer.outgoing.is_empty() {
            match peer.stream.write(&peer.outgoing) {
                Ok(n) => drop(peer.outgoing.drain(..n)),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return self.close(index),
            }
        }
        if let (Some(record), Some(arrived)) = (&mut self.record, peer.arrived)
            && !peer.awaits_answer
        {
            peer.arrived = None;
            record.take(Passage { connection: peer.generation, arrived, leaving, answered: now() });
        }
    }

    /// The time, for the record; 0 without one, because reading the clock takes time.
    fn moment(&self) -> u64 {
        if self.record.is_some() { now() } else { 0 }
    }

    fn close(&mut self, index: usize) {
        self.peers[index] = None;
    }
}

fn now() -> u64 {
    let t = clock_gettime(Clock::CLOCK_MONOTONIC).expect("the monotonic clock exists");
    t.tv_sec() as u64 * 1_000_000_000 + t.tv_nsec() as u64
}
