//! Waits with io_uring: multishot receives into provided buffers, and sends that enter the kernel together with the
//! next wait. One system call then serves many clients, where epoll needs one to send and one to receive for each.

mod request;

use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};

use io_uring::squeue::{Entry, Flags};
use io_uring::types::{CancelBuilder, Fd, Fixed, SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, opcode};
use nix::errno::Errno;
use nix::libc;

use self::request::{Purpose, Slot, Tag, Watch};
use super::Signal;
use super::buffers::{Buffers, GROUP, ReceivedPiece};
use super::outbox::Outbox;
use crate::client::Client;
use crate::clock::{Nanos, SECOND_NS};
use crate::prefetch;

/// One thread's ring.
///
/// Every request carries a [`Tag`]. A client's connections are numbered by generation, so that a late
/// completion of a closed connection is not mistaken for one of its successor.
///
/// Two kinds of memory are lent to the kernel, and neither is ever freed: [`Buffers`], which it receives into, and the
/// [`Outbox`], which it sends from. A send must not wait (`MSG_DONTWAIT`): it is complete, successful or not,
/// when the system call that takes it from the queue returns, so the kernel reads the outbox only during that call. A
/// client's own buffer is never lent.
pub(crate) struct Uring {
    ring: IoUring,
    buffers: Buffers,
    outbox: Outbox,
    /// Requests queued so far, and how many of them the kernel has taken.
    n_queued: u64,
    n_taken: u64,
    /// Why the ring has become unusable; the next wait reports it.
    broken: Option<io::Error>,
    slots: Vec<Slot>,
    /// What the last wait found, and how much of it has been read.
    found: Vec<cqueue::Entry>,
    n_read: usize,
    /// Receives and polls that ended because buffers or room ran out; the next wait begins them again.
    starved: Vec<(usize, u32)>,
}

/// The end of a receive.
struct Completion {
    result: i32,
    /// Whether the request stays with the kernel and completes again.
    goes_on: bool,
    /// Whether it was received before the client's message had left.
    is_early: bool,
}

/// Most requests that wait for the next system call: a longer turn submits what it has so far, so that the server works
/// while the driver goes on. Submitting sooner cost more than it gained (8 or 32: up to a third more CPU).
const QUEUE_ENTRIES: u32 = 128;
/// Longer messages are sent at once, by a system call of their own: they might not fit into the socket.
const SEND_BYTES_MAX: usize = 4096;
/// The kernel takes all requests at once unless its completion queue is full; that is emptied between two attempts.
const HAND_OVER_ATTEMPTS: usize = 100;

impl Uring {
    /// A ring for `n_clients`; it does nothing before [`Uring::enter_thread`].
    ///
    /// # Errors
    /// The kernel has no io_uring, lacks a feature that is used here (6.1 has all), or does not permit it.
    pub(super) fn new(n_clients: usize) -> io::Result<Uring> {
        let completions = (4 * n_clients).next_power_of_two().clamp(512, 32_768);
        let ring = IoUring::builder()
            .setup_cqsize(completions as u32)
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_taskrun_flag()
            .setup_submit_all()
            .setup_r_disabled()
            .build(QUEUE_ENTRIES)?;
        if !ring.params().is_feature_ext_arg() || !ring.params().is_feature_skip_cqe_on_success() {
            return Err(io::ErrorKind::Unsupported.into());
        }
        // A thread may have no client, but the kernel's table needs a row.
        ring.submitter().register_files_sparse(n_clients.max(1) as u32)?;
        let n_buffers = n_clients.next_power_of_two().clamp(64, 4096) as u16;
        let buffers = Buffers::register(&ring.submitter(), n_buffers)?;
        Ok(Uring {
            ring,
            buffers,
            outbox: Outbox::new(),
            n_queued: 0,
            n_taken: 0,
            broken: None,
            slots: vec![Slot::default(); n_clients],
            found: Vec::with_capacity(completions),
            n_read: 0,
            starved: Vec::new(),
        })
    }

