//! Notices and warnings that the server raises under load. Some are told, the others counted: a script may raise one
//! for each statement, and telling must not cost more than the load.

use wire::ServerError;

/// Most notices of one piece of input that are read.
const READ_MAX: usize = 16;
/// Most notices that a thread tells in a second.
const TOLD_MAX: u32 = 100;

/// Notices of one client that nobody has looked at yet.
#[derive(Debug, Default)]
pub(crate) struct Notices {
    read: Vec<ServerError>,
    n_unread: u64,
}

impl Notices {
    /// Takes in the body of a NoticeResponse.
    #[cold]
    pub(crate) fn take_in(&mut self, body: &[u8]) {
        match self.read.len() < READ_MAX {
            true => self.read.push(wire::parse_error(body)),
            false => self.n_unread += 1,
        }
    }

    /// Whether there are none.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.read.is_empty()
    }
}

/// What a thread may still tell in this second.
#[derive(Debug, Default)]
pub(crate) struct Budget {
    n_told: u32,
    n_left_out: u64,
}

impl Budget {
    /// The notices that are to be told; the others are left out, and none is kept.
    pub(crate) fn choose(&mut self, notices: &mut Notices) -> Vec<ServerError> {
        let Notices { mut read, n_unread } = std::mem::take(notices);
        let n = read.len().min((TOLD_MAX - self.n_told) as usize);
        self.n_left_out += n_unread + (read.len() - n) as u64;
        self.n_told += n as u32;
        read.truncate(n);
        read
    }

    /// A second is over: how many were left out in it.
    pub(crate) fn renew(&mut self) -> u64 {
        std::mem::take(self).n_left_out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_told_is_counted() {
        let (mut budget, mut n_told) = (Budget::default(), 0);
        for _ in 0..10 {
            let mut notices = Notices::default();
            (0..20).for_each(|_| notices.take_in(b"SNOTICE\0Mhello\0\0"));
            assert!(!notices.is_empty());
            n_told += budget.choose(&mut notices).len();
            assert!(notices.is_empty());
        }
        assert_eq!((n_told, budget.renew()), (100, 100));
        assert_eq!(budget.renew(), 0);
    }
}
