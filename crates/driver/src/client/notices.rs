//! Notices and warnings that the server raises under load. Some are reported, the others counted: a script may raise one
//! per statement, and reporting may not cost more than the load.

use wire::ServerError;

/// Most notices of one piece of input that are read.
const READ_MAX: usize = 16;
/// Most notices that a thread reports in a second, unless all are wanted.
const TOLD_MAX: u32 = 100;
/// Most of those even then, and most bytes of them: reported notices wait in memory until somebody reads them.
const ALL_TOLD_MAX: u32 = 10_000;
const TOLD_BYTES_MAX: usize = 16 << 20;

/// A notice that nobody has looked at yet.
#[derive(Debug)]
pub(crate) struct Notice {
    pub(crate) notice: ServerError,
    /// Whether it was raised by the Parse of the client's statement, whose text it may point into.
    pub(crate) is_of_parse: bool,
}

/// Notices of one client.
#[derive(Debug, Default)]
pub(crate) struct Notices {
    /// Report all of them.
    pub(crate) are_all_read: bool,
    read: Vec<Notice>,
    n_unread: u64,
}

impl Notices {
    /// Takes in the body of a NoticeResponse.
    #[cold]
    pub(crate) fn take_in(&mut self, body: &[u8], is_of_parse: bool) {
        match self.are_all_read || self.read.len() < READ_MAX {
            true => self.read.push(Notice { notice: wire::parse_error(body), is_of_parse }),
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
    told_bytes: usize,
    n_left_out: u64,
}

impl Budget {
    /// Takes the notices to report; the others are dropped, and none is kept.
    pub(crate) fn choose(&mut self, notices: &mut Notices) -> Vec<Notice> {
        let mut read = std::mem::take(&mut notices.read);
        let n_max = if notices.are_all_read { ALL_TOLD_MAX } else { TOLD_MAX };
        let n_before = read.len();
        read.retain(|notice| {
            let is_told = self.n_told < n_max && self.told_bytes < TOLD_BYTES_MAX;
            if is_told {
                self.n_told += 1;
                self.told_bytes += notice.notice.n_bytes();
            }
            is_told
        });
        self.n_left_out += std::mem::take(&mut notices.n_unread) + (n_before - read.len()) as u64;
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
            (0..20).for_each(|_| notices.take_in(b"SNOTICE\0Mhello\0\0", false));
            assert!(!notices.is_empty());
            n_told += budget.choose(&mut notices).len();
            assert!(notices.is_empty());
        }
        assert_eq!((n_told, budget.renew()), (100, 100));
        assert_eq!(budget.renew(), 0);
        let mut notices = Notices { are_all_read: true, ..Notices::default() };
        (0..500).for_each(|_| notices.take_in(b"SNOTICE\0Mhello\0\0", true));
        assert_eq!((budget.choose(&mut notices).len(), budget.renew()), (500, 0));
        assert!(notices.are_all_read, "also the next ones");
        (0..10_500).for_each(|_| notices.take_in(b"SNOTICE\0Mhello\0\0", true));
        assert_eq!(
            (budget.choose(&mut notices).len(), budget.renew()),
            (10_000, 500),
            "a server may not stop"
        );
        let long = [&b"SNOTICE\0M"[..], &[b'x'; 60_000], b"\0\0"].concat();
        (0..1000).for_each(|_| notices.take_in(&long, true));
        let n_told = budget.choose(&mut notices).len();
        assert!((200..300).contains(&n_told), "{n_told} of 60,000 bytes");
    }
}