    /// Makes the ring the calling thread's.
    pub(super) fn enter_thread(&mut self) -> io::Result<()> {
        self.ring.submitter().register_enable_rings()?;
        // Saves a lookup in the table of files with each call; optional, because older kernels cannot do it.
        self.ring.submitter().register_ring_fd().ok();
        // Waits end on time and not up to 50 us later.
        nix::sys::prctl::set_timerslack(1)?;
        Ok(())
    }

    /// Has the kernel receive from a connection, or watches it if it is encrypted.
    pub(super) fn watch(&mut self, client: &mut Client, index: usize) -> io::Result<()> {
        let Some(link) = &client.session.link else { return Ok(()) };
        let watch = if link.is_encrypted() {
            Watch::Poll { events: libc::POLLIN | libc::POLLRDHUP }
        } else {
            Watch::Receive
        };
        self.begin(index, link.fd(), watch)
    }

    /// Watches a connection that is being made.
    pub(super) fn watch_dialing(&mut self, client: &mut Client, index: usize) -> io::Result<()> {
        let Some(link) = client.dial.attempt.as_mut().and_then(|dialing| dialing.link_mut()) else {
            return Ok(());
        };
        let events = libc::POLLIN | libc::POLLOUT | libc::POLLRDHUP;
        self.begin(index, link.as_fd().as_raw_fd(), Watch::Poll { events })
    }

    /// Watches another connection of a client.
    fn begin(&mut self, index: usize, fd: RawFd, watch: Watch) -> io::Result<()> {
        self.retire(index)?;
        if watch == Watch::Receive {
            self.keep_at_hand(index, fd)?;
        }
        let slot = &mut self.slots[index];
        (slot.fd, slot.watch) = (fd, watch);
        self.arm(index)
    }

    /// Registers a connection's file under the client's number, which saves a lookup in the process's table of files with
    /// each message. It stays open until [`Uring::let_go`].
    fn keep_at_hand(&mut self, index: usize, fd: RawFd) -> io::Result<()> {
        self.ring.submitter().register_files_update(index as u32, &[fd])?;
        self.slots[index].is_at_hand = true;
        Ok(())
    }

    fn let_go(&mut self, index: usize) {
        const NONE: RawFd = -1;
        if std::mem::take(&mut self.slots[index].is_at_hand) {
            self.ring.submitter().register_files_update(index as u32, &[NONE]).ok();
        }
    }

    /// Ends every request for the connection. An error leaves a request behind, whose completion is ignored.
    pub(super) fn forget(&mut self, client: &mut Client, index: usize) {
        client.outgoing.waits_to_write = false;
        let Some(link) = &client.session.link else {
            self.retire(index).ok();
            self.let_go(index);
            return;
        };
        let fd = link.fd();
        let slot = &mut self.slots[index];
        slot.watch = Watch::Nothing;
        slot.begin_generation();
        // What is queued for this connection must not go to the next one under the client's number.
        if let Err(error) = self.hand_over() {
            self.broken = Some(error);
        }
        // A receive that is not cancelled goes on into buffers that are never freed, and its completions are ignored.
        self.ring.submitter().register_sync_cancel(None, CancelBuilder::fd(Fd(fd)).all()).ok();
        self.let_go(index);
    }

    /// Stops watching a connection that may have been closed already.
    fn retire(&mut self, index: usize) -> io::Result<()> {
        let slot = &mut self.slots[index];
        let purpose = match std::mem::take(&mut slot.watch) {
            Watch::Nothing => return Ok(()),
            Watch::Receive => Purpose::Receive,
            Watch::Poll { .. } => Purpose::Poll,
        };
        let old = Tag::new(purpose, index, slot.generation);
        slot.begin_generation();
        let cancel = opcode::AsyncCancel::new(old.0).build().flags(Flags::SKIP_SUCCESS);
        self.push(cancel, Tag::new(Purpose::Cancel, index, 0))
    }

    /// Begins, or begins again, to watch a client's connection.
    fn arm(&mut self, index: usize) -> io::Result<()> {
        let slot = self.slots[index];
        match slot.watch {
            Watch::Nothing => Ok(()),
            Watch::Receive => {
                let receive = opcode::RecvMulti::new(Fd(slot.fd), GROUP).build();
                self.push(receive, Tag::new(Purpose::Receive, index, slot.generation))
            }
            Watch::Poll { events } => {
                let poll = opcode::PollAdd::new(Fd(slot.fd), events as u32).multi(true).build();
                self.push(poll, Tag::new(Purpose::Poll, index, slot.generation))
            }
        }
    }

