//! What requests are for, and how their completions find the client that they concern.

use std::os::fd::RawFd;

/// How a client's connection is watched.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Slot {
    pub(super) generation: u32,
    pub(super) watch: Watch,
    /// The descriptor, while it is watched.
    pub(super) fd: RawFd,
    /// The kernel keeps the file under the client's number.
    pub(super) is_at_hand: bool,
    /// A poll for room is under way.
    pub(super) awaits_room: bool,
    /// Length of the last message that was queued.
    pub(super) sent_bytes: u32,
    /// Its number among all requests of the ring, or [`Slot::UNSENT`].
    pub(super) sent_as: u64,
}

impl Slot {
    /// The kernel had no room for the message.
    pub(super) const UNSENT: u64 = u64::MAX;

    /// Requests made for the connection so far are to be ignored.
    pub(super) fn begin_generation(&mut self) {
        self.generation = self.generation.wrapping_add(1);
        self.awaits_room = false;
        self.sent_as = 0;
    }
}

/// The request that is always pending for a connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Watch {
    #[default]
    Nothing,
    /// The kernel receives.
    Receive,
    /// The kernel reports when the socket can be used: for connections that are being made, and encrypted ones.
    Poll {
        /// Events of poll(2).
        events: i16,
    },
}

/// The purpose of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    Receive = 1,
    Poll = 2,
    /// Room for a message that did not fit.
    Room = 3,
    Send = 4,
    /// How it ended does not matter.
    Cancel = 5,
    /// Nothing: the connection is to be read again in the next turn.
    LookAgain = 6,
    /// Nothing: the connection is to be read again, to its end.
    LookToTheEnd = 7,
}

/// Identity of a request: purpose, client and generation in one number.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tag(pub(super) u64);

impl Tag {
    pub(super) fn new(purpose: Purpose, index: usize, generation: u32) -> Tag {
        debug_assert!(index < 1 << 24);
        Tag((purpose as u64) << 56 | (index as u64) << 32 | u64::from(generation))
    }

    pub(super) fn is(self, purpose: Purpose) -> bool {
        self.0 >> 56 == purpose as u64
    }

    pub(super) fn index(self) -> usize {
        (self.0 >> 32) as usize & 0xff_ffff
    }

    pub(super) fn generation(self) -> u32 {
        self.0 as u32
    }
}
