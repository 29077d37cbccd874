//! The ring of buffers that the kernel receives into (`io_uring_register_buf_ring(3)`).

use std::alloc::{Layout, alloc_zeroed, handle_alloc_error};
use std::io;
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::Submitter;
use io_uring::types::BufRingEntry;

/// Received bytes in one of the buffers. Not `Copy`, because its buffer is returned once.
#[derive(Debug)]
pub(crate) struct ReceivedPiece {
    buffer: u16,
    len: u32,
}

impl ReceivedPiece {
    /// `len` bytes in buffer number `buffer`, as a completion reports them.
    pub(super) fn new(buffer: u16, len: u32) -> ReceivedPiece {
        ReceivedPiece { buffer, len }
    }

    #[cfg(test)]
    pub(super) fn number(&self) -> u16 {
        self.buffer
    }
}

/// The buffers. Memory that the kernel may write to must outlive every request, and nobody waits for requests at the end
/// of a load: so it is never freed. The process ends then anyway.
pub(super) struct Buffers {
    entries: *mut BufRingEntry,
    data: *mut u8,
    n: u16,
    tail: u16,
}

// SAFETY: the pointers are owned, and used by one thread at a time.
unsafe impl Send for Buffers {}

/// Room for the reply to any statement of the built-in scripts; longer ones come in several pieces.
pub(super) const BUFFER_BYTES: usize = 2048;
/// The ring has to begin at a page; no machine that we know has larger pages than this.
const PAGE_BYTES: usize = 64 * 1024;
/// The one group of buffers of a thread's ring.
pub(super) const GROUP: u16 = 0;

impl Buffers {
    /// `n` buffers, a power of two up to 32,768, all of them offered to the kernel.
    pub(super) fn register(submitter: &Submitter, n: u16) -> io::Result<Buffers> {
        debug_assert!(n.is_power_of_two());
        let entries = leak(usize::from(n) * size_of::<BufRingEntry>()).cast::<BufRingEntry>();
        // SAFETY: the memory has room for `n` entries, is aligned to a page, and is never freed.
        unsafe { submitter.register_buf_ring_with_flags(entries as u64, n, GROUP, 0)? };
        let mut buffers = Buffers { entries, data: leak(usize::from(n) * BUFFER_BYTES), n, tail: 0 };
        for buffer in 0..n {
            buffers.offer(buffer);
        }
        buffers.publish();
        Ok(buffers)
    }

    /// The bytes of a piece.
    #[inline]
    pub(super) fn get(&self, piece: &ReceivedPiece) -> &[u8] {
        let len = (piece.len as usize).min(BUFFER_BYTES);
        // SAFETY: the buffer is ours, since the kernel named it, and the kernel does not write to it again
        // before it is offered again, for which `release` takes the piece.
        unsafe { std::slice::from_raw_parts(self.data.add(usize::from(piece.buffer) * BUFFER_BYTES), len) }
    }

    /// Offers a piece's buffer to the kernel again.
    #[inline]
    pub(super) fn release(&mut self, piece: ReceivedPiece) {
        self.offer(piece.buffer);
        self.publish();
    }

    #[inline]
    fn offer(&mut self, buffer: u16) {
        let place = usize::from(self.tail & (self.n - 1));
        // SAFETY: the place is inside of the ring. The kernel reads entries only up to the published tail, and this
        // one is behind it.
        let entry = unsafe { &mut *self.entries.add(place) };
        // SAFETY: the buffer is inside of the data.
        entry.set_addr(unsafe { self.data.add(usize::from(buffer) * BUFFER_BYTES) } as u64);
        entry.set_len(BUFFER_BYTES as u32);
        entry.set_bid(buffer);
        self.tail = self.tail.wrapping_add(1);
    }

    #[inline]
    fn publish(&self) {
        // SAFETY: the ring's tail lies in its first entry, where the kernel reads it, and lives as long as the ring.
        let tail = unsafe { &*BufRingEntry::tail(self.entries).cast::<AtomicU16>() };
        tail.store(self.tail, Ordering::Release);
    }
}

/// Zeroed memory that begins at a page and is never freed.
fn leak(n_bytes: usize) -> *mut u8 {
    let layout = Layout::from_size_align(n_bytes, PAGE_BYTES).expect("a few megabytes are a valid size");
    // SAFETY: the size is not zero.
    let memory = unsafe { alloc_zeroed(layout) };
    if memory.is_null() {
        handle_alloc_error(layout);
    }
    memory
}