    /// Queues the client's message, which goes out with the next system call.
    #[inline]
    pub(super) fn send(&mut self, client: &mut Client, index: usize) -> io::Result<()> {
        let slot = &mut self.slots[index];
        if slot.watch != Watch::Receive || client.exchange.pipeline.is_on || client.outgoing.waits_to_write {
            return self.send_at_once(client, index);
        }
        let message = client.outgoing.unsent();
        if message.len() > SEND_BYTES_MAX {
            return self.send_at_once(client, index);
        }
        let Some(lent) = self.outbox.lend(message) else { return self.send_after_others(client, index) };
        // A message of this size nearly always fits into a socket whose last message was answered. If it does not, the
        // completion says how much of it did, see `Signal::Unsent`.
        let send = opcode::Send::new(Fixed(index as u32), lent.address(), lent.len())
            .flags(libc::MSG_NOSIGNAL | libc::MSG_WAITALL | libc::MSG_DONTWAIT)
            .build()
            .flags(Flags::SKIP_SUCCESS);
        client.outgoing.mark_sent();
        let tag = Tag::new(Purpose::Send, index, slot.generation);
        (slot.sent_as, slot.sent_bytes) = (self.n_queued + 1, lent.len());
        self.push(send, tag)
    }

    /// As [`Uring::send`], when the outbox is full.
    #[cold]
    fn send_after_others(&mut self, client: &mut Client, index: usize) -> io::Result<()> {
        if self.make_room()? { self.send(client, index) } else { self.send_at_once(client, index) }
    }

    /// Submits what is queued, so that the outbox is free again; `false` if the kernel did not take all of it.
    fn make_room(&mut self) -> io::Result<bool> {
        self.submit()?;
        self.collect();
        if self.n_taken == self.n_queued {
            self.outbox.reclaim();
        }
        Ok(self.outbox.is_free())
    }

    /// Has the kernel take everything that is queued.
    fn hand_over(&mut self) -> io::Result<()> {
        for _ in 0..HAND_OVER_ATTEMPTS {
            self.submit()?;
            if self.n_taken == self.n_queued {
                return Ok(());
            }
            self.collect();
        }
        Err(io::Error::other("the kernel does not take what is queued in io_uring"))
    }

    #[cold]
    fn send_at_once(&mut self, client: &mut Client, index: usize) -> io::Result<()> {
        let slot = self.slots[index];
        client.outgoing.waits_to_write = match client.flush() {
            Ok(all_sent) => !all_sent,
            // The receive ends too, after the server's last message.
            Err(_) if slot.watch == Watch::Receive => false,
            Err(e) => return Err(e),
        };
        if !client.outgoing.waits_to_write || slot.awaits_room {
            return Ok(());
        }
        self.slots[index].awaits_room = true;
        let room = opcode::PollAdd::new(Fd(slot.fd), libc::POLLOUT as u32).build();
        self.push(room, Tag::new(Purpose::Room, index, slot.generation))
    }

    /// Submits what is queued and waits for completions. The caller knows what time it is.
    #[inline]
    pub(super) fn wait(&mut self, now: Nanos, until: Nanos) -> io::Result<()> {
        if let Some(error) = self.broken.take() {
            return Err(error);
        }
        // What came while the queue was emptied in between has not been read yet.
        self.found.drain(..self.n_read);
        self.n_read = 0;
        while let Some((index, generation)) = self.starved.pop() {
            if self.slots[index].generation == generation {
                self.arm(index)?;
            }
        }
        let wait_ns = if self.found.is_empty() { until.saturating_sub(now) } else { 0 };
        let submitted = match wait_ns {
            0 => self.ring.submit(),
            _ => {
                let time = Timespec::new().sec(wait_ns / SECOND_NS).nsec((wait_ns % SECOND_NS) as u32);
                self.ring.submitter().submit_with_args(1, &SubmitArgs::new().timespec(&time))
            }
        };
        self.count_taken(submitted)?;
        if self.n_taken == self.n_queued {
            self.outbox.reclaim();
        }
        self.collect();
        Ok(())
    }

