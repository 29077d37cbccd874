//! The memory from which the kernel sends messages.

/// Memory for messages, written one after the other. A lent message stays unchanged until [`Outbox::reclaim`], and the
/// memory is never freed: no request in a ring can point to memory that has another use.
pub(super) struct Outbox {
    memory: &'static mut [u8],
    n_used: usize,
}

/// A message in the outbox, for one request to send it.
#[derive(Debug)]
pub(super) struct Lent {
    address: *const u8,
    len: u32,
}

impl Lent {
    pub(super) fn address(&self) -> *const u8 {
        self.address
    }

    pub(super) fn len(&self) -> u32 {
        self.len
    }
}

/// Room for as many messages as a ring queues, if they are as long as those of the built-in scripts.
const OUTBOX_BYTES: usize = 64 * 1024;

impl Outbox {
    pub(super) fn new() -> Outbox {
        Outbox { memory: vec![0; OUTBOX_BYTES].leak(), n_used: 0 }
    }

    /// Whether no message is lent.
    pub(super) fn is_free(&self) -> bool {
        self.n_used == 0
    }

    /// Copies a message; `None` if there is no room left for it.
    #[inline]
    pub(super) fn lend(&mut self, message: &[u8]) -> Option<Lent> {
        let end = self.n_used + message.len();
        let room = self.memory.get_mut(self.n_used..end)?;
        room.copy_from_slice(message);
        self.n_used = end;
        Some(Lent { address: room.as_ptr(), len: message.len() as u32 })
    }

    /// The kernel has taken every request that points here, and will not read the memory again.
    #[inline]
    pub(super) fn reclaim(&mut self) {
        self.n_used = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lent_message_stays_until_it_is_reclaimed() {
        let mut outbox = Outbox::new();
        let full = vec![b'x'; OUTBOX_BYTES - 3];
        let (one, other) = (outbox.lend(b"abc").unwrap(), outbox.lend(&full).unwrap());
        assert!(outbox.lend(b"d").is_none() && !outbox.is_free());
        assert_eq!((one.len(), other.len() as usize), (3, OUTBOX_BYTES - 3));
        assert_eq!(other.address() as usize - one.address() as usize, 3);
        assert_eq!(&outbox.memory[..5], b"abcxx");
        outbox.reclaim();
        assert!(outbox.is_free());
        assert_eq!(outbox.lend(b"d").unwrap().address(), one.address(), "the same memory again");
    }
}