    /// Takes the completions. A loop instead of `extend`, which is not inlined.
    #[inline]
    fn collect(&mut self) {
        let Uring { ring, slots, found, .. } = self;
        for entry in ring.completion() {
            if Tag(entry.user_data()).is(Purpose::Send) {
                note_unsent(slots, &entry);
            }
            found.push(entry);
        }
    }

    /// Accounts for a system call that submits requests and, unless it failed, returns how many it took.
    #[inline]
    fn count_taken(&mut self, submitted: io::Result<usize>) -> io::Result<()> {
        self.n_taken = match submitted {
            Ok(n) => self.n_taken + n as u64,
            Err(_) => self.n_queued - self.ring.submission().len() as u64,
        };
        tolerate(submitted)
    }

    /// Makes the next wait report the client's connection, whether or not anything comes.
    #[cold]
    pub(super) fn look_again(&mut self, index: usize, closing: bool) -> io::Result<()> {
        let purpose = if closing { Purpose::LookToTheEnd } else { Purpose::LookAgain };
        let tag = Tag::new(purpose, index, self.slots[index].generation);
        self.push(opcode::Nop::new().build(), tag)
    }

    /// Enters the kernel with a request that does nothing.
    pub(super) fn do_nothing(&mut self) -> io::Result<()> {
        let nothing = opcode::Nop::new().build().flags(Flags::SKIP_SUCCESS);
        self.push(nothing, Tag::new(Purpose::Cancel, 0, 0))?;
        // Also takes what has come meanwhile, which nothing else would report.
        self.wait(0, 0)
    }

    /// Whether there is news, without waiting for it. Costs a look at memory while there is none.
    #[inline]
    pub(super) fn has_news(&mut self) -> io::Result<bool> {
        if self.n_read == self.found.len() && self.ring.submission().taskrun() {
            self.wait(0, 0)?;
        }
        Ok(self.n_read < self.found.len())
    }

    /// See [`super::Poller::upcoming`]. News that will be ignored counts too: a wrong guess does no harm.
    #[inline]
    pub(super) fn upcoming(&self, n: usize) -> Option<usize> {
        self.found.get(self.n_read + n).map(|entry| Tag(entry.user_data()).index())
    }

    /// See [`super::Poller::prefetch`].
    #[inline]
    pub(super) fn prefetch(&self, client: usize) {
        if let Some(slot) = self.slots.get(client) {
            prefetch::lines(slot);
        }
    }

    /// The next piece of news.
    #[inline]
    pub(super) fn next(&mut self) -> Option<(usize, Signal)> {
        loop {
            let entry = self.found.get(self.n_read)?;
            self.n_read += 1;
            let tag = Tag(entry.user_data());
            let (result, flags) = (entry.result(), entry.flags());
            if let Some(signal) = self.interpret(tag, result, flags) {
                return Some((tag.index(), signal));
            }
        }
    }

    #[inline]
    fn interpret(&mut self, tag: Tag, result: i32, flags: u32) -> Option<Signal> {
        let index = tag.index();
        let slot = self.slots.get(index).filter(|slot| slot.generation == tag.generation());
        let is_current = slot.is_some();
        // Input that comes before the client's message has left is no answer to it.
        let is_early = slot.is_some_and(|slot| slot.sent_as > self.n_taken);
        if tag.is(Purpose::Receive) {
            let piece =
                cqueue::buffer_select(flags).map(|buffer| ReceivedPiece::new(buffer, result.max(0) as u32));
            if !is_current {
                if let Some(piece) = piece {
                    self.buffers.release(piece);
                }
                return None;
            }
            let completion = Completion { result, goes_on: cqueue::more(flags), is_early };
            return self.received(index, completion, piece);
        }
        if !is_current || tag.is(Purpose::Cancel) {
            return None;
        }
        if tag.is(Purpose::Send) {
            return self.unsent(index, result);
        }
        if tag.is(Purpose::LookAgain) || tag.is(Purpose::LookToTheEnd) {
            return Some(Signal::Ready { readable: true, closing: tag.is(Purpose::LookToTheEnd) });
        }
        let events = result.max(0);
        let closing = result < 0 || events & i32::from(libc::POLLERR | libc::POLLHUP | libc::POLLRDHUP) != 0;
        let is_poll = tag.is(Purpose::Poll);
        if !is_poll {
            self.slots[index].awaits_room = false;
        }
        if is_poll && !cqueue::more(flags) {
            self.starved.push((index, tag.generation()));
        }
        Some(Signal::Ready { readable: is_poll, closing: is_poll && closing })
    }

    /// A message was not sent, or not all of it. If the connection is lost, the receive ends too, after the server's last
    /// message.
    #[cold]
    fn unsent(&mut self, index: usize, result: i32) -> Option<Signal> {
        let slot = &mut self.slots[index];
        if std::mem::take(&mut slot.sent_as) != Slot::UNSENT {
            return None;
        }
        Some(Signal::Unsent { n_bytes: slot.sent_bytes.saturating_sub(result.max(0) as u32) as usize })
    }

    /// A completion of a client's receive.
    #[inline]
    fn received(
        &mut self,
        index: usize,
        completion: Completion,
        piece: Option<ReceivedPiece>,
    ) -> Option<Signal> {
        let Completion { result, goes_on, is_early } = completion;
        let goes_on_later = result > 0 || result == -libc::ENOBUFS || result == -libc::EINTR;
        if !goes_on && goes_on_later {
            self.starved.push((index, self.slots[index].generation));
        }
        if goes_on_later {
            return piece.map(|piece| if is_early { Signal::Early(piece) } else { Signal::Input(piece) });
        }
        if let Some(piece) = piece {
            self.buffers.release(piece);
        }
        self.slots[index].watch = Watch::Nothing;
        Some(Signal::Ended(match result {
            0 => io::Error::new(io::ErrorKind::UnexpectedEof, "the server closed the connection"),
            error => io::Error::from_raw_os_error(-error),
        }))
    }

    /// The bytes of a piece.
    #[inline]
    pub(super) fn input(&self, piece: &ReceivedPiece) -> &[u8] {
        self.buffers.get(piece)
    }

    /// Returns a piece's buffer.
    #[inline]
    pub(super) fn release(&mut self, piece: ReceivedPiece) {
        self.buffers.release(piece);
    }

    /// Queues a request; if the queue is full, the kernel takes what is in it first.
    #[inline]
    fn push(&mut self, entry: Entry, tag: Tag) -> io::Result<()> {
        let entry = entry.user_data(tag.0);
        loop {
            // SAFETY: a send points into the outbox, whose memory is never freed, and not written to before the kernel
            // has taken all requests, after which it does not read there any more. No other request points to memory.
            if unsafe { self.ring.submission().push(&entry) }.is_ok() {
                self.n_queued += 1;
                return Ok(());
            }
            self.submit()?;
            // The kernel takes nothing while its completion queue is full.
            self.collect();
        }
    }

    fn submit(&mut self) -> io::Result<()> {
        let submitted = self.ring.submit();
        self.count_taken(submitted)
    }
}

/// Notes that a message was not sent before reporting the input that came with it, which cannot answer that message.
#[cold]
fn note_unsent(slots: &mut [Slot], entry: &cqueue::Entry) {
    let tag = Tag(entry.user_data());
    let has_no_room = entry.result() >= 0 || entry.result() == -libc::EAGAIN;
    if let Some(slot) = slots.get_mut(tag.index())
        && slot.generation == tag.generation()
        && has_no_room
    {
        slot.sent_as = Slot::UNSENT;
    }
}

/// A timeout and an interruption are not errors of a wait; a full completion queue is emptied next.
fn tolerate(result: io::Result<usize>) -> io::Result<()> {
    match result {
        Err(e) => match e.raw_os_error().map(Errno::from_raw) {
            Some(Errno::ETIME | Errno::EINTR | Errno::EBUSY | Errno::EAGAIN) => Ok(()),
            _ => Err(e),
        },
        Ok(_) => Ok(()),
    }
}
